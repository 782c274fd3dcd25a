"""Nearest and nearest-exact resampling: the pixels that torch reads, in ONNX Runtime and in libraries, for all pairs of
sizes from 1 to 64, known when the model is converted or when it runs, and for factors."""

import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from exported import export
from safetensors.torch import load_file, save_file

AUTO = torch.export.Dim.AUTO
MODES = ("nearest", "nearest-exact")
OP = {mode: ("_upsample_nearest_exact" if mode == "nearest-exact" else "upsample_nearest") for mode in MODES}
FACTORS = (2.0, 0.5, 3.0, 7.0, 1 / 3, 1 / 7, 1.3, 2.4, 0.3, 0.7, 1.001, 1.5)


class Resized(torch.nn.Module):
    """x resized by each of `how`, keyword arguments of interpolate."""

    def __init__(self, *how):
        super().__init__()
        self.how = how

    def forward(self, x):
        return tuple(F.interpolate(x, **how) for how in self.how)


def pixels(*sizes, dtype=torch.float32):
    """Each pixel has another value."""
    return (torch.arange(torch.Size(sizes).numel()) % 4093).reshape(1, 1, *sizes).to(dtype)


def compare(slipway, folder, module, inputs, native=(), **options):
    export(module, (inputs[len(inputs) // 2],), folder / "m.pt2", **options)
    slipway("convert", folder / "m.pt2", "-o", folder / "m.onnx")
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"), providers=["CPUExecutionProvider"])
    for x in inputs:
        for i, (got, want) in enumerate(
            zip(session.run(None, {session.get_inputs()[0].name: x.numpy()}), module(x), strict=True)
        ):
            assert torch.equal(torch.from_numpy(got), want), (tuple(x.shape), module.how[i])
    if native:
        slipway("convert", folder / "m.pt2", "-o", folder / "m.so")
    for x in native:
        save_file({"input.0": x}, folder / "in")
        slipway("run", folder / "m.so", "--inputs", folder / "in", "--outputs", folder / "out")
        outputs = load_file(folder / "out")
        for i, want in enumerate(module(x)):
            assert torch.equal(outputs[f"output.{i}"], want), (tuple(x.shape), module.how[i])


def operators(path):
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_all_pairs_of_sizes(slipway, tmp_path, mode, spatial):
    module = Resized(*[{"size": [2] * (spatial - 1) + [size], "mode": mode} for size in range(1, 65)])
    inputs = [pixels(*[3] * (spatial - 1), size) for size in range(1, 65)]
    compare(
        slipway,
        tmp_path,
        module,
        inputs,
        inputs if spatial == 1 else inputs[1::9],
        dynamic_shapes=({spatial + 1: AUTO},),
    )


@pytest.mark.parametrize("mode", MODES)
def test_sizes_that_are_known_when_the_model_runs_only(slipway, tmp_path, mode):
    class To(torch.nn.Module):
        def forward(self, x, like):
            return F.interpolate(x, like.shape, mode=mode)

    module = To()
    export(
        module,
        (pixels(7, 9), torch.zeros(5, 6)),
        tmp_path / "m.pt2",
        dynamic_shapes=({2: AUTO, 3: AUTO}, {0: AUTO, 1: AUTO}),
    )
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    for size in range(1, 65):
        for to in range(1, 65, 3):
            # Images of more than 128 rows and columns together go another way in torch.
            for high in (to, 127):
                x, like = pixels(size, 66 - size), torch.zeros(high, to)
                got = session.run(None, dict(zip(names, (x.numpy(), like.numpy()), strict=True)))[0]
                assert torch.equal(torch.from_numpy(got), module(x, like)), (x.shape, like.shape)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("spatial", [1, 2])
def test_factors(slipway, tmp_path, mode, dynamic, spatial):
    how = [
        {"scale_factor": [factor] * spatial, "mode": mode, "recompute_scale_factor": again}
        for factor in FACTORS
        for again in (False, True)
    ]
    # A seventh of less than 14 is 1, which the exported program refuses by a guard.
    sizes = (61, 14, 15, 16, 17, 20, 21, 33, 49, 64, 70) if dynamic else (61,)
    inputs = [pixels(*[size] * spatial) for size in sizes]
    options = {"dynamic_shapes": (dict.fromkeys(range(2, 2 + spatial), AUTO),)} if dynamic else {}
    compare(slipway, tmp_path, Resized(*how), inputs, inputs[:3], **options)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.uint8])
def test_element_types(slipway, tmp_path, dtype):
    how = [{"size": size, "mode": mode} for size in (37, 41, 47, 82, 94) for mode in MODES]
    x = torch.tensor([[[3, 200]]]).to(dtype)
    module = Resized(*how)
    export(module, (x,), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    save_file({"input.0": x}, tmp_path / "in")
    slipway("run", tmp_path / "m.so", "--inputs", tmp_path / "in", "--outputs", tmp_path / "out")
    outputs = load_file(tmp_path / "out")
    for i, want in enumerate(module(x)):
        assert torch.equal(outputs[f"output.{i}"], want), how[i]
    if dtype != torch.bfloat16:  # which numpy has not
        compare(slipway, tmp_path, module, [x])


def test_factors_of_some_dims_only(slipway, tmp_path):
    class OneOfTwo(torch.nn.Module):
        how = MODES

        def forward(self, x):
            return tuple(getattr(torch.ops.aten, OP[mode] + "2d")(x, [9, 9], 1.4, None) for mode in MODES)

    compare(slipway, tmp_path, OneOfTwo(), [pixels(7, 7)], [pixels(7, 7)])


def test_resize_stays_where_it_reads_the_same_pixels(slipway, tmp_path):
    class Doubled(torch.nn.Module):
        def __init__(self, how):
            super().__init__()
            self.how = how

        def forward(self, x):
            return F.interpolate(x, **{k: v(x) if callable(v) else v for k, v in self.how.items()})

    for mode in MODES:
        for how in (
            {"scale_factor": 2.0},
            {"scale_factor": 3.0},
            {"scale_factor": 0.5},
            {"size": lambda x: (x.shape[2] * 5, x.shape[3] * 2)},
        ):
            export(
                Doubled({**how, "mode": mode}),
                (pixels(6, 8),),
                tmp_path / "m.pt2",
                dynamic_shapes=({2: AUTO, 3: AUTO},),
            )
            slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
            assert "Resize" in operators(tmp_path / "m.onnx") and "Gather" not in operators(tmp_path / "m.onnx"), how
        for size, resize in ((16, True), (24, True), (4, True), (12, mode == "nearest"), (5, mode == "nearest")):
            export(Doubled({"size": size, "mode": mode}), (pixels(8),), tmp_path / "m.pt2")
            slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
            assert ("Resize" in operators(tmp_path / "m.onnx")) == resize, (mode, size)
