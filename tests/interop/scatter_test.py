"""torch_scatter's operators, whose schemas and meaning are registered here as its documentation has them: the package
need not be there."""

import pytest
import torch
from rare_operators_test import compare

ONE = "(Tensor _0, Tensor _1, Tensor? _2)"
COO = "(Tensor _0, Tensor _1, Tensor? _2, int? _3)"
SCATTER = "(Tensor _0, Tensor _1, int _2, Tensor? _3, int? _4)"


def reduced(src, index, dim, size, how):
    """Row by row."""
    shape = list(src.shape)
    shape[dim] = size
    src, out = src.movedim(dim, 0), torch.zeros(shape, dtype=src.dtype).movedim(dim, 0)
    for k in range(size):
        rows = src[index == k]
        if how == "mul":
            out[k] = rows.prod(0)
        elif len(rows):
            out[k] = {"sum": rows.sum, "mean": rows.mean, "min": rows.amin, "max": rows.amax}[how](0)
    return out.movedim(0, dim).contiguous()


def define(name, schema, pairs, function, fake):
    torch.library.define(f"torch_scatter::{name}", f"{schema} -> {'(Tensor, Tensor)' if pairs else 'Tensor'}")

    def give(make):
        def call(*arguments):
            out = make(*arguments)
            return (out, torch.zeros_like(out, dtype=torch.int64)) if pairs else out

        return call

    torch.library.impl(f"torch_scatter::{name}", "CPU")(give(function))
    torch.library.register_fake(f"torch_scatter::{name}")(give(fake))


def resized(src, dim, size):
    shape = list(src.shape)
    shape[dim] = size
    return src.new_empty(shape)


def of_ends(ends, n):
    return torch.searchsorted(ends, torch.arange(n), right=True) - 1


for how in ("sum", "mean", "min", "max", "mul"):
    pairs = how in ("min", "max")
    define(
        f"scatter_{how}",
        SCATTER,
        pairs,
        lambda s, i, d, o, n, how=how: reduced(s, i, d, n, how),
        lambda s, i, d, o, n: resized(s, d, n),
    )
    if how == "mul":
        continue
    define(
        f"segment_{how}_coo", COO, pairs, lambda s, i, o, n, how=how: reduced(s, i, i.dim() - 1, n, how), lambda s, i,
        o, n: resized(s, i.dim() - 1, n)
    )  # fmt: skip
    define(
        f"segment_{how}_csr", ONE, pairs, lambda s, e, o, how=how: reduced(s, of_ends(e, len(s)), 0, len(e) - 1, how),
        lambda s, e, o: resized(s, 0, e.shape[0] - 1),
    )  # fmt: skip
define("gather_coo", ONE, False, lambda s, i, o: s.index_select(0, i), lambda s, i, o: resized(s, 0, i.shape[0]))
define(
    "gather_csr", ONE, False, lambda s, e, o: s.repeat_interleave(e.diff(), 0),
    lambda s, e, o: resized(s, 0, torch.library.get_ctx().new_dynamic_size()),
)  # fmt: skip
ops = torch.ops.torch_scatter


def first(result):
    return result[0] if isinstance(result, (tuple, list)) else result


@pytest.mark.parametrize("how", ["sum", "mean", "min", "max", "mul"])
def test_scatter(slipway, tmp_path, how):
    def call(x, index):
        return first(getattr(ops, f"scatter_{how}")(x, index, 0, None, 6)), first(
            getattr(ops, f"scatter_{how}")(x.t(), index, 1, None, 6)
        )

    compare(slipway, call, [(torch.randn(9, 4), torch.tensor([0, 2, 2, 5, 0, 1, 2, 5, 5]))], tmp_path)


@pytest.mark.parametrize("how", ["sum", "mean", "min", "max"])
def test_segments(slipway, tmp_path, how):
    def call(x, index, ends):
        return first(getattr(ops, f"segment_{how}_coo")(x, index, None, 5)), first(
            getattr(ops, f"segment_{how}_csr")(x, ends, None)
        )

    index = torch.tensor([0, 0, 1, 3, 3, 3, 4, 4, 4])
    rows, ends = {0: torch.export.Dim("rows", min=2)}, {0: torch.export.Dim("ends", min=3)}
    cases = [(torch.randn(9, 4), index, torch.tensor(e)) for e in ([0, 2, 2, 5, 9], [1, 4, 4, 7], [0, 0, 0, 9])]
    compare(slipway, call, cases, tmp_path, dynamic=(rows, rows, ends))


def test_rows_of_segments(slipway, tmp_path):
    def call(x, index, ends):
        return ops.gather_coo(x, index, None), ops.gather_csr(x, ends, None) * 2

    case = (torch.randn(4, 3), torch.tensor([0, 0, 1, 3, 3]), torch.tensor([0, 2, 2, 5, 6]))
    compare(slipway, call, [case, (case[0], case[1], torch.tensor([0, 1, 7, 7, 9]))], tmp_path)


def test_places_of_extremes_are_refused(slipway, tmp_path):
    class Places(torch.nn.Module):
        def forward(self, x, ends):
            return ops.segment_max_csr(x, ends, None)[1]

    torch.export.save(torch.export.export(Places(), (torch.randn(9, 4), torch.tensor([0, 4, 9]))), tmp_path / "m.pt2")
    assert "places" in slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", status=4).stderr
