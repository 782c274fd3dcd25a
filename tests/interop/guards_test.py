"""Guards of torch.export: sizes that a program was not exported for are refused by `run` and by libraries, with the
guard's text; ONNX, whose types cannot say them, has them among its metadata."""

import onnx
import pytest
import torch
from exported import export
from safetensors.torch import load_file, save_file
from torch import nn

AUTO = torch.export.Dim.AUTO


class Even(nn.Module):
    def forward(self, x, y):
        return x * 2 + y.sum() if x.shape[0] % 2 == 0 else x


class Shorter(nn.Module):
    def forward(self, x, y):
        return x.sum() * y.sum() if x.shape[0] < y.shape[0] * 2 and x.shape[1] > 2 else x.sum()


class Largest(nn.Module):
    def forward(self, x, y):
        return x.sum() * y.sum() if torch.sym_max(x.shape[0], y.shape[0]) * x.shape[1] < 39 else x.sum()


class Root(nn.Module):
    def forward(self, x, y):
        return x.sum() + y.sum() if x.shape[0] ** 0.5 < 3 and int(x.shape[0] * 1.5) == 6 else x.sum()


class Pool(nn.Module):
    def forward(self, x, y):
        return nn.functional.avg_pool2d(x[None, None], 2, 3, ceil_mode=True) + y.sum()


class Nested(nn.Module):
    def forward(self, x, y):
        a, b = x["Ids.a"], x["b"][0]
        return a.sum() * b.sum() + y.sum() if a.shape[0] < b.shape[0] else a.sum()


# A module, the sizes it was exported for, others that its guards allow, those that they forbid, and what is said then.
CASES = [
    (Even, ((4, 3), (6, 3)), ((8, 5), (2, 3)), ((5, 3), (6, 3)), "x.size()[0] % 2"),
    (Shorter, ((4, 3), (6, 3)), ((11, 3), (6, 3)), ((12, 3), (6, 3)), r"x.size()[0] < 2*y.size()[0]"),
    (Largest, ((4, 3), (6, 3)), ((12, 3), (5, 3)), ((13, 3), (6, 3)), "max("),
    (Root, ((4, 3), (6, 3)), ((4, 9), (7, 3)), ((5, 3), (6, 3)), "trunc"),
    (Pool, ((8, 10), (6, 3)), ((11, 7), (2, 3)), ((9, 10), (6, 3)), "x.size()[0]"),
    (
        Nested,
        ((4, 3), (6, 3), (2, 3)),
        ((5, 3), (6, 3), (4, 3)),
        ((6, 3), (6, 3), (2, 3)),
        "x.Ids.a.size()[0] < x.b.0.size()[0]",
    ),
]


def arguments(module, sizes):
    tensors = [torch.randn(s) for s in sizes]
    if module is Nested:
        return tensors, ({"Ids.a": tensors[0], "b": [tensors[1]]}, tensors[2])
    return tensors, tuple(tensors)


@pytest.mark.parametrize("module,exported,allowed,forbidden,said", CASES, ids=[c[0].__name__ for c in CASES])
def test_guards(slipway, tmp_path, module, exported, allowed, forbidden, said):
    torch.manual_seed(0)
    model = module().eval()
    _, example = arguments(module, exported)
    shapes = torch.utils._pytree.tree_map(lambda t: dict.fromkeys(range(t.dim()), AUTO), example)
    export(model, example, tmp_path / "m.pt2", dynamic_shapes=shapes)
    program = torch.export.load(tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    run = ("--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors")
    for path in ("m.pt2", "m.so"):
        tensors, example = arguments(module, allowed)
        save_file({f"input.{i}": t for i, t in enumerate(tensors)}, tmp_path / "in.safetensors")
        slipway("run", tmp_path / path, *run)
        torch.testing.assert_close(
            load_file(tmp_path / "out.safetensors")["output.0"], model(*example), rtol=1e-5, atol=1e-5
        )
        (tmp_path / "out.safetensors").unlink()

        tensors, example = arguments(module, forbidden)
        with pytest.raises(Exception, match="Guard failed"):
            program.module()(*example)
        save_file({f"input.{i}": t for i, t in enumerate(tensors)}, tmp_path / "in.safetensors")
        refused = slipway("run", tmp_path / path, *run, status=3).stderr
        assert said in refused and "guard of torch.export" in refused and not (tmp_path / "out.safetensors").exists()

    told = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx").stderr
    metadata = {p.key: p.value for p in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert said in metadata["slipway.guards"] and metadata["slipway.guards"] in told


def test_no_guards(slipway, tmp_path):
    """Ranges and equal sizes are in the types."""

    class Plain(nn.Module):
        def forward(self, x, y):
            return x + y

    export(Plain(), (torch.randn(4, 3), torch.randn(4, 3)), tmp_path / "m.pt2", dynamic_shapes=({0: AUTO}, {0: AUTO}))
    assert "not checked" not in slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx").stderr
    assert "slipway.guards" not in {p.key for p in onnx.load(tmp_path / "m.onnx").metadata_props}
