"""`slipway run` on the plain kernels: exported by torch, against torch eager.

Each case is a function and its inputs. With two sets of inputs, the dims that differ are exported as dynamic and both run.
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


def f(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + 7 * len(shape))).to(dtype)


def i(*shape, low=-9, high=10, dtype=torch.int64):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def b(*shape):
    return i(*shape, low=0, high=2).bool()


ODD = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, NAN, INF, -INF, 1e-3, 88.0])
UNARY = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor frac isfinite isinf isnan log log10 "
    "log1p log2 neg reciprocal relu round rsqrt sigmoid sign signbit sin sinh sqrt square tan tanh trunc"
).split()
BINARY = "add sub mul div floor_divide remainder fmod pow maximum minimum fmax fmin atan2 hypot eq ne lt le gt ge".split()
LOGICAL = "logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor".split()
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
F = torch.nn.functional


def name(dtype):
    return str(dtype).removeprefix("torch.")


CASES = {
    **{
        f"unary_{name(t)}": (lambda x: tuple(getattr(torch, op)(x) for op in UNARY), [ODD.to(t)]) for t in FLOATS
    },
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
        lambda h, d, k, m: (h + k, k / 2, k * 2.5, m + 1, m * m, h * d[0], k + d, m & (k > 0), h + 0.1, h * 1.7, d + h, k // 2.0),
        [f(4, dtype=torch.float16), f(4, dtype=torch.float64), i(4), b(4)],
    ),
    "scaled": (lambda x, k: (torch.add(x, x, alpha=2.5), torch.sub(k, k, alpha=3), torch.rsub(x, 1, alpha=0.5)), [f(4), i(4)]),
    "activations": (
        lambda x: (F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.elu(x, 0.7), F.leaky_relu(x, 0.2), F.softplus(x, 2, 3),
                   F.hardswish(x), F.hardsigmoid(x), F.mish(x), F.relu6(x * 4), F.hardtanh(x, -0.3, 0.4), x.clamp(min=-0.5),
                   x.clamp(-0.5, 0.5), x.clamp_max(x[0]), x.nan_to_num(), F.selu(x), F.celu(x, 0.7)),
        [f(3, 7)],
    ),  # fmt: skip
    "ternary": (
        lambda x, y, m: (torch.where(m, x, y), x.masked_fill(m, -INF), torch.addcmul(x, y, y, value=0.3), x.addcdiv(y, y + 9),
                         torch.lerp(x, y, 0.3), torch.lerp(x, y, y), torch.where(m, 1.0, x)),
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
        lambda x: (x.permute(2, 0, 1).reshape(5, 12), x.transpose(0, 2).flatten(), x[:, 1::2], x[-1], x.flip(0, 2), x.unfold(2, 3, 2),
                   x.diagonal(1, 1, 2), x[:, :1].expand(3, 6, 5), x.movedim((0, 1), (2, 0)), x.unsqueeze(1).squeeze(), x.mT.contiguous().view(15, 4)),
        [f(3, 4, 5)],
        [f(3, 4, 5)],
    ),  # fmt: skip
    "dynamic": (
        lambda x: (x.reshape(-1, x.shape[0]), x.softmax(0) + x.shape[0], torch.arange(x.shape[1]), x.sum(0) / x.shape[0]),
        [f(4, 6)],
        [f(7, 5)],
    ),
    "joins": (
        lambda x: (torch.cat([x, x[:1], x.new_zeros(0, 4)]), torch.stack([x, x], 1), x.repeat(2, 1, 3), x.roll(1), x.roll((1, -2), (0, 1)),
                   F.pad(x, (1, 2, -1, 0), value=3), *x.split(2), *x.chunk(3, 1), *x.unbind(0)),
        [f(3, 4)],
    ),  # fmt: skip
    "creation": (
        lambda x: (torch.arange(7), torch.arange(1, 8, 3), torch.arange(0.5, 3, 0.3), torch.linspace(-1, 2, 7), torch.eye(3, 4),
                   torch.full((2, 3), 2.5), torch.ones(2, dtype=torch.int8), x.tril(), x.triu(1), torch.diag_embed(x[0]), x.new_full((2,), 7),
                   torch.zeros_like(x), torch.arange(5, dtype=torch.bfloat16)),
        [f(4, 5)],
    ),  # fmt: skip
    **{
        f"reductions_{name(t)}": (
            lambda x: (x.sum(), x.sum(0), x.prod(1), x.amax((0, 2)), x.amin(1, keepdim=True), x.max(), *x.max(1), *x.min(2, keepdim=True),
                       x.any(1), x.all(), x.argmax(), x.argmin(1), x.cumsum(1), *(() if not t.is_floating_point else (
                           x.mean(), x.mean((0, 2)), x.var(1), x.std((0, 1), correction=0), x.norm(dim=1)))),
            [f(2, 3, 4).to(t) if t.is_floating_point else i(2, 3, 4, dtype=t)],
        )
        for t in (torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64)
    },  # fmt: skip
    "norms": (
        lambda x, w, c: (x.softmax(1), x.log_softmax(0), F.layer_norm(x, (3, 4), w, c), F.layer_norm(x, (4,)),
                         *(torch.linalg.vector_norm(x, p, dim=1) for p in (0, 1, 2, 3, INF, -INF))),
        [f(2, 3, 4), f(3, 4), f(3, 4) + 1],
    ),  # fmt: skip
    "index": (
        lambda x, j, k: (x.index_select(1, j), x[j, k], x[:, k], x[j, :, k], x.gather(1, j[:, None, None].expand(2, 1, 5)),
                         F.embedding(j, x[:, 0]), x.index_put((j, k), x[0, 0]), x.index_put((j, k), x[0, 0], accumulate=True),
                         x.scatter(0, j[:, None, None], x), x.scatter(1, j[:, None, None], 2.5), x.select_scatter(x[0], 0, 1),
                         x.slice_scatter(x[:, :1], 1, 1, 2)),
        [f(3, 4, 5), torch.tensor([0, 2]), torch.tensor([-1, 1])],
    ),  # fmt: skip
    "order": (lambda x: (*x.sort(dim=1, stable=True), *x.sort(dim=0, descending=True, stable=True), x.argsort(dim=1, stable=True), *x.topk(2)), [f(4, 6)]),
    **{
        f"products_{name(t)}": (
            lambda x, y, v: (x @ y, x[0] @ y, x @ v, v @ y[0], v @ v, torch.bmm(x, y), F.linear(x, y[0].T, y[0, 0]),
                             torch.addmm(y[0, 0], x[0], y[0], beta=0.5, alpha=2), torch.baddbmm(y[:, :1], x, y), x[:1] @ y),
            [(f(2, 3, 4) * 3).to(t), (f(2, 4, 5) * 3).to(t), (f(4) * 3).to(t)],
        )
        for t in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64)
    },  # fmt: skip
    "attention": (
        lambda q, k, m: (F.scaled_dot_product_attention(q, k, k), F.scaled_dot_product_attention(q, k, k, is_causal=True, scale=0.3),
                         F.scaled_dot_product_attention(q, k, k, attn_mask=m), F.scaled_dot_product_attention(q, k[:, :1], k[:, :1], enable_gqa=True)),
        [f(2, 4, 3, 8), f(2, 4, 5, 8), b(3, 5)],
    ),  # fmt: skip
    "normalizations": (
        lambda x, w: (F.batch_norm(x, w, w * w + 1, w, w), F.batch_norm(x, None, None, w, None, True), F.group_norm(x, 2, w, w),
                      F.instance_norm(x, weight=w), F.rms_norm(x, (5,)), F.rms_norm(x, (6, 5), x[0], 1e-3)),
        [f(3, 6, 5), f(6)],
    ),  # fmt: skip
    "functions": (
        lambda x, y: (F.logsigmoid(x), F.softshrink(x, 0.3), F.hardshrink(x), F.threshold(x, 0.1, 7), F.prelu(x, y[0, :1]), torch.sinc(x),
                      torch.deg2rad(x), torch.rad2deg(x), torch.logaddexp(x, y), torch.logaddexp2(x, y), x.logsumexp((0, 1)),
                      x.logsumexp(1, keepdim=True), *x.aminmax(dim=1), *x.aminmax(), x.count_nonzero(), (x > 0).count_nonzero(1),
                      torch.isposinf(x / 0), torch.isneginf(x / 0), x.repeat_interleave(2, 0), x.repeat_interleave(3)),
        [f(3, 4), f(3, 4) + 1],
    ),  # fmt: skip
    "grids": (lambda x, y: (*torch.meshgrid(x, y, indexing="xy"), *torch.meshgrid(x, y, y, indexing="ij")), [f(3), f(3) * 2]),
    "decomposed": (lambda x, y: (F.mse_loss(x, y), F.cross_entropy(x, y.softmax(1)), torch.einsum("ij,kj->ik", x, y)), [f(3, 4), f(3, 4)]),
}


class Wrapped(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@pytest.mark.parametrize("case", CASES)
def test_equals_eager(case, tmp_path):
    function, inputs, *also = CASES[case]
    dynamic = None
    if also:
        dynamic = {"args": tuple({d: torch.export.Dim.DYNAMIC for d in range(x.dim()) if x.shape[d] != y.shape[d]} or None
                                 for x, y in zip(inputs, also[0]))}  # fmt: skip
    torch.export.save(torch.export.export(Wrapped(function), tuple(inputs), dynamic_shapes=dynamic, strict=False), tmp_path / "m.pt2")
    for given in (inputs, *also):
        save_file({f"input.{k}": x.clone(memory_format=torch.contiguous_format) for k, x in enumerate(given)}, tmp_path / "in.safetensors")
        command = [SLIPWAY, "run", tmp_path / "m.pt2", "--inputs", tmp_path / "in.safetensors",
                   "--outputs", tmp_path / "out.safetensors"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        actual = load_file(tmp_path / "out.safetensors")
        expected = torch.utils._pytree.tree_leaves(function(*given))
        assert len(actual) == len(expected)
        for k, want in enumerate(expected):
            got = actual[f"output.{k}"]
            assert got.dtype == want.dtype and got.shape == want.shape, k
            rtol, atol = {torch.float16: (2e-3, 2e-3), torch.bfloat16: (1e-2, 1e-2), torch.float64: (1e-12, 1e-12)}.get(want.dtype, (2e-6, 2e-6))
            torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"output {k}: {m}")
