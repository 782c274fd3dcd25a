"""The pages that --html writes, opened in headless Chromium: clicked through, searched, looked at; no page asks a
network for anything, and names in files are text."""

import json
import os
import pathlib

import numpy as np
import onnx
import pytest
import torch
from chromium import Chromium
from safetensors.torch import save_file

pytestmark = pytest.mark.filterwarnings("ignore")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MINILM = ROOT / "samples" / "minilm.pt2"
OPEN_S = 2.0


@pytest.fixture(scope="module")
def browser():
    with Chromium() as chromium:
        yield chromium


@pytest.fixture(autouse=True)
def quiet(request):
    """After each test: nothing was asked for, and no script failed."""
    yield
    if "browser" in request.fixturenames:
        chromium = request.getfixturevalue("browser")
        requests, errors = chromium.requests[:], chromium.errors[:]
        chromium.requests.clear()
        chromium.errors.clear()
        assert not requests and not errors, (requests, errors)


def look(chromium, background=(255, 255, 255)):
    """Not blank: text and areas, on the background of the scheme."""
    colors = chromium.screenshot().colors()
    assert max(colors, key=colors.get) == background
    others = sum(colors.values()) - colors[background]
    assert len(colors) > 20 and others > 0.02 * sum(colors.values())
    return colors


def section(chromium, title):
    """The selector of the section with this title."""
    index = chromium.run(
        f"Array.from(document.querySelectorAll('section')).findIndex(s => s.querySelector('h2').textContent === "
        f"{json.dumps(title)})"
    )
    assert index >= 0, f"no section {title}: {chromium.text()}"
    return f"#section-{index}"


def rows(chromium, title):
    """The texts of the rows that are in the document."""
    return chromium.run(
        f"Array.from(document.querySelectorAll('{section(chromium, title)} tbody tr:not(.space)'))"
        ".map(tr => Array.from(tr.cells).map(td => td.textContent))"
    )


def search(chromium, selector, text):
    """Types into a field that is emptied first."""
    chromium.run(f"document.querySelector({json.dumps(selector)}).value = ''")
    chromium.type(selector, text)
    chromium.run("new Promise(done => setTimeout(done, 150))")


def click_text(chromium, within, text):
    """Clicks the button or tile that begins with a text."""
    chromium.run(
        f"""(() => {{
          document.querySelectorAll("[data-picked]").forEach(e => delete e.dataset.picked);
          const all = Array.from(document.querySelector({json.dumps(within)}).querySelectorAll("button, .tile"));
          const found = all.find(e => (e.getAttribute("aria-label") || e.textContent).startsWith({json.dumps(text)}));
          if (found) found.dataset.picked = 1;
        }})()"""
    )
    chromium.click("[data-picked]", corner=True)


def test_inspect_program(browser, slipway, tmp_path):
    page = tmp_path / "page.html"
    table = slipway("inspect", MINILM).stdout
    assert slipway("inspect", MINILM, "--html", page).stdout == table  # what the terminal shows stays
    assert browser.open(page) < OPEN_S
    look(browser)
    assert browser.run("document.title") == "slipway inspect: minilm.pt2"
    # The map of modules: into a module and back.
    modules = section(browser, "Modules")
    assert "all — 90.3 MB" in browser.text(modules)
    click_text(browser, modules, "encoder —")
    assert "all › encoder › layer — 42.6 MB" in browser.text(modules), browser.text(modules)  # the encoder's only one
    click_text(browser, modules, "encoder.layer.3 —")
    assert "all › encoder › layer › 3 — 7097.9 kB" in browser.text(modules), browser.text(modules)
    click_text(browser, f"{modules} .bar", "encoder")
    assert "all › encoder — 42.6 MB" in browser.text(modules), browser.text(modules)
    browser.run(f"window.choice = document.querySelector('{modules} select'); choice.selectedIndex = 1")
    browser.run("choice.dispatchEvent(new Event('change'))")
    assert "operations" in browser.text(f"{modules} .bar")
    look(browser)
    click_text(browser, modules, "its nodes")
    graph = section(browser, "Graph")
    browser.run("new Promise(done => setTimeout(done, 150))")
    assert "138 of 263 found" in browser.text(graph), browser.text(graph)
    assert browser.text(f"{graph} .list").startswith("encoder.layer.0.attention.self\n")
    # Dims with ranges and causes; operators sorted by a click.
    dims = rows(browser, "Dims")
    assert ["input_ids.1", "s53", "1..512", "16"] == dims[1][:4] and "at most 512" in dims[1][4]
    operators = rows(browser, "Operators")
    assert operators[0] == ["aten.linear.default", "36", "679.5 M"]
    browser.click(f"{section(browser, 'Operators')} th:nth-child(1) button")
    assert rows(browser, "Operators")[0][0] == "aten._assert_tensor_metadata.default"
    search(browser, f"{section(browser, 'Weights')} input", "layer.5 query")
    assert [row[0] for row in rows(browser, "Weights")] == [
        "encoder.layer.5.attention.self.query.weight",
        "encoder.layer.5.attention.self.query.bias",
    ]


def test_inspect_graph(browser, slipway, tmp_path):
    page = tmp_path / "page.html"
    slipway("inspect", MINILM, "--html", page)
    browser.open(page)
    graph = section(browser, "Graph")
    assert "159 nodes" in browser.text(graph)
    search(browser, "#graph-search", "layer_norm_3")
    assert "1 of 263 found" in browser.text(graph), browser.text(graph)
    browser.click(f"{graph} .row:not(.module)")
    panel = browser.text(f"{graph} .panel")
    assert panel.startswith("layer_norm_3") and "make_minilm.py:" in panel and "encoder.layer.1.attention" in panel
    # To a producer, to its user, back again.
    click_text(browser, f"{graph} .panel", "add_4")
    browser.wait(f"document.querySelector('{graph} .panel').innerText.startsWith('add_4')")
    assert "layer_norm_3 = aten.layer_norm.default" in browser.text(f"{graph} .panel")
    look(browser)
    click_text(browser, f"{graph} .panel", "layer_norm_3")
    browser.wait(f"document.querySelector('{graph} .panel').innerText.startsWith('layer_norm_3')")
    browser.run("history.back()")
    browser.wait(f"document.querySelector('{graph} .panel').innerText.startsWith('add_4')")
    assert browser.text(f"{graph} .row.picked").startswith("add_4 = ")


def big_model(path, layers=500, wide=20):
    nodes, weights, x = [], [], "x"
    value = onnx.helper.make_tensor_value_info
    for layer in range(layers):
        place, weight = f"/layers.{layer}/mlp", f"layers.{layer}.mlp.weight"
        weights.append(onnx.numpy_helper.from_array(np.full((16, 16), 0.1, np.float32), weight))
        nodes.append(onnx.helper.make_node("MatMul", [x, weight], [f"{layer}.0"], name=f"{place}/MatMul"))
        for k in range(1, wide - 1):
            nodes.append(
                onnx.helper.make_node("Tanh", [f"{layer}.{k - 1}"], [f"{layer}.{k}"], name=f"{place}/act{k}/Tanh")
            )
        nodes.append(
            onnx.helper.make_node("Add", [x, f"{layer}.{wide - 2}"], [f"y{layer}"], name=f"/layers.{layer}/Add")
        )
        x = f"y{layer}"
    ends = ([value("x", 1, ["batch", 16])], [value(x, 1, ["batch", 16])])
    graph = onnx.helper.make_graph(nodes, "big", *ends, weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), path)
    return len(nodes)


def test_ten_thousand_nodes(browser, slipway, tmp_path):
    """Opens in two seconds and answers a search in one; rows that are out of sight are not in the document."""
    assert big_model(tmp_path / "big.onnx") == 10000
    slipway("inspect", tmp_path / "big.onnx", "--html", tmp_path / "page.html")
    seconds = browser.open(tmp_path / "page.html")
    assert seconds < OPEN_S, seconds
    look(browser)
    graph = section(browser, "Graph")
    assert "10000 nodes" in browser.text(graph)
    assert browser.run("document.querySelectorAll('*').length") < 5000
    search(browser, "#graph-search", "layers.321 matmul")
    assert "321.0 = onnx.MatMul" in browser.text(f"{graph} .list")
    took = browser.run(
        """(async () => {
          const field = document.querySelector("#graph-search"), begin = performance.now();
          field.value = "layers.477 add";
          field.dispatchEvent(new Event("input"));
          while (!document.querySelector(".graph .list").innerText.includes("y477 = "))
            await new Promise(done => requestAnimationFrame(done));
          return performance.now() - begin;
        })()"""
    )
    assert took < 1000, took


def test_histograms(browser, slipway, tmp_path):
    """The counts are numpy's, NaN and infinities apart."""
    torch.manual_seed(0)
    tensors = {
        "normal": torch.randn(1000, 7),
        "half": torch.randn(513).to(torch.bfloat16) * 1e3,
        "byte": torch.arange(-128, 128).to(torch.int8),
        "zero": torch.zeros(9),
        "odd": torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0, 2.0, 3.5, 0.0]),
        "far": torch.tensor([1e-30, 1.0, 1e30, -3e38]),
        "one": torch.full((4,), 0.3),
        "float8": torch.randn(40).to(torch.float8_e4m3fn),
        "complex": torch.randn(3, dtype=torch.complex64),
        "transposed.weight": torch.randn(5, 8).t().contiguous(),
    }
    save_file(tensors, tmp_path / "w.safetensors")
    slipway("inspect", tmp_path / "w.safetensors", "--html", tmp_path / "page.html", "--histograms")
    browser.open(tmp_path / "page.html")
    data = browser.run("JSON.parse(document.getElementById('data').textContent)")
    table = next(s for s in data["sections"] if s["title"] == "Weights")
    histograms = {row[0]: h for row, h in zip(table["rows"], table["histograms"], strict=True)}
    assert set(histograms) == set(tensors)
    assert histograms.pop("complex") is None
    for name, h in histograms.items():
        values = tensors[name].double().flatten().numpy()
        finite = values[np.isfinite(values)]
        assert h["elements"] == len(values) and h["nan"] == np.isnan(values).sum()
        assert h["infinite"] == np.isinf(values).sum() and h["zeros"] == (values == 0).sum()
        assert (h["min"], h["max"]) == (finite.min(), finite.max())
        np.testing.assert_allclose([h["mean"], h["deviation"]], [finite.mean(), finite.std()], rtol=1e-9, atol=1e-12)
        edges = h["from"] + h["width"] * np.arange(len(h["counts"]) + 1)
        assert len(h["counts"]) <= 65 and sum(h["counts"]) == len(finite)
        wanted = [((finite >= a) & (finite < b)).sum() for a, b in zip(edges, edges[1:], strict=False)]
        assert h["counts"] == wanted, name
    assert len(histograms["normal"]["counts"]) > 30
    browser.click(f"{section(browser, 'Weights')} tbody tr:nth-child(7)")
    name = browser.run("document.querySelector('tr.picked td').textContent")
    assert f"{name}\n" in browser.text(section(browser, "Weights"))
    assert browser.run("document.querySelectorAll('section .chart rect').length") > 0
    look(browser)


def test_hostile_names(browser, slipway, tmp_path):
    """Names are text: no element, no script, no end of the page's data."""
    names = [
        "</script><script>document.title = 'taken'</script>",
        "<img src=http://example.com/x.png onerror=\"document.title = 'taken'\">",
        "<!--<script>",
        "\u202egpj.weight",
        'a"b\\c.\'d',
        "line\nbreak\u2028",
    ]
    folder = tmp_path / "<b>&"
    folder.mkdir()
    path = folder / "</title><i>.safetensors"
    path.parent.mkdir(exist_ok=True)
    save_file({name: torch.ones(2) for name in names}, tmp_path / "plain.safetensors")
    path = folder / "<i>&amp;.safetensors"
    os.rename(tmp_path / "plain.safetensors", path)
    slipway("inspect", path, "--html", tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    assert browser.run("document.title") == "slipway inspect: <i>&amp;.safetensors"
    assert browser.run("document.querySelectorAll('img, b i, section i, script').length") == 2  # data and script
    shown = [row[0] for row in rows(browser, "Weights")]
    assert len(shown) == len(names) and names[0] in shown and names[1] in shown
    assert not any(bad in text for text in shown for bad in "\u202e\u2028\n")


def test_page_policy(slipway, tmp_path):
    """The same bytes each time; nothing that is written in the file can be loaded or run but its own parts."""
    slipway("inspect", MINILM, "--html", tmp_path / "a.html")
    slipway("inspect", MINILM, "--html", tmp_path / "b.html")
    text = (tmp_path / "a.html").read_text()
    assert text == (tmp_path / "b.html").read_text()
    assert "default-src 'none'" in text and "unsafe" not in text
    assert text.replace("http://www.w3.org/2000/svg", "").count("://") == 0


def test_policy_stops_a_foreign_script(slipway, tmp_path):
    """A page to which somebody adds a script: the browser does not run it, and loads no picture."""
    slipway("inspect", MINILM, "--html", tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    added = "<script>document.title = 'taken'</script><img src='http://127.0.0.1:9/x.png'></body>"
    (tmp_path / "a.html").write_text(text.replace("</body>", added))
    with Chromium() as chromium:
        chromium.open(tmp_path / "a.html")
        assert chromium.run("document.title") == "slipway inspect: minilm.pt2"
        assert any("Content Security Policy" in error for error in chromium.errors)


def test_dark_and_narrow(slipway, tmp_path):
    slipway("inspect", MINILM, "--html", tmp_path / "page.html")
    with Chromium(width=400, height=800, dark=True) as chromium:
        chromium.open(tmp_path / "page.html")
        look(chromium, background=(20, 24, 29))
        assert chromium.run("document.documentElement.scrollWidth") <= 400  # what is wide scrolls by itself
        assert not chromium.errors


def test_places(slipway, tmp_path):
    """A page takes no input's place, and comes only where the command succeeds."""
    save_file({"w": torch.ones(2)}, tmp_path / "w.safetensors")
    before = (tmp_path / "w.safetensors").read_bytes()
    done = slipway("inspect", tmp_path / "w.safetensors", "--html", tmp_path / "w.safetensors", status=2)
    assert "would take the place" in done.stderr and (tmp_path / "w.safetensors").read_bytes() == before
    slipway("inspect", tmp_path / "w.safetensors", "--html", tmp_path / "none" / "x.html", status=5)
    slipway("inspect", tmp_path / "none.pt2", "--html", tmp_path / "x.html", status=5)
    assert not (tmp_path / "x.html").exists()
