"""Export, convert, run: what interop tests of small modules share."""

import copy

import numpy as np
import onnx
import onnxruntime
import torch


def tensors(tree):
    return [torch.as_tensor(leaf) for leaf in torch.utils._pytree.tree_leaves(tree) if leaf is not None]


def clones(tree):
    return torch.utils._pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, tree)


def export(module, arguments, path, **options):
    torch.export.save(torch.export.export(module.eval(), clones(arguments), **options), path)


def check(slipway, module, cases, folder, rtol=1e-5, atol=1e-6, **options):
    """Exports `module` for the first of `cases`, converts it and compares it with eager on all. Eager runs on a copy,
    so that mutated state starts fresh each time, as it does in the converted model. Gives convert's stderr."""
    source, target = folder / "model.pt2", folder / "model.onnx"
    export(module, cases[0], source, **options)
    done = slipway("convert", source, "-o", target)
    onnx.checker.check_model(str(target), full_check=True)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(target), settings, providers=["CPUExecutionProvider"])
    for arguments in cases:
        with torch.no_grad():
            wanted = tensors(copy.deepcopy(module)(*clones(arguments)))
        feeds = [leaf.detach().numpy() for leaf in tensors(clones(arguments))]
        results = session.run(None, dict(zip([value.name for value in session.get_inputs()], feeds, strict=True)))
        assert len(results) == len(wanted)
        for got, want in zip(results, wanted, strict=True):
            want = want.detach().resolve_conj().resolve_neg().numpy()
            assert got.shape == want.shape and got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    return done.stderr
