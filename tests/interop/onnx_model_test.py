"""ONNX models as slipway reads them: `inspect`, `diff`, and what `minify` leaves of those that onnxruntime or a command
fails on.

onnx makes the models and judges what is written; repro.py must fail with onnxruntime and numpy alone.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from json_schema import conform
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FLOAT = TensorProto.FLOAT


def value(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def saved(path, nodes, inputs, outputs, weights=(), opset=20, domains=(), functions=(), **more):
    tensors = [numpy_helper.from_array(array, name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1) for domain in domains]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=list(functions)), path, **more)
    return path


def chain(path, **more):
    """50 nodes in a row, one of them a Relu."""
    random, nodes, weights, last = np.random.RandomState(0), [], {}, "x"
    for i in range(50):
        if i % 4 == 0:
            weights[f"w{i}"] = random.randn(8, 8).astype(np.float32)
        operands = [last, f"w{i}"] if i % 4 == 0 else [last]
        kind = "MatMul" if i % 4 == 0 else "Relu" if i == 33 else ("Sigmoid", "Tanh", "Softplus")[i % 4 - 1]
        nodes.append(helper.make_node(kind, operands, [f"n{i}"], name=f"/layer{i}/{kind}"))
        last = f"n{i}"
    return saved(path, nodes, [value("x", ["B", 8])], [value(last, ["B", 8])], weights, **more)


def branches(path):
    """25 nodes: two branches that meet; one has a Relu, the other a Tanh."""
    nodes = [helper.make_node("Sin", ["x"], ["start"])]
    for branch, odd in (("a", "Relu"), ("b", "Tanh")):
        last = "start"
        for i in range(11):
            kind = odd if i == 4 else ("Sigmoid", "Cos", "Exp")[i % 3]
            nodes.append(helper.make_node(kind, [last], [f"{branch}{i}"]))
            last = f"{branch}{i}"
    nodes += [helper.make_node("Add", ["a10", "b10"], ["join"]), helper.make_node("Neg", ["join"], ["end"])]
    return saved(path, nodes, [value("x", [4, 8])], [value("end", [4, 8])])


def conditional(path):
    """A node that no runtime has, in a branch of an If that reads values and a weight of its own."""
    own = [numpy_helper.from_array(np.array([3], np.float32), "k")]
    then = helper.make_graph(
        [
            helper.make_node("Mul", ["a", "k"], ["t0"]),
            helper.make_node("Missing", ["t0"], ["t1"], domain="com.none", alpha=0.5),
            # fmt: skip
            helper.make_node("Sin", ["t1"], ["t2"]),
        ],
        "then",
        [],
        [value("t2", None)],
        own,
    )
    other = helper.make_graph([helper.make_node("Neg", ["a"], ["e0"])], "else", [], [value("e0", None)])
    nodes = [
        helper.make_node("Sin", ["x"], ["a"]),
        helper.make_node("ReduceSum", ["a"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
        # fmt: skip
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other, name="choice"),
        helper.make_node("Cos", ["y"], ["z"]),
    ]
    return saved(path, nodes, [value("x", ["N", 4])], [value("z", None)], domains=["com.none"])


def padded(path, scale=1.0):
    """A padding with zeros before a pool: onnxruntime's optimizer makes the zeros infinitely small (Pad_Fusion)."""
    random, weights = np.random.RandomState(0), {"five": np.float32(5), "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    weights["w"] = (random.randn(4, 4, 3, 3) * 0.3 * scale).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
    helper.make_node("Sub", ["c", "five"], ["low"]),
             helper.make_node("Pad", ["low", "pads"], ["padded"]),
             helper.make_node("MaxPool", ["padded"], ["pool"], kernel_shape=[3, 3]),
             helper.make_node("Tanh", ["pool"], ["y"])]  # fmt: skip
    return saved(path, nodes, [value("x", ["N", 4, 8, 8])], [value("y", ["N", 4, 8, 8])], weights, opset=18)


def operators(folder):
    """The operators of min.onnx, nested graphs included."""
    found = []

    def walk(graph):
        for node in graph.node:
            found.append(node.op_type)
            for a in node.attribute:
                if a.HasField("g"):
                    walk(a.g)

    walk(onnx.load(folder / "min.onnx").graph)
    return found


def probes(done):
    return int(re.search(r"probe (\d+) ", done.stderr).group(1))


@pytest.fixture
def minify(slipway, tmp_path, monkeypatch):
    """Minifies in tmp_path with this Python's onnxruntime; checks that both repros exit as they should and that nothing
    is absolute."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLIPWAY", os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway")))
    monkeypatch.setenv("PATH", f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")

    def call(model, check, out="out", code=1, shell=None):
        done = slipway("minify", model, "-o", out, "--check", check)
        folder = tmp_path / out
        for name in ("min.ir", "repro.py", "repro.sh", "report.md", "probes.log"):
            assert str(tmp_path) not in (folder / name).read_text()
        run = subprocess.run([sys.executable, folder / "repro.py"], capture_output=True, text=True)
        assert run.returncode == code, run.stdout + run.stderr
        run = subprocess.run(["sh", folder / "repro.sh"], capture_output=True, text=True)
        assert run.returncode == (code if shell is None else shell), run.stdout + run.stderr
        return done

    return call


def test_chain(minify, slipway, tmp_path):
    model = chain(tmp_path / "chain.onnx")
    done = minify("chain.onnx", "! grep -q Relu {}")
    assert "50 → 1 node · 1 input" in done.stderr and probes(done) <= 15
    assert operators(tmp_path / "out") == ["Relu"]
    onnx.checker.check_model(str(tmp_path / "out" / "min.onnx"), full_check=True)
    assert "/layer33/Relu" in (tmp_path / "out" / "report.md").read_text()
    subprocess.run([sys.executable, "out/repro.py", "--run"], check=True)
    # The same again gives the same bytes; a run on what is there asks nothing.
    minify("chain.onnx", "! grep -q Relu {}", "again")
    for name in ("min.onnx", "min.ir", "inputs.safetensors", "report.md", "repro.py"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert " 0 asked now" in slipway("minify", "chain.onnx", "-o", "out", "--check", "! grep -q Relu {}").stderr
    # Where sizes must stay, the input is what onnxruntime computed there.
    minify("chain.onnx", "! grep -qE '\\[(B|2),8\\] = onnx.Relu' {ir}", "values")
    m = onnx.load(model)
    m.graph.output.append(value("n32", ["B", 8]))
    x = load_file(tmp_path / "values" / "inputs.safetensors")["input.0"]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(m.SerializeToString(), options)
    slipway("minify", "chain.onnx", "-o", "first", "--check", "exit 1 # {}", "--max-probes", "2")
    first = load_file(tmp_path / "first" / "inputs.safetensors")["input.0"]
    np.testing.assert_array_equal(session.run(["n32"], {"x": first})[0], x)


def test_external_data(minify, slipway, tmp_path):
    (tmp_path / "model").mkdir()
    chain(tmp_path / "model" / "chain.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    chain(tmp_path / "chain.onnx")
    assert (
        "the graphs are equal\n13 of 13 common tensors are equal"
        in slipway("diff", "model/chain.onnx", "chain.onnx").stdout
    )
    assert "weights.bin  3328 bytes" in slipway("inspect", "model/chain.onnx").stdout
    minify("model/chain.onnx", "! grep -aq MatMul {}")
    assert operators(tmp_path / "out") == ["MatMul"]


def test_branches(minify, tmp_path):
    branches(tmp_path / "branches.onnx")
    (tmp_path / "meet.sh").write_text(
        "grep -q onnx.Relu $1 && grep -q onnx.Tanh $1 && grep -qE 'onnx.Add..%[ab][0-9]+, %[ab][0-9]+' $1 && exit 3; "
        "exit 0"
    )
    done = minify("branches.onnx", "sh meet.sh {ir}", code=3)
    assert "25 → 3 nodes" in done.stderr
    assert sorted(operators(tmp_path / "out")) == ["Add", "Relu", "Tanh"]


def test_nested(minify, tmp_path):
    conditional(tmp_path / "if.onnx")
    done = minify("if.onnx", "run", shell=3)
    assert "9 → 1 node " in done.stderr
    assert operators(tmp_path / "out") == ["Missing"]
    # With the control flow, where the failure needs it; its branches stay valid.
    minify("if.onnx", "! (grep -q com.none::Missing {ir} && grep -q onnx.If {ir})", "whole")
    assert sorted(operators(tmp_path / "whole")) == ["If", "Missing", "Neg"]


def test_optimizer(minify, tmp_path):
    padded(tmp_path / "pad.onnx")
    done = minify("pad.onnx", "accuracy:ort-unoptimized")
    assert "5 → 2 nodes · 1 input" in done.stderr
    assert operators(tmp_path / "out") == ["Pad", "MaxPool"]


def test_conversions(minify, tmp_path):
    """What slipway itself says of a model: the operator that it does not read is what is left."""
    text = """<ir_version: 9, opset_import: ["" : 17]>
      g (float[4, 3] x) => (float[4, 3] y) {
        a = Relu (x)
        rate = Constant <value = float {0.5}> ()
        train = Constant <value = bool {1}> ()
        b = Dropout (a, rate, train)
        y = Exp (b)
      }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    minify("m.onnx", "convert:so", code=4)
    assert "Dropout" in operators(tmp_path / "out") and "Exp" not in operators(tmp_path / "out")
    minify("m.onnx", "diagnostic:SW2002@onnx", "again", code=4)
    assert "Dropout" in operators(tmp_path / "again") and "Relu" not in operators(tmp_path / "again")
    padded(tmp_path / "pad.onnx")
    minify("pad.onnx", "accuracy:so", "wrong")  # onnxruntime's optimizer is, as in test_optimizer
    assert operators(tmp_path / "wrong") == ["Pad", "MaxPool"]


def test_other(minify, slipway, tmp_path):
    padded(tmp_path / "pad.onnx")
    padded(tmp_path / "other.onnx", scale=1.5)
    minify("pad.onnx", "accuracy:other.onnx")
    assert operators(tmp_path / "out") == ["Conv"]
    assert "$" not in slipway("diff", "pad.onnx", "other.onnx", status=1).stdout
    assert "SW6101" in slipway("minify", "pad.onnx", "-o", "good", "--check", "accuracy:pad.onnx", status=1).stderr


def test_failing_while_it_runs(minify, tmp_path):
    """What is computed before the node that fails is known, though the model does not run to its end."""
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Cast", ["a"], ["i"], to=TensorProto.INT64),
        # fmt: skip
        helper.make_node("Add", ["i", "ten"], ["far"]),
        helper.make_node("Gather", ["table", "far"], ["g"]),
        helper.make_node("Sin", ["g"], ["y"]),
    ]
    saved(
        tmp_path / "gather.onnx",
        nodes,
        [value("x", [3])],
        [value("y", None)],
        {"ten": np.array(10), "table": np.ones((4, 2), np.float32)},
    )
    minify("gather.onnx", "run", shell=3)
    assert operators(tmp_path / "out") == ["Gather"]
    assert (load_file(tmp_path / "out" / "inputs.safetensors")["input.0"] >= 10).all()


def test_usage(slipway, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chain(tmp_path / "chain.onnx")
    chain(tmp_path / "other.onnx")
    for check in ("true", "cat {pt2}"):
        slipway("minify", "chain.onnx", "-o", "out", "--check", check, status=2)
    for check in ("convert:onnx", "accuracy:so", "diagnostic:SW2001"):
        assert "SW6101" in slipway("minify", "chain.onnx", "-o", "out", "--check", check, status=1).stderr
    assert (
        "SW6002"
        in slipway("minify", "chain.onnx", "-o", "out", "--check", "run", "--python", "/bin/false", status=4).stderr
    )
    assert (
        "SW6101"
        in slipway("minify", "chain.onnx", "-o", "out", "--check", "run", "--python", sys.executable, status=1).stderr
    )
    assert not (tmp_path / "x.pt2").exists()


def everything(path):
    """What a model may have beside a plain graph."""
    function = helper.make_function(
        "local", "Twice", ["x"], ["y"], [helper.make_node("Add", ["x", "x"], ["y"])], [helper.make_opsetid("", 20)]
    )
    nan = helper.make_attribute("nan", float("nan"))
    custom = helper.make_node(
        "Custom",
        ["t", "", "b"],
        ["c", "", "d"],
        domain="com.none",
        name="odd",
        doc_string="what",
        s=b"\xff\0",
        fs=[0.1, -0.0],
        t=helper.make_tensor("", FLOAT, [2], [1, 2]),
    )
    custom.attribute.extend([nan, helper.make_attribute("ints", [], attr_type=onnx.AttributeProto.INTS)])
    body = helper.make_graph([helper.make_node("Add", ["v", "scale"], ["w"]),
    helper.make_node("Identity", ["keep"], ["keep_out"])], "body",
                             [value("i", [], TensorProto.INT64), value("keep", [], TensorProto.BOOL),
                             value("v", ["N", 2])],
                             [value("keep_out", [], TensorProto.BOOL), value("w", ["N", 2])])  # fmt: skip
    nodes = [helper.make_node("Twice", ["x"], ["t"], domain="local"), custom,
             helper.make_node("Loop", ["", "go", "t"], ["l"], body=body),
             helper.make_node("SequenceConstruct", ["l", "l"], ["seq"]),
             helper.make_node("Relu", ["words_len"], ["r"])]  # fmt: skip
    graph = helper.make_graph(nodes, "graph",
    [value("x", ["N", 2]), value("b", ["2*N"]), value("go", [], TensorProto.BOOL), value("scale", [2])],
                              [helper.make_tensor_sequence_value_info("seq", FLOAT, ["N", 2]), value("c", None),
                              value("r", [2])],
                              [numpy_helper.from_array(np.array([1, 2], np.float32), "scale"),
                              helper.make_tensor("half", TensorProto.BFLOAT16, [2], [1.0, 2.0]),
                               helper.make_tensor("words", TensorProto.STRING, [2], [b"a", b"b"])])  # fmt: skip
    graph.sparse_initializer.append(
        helper.make_sparse_tensor(
            helper.make_tensor("words_len", FLOAT, [1], [3.0]), helper.make_tensor("", TensorProto.INT64, [1], [1]), [2]
        )
    )
    model = helper.make_model(
        graph,
        opset_imports=[
            helper.make_opsetid("", 20),
            helper.make_opsetid("com.none", 1),
            helper.make_opsetid("local", 1),
        ],
        functions=[function],
        ir_version=9,
    )
    helper.set_model_props(model, {"author": "nobody"})
    annotation = model.graph.quantization_annotation.add()
    annotation.tensor_name = "t"
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    onnx.save(model, path)
    return model


def test_round_trip(slipway, tmp_path, monkeypatch):
    """What minify asks about first is the model itself, written again."""
    monkeypatch.chdir(tmp_path)
    model = everything(tmp_path / "all.onnx")
    slipway("minify", "all.onnx", "-o", "out", "--check", "exit 1 # {}", "--max-probes", "2", "--python", "/bin/false")
    again = onnx.load(tmp_path / "out" / "min.onnx")
    assert [n.SerializeToString() for n in again.graph.node if n.op_type != "Loop"] == [
        n.SerializeToString() for n in model.graph.node if n.op_type != "Loop"
    ]
    loops = [next(n for n in m.graph.node if n.op_type == "Loop") for m in (again, model)]
    assert [[n.SerializeToString() for n in loop.attribute[0].g.node] for loop in loops[:1]] == [
        [n.SerializeToString() for n in loop.attribute[0].g.node] for loop in loops[1:]
    ]
    for field in ("functions", "opset_import", "metadata_props"):
        assert getattr(again, field) == getattr(model, field)
    for field in ("input", "output", "sparse_initializer", "quantization_annotation"):
        assert [x.SerializeToString() for x in getattr(again.graph, field)] == [
            x.SerializeToString() for x in getattr(model.graph, field)
        ]
    assert sorted(t.name for t in again.graph.initializer) == ["half", "scale", "words"]
    assert "the graphs are equal" in slipway("diff", "all.onnx", "out/min.onnx").stdout


def test_inspect_and_diff(slipway, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = everything(tmp_path / "all.onnx")
    report = json.loads(slipway("inspect", "all.onnx", "--json").stdout)
    conform(report, "inspect")
    assert report["onnx"] == {
        "ir_version": 9,
        "opsets": {"": 20, "com.none": 1, "local": 1},
        "functions": ["local::Twice"],
        "external_data": {},
    }
    [program] = report["programs"]
    assert [(i["name"], i.get("shape")) for i in program["inputs"]] == [("x", ["N", 2]), ("b", ["2*N"]), ("go", [])]
    assert (
        program["ops"]["onnx.com.none::Custom"] == 1
        and program["ops"]["onnx.Add"] == 1
        and report["metadata"] == {"author": "nobody"}
    )
    assert {w["name"]: w["kind"] for w in program["weights"]} == {"half": "parameter", "scale": "input_default"}
    assert "%t: f32[N,2] = \"onnx.local::Twice\"([%x])" in slipway("inspect", "all.onnx", "--ir").stdout
    assert "onnx.Loop" in slipway("inspect", "all.onnx", "--ops").stdout

    model.graph.node[1].attribute[0].s = b"other"
    model.graph.node[2].attribute[0].g.node[0].op_type = "Mul"
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "M"
    model.opset_import[0].version = 19
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([1, 3], np.float32), "scale"))
    onnx.save(model, tmp_path / "other.onnx")
    found = json.loads(slipway("diff", "all.onnx", "other.onnx", "--json", status=1).stdout)
    conform(found, "diff")
    named = [(d["what"], d["name"]) for d in found["graph"]]
    assert [n for n in named if n[0] in ("opset", "node")] == [("opset", "ai.onnx"), ("node", "c"), ("node", "l")] and (
        "input",
        "x",
    ) in named
    assert [d["name"] for d in found["differences"]] == ["scale"] and not found["equal"]
    assert "node l\n  A: onnx.Loop(" in slipway("diff", "all.onnx", "other.onnx", status=1).stdout
