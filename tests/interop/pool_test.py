"""Pools in ONNX Runtime: ceil_mode of sizes that are known when the model runs only, whose last window may start in the
padding; NaN and infinities stay in the windows of adaptive pools that hold them."""

import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from exported import check, export

AUTO = torch.export.Dim.AUTO
# kernel, stride, padding, dilation
WINDOWS = [
    (2, 3, 0, 1),
    (3, 4, 1, 1),
    (2, 4, 1, 1),
    (3, 3, 1, 2),
    (2, 5, 1, 1),
    (3, 5, 0, 2),
    (4, 3, 2, 1),
    (1, 2, 0, 1),
]


class Each(torch.nn.Module):
    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, x):
        results = []
        for function in self.functions:
            result = function(x)
            results += [result] if isinstance(result, torch.Tensor) else result
        return results


def pool(kind, spatial, *args, **options):
    return lambda x: getattr(F, f"{kind}_pool{spatial}d")(x, *args, ceil_mode=True, **options)


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_ceil_mode_of_open_sizes(slipway, tmp_path, spatial):
    functions = []
    for kernel, stride, padding, dilation in WINDOWS:
        if spatial > 1:  # torch.export fixes the sizes of max_pool1d
            functions.append(pool("max", spatial, kernel, stride, padding, dilation))
        functions.append(pool("max", spatial, kernel, stride, padding, dilation, return_indices=True))
        if dilation == 1:
            functions += [
                pool("avg", spatial, kernel, stride, padding, count_include_pad=include) for include in (True, False)
            ]
        if dilation == 1 and spatial > 1:
            functions.append(pool("avg", spatial, kernel, stride, padding, divisor_override=3))
    sizes = [[9, 12, 10], [10, 11, 9], [11, 9, 13], [12, 14, 11], [13, 10, 12], [16, 15, 17]]
    inputs = [(torch.randn(1, 2, *s[:spatial]),) for s in sizes]
    check(slipway, Each(functions), inputs, tmp_path, dynamic_shapes=(dict.fromkeys(range(2, 2 + spatial), AUTO),))


def test_ceil_mode_of_open_sizes_of_integers(slipway, tmp_path):
    functions = [pool(kind, 2, *window) for kind in ("max", "avg") for window in ((2, 3), (3, 4, 1), (2, 4, 1))]
    inputs = [(torch.randint(-(2**40), 2**40, (1, 2, *s)),) for s in ((9, 12), (10, 11), (11, 9), (13, 16))]
    check(slipway, Each(functions), inputs, tmp_path, dynamic_shapes=({2: AUTO, 3: AUTO},))


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_not_finite_stays_in_its_windows(slipway, tmp_path, dynamic):
    x = torch.randn(1, 2, 7, 11)
    x[0, 0, 3, 4], x[0, 1, 0, 0] = float("nan"), float("inf")
    sizes = ((3, 4), (1, 4), (5, 11), (9, 13), (7, 1))
    functions = [lambda x, size=size: F.adaptive_avg_pool2d(x, size) for size in sizes] + [
        lambda x, size=size: F.interpolate(x, size, mode="area") for size in sizes
    ]
    cases = [(x,)] + ([(x[..., 1:, :9].contiguous(),), (x[..., :6, :8].contiguous(),)] if dynamic else [])
    check(slipway, Each(functions), cases, tmp_path, **({"dynamic_shapes": ({2: AUTO, 3: AUTO},)} if dynamic else {}))


def test_area_of_sizes_that_are_known_when_the_model_runs_only(slipway, tmp_path):
    class Area(torch.nn.Module):
        def forward(self, x, like):
            return F.interpolate(x, like.shape, mode="area")

    x = torch.randn(1, 2, 7, 11)
    x[0, 0, 3, 4] = float("nan")
    export(Area(), (x, torch.zeros(3, 4)), tmp_path / "m.pt2", dynamic_shapes=(None, {0: AUTO, 1: AUTO}))
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for like in (torch.zeros(3, 4), torch.zeros(5, 2), torch.zeros(9, 20)):
        got = session.run(
            None, dict(zip([v.name for v in session.get_inputs()], (x.numpy(), like.numpy()), strict=True))
        )[0]
        torch.testing.assert_close(torch.from_numpy(got), Area()(x, like), equal_nan=True)
