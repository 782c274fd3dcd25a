"""ONNX models that are not what they say: one clear error, and nothing read outside of the model's folder."""

import os
import pathlib
import subprocess
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SLIPWAY = os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway"))
FLOAT = TensorProto.FLOAT


def inspect(path, *flags):
    begin = time.time()
    done = subprocess.run([SLIPWAY, "inspect", path, *flags], capture_output=True, timeout=120)
    assert time.time() - begin < 60
    return done.returncode, done.stderr.decode()


def refused(path, why, code=3):
    got, said = inspect(path)
    assert got == code and why in said and len(said) < 20000, (got, said)
    assert said.count("error[") == 1


def value(name, shape=(2,), kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(path, nodes, inputs=("x",), outputs=("y",), weights=(), functions=(), domains=()):
    graph = helper.make_graph(nodes, "graph", [value(n) for n in inputs], [value(n) for n in outputs], list(weights))
    opsets = [helper.make_opsetid("", 20)] + [helper.make_opsetid(d, 1) for d in domains]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=list(functions)).SerializeToString()
    )
    return path


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, list(inputs), list(outputs), **attributes)


def test_graphs_that_contradict_themselves(tmp_path):
    path = tmp_path / "m.onnx"
    refused(model(path, [node("Add", "xb", "a"), node("Neg", "a", "b"), node("Neg", "b", "y")]), "in a circle")
    refused(model(path, [node("Neg", "x", "y"), node("Abs", "x", "y")]), "'y' is made twice")
    refused(model(path, [node("Neg", "x", "x")], outputs="x"), "in a circle")
    refused(model(path, [node("Neg", "z", "y")]), "'z' is read and nothing makes it")
    refused(model(path, [node("Neg", "x", "a")]), "'y' is read and nothing makes it")
    refused(model(path, [node("Neg", "x", "y")], inputs="xx"), "'x' is made twice")
    refused(model(path, [node("", "x", "y")]), "a node without an operator")
    refused(model(path, [node("#initializer", "x", "y")]), "an operator called", code=4)
    twice = node("Elu", "x", "y", alpha=1.0)
    twice.attribute.append(helper.make_attribute("alpha", 2.0))
    refused(model(path, [twice]), "two attributes 'alpha'")
    # gives back a name that only the node will make
    body = helper.make_graph([node("Add", "xx", "q")], "body", [], [value("y")])
    refused(model(path, [node("If", "x", "y", then_branch=body, else_branch=body)]), "circle")


def test_nodes_out_of_order_are_sorted(tmp_path):
    path = model(tmp_path / "m.onnx", [node("Neg", "b", "y"), node("Abs", "x", "b")])
    done = subprocess.run([SLIPWAY, "inspect", "--ir", path], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.index("onnx.Abs") < done.stdout.index("onnx.Neg")


def test_weights_that_are_not_there(tmp_path):
    path = tmp_path / "m.onnx"
    nodes = [node("Add", ["x", "w"], "y")]
    short = helper.make_tensor("w", FLOAT, [2], np.zeros(2, np.float32).tobytes(), raw=True)
    short.dims[0] = 3
    refused(model(path, nodes, weights=[short]), "has 8 bytes of data, its shape takes 12")
    long = helper.make_tensor("w", FLOAT, [1000], np.zeros(1000, np.float32).tobytes(), raw=True)
    long.dims[0] = 999
    refused(model(path, nodes, weights=[long]), "has 4000 bytes of data, its shape takes 3996")
    for dims in ([-1], [2**62, 2**62], [2**63 - 1]):
        bad = helper.make_tensor("w", FLOAT, [1], [0.0])
        del bad.dims[:]
        bad.dims.extend(dims)
        refused(model(path, nodes, weights=[bad]), "shape that no tensor has" if dims != [2**62 - 1] else "")
    both = helper.make_tensor("w", FLOAT, [2], [0.0, 0.0])
    refused(model(path, nodes, weights=[both, both]), "two initializers are called 'w'")


def external(location, offset="0", length="8", **more):
    t = TensorProto(name="w", data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": offset, "length": length, **more}.items():
        t.external_data.add(key=key, value=value)
    return t


def test_external_data_stays_in_the_folder(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(64))
    folder = tmp_path / "model"
    (folder / "below").mkdir(parents=True)
    (folder / "data").write_bytes(bytes(range(64)))
    (folder / "below" / "data").write_bytes(bytes(64))
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "out").symlink_to(tmp_path)
    path = folder / "m.onnx"
    nodes = [node("Add", ["x", "w"], "y")]
    for good in (external("data"), external("below/data", "56"), external("./data", "7")):
        assert inspect(model(path, nodes, weights=[good]))[0] == 0
    for location in ("../secret", "/etc/passwd", "below/../../secret", "link", "out/secret", "", "below", ".."):
        code, said = inspect(model(path, nodes, weights=[external(location)]))
        assert code == 3 and said.count("error[") == 1, (location, code, said)
    assert inspect(model(path, nodes, weights=[external("nowhere")]))[0] == 5
    refused(model(path, nodes, weights=[external("data", "60")]), "of a file of 64 bytes")
    refused(model(path, nodes, weights=[external("data", str(2**64 - 4))]), "of a file of 64 bytes")
    refused(model(path, nodes, weights=[external("data", "-1")]), "its offset is no number")
    refused(model(path, nodes, weights=[external("data", length="12")]), "has 12 bytes of data, its shape takes 8")
    inside = helper.make_node("Constant", [], ["c"])
    inside.attribute.append(helper.make_attribute("value", external("../secret")))
    refused(model(path, [inside, *nodes], weights=[external("data")]), "numbers lie in another file", code=4)
    # In a nested graph, too.
    body = helper.make_graph([node("Add", ["x", "w"], "q")], "body", [], [value("q")], [external("../secret")])
    refused(model(path, [node("If", "x", "y", then_branch=body, else_branch=body)]), "no file below the model's folder")


def test_nesting(tmp_path):
    """Graphs in graphs, as bytes, since onnx does not make what it would not read."""
    path = tmp_path / "m.onnx"

    def field(number, content):
        out, size = bytes([number << 3 | 2] if number < 16 else [number << 3 & 127 | 130, number >> 4]), len(content)
        while size > 127:
            out, size = out + bytes([size & 127 | 128]), size >> 7
        return out + bytes([size]) + content

    x, q = field(11, value("x").SerializeToString()), field(12, value("q").SerializeToString())
    for depth, good in ((10, True), (30, True), (200, False), (2000, False)):
        graph = field(1, node("Neg", "x", "q").SerializeToString()) + q
        for _ in range(depth):
            attribute = field(1, b"then_branch") + field(6, graph) + b"\xa0\x01\x05"
            graph = field(1, node("If", "x", "q").SerializeToString() + field(5, attribute)) + q
        path.write_bytes(b"\x08\x09" + field(7, graph + x) + field(8, b"\x10\x14"))
        if good:
            assert inspect(path, "--ir")[0] == 0
        else:
            refused(path, "nested too deeply")


def function(name, *calls):
    nodes = [
        helper.make_node(c, ["x" if i == 0 else f"v{i - 1}"], ["y" if i == len(calls) - 1 else f"v{i}"], domain="local")
        for i, c in enumerate(calls)
    ]
    return helper.make_function(
        "local", name, ["x"], ["y"], nodes, [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    )


def test_functions(tmp_path):
    path = tmp_path / "m.onnx"
    call = [helper.make_node("F0", ["x"], ["y"], domain="local")]
    refused(model(path, call, functions=[function("F0", "F0")], domains=["local"]), "calls itself")
    refused(
        model(path, call, functions=[function("F0", "F1"), function("F1", "F0")], domains=["local"]), "calls itself"
    )
    chain = [function(f"F{i}", f"F{i + 1}") for i in range(5000)] + [function("F5000", "F5001")]
    refused(model(path, call, functions=chain, domains=["local"]), "functions one inside the other (limit 64)", code=6)
    # 2^40 nodes when all calls are their bodies.
    many = [function(f"F{i}", f"F{i + 1}", f"F{i + 1}") for i in range(40)] + [function("F40", "F41")]
    refused(model(path, call, functions=many, domains=["local"]), "call each other too often", code=6)


def test_cut_and_changed(tmp_path):
    """Every beginning of a model, and what Protobuf does not take."""
    path = tmp_path / "m.onnx"
    whole = model(
        path, [node("Add", ["x", "w"], "y")], weights=[numpy_helper.from_array(np.arange(2, dtype=np.float32), "w")]
    ).read_bytes()
    for n in range(0, len(whole), 7):
        path.write_bytes(whole[:n])
        code, said = inspect(path)
        assert code in (0, 3) and (code == 0 or said.count("error[") == 1), (n, code, said)
    for data, why in (
        (b"", "the file is empty"),
        (b"\x08\x09", "without a graph"),
        (b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "malformed"),
        (b"\x3a\x02\x2a\x05", "malformed"),
        (b"\x0b\x08", "malformed"),
    ):
        path.write_bytes(data)
        refused(path, why)
    # Protobuf merges a message that stands twice.
    path.write_bytes(whole + whole)
    refused(path, "w")


@pytest.mark.parametrize("kind", ["Range", "ConstantOfShape", "Tile", "Expand", "Pad", "Split", "OneHot", "Resize"])
def test_sizes_that_inference_would_believe(tmp_path, kind):
    """Sizes of 2^60 elements in weights that inference reads."""
    big = np.array([2**60, 2**60], np.int64)
    scalar = np.array(2**62, np.int64)
    inputs = {"Range": ["s", "s", "s"], "ConstantOfShape": ["b"], "Tile": ["x", "b"], "Expand": ["x", "b"],
    "Pad": ["x", "b"], "Split": ["x", "b"],
              "OneHot": ["x", "s", "x"], "Resize": ["x", "", "", "b"]}[kind]  # fmt: skip
    more = {"num_outputs": 2**40} if kind == "Split" else {}
    weights = [numpy_helper.from_array(big, "b"), numpy_helper.from_array(scalar, "s")]
    path = model(tmp_path / "m.onnx", [node(kind, inputs, ["t"], **more), node("Identity", "t", "y")], weights=weights)
    code, said = inspect(path)
    assert code in (0, 3, 4, 6), (code, said)


def test_models_that_onnx_would_refuse(tmp_path):
    """What is wrong with a model is said of it, not of what was made of it, and before ONNX's library walks it."""

    def refused_by_convert(path, why, to="m.so"):
        done = subprocess.run([SLIPWAY, "convert", path, "-o", tmp_path / to], capture_output=True, timeout=60)
        said = done.stderr.decode()
        assert done.returncode == 3 and why in said and said.count("error[") == 1, (done.returncode, said)

    path = tmp_path / "in.onnx"
    refused_by_convert(model(path, [node("Einsum", "x", "y", equation="...i\0\0\0\0\1\0\0\0")]), "Einsum")
    for axis in (2**31, -2, 5):
        outputs = ["y", "mean", "deviation"]
        refused_by_convert(model(path, [node("LayerNormalization", "xx", outputs, axis=axis)]), f"axis {axis}")
    untyped = helper.make_graph(
        [node("Neg", "x", "y")], "graph", [value("x"), helper.ValueInfoProto(name="z")], [value("y")]
    )
    path.write_bytes(helper.make_model(untyped, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())
    for to in ("m.so", "m.onnx"):
        refused_by_convert(path, "input 'z' has no type", to)
    huge = helper.make_graph([node("Neg", "x", "y")], "graph", [value("x"), value("z", (2**63 - 1,))], [value("y")])
    path.write_bytes(helper.make_model(huge, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())
    done = subprocess.run([SLIPWAY, "convert", path, "-o", tmp_path / "m.onnx"], capture_output=True, timeout=60)
    assert done.returncode == 4 and b"an input of unknown sizes (node 'z')" in done.stderr, done.stderr
    # Axes of what has no rank that is known, since its node is refused as well.
    weights = [
        numpy_helper.from_array(np.array(v, np.int64), n) for n, v in {"a": [2, 3], "s": [7, 7], "p": [1] * 4}.items()
    ]
    for reader in (
        node("Resize", ["u", "", "", "s"], "y", axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
        node("Pad", ["u", "p", "", "a"], "y"),
        node(
            "SequenceMap", "u", "y", body=helper.make_graph([node("Neg", "a", "b")], "body", [value("a")], [value("b")])
        ),
    ):
        unknown = helper.make_node("Other", ["x"], ["u"], domain="local")
        model(path, [unknown, reader], weights=weights, domains=["local"])
        done = subprocess.run([SLIPWAY, "convert", path, "-o", tmp_path / "m.so"], capture_output=True, timeout=60)
        assert done.returncode == 4 and b"not read: " in done.stderr or b"without a body" in done.stderr, done.stderr
    # K and V in each other's place.
    sizes = {"q": (2, 3, 4, 8), "v": (2, 3, 6, 10), "k": (2, 3, 6, 8)}
    graph = helper.make_graph(
        [node("Attention", "qvk", "y", softcap=2.0)],
        "graph",
        [value(n, s) for n, s in sizes.items()],
        [value("y", (2, 3, 4, 10))],
    )
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11).SerializeToString()
    )
    refused_by_convert(path, "a size does not expand: 10 and 8 differ", "m.onnx")


def test_nodes_that_inference_believes(tmp_path):
    """Inputs that are left out or of no known type, and attributes out of range, where ONNX's inference looks first."""
    path = tmp_path / "m.onnx"
    other = helper.make_node("Other", ["x"], ["u"], domain="local")
    indices = numpy_helper.from_array(np.zeros((1, 1), np.int64), "i")
    for reader in (
        node("EyeLike", [""], "y", dtype=11),
        node("EyeLike", "u", "y", dtype=11),
        node("RegexFullMatch", "u", "y", pattern="a"),
        node("GatherND", "xi", "y", batch_dims=-5),
        node("GatherND", "xi", "y", batch_dims=2**31),
    ):
        model(path, [other, reader], weights=[indices], domains=["local"])
        assert inspect(path) == (0, "")
        done = subprocess.run([SLIPWAY, "convert", path, "-o", tmp_path / "m.so"], capture_output=True, timeout=60)
        assert done.returncode in (3, 4) and b"error[" in done.stderr, (done.returncode, done.stderr)


def some_attribute(attribute, which):
    """A value of the attribute's type; the extreme ones in turn."""
    kinds = onnx.defs.OpSchema.AttrType
    body = helper.make_graph(
        [node("Identity", "a", "b")], "body", [helper.ValueInfoProto(name="a")], [helper.ValueInfoProto(name="b")]
    )
    values = {
        kinds.INT: [1, 2**31, -5, -(2**63)], kinds.INTS: [[1, 1], [2**31, -7], [-9]], kinds.FLOAT: [1.0],
        kinds.FLOATS: [[1.0]], kinds.STRING: ["x", "\0\0", "..."], kinds.STRINGS: [["x"]],
        kinds.TENSOR: [helper.make_tensor("t", FLOAT, [1], [1.0]), helper.make_tensor("t", TensorProto.INT64, [0], [])],
        kinds.GRAPH: [body], kinds.TYPE_PROTO: [helper.make_tensor_type_proto(FLOAT, [2])],
    }.get(attribute.type)  # fmt: skip
    return values and helper.make_attribute(attribute.name, values[which % len(values)])


@pytest.mark.parametrize("which", range(4))
def test_every_operator(tmp_path, which):
    """No node of ONNX's operators ends the process, whatever its inputs and attributes are."""
    shapes = {"x": (2, 3, 4), "s": (), "b": (1,) * 9}
    unknown = helper.make_node("Other", ["x"], ["u"], domain="local")  # of a type that nobody knows
    path = tmp_path / "m.onnx"
    count = 0
    for schema in onnx.defs.get_all_schemas():
        if schema.domain or schema.deprecated:
            continue
        for inputs in ([""] * 4, ["u"] * 4, ["x"] * 4, ["x", "u", "s", "b"], ["b", "s", "x", "u"]):
            reader = node(
                schema.name, inputs[: min(schema.max_input, 4)], [f"y{i}" for i in range(min(schema.max_output, 3))]
            )
            reader.attribute.extend(filter(None, (some_attribute(a, which) for a in schema.attributes.values())))
            graph = helper.make_graph(
                [unknown, reader], "graph", [value(n, s) for n, s in shapes.items()], [helper.ValueInfoProto(name="y0")]
            )
            opsets = [helper.make_opsetid("", onnx.defs.onnx_opset_version()), helper.make_opsetid("local", 1)]
            path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
            code, said = inspect(path)
            assert code in (0, 3, 4, 6), (schema.name, inputs, code, said)
            count += 1
    assert count > 800


def test_sizes_and_scales_that_do_not_fit(tmp_path):
    """What rows would index or divide by, and a list so long that nobody may make an element for each of its own."""
    path = tmp_path / "m.onnx"
    byte = TensorProto.UINT8
    for reader, inputs, why in (
        (node("AveragePool", "x", "y", kernel_shape=[2, 2], strides=[0, 1], auto_pad="SAME_UPPER"), {"x": (1, 1, 4, 4)},
         "a window whose"),
        (node("QLinearMatMul", "abcabcbc", "y"), {"a": ((), byte), "b": (), "c": ((3,), byte)}, "without dims"),
        (node("DequantizeLinear", "abc", "y", axis=1, block_size=2),
         {"a": ((1, 4, 3), byte), "b": (1, 2, 3), "c": ((1, 2, 3, 3), byte)}, "of another rank"),
    ):  # fmt: skip
        values = [value(n, *(s if s and isinstance(s[0], tuple) else (s,))) for n, s in inputs.items()]
        graph = helper.make_graph([reader], "graph", values, [helper.ValueInfoProto(name="y")])
        path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())
        done = subprocess.run([SLIPWAY, "convert", path, "-o", tmp_path / "m.so"], capture_output=True, timeout=60)
        assert done.returncode == 3 and why in done.stderr.decode(), (done.returncode, done.stderr)
    graph = helper.make_graph(
        [node("Gather", "xi", "y", axis=0)],
        "graph",
        [value("x", (2**40,)), value("i", (1,), TensorProto.INT64)],
        [value("y", (1,))],
    )
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())
    began = time.time()
    assert inspect(path) == (0, "") and time.time() - began < 10
