"""Programs with views, aliases and in-place operators, exported by torch as they are, against eager.

Every case is a function f(m, *inputs) of a module m with a few buffers; each runs with static and with dynamic
sizes."""

import exported
import pytest
import torch

AUTO = torch.export.Dim.AUTO
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


class Module(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.linspace(0, 1, 6))
        self.register_buffer("cache", torch.arange(2 * 5 * 6, dtype=torch.float32).view(2, 5, 6))
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 36).view(6, 6))

    def forward(self, *inputs):
        return self.f(self, *inputs)


@case
def chain_of_views(m, x):
    y = x.clone()
    v = y[1:].transpose(0, 1)[::2].unsqueeze(0)
    v.mul_(3)
    return y, v, y + 1


@case
def overlapping_slices(m, x):
    y = x * 1
    a, b = y[:, :4], y[:, 2:]
    a.add_(1)
    b.mul_(2)
    a.sub_(b[:, :4])
    return a, b, y


@case
def write_after_view(m, x):
    y = x + 0
    v = y.view(-1)
    y.exp_()
    return v * 2, y


@case
def view_after_write(m, x):
    y = x + 0
    y[0] = 5.0
    v = y.t()
    v[1:3] = -1
    return v, y, y.sum()


@case
def both_sides_written(m, x):
    y = x + 0
    v = y[:, 1]
    v.add_(10)
    y.mul_(2)
    v.sub_(1)
    return v, y


@case
def nested_select(m, x):
    y = x.unsqueeze(0).expand(2, -1, -1).clone()
    y[1][0][2:4] = 7
    y[0, 1, 3] = x.sum()
    return y


@case
def diagonals(m, x):
    y = x @ m.weight
    y = y[:3, :3].contiguous()
    y.diagonal().fill_(0.5)
    y.diagonal(1).mul_(2)
    y.fill_diagonal_(4.0)
    return y


@case
def chunks(m, x):
    y = x * 2
    a, b, c = y.chunk(3, 1)
    b.zero_()
    c.copy_(a)
    return y, a + b + c


@case
def unbound_rows(m, x):
    y = (x * 2)[:3]
    rows = list(y.unbind(0))
    rows[1].add_(rows[0])
    rows[2].add_(rows[1])
    return y, rows[2]


@case
def split_sizes(m, x):
    y = x + 1
    a, b = torch.split(y, [2, 4], dim=1)
    a += b[:, :2]
    return y, b


@case
def narrow_and_permute(m, x):
    y = torch.stack([x, x + 1, x + 2])
    v = y.permute(2, 0, 1).narrow(0, 1, 3)
    v.clamp_(min=0.1)
    return y, v


@case
def movedim_flatten(m, x):
    y = torch.stack([x, x + 1])
    v = y.movedim(0, 2).movedim(2, 0).flatten()
    v.add_(1)
    return y


@case
def counter(m, x):
    m.count.add_(1)
    m.count += 2
    return x * m.count


@case
def moving_average(m, x):
    m.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x - m.mean, m.mean * 2


@case
def buffer_through_view(m, x):
    m.cache[0].view(-1)[:6].copy_(x[0])
    return m.cache.sum(-1), m.cache[0, 0]


@case
def key_value_cache(m, x):
    positions = torch.tensor([1, 3])
    m.cache[:, positions] = x[:2].unsqueeze(1)
    return m.cache @ m.weight


@case
def index_copy(m, x):
    m.cache.index_copy_(1, torch.tensor([4, 0]), torch.stack([x[:2], x[:2] * 2], 1))
    m.cache.index_add_(2, torch.tensor([0]), torch.ones(2, 5, 1))
    return m.cache


@case
def user_input(m, x):
    x.mul_(2)
    v = x[0]
    v.add_(1)
    return x.cos(), v


@case
def masked(m, x):
    y = x.clone()
    y[y < 0] = 0
    y.masked_fill_(y > 1, 1.0)
    y[:, 0].masked_fill_(y[:, 1] > 0.5, -3)
    return y


@case
def scatters(m, x):
    y = torch.zeros_like(x)
    index = (torch.arange(6) % 3).unsqueeze(0)
    y.scatter_(1, index, 1.5)
    y.scatter_add_(1, index + 1, x[:1])
    y[:, 1:].index_fill_(1, torch.tensor([3]), 9)
    return y


@case
def dtype_of_self_stays(m, x):
    y = torch.zeros(x.shape, dtype=torch.float16)
    y.add_(x)
    i = torch.ones(6, dtype=torch.int32)
    i.mul_(torch.arange(6))
    b = torch.zeros(6)
    b.copy_(x[0] > 0)
    b.logical_not_()
    return y, i, b


@case
def broadcast_copy(m, x):
    y = torch.empty_like(x)
    y.copy_(x[0])
    y[:, 2:4] = x[:, :1]
    y[1:].fill_(x.sum())
    return y


@case
def reshape_of_transposed_is_a_copy(m, x):
    y = x.clone()
    r = y.t().reshape(-1)
    r.add_(1)
    y.mul_(2)
    return r, y


@case
def reshape_of_contiguous_is_a_view(m, x):
    y = x.clone()
    r = y.reshape(-1)
    r.add_(1)
    return r, y


@case
def to_and_contiguous_alias(m, x):
    y = x.clone()
    z = y.to(torch.float32).contiguous()
    z.add_(1)
    w = y.to(torch.float64)
    w.add_(1)
    return y, z, w


@case
def idle_dropout_aliases(m, x):
    y = x.clone()
    z = torch.nn.functional.dropout(y, 0.5, training=False)
    z.relu_()
    return y, z


@case
def shape_changed_in_place(m, x):
    y = x.clone()
    y.unsqueeze_(1)
    y.transpose_(0, 2)
    y.squeeze_(1)
    y.add_(torch.arange(6.0).unsqueeze(1))
    return y


@case
def activations(m, x):
    y = x @ m.weight
    z = torch.nn.functional.leaky_relu(y, 0.1, inplace=True)
    z = torch.nn.functional.hardtanh(z, -2, 2, inplace=True)
    return torch.nn.functional.silu(z, inplace=True) + y


@case
def sliced_step(m, x):
    y = x.clone()
    y[::2, 1::2] = 0
    y[-1] += y[0]
    y[:, -2:] *= 3
    return y


@case
def batch_norm_statistics(m, x):
    variance = torch.ones(6)
    y = torch.nn.functional.batch_norm(x, m.mean, variance, training=True, momentum=0.3)
    return y, m.mean + variance


INPUT = torch.linspace(-2, 2, 24).view(4, 6).sin() * 1.7
OTHER = torch.linspace(-3, 3, 42).view(7, 6).cos() * 1.3


@pytest.mark.parametrize("sizes", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_equals_eager(slipway, tmp_path, name, sizes):
    module = Module(CASES[name])
    rtol = 2e-3 if name == "dtype_of_self_stays" else 1e-5
    if sizes == "static":
        exported.check(slipway, module, [(INPUT,)], tmp_path, rtol=rtol)
    else:
        exported.check(
            slipway, module, [(INPUT,), (OTHER,)], tmp_path, rtol=rtol, dynamic_shapes={"inputs": ({0: AUTO},)}
        )


@pytest.mark.parametrize("name,state", [("counter", "count"), ("moving_average", "mean"), ("user_input", "inputs_0")])
def test_dropped_state_is_named(slipway, tmp_path, name, state):
    said = exported.check(slipway, Module(CASES[name]), [(INPUT,)], tmp_path)
    assert "warning" in said and f"'{state}'" in said


REFUSED = {
    "resize_": lambda m, x: x.clone().resize_(30),
    "unfold": lambda m, x: (y := x.clone(), y.unfold(1, 3, 3).add_(1))[0],
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_by_name(slipway, tmp_path, name):
    exported.export(Module(REFUSED[name]), (INPUT,), tmp_path / "model.pt2")
    done = slipway("convert", tmp_path / "model.pt2", "-o", tmp_path / "model.onnx", status=4)
    assert name in done.stderr and not (tmp_path / "model.onnx").exists()
