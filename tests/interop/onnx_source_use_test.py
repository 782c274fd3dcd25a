"""ONNX models of others in use: quantized, with their metadata, with elements of 4 bits, with torch.onnx's expand()."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_source_test import by_library, by_onnxruntime, by_torch, check, near, parsed

pytestmark = pytest.mark.filterwarnings("ignore")

LAYERS = """<ir_version: 9, opset_import: ["" : 17]>
  g (float[n, 4, 64] x) => (float[n, 4, 64] y, float[n, 4, 64] z) {
    a = MatMul (x, w)
    b = Add (bias, a)
    r = Relu (b)
    flat = Constant <value_ints = [-1, 96]> ()
    rows = Reshape (r, flat)
    c = Gemm (rows, v, end)
    back = Shape (x)
    y = Reshape (c, back)
    both = MatMul (x, shared)
    z = MatMul (both, shared)
  }"""


def layers(path):
    rng = np.random.default_rng(0)
    f = lambda *s: (rng.standard_normal(s) / 8).astype(np.float32)  # noqa: E731
    return parsed(path, LAYERS, w=f(64, 96), bias=f(96), v=f(96, 64), end=f(64), shared=f(64, 64))


@pytest.mark.parametrize("config, tolerance", [("int8-weight-only", 0.02), ("8da4w", 0.2), ("int8-dynamic", 0.05)])
def test_products_with_stored_matrices_are_quantized(slipway, tmp_path, config, tolerance):
    """Every matrix, shared ones too, for each target; those that are left out stay what they are."""
    model = layers(tmp_path / "m.onnx")
    x = np.random.default_rng(1).standard_normal((3, 4, 64)).astype(np.float32)
    wanted = by_onnxruntime(model, [x])
    results = []
    for suffix, run in ((".so", lambda f, i: by_library(slipway, f, i)), (".onnx", by_onnxruntime), (".pt2", by_torch)):
        out = tmp_path / f"q{suffix}"
        report = json.loads(slipway("quantize", model, "-o", out, "--config", config, "--json").stdout)
        assert sorted(r["name"] for r in report["weights"] if r["config"]) == ["shared", "v", "w"]
        results.append(run(out, [x]))
        for g, w in zip(results[-1], wanted):
            assert np.linalg.norm(g - w) < tolerance * np.linalg.norm(w)
    near(results[0], results[1], 2e-2)
    near(results[0], results[2], 2e-2)
    slipway("convert", model, "-o", tmp_path / "part.so", "--quantize", config, "--quantize-exclude", "w|shared")
    got = by_library(slipway, tmp_path / "part.so", [x])
    near(got[1:], wanted[1:])


def test_a_quantized_matrix_is_that_of_torchs_layer(slipway, tmp_path):
    """Scales are of the rows that torch's layer has, the matrix's columns."""
    model = layers(tmp_path / "m.onnx")
    slipway("convert", model, "-o", tmp_path / "q.onnx", "--quantize", "int8-weight-only")
    w = onnx.numpy_helper.to_array(next(i for i in onnx.load(model).graph.initializer if i.name == "w"))
    scales = [
        onnx.numpy_helper.to_array(i) for i in onnx.load(tmp_path / "q.onnx").graph.initializer if "w_scale" in i.name
    ]
    assert any(np.allclose(np.sort(s.ravel()), np.sort(np.abs(w).max(0) / 127.5), rtol=1e-2) for s in scales)


def test_the_models_metadata_stays(slipway, tmp_path):
    model = onnx.load(layers(tmp_path / "m.onnx"))
    stated = {"labels": "a\nb", "../author": "someone", "slipway.version": "0", "kept": "no"}
    helper.set_model_props(model, stated)
    onnx.save(model, tmp_path / "m.onnx")
    again = tmp_path / "again.onnx"
    slipway("convert", tmp_path / "m.onnx", "-o", again, "--metadata", "kept=yes")
    props = {p.key: p.value for p in onnx.load(again).metadata_props}
    assert len(props) == len(onnx.load(again).metadata_props)
    assert props["labels"] == "a\nb" and props["../author"] == "someone" and props["kept"] == "yes"
    assert props["slipway.version"] != "0"
    slipway("convert", tmp_path / "m.onnx", "-o", tmp_path / "m.pt2")
    files = json.loads(slipway("inspect", tmp_path / "m.pt2", "--json").stdout)["extra_files"]
    assert files == {"labels": 3, "kept": 2}


def test_elements_of_few_bits_are_wider_with_a_warning(slipway, tmp_path):
    value = helper.make_tensor_value_info
    t = onnx.TensorProto
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["x", "s"], ["y"]),
            helper.make_node("QuantizeLinear", ["y", "s"], ["z"], output_dtype=t.INT4),
        ],
        "g",
        [value("x", t.UINT4, ["n", 6])],
        [value("y", t.FLOAT, ["n", 6]), value("z", t.INT4, ["n", 6])],
        [helper.make_tensor("s", t.FLOAT, [], [0.5])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    for out in ("a.onnx", "a.so", "a.pt2"):
        done = slipway("convert", tmp_path / "m.onnx", "-o", tmp_path / out, "--diagnostics", "json")
        [warning] = [d for d in map(json.loads, done.stderr.splitlines()) if d.get("id") == "SW2011"]
        assert warning["severity"] == "warning" and warning["help"]
        assert "x: tensor(uint4) as tensor(uint8); z: tensor(int4) as tensor(int8)" in warning["cause"]
    props = {p.key: p.value for p in onnx.load(tmp_path / "a.onnx").metadata_props}
    assert props["slipway.narrow_types"].startswith("x: ")
    slipway("convert", layers(tmp_path / "w.onnx"), "-o", tmp_path / "w.so")
    again = slipway("convert", tmp_path / "a.onnx", "-o", tmp_path / "b.so")
    assert "SW2011" not in again.stderr


def test_expand_keeps_sizes_where_torch_says_minus_one(slipway, tmp_path):
    """The shape is chosen by what is known of sizes, so that a 1 in it broadcasts against any size."""
    text = """<ir_version: 9, opset_import: ["" : 17]>
      g (float[n, 1, m] x, float[n, 2, m] y) => (float[n, 2, m] z) {
        sizes = Shape (x)
        open = Constant <value_ints = [-1, -1, -1]> ()
        ones = Constant <value_ints = [1, 1, 1]> ()
        is = Equal (sizes, open)
        shape = Where (is, ones, sizes)
        e = Expand (x, shape)
        z = Add (e, y)
      }"""
    rng = np.random.default_rng(0)
    given = [
        tuple(rng.standard_normal(s).astype(np.float32) for s in ((n, 1, m), (n, 2, m))) for n, m in ((2, 3), (1, 1))
    ]
    check(slipway, parsed(tmp_path / "m.onnx", text), *given)
