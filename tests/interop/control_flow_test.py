"""Higher-order operators exported by torch, against eager: cond, while_loop, map, scan, associative_scan, vmap,
autocast and gradient regions; closed-over weights, nesting, symbolic operands."""

import copy

import exported
import pytest
import torch
from functorch.experimental.control_flow import map as map_over
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

AUTO = torch.export.Dim.AUTO
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


class Module(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f
        self.register_buffer("b", torch.arange(4.0))
        self.l = torch.nn.Linear(4, 4)
        with torch.no_grad():
            self.l.weight.copy_(torch.linspace(-1, 1, 16).view(4, 4))
            self.l.bias.copy_(torch.linspace(0, 1, 4))

    def forward(self, *inputs):
        return self.f(self, *inputs)


@case
def cond_of_tensor(m, x):
    return torch.cond(x.sum() > 0, lambda x: (x.sin(), m.l(x)), lambda x: (x.cos(), x * m.b), (x,))


@case
def cond_of_size(m, x):
    return torch.cond(x.shape[0] > 3, lambda x: x.sum(0), lambda x: x.mean(0) + m.b, (x,))


@case
def cond_nested(m, x):
    def positive(x):
        return torch.cond(x.mean() > 0.5, lambda x: x + 1, lambda x: m.l(x), (x,))

    return torch.cond(x.sum() > 0, positive, lambda x: x * 3, (x,))


@case
def cond_of_constant(m, x):
    return torch.cond(torch.tensor(True), lambda x: x.sin(), lambda x: x.cos(), (x,))


@case
def while_counts(m, x):
    def more(i, x):
        return i < 4

    def step(i, x):
        return i + 1, torch.tanh(m.l(x))

    return while_loop(more, step, (torch.zeros((), dtype=torch.int64), x))


@case
def while_with_cond(m, x):
    def more(i, x, total):
        return (i < 3) & (x.abs().sum() < 1e6)

    def step(i, x, total):
        y = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
        return i + 1, y, total + y.sum()

    return while_loop(more, step, (torch.zeros((), dtype=torch.int64), x, torch.zeros(())))


@case
def while_that_never_starts(m, x):
    return while_loop(lambda x: x.sum() > 1e9, lambda x: (x + 1,), (x,))


@case
def map_rows(m, x):
    return map_over(lambda row, weight, n: (row @ weight, row.sum() + n), x, m.l.weight, x.sum())


@case
def scan_cell(m, x):
    def cell(state, row):
        state = torch.tanh(m.l(state) + row)
        return state, (state * 2, state.sum())

    return scan(cell, torch.zeros(4), x)


@case
def scan_backwards(m, x):
    return scan(lambda state, row: (state * 0.9 + row, state + row), torch.zeros(4), x, reverse=True)


@case
def scan_columns(m, x):
    def cell(state, column):
        state = state[0] + column.sum(), state[1] + 1
        return state, column * 2

    return scan(cell, (torch.zeros(()), torch.zeros((), dtype=torch.int64)), x, dim=1)


@case
def scan_in_scan(m, x):
    def outer(state, row):
        last, all = scan(lambda s, e: (s * 0.5 + e, s.clone()), torch.zeros(()), row)
        return state + last, all

    return scan(outer, torch.zeros(()), x)


@case
def vmap_elementwise(m, x):
    return torch.vmap(lambda row, scale: torch.relu(row * scale) + row[None, 0] * 0, in_dims=(0, None))(x, m.b)


@case
def vmap_of_layers(m, x):
    return torch.vmap(lambda row: torch.softmax(row @ m.l.weight, 0) + row.sum())(x)


@case
def no_grad_region(m, x):
    with torch.set_grad_enabled(False):
        y = m.l(x)
    with torch.enable_grad():
        return y + m.l(y)


@case
def autocast_off(m, x):
    with torch.autocast("cpu", enabled=False):
        return m.l(x).sin()


STATIC = {}


def static(f):
    STATIC[f.__name__] = f
    return f


@static
def associative_product(m, x):
    return associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic")


@static
def associative_reversed(m, x):
    return associative_scan(torch.maximum, x, 1, reverse=True, combine_mode="generic")


@static
def associative_recurrence(m, x):
    def combine(a, b):
        return a[0] * b[0], a[1] * b[0] + b[1]

    return associative_scan(combine, (torch.sigmoid(x), x), 0, combine_mode="generic")


@static
def associative_matrices(m, x):
    q = torch.stack([x, x + 1, x - 1, x * 2], 1) * 0.3
    return associative_scan(lambda a, b: (a[0] @ b[0], a[1] + b[1]), (q, x), 0, combine_mode="generic")


@static
def autocast_classes(m, x):
    with torch.autocast("cpu", torch.bfloat16):
        y = m.l(x)
        mixed = torch.cat([y, x])
        summed = torch.einsum("bi,ij->bj", x, m.l.weight)
        loss = torch.nn.functional.mse_loss(y, summed)
        row = torch.softmax(y, -1)
        attended = torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])
    return y.float(), mixed, summed.float(), loss, row.float(), attended.float()


INPUT = torch.linspace(-2, 2, 12).view(3, 4).sin() * 1.5
OTHER = torch.linspace(-1, 3, 20).view(5, 4).cos()


@pytest.mark.parametrize("name", CASES)
def test_dynamic(slipway, tmp_path, name):
    exported.check(
        slipway, Module(CASES[name]), [(INPUT,), (OTHER,), (-OTHER,)], tmp_path, rtol=1e-4, atol=1e-5,
        dynamic_shapes={"inputs": ({0: AUTO},)},
    )  # fmt: skip


@pytest.mark.parametrize("name", [*CASES, *STATIC])
def test_static(slipway, tmp_path, name):
    low = name.startswith("autocast")
    exported.check(
        slipway,
        Module({**CASES, **STATIC}[name]),
        [(INPUT,)],
        tmp_path,
        rtol=2e-2 if low else 1e-4,
        atol=1e-2 if low else 1e-5,
    )


@pytest.mark.parametrize("length", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("name", [n for n in STATIC if n.startswith("associative")])
def test_lengths(slipway, tmp_path, name, length):
    x = torch.linspace(-2, 2, 4 * length).view(length, 4).sin()
    exported.check(slipway, Module(STATIC[name]), [(x,)], tmp_path, rtol=1e-4, atol=1e-5)


@torch.compiler.nested_compile_region
def block(x, weight, bias):
    return torch.relu(torch.nn.functional.linear(x, weight, bias)) + x.shape[0]


class Blocks(torch.nn.Module):
    """One body called for several layers, by strict export."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = block(x, layer.weight, layer.bias)
        return x


def test_nested_compile_region_is_a_function(slipway, tmp_path):
    import onnx

    exported.check(slipway, Blocks(), [(torch.randn(3, 4),), (torch.randn(7, 4),)], tmp_path,
                   dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), strict=True)  # fmt: skip
    model = onnx.load(str(tmp_path / "model.onnx"))
    assert len(model.functions) == 1
    calls = [
        n for n in model.graph.node if n.op_type == model.functions[0].name and n.domain == model.functions[0].domain
    ]
    assert len(calls) >= 3


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0)
        self.layers = torch.nn.ModuleList(copy.deepcopy(layer) for _ in range(3))
        for parameter in self.parameters():
            torch.nn.init.uniform_(parameter, -0.5, 0.5)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_repeated_blocks_are_functions(slipway, tmp_path):
    import onnx

    def with_functions(*arguments, **options):
        return slipway(*arguments, "--functions", "--verify-each", **options)

    module = Encoder().train()  # the path in evaluation is one fused operator
    exported.check(with_functions, module, [(torch.randn(2, 5, 16),), (torch.randn(3, 9, 16),)], tmp_path, rtol=1e-4,
    atol=1e-4,
                   dynamic_shapes=({0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO},))  # fmt: skip
    model = onnx.load(str(tmp_path / "model.onnx"))
    calls = [n for n in model.graph.node if n.domain == "slipway.functions"]
    assert len(model.functions) == 1 and len(calls) >= 2, [f.name for f in model.functions]
