r"""Layers that the towers of the extractor are made of.

.. math:: h = \mathrm{BiLSTM}(w), \qquad a = \mathrm{softmax}(v^\top \tanh(W h + b)), \quad
    s = \textstyle\sum_i a_i h_i, \qquad z = (x - \mu) / \sigma

Padding never changes a result, and randomness is an argument.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from whowrote import private

SMALLEST_VARIANCE = 1e-5


def drop(values: Tensor, share: float, shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Dropout with a mask of ``shape``, broadcast: one mask may serve all steps of a sequence."""
    if share == 0:
        return values
    kept = torch.rand(list(shape), generator=generator, device=values.device) >= share
    return values * (kept.to(values.dtype) / (1 - share))


class BiLSTM(nn.Module):
    """Two LSTMs, one of which reads every sequence from its own end.

    They compute in single precision, also under autocast. On a GPU both take their steps together,
    as products of matrices: for tens of thousands of short sequences cuDNN's kernels, made for few
    long ones, are several times slower.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.ahead = nn.LSTM(inputs, hidden, batch_first=True)
        self.back = nn.LSTM(inputs, hidden, batch_first=True)
        for lstm in (self.ahead, self.back):
            biases = dict(lstm.named_parameters())["bias_ih_l0"]
            nn.init.ones_(biases[hidden : 2 * hidden])  # gates that remember at first

    def forward(self, values: Tensor, lengths: Tensor) -> Tensor:
        """(n, time, inputs) to (n, time, 2 hidden)."""
        place = torch.arange(values.shape[1], device=values.device)
        turned = lengths[:, None] - 1 - place
        turned = torch.where(turned >= 0, turned, place)[:, :, None]
        with torch.autocast(values.device.type, enabled=False):
            values = values.float()
            reversed_ = values.gather(1, turned.expand(-1, -1, values.shape[2]))
            run = self.stepwise if values.device.type == "cuda" else self._library
            ahead, back = run(values, reversed_)
            back = back.gather(1, turned.expand(-1, -1, back.shape[2]))
        return torch.cat([ahead, back], dim=2)

    def _library(self, values: Tensor, reversed_: Tensor) -> tuple[Tensor, Tensor]:
        return self.ahead(values)[0], self.back(reversed_)[0]

    def stepwise(self, values: Tensor, reversed_: Tensor) -> tuple[Tensor, Tensor]:
        """The same, both directions in one product a step."""
        n, time, inputs = values.shape
        w_in, w_hidden, b_in, b_hidden = (
            torch.stack([getattr(lstm, f"{name}_l0") for lstm in (self.ahead, self.back)])
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        both = torch.stack([values, reversed_]).transpose(1, 2).reshape(2, time * n, inputs)
        bias = (b_in + b_hidden)[:, None]
        gates = torch.baddbmm(bias, both, w_in.mT).view(2, time, n, -1)
        state = cell = values.new_zeros(2, n, w_hidden.shape[2])
        states = []
        for step in gates.unbind(1):
            state, cell = lstm_cell(step, state @ w_hidden.mT, cell)
            states.append(state)
        ahead, back = torch.stack(states, dim=2).unbind(0)
        return ahead, back


def lstm_cell(inputs: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """The new state and cell from the gates' inputs (i, f, g, o side by side)."""
    if inputs.device.type == "cuda":
        flat = [tensor.flatten(0, 1) for tensor in (inputs, hidden, cell)]
        state, new = private.fused_lstm_cell(*flat)
        return state.view_as(cell), new.view_as(cell)
    i, f, g, o = (inputs + hidden).chunk(4, dim=-1)
    new = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * new.tanh(), new


class Pooling(nn.Module):
    """Masked attention over states; beside it, if wanted, masked means of states and inputs."""

    def __init__(self, states: int, inputs: int, mean: bool) -> None:
        super().__init__()
        self.hidden = nn.Linear(states, states)
        self.score = nn.Linear(states, 1, bias=False)
        self.mean = mean
        self.size = 2 * states + inputs if mean else states

    def weights(self, states: Tensor, inside: Tensor) -> Tensor:
        """(n, time), each row summing to one."""
        scores: Tensor = self.score(self.hidden(states).tanh()).squeeze(2).float()
        return scores.masked_fill(~inside, -math.inf).softmax(1)

    def forward(self, states: Tensor, inputs: Tensor, inside: Tensor) -> Tensor:
        """(n, time, states) and (n, time, inputs) to (n, size)."""
        weights = self.weights(states, inside).to(states.dtype)
        attended = torch.einsum("nt,nti->ni", weights, states)
        if not self.mean:
            return attended
        even = inside / inside.sum(1, keepdim=True)
        means = [torch.einsum("nt,nti->ni", even.to(v.dtype), v) for v in (states, inputs)]
        return torch.cat([attended, *means], dim=1)


class Standardise(nn.Module):
    """(x - mean) / deviation; in training those of the batch, which it remembers.

    Pooled states of any two texts are nearly parallel at first and a cosine would see nothing. The
    running average of the weights averages these statistics too, and what is learnt after it is an
    affine map, so nothing but the start and the pace of learning changes.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.ones(size))

    def forward(self, values: Tensor, learn: bool) -> Tensor:
        """(n, size) to (n, size)."""
        values = values.float()
        mean, variance = self.mean, self.variance
        if learn:
            variance, mean = torch.var_mean(values, dim=0, correction=0)
            self.mean.copy_(mean.detach())
            self.variance.copy_(variance.detach())
        return (values - mean) * torch.rsqrt(variance + SMALLEST_VARIANCE)
