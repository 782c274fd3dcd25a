"""Every torch.nn module that torch's own tests describe, on the inputs they describe, in evaluation mode: exported,
converted, run, compared with eager. What torch cannot export is left out; what slipway refuses is listed here with the
reason."""

import copy

import numpy as np
import onnxruntime
import pytest
import torch
from torch.testing._internal.common_modules import module_db

SAMPLES = 2  # of each module's inputs
REFUSED = {
    "nn.FractionalMaxPool3d": "regions drawn at random",
}


def exported(info, path):
    """A case for each of the first samples that torch exports: (module, arguments, keywords)."""
    samples = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=False)
    for sample in [s for s in samples if s.forward_input is not None][:SAMPLES]:
        module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).eval()
        arguments, keywords = sample.forward_input.args, sample.forward_input.kwargs
        try:
            program = torch.export.export(module, copy.deepcopy(arguments), copy.deepcopy(keywords))
            torch.export.save(program, path)
        except Exception:  # noqa: S112 - torch's exporter fails in many ways
            continue
        yield module, arguments, keywords


@pytest.mark.parametrize("info", module_db, ids=lambda info: info.name)
def test_equals_eager(slipway, tmp_path, info):
    torch.manual_seed(0)
    count = 0
    for module, arguments, keywords in exported(info, tmp_path / "m.pt2"):
        count += 1
        if info.name in REFUSED:
            slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", status=4)
            continue
        slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
        with torch.no_grad():
            result = module(*copy.deepcopy(arguments), **copy.deepcopy(keywords))
        wanted = [torch.as_tensor(leaf) for leaf in torch.utils._pytree.tree_leaves(result) if leaf is not None]
        session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
        given = [x for x in torch.utils._pytree.tree_leaves((arguments, keywords)) if isinstance(x, torch.Tensor)]
        feeds = {i.name: x.detach().numpy() for i, x in zip(session.get_inputs(), given, strict=True)}
        for got, want in zip(session.run(None, feeds), wanted, strict=True):
            want = want.detach().numpy()
            assert got.shape == want.shape and got.dtype == want.dtype
            scale = max(1.0, float(np.sqrt(np.mean(np.square(want, dtype=np.float64))))) if want.size else 1.0
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * scale)
    if count == 0:
        pytest.skip("torch exports none of its samples")
