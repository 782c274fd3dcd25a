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
    chromium.wait(f"document.querySelector({json.dumps(selector)}).dataset.searched === {json.dumps(text)}")


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
    assert browser.run("document.querySelector('#graph-search').value") == "module:encoder"
    assert "132 of 263 found" in browser.text(graph), browser.text(f"{graph} .bar")
    assert browser.text(f"{graph} .list").startswith("encoder.layer.0.attention.self.query\n")
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
    browser.wait(f"document.querySelector('{graph} .panel').innerText.startsWith('layer_norm_3')")
    panel = browser.text(f"{graph} .panel")
    assert "make_minilm.py:" in panel and "encoder.layer.1.attention" in panel
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


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


@pytest.fixture
def net(tmp_path):
    """A program, the same with one other weight in layer 2, and their input."""
    torch.manual_seed(1)
    model, x = Net().eval(), torch.randn(5, 32)
    for name in ("a", "b"):
        torch.export.save(torch.export.export(model, (x,)), tmp_path / f"{name}.pt2")
        save_file(model.state_dict(), tmp_path / f"{name}.safetensors")
        with torch.no_grad():
            model.layers[2].weight[3, 4] += 0.5
    save_file({"input.0": x}, tmp_path / "in.safetensors")
    return tmp_path


def chart(chromium, title):
    """What the marks of a chart say when they are pointed at."""
    return chromium.run(
        f"Array.from(document.querySelectorAll('{section(chromium, title)} .mark title')).map(t => t.textContent)"
    )


def test_diff(browser, slipway, net):
    table = slipway("diff", net / "a.safetensors", net / "b.safetensors", status=1).stdout
    done = slipway("diff", net / "a.safetensors", net / "b.safetensors", "--html", net / "d.html", status=1)
    assert done.stdout == table
    browser.open(net / "d.html")
    assert browser.run("document.title") == "slipway diff: they differ"
    assert "of them equal\n7" in browser.text("dl")
    [row] = rows(browser, "Tensors that differ")
    assert row[0] == "layers.2.weight" and row[4:6] == ["1", "1,024"]
    assert chart(browser, "Largest difference by tensor") == ["layers.2.weight: 0.5"]
    look(browser)
    # Two ONNX models: their graphs, too.
    for name in ("a", "b"):
        slipway("convert", net / f"{name}.pt2", "-o", net / f"{name}.onnx", *(["--opset", 21] if name == "b" else []))
    slipway("diff", net / "a.onnx", net / "b.onnx", "--html", net / "d.html", status=1)
    browser.open(net / "d.html")
    assert ["opset", "ai.onnx", "20", "21"] in rows(browser, "Graphs")
    slipway("diff", net / "a.onnx", net / "a.onnx", "--html", net / "d.html")
    browser.open(net / "d.html")
    assert browser.run("document.title") == "slipway diff: they are equal"
    slipway("diff", net / "a.onnx", net / "b.onnx", "--html", net / "b.onnx", status=2)


def test_verify(browser, slipway, net):
    """Each node's error; the first that differs is where the weight does."""
    slipway(
        "verify", net / "a.pt2", net / "b.pt2", "--inputs", net / "in.safetensors", "--html", net / "v.html", status=1
    )
    browser.open(net / "v.html")
    assert browser.run("document.title") == "slipway verify: they differ"
    assert "linear_2 = aten.linear.default at layers.2" in browser.text("dl")
    errors = chart(browser, "Error by layer")
    assert len(errors) == 8 and [e.endswith(": 0") for e in errors] == [True] * 4 + [False] * 4
    assert errors[4].startswith("linear_2 = aten.linear.default in layers.2")
    assert len(chart(browser, "Error by module")) >= 4
    browser.run(f"document.querySelector('{section(browser, 'Error by layer')}').scrollIntoView()")
    look(browser)
    browser.click(f"{section(browser, 'Error by layer')} .mark:nth-of-type(5)")
    assert browser.text(f"{section(browser, 'Error by layer')} .hint").startswith("linear_2")
    assert rows(browser, "Outputs")[0][1] == "differs"
    # A library shows no values: what slipway converts of the program does.
    slipway("convert", net / "a.pt2", "-o", net / "a.so")
    slipway("verify", net / "a.pt2", net / "a.so", "--inputs", net / "in.safetensors", "--html", net / "v.html")
    browser.open(net / "v.html")
    errors = rows(browser, "Layers")
    assert len(errors) == 8 and all(row[4] == "agrees" and float(row[5]) < 1e-4 for row in errors)


def test_run(browser, slipway, net):
    """Times add up to the table's, and the products' operations are those of four matrices."""
    arguments = ("run", net / "a.pt2", "--inputs", net / "in.safetensors", "--outputs", net / "out.safetensors")
    done = slipway(*arguments, "--profile", "--json", "--html", net / "r.html")
    profile = json.loads(done.stdout)["profile"]
    browser.open(net / "r.html")
    steps = rows(browser, "Steps")
    assert len(steps) == json.loads(done.stdout)["steps"]
    assert sorted(row[0] for row in rows(browser, "Operators")) == sorted(row["op"] for row in profile)
    products = [row for row in steps if row[6] not in ("", "0")]
    assert [row[6] for row in products] == [f"{2 * 5 * 32 * 32 / 1000:.1f} k"] * 4
    assert [row[2].split(" ")[0] for row in products] == [f"layers.{i}" for i in range(4)]
    bytes_each = 4 * (5 * 32 + 32 * 32 + 32 + 5 * 32)
    assert all(row[7] == f"{bytes_each} bytes" for row in products), (bytes_each, products)
    marks = chart(browser, "Roofline")
    assert len(marks) == 4 and "operations a byte" in marks[0]
    browser.run(f"document.querySelector('{section(browser, 'Roofline')}').scrollIntoView()")
    look(browser)
    modules = section(browser, "Time by module")
    click_text(browser, modules, "layers —")
    click_text(browser, modules, "layers.2 —")
    assert "all › layers › 2 — " in browser.text(modules)
    # A library tells the same steps, and twice as much of two runs.
    slipway("convert", net / "a.pt2", "-o", net / "a.so")
    slipway(
        "run", net / "a.so", "--inputs", net / "in.safetensors", "--outputs", net / "out.safetensors", "--repeat", 2,
        "--profile", "--html", net / "l.html",
    )  # fmt: skip
    browser.open(net / "l.html")
    products = [row for row in rows(browser, "Steps") if row[6] not in ("", "0")]
    assert [row[2].split(" ")[0] for row in products] == [f"layers.{i}" for i in range(4)]
    assert [row[6] for row in products] == [f"{2 * 2 * 5 * 32 * 32 / 1000:.1f} k"] * 4
    assert len(chart(browser, "Roofline")) == 4
    slipway(*arguments, "--html", net / "x.html", status=2)  # without a profile there is nothing to draw
    slipway(*arguments, "--profile", "--html", net / "in.safetensors", status=2)


def test_quantize(browser, slipway, net):
    arguments = ("quantize", net / "a.safetensors", "-o", net / "q.safetensors", "--html", net / "q.html", "--json")
    report = json.loads(slipway(*arguments, "--config", "int8-weight-only").stdout)
    browser.open(net / "q.html")
    look(browser)
    assert len(chart(browser, "Relative error by weight")) == 4
    sizes = chart(browser, "Bytes by weight")
    after = report["weights"][0]["bytes_after"]
    assert sizes[:2] == ["layers.0.weight before: 4096 bytes", f"layers.0.weight after: {after} bytes"]
    assert len(sizes) == 8
    assert "relative error" in browser.run("document.querySelector('.of-bars svg').textContent")
    # What a budget chose among.
    report = json.loads(slipway(*arguments, "--config", "auto", "--error-budget", "6%").stdout)
    browser.open(net / "q.html")
    chosen = {row[0]: row[1] for row in rows(browser, "Candidates") if row[4] == "yes"}
    assert chosen == {w["name"]: w["config"] or "(as it is)" for w in report["weights"]}
    assert len(set(chosen.values())) > 1
    candidates = chart(browser, "Error against size of each candidate")
    assert len(candidates) == 8  # int8 and int4 in groups of 32 of four weights
    path = chart(browser, "Error against size, step by step")
    assert path[0].startswith("as it is: ") and len(path) >= 4
    browser.run(f"document.querySelector('{section(browser, 'Error against size, step by step')}').scrollIntoView()")
    look(browser)
    assert "--error-budget 6%" in browser.run("document.querySelector('.of-scatter svg').textContent")


def test_minify(browser, slipway, net):
    slipway(
        "minify",
        net / "a.pt2",
        "-o",
        net / "out",
        "--check",
        "! grep -q aten.relu {ir}",
        "--html",
        net / "m.html",
        "-q",
    )
    browser.open(net / "m.html")
    look(browser)
    assert "nodes\n8 → 1" in browser.text("dl")
    assert rows(browser, "What is left")[0][1] == "aten.relu.default"
    steps = rows(browser, "What was done")
    assert steps and steps[-1][3] == "1" and steps[0][2] == "8"
    assert len(chart(browser, "Nodes after each step")) == len(steps) + 1
    graph = section(browser, "Graph of what is left")
    search(browser, "#graph-search", "relu")
    browser.click(f"{graph} .row:not(.module)")
    browser.wait(f"document.querySelector('{graph} .panel').innerText.includes('aten.relu.default')")
    assert "aten.relu.default" in browser.text(section(browser, "As text"))
    slipway("minify", net / "a.pt2", "-o", net / "o", "--check", "false", "--html", net / "a.pt2", "-q", status=2)
    assert not (net / "o").exists()


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
