"""Shape functions against torch: programs exported here, every type that torch wrote compared with the inferred one."""

import os
import pathlib
import subprocess

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = pathlib.Path(os.environ.get("SLIPWAY", ROOT / "build" / "slipway")).parent / "infer_check"


def f32(*sizes):
    return torch.randn(*sizes)


def i64(*sizes):
    return torch.arange(torch.Size(sizes).numel()).reshape(sizes)


def half(*sizes):
    return torch.randn(*sizes).to(torch.float16)


# Each yields results of several operators at once; the inputs' sizes are static or dynamic.
PROGRAMS = {
    "promotion": (lambda x, i: (x + i, i / i, i + 1.5, x.half() * 2, i > x, i * True, x.half() + x.sum().double()),
    (f32(4, 6), i64(4, 6))),
    "promotion_0d": (lambda x, s: (x + s, x * s.double(), s + 1, torch.where(x > 0, x, s), x.bfloat16() + s),
    (f32(4, 6), torch.tensor(2.0))),
    "integers": (lambda i: (i.sum(), i.cumsum(0), i.float().mean(1), i.prod(1), i.sqrt(), i // 2, i % 3,
    i.clamp(0.5, 3)), (i64(4, 6) + 1,)),
    "bools": (lambda x: ((x > 0).sum(1), (x > 0).any(0), (x > 0).all(), ~(x > 0), (x > 0) & (x < 1), (x > 0) * 2),
    (f32(4, 6),)),
    "complex": (lambda x: (torch.fft.fft(x).abs(), torch.view_as_real(torch.fft.rfft(x)), torch.complex(x, x) * x,
    torch.polar(x, x).angle()), (f32(4, 6),)),
    "unary": (lambda x: (x.exp(), x.erf(), x.relu(), F.gelu(x), F.silu(x), x.isnan(), x.floor(), torch.frexp(x),
    x.sign(), x.logit(0.1)), (half(4, 6),)),
    "broadcast": (lambda x, y: (x + y, x[:, None] * y, torch.broadcast_tensors(x, y), torch.maximum(x, y[:1])),
    (f32(4, 6), f32(4, 6))),
    "expand": (lambda x: (x[:, :1].expand(-1, 5), x.unsqueeze(0).expand(3, -1, -1), x[:, :1].expand_as(x),
    x.repeat(2, 1, 3)), (f32(4, 6),)),
    "reshape": (lambda x: (x.view(-1), x.reshape(x.shape[0], -1, 2), x.flatten(1), x.unflatten(1, (2, 3)),
    x.view(x.shape[0] * 2, -1)), (f32(4, 6),)),
    "dims": (lambda x: (x.permute(2, 0, 1), x.transpose(0, -1), x.movedim(0, 2), x.mT, x.unsqueeze(-1),
    x[:, :1].squeeze(1), x.rot90(1, (0, 2)), x.flip(0)), (f32(4, 6, 8),)),
    "slices": (lambda x: (x[1:], x[:-1], x[..., ::2], x[1:3, -2:], x[2:100], x.narrow(1, 1, 2), x[0], x.select(1, -1)),
    (f32(4, 6),)),
    "splits": (lambda x: (x.split(2, 1), x.chunk(2, 1), x.unbind(1), torch.tensor_split(x, 4, 1),
    x.split([1, 2, 3], 1)), (f32(4, 6),)),
    "joins": (lambda x,
    y: (torch.cat([x, y]), torch.cat([x, y.half()], 0), torch.stack([x, x], -1), torch.vstack([x, y]),
    torch.hstack([x, x]), torch.dstack([x, x])), (f32(4, 6), f32(3, 6))),
    "diagonals": (lambda x: (x.diagonal(), x.diagonal(1), x[0].diag_embed(), torch.diag(x[0]), x.tril(), x.triu(1),
    x.trace()), (f32(6, 6),)),
    "padding": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 1, 2, 0), value=3.0), F.pad(x[None], (1, 1), mode="reflect"),
    F.pad(x[None], (0, 2), mode="replicate")), (f32(4, 6),)),
    "windows": (lambda x: (x.unfold(1, 3, 2), F.unfold(x[None, None], (2, 3), padding=1),
    F.pixel_unshuffle(x[None, None], 2)), (f32(4, 6),)),
    "reductions": (lambda x: (x.sum(), x.sum((0, 2), True), x.mean(-1), x.amax((1, 2)), x.argmax(1), x.std(0),
    torch.var_mean(x, 1), x.logsumexp(0), x.norm(dim=1)), (f32(4, 6, 8),)),
    "orders": (lambda x: (x.sort(1), x.topk(3), x.max(1), x.median(0), x.kthvalue(2), x.cummax(0), x.argsort(),
    torch.aminmax(x, dim=1)), (f32(4, 6),)),
    "softmax": (lambda x: (x.softmax(-1), x.log_softmax(0, dtype=torch.float64), F.normalize(x), torch.cdist(x, x),
    F.cosine_similarity(x, x)), (f32(4, 6),)),
    "indexing": (lambda x,
    i: (x[i], x[:, i], x[i, i], x[i[:, None], i], x[None, i], x.index_select(1, i), x.gather(0, i[None]), x.take(i)),
    (f32(4, 6), i64(3))),
    "masks": (lambda x: (x[x > 0], x.masked_select(x > 0), x.nonzero(), x.masked_fill(x > 0, 1), torch.where(x > 0)),
    (f32(4, 6),)),
    "scatter": (lambda x,
    i: (x.scatter(0, i[None], 1.0), x.index_add(0, i, x[:3]), x.index_put((i,), x[:3]),
    x.scatter_reduce(0, i[None], x, "amax")), (f32(4, 6), i64(3))),
    "creation": (lambda x: (torch.arange(x.shape[0]), torch.zeros(x.shape[0], 2),
    torch.full_like(x, 1, dtype=torch.int32), x.new_ones(3), torch.arange(0, x.shape[1], 2), torch.eye(x.shape[0]),
    torch.linspace(0, 1, 5)), (f32(4, 6),)),
    "symbols": (lambda x: (torch.zeros(x.shape[0] * 2 + 1), torch.ones(x.numel() // 2),
    x.new_zeros((x.shape[0] + 3) // 4), torch.zeros(max(x.shape[0], 2))), (f32(4, 6),)),
    "products": (lambda x,
    w: (x @ w, w.T @ w, F.linear(x, w.T), torch.einsum("bik,kj->bij", x, w), torch.addmm(x[0, :, :1], x[0], w),
    torch.bmm(x, x.mT), torch.outer(x[0, 0], w[0])), (f32(4, 5, 6), f32(6, 8))),
    "matrices": (lambda x: (torch.linalg.qr(x), torch.linalg.svd(x, full_matrices=False), torch.linalg.inv(x @ x.mT),
    torch.linalg.solve(x @ x.mT, x), torch.linalg.det(x @ x.mT), torch.kron(x[0], x[0])), (f32(4, 5, 6),)),
    "conv": (lambda x,
    w: (F.conv2d(x, w), F.conv2d(x, w, stride=2, padding=1), F.conv2d(x, w, padding="same", dilation=2),
    F.conv_transpose2d(x, w.transpose(0, 1), stride=2, padding=1, output_padding=1)),
    (f32(2, 3, 16, 18), f32(4, 3, 3, 3))),
    "pooling": (lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 3, 2),
    F.adaptive_avg_pool2d(x, (3, 5)), F.max_pool2d(x, 3, 2, return_indices=True), F.adaptive_max_pool2d(x, 2)),
    (f32(2, 3, 16, 18),)),
    "resampling": (lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=1.5, mode="bilinear"),
    F.interpolate(x, (7, 9), mode="bicubic"), F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), align_corners=False)),
    (f32(2, 3, 16, 18),)),
    "normalization": (lambda x: (F.layer_norm(x, x.shape[-1:]), F.group_norm(x, 3),
    F.batch_norm(x, torch.zeros(6), torch.ones(6)), F.instance_norm(x), F.rms_norm(x, (8,))), (f32(4, 6, 8),)),
    "attention": (lambda q: (F.scaled_dot_product_attention(q, q, q),
    F.scaled_dot_product_attention(q, q[:, :, :5], q[:, :, :5, :4]), F.embedding(q[0, 0, :, 0].abs().long(), q[0, 0])),
    (f32(2, 3, 6, 8),)),
    "losses": (lambda x,
    t: (F.mse_loss(x, x), F.cross_entropy(x, t, reduction="none"), F.l1_loss(x, x, reduction="none"), F.nll_loss(x, t),
    F.kl_div(x, x, reduction="batchmean"), F.huber_loss(x, x)), (f32(4, 6), i64(4))),
    "spectra": (lambda x: (torch.fft.rfft2(x).real, torch.fft.irfft(torch.fft.rfft(x)), torch.fft.fftn(x).imag,
    torch.fft.ifft(x, n=9).real, torch.fft.fftshift(x)), (f32(4, 6),)),
    "in_place": (lambda x: (x.clone().add_(1), x.clone().mul_(x).relu_(), x.clone().fill_(2), x.clone().t_(),
    x.clone().unsqueeze_(0), x.clone().zero_()), (f32(4, 6),)),
    "casts": (lambda x: (x.half(), x.to(torch.int32), x.double().bool(), x.type_as(x.long()), x.to(x.bfloat16()),
    x.view(torch.int32), x.bfloat16().view(torch.int16)), (f32(4, 6),)),
}  # fmt: skip

# Inputs whose dimension 0 cannot vary, or no dimension can (weights).
STATIC_INPUTS = {
    "diagonals": [0],
    "products": [1],
    "conv": [1],
    "indexing": [1],
    "scatter": [1],
    "losses": [1],
    "normalization": [0],
}


class Wrapped(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return tuple(torch.utils._pytree.tree_leaves(self.function(*args)))  # named tuples do not serialize


@pytest.mark.parametrize("form", ["static", "dynamic", "decomposed"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_inferred_types_are_those_of_torch(name, form, tmp_path):
    function, inputs = PROGRAMS[name]
    shapes = None
    if form != "static":
        free = [
            {} if i in STATIC_INPUTS.get(name, []) else {d: Dim.AUTO for d in range(t.dim())}
            for i, t in enumerate(inputs)
        ]
        shapes = (tuple(free),)
    program = torch.export.export(Wrapped(function), inputs, dynamic_shapes=shapes, strict=False)
    if form == "decomposed":
        program = program.run_decompositions()
    torch.export.save(program, tmp_path / "p.pt2")
    done = subprocess.run([TOOL, "--quiet", tmp_path / "p.pt2"], capture_output=True, text=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    # The results of higher-order operators are what their bodies say.
    bad = [
        r for r in rows if r[0] in ("differ", "error", "missing", "unreadable") and not r[2].startswith("higher_order.")
    ]
    assert done.returncode == 0 and not bad, done.stdout + done.stderr
