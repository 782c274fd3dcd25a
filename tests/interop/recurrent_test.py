"""Recurrent layers and cells against eager: directions, layers, projections, biases, batches, sizes that change."""

import pytest
import torch
from exported import check
from torch import nn

CASES = {
    "lstm": (nn.LSTM(4, 5, num_layers=2, bidirectional=True), (7, 3, 4)),
    "lstm_projected": (nn.LSTM(4, 5, proj_size=3, num_layers=2, bidirectional=True), (7, 3, 4)),
    "lstm_projected_batch_first_unbiased": (nn.LSTM(4, 5, proj_size=2, bias=False, batch_first=True), (3, 7, 4)),
    "lstm_projected_unbatched": (nn.LSTM(4, 5, proj_size=2), (6, 4)),
    "gru": (nn.GRU(4, 5, bidirectional=True, batch_first=True), (3, 7, 4)),
    "rnn_relu": (nn.RNN(4, 5, num_layers=2, nonlinearity="relu", bidirectional=True), (7, 3, 4)),
    "rnn_tanh": (nn.RNN(4, 5, bias=False), (7, 3, 4)),
    "lstm_cell": (nn.LSTMCell(4, 5), (3, 4)),
    "gru_cell": (nn.GRUCell(4, 5), (3, 4)),
    "rnn_cell": (nn.RNNCell(4, 5, nonlinearity="relu", bias=False), (3, 4)),
}


class Started(nn.Module):
    """A layer given its first state, which is not zero."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(4, 5, proj_size=3)

    def forward(self, x, h, c):
        return self.layer(x, (h, c))


@pytest.mark.parametrize("name", CASES)
def test_equals_eager(slipway, tmp_path, name):
    torch.manual_seed(0)
    layer, shape = CASES[name]
    options, cases = {}, [(torch.randn(shape),)]
    if len(shape) == 3:
        batch = 0 if getattr(layer, "batch_first", False) else 1  # torch's trace fixes the length
        more = list(shape)
        more[batch] += 2
        cases.append((torch.randn(more),))
        options["dynamic_shapes"] = ({batch: torch.export.Dim.DYNAMIC},)
    check(slipway, layer, cases, tmp_path, rtol=1e-4, atol=1e-5, **options)


def test_first_state(slipway, tmp_path):
    check(
        slipway,
        Started(),
        [(torch.randn(6, 2, 4), torch.randn(1, 2, 3), torch.randn(1, 2, 5))],
        tmp_path,
        rtol=1e-4,
        atol=1e-5,
    )
