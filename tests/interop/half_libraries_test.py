"""`convert --dtype` to libraries and packages: no further from the program in f64 than torch's own bf16 and f16.

The errors that are compared are relative and of the root mean square, over all outputs of floating-point type of a
program. torch's is that of `module.to(dtype)` on inputs of that type, both of the f32 program in f64.
"""

import copy
import json
import math
import re

import pytest
import torch
from exported import clones, export, tensors
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

TORCH = {"bf16": torch.bfloat16, "f16": torch.float16}
# What a result of one rounding may be off by, and so is any comparison of two of them.
ROUNDING = {"bf16": 2**-9, "f16": 2**-12}


class Function(nn.Module):
    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        self.m = nn.ModuleDict(modules)

    def forward(self, *arguments):
        return self.function(self.m, *arguments) if len(self.m) else self.function(*arguments)


def trained(module):
    """Norms with statistics and weights that are not those of a new module."""
    for m in module.modules():
        if isinstance(m, nn.BatchNorm2d):
            nn.init.uniform_(m.running_var, 0.5, 2)
            nn.init.normal_(m.running_mean)
        if isinstance(m, (nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)) and m.weight is not None:
            nn.init.uniform_(m.weight, 0.5, 1.5)
    return module


class Residual(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.side = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu(self.body(x) + self.side(x))


class Separable(nn.Module):
    """Depthwise convolutions and a gate by channels."""

    def __init__(self):
        super().__init__()
        self.up = nn.Sequential(nn.Conv2d(8, 32, 1, bias=False), nn.BatchNorm2d(32), nn.Hardswish())
        self.depth = nn.Sequential(nn.Conv2d(32, 32, 5, 2, 2, groups=32, bias=False), nn.BatchNorm2d(32), nn.SiLU())
        self.squeeze, self.excite = nn.Conv2d(32, 8, 1), nn.Conv2d(8, 32, 1)
        self.down = nn.Sequential(nn.Conv2d(32, 8, 1, bias=False), nn.BatchNorm2d(8))

    def forward(self, x):
        y = self.depth(self.up(x))
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))
        return self.down(y * gate).flatten(1)


class Decoder(nn.Module):
    """A layer with RMS norms that are written out, rotary positions, a causal mask and a gated layer."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(60, 64)
        self.first, self.second = nn.Parameter(torch.rand(64) + 0.5), nn.Parameter(torch.rand(64) + 0.5)
        self.q, self.k, self.v = (nn.Linear(64, n, bias=False) for n in (64, 32, 32))
        self.out = nn.Linear(64, 64, bias=False)
        self.gate, self.up, self.down = nn.Linear(64, 96), nn.Linear(64, 96), nn.Linear(96, 64)
        self.head = nn.Linear(64, 60, bias=False)
        self.head.weight = self.tokens.weight

    def norm(self, x, weight):
        wide = x.float() if x.dtype != torch.float64 else x
        return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

    def rotate(self, x):
        angles = torch.arange(x.shape[2])[:, None] * (1.0 / 100 ** (torch.arange(0, 16, 2) / 16))
        cos, sin = (t.repeat(1, 2).to(x.dtype) for t in (angles.cos(), angles.sin()))
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin

    def forward(self, ids):
        x = self.tokens(ids)
        y = self.norm(x, self.first)
        q, k, v = (f(y).unflatten(-1, (-1, 16)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.norm(x, self.second)
        return self.head(x + self.down(F.silu(self.gate(y)) * self.up(y)))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = trained(nn.TransformerEncoderLayer(48, 4, 96, batch_first=True, activation="gelu"))

    def forward(self, x, seen):
        return self.layer(x, src_key_padding_mask=~seen)


class Written(nn.Module):
    """Attention in products and softmax, with a bias and a mask."""

    def __init__(self):
        super().__init__()
        self.qkv, self.bias = nn.Linear(32, 96), nn.Parameter(torch.randn(2, 10, 10))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, 16)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / 4 + self.bias
        hidden = torch.ones(10, 10, dtype=torch.bool).triu(1)
        return torch.softmax(scores.masked_fill(hidden, -math.inf), -1) @ v


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), trained(nn.GroupNorm(4, 16))
        self.low, self.up = nn.Conv2d(16, 32, 3, 2, 1), nn.ConvTranspose2d(32, 16, 2, 2)
        self.last = nn.Conv2d(32, 3, 1)

    def forward(self, x):
        x = F.silu(self.norm(self.first(x)))
        return self.last(torch.cat([x, self.up(F.relu(self.low(x)))], 1))


def transformers_model(name, **settings):
    import transformers

    config = getattr(transformers, name + "Config")(attn_implementation="sdpa", **settings)
    suffix = {"Llama": "ForCausalLM", "Bert": "Model", "ViT": "Model"}[name]
    model = getattr(transformers, name + suffix)(config).eval()
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.08)
    return model


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = transformers_model(
            "Bert", vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
        )

    def forward(self, ids, seen):
        return self.model(input_ids=ids, attention_mask=seen).last_hidden_state


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = transformers_model(
            "Llama",
            vocab_size=99,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=128,
            use_cache=False,
        )

    def forward(self, ids):
        return self.model(input_ids=ids).logits


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = transformers_model(
            "ViT",
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=128,
            image_size=32,
            patch_size=8,
        )

    def forward(self, x):
        return self.model(pixel_values=x).last_hidden_state


def ids(*sizes, most=50):
    return torch.randint(0, most, sizes)


def seen():
    out = torch.ones(4, 12, dtype=torch.int64)
    out[1, 5:] = 0
    return out


R = torch.randn
# Each: what makes the module, and what its arguments.
PROGRAMS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(64, 192), nn.GELU(), nn.Linear(192, 32)), lambda: (R(64, 64),)),
    "residual": (lambda: trained(nn.Sequential(Residual(3, 16, 1), Residual(16, 32, 2))), lambda: (R(2, 3, 20, 20),)),
    "separable": (lambda: trained(Separable()), lambda: (R(2, 8, 15, 15),)),
    "unet": (Unet, lambda: (R(2, 3, 16, 16),)),
    "conv1d": (
        lambda: nn.Sequential(nn.Conv1d(4, 32, 9, 2, 4), nn.GELU(), nn.Conv1d(32, 32, 3, padding=1, groups=4)),
        lambda: (R(2, 4, 200),),
    ),
    "conv3d": (
        lambda: nn.Sequential(nn.Conv3d(2, 8, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(8, 4, 1)),
        lambda: (R(2, 2, 8, 8, 8),),
    ),
    "style": (
        lambda: nn.Sequential(
            nn.ReflectionPad2d(2), nn.Conv2d(3, 8, 5), nn.InstanceNorm2d(8, affine=True), nn.ReLU(), nn.Conv2d(8, 3, 3)
        ),
        lambda: (R(2, 3, 20, 20),),
    ),
    "lstm": (
        lambda: Function(lambda m, x: m["lstm"](x)[0], lstm=nn.LSTM(16, 32, 2, batch_first=True, bidirectional=True)),
        lambda: (R(4, 15, 16),),
    ),
    "gru": (lambda: Function(lambda m, x: m["gru"](x), gru=nn.GRU(16, 32, batch_first=True)), lambda: (R(4, 15, 16),)),
    "encoder": (Encoder, lambda: (R(4, 12, 48), seen() > 0)),
    "decoder": (Decoder, lambda: (ids(4, 14),)),
    "written-attention": (Written, lambda: (R(4, 10, 32),)),
    "norms": (
        lambda: Function(
            lambda m, x: (m["layer"](x), m["rms"](x), F.normalize(x, dim=-1), F.layer_norm(x, (8, 64))),
            layer=trained(nn.LayerNorm(64)),
            rms=trained(nn.RMSNorm(64)),
        ),
        lambda: (R(16, 8, 64),),
    ),
    "batch-norm": (lambda: trained(nn.Sequential(nn.ReLU(), nn.BatchNorm2d(16))), lambda: (R(2, 16, 9, 9),)),
    "pools": (
        lambda: Function(
            lambda x: (
                F.max_pool2d(x, 3, 2, 1),
                F.avg_pool2d(x, 3, 2, 1),
                F.adaptive_avg_pool2d(x, 3),
                F.adaptive_avg_pool2d(x, 1),
                F.adaptive_max_pool2d(x, 2),
                F.lp_pool2d(x.abs() + 0.1, 2, 2),
            )
        ),
        lambda: (R(2, 8, 17, 17),),
    ),
    "resizing": (
        lambda: Function(
            lambda x: (
                F.interpolate(x, scale_factor=2.0, mode="bilinear"),
                F.interpolate(x, size=(9, 9), mode="bicubic"),
                F.interpolate(x, scale_factor=2.0),
            )
        ),
        lambda: (R(2, 4, 12, 12),),
    ),
    "reductions": (
        lambda: Function(
            lambda x: (x.sum(-1), x.mean((0, 2)), x.var(-1), x.std(0), x.amax(-1), x.logsumexp(-1), x.norm(dim=-1))
        ),
        lambda: (R(16, 20, 50),),
    ),
    "scans": (lambda: Function(lambda x: (x.cumsum(-1), (1 + x / 10).cumprod(-1))), lambda: (R(16, 50),)),
    "softmax": (
        lambda: Function(lambda x: (x.softmax(-1), x.softmax(0), x.log_softmax(-1), F.softmin(x, 1))),
        lambda: (4 * R(16, 8, 40),),
    ),
    "losses": (
        lambda: Function(
            lambda x, y, k: torch.stack(
                [
                    F.cross_entropy(x, k),
                    F.mse_loss(x, y),
                    F.smooth_l1_loss(x, y),
                    F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
                    F.binary_cross_entropy_with_logits(x, y.sigmoid()),
                ]
            )
        ),
        lambda: (R(64, 50), R(64, 50), ids(64)),
    ),
    "embedding": (
        lambda: Function(
            lambda m, i: (m["e"](i) * m["e"].weight.mean(0), m["b"](i)),
            e=nn.Embedding(50, 32),
            b=nn.EmbeddingBag(50, 32),
        ),
        lambda: (ids(16, 20),),
    ),
    "indices": (
        lambda: Function(
            lambda x, i: (
                x[i] * 3,
                x.gather(0, i[:, None].expand(-1, 24) % 20) + x[0],
                x.scatter(0, i[:10, None].expand(-1, 24) % 20, 2 * x[:10]),
                x.index_add(0, i % 20, x[i % 20]),
                torch.where(x > 0, x, x.exp()),
                x.topk(3).values + 1,
            )
        ),
        lambda: (R(20, 24), ids(60, most=20)),
    ),
    "elementwise": (
        lambda: Function(
            lambda x, y: (
                x.exp() + y,
                torch.rsqrt(x.abs() + 0.1) * y,
                x.sigmoid() * y.tanh(),
                (x.abs() + 0.1).log() - y,
                x**3 / (1 + y**2),
                F.softplus(x) + F.mish(y) * F.elu(x),
            )
        ),
        lambda: (R(40, 50), R(40, 50)),
    ),
    "einsum": (
        lambda: Function(lambda x, y: torch.einsum("bhid,bhjd->bhij", x, y).relu().sum(1)),
        lambda: (R(2, 4, 10, 32), R(2, 4, 12, 32)),
    ),
    "similarity": (
        lambda: Function(lambda x, y: (F.cosine_similarity(x, y), F.pairwise_distance(x, y))),
        lambda: (R(200, 40), R(200, 40)),
    ),
    "bert": (Bert, lambda: (ids(4, 12), seen())),
    "llama": (Llama, lambda: (ids(4, 12),)),
    "vit": (Vit, lambda: (R(2, 3, 32, 32),)),
}


def run(slipway, library, arguments, folder):
    save_file({f"input.{i}": x.contiguous() for i, x in enumerate(tensors(arguments))}, folder / "in.safetensors")
    slipway("run", library, "--inputs", folder / "in.safetensors", "--outputs", folder / "out.safetensors")
    out = load_file(folder / "out.safetensors")
    return [out[f"output.{i}"] for i in range(len(out))]


def cast(tree, dtype):
    return torch.utils._pytree.tree_map(
        lambda x: x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x, clones(tree)
    )


def in_type(module, arguments, dtype):
    with torch.no_grad():
        return tensors(copy.deepcopy(module).to(dtype)(*cast(arguments, dtype)))


def errors(got, want):
    """One for each output, so that none hides behind a larger one."""
    out = []
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        if not w.is_floating_point():
            continue
        assert g.isfinite().all()
        out.append(((g.double() - w).square().mean() / w.square().mean()).sqrt().item())
    return out


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("name", PROGRAMS)
def test_is_as_near_as_torch(slipway, tmp_path, name, dtype):
    make, inputs = PROGRAMS[name]
    module, arguments = make().eval(), inputs()
    export(module, arguments, tmp_path / "m.pt2")
    want = in_type(module, arguments, torch.float64)
    torchs = errors(in_type(module, arguments, TORCH[dtype]), want)

    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--dtype", dtype, "--verify-each")
    assert f"f32 is {dtype}" in done.stderr
    got = run(slipway, tmp_path / "m.so", cast(arguments, TORCH[dtype]), tmp_path)
    assert {g.dtype for g in got if g.is_floating_point()} == {TORCH[dtype]}
    mine = errors(got, want)
    for ours, theirs in zip(mine, torchs, strict=True):
        assert ours <= 1.1 * theirs + ROUNDING[dtype] / 20, (mine, torchs)

    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "k.so", "--dtype", dtype, "--keep-io-types")
    got = run(slipway, tmp_path / "k.so", arguments, tmp_path)
    assert {g.dtype for g in got if g.is_floating_point()} == {torch.float32}
    for ours, theirs in zip(errors(got, want), torchs, strict=True):
        assert ours <= 1.1 * theirs + ROUNDING[dtype] / 20


class Masked(nn.Module):
    """Attention under a mask of finfo.min, which no bf16 is; the first rows of padded sequences see nothing."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x, seen):
        least = torch.finfo(torch.float32).min
        mask = torch.full((12, 12), least).triu(1) + (1 - seen.float())[:, None, None, :] * least
        q, k, v = (t.unflatten(-1, (2, 16)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.clamp(min=least))


@pytest.mark.parametrize("dtype", TORCH)
def test_masks_beyond_halves(slipway, tmp_path, dtype):
    module, arguments = Masked().eval(), (R(4, 12, 32), 1 - seen())
    export(module, arguments, tmp_path / "m.pt2")
    with torch.no_grad():
        want = [module(*arguments).double()]
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--dtype", dtype)
    got = run(slipway, tmp_path / "m.so", cast(arguments, TORCH[dtype]), tmp_path)
    assert errors(got, want)[0] < 2 * ROUNDING[dtype]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("kept", [False, True])
def test_torch_loads_the_package(slipway, tmp_path, dtype, kept):
    """Inputs, outputs and weights have the dtypes that torch is told; weights can be set."""
    module = trained(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5)))
    batch = torch.export.Dim("batch", min=1, max=64)
    export(module, (R(2, 3, 8, 8),), tmp_path / "m.pt2", dynamic_shapes=({0: batch},))
    flags = ["--dtype", dtype, *(["--keep-io-types"] if kept else [])]
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "n.pt2", "--to", "native-pt2", *flags)
    loaded = torch._inductor.aoti_load_package(str(tmp_path / "n.pt2"))
    x = R(6, 3, 8, 8)
    outer = torch.float32 if kept else TORCH[dtype]
    got = loaded(x.to(outer))
    assert got.dtype == outer
    want = in_type(module, (x,), torch.float64)
    assert errors([got], want)[0] < 1.2 * errors(in_type(module, (x,), TORCH[dtype]), want)[0]
    with pytest.raises(RuntimeError):
        loaded(x.to(TORCH[dtype] if kept else torch.float32))

    names = loaded.get_constant_fqns()
    assert {"0.weight", "1.running_var", "4.weight"} <= set(names)
    other = copy.deepcopy(module)
    for p in other.parameters():
        nn.init.normal_(p, std=0.2)
    state = other.state_dict()
    # Weights of products are halves, those of the norm f32.
    values = {n: state[n].to(torch.float32 if n.startswith("1.") else TORCH[dtype]) for n in names}
    loaded.load_constants(values, check_full_update=True)
    want = in_type(other, (x,), torch.float64)
    assert errors([loaded(x.to(outer))], want)[0] < 1.2 * errors(in_type(other, (x,), TORCH[dtype]), want)[0]
    with pytest.raises(RuntimeError):
        loaded.load_constants({n: state[n].detach() for n in names}, check_full_update=True)
    assert errors([loaded(x.to(outer))], want)[0] < 0.1


@pytest.mark.parametrize("dtype", TORCH)
def test_verify_knows_the_tolerance(slipway, tmp_path, dtype):
    module = trained(nn.Sequential(Residual(3, 16, 2), nn.Flatten(), nn.Linear(16 * 64, 10)))
    export(module, (R(2, 3, 16, 16),), tmp_path / "m.pt2")
    for flags in ([], ["--keep-io-types"]):
        slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--dtype", dtype, *flags)
        for pair in (("m.pt2", "m.so"), ("m.so", "m.pt2")):
            done = slipway("verify", *(tmp_path / name for name in pair))
            assert f"computes in {dtype}" in done.stdout
        report = json.loads(slipway("verify", tmp_path / "m.pt2", tmp_path / "m.so", "--json").stdout)
        assert report["agree"] and report["sets"][0]["outputs"][0]["rtol"] == {"bf16": 4e-2, "f16": 1e-2}[dtype]
        slipway("verify", tmp_path / "m.pt2", tmp_path / "m.so", "--rtol", "1e-6", status=1)
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "n.pt2", "--to", "native-pt2", "--dtype", dtype)
    slipway("verify", tmp_path / "m.pt2", tmp_path / "n.pt2")
    # Of another program.
    with torch.no_grad():
        module[2].weight.mul_(1.3)
    export(module, (R(2, 3, 16, 16),), tmp_path / "other.pt2")
    slipway("verify", tmp_path / "other.pt2", tmp_path / "m.so", status=1)


def weights_of(slipway, path):
    report = json.loads(slipway("inspect", path, "--json").stdout)
    return {w["name"]: w for w in report["programs"][0]["weights"]}, report["metadata"]


def test_weights(slipway, tmp_path):
    """Tied weights stay one; those that norms alone read stay f32; the metadata says what was done."""
    export(Decoder(), (ids(2, 14),), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "f.so")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--dtype", "bf16")
    weights, metadata = weights_of(slipway, tmp_path / "m.so")
    assert metadata["slipway.dtype"] == "bf16"
    assert {name for name, w in weights.items() if w["dtype"] == "f32"} <= {"first", "second"}
    # Half the bytes, and no second copy of the tied one.
    wide, _ = weights_of(slipway, tmp_path / "f.so")
    assert weights.keys() == wide.keys()
    total = [sum(w["bytes"] for w in all_of.values()) for all_of in (weights, wide)]
    assert total[0] < 0.51 * total[1] + 1024


def test_norms_are_folded_before_anything_is_rounded(slipway, tmp_path):
    """A scale that takes what rounding the weight first would lose."""
    conv, norm = nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4, eps=0)
    with torch.no_grad():
        conv.weight.copy_(torch.full((4, 4, 1, 1), 1 + 2**-8))
        norm.weight.fill_(1 / (1 + 2**-8))
    module = nn.Sequential(conv, norm).eval()
    x = torch.ones(1, 4, 2, 2)
    export(module, (x,), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--dtype", "bf16", "--keep-io-types")
    torch.testing.assert_close(
        run(slipway, tmp_path / "m.so", (x,), tmp_path)[0], torch.full((1, 4, 2, 2), 4.0), rtol=0, atol=0
    )


class Others(nn.Module):
    def forward(self, x, d, h, i):
        return x * 2, d * 2, h * 2, i * 2, (x + 1) > 0, x * d


def test_other_types_stay(slipway, tmp_path):
    arguments = (
        torch.randn(3),
        torch.randn(3, dtype=torch.float64),
        torch.randn(3, dtype=torch.bfloat16),
        torch.arange(3),
    )
    export(Others(), arguments, tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--dtype", "f16")
    got = run(slipway, tmp_path / "m.so", (arguments[0].half(), *arguments[1:]), tmp_path)
    h, d, b = torch.float16, torch.float64, torch.bfloat16
    assert [g.dtype for g in got] == [h, d, b, torch.int64, torch.bool, d]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int64])
def test_nothing_is_f32(slipway, tmp_path, dtype):
    x = torch.arange(12).reshape(3, 4).to(dtype)
    export(Function(lambda x: x * 3 + x.sum(0)), (x,), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "a.so")
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "b.so", "--dtype", "bf16")
    assert "--dtype bf16 changes nothing: no value of the program is f32" in done.stderr
    assert (tmp_path / "a.so").read_bytes() == (tmp_path / "b.so").read_bytes()


def test_mixed_programs(slipway, tmp_path):
    """What is bf16 already stays, and so do the casts around it that round."""
    linear = nn.Linear(16, 16)

    def function(m, x):
        y = F.linear(x.bfloat16(), m["a"].weight.bfloat16())
        return m["a"](y.float()).softmax(-1)

    module, x = Function(function, a=linear).eval(), R(32, 16)
    export(module, (x,), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--dtype", "bf16", "--keep-io-types")
    with torch.no_grad():
        want = [module(x).double()]
    assert errors(run(slipway, tmp_path / "m.so", (x,), tmp_path), want)[0] < 2e-2


def test_dynamic_sizes(slipway, tmp_path):
    module = Decoder().eval()
    sizes = {0: torch.export.Dim("batch", max=8), 1: torch.export.Dim("length", min=2, max=40)}
    export(module, (ids(2, 14),), tmp_path / "m.pt2", dynamic_shapes=(sizes,))
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--dtype", "bf16")
    for shape in ((1, 3), (5, 31)):
        x = ids(*shape)
        want = in_type(module, (x,), torch.float64)
        theirs = errors(in_type(module, (x,), torch.bfloat16), want)[0]
        assert errors(run(slipway, tmp_path / "m.so", (x,), tmp_path), want)[0] < 1.15 * theirs


class Caches(nn.Module):
    """One cache of fixed size, one counter."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)
        self.register_buffer("keys", torch.zeros(1, 2, 24, 16))
        self.register_buffer("values", torch.zeros(1, 2, 24, 16))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x, at):
        q, k, v = (t.unflatten(-1, (2, 16)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        self.seen.add_(257.0)
        mask = torch.arange(24)[None] <= at[:, None]
        return F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask), self.seen.clone()


@pytest.mark.parametrize("kept", [False, True])
def test_caches(slipway, tmp_path, kept):
    """A cache is in bf16 in the library, a counter in f32."""
    module = Caches().eval()
    export(module, (R(1, 3, 32), torch.arange(3)), tmp_path / "m.pt2")
    flags = ["--dtype", "bf16", "--state", "auto", *(["--keep-io-types"] if kept else [])]
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", *flags)
    report = json.loads(slipway("inspect", tmp_path / "m.so", "--json").stdout)
    assert {s["name"]: s["dtype"] for s in report["programs"][0]["updates"]} == {
        "keys": "bf16",
        "values": "bf16",
        "seen": "f32",
    }
    x = R(1, 3, 32)
    outer = torch.float32 if kept else torch.bfloat16
    with torch.no_grad():
        want = copy.deepcopy(module).double()(x.double(), torch.arange(3))[0]
    got = run(slipway, tmp_path / "m.so", (x.to(outer), torch.arange(3)), tmp_path)
    assert errors(got[:1], [want])[0] < 1e-2
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "q.so", *flags, "--cache-dtype", "int8")


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x, keys, values):
        q, k, v = (t.unflatten(-1, (2, 16)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        return F.scaled_dot_product_attention(q, keys, values), keys, values


@pytest.mark.parametrize("kept", [False, True])
def test_growing_states(slipway, tmp_path, kept):
    """With --keep-io-types, what leaves the signature is bf16 all the same."""
    past = torch.export.Dim("past", min=1, max=40)
    module = Growing().eval()
    arguments = (R(1, 1, 32), R(1, 2, 5, 16), R(1, 2, 5, 16))
    export(module, arguments, tmp_path / "m.pt2", dynamic_shapes=(None, {2: past}, {2: past}))
    flags = ["--dtype", "bf16", "--state", "auto", *(["--keep-io-types"] if kept else [])]
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", *flags)
    report = json.loads(slipway("inspect", tmp_path / "m.so", "--json").stdout)["programs"][0]
    assert [s["dtype"] for s in report["updates"]] == ["bf16", "bf16"]
    assert [s["dtype"] for s in report["inputs"]] == ["f32" if kept else "bf16"]


def test_weights_of_others(slipway, tmp_path):
    """A program without weights, and a checkpoint in another type."""
    with torch.device("meta"):
        module = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
        x = torch.randn(2, 16)
    torch.export.save(torch.export.export(module.eval(), (x,)), tmp_path / "m.pt2")
    real = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval()
    save_file(real.state_dict(), tmp_path / "w.safetensors")
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--dtype", "bf16", status=3)
    assert "--weights" in done.stderr
    slipway(
        "convert",
        tmp_path / "m.pt2",
        "-o",
        tmp_path / "m.so",
        "--dtype",
        "bf16",
        "--weights",
        tmp_path / "w.safetensors",
    )
    x = R(2, 16)
    want = in_type(real, (x,), torch.float64)
    assert errors(run(slipway, tmp_path / "m.so", (x.bfloat16(),), tmp_path), want)[0] < 2e-2


@pytest.mark.parametrize("config", ["int8-weight-only", "int4-weight-only:group=32"])
def test_quantized_weights(slipway, tmp_path, config):
    """Codes stay codes; activations are bf16 between the layers."""
    module, x = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).eval(), R(8, 64)
    export(module, (x,), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "f.so", "--quantize", config)
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--quantize", config, "--dtype", "bf16")
    want = [t.double() for t in run(slipway, tmp_path / "f.so", (x,), tmp_path)]
    assert errors(run(slipway, tmp_path / "m.so", (x.bfloat16(),), tmp_path), want)[0] < 1e-2


def test_overflow_is_an_error(slipway, tmp_path):
    module = nn.Linear(8, 8)
    with torch.no_grad():
        module.weight[3, 4] = -70000.0
    export(module, (R(2, 8),), tmp_path / "m.pt2")
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--dtype", "f16", status=3)
    assert "'weight' (70000)" in done.stderr and "--dtype bf16" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.pt2"]


def test_what_stays_is_named(slipway, tmp_path):
    def function(m, x):
        y = m["a"](x)
        return y / (y.pow(2).sum(-1, keepdim=True) + 0.1)

    export(Function(function, a=nn.Linear(8, 8)), (R(4, 8),), tmp_path / "m.pt2")
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--dtype", "bf16")
    assert re.search(r"f32 is bf16: 2 weights cast; \d+ nodes stay in f32 \(.*pow 1.*\)", done.stderr)
    assert "off by up to 0.4 %" in done.stderr
    assert "slipway.f32_nodes" in slipway("inspect", tmp_path / "m.so").stdout
    save_file({"input.0": R(4, 8)}, tmp_path / "in.safetensors")
    done = slipway(
        "run", tmp_path / "m.so", "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "o", status=3
    )
    assert "f32" in done.stderr and "bf16" in done.stderr


class Averages(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("count", torch.full((), 300.0))
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        y = self.linear(x)
        self.count.add_(1)
        self.mean.mul_(0.999).add_(y.mean(0), alpha=0.001)
        return y - self.mean, self.count.clone()


def test_state_that_is_computed_with(slipway, tmp_path):
    """300 + 1 is no bf16, and a step of a thousandth is less than a mean's last bit."""
    module, x = Averages().eval(), R(4, 8)
    export(module, (x,), tmp_path / "m.pt2")
    slipway(
        "convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--dtype", "bf16", "--state", "auto", "--keep-io-types"
    )
    save_file({"input.0": x}, tmp_path / "in.safetensors")
    slipway(
        "run",
        tmp_path / "m.so",
        "--inputs",
        tmp_path / "in.safetensors",
        "--outputs",
        tmp_path / "out.safetensors",
        "--repeat",
        200,
    )
    out = load_file(tmp_path / "out.safetensors")
    assert out["output.1"].item() > 490
    wide = copy.deepcopy(module).double()
    with torch.no_grad():
        for _ in range(int(out["output.1"].item()) - 300):
            want = wide(x.double())
    assert errors([out["output.0"]], want[:1])[0] < 1e-2


def test_small_weights_are_named(slipway, tmp_path):
    module = Function(lambda m, x: m["a"](x), a=nn.Linear(8, 8))
    with torch.no_grad():
        module.m["a"].weight.mul_(1e-6)
    export(module, (R(4, 8),), tmp_path / "m.pt2")
    said = "weights have no value that f16 holds with all its digits, the smallest become 0: m.a.weight"
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--dtype", "f16")
    assert said in done.stderr
    assert "digits" not in slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--dtype", "bf16").stderr
