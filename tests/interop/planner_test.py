"""`slipway run` on the plain kernels: exported by torch, against torch eager.

Each case is a function and its inputs. With two sets of inputs, the dims that differ are exported as dynamic and both
run. Every case runs under each instruction set that the machine has; the others are reported as not run.
"""

import os
import pathlib
import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLIPWAY = os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway"))
NAN, INF = float("nan"), float("inf")


FLAGS = set(pathlib.Path("/proc/cpuinfo").read_text().split())  # of x86-64; elsewhere no set can be chosen
ISAS = {  # by SLIPWAY_ISA
    "v2": {"sse4_2"},
    "avx2": {"avx2", "fma", "f16c"},
    "avx512": {"avx512f", "avx512vl", "avx512bw", "avx512dq"},
}
PRESENT = [isa for isa, needs in ISAS.items() if needs <= FLAGS] or [""]


def f(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + 7 * len(shape))).to(dtype)


def i(*shape, low=-9, high=10, dtype=torch.int64):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def b(*shape):
    return i(*shape, low=0, high=2).bool()


ODD = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, NAN, INF, -INF, 1e-3, 88.0])
UNARY = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor frac isfinite isinf isnan log "
    "log10 "
    "log1p log2 neg reciprocal relu round rsqrt sigmoid sign signbit sin sinh sqrt square tan tanh trunc"
).split()
BINARY = (
    "add sub mul div floor_divide remainder fmod pow maximum minimum fmax fmin atan2 hypot eq ne lt le gt ge".split()
)
LOGICAL = "logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor".split()
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
F = torch.nn.functional


def name(dtype):
    return str(dtype).removeprefix("torch.")


CASES = {
    **{f"unary_{name(t)}": (lambda x: tuple(getattr(torch, op)(x) for op in UNARY), [ODD.to(t)]) for t in FLOATS},
    **{
        f"unary_{name(t)}": (
            lambda x: (x.abs(), -x, x.sign(), x.square(), x.relu(), ~x, x.logical_not(), x.sin(), x.sqrt(), x.exp()),
            [i(9, low=0 if t == torch.uint8 else -9).to(t)],
        )
        for t in INTS
    },
    **{
        f"binary_{name(t)}": (
            lambda x, y: tuple(getattr(torch, op)(x, y) for op in BINARY),
            [ODD[:, None].to(t), ODD[None, :].clone().to(t)],
        )
        for t in FLOATS
    },
    **{
        f"binary_{name(t)}": (
            lambda x, y: tuple(getattr(torch, op)(x, y) for op in BINARY + LOGICAL if op != "hypot") + (x << 2, x >> 1),
            [i(6, 1, low=0 if t == torch.uint8 else -9).to(t), i(5, low=1, high=7).to(t)],
        )
        for t in INTS
    },
    "promotion": (
        lambda h, d, k, m: (
            h + k,
            k / 2,
            k * 2.5,
            m + 1,
            m * m,
            h * d[0],
            k + d,
            m & (k > 0),
            h + 0.1,
            h * 1.7,
            d + h,
            k // 2.0,
        ),
        [f(4, dtype=torch.float16), f(4, dtype=torch.float64), i(4), b(4)],
    ),
    "scaled": (
        lambda x, k: (torch.add(x, x, alpha=2.5), torch.sub(k, k, alpha=3), torch.rsub(x, 1, alpha=0.5)),
        [f(4), i(4)],
    ),
    "activations": (
        lambda x: (
            F.gelu(x),
            F.gelu(x, approximate="tanh"),
            F.silu(x),
            F.elu(x, 0.7),
            F.leaky_relu(x, 0.2),
            F.softplus(x, 2, 3),
            F.hardswish(x),
            F.hardsigmoid(x),
            F.mish(x),
            F.relu6(x * 4),
            F.hardtanh(x, -0.3, 0.4),
            x.clamp(min=-0.5),
            x.clamp(-0.5, 0.5),
            x.clamp_max(x[0]),
            x.nan_to_num(),
            F.selu(x),
            F.celu(x, 0.7),
        ),
        # Not of infinities, of which torch's gelu has a number or NaN by where in the tensor they are.
        [torch.cat([ODD.nan_to_num(NAN, 1e4, -1e4), 4 * f(700)]).expand(2, -1)],
    ),  # fmt: skip
    "ternary": (
        lambda x, y, m: (
            torch.where(m, x, y),
            x.masked_fill(m, -INF),
            torch.addcmul(x, y, y, value=0.3),
            x.addcdiv(y, y + 9),
            torch.lerp(x, y, 0.3),
            torch.lerp(x, y, y),
            torch.where(m, 1.0, x),
        ),
        [f(3, 4), f(4), b(3, 1)],
    ),  # fmt: skip
    **{
        f"casts_{name(t)}": (
            lambda x: tuple(x.to(u) for u in (*FLOATS, *INTS, torch.bool)),
            [torch.tensor([0.0, 1.5, -1.5, 2.5, 100.4, 0.3]).to(t) if t in FLOATS else i(6, low=0, high=100).to(t)],
        )
        for t in (*FLOATS, *INTS)
    },
    "views": (
        lambda x: (
            x.permute(2, 0, 1).reshape(5, 12),
            x.transpose(0, 2).flatten(),
            x[:, 1::2],
            x[-1],
            x.flip(0, 2),
            x.unfold(2, 3, 2),
            x.diagonal(1, 1, 2),
            x[:, :1].expand(3, 6, 5),
            x.movedim((0, 1), (2, 0)),
            x.unsqueeze(1).squeeze(),
            x.mT.contiguous().view(15, 4),
            x.T.contiguous(),
            x.T[1] * 2,
        ),
        [f(3, 4, 5)],
        [f(3, 4, 5)],
    ),  # fmt: skip
    "dynamic": (
        lambda x: (
            x.reshape(-1, x.shape[0]),
            x.softmax(0) + x.shape[0],
            torch.arange(x.shape[1]),
            x.sum(0) / x.shape[0],
        ),
        [f(4, 6)],
        [f(7, 5)],
    ),
    "joins": (
        lambda x: (
            torch.cat([x, x[:1], x.new_zeros(0, 4)]),
            torch.stack([x, x], 1),
            x.repeat(2, 1, 3),
            x.roll(1),
            x.roll((1, -2), (0, 1)),
            F.pad(x, (1, 2, -1, 0), value=3),
            *x.split(2),
            *x.chunk(3, 1),
            *x.unbind(0),
        ),
        [f(3, 4)],
    ),  # fmt: skip
    "creation": (
        lambda x: (
            torch.arange(7),
            torch.arange(1, 8, 3),
            torch.arange(0.5, 3, 0.3),
            torch.linspace(-1, 2, 7),
            torch.eye(3, 4),
            torch.full((2, 3), 2.5),
            torch.ones(2, dtype=torch.int8),
            x.tril(),
            x.triu(1),
            torch.diag_embed(x[0]),
            x.new_full((2,), 7),
            torch.zeros_like(x),
            torch.arange(5, dtype=torch.bfloat16),
        ),
        [f(4, 5)],
    ),  # fmt: skip
    # Rows of more than a vector, with ties, infinities and NaN.
    "extremes": (
        lambda x: (
            x.argmax(1),
            x.argmin(1),
            x.argmax(0),
            x.max(1).values,
            x.min(1).values,
            x.min(1).indices,
            x.max(0).indices,
        ),
        [
            torch.cat(
                [
                    i(3, 70, low=-5, high=6).float(),
                    torch.full((1, 70), -INF),
                    torch.full((1, 70), INF),
                    torch.cat([i(1, 40, low=-5, high=6).float(), torch.tensor([[NAN, -INF, NAN]]), f(1, 27)], 1),
                ]
            )
        ],
    ),  # fmt: skip
    **{
        f"reductions_{name(t)}": (
            lambda x: (
                x.sum(),
                x.sum(0),
                x.prod(1),
                x.amax((0, 2)),
                x.amin(1, keepdim=True),
                x.max(),
                *x.max(1),
                *x.min(2, keepdim=True),
                x.any(1),
                x.all(),
                x.argmax(),
                x.argmin(1),
                x.cumsum(1),
                *(
                    ()
                    if not t.is_floating_point
                    else (x.mean(), x.mean((0, 2)), x.var(1), x.std((0, 1), correction=0), x.norm(dim=1))
                ),
            ),
            [f(2, 3, 4).to(t) if t.is_floating_point else i(2, 3, 4, dtype=t)],
        )
        for t in (torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64)
    },  # fmt: skip
    "norms": (
        lambda x, w, c: (
            x.softmax(1),
            x.log_softmax(0),
            F.layer_norm(x, (3, 4), w, c),
            F.layer_norm(x, (4,)),
            *(torch.linalg.vector_norm(x, p, dim=1) for p in (0, 1, 2, 3, INF, -INF)),
        ),
        [f(2, 3, 4), f(3, 4), f(3, 4) + 1],
    ),  # fmt: skip
    "index": (
        lambda x, j, k: (
            x.index_select(1, j),
            x[j, k],
            x[:, k],
            x[j, :, k],
            x.gather(1, j[:, None, None].expand(2, 1, 5)),
            F.embedding(j, x[:, 0]),
            x.index_put((j, k), x[0, 0]),
            x.index_put((j, k), x[0, 0], accumulate=True),
            x.scatter(0, j[:, None, None], x),
            x.scatter(1, j[:, None, None], 2.5),
            x.select_scatter(x[0], 0, 1),
            x.slice_scatter(x[:, :1], 1, 1, 2),
        ),
        [f(3, 4, 5), torch.tensor([0, 2]), torch.tensor([-1, 1])],
    ),  # fmt: skip
    "order": (
        lambda x: (
            *x.sort(dim=1, stable=True),
            *x.sort(dim=0, descending=True, stable=True),
            x.argsort(dim=1, stable=True),
            *x.topk(2),
        ),
        [f(4, 6)],
    ),
    **{
        f"products_{name(t)}": (
            lambda x, y, v: (
                x @ y,
                x[0] @ y,
                x @ v,
                v @ y[0],
                v @ v,
                torch.bmm(x, y),
                F.linear(x, y[0].T, y[0, 0]),
                torch.addmm(y[0, 0], x[0], y[0], beta=0.5, alpha=2),
                torch.baddbmm(y[:, :1], x, y),
                x[:1] @ y,
            ),
            [(f(2, 3, 4) * 3).to(t), (f(2, 4, 5) * 3).to(t), (f(4) * 3).to(t)],
        )
        for t in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64)
    },  # fmt: skip
    "attention": (
        lambda q, k, m: (
            F.scaled_dot_product_attention(q, k, k),
            F.scaled_dot_product_attention(q, k, k, is_causal=True, scale=0.3),
            F.scaled_dot_product_attention(q, k, k, attn_mask=m),
            F.scaled_dot_product_attention(q, k[:, :1], k[:, :1], enable_gqa=True),
        ),
        [f(2, 4, 3, 8), f(2, 4, 5, 8), b(3, 5)],
    ),  # fmt: skip
    "normalizations": (
        lambda x, w: (
            F.batch_norm(x, w, w * w + 1, w, w),
            F.batch_norm(x, None, None, w, None, True),
            F.group_norm(x, 2, w, w),
            F.instance_norm(x, weight=w),
            F.rms_norm(x, (5,)),
            F.rms_norm(x, (6, 5), x[0], 1e-3),
        ),
        [f(3, 6, 5), f(6)],
    ),  # fmt: skip
    # Groups of one channel, of odd numbers of them, of all; few dims and many; views with channels last, whole and in
    # part.
    "group_norms": (
        lambda x, w, b, y: (
            *(F.group_norm(x, g, w, b) for g in (1, 4, 12, 36)),
            F.group_norm(x, 4),
            F.group_norm(x, 4, weight=w),
            F.group_norm(x, 4, bias=b),
            F.instance_norm(x),
            F.instance_norm(x, weight=w, bias=b, eps=0.1),
            F.instance_norm(x.flatten(2), weight=w),
            F.group_norm(x[:, :, 0, 0], 4, w, b),
            F.group_norm(x.flatten(2), 12, w, b),
            F.group_norm(x[:, :, None, :, :2], 4, w, b),
            F.group_norm(x.mT, 4, w, b),
            F.group_norm(x[:, ::2], 2),
            F.group_norm(x[:, :, 1:], 4),
            F.silu(F.group_norm(y.permute(0, 3, 1, 2), 32)) + 1,
            F.group_norm(y.permute(0, 3, 1, 2)[:, :24], 8),
            F.group_norm(y.flatten(1, 2).mT, 8),
            F.group_norm(y.permute(0, 3, 1, 2)[:, :, None], 8),
            torch.native_group_norm(x, w, b, 3, 36, 35, 4, 1e-5)[0],
            *torch.native_group_norm(x, w, b, 3, 36, 35, 4, 1e-5),
            F.group_norm(x.repeat(1, 1, 30, 20), 4, w, b),
        ),
        [f(3, 36, 5, 7), f(36), f(36) / 2, f(2, 11, 6, 64)],
    ),  # fmt: skip
    **{
        f"group_norms_{name(t)}": (
            lambda x, w: (F.group_norm(x, 4, w, w), F.instance_norm(x, weight=w)),
            [f(2, 12, 5, 7).to(t), f(12).to(t)],
        )
        for t in FLOATS
    },
    "group_norms_of_any_size": (
        lambda x, w: (
            F.relu(F.group_norm(x, 4, w, w)),
            F.instance_norm(x, weight=w),
            F.group_norm(x.permute(0, 3, 2, 1), 5),
            F.group_norm(x.permute(0, 3, 1, 2), 1),
            F.group_norm(x[:, :, 0], 3, w, w),
            F.group_norm(x[:, :, 0, 0], 3),
        ),
        [f(2, 12, 6, 5), f(12)],
        [f(5, 12, 90, 5), f(12)],
    ),  # fmt: skip
    "group_norms_of_no_numbers": (
        lambda x, w: (
            F.group_norm(x, 2),
            F.group_norm(x[:1, :4], 2, w, w),
            F.group_norm(x[:, :, :0], 2),
            F.group_norm(x[:0], 2),
            F.group_norm(x[:, :2, :1] * 0, 2),
        ),
        [torch.cat([ODD, f(108)]).reshape(2, 6, 10), f(4)],
    ),  # fmt: skip
    "functions": (
        lambda x, y: (
            F.logsigmoid(x),
            F.softshrink(x, 0.3),
            F.hardshrink(x),
            F.threshold(x, 0.1, 7),
            F.prelu(x, y[0, :1]),
            torch.sinc(x),
            torch.deg2rad(x),
            torch.rad2deg(x),
            torch.logaddexp(x, y),
            torch.logaddexp2(x, y),
            x.logsumexp((0, 1)),
            x.logsumexp(1, keepdim=True),
            *x.aminmax(dim=1),
            *x.aminmax(),
            x.count_nonzero(),
            (x > 0).count_nonzero(1),
            torch.isposinf(x / 0),
            torch.isneginf(x / 0),
            x.repeat_interleave(2, 0),
            x.repeat_interleave(3),
        ),
        [f(3, 4), f(3, 4) + 1],
    ),  # fmt: skip
    "grids": (
        lambda x, y: (*torch.meshgrid(x, y, indexing="xy"), *torch.meshgrid(x, y, y, indexing="ij")),
        [f(3), f(3) * 2],
    ),
    "convolutions": (
        lambda x, w, v, c: (
            F.conv2d(x, w, c),
            F.conv2d(x, w, None, (2, 1), (1, 2), (1, 2)),
            F.conv2d(x, w[:, :1], c, groups=4, padding="same"),
            F.conv1d(x[:, :, 0], w[:, :, 0], stride=2),
            F.conv3d(x[:, None], w[:, None], padding=1),
            F.conv_transpose2d(x, v, None, 2, 1, 1),
            F.conv_transpose1d(x[:, :, 0], v[:, :, 0], groups=2, dilation=2),
            F.conv2d(x[0], w),
            F.conv2d(x.double(), w.double()),
            F.conv2d(x.bfloat16(), w.bfloat16(), c.bfloat16()),
        ),
        [f(2, 4, 7, 9), f(4, 4, 3, 3), f(4, 2, 3, 3), f(4)],
    ),
    "convolutions_of_one_column": (  # computed over rows
        lambda x, w, v, c, d: (
            F.conv2d(x, w, c).relu() + x[:, :, 4:],
            F.conv2d(x, w, None, (2, 3), (3, 0), (2, 5)),
            F.conv2d(x, w[:, :1], c, groups=20, padding="same"),
            F.conv2d(x, w, None, 1, (1, 1)),  # three columns come out
            F.conv2d(F.pad(x, (0, 1, 2, 0)), w, c),
            F.conv2d(x.mT, w.mT, c),
            F.conv2d(x.to(memory_format=torch.channels_last), w, c).sigmoid(),
            F.conv2d(x.bfloat16(), w.bfloat16(), c.bfloat16()),
            F.conv2d(x[..., :5, :], w),
            F.conv3d(x[..., None], w[..., None], c),
            F.conv3d(x[:, :, None], w[:, :, None], c, (2, 1, 1)),
            F.conv_transpose2d(x, w, c, (3, 2)),
            F.conv_transpose2d(x, w, c, (3, 2), (1, 0), (2, 1)),
            F.conv2d(d, v, c),
            F.conv2d(d, v, None, (2, 1), (1, 0)).relu(),
        ),
        (f(2, 20, 33, 1), f(20, 20, 5, 1) / 16, f(20, 20, 5, 1) / 16, f(20), f(3, 20, 48, 1)),
        (f(2, 20, 33, 1), f(20, 20, 5, 1) / 16, f(20, 20, 5, 1) / 16, f(20), f(4, 20, 57, 1)),
    ),
    "convolution_dynamic": (
        lambda x, w: F.conv2d(x, w, None, 2, 1).relu(),
        [f(2, 4, 7, 9), f(4, 4, 3, 3)],
        [f(3, 4, 12, 10), f(4, 4, 3, 3)],
    ),
    "pools": (
        lambda x: (
            F.max_pool2d(x, 3, 2, 1),
            *F.max_pool2d(x, (2, 3), (2, 1), return_indices=True),
            F.max_pool2d(x, 2, 2, ceil_mode=True, dilation=2),
            F.avg_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False, ceil_mode=True),
            F.avg_pool2d(x, 2, divisor_override=3),
            F.avg_pool1d(x[:, 0], 3, 2),
            F.max_pool1d(x[:, 0], 2),
            F.avg_pool3d(x, 2),
            F.max_pool3d(x, 2),
            F.adaptive_avg_pool2d(x, (3, 4)),
            *F.adaptive_max_pool2d(x, 3, return_indices=True),
            F.adaptive_avg_pool1d(x[0], 2),
            F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        ),
        [f(2, 3, 8, 10)],
    ),
    "resampling": (
        lambda x, g: (
            F.interpolate(x, scale_factor=1.7),
            F.interpolate(x, (5, 3), mode="nearest-exact"),
            F.interpolate(x, (11, 4), mode="bilinear"),
            F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
            F.interpolate(x, (9, 5), mode="bicubic"),
            F.interpolate(x, (3, 4), mode="bilinear", antialias=True),
            F.interpolate(x, (3, 4), mode="bicubic", antialias=True),
            F.interpolate(x[0], 9, mode="linear"),
            F.interpolate(x[None], (3, 5, 9), mode="trilinear"),
            F.interpolate(x.bfloat16(), (9, 9), mode="bilinear"),
            *(
                F.grid_sample(x, g, mode=m, padding_mode=p, align_corners=a)
                for m in ("bilinear", "nearest", "bicubic")
                for p in ("zeros", "border", "reflection")
                for a in (True, False)
            ),
        ),
        [f(2, 3, 6, 7), f(2, 4, 5, 2)],
    ),
    "edges": (
        lambda x: (
            F.pad(x, (1, 2, 2, 1), mode="reflect"),
            F.pad(x, (3, 0, 1, 1), mode="replicate"),
            F.pad(x, (2, 1, 0, 3), mode="circular"),
            F.unfold(x, 2, padding=1),
            F.fold(F.unfold(x, (2, 3)), (5, 6), (2, 3)),
            F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
            F.pixel_unshuffle(x[..., :4, :], 2),
            F.channel_shuffle(x.repeat(1, 2, 1, 1), 2),
            x.as_strided((2, 3), (3, 1), 2),
            torch.diag(x[0, 0, 0]),
            torch.diagflat(x[0, 0, :2]),
            x[0, 0].trace(),
        ),
        [f(2, 3, 5, 6)],
    ),
    "ranks": (
        lambda x, k: (
            *x.kthvalue(2),
            *x.median(0),
            x.median(),
            *x.nanmedian(1),
            *k.mode(1),
            *x.cummax(1),
            *x.cummin(0),
            x.logcumsumexp(1),
            torch.searchsorted(x.sort(dim=1, stable=True).values, x),
            torch.bucketize(x, x[0].sort(dim=0, stable=True).values, right=True),
            *k.kthvalue(3),
            x.quantile(0.3),
            x.quantile(x[0, :2].abs().clamp(0, 1), 1),
            x.nanquantile(0.6, 1, True, interpolation="higher"),
            x.histc(4),
        ),
        [f(4, 6), i(4, 6, low=0, high=4)],
    ),
    "found": (
        lambda x, k: (
            x.nonzero(),
            x[x > 0],
            torch.masked_select(x, x < 0.5),
            *k.unique(return_inverse=True, return_counts=True),
            *k.unique_consecutive(return_counts=True),
            torch.unique(k, dim=0),
            x.repeat_interleave(k[0].abs(), 1),
            k[0].abs().bincount(minlength=3),
            torch.argwhere(k),
            x[(x > 0).any(1)].sum(0),
        ),
        [f(4, 6), i(4, 6, low=-2, high=3)],
    ),
    "written": (
        lambda x, j, k: (
            x.index_add(1, j, x[:, :2]),
            x.index_copy(0, j, x[:2] + 1),
            x.index_fill(1, j, 7),
            x.take(k),
            x.put(k, x.flatten()[:2] + 9),
            torch.take_along_dim(x, x.argsort(dim=1, stable=True), 1),
            x.masked_scatter(x > 0, x.flip(0)),
            x.diagonal_scatter(x[0, :4]),
            *(
                x.scatter_reduce(1, k.abs().expand(4, 2), x, r, include_self=s)
                for r in ("sum", "prod", "mean", "amax", "amin")
                for s in (True, False)
            ),
            torch.isin(k, j),
            F.one_hot(j, 5),
        ),
        [f(4, 6), torch.tensor([0, 2]), torch.tensor([-1, 3])],
    ),
    # torch rounds sums of halves in the end here, at each step there.
    "halves_reduced": (
        lambda x, i, n: tuple(
            y
            for t in (torch.float16, torch.bfloat16)
            for y in (
                *(
                    x.to(t)[:7].scatter_reduce(0, i, x.to(t), r, include_self=s)
                    for r in ("sum", "prod", "mean", "amax")
                    for s in (True, False)
                ),
                *(
                    x.to(t)[:7].index_reduce(0, i[:, 0], x.to(t), r, include_self=s)
                    for r in ("prod", "mean", "amin")
                    for s in (True, False)
                ),
                *(torch.segment_reduce(x.to(t), r, lengths=n) for r in ("sum", "prod", "mean", "max")),
            )
        ),
        [f(60, 5) * 0.3 + 1, i(60, 5, low=0, high=7), torch.tensor([10, 0, 25, 25])],
    ),
    # Sums beyond what f32 has exactly.
    "int_mm": (
        lambda a, b, c: (torch._int_mm(a, b), torch._int_mm(a, c.t()), torch._int_mm(a[:1], c.t())),
        [
            torch.cat([i(17, 3000, low=-128, high=128), torch.full((2, 3000), -128)]).to(torch.int8),
            torch.cat([i(3000, 30, low=-128, high=128), torch.full((3000, 3), -128)], 1).to(torch.int8),
            torch.cat([i(20, 3000, low=-128, high=128), torch.full((1, 3000), 127)]).to(torch.int8),
        ],
    ),
    "bounds": (
        lambda a, b: (torch.linspace(a, b, 5), torch.linspace(b, a, 4, dtype=torch.int64), torch.logspace(b, a, 4)),
        [torch.tensor(-2), torch.tensor(3.5)],
    ),
    "ranks_of_attention": (lambda q, k: F.scaled_dot_product_attention(q, k, k * 2), [f(4, 3, 8), f(2, 4, 6, 8)]),
    "windows": (
        lambda x: (
            torch.hann_window(7),
            torch.hamming_window(6, False),
            torch.blackman_window(9),
            torch.bartlett_window(5),
            torch.kaiser_window(8),
            x,
        ),
        [f(2)],
    ),
    "eight_bits": (
        lambda x: (
            x.to(torch.float8_e4m3fn).float(),
            x.to(torch.float8_e5m2).float(),
            x.to(torch.float8_e4m3fnuz).float(),
            x.to(torch.float8_e5m2fnuz).float(),
            (x * 100).abs().int().to(torch.uint16).long(),
        ),
        [
            torch.cat(
                [
                    f(200) * torch.logspace(-12, 12, 200, 2),
                    torch.tensor(
                        [0.0, -0.0, 448.0, 464.0, 465.0, 57344.0, 61440.0, 70000.0, 240.0, 248.0, 2**-9, 2**-10, INF]
                    ),
                ]
            )
        ],
    ),
    # As large as it takes to reach vectors, blocks and what is left over of them.
    "large_products": (
        lambda x, y, w: (
            x @ y / 8,
            F.linear(x[:1], w) / 8,
            F.linear(x, w, w[:, 0]) / 8,
            *((x.to(t) @ y.to(t)) / 8 for t in (torch.bfloat16, torch.float16)),
            F.linear(x[:3].bfloat16(), w.bfloat16()) / 8,
            F.linear(x[:70].half(), w.half()) / 8,
        ),
        [f(130, 70).round(decimals=1), f(70, 83).round(decimals=1), f(37, 70).round(decimals=1)],
    ),
    "large_rows": (
        lambda x: (
            x.softmax(1),
            x.log_softmax(1),
            F.layer_norm(x, (1003,)),
            F.gelu(x),
            F.gelu(x, approximate="tanh"),
            x.tanh(),
            x.sigmoid(),
            F.silu(x),
            x.exp(),
            x.erf(),
            x.abs().rsqrt(),
            x.amax(1),
            x + x[:1],
            x * 2,
            F.rms_norm(x, (1003,)),
            x.bfloat16().sigmoid(),
            x.half().exp(),
        ),
        [f(3, 1003)],
    ),
    "large_attention": (
        lambda q, k: (F.scaled_dot_product_attention(q, k, k), F.scaled_dot_product_attention(q, q, q, is_causal=True)),
        [f(2, 3, 70, 33), f(2, 3, 150, 33)],
    ),
    "large_convolutions": (
        lambda x, w, d, p: (
            F.conv2d(x, w, None, 1, 1) / 8,
            F.conv2d(x, w, None, 2, 1) / 8,
            F.conv2d(x, d, None, 1, 1, 1, 20),
            F.conv2d(x, p) / 8,
            F.max_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 2),
            F.interpolate(x, scale_factor=2, mode="bilinear"),
        ),
        [
            f(2, 20, 33, 29).round(decimals=1),
            f(24, 20, 3, 3).round(decimals=1),
            f(20, 1, 3, 3),
            f(31, 20, 1, 1).round(decimals=1),
        ],
    ),
    "decomposed": (
        lambda x, y: (F.mse_loss(x, y), F.cross_entropy(x, y.softmax(1)), torch.einsum("ij,kj->ik", x, y)),
        [f(3, 4), f(3, 4)],
    ),
}


def loop(x, n):
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b + 0, a + b * i), (torch.tensor(0), x, x * 2))


def branches(x):
    return (torch.cond(x.sum() > 0, lambda x: (x.sin(), x[0] * 2), lambda x: (x.cos(), x[1] + 1), (x,)),)


def scans(x):
    from torch._higher_order_ops.map import map as map_
    from torch._higher_order_ops.scan import scan

    carry, stacked = scan(lambda c, x: (c * 0.5 + x, c.sum() + x), x[0] * 0, x)
    return carry, stacked, map_(lambda a, b: a * b, x, x[0] + 1)


def numbers(x):
    n = (x > 0).sum().item()
    torch._check(n >= 0)
    torch._check(n <= x.shape[0])
    return x[:n] * 2, x * n, torch.full((n + 1,), 2.5), n


CASES |= {
    "while": (loop, [f(3), torch.tensor(4)]),
    "cond": (branches, [f(4)], [-f(6)]),
    "scan": (scans, [f(4, 3)], [f(7, 3)]),
    "item": (numbers, [f(9)], [f(12)]),
}


class Wrapped(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@pytest.mark.parametrize("isa", ISAS)
def test_instruction_set_is_run(isa):
    if isa not in PRESENT:
        pytest.skip(f"not run: this machine has no {isa}")


@pytest.mark.parametrize("last", [False, True])
def test_group_norms_of_a_large_mean(last, tmp_path):
    """No further from the true result than torch is, by much."""
    x, w = f(2, 48, 30, 40) + 1000, f(48)
    function = (
        (lambda x, w: F.group_norm(x.permute(0, 3, 1, 2), 8, w, w)) if last else (lambda x, w: F.group_norm(x, 8, w, w))
    )
    x = x.permute(0, 2, 3, 1).contiguous() if last else x
    torch.export.save(torch.export.export(Wrapped(function), (x, w), strict=False), tmp_path / "m.pt2")
    save_file({"input.0": x, "input.1": w}, tmp_path / "in.safetensors")
    want = function(x.double(), w.double())
    theirs = (function(x, w) - want).abs().max()
    for isa in PRESENT:
        command = [
            SLIPWAY,
            "run",
            tmp_path / "m.pt2",
            "--inputs",
            tmp_path / "in.safetensors",
            "--outputs",
            tmp_path / "out.safetensors",
        ]
        subprocess.run(command, check=True, env=os.environ | {"SLIPWAY_ISA": isa})
        assert (load_file(tmp_path / "out.safetensors")["output.0"] - want).abs().max() < 1.5 * theirs, (isa, theirs)


@pytest.mark.parametrize("case", CASES)
def test_equals_eager(case, tmp_path):
    function, inputs, *also = CASES[case]
    dynamic = None
    if also:
        dynamic = {"args": tuple({d: torch.export.Dim.DYNAMIC for d in range(x.dim()) if x.shape[d] != y.shape[d]}
                                 or None
                                 for x, y in zip(inputs, also[0]))}  # fmt: skip
    torch.export.save(
        torch.export.export(Wrapped(function), tuple(inputs), dynamic_shapes=dynamic, strict=False), tmp_path / "m.pt2"
    )
    for given in (inputs, *also):
        save_file(
            {f"input.{k}": x.clone(memory_format=torch.contiguous_format) for k, x in enumerate(given)},
            tmp_path / "in.safetensors",
        )
        command = [SLIPWAY, "run", tmp_path / "m.pt2", "--inputs", tmp_path / "in.safetensors",
                   "--outputs", tmp_path / "out.safetensors"]  # fmt: skip
        expected = torch.utils._pytree.tree_leaves(function(*given))
        for isa in PRESENT:
            done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"SLIPWAY_ISA": isa})
            assert done.returncode == 0, done.stderr
            actual = load_file(tmp_path / "out.safetensors")
            assert len(actual) == len(expected)
            for k, want in enumerate(expected):
                want = torch.as_tensor(want)
                got = actual[f"output.{k}"]
                assert got.dtype == want.dtype and got.shape == want.shape, k
                # Winograd's way: kernels/conv/winograd.h states its error
                f32 = 2e-5 if case == "large_convolutions" else 2e-6
                rtol, atol = {
                    torch.float16: (2e-3, 2e-3),
                    torch.bfloat16: (1e-2, 1e-2),
                    torch.float64: (1e-12, 1e-12),
                }.get(want.dtype, (f32, f32))
                torch.testing.assert_close(
                    got, want, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{isa}, output {k}: {m}"
                )
