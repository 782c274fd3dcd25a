"""ONNX models of unsigned integers and of elements of fewer than 8 bits, as libraries beside NumPy and onnxruntime."""

import ml_dtypes
import numpy as np
import onnx
import onnx.helper
import onnx.parser
import onnxruntime
import pytest
import torch
import torchao.quantization  # noqa: F401  its operators
from onnx import TensorProto
from safetensors.numpy import load_file, save_file

pytestmark = pytest.mark.filterwarnings("ignore")


def run(slipway, model, inputs):
    """The results of the model's library, made in the folder among the inputs."""
    folder = inputs.pop("folder")
    onnx.checker.check_model(model)
    onnx.save(model, folder / "m.onnx")
    library = folder / "m.so"
    slipway("convert", folder / "m.onnx", "-o", library)
    save_file({k: np.require(x, requirements="C") for k, x in inputs.items()}, library.parent / "in.st")
    slipway("run", library, "--inputs", library.parent / "in.st", "--outputs", library.parent / "out.st")
    got = load_file(library.parent / "out.st")
    return [got[f"output.{i}"] for i in range(len(got))]


# Results by ONNX's operators, and what NumPy makes of x, y, z: y is no 0, z is small.
OPERATORS = {
    "Add(x, y)": lambda x, y, z: x + y,
    "Sub(x, y)": lambda x, y, z: x - y,
    "Mul(x, y)": lambda x, y, z: x * y,
    "Div(x, y)": lambda x, y, z: x // y,
    "Mod(x, y)": lambda x, y, z: x % y,
    "Min(x, y)": lambda x, y, z: np.minimum(x, y),
    "Max(x, y)": lambda x, y, z: np.maximum(x, y),
    "Less(x, y)": lambda x, y, z: x < y,
    "LessOrEqual(x, y)": lambda x, y, z: x <= y,
    "Greater(x, y)": lambda x, y, z: x > y,
    "GreaterOrEqual(x, y)": lambda x, y, z: x >= y,
    "Equal(x, y)": lambda x, y, z: x == y,
    "BitwiseAnd(x, y)": lambda x, y, z: x & y,
    "BitwiseOr(x, y)": lambda x, y, z: x | y,
    "BitwiseXor(x, y)": lambda x, y, z: x ^ y,
    "BitwiseNot(x)": lambda x, y, z: ~x,
    'BitShift<direction = "LEFT">(x, z)': lambda x, y, z: x << z,
    'BitShift<direction = "RIGHT">(x, z)': lambda x, y, z: x >> z,
    "Clip(x, low, high)": lambda x, y, z: np.clip(x, x.dtype.type(7), np.iinfo(x.dtype).max - x.dtype.type(9)),
    "Sign(x)": lambda x, y, z: (x != 0).astype(x.dtype),
    "Abs(x)": lambda x, y, z: x,
    "Where(mask, x, y)": lambda x, y, z: np.where(x > y, x, y),
    "ArgMax<axis = 1, keepdims = 0>(x)": lambda x, y, z: x.argmax(1),
    "ArgMin<axis = 1, keepdims = 0>(x)": lambda x, y, z: x.argmin(1),
    "Cast<to = 1>(x)": lambda x, y, z: x.astype(np.float32),
    "Cast<to = 11>(x)": lambda x, y, z: x.astype(np.float64),
    "Cast<to = 1>(total)": lambda x, y, z: (x + y).astype(np.float32),
    "Cast<to = 7>(x)": lambda x, y, z: x.astype(np.int64),
    "Cast<to = 3>(x)": lambda x, y, z: x.astype(np.int8),
    "Cast<to = 9>(x)": lambda x, y, z: x.astype(bool),
    "TYPE(floats)": lambda x, y, z: np.array([0, 1.5, 2.0**15, 255.75]).astype(x.dtype),
    "TYPE(bytes)": lambda x, y, z: np.array([-1, -128, 3], np.int8).astype(x.dtype),
}
OF_32_BITS = {
    "ReduceSum<keepdims = 0>(x, axis)": lambda x, y, z: x.sum(1, dtype=x.dtype),
    "ReduceProd<keepdims = 0>(x, axis)": lambda x, y, z: x.prod(1, dtype=x.dtype),
    "ReduceMax<keepdims = 0>(x, axis)": lambda x, y, z: x.max(1),
    "ReduceMin<keepdims = 0>(x, axis)": lambda x, y, z: x.min(1),
    "CumSum(x, axis)": lambda x, y, z: np.cumsum(x, 1, dtype=x.dtype),
    "MatMul(x, transposed)": lambda x, y, z: x @ y.T,
}


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_unsigned(slipway, tmp_path, dtype):
    name, bits, most = np.dtype(dtype).name, np.dtype(dtype).itemsize * 8, np.iinfo(dtype).max
    rng = np.random.RandomState(0)
    x, y = (rng.randint(0, most, (6, 40), dtype) for _ in "ab")
    x.ravel()[:8] = [0, 1, most, most // 2, most // 2 + 1, most - 1, 2, most]
    y.ravel()[:8] = [1, most, most, most // 2 + 1, most // 2, 1, 3, 1]
    y[y == 0] = 3
    z = rng.randint(0, bits, x.shape).astype(dtype)
    rows = OPERATORS | (OF_32_BITS if bits > 16 else {})
    wanted = [f(x, y, z) for f in rows.values()]
    onnx_name = {np.dtype(t): n for t, n in [("f4", "float"), ("f8", "double"), ("i8", "int64"), ("i1", "int8")]}
    types = [onnx_name.get(w.dtype, w.dtype.name) for w in wanted]
    outputs = ", ".join(f"{t}[{', '.join(map(str, w.shape))}] y{i}" for i, (t, w) in enumerate(zip(types, wanted)))
    number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    body = "\n".join(f"y{i} = {row.replace('TYPE', f'Cast<to = {number}>')}" for i, row in enumerate(rows))
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 20]>
        g ({name}[6, 40] x, {name}[6, 40] y, {name}[6, 40] z) => ({outputs})
        <{name} low, {name} high, int64[1] axis, double[4] floats, int8[3] bytes>
        {{ mask = Greater(x, y)
           total = Add(x, y)
           transposed = Transpose(y)
           {body} }}""")
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in [
        ("low", dtype(7)), ("high", dtype(most - 9)), ("axis", np.array([1])),
        ("floats", np.array([0, 1.5, 2.0**15, 255.75])), ("bytes", np.array([-1, -128, 3], np.int8))])  # fmt: skip
    got = run(slipway, model, {"folder": tmp_path, "input.0": x, "input.1": y, "input.2": z})
    for row, g, w in zip(rows, got, wanted):
        assert g.dtype == w.dtype and np.array_equal(g, w), row


def test_order_of_u64(slipway, tmp_path):
    """The greatest and the least where highest bits differ; floats beyond the range of i64."""
    top = 1 << 63
    x = np.array([[top, 1, top - 1, top + 5, 0], [3, 2**64 - 1, 2, top, top]], np.uint64)
    f = np.array([2.0**63, 2.0**64 - 4096, 7.9], np.float64)
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 20]>
        g (uint64[2, 5] x, double[3] f) => (uint64[2, 3] most, int64[2, 3] at, uint64[2, 3] least, int64[2, 3] least_at,
                                            uint64[3] g, float16[2, 5] h)
        <int64[1] three = {3}> {
            most, at = TopK<axis = 1>(x, three)
            least, least_at = TopK<axis = 1, largest = 0>(x, three)
            g = Cast<to = 13>(f)
            h = Cast<to = 10>(x) }""")
    most, at, least, least_at, g, h = run(slipway, model, {"folder": tmp_path, "input.0": x, "input.1": f})
    order = np.argsort(x, 1, kind="stable")
    assert np.array_equal(least, np.take_along_axis(x, order[:, :3], 1)) and np.array_equal(least_at, order[:, :3])
    assert np.array_equal(most, np.sort(x, 1)[:, :-4:-1]) and np.array_equal(np.take_along_axis(x, at, 1), most)
    assert g.tolist() == [2**63, 2**64 - 4096, 7]
    assert np.array_equal(h, x.astype(np.float32).astype(np.float16))


SMALL = {
    TensorProto.INT4: (ml_dtypes.int4, np.int8),
    TensorProto.UINT4: (ml_dtypes.uint4, np.uint8),
    TensorProto.INT2: (ml_dtypes.int2, np.int8),
    TensorProto.UINT2: (ml_dtypes.uint2, np.uint8),
}


@pytest.mark.parametrize("small", SMALL, ids=lambda t: TensorProto.DataType.Name(t))
def test_few_bits(slipway, tmp_path, small):
    """Inputs, results and constants of 4 and 2 bits: one a byte in the library; conversions keep the low bits."""
    few, wide = SMALL[small]
    rng = np.random.RandomState(0)
    packed = rng.randint(-100, 100, (3, 7)).astype(few)  # an odd number of them
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [
                onnx.helper.make_node("Cast", ["x"], ["a"], to=small),
                onnx.helper.make_node("Transpose", ["a"], ["b"]),
                onnx.helper.make_node("Cast", ["q"], ["c"], to=TensorProto.FLOAT),
                onnx.helper.make_node("Cast", ["w"], ["d"], to=TensorProto.FLOAT),
                onnx.helper.make_node("Add", ["c", "d"], ["e"]),
                onnx.helper.make_node("Cast", ["i"], ["f"], to=small),
                onnx.helper.make_node("Cast", ["f"], ["g"], to=TensorProto.INT32),
                onnx.helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["h"]),
                onnx.helper.make_node("DequantizeLinear", ["h", "scale", "zero"], ["j"]),
            ],
            "g",
            [onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 7]),
             onnx.helper.make_tensor_value_info("q", small, [3, 7]),
             onnx.helper.make_tensor_value_info("i", TensorProto.INT64, [3, 7])],
            [onnx.helper.make_tensor_value_info("b", small, [7, 3]),
             onnx.helper.make_tensor_value_info("e", TensorProto.FLOAT, [3, 7]),
             onnx.helper.make_tensor_value_info("g", TensorProto.INT32, [3, 7]),
             onnx.helper.make_tensor_value_info("h", small, [3, 7]),
             onnx.helper.make_tensor_value_info("j", TensorProto.FLOAT, [3, 7])],
            [onnx.numpy_helper.from_array(packed, "w"),
             onnx.numpy_helper.from_array(np.float32(1.5), "scale"),
             onnx.numpy_helper.from_array(np.asarray(1).astype(few), "zero")],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 25)],
        ir_version=13,
    )  # fmt: skip
    x = (rng.randint(-60, 60, (3, 7)) / 4).astype(np.float32)
    q, i = rng.randint(-100, 100, (3, 7)).astype(few), rng.randint(-(2**40), 2**40, (3, 7))
    b, e, g, h, j = run(slipway, model, {"folder": tmp_path, "input.0": x, "input.1": q.astype(wide), "input.2": i})
    assert b.dtype == wide and np.array_equal(b, x.astype(few).astype(wide).T)
    assert np.array_equal(e, q.astype(np.float32) + packed.astype(np.float32))
    assert np.array_equal(g, i.astype(few).astype(np.int32))
    low, high = ml_dtypes.iinfo(few).min, ml_dtypes.iinfo(few).max
    quantized = np.clip(np.round(x / np.float32(1.5)) + 1, int(low), int(high))
    assert h.dtype == wide and np.array_equal(h, quantized)
    assert np.array_equal(j, (quantized - 1).astype(np.float32) * np.float32(1.5))
    header = slipway("inspect", tmp_path / "m.so", "--header").stdout
    assert f"{np.dtype(wide).name}_t" in header


def test_powers_of_two(slipway, tmp_path):
    """float8_e8m0fnu: each way of rounding, at powers of two and beside them."""
    modes, x = ["up", "down", "nearest"], np.float32([1, 1.49, 1.5, 3, 2**-126, 3e38, 1e-38, 0, 0.7, np.nan])
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("Cast", ["x"], [f"p{m}"], to=TensorProto.FLOAT8E8M0, round_mode=m) for m in modes]
            + [onnx.helper.make_node("Cast", [f"p{m}"], [m], to=TensorProto.FLOAT) for m in modes],
            "g",
            [onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
            [onnx.helper.make_tensor_value_info(m, TensorProto.FLOAT, x.shape) for m in modes],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 25)],
        ir_version=13,
    )
    up, down, nearest = run(slipway, model, {"folder": tmp_path, "input.0": x})
    largest, least, nan = 2.0**127, 2.0**-127, np.nan
    near = np.testing.assert_array_equal
    near(up, np.float32([1, 2, 2, 4, 2**-126, largest, 2**-126, least, 1, nan]))
    near(down, np.float32([1, 1, 1, 2, 2**-126, largest, least, least, 0.5, nan]))
    near(nearest, np.float32([1, 1, 2, 4, 2**-126, largest, 2**-126, least, 0.5, nan]))


def test_int4_weights(slipway, tmp_path):
    """Blocks of int4 with zero points of int4: a library, a PT2 archive, and ONNX again, where they are int4 still."""
    rng = np.random.RandomState(0)
    q, zero = rng.randint(-8, 8, (32, 64)), rng.randint(-8, 8, (32, 4))
    scale, x = rng.rand(32, 4).astype(np.float32) / 10, rng.randn(5, 64).astype(np.float32)
    make = onnx.helper.make_tensor
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=1, block_size=16),
         onnx.helper.make_node("Gemm", ["x", "d"], ["y"], transB=1)],
        "g",
        [onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 64])],
        [onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 32])],
        [make("w", TensorProto.INT4, q.shape, q.ravel().tolist()), onnx.numpy_helper.from_array(scale, "s"),
         make("z", TensorProto.INT4, zero.shape, zero.ravel().tolist())],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    wanted = x @ ((q - np.repeat(zero, 16, 1)) * np.repeat(scale, 16, 1)).astype(np.float32).T
    (got,) = run(slipway, model, {"folder": tmp_path, "input.0": x})
    np.testing.assert_allclose(got, wanted, 1e-4, 1e-4)
    archive, again = tmp_path / "m.pt2", tmp_path / "again.onnx"
    slipway("convert", tmp_path / "m.onnx", "-o", archive)
    with torch.no_grad():
        by_torch = torch.export.load(archive).module()(torch.from_numpy(x))
    np.testing.assert_allclose(by_torch.numpy(), wanted, 1e-4, 1e-4)
    slipway("convert", tmp_path / "m.onnx", "-o", again, "--opset", 21)
    types = {t.name: t.data_type for t in onnx.load(again).graph.initializer}
    assert types["w"] == types["z"] == TensorProto.INT4
    session = onnxruntime.InferenceSession(str(again), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": x})[0], wanted, 1e-4, 1e-4)
