"""The notebooks of samples/: their cells run one after the other in one process, by IPython's rules, where the value of
a cell's last expression is shown."""

import ast
import json

import pytest
from conftest import ROOT

pytestmark = pytest.mark.filterwarnings("ignore")


def run(cell, names):
    """The value of the cell's last expression."""
    tree = ast.parse(cell)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None


@pytest.mark.parametrize("path", sorted((ROOT / "samples").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook(library, path, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    book = json.loads(path.read_text())
    assert book["nbformat"] == 4 and len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    names, values, texts = {"__name__": "__main__"}, [], []
    for cell in book["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            texts += [source]
            continue
        assert cell["outputs"] == [] and cell["execution_count"] is None, "outputs do not belong in the repository"
        values.append(run(source, names))
    assert len(values) > 5 and any(values)
    links = [part.split(")")[0] for text in texts for part in text.split("](")[1:]]
    assert links and all((path.parent / link).exists() for link in links if "://" not in link)
    said = capsys.readouterr().out
    assert "SW2002" in said
