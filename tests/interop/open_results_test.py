"""What torch leaves open: the order of equal elements, and random numbers. Every order is right that picks the same
values; random numbers are right in their range and distribution."""

import numpy as np
import onnxruntime
import pytest
import torch
from exported import export
from safetensors.torch import load_file, save_file
from torch import nn


def run_both(slipway, module, inputs, folder):
    """Outputs by onnxruntime and by `run`."""
    export(module, inputs, folder / "m.pt2")
    slipway("convert", folder / "m.pt2", "-o", folder / "m.onnx")
    save_file({f"input.{i}": x.contiguous() for i, x in enumerate(inputs)}, folder / "in.safetensors")
    slipway("run", folder / "m.pt2", "--inputs", folder / "in.safetensors", "--outputs", folder / "out.safetensors")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"), options, providers=["CPUExecutionProvider"])
    feeds = {value.name: x.numpy() for value, x in zip(session.get_inputs(), inputs, strict=True)}
    native = load_file(folder / "out.safetensors")
    return [
        [torch.from_numpy(np.array(x)) for x in session.run(None, feeds)],
        [native[f"output.{i}"] for i in range(len(native))],
    ]


class Orders(nn.Module):
    def forward(self, x):
        return *torch.sort(x, 1), torch.argsort(x, 1, descending=True), *torch.topk(x, 7, 1), *torch.kthvalue(x, 5, 1)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float16, torch.int64, torch.float32, torch.uint8])
def test_equal_elements_in_any_order(slipway, tmp_path, dtype):
    x = torch.randint(0, 2 if dtype == torch.bool else 4, (3, 40)).to(dtype)

    class Sorts(nn.Module):
        def forward(self, x):
            return *torch.sort(x, 1), torch.argsort(x, 1, descending=True)

    module = Sorts() if dtype == torch.bool else Orders()
    wanted = module(x)
    for got in run_both(slipway, module, (x,), tmp_path):
        for i, want in enumerate(wanted):
            if want.dtype != torch.int64 or (dtype == torch.int64 and i in (0, 3, 5)):
                assert torch.equal(got[i], want)
                continue
            place = got[i] if got[i].dim() == 2 else got[i].unsqueeze(1)
            other = want if want.dim() == 2 else want.unsqueeze(1)
            assert torch.equal(x.gather(1, place), x.gather(1, other))
            assert all(len(set(row.tolist())) == place.shape[1] for row in place)
