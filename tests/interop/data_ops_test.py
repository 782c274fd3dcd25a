"""Reductions, sorting, indexing, scattering and creation: exported by torch, converted, against torch eager.

Each case is a function and its inputs; with `also`, the first sizes are exported as dynamic and the model also runs on
inputs of the second sizes.
"""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

NAN, INF = float("nan"), float("inf")


def f(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape) + 7 * len(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def i(*shape, low=-9, high=10, dtype=torch.int64):
    generator = torch.Generator().manual_seed(sum(shape) + 5 * len(shape))
    return torch.randint(low, high, shape, generator=generator).to(dtype)


def b(*shape):
    return i(*shape, low=0, high=2).bool()


def t(*values, **options):
    return torch.tensor(values, **options)


def perm(n):
    return torch.randperm(n, generator=torch.Generator().manual_seed(n))


GAPS = t([1.0, NAN, 3.0], [NAN, NAN, NAN], [INF, 2.0, -INF], [NAN, INF, INF])
ops = torch.ops.aten

CASES = {
    # reductions
    "sum_all_int8": (lambda x: x.sum(), [i(3, 4, dtype=torch.int8)]),
    "sum_bool": (lambda x: x.sum(1), [b(3, 4)]),
    "sum_dtype": (lambda x: x.sum(0, dtype=torch.float64), [f(3, 4)]),
    "sum_scalar_dim": (lambda x: x.sum(-1, keepdim=True), [f()]),
    "sum_empty": (lambda x: x.sum(0), [f(0, 4)]),
    "mean_empty": (lambda x: x.mean(0), [f(0, 4)]),
    "mean_dtype": (lambda x: x.mean((0, 2), dtype=torch.float32), [i(2, 3, 4)]),
    "mean_dynamic": (lambda x: x.mean(0), [f(4, 3)], [f(7, 3)]),
    "amax_nan": (lambda x: (x.amax(1), x.amin(0, keepdim=True), x.max(), x.min()), [GAPS]),
    "max_dim_nan": (lambda x: (*x.max(1), *x.min(0, keepdim=True)), [GAPS]),
    "max_dim_bool": (lambda x: (*x.max(1), *x.min(0)), [b(4, 5)]),
    "max_dim_uint8": (lambda x: (*x.max(-1), *x.min(-2)), [i(4, 5, low=0, dtype=torch.uint8)]),
    "max_dim_scalar": (lambda x: tuple(x.max(0)), [f()]),
    "argmax_nan": (lambda x: (x.argmax(1), x.argmin(0), x.argmax(), x.argmin(keepdim=True)), [GAPS]),
    "argmax_ties": (lambda x: (x.argmax(-1), x.argmin(1, keepdim=True)), [i(4, 9, low=0, high=3)]),
    "aminmax": (lambda x: (*x.aminmax(), *x.aminmax(dim=1, keepdim=True)), [f(3, 4)]),
    "any_all": (lambda x: (x.any(), x.all(), x.any(1), x.all((0, 1), keepdim=True)), [b(3, 4)]),
    "any_all_empty": (lambda x: (x.any(1), x.all(1), x.any(), x.all()), [f(3, 0)]),
    "any_uint8": (lambda x: (x.any(1), x.all(0)), [i(3, 4, low=0, high=2, dtype=torch.uint8)]),
    "any_float_nan": (lambda x: (x.any(1), x.all(1)), [t([0.0, NAN], [0.0, 0.0], [0.1, -1.0])]),
    "any_no_dims": (lambda x: ops.any.dims(x, []), [i(3, 4, low=0, high=2)]),
    "logsumexp": (lambda x: (x.logsumexp(0), x.logsumexp((0, 1), True)), [t([INF, 1.0], [-INF, 1000.0])]),
    "logsumexp_int": (lambda x: x.logsumexp(1), [i(3, 4)]),
    "count_nonzero": (
        lambda x: (x.count_nonzero(), x.count_nonzero(1), x.count_nonzero((0, 1))),
        [i(3, 4, low=0, high=2)],
    ),
    "prod_int_exact": (lambda x: (x.prod(), x.prod(1, keepdim=True)), [i(2, 12, low=1, high=9)]),
    "vector_norms": (
        lambda x: tuple(torch.linalg.vector_norm(x, p, dim=1) for p in (0, 0.5, 1, 2, 3, INF, -INF, -1)),
        [f(3, 4)],
    ),
    "vector_norm_dtype": (lambda x: torch.linalg.vector_norm(x, dtype=torch.float64, keepdim=True), [f(3, 4)]),
    "norms": (
        lambda x: (x.norm(), x.norm(1, 0), x.norm(3, (0, 1), True), x.norm(2, 1, dtype=torch.float64)),
        [f(3, 4)],
    ),
    "dist": (lambda x, y: (torch.dist(x, y), torch.dist(x, y, 1), torch.dist(x, y, INF)), [f(3, 1), f(4)]),
    "var_corrections": (
        lambda x: (x.var(), x.var(1, correction=0), x.var(0, correction=2.5), x.std((0, 1), keepdim=True)),
        [f(3, 4)],
        [f(6, 4)],
    ),
    "var_too_few": (lambda x: (x.var(0), x.std(0, correction=3)), [f(1, 4)]),
    "var_mean": (lambda x: (*torch.var_mean(x, 1), *torch.std_mean(x, (0, 2), keepdim=True)), [f(2, 3, 4)]),
    "nan_skipping": (lambda x: (x.nansum(), x.nansum(1), x.nanmean(0, keepdim=True), x.nanmean()), [GAPS]),
    "trace": (lambda x: x.trace(), [i(3, 5)], [i(6, 5)]),
    "cumsum": (lambda x: (x.cumsum(0), x.cumsum(-1, dtype=torch.float64)), [i(3, 4)]),
    "cumprod": (lambda x: (x.cumprod(0), x.cumprod(1)), [f(3, 4)], [f(6, 4)]),
    "cumprod_int": (lambda x: x.cumprod(1), [i(2, 9, low=1)]),
    "cumprod_empty": (lambda x: x.cumprod(0), [f(0, 3)]),
    "cummax_nan": (lambda x: (*x.cummax(1), *x.cummin(0)), [GAPS]),
    "cummax_ties": (lambda x: (*x.cummax(1), *x.cummin(1)), [i(3, 9, low=0, high=3)], [i(5, 9, low=0, high=3)]),
    "cummax_bool": (lambda x: (*x.cummax(1), *x.cummin(0)), [b(3, 4)]),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), [t([INF, 1.0, 2.0], [-INF, -INF, 50.0], [0.0, 100.0, -100.0])]),
    # order
    "sort_nan": (lambda x: (*x.sort(dim=1, stable=True), *x.sort(dim=1, descending=True, stable=True)), [GAPS]),
    "sort_nan_bf16": (lambda x: tuple(x.sort(dim=1, stable=True)), [GAPS.bfloat16()]),
    "sort_dynamic": (lambda x: (*x.sort(dim=0, stable=True), x.argsort(dim=1, stable=True)), [f(4, 3)], [f(7, 3)]),
    "sort_bool": (lambda x: tuple(x.sort(dim=1, stable=True)), [b(3, 7)]),
    "sort_uint8": (lambda x: x.sort(0).values, [i(7, 2, low=0, dtype=torch.uint8)]),
    "msort": (lambda x: torch.msort(x), [f(5, 3)]),
    "topk": (lambda x: (*x.topk(3), *x.topk(2, 0, largest=False)), [perm(24).reshape(4, 6)]),
    "topk_nan": (lambda x: x.topk(2).values, [GAPS]),
    "topk_f16": (lambda x: tuple(x.topk(2, 0)), [f(5, 3, dtype=torch.float16)]),
    "kthvalue": (lambda x: (*x.kthvalue(2), *x.kthvalue(3, 0, True)), [perm(24).reshape(4, 6).float()]),
    "median": (lambda x: (x.median(), *x.median(1), *x.median(0, keepdim=True)), [perm(20).reshape(4, 5).float()]),
    "median_nan": (lambda x: (x.median(), x.nanmedian(), x.median(1).values, x.nanmedian(1).values), [GAPS]),
    "mode": (lambda x: (*x.mode(1), *x.mode(0, True)), [i(4, 9, low=0, high=4)]),
    "quantile": (
        lambda x: tuple(
            torch.quantile(x, t(0.0, 0.3, 0.5, 1.0), dim=1, interpolation=how)
            for how in ("linear", "lower", "higher", "midpoint", "nearest")
        ),
        [f(4, 7)],
    ),
    "quantile_all": (lambda x: (x.quantile(0.4), x.quantile(t(0.1, 0.9), keepdim=True)), [f(4, 7)], [f(9, 7)]),
    "quantile_keepdim": (
        lambda x: (x.quantile(0.4, 1, keepdim=True), x.quantile(t(0.1, 0.9), 0, keepdim=True)),
        [f(4, 7, 2)],
    ),
    "nanquantile": (lambda x: (x.nanquantile(0.4, 1), x.nanquantile(t(0.1, 0.9)), x.quantile(0.4, 1)), [GAPS[:3]]),
    "unique": (lambda x: torch.unique(x, return_inverse=True, return_counts=True), [i(4, 5, low=0, high=6)]),
    "unique_dim": (lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True), [i(9, 2, low=0, high=2)]),
    "unique_consecutive": (
        lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
        [t(1, 1, 2, 2, 2, 1, 3)],
    ),
    "unique_consecutive_dim": (
        lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=0),
        [t([1, 2], [1, 2], [1, 3], [1, 2])],
    ),
    "unique_consecutive_dim_alone": (
        lambda x: (torch.unique_consecutive(x, dim=1), *torch.unique_consecutive(x, dim=0, return_counts=True)),
        [t([1, 1, 2, 2], [0, 0, 3, 3], [0, 0, 3, 3])],
    ),
    "searchsorted": (
        lambda e, x: (torch.searchsorted(e, x), torch.searchsorted(e, x, right=True, out_int32=True)),
        [t([1.0, 3.0, 5.0], [2.0, 2.0, 9.0]), t([2.0, 3.0, NAN, INF], [2.0, 9.0, 0.0, 3.0])],
    ),
    "searchsorted_1d": (
        lambda e, x: torch.searchsorted(e, x, side="right"),
        [t(1, 3, 5), i(2, 3, 4)],
        [t(0, 2, 4, 4), i(2, 3, 4)],
    ),
    "searchsorted_scalar": (lambda e: torch.searchsorted(e, 3), [t(1, 3, 5)]),
    "searchsorted_sorter": (lambda e, s: torch.searchsorted(e, t(2.0, 4.0), sorter=s), [t(5.0, 1.0, 3.0), t(1, 2, 0)]),
    "bucketize": (
        lambda x, e: (torch.bucketize(x, e), torch.bucketize(x, e, right=True)),
        [f(3, 4), t(-1.0, 0.0, 0.5)],
    ),
    "isin": (lambda x, y: (torch.isin(x, y), torch.isin(x, y, invert=True), torch.isin(x, 3)), [i(3, 4), i(2, 3)]),
    "isin_nothing": (lambda x, y: torch.isin(x, y), [i(3, 4), i(0)]),
    "bincount": (lambda x: torch.bincount(x, minlength=3), [i(9, low=0, high=7)]),
    "bincount_weights": (lambda x, w: torch.bincount(x, w), [i(9, low=0, high=7), f(9)]),
    "histc": (lambda x: (x.histc(5), x.histc(4, -1, 1), x.histc(3, 0.5, 0.5)), [f(3, 9)]),
    "histogram": (
        lambda x: (*torch.histogram(x, 5), *torch.histogram(x, t(-1.0, 0.0, 0.3, 2.0), density=True)),
        [f(3, 9)],
    ),
    # indexing
    "index_one": (lambda x, k: (x[k], x[:, k], x[..., k]), [f(4, 4, 4), t(1, -1, 0)], [f(6, 4, 4), t(1, -1, 0, 3)]),
    "index_two": (lambda x, j, k: (x[j, k], x[:, j, k], x[j, :, k]), [f(4, 4, 4), t([1], [2]), t(0, -1, 3)]),
    "index_scalar": (
        lambda x, j, k: (ops.index(x, [j, k]), ops.index(x, [None, j])),
        [f(4, 4), torch.tensor(2), t(1, 3)],
    ),
    "index_mask": (lambda x, m: x[m], [f(3, 4), b(3, 4)]),
    "index_mask_rows": (lambda x, m: (x[m], x[:, m]), [f(3, 3, 2), b(3)]),
    "index_empty": (lambda x, k: x[k], [f(3, 4), i(0)]),
    "gather": (lambda x, k: x.gather(1, k), [f(3, 4), i(2, 5, low=0, high=4)]),
    "gather_scalar": (lambda x, k: x.gather(0, k), [f(), torch.tensor(0)]),
    "index_select": (lambda x, k: (x.index_select(1, k), x.index_select(0, k[0])), [f(3, 4), t(1, 1, 2)]),
    "take": (lambda x, k: x.take(k), [f(3, 4), t([0, -1], [5, 11])]),
    "take_along_dim": (
        lambda x, k, j: (x.take_along_dim(k, 1), x.take_along_dim(j)),
        [f(3, 4), i(1, 2, low=0, high=4), i(5, low=0, high=12)],
    ),
    "nonzero": (lambda x: (x.nonzero(), torch.argwhere(x), *torch.where(x)), [i(3, 4, low=0, high=2)]),
    "nonzero_scalar": (lambda x: x.nonzero(), [torch.tensor(3.0)]),
    "nonzero_static": (
        lambda x: (torch.nonzero_static(x, size=4), torch.nonzero_static(x, size=20, fill_value=-7)),
        [b(3, 4)],
    ),
    "masked_select": (lambda x, m: x.masked_select(m), [f(3, 1), b(4)]),
    "masked_scatter": (lambda x, m, s: x.masked_scatter(m, s), [f(3, 4), b(4), f(20)]),
    "diagonal": (
        lambda x: (x.diagonal(), x.diagonal(2, 1, 2), x.diagonal(-1, -1, 0), x.diagonal(9)),
        [f(3, 4, 5)],
        [f(6, 4, 5)],
    ),
    "diag": (lambda x, m: (x.diag(), x.diag(-2), m.diag(1), x.diagflat(1)), [f(4), f(3, 5)], [f(6), f(3, 5)]),
    "diag_embed": (lambda x: (x.diag_embed(), x.diag_embed(1, 0, 2), x.diag_embed(-2, -1, 0)), [f(3, 4)], [f(5, 4)]),
    "triangles": (lambda x: (x.tril(), x.triu(1), x.tril(-2), x.triu(-1)), [f(2, 4, 5)], [f(3, 4, 5)]),
    "triangle_bool": (lambda x: (x.tril(), x.triu(1)), [b(4, 5)]),
    "triangle_indices": (
        lambda x: (torch.tril_indices(4, 3, -1), torch.triu_indices(3, 4, 1, dtype=torch.int32)) + (x + 1,),
        [f(1)],
    ),
    "one_hot": (lambda x: torch.nn.functional.one_hot(x, 7), [i(3, 4, low=0, high=7)], [i(5, 4, low=0, high=7)]),
    "repeat_interleave": (
        lambda x: (x.repeat_interleave(3), x.repeat_interleave(2, 0), x.repeat_interleave(2, -1)),
        [f(3, 4)],
        [f(5, 4)],
    ),
    "repeat_interleave_tensor": (
        lambda x, r: (x.repeat_interleave(r, 0, output_size=5), torch.repeat_interleave(r, output_size=5)),
        [f(3, 4), t(1, 0, 4)],
    ),
    "as_strided": (lambda x: (x.as_strided((2, 3), (1, 2)), x.as_strided((2, 2), (4, 0), 3)), [f(3, 4)]),
    "embedding_bag": (
        lambda w, k, o, s: tuple(
            torch.nn.functional.embedding_bag(
                k, w, o, mode=m, per_sample_weights=s if m == "sum" else None, padding_idx=p
            )
            for m in ("sum", "mean", "max")
            for p in (None, 2)
        ),
        [f(6, 3), i(9, low=0, high=6), t(0, 3, 3, 7), f(9)],
    ),
    "embedding_bag_matrix": (
        lambda w, k: torch.nn.functional.embedding_bag(k, w, mode="max"),
        [f(6, 3), i(4, 2, low=0, high=6)],
    ),
    # scattering
    "scatter": (
        lambda x, k, s: (x.scatter(0, k, s), x.scatter(1, k, 2.5), x.scatter_add(0, k, s)),
        [f(4, 5), i(2, 3, low=0, high=4), f(3, 5)],
    ),
    "scatter_multiply": (
        lambda x, k, s: (x.scatter(0, k, s, reduce="multiply"), x.scatter(0, k, 2.0, reduce="add")),
        [f(4, 5), i(2, 3, low=0, high=4), f(3, 5)],
    ),
    "scatter_empty": (lambda x, k, s: x.scatter(0, k, s), [f(4, 5), i(0), f(0)]),
    **{
        f"scatter_reduce_{how}_{dtype}".replace("torch.", ""): (
            lambda x, k, s, how=how: (
                x.scatter_reduce(0, k, s, how),
                x.scatter_reduce(0, k, s, how, include_self=False),
                x.index_reduce(0, k[:, 0], s, how, include_self=False)
                if how != "sum"
                else x.index_add(0, k[:, 0], s, alpha=2),
            ),
            [i(4, 3).to(dtype), i(6, 3, low=0, high=4), i(6, 3, low=-3, high=4).to(dtype)],
        )
        for how in ("sum", "prod", "mean", "amax", "amin")
        for dtype in (torch.float32, torch.float16, torch.int64, torch.int16)
    },
    "index_writes": (
        lambda x, k, s: (
            x.index_add(1, k, s, alpha=2),
            x.index_copy(1, k, s),
            x.index_fill(1, k, 3.0),
            x.index_fill(0, k, x[0, 0]),
        ),
        [f(4, 5), t(2, 0), f(4, 2)],
    ),
    "index_writes_scalar": (lambda x, k, s: (x.index_add(0, k, s), x.index_copy(0, k, s)), [f(), torch.tensor(0), f()]),
    "index_put": (
        lambda x, j, k, v: (
            x.index_put((j, k), v),
            x.index_put((j, k), v, accumulate=True),
            ops.index_put(x, [None, j], v[0]),
            ops.index_put(x, [j, None, k], v[:, :1], True),
        ),
        [f(4, 4, 3), t(0, 2), t(1, 2), f(2, 3)],
    ),
    "index_put_mask": (
        lambda x, m, v: (
            x.index_put((m,), v),
            x.index_put((m[:, 0],), v),
            x.index_put((m,), torch.tensor(2.0), accumulate=True),
        ),
        [f(3, 4), b(3, 4), torch.tensor(1.5)],
    ),
    "index_put_bool": (lambda x, k: x.index_put((k,), torch.tensor(True)), [b(5), t(1, 3)]),
    "put": (
        lambda x, k, s: (x.put(k, s), x.put(k, s, accumulate=True)),
        [f(3, 4), t([0, -1], [5, 5]), t([1.0, 2.0], [3.0, 3.0])],
    ),
    "slice_scatter": (
        lambda x, s: (x.slice_scatter(s, 1, 1, 3), x.slice_scatter(s, 1, -2), x.slice_scatter(s, 1, 0, 4, 2)),
        [f(4, 5), f(4, 2)],
        [f(6, 5), f(6, 2)],
    ),
    "select_scatter": (
        lambda x, s: (x.select_scatter(s, 0, -1), x.select_scatter(s, 0, 2)),
        [f(4, 5), f(5)],
        [f(7, 5), f(5)],
    ),
    "diagonal_scatter": (lambda x, s: x.diagonal_scatter(s, 1, 0, 2), [f(3, 4, 5), f(4, 3)]),
    "as_strided_scatter": (lambda x, s: x.as_strided_scatter(s, (2, 2), (5, 1), 2), [f(3, 4), f(2, 2)]),
    **{
        f"segment_reduce_{how}": (
            lambda x, n, how=how: (
                torch.segment_reduce(x, how, lengths=n, unsafe=True),
                torch.segment_reduce(x, how, lengths=n, initial=2.0, unsafe=True),
            ),
            [f(6, 3), t(2, 0, 4)],
        )
        for how in ("sum", "mean", "max", "min", "prod")
    },
    # creation
    "filled": (
        lambda x: (
            torch.zeros(x.shape[0], 2, dtype=torch.int8),
            torch.ones_like(x, dtype=torch.bool),
            x.new_full((2,), 3),
            torch.full((x.shape[0],), 1.5, dtype=torch.float16),
            torch.full_like(x, INF),
            x.new_zeros(()),
            x.new_ones(0, 3),
        ),
        [f(3, 4)],
        [f(5, 4)],
    ),  # fmt: skip
    "aranges": (
        lambda x: (
            torch.arange(x.shape[0]),
            torch.arange(1, x.shape[0] + 2, 2),
            torch.arange(7, -2, -3),
            torch.arange(0.5, 3, 0.3),
            torch.arange(5, dtype=torch.float16),
            torch.arange(x.shape[0], dtype=torch.float32),
            torch.arange(3, 3),
        ),
        [f(3, 4)],
        [f(6, 4)],
    ),  # fmt: skip
    "linspaces": (
        lambda x: (
            torch.linspace(0, 1, 7),
            torch.linspace(x[0], x[1], 5),
            torch.linspace(0, 10, 4, dtype=torch.int64),
            torch.linspace(x[0], 2, 1),
            torch.linspace(0, 1, 0),
            torch.logspace(-1, 1, 5),
            torch.logspace(0, x[1], 4, base=2.0),
            torch.logspace(0, 4, 5, dtype=torch.int64),
            torch.linspace(-3, 3, 6, dtype=torch.float64),
        ),
        [f(2)],
    ),  # fmt: skip
    "eye": (lambda x: (torch.eye(x.shape[0]), torch.eye(2, x.shape[0], dtype=torch.bool)), [f(3)], [f(6)]),
    "windows": (
        lambda x: (
            x
            + torch.stack(
                [
                    torch.hann_window(9),
                    torch.hamming_window(9, False),
                    torch.blackman_window(9),
                    torch.bartlett_window(9, False),
                    torch.kaiser_window(9),
                    torch.kaiser_window(9, False, 5.0),
                    torch.hamming_window(9, True, 0.6, 0.3),
                ]
            )
        ),
        [f(9)],
    ),  # fmt: skip
    "meshgrid": (
        lambda x, y, z: (*torch.meshgrid(x, y, z, indexing="xy"), *torch.meshgrid(x, z, indexing="ij")),
        [f(3), f(2), f()],
        [f(5), f(2), f()],
    ),
    "cartesian_prod": (lambda x, y: (torch.cartesian_prod(x, y), torch.cartesian_prod(y)), [f(3), f(2)], [f(5), f(2)]),
    "block_diag": (lambda x, y, z: torch.block_diag(x, y, z), [f(3, 2), f(4), f()], [f(5, 2), f(4), f()]),
    "vander": (lambda x: (torch.vander(x), torch.vander(x, 3, True), torch.linalg.vander(x, N=5)), [f(4)]),
    "vander_int": (lambda x: (torch.vander(x, 4), torch.linalg.vander(x)), [i(4)]),
}


class Wrapped(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def sizes(first, second):
    """Which dims the second inputs change: those are dynamic."""
    return tuple(
        {d: torch.export.Dim.DYNAMIC for d in range(x.dim()) if x.shape[d] != y.shape[d]} or None
        for x, y in zip(first, second)
    )


def numbers(value):
    return value.float().numpy() if value.dtype == torch.bfloat16 else value.numpy()


@pytest.mark.parametrize("name", CASES)
def test_equals_eager(name, slipway, tmp_path):
    function, inputs, *also = CASES[name]
    dynamic = {"args": sizes(inputs, also[0])} if also else None
    program = torch.export.export(Wrapped(function), tuple(inputs), dynamic_shapes=dynamic, strict=False)
    torch.export.save(program, tmp_path / "in.pt2")
    slipway("convert", tmp_path / "in.pt2", "-o", tmp_path / "out.onnx")
    onnx.checker.check_model(str(tmp_path / "out.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(str(tmp_path / "out.onnx"), providers=["CPUExecutionProvider"])
    for given in (inputs, *also):
        names = [value.name for value in session.get_inputs()]
        if any(x.dtype == torch.bfloat16 for x in given):
            feed = {
                n: onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(torch.int16).numpy(), 16)
                for n, x in zip(names, given)
            }
            actual = [torch.from_dlpack(v._ortvalue.to_dlpack()) for v in session.run_with_ort_values(None, feed)]
        else:
            actual = [
                torch.from_numpy(np.asarray(v)) for v in session.run(None, dict(zip(names, [x.numpy() for x in given])))
            ]
        expected = torch.utils._pytree.tree_leaves(function(*given))
        assert len(actual) == len(expected)
        for k, (got, want) in enumerate(zip(actual, expected)):
            assert got.shape == want.shape and got.dtype == want.dtype, k
            rough = want.dtype in (torch.float16, torch.bfloat16)
            np.testing.assert_allclose(
                numbers(got), numbers(want), rtol=1e-2 if rough else 2e-5, atol=1e-2 if rough else 2e-6, err_msg=str(k)
            )
