"""Files that are right and that ONNX Runtime's optimizer would break (exporters/onnx/ort_workarounds.h): the same
numbers with it and without, and torch's. The first workaround has its test in contract_test.py, in a process of its
own."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from exported import export
from torch import nn
from torch.nn import functional as F


class PadMaxPool(nn.Module):
    def __init__(self, dims, cast=False):
        super().__init__()
        self.pads, self.pool, self.cast = [1, 2] * dims, [F.max_pool1d, F.max_pool2d, F.max_pool3d][dims - 1], cast

    def forward(self, x):
        x = F.pad(x, self.pads)
        return self.pool(x.float() if self.cast else x, 3, 2)


class PadAveragePool(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 2, 1, count_include_pad=False)


class PadFilters(nn.Module):
    """The filters are padded, not the image."""

    def __init__(self):
        super().__init__()
        self.filters = nn.Parameter(torch.randn(4, 3, 3, 3))

    def forward(self, x, mask):
        return F.conv2d(x, F.pad(self.filters * mask, (1, 1, 1, 1)), padding=1)


class PadInBranch(nn.Module):
    def forward(self, x):
        return torch.cond(
            x.sum() > 0,
            lambda x: F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3),
            lambda x: F.max_pool2d(F.pad(x, (0, 2, 0, 2)), 3),
            (x,),
        )


class PadConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return self.conv(F.pad(x, (1, 1, 1, 1)))


def negative(*shape):
    return -1 - torch.rand(shape)


CASES = {
    "max1": (PadMaxPool(1), (negative(2, 3, 9),)),
    "max2": (PadMaxPool(2), (negative(2, 3, 9, 8),)),
    "max3": (PadMaxPool(3), (negative(1, 2, 5, 6, 7),)),
    "max2_half": (PadMaxPool(2), (negative(2, 3, 9, 8).half(),)),
    "max2_cast": (PadMaxPool(2, cast=True), (negative(2, 3, 9, 8).mul(9).to(torch.int32),)),
    "average": (PadAveragePool(), (negative(2, 3, 9, 8),)),
    "filters": (PadFilters(), (torch.randn(2, 3, 9, 8), torch.rand(4, 3, 3, 3))),
    "branch": (PadInBranch(), (negative(2, 3, 9, 8),)),
    "conv": (PadConv(), (torch.randn(2, 3, 9, 8),)),
}


@pytest.mark.parametrize("opset", [18, 20, 22])
@pytest.mark.parametrize("name", CASES)
def test_optimizer_keeps_numbers(slipway, tmp_path, name, opset):
    module, inputs = CASES[name]
    export(module, inputs, tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--opset", str(opset))
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
    wanted = module(*inputs).detach().numpy()
    for level in (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
        onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    ):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), options, providers=["CPUExecutionProvider"])
        feeds = {value.name: x.numpy() for value, x in zip(session.get_inputs(), inputs, strict=True)}
        np.testing.assert_allclose(session.run(None, feeds)[0], wanted, rtol=1e-4, atol=1e-5)


def test_pad_of_an_image_still_becomes_the_convolutions(slipway, tmp_path):
    module, inputs = CASES["conv"]
    export(module, inputs, tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "done.onnx")
    onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), options, providers=["CPUExecutionProvider"])
    assert "Pad" not in {node.op_type for node in onnx.load(tmp_path / "done.onnx").graph.node}


def test_products_over_an_empty_size_are_zeros(slipway, tmp_path):
    """Whatever memory their results get: freed arrays of these numbers are around."""

    class Products(nn.Module):
        def forward(self, x, y, bias):
            return x @ y.mT, torch.baddbmm(bias, x, y.mT)

    inputs = torch.randn(3, 5, 0), torch.randn(3, 7, 0), torch.randn(3, 5, 7)
    batch = {0: torch.export.Dim.AUTO}
    export(Products(), inputs, tmp_path / "m.pt2", dynamic_shapes=(batch, batch, batch))
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    options = onnxruntime.SessionOptions()
    options.enable_cpu_mem_arena = False
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), options, providers=["CPUExecutionProvider"])
    feeds = {value.name: x.numpy() for value, x in zip(session.get_inputs(), inputs, strict=True)}
    for _ in range(3):
        freed = [np.full(3 * 5 * 7, 3.25, np.float32) for _ in range(100)]
        del freed
        product, sum_ = session.run(None, feeds)
        np.testing.assert_array_equal(product, np.zeros((3, 5, 7), np.float32))
        np.testing.assert_array_equal(sum_, inputs[2].numpy())
