"""ONNX models as the field's tools take them: weights that quantizers and fusions find, operators that runtimes have
kernels for, no node twice, types and modules stated, external data that comes back. torch.onnx's model of the same
program is the measure."""

import collections

import numpy as np
import onnx
import onnxruntime
import onnxruntime.quantization
import pytest
import torch
from exported import export
from onnxruntime.transformers import optimizer
from torch import nn
from torch.nn import functional


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def operators(model):
    return collections.Counter(n.op_type for n in model.graph.node)


def converted(slipway, tmp_path, module, inputs, *flags, rtol=1e-4, atol=1e-5, **kwargs):
    """The model, which gives torch's results."""
    module = module.eval()
    export(module, inputs, tmp_path / "m.pt2", **kwargs)
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", *flags)
    model = onnx.load(str(tmp_path / "m.onnx"))
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
    run = session(tmp_path / "m.onnx")
    with torch.no_grad():
        want = module(*inputs)
    got = run.run(None, {i.name: np.asarray(x) for i, x in zip(run.get_inputs(), inputs)})
    for g, w in zip(got, torch.utils._pytree.tree_leaves(want), strict=True):
        np.testing.assert_allclose(g, w.numpy(), rtol=rtol, atol=atol)
    return model


class Block(nn.Module):
    """As in BERT: norms behind the sums, a mask."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        b, n, w = x.shape
        q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.n1(x + self.o(y.transpose(1, 2).reshape(b, n, w)))
        return self.n2(x + self.down(functional.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.words, self.norm = nn.Embedding(100, 32), nn.LayerNorm(32)
        self.layers = nn.ModuleList(Block() for _ in range(layers))

    def forward(self, ids, mask):
        x = self.norm(self.words(ids))
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :] > 0)
        return x


ENCODER_INPUTS = (torch.arange(14).reshape(2, 7), torch.tensor([[1] * 7, [1] * 4 + [0] * 3]))


def quantized(path, tmp_path):
    onnxruntime.quantization.quantize_dynamic(str(path), str(tmp_path / "q.onnx"))
    session(tmp_path / "q.onnx")
    return operators(onnx.load(str(tmp_path / "q.onnx")))["MatMulInteger"]


def fusions(path):
    found = operators(
        optimizer.optimize_model(str(path), model_type="bert", num_heads=4, hidden_size=32, opt_level=0).model
    )
    return {
        op: found[op]
        for op in (
            "SkipLayerNormalization",
            "LayerNormalization",
            "BiasGelu",
            "Gelu",
            "Attention",
            "MultiHeadAttention",
        )
    }


@pytest.mark.parametrize("dynamic", [False, True])
def test_tools_find_as_much_as_with_torch(slipway, tmp_path, dynamic):
    torch.manual_seed(0)
    shapes = (
        {"ids": {1: torch.export.Dim("seq", min=2, max=64)}, "mask": {1: torch.export.Dim("seq", min=2, max=64)}}
        if dynamic
        else None
    )
    module = Encoder()
    ours = converted(slipway, tmp_path, module, ENCODER_INPUTS, **({"dynamic_shapes": shapes} if dynamic else {}))
    program = torch.export.load(tmp_path / "m.pt2")
    torch.onnx.export(program, f=str(tmp_path / "torch.onnx"), dynamo=True, verbose=False, external_data=False)
    theirs = onnx.load(str(tmp_path / "torch.onnx"))
    assert quantized(tmp_path / "m.onnx", tmp_path) == 12 >= quantized(tmp_path / "torch.onnx", tmp_path)
    mine, other = fusions(tmp_path / "m.onnx"), fusions(tmp_path / "torch.onnx")
    assert all(mine[op] >= other[op] for op in ("SkipLayerNormalization", "BiasGelu")), (mine, other)
    assert mine["SkipLayerNormalization"] == 4 and mine["BiasGelu"] == 2
    assert len(ours.graph.node) <= len(theirs.graph.node)


def test_weights_are_written_transposed(slipway, tmp_path):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(70, 45), nn.Tanh(), nn.Linear(45, 3, bias=False))
    model = converted(slipway, tmp_path, module, (torch.randn(2, 5, 70),))
    assert operators(model) == {"MatMul": 2, "Add": 1, "Tanh": 1}
    stored = {w.name: onnx.numpy_helper.to_array(w) for w in model.graph.initializer}
    np.testing.assert_array_equal(stored["0.weight.transposed"], module[0].weight.detach().numpy().T)
    assert "0.weight" not in stored


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_types_are_written_transposed(slipway, tmp_path, dtype):
    torch.manual_seed(0)
    module = nn.Linear(33, 65).to(dtype)
    export(module, (torch.randn(2, 5, 33, dtype=dtype),), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    model = onnx.load(str(tmp_path / "m.onnx"))
    assert "Transpose" not in operators(model)
    stored = next(w for w in model.graph.initializer if w.name == "weight.transposed")
    raw = np.frombuffer(stored.raw_data, np.uint8)
    want = module.weight.detach().t().contiguous().view(torch.uint8).numpy().reshape(-1)
    np.testing.assert_array_equal(raw, want)


def test_a_large_weight_is_written_in_batches(slipway, tmp_path):
    torch.manual_seed(0)
    module = nn.Linear(3001, 1500, bias=False)  # 18 MB, of sizes that no tile divides
    model = converted(slipway, tmp_path, module, (torch.randn(1, 2, 3001),), rtol=1e-3, atol=1e-3)
    (stored,) = model.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(stored), module.weight.detach().numpy().T)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(50, 16), nn.Linear(16, 50, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        return self.head(torch.tanh(self.words(ids)))


def test_tied_weights_are_in_the_file_once(slipway, tmp_path):
    torch.manual_seed(0)
    model = converted(slipway, tmp_path, Tied(), (torch.arange(6).reshape(2, 3),))
    assert [list(w.dims) for w in model.graph.initializer if len(w.dims) == 2] == [[50, 16]]
    assert operators(model)["Transpose"] == 1


class TwoWays(nn.Module):
    """A weight read by products of matrices of two and of three dims, and one that is transposed by itself."""

    def __init__(self):
        super().__init__()
        self.w, self.v = nn.Parameter(torch.randn(8, 6)), nn.Parameter(torch.randn(5, 8))

    def forward(self, x):
        y = functional.linear(x, self.w)
        return (
            functional.linear(x[0], self.w),
            y @ self.v.t(),
            torch.addmm(torch.ones(5), y[0], self.v.t(), beta=0.5, alpha=2),
        )


def test_readers_that_agree(slipway, tmp_path):
    torch.manual_seed(0)
    model = converted(slipway, tmp_path, TwoWays(), (torch.randn(2, 4, 6),))
    assert "Transpose" not in operators(model)
    assert sorted(w.name for w in model.graph.initializer if len(w.dims) == 2) == ["v.transposed", "w.transposed"]


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.deep, self.other = nn.Conv2d(8, 8, 3, groups=8), nn.BatchNorm2d(8, affine=False)

    def forward(self, x):
        x = functional.hardswish(self.norm(self.conv(x)))
        x = functional.relu6(self.other(self.deep(x)))
        return x * functional.hardsigmoid(functional.adaptive_avg_pool2d(x, 1))


def image():
    torch.manual_seed(0)
    net = Image()
    with torch.no_grad():
        for norm in (net.norm, net.other):
            norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2)
    return net


def test_images(slipway, tmp_path):
    x = torch.randn(2, 3, 9, 9)
    model = converted(slipway, tmp_path, image(), (x,))
    assert operators(model) == {
        "Conv": 2,
        "HardSwish": 1,
        "HardSigmoid": 1,
        "Clip": 1,
        "GlobalAveragePool": 1,
        "Mul": 1,
    }
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    assert "2 batch norms are folded into the layers before them; --no-algebra keeps them" in done.stderr
    plain = converted(slipway, tmp_path, image(), (x,), "--no-algebra")
    assert operators(plain)["BatchNormalization"] == 2
    assert {"conv.weight", "norm.running_var"} <= {w.name for w in plain.graph.initializer}


class Normed(nn.Module):
    """Batch norms behind linear layers, as in LeViT: over rows of a sequence, and of a matrix."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 12, bias=False), nn.Linear(12, 6), nn.Linear(6, 6)
        self.na, self.nb, self.nc = nn.BatchNorm1d(12), nn.BatchNorm1d(6), nn.BatchNorm1d(5)

    def forward(self, x):
        y = self.a(x)
        y = self.na(y.flatten(0, 1)).reshape_as(y)
        z = self.nb(self.b(y[:, 0]))
        return torch.relu(y), z, self.nc(self.c(y[..., :6]))


def test_norms_of_linear_layers(slipway, tmp_path):
    torch.manual_seed(0)
    net = Normed()
    with torch.no_grad():
        for norm in (net.na, net.nb, net.nc):
            norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2), norm.weight.normal_(), norm.bias.normal_()
    found = operators(converted(slipway, tmp_path, net, (torch.randn(2, 5, 8),)))
    assert found["BatchNormalization"] == 1  # its channels are the sequence


class LayerScale(nn.Module):
    """As ConvNeXt, EfficientFormer, CaiT, XCiT and a ReZero block have it."""

    def __init__(self, c=12):
        super().__init__()
        self.mix, self.up, self.down, self.norm = (
            nn.Conv2d(c, c, 3, padding=1, groups=c),
            nn.Conv2d(c, 2 * c, 1),
            nn.Conv2d(2 * c, c, 1, bias=False),
            nn.BatchNorm2d(c),
        )
        self.fc, self.out, self.gate, self.drop = (
            nn.Linear(c, c),
            nn.Linear(c, c, bias=False),
            nn.Linear(c, c),
            nn.Dropout(0.3),
        )
        for name, shape in {
            "g1": (c,),
            "g2": (c, 1, 1),
            "g3": (c,),
            "g4": (c,),
            "g5": (1,),
            "shift": (c, 1, 1),
        }.items():
            self.register_parameter(name, nn.Parameter(torch.randn(shape)))

    def forward(self, x):
        b, c, h, w = x.shape
        x = x + self.drop(self.mix(x)).mul(self.g1.reshape(1, -1, 1, 1))
        x = x + self.g2 * self.norm(self.down(functional.relu(self.up(x)))) + self.shift
        rows = x.flatten(2).transpose(1, 2)
        rows = rows + self.drop(self.fc(rows)) * self.g3
        rows = rows + (self.out(rows).transpose(1, 2).reshape(b, c, h, w) * self.g4[:, None, None]).flatten(
            2
        ).transpose(1, 2)
        return rows + self.g5 * self.gate(rows)


@pytest.mark.parametrize("dynamic", [False, True])
def test_layer_scale_is_part_of_the_weights(slipway, tmp_path, dynamic):
    torch.manual_seed(0)
    net, x = LayerScale(), torch.randn(2, 12, 5, 6)
    net.norm.running_mean.normal_(), net.norm.running_var.uniform_(0.5, 2)
    dims = {
        "x": {
            0: torch.export.Dim("b", min=2, max=9),
            2: torch.export.Dim("h", min=3, max=20),
            3: torch.export.Dim("w", min=3, max=20),
        }
    }
    more = {"dynamic_shapes": dims} if dynamic else {}
    model = converted(slipway, tmp_path, net, (x,), **more)
    found = operators(model)
    assert found["Conv"] == 3 and not {"Mul", "BatchNormalization"} & set(found), found
    names = {w.name for w in model.graph.initializer}
    assert not {"g1", "g2", "g3", "g4", "g5", "fc.weight"} & names and "mix.weight.merged" in names
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    assert (
        "5 factors, summands and norms of channels are folded into the layers before them; --no-algebra keeps them"
        in done.stderr
    )
    plain = converted(slipway, tmp_path, net, (x,), "--no-algebra", **more)
    assert operators(plain)["Mul"] == 5 and {"g1", "mix.weight"} <= {w.name for w in plain.graph.initializer}


class KeptScales(nn.Module):
    """Factors that stay: an input, behind a layer whose result is read twice, of weights that another layer has, by
    their name or by another, of rows in place of channels, of halves."""

    def __init__(self, c=6):
        super().__init__()
        self.a, self.b, self.c, self.tied, self.d, self.e, self.low = (nn.Linear(c, c) for _ in range(7))
        self.tied.weight = self.c.weight
        self.low.half()
        self.register_buffer("same", self.e.weight.detach())
        self.g, self.rows = nn.Parameter(torch.randn(c)), nn.Parameter(torch.randn(5, 1))
        self.halves = nn.Parameter(torch.randn(c).half())

    def forward(self, x, given):
        b = self.b(x)
        tied = self.c(x) * self.g, self.tied(x), self.e(x) * self.g, functional.linear(x, self.same)
        return self.a(x) * given, b * self.g, b.tanh(), self.d(x) * self.rows, self.low(x.half()) * self.halves, *tied


def test_factors_that_stay(slipway, tmp_path):
    torch.manual_seed(0)
    model = converted(slipway, tmp_path, KeptScales(), (torch.randn(2, 5, 6), torch.randn(6)), rtol=2e-3, atol=2e-3)
    assert operators(model)["Mul"] == 6
    assert not any("merged" in w.name for w in model.graph.initializer)


@pytest.mark.parametrize("scale, folds", [(1e-3, True), (1e-6, False), (6e4, False)])
def test_factors_that_halves_do_not_hold(slipway, tmp_path, scale, folds):
    torch.manual_seed(0)
    net = LayerScale()
    for p in (net.g1, net.g2, net.g3, net.g4, net.g5):
        p.data.fill_(scale)
    for layer in (net.mix, net.down, net.fc, net.out, net.gate):
        layer.weight.data.fill_(2)
    torch.export.save(torch.export.export(net.eval(), (torch.randn(2, 12, 5, 6),)), tmp_path / "m.pt2")
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--dtype", "f16")
    assert ("5 factors" in done.stderr) == folds


@pytest.mark.parametrize(
    "opset, form, op",
    [
        (20, "portable", "InstanceNormalization"),
        (21, "exact", "InstanceNormalization"),
        (21, "portable", "GroupNormalization"),
    ],
)
def test_group_norm(slipway, tmp_path, opset, form, op):
    """onnxruntime takes apart what opset 21 has."""
    torch.manual_seed(0)
    flags = "--opset", str(opset), "--onnx-form", form
    model = converted(slipway, tmp_path, nn.GroupNorm(4, 12), (torch.randn(2, 12, 5, 3),), *flags)
    assert operators(model)[op] == 1
    model = converted(slipway, tmp_path, nn.InstanceNorm2d(12), (torch.randn(2, 12, 5, 3),), *flags)
    assert operators(model) == {"InstanceNormalization": 1}


class Masked(nn.Module):
    def forward(self, q, k, mask):
        return functional.scaled_dot_product_attention(q, k, k, attn_mask=mask)


@pytest.mark.parametrize("additive", [False, True])
def test_rows_that_see_nothing(slipway, tmp_path, additive):
    """Their result is 0; a NaN stays one."""
    q, k = torch.randn(2, 2, 5, 4), torch.randn(2, 2, 5, 4)
    q[1, 1, 3, 2] = float("nan")
    mask = torch.rand(5, 5) > 0.4
    mask[2], mask[3, 0] = False, True
    if additive:
        mask = torch.zeros(5, 5).masked_fill(~mask, float("-inf"))
    converted(slipway, tmp_path, Masked(), (q, k, mask))


def optimized(path):
    """Operators of what onnxruntime's optimizer makes of a model."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path) + ".optimized"
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return operators(onnx.load(str(path) + ".optimized"))


class Grouped(nn.Module):
    """Query heads that share key heads, said by the operator or by copies."""

    def __init__(self, copies, mask):
        super().__init__()
        self.copies, self.mask = copies, mask

    def forward(self, q, k, v, mask):
        if self.copies:
            b, h, n, d = k.shape
            k, v = (x[:, :, None].expand(b, h, 3, n, d).reshape(b, 3 * h, n, d) for x in (k, v))
        return functional.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=mask if self.mask == "mask" else None,
            is_causal=self.mask == "causal",
            enable_gqa=not self.copies,
        )


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mask", ["none", "causal", "mask"])
@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
def test_groups_of_heads_are_rows(slipway, tmp_path, batch, copies, mask, dynamic):
    torch.manual_seed(0)
    q, k, v = (torch.randn(batch, h, n, 4) for h, n in ((6, 5), (2, 7), (2, 7)))
    allowed = torch.rand(batch, 1, 5, 7) > 0.3
    allowed[:, :, 2] = False
    shapes = None
    if dynamic:
        rows, columns = torch.export.Dim("rows", min=2, max=50), torch.export.Dim("columns", min=2, max=50)
        shapes = {"q": {2: rows}, "k": {2: columns}, "v": {2: columns}, "mask": {2: rows, 3: columns}}
    model = converted(
        slipway, tmp_path, Grouped(copies, mask), (q, k, v, allowed), **({"dynamic_shapes": shapes} if dynamic else {})
    )
    assert not {"Tile"} & set(operators(model))
    assert operators(model)["Expand"] == (mask == "causal" and dynamic)
    if not dynamic:
        return
    run = session(tmp_path / "m.onnx")
    q, k, v, allowed = (
        torch.randn(batch, 6, 1, 4),
        torch.randn(batch, 2, 11, 4),
        torch.randn(batch, 2, 11, 4),
        torch.rand(batch, 1, 1, 11) > 0.5,
    )
    want = Grouped(copies, mask)(q, k, v, allowed).numpy()
    names = dict(zip("qkvm", (q, k, v, allowed)))
    (got,) = run.run(None, {i.name: names[i.name[0]].numpy() for i in run.get_inputs()})
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_heads_of_one_sequence_are_the_batch(slipway, tmp_path):
    """The transposes around attention become part of its products; the mask is read once."""
    torch.manual_seed(0)
    inputs = tuple(x[1:] for x in ENCODER_INPUTS)
    model = converted(slipway, tmp_path, Encoder(), inputs)
    found = operators(model)
    assert (found["IsInf"], found["ReduceSum"], found["Where"]) == (0, 1, 3)
    after = optimized(tmp_path / "m.onnx")
    assert after["Transpose"] == 2 and after["FusedMatMul"] == 4, after


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("mask", ["none", "causal", "mask"])
def test_attention_shares_heads(slipway, tmp_path, copies, mask):
    """Opset 23: one node, which takes the heads that are shared once. A query that may look nowhere has zeros."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, h, n, 4) for h, n in ((6, 5), (2, 7), (2, 7)))
    allowed = torch.rand(2, 1, 5, 7) > 0.3
    allowed[:, :, 2] = False
    model = converted(slipway, tmp_path, Grouped(copies, mask), (q, k, v, allowed), "--opset", "23")
    assert operators(model) == {"Attention": 1}


class Fused(nn.Module):
    """Queries, keys and values of one layer, as in timm; a gated layer."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.gated = nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 64, bias=False)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        x = self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, w))
        gate, up = self.gated(x).chunk(2, -1)
        return functional.silu(gate) * up


@pytest.mark.parametrize("batch, dynamic", [(1, False), (2, False), (2, True)])
def test_layers_that_are_cut_are_several(slipway, tmp_path, batch, dynamic):
    torch.manual_seed(0)
    more = {"dynamic_shapes": {"x": {1: torch.export.Dim("n", min=2, max=50)}}} if dynamic else {}
    model = converted(slipway, tmp_path, Fused(), (torch.randn(batch, 5, 16),), **more)
    found = operators(model)
    assert found["MatMul"] == 2 + 3 + 1 + 2 and not {"Split", "Gather", "Slice"} & set(found), found
    assert {f"qkv.weight.{k}.transposed" for k in range(3)} <= {w.name for w in model.graph.initializer}
    plain = converted(slipway, tmp_path, Fused(), (torch.randn(batch, 5, 16),), "--no-algebra", **more)
    assert operators(plain)["MatMul"] == 2 + 1 + 1 + 1


class LastToken(nn.Module):
    """A layer of which one token is read."""

    def __init__(self, at):
        super().__init__()
        self.at, self.block, self.norm, self.head = at, Block(16, 2), nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.norm(self.block(x, None))[:, self.at])


@pytest.mark.parametrize("at, dynamic", [(0, False), (-1, False), (-1, True)])
def test_what_nobody_reads_is_not_computed(slipway, tmp_path, at, dynamic):
    torch.manual_seed(0)
    dims = {"x": {0: torch.export.Dim("b", min=2, max=9), 1: torch.export.Dim("n", min=2, max=50)}}
    more = {"dynamic_shapes": dims} if dynamic else {}
    inputs = (torch.randn(2, 7, 16),)
    model = converted(slipway, tmp_path, LastToken(at), inputs, **more)
    inferred = onnx.shape_inference.infer_shapes(model)
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in inferred.graph.value_info}
    gelu = next(n for n in model.graph.node if n.op_type == "Gelu")
    assert ranks[gelu.output[0]] == 2  # a row for each batch
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    assert "3 linear layers compute the rows that are read of them only; --no-algebra keeps all" in done.stderr
    slipway("verify", tmp_path / "m.pt2", tmp_path / "m.so")
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--no-algebra")
    assert "linear layers compute" not in done.stderr
    converted(slipway, tmp_path, LastToken(at), inputs, "--no-algebra", **more)


class Step(nn.Module):
    def forward(self, x, cache):
        keys = torch.cat((cache, x.reshape(1, 1, 4, 8).transpose(1, 2)), 2)
        return (torch.tanh(keys).sum(2, keepdim=True).permute(2, 0, 1, 3) + 1).flatten()


@pytest.mark.parametrize("dynamic", [False, True])
def test_dims_of_one_are_not_transposed(slipway, tmp_path, dynamic):
    torch.manual_seed(0)
    more = {"dynamic_shapes": {"x": None, "cache": {2: torch.export.Dim("past", min=2, max=50)}}} if dynamic else {}
    model = converted(slipway, tmp_path, Step(), (torch.randn(1, 1, 32), torch.randn(1, 4, 6, 8)), **more)
    assert "Transpose" not in operators(model)


class Rotary(nn.Module):
    """Rotary positions of two layers, as transformers writes them."""

    def forward(self, q, k, angles):
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]

        def turn(x):
            half = x.shape[-1] // 2
            return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

        return turn(q), turn(k), turn(turn(q)) * 2


def test_rotary_positions_share_signs(slipway, tmp_path):
    torch.manual_seed(0)
    inputs = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 5, 4)
    found = operators(converted(slipway, tmp_path, Rotary(), inputs, atol=1e-6))
    assert found["Neg"] == 0 and found["Mul"] == 2 * 3 + 2


class OtherAngles(Rotary):
    """Halves that differ, signs and places that are not those of a rotation."""

    def forward(self, q, k, angles):
        cos, sin = (torch.cat((f(angles), f(angles) + 1), -1)[:, None] for f in (torch.cos, torch.sin))
        same = torch.cat((angles, angles), -1).cos()[:, None]
        low, high = q[..., :4], q[..., 4:]
        return [
            q * a + torch.cat(parts, -1) * b
            for a, b, parts in ((cos, same, (-high, low)), (same, sin, (-high, low)), (same, same, (-low, high)))
        ]


@pytest.mark.parametrize("dynamic", [False, True])
def test_rotary_positions_at_opset_23(slipway, tmp_path, dynamic):
    torch.manual_seed(0)
    inputs = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 5, 4)
    b, n = torch.export.Dim("b", min=2, max=50), torch.export.Dim("n", min=2, max=50)
    more = {"dynamic_shapes": ({0: b, 2: n}, {0: b, 2: n}, {0: b, 1: n})} if dynamic else {}
    found = operators(converted(slipway, tmp_path, Rotary(), inputs, "--opset", "23", atol=1e-6, **more))
    assert found["RotaryEmbedding"] == 3 and found["Neg"] == 0 and found["Mul"] == 1
    assert (
        operators(converted(slipway, tmp_path, OtherAngles(), inputs, "--opset", "23", atol=1e-6))["RotaryEmbedding"]
        == 0
    )


class FixedAngles(Rotary):
    """Angles of positions that are numbers of the program, as one for a fixed length has them; `shift` makes the halves
    differ in one place."""

    def __init__(self, shift=0.0):
        super().__init__()
        angles = torch.arange(5.0)[None, :, None] * torch.tensor([1.0, 0.3, 0.1, 0.03])
        cos, sin = (torch.cat((f(angles), f(angles)), -1) for f in (torch.cos, torch.sin))
        sin[0, 3, 6] += shift
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, q):
        cos, sin = self.cos[:, None], self.sin[:, None]
        return q * cos + torch.cat((-q[..., 4:], q[..., :4]), -1) * sin


class ComputedAngles(Rotary):
    def forward(self, q):
        return super().forward(q, q[:, :2], torch.arange(5.0)[None, :, None] * torch.tensor([1.0, 0.3, 0.1, 0.03]))


def test_rotary_positions_of_numbers(slipway, tmp_path):
    torch.manual_seed(0)
    q = torch.randn(1, 4, 5, 8)
    for module, count in (FixedAngles(), 1), (ComputedAngles(), 3), (FixedAngles(shift=1e-4), 0):
        found = operators(converted(slipway, tmp_path, module, (q,), "--opset", "23", atol=1e-6))
        assert found["RotaryEmbedding"] == count, (module, found)


class Twins(nn.Module):
    def forward(self, x):
        a, b = x.shape[:2]
        y = x.reshape(a * b, -1)
        parts = [torch.tanh(y + i).reshape(a, b, -1, 2) for i in range(4)]
        return sum(p.transpose(1, 2).reshape(a, -1) for p in parts)


def test_shapes_are_computed_once(slipway, tmp_path):
    a, b = torch.export.Dim("a", min=2), torch.export.Dim("b", min=2)
    model = converted(slipway, tmp_path, Twins(), (torch.randn(2, 3, 8),), dynamic_shapes=({0: a, 1: b},))
    keys = [(n.op_type, tuple(n.input), tuple(x.SerializeToString() for x in n.attribute)) for n in model.graph.node]
    assert len(keys) == len(set(keys))
    assert operators(model)["Concat"] <= 3


class Chosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x, i):
        y = torch.cond(x.sum() > 0, lambda a: torch.tanh(self.inner(a)), lambda a: a - 1, (x,))
        return y[:, i], x.sort(-1).values


@pytest.mark.parametrize(
    "module, inputs",
    [
        (Encoder(), ENCODER_INPUTS),
        (Chosen(), (torch.randn(3, 4), torch.tensor([1, 2]))),
        (Image(), (torch.randn(1, 3, 9, 9),)),
    ],
)
def test_types_of_all_values(slipway, tmp_path, module, inputs):
    model = converted(slipway, tmp_path, module, inputs)

    def check(graph, inside):
        stated = [v.name for v in graph.value_info]
        assert len(stated) == len(set(stated))
        known = {*stated, *(v.name for v in graph.output)}
        assert {o for n in graph.node for o in n.output if o} == known
        assert not {v.name for v in graph.output} & set(stated) and not {w.name for w in graph.initializer} & set(
            stated
        )
        for n in graph.node:
            for a in n.attribute:
                if a.HasField("g"):
                    assert not inside
        return known

    check(model.graph, False)


def test_modules_of_nodes(slipway, tmp_path):
    torch.manual_seed(0)
    model = converted(slipway, tmp_path, Encoder(), ENCODER_INPUTS)
    says = {n.output[0]: {p.key: p.value for p in n.metadata_props} for n in model.graph.node}
    (gelu,) = (v for k, v in says.items() if k == "gelu")
    assert set(gelu) == {"namespace"}
    assert (
        gelu["namespace"].startswith(": ")
        and "/layers.0: " in gelu["namespace"]
        and gelu["namespace"].endswith("/gelu: aten.gelu.default")
    )
    # As torch.onnx writes it.
    torch.onnx.export(torch.export.load(tmp_path / "m.pt2"), f=str(tmp_path / "torch.onnx"), dynamo=True, verbose=False)
    theirs = {
        p.key: p.value
        for n in onnx.load(str(tmp_path / "torch.onnx")).graph.node
        if n.output[0] == "gelu"
        for p in n.metadata_props
    }
    assert gelu["namespace"] == theirs["namespace"]
    model = converted(slipway, tmp_path, Encoder(), ENCODER_INPUTS, "--node-metadata", "all")
    full = next({p.key: p.value for p in n.metadata_props} for n in model.graph.node if n.output[0] == "gelu")
    for key in ("namespace", "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.name_scopes"):
        assert full[key] == theirs[key]
    assert "functional.gelu" in full["pkg.torch.onnx.stack_trace"]
    model = converted(slipway, tmp_path, Encoder(), ENCODER_INPUTS, "--node-metadata", "none")
    assert not any(n.metadata_props for n in model.graph.node)


def test_external_data_comes_back(slipway, tmp_path):
    """What the optimizers of onnxruntime and Olive do: load with the data, change, save with external data, run."""
    torch.manual_seed(0)
    converted(slipway, tmp_path, Encoder(), ENCODER_INPUTS, "--external-data", "always")
    feed = dict(zip(("ids", "mask"), (x.numpy() for x in ENCODER_INPUTS)))
    want = session(tmp_path / "m.onnx").run(None, feed)[0]
    assert (tmp_path / "m.onnx.data").exists()
    loaded = onnx.load(str(tmp_path / "m.onnx"))
    onnx.save(loaded, str(tmp_path / "again.onnx"), save_as_external_data=True, location="again.data")
    np.testing.assert_array_equal(session(tmp_path / "again.onnx").run(None, feed)[0], want)
    optimized = optimizer.optimize_model(
        str(tmp_path / "m.onnx"), model_type="bert", num_heads=4, hidden_size=32, opt_level=0
    )
    optimized.save_model_to_file(str(tmp_path / "optimized.onnx"), use_external_data_format=True)
    np.testing.assert_allclose(session(tmp_path / "optimized.onnx").run(None, feed)[0], want, rtol=1e-4, atol=1e-5)
    onnxruntime.quantization.quantize_dynamic(
        str(tmp_path / "m.onnx"), str(tmp_path / "q.onnx"), use_external_data_format=True
    )
    got = session(tmp_path / "q.onnx").run(None, feed)[0]
    assert np.abs(got - want).max() < 0.3
