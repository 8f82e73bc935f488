r"""One step of a whole fleet, plain or replayed from a captured graph.

.. math:: g_m = \nabla_{\theta_m} \mathrm{loss}_m(\mathrm{rows}_m), \qquad
    \theta_m \leftarrow \theta_m - \eta_m\, \mathrm{Adam}(g_m), \qquad
    \bar\theta_m \leftarrow d\, \bar\theta_m + (1 - d)\, \theta_m

The factored scale matrices are kept from step to step and renewed in place at the end of each. On a
GPU the many small kernels of a step are captured once and replayed: launching them one by one costs
more than running them. Nothing in a step asks the device for an answer.

Where the joint score of the true author is all that is maximised, the rows of a step are grouped by
author, and the distance of each from its own component is all that is computed.

Adam for a fleet has one state, one step size and one gradient norm per member:

.. math::

    g &\leftarrow g \min(1, c / \lVert g \rVert), \quad
    a \leftarrow \beta_1 a + (1 - \beta_1) g, \quad
    b \leftarrow \beta_2 b + (1 - \beta_2) g^2, \\
    \theta &\leftarrow \theta - \eta\, \frac{\hat a}{\sqrt{\hat b} + \epsilon}, \qquad
    \hat a = a / (1 - \beta_1^t), \quad \hat b = b / (1 - \beta_2^t)

``torch.optim.Adam`` knows one step size per parameter group and one norm per call; here the first
dimension of every parameter is the member, and nothing is shared along it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby

import torch
from torch import Tensor, nn

from whowrote import private
from whowrote.model import MixtureVAE, Rows, Streams
from whowrote.model.fleet import BlockStreams, widest
from whowrote.model.vae import NAMES

BLOCK = 16
COUNTED = 2**22
"""Rows, or authors of steps, that are counted at once."""
WIDTHS = 8
BETAS = (0.9, 0.999)
EPSILON = 1e-8
AVERAGE_EVERY = 4


class Step:
    """The plain step: every kernel is launched when its turn comes."""

    def __init__(
        self,
        fleet: MixtureVAE,
        rows: Rows,
        streams: Streams,
        optimizer: FleetAdam,
        average: MovingAverage,
        clip_norm: float,
        block: int = BLOCK,
    ) -> None:
        self.fleet, self.rows = fleet, rows
        self.optimizer, self.average, self.clip_norm = optimizer, average, clip_norm
        self.streams, self.block = streams, block
        self.precision = fleet.mixture.precision
        device = rows.targets.device
        self.total = torch.zeros(len(fleet), len(NAMES), device=device, dtype=torch.float64)
        self._own_only = fleet.joint_only and rows.all_labelled()
        self.width = 0  # of the groups of rows by author; 0 where all distances are asked for

    def continue_from(self, former: Step) -> None:
        """Go on where the step of more members ended."""
        self.width = former.width

    def begin_epoch(self, batches: Tensor) -> None:
        """Fresh random numbers, and sums that start at zero.

        ``batches`` (m, steps, n) are the rows of all steps to come: the widest group of rows with
        one author is measured once, so that no step has to ask.
        """
        self.numbers = BlockStreams(self.streams, self.block)
        self.total.zero_()
        self._widen(batches)

    def _widen(self, batches: Tensor) -> None:
        if self._own_only:
            k = self._n_components
            steps = max(1, COUNTED // max(batches.shape[-1], k))
            parts = torch.split(batches, steps, dim=1)
            self.width = max(widest(self.rows.labels[part], k) for part in parts)

    @property
    def _n_components(self) -> int:
        return self.fleet.architecture.n_components

    def __call__(self, index: Tensor) -> None:
        """Learn from the rows ``index`` (m, n)."""
        self.numbers.begin_step()
        self._learn(index)
        self.average.update()

    def _learn(self, index: Tensor) -> None:
        mixture, batch = self.fleet.mixture, self.rows.of_step(index)
        if self.width:
            batch = batch.grouped(self._n_components, self.width)
        with mixture.factored(self.precision):
            terms = self.fleet(batch, self.numbers)
        terms.loss.sum().backward()
        self.optimizer.step(self.clip_norm)
        self.total += torch.stack(list(terms.means().values()), dim=1).detach()
        self.precision.renew(mixture.factor, mixture.scale_floor)


class GraphedStep(Step):
    """The same step, captured at its second run and replayed from then on."""

    def __init__(self, *parts: object, **options: object) -> None:
        super().__init__(*parts, **options)  # type: ignore[arg-type]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._former: torch.cuda.CUDAGraph | None = None
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._index: Tensor | None = None
        self.numbers = BlockStreams(self.streams, self.block)

    def continue_from(self, former: Step) -> None:
        """Take over the memory of the step of more members, which is never run again.

        Asking the device for gigabytes whenever members leave costs more than the capture.
        """
        super().continue_from(former)
        if isinstance(former, GraphedStep):
            self._former, self._stream = former._graph or former._former, former._stream

    def begin_epoch(self, batches: Tensor) -> None:
        """Fresh random numbers at the old addresses, and sums that start at zero."""
        self.numbers.begin_epoch()
        self.total.zero_()
        self._widen(batches)

    def _widen(self, batches: Tensor) -> None:
        """Groups only grow, and by several slots at a time: a new width is a new capture."""
        before = self.width
        super()._widen(batches)
        self.width = max(before, -(-self.width // WIDTHS) * WIDTHS)
        if self.width > before:
            self._former, self._graph = self._graph or self._former, None

    def __call__(self, index: Tensor) -> None:
        """Learn from the rows ``index`` (m, n)."""
        self.numbers.begin_step()
        if self._index is None:  # a first plain run settles all allocations
            self._index = index.clone()
            self._warm_up(self._index)
        else:
            self._index.copy_(index)
            if self._graph is None:
                self._graph = self._capture(self._index)
            self._graph.replay()
        self.average.update()

    def _warm_up(self, index: Tensor) -> None:
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._learn(index)
        torch.cuda.current_stream().wait_stream(self._stream)

    def _capture(self, index: Tensor) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        if self._former is None:
            with torch.cuda.graph(graph):
                self._learn(index)
            return graph
        # Not torch.cuda.graph: it first gives back all memory that is at hand.
        torch.cuda.synchronize()
        with torch.cuda.stream(self._stream):
            graph.capture_begin(pool=self._former.pool())
            try:
                self._learn(index)
            finally:
                graph.capture_end()
        self._former = None  # only now: memory without a graph is given back
        return graph


# -- Adam and the averaged iterate ---------------------------------------------------------------


class FleetAdam:
    """Adam over parameters whose first dimension is the member."""

    def __init__(
        self,
        fleet: nn.Module,
        learning_rates: Sequence[float],
        factors: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        """``factors`` multiply the step size of a named parameter, member by member."""
        self.parameters = list(fleet.parameters())
        self.learning_rates = list(learning_rates)
        self.factors = dict(factors or {})
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        # A captured graph cannot read numbers of the host: counts and step sizes are tensors.
        self.counts = [torch.zeros((), device=p.device) for p in self.parameters]
        self._runs = [_runs_of_equals(self._scaled(name)) for name, _ in fleet.named_parameters()]
        device = self.parameters[0].device
        exact = torch.float64 if device.type == "cpu" else torch.float32  # all its kernel takes
        rates = sorted({rate for runs in self._runs for rate, _ in runs})
        self._rates = {rate: torch.tensor(rate, device=device, dtype=exact) for rate in rates}

    def _scaled(self, name: str) -> list[float]:
        factors = self.factors.get(name, [1.0] * len(self.learning_rates))
        return [rate * factor for rate, factor in zip(self.learning_rates, factors, strict=True)]

    def rates(self, decay: float) -> list[float]:
        """The step sizes in force."""
        return [rate * decay for rate in self.learning_rates]

    def set_decay(self, decay: float) -> None:
        """Multiply every step size by ``decay`` from now on."""
        for rate, value in self._rates.items():
            value.fill_(rate * decay)

    def select(self, fleet: nn.Module, keep: Sequence[int]) -> FleetAdam:
        """The optimizer of some members, whose parameters now live in ``fleet``."""
        factors = {name: [all_[i] for i in keep] for name, all_ in self.factors.items()}
        chosen = FleetAdam(fleet, [self.learning_rates[i] for i in keep], factors)
        chosen.first = [state[list(keep)] for state in self.first]
        chosen.second = [state[list(keep)] for state in self.second]
        chosen.counts = [count.clone() for count in self.counts]
        return chosen

    @torch.no_grad()
    def step(self, clip_norm: float) -> None:
        """Clip each member's gradient, move each member, forget the gradient.

        A parameter without a gradient stays where it is: the degrees of freedom of a Gaussian
        fleet.
        """
        moving = [(i, p.grad) for i, p in enumerate(self.parameters) if p.grad is not None]
        clip = _clip_factor([gradient for _, gradient in moving], clip_norm)
        private.add_to_each([self.counts[i] for i, _ in moving], 1)
        batches: dict[float, list[tuple[Tensor, ...]]] = {rate: [] for rate in self._rates}
        for i, gradient in moving:
            gradient.mul_(_along(clip, gradient))
            state = (self.parameters[i].data, gradient, self.first[i], self.second[i])
            for rate, run in self._runs[i]:
                batches[rate].append((*(tensor[run] for tensor in state), self.counts[i]))
            self.parameters[i].grad = None
        for rate, batch in batches.items():
            if batch:
                columns = map(list, zip(*batch, strict=True))
                private.fused_adam(*columns, rate=self._rates[rate], betas=BETAS, epsilon=EPSILON)


def _runs_of_equals(rates: Sequence[float]) -> list[tuple[float, slice]]:
    """Neighbours with one step size, who can move together.

    >>> _runs_of_equals([0.1, 0.1, 0.2])
    [(0.1, slice(0, 2, None)), (0.2, slice(2, 3, None))]
    """
    runs, start = [], 0
    for rate, group in groupby(rates):
        end = start + len(list(group))
        runs.append((rate, slice(start, end)))
        start = end
    return runs


def _along(per_member: Tensor, like: Tensor) -> Tensor:
    return per_member.reshape(-1, *(1,) * (like.dim() - 1))


def _clip_factor(gradients: list[Tensor], clip_norm: float) -> Tensor:
    norms = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients])
    return torch.clamp(clip_norm / torch.linalg.vector_norm(norms, dim=0), max=1.0)


class MovingAverage:
    r"""The averaged iterate: a <- d a + (1 - d) theta, with d = min(decay, t/(t + 9)).

    A model at the average of its last steps predicts much as an ensemble of them would, at the
    price of one model. The early d forgets the random start. States are taken in every fourth step
    and whenever someone looks, with the product of the decays of the steps since.
    """

    def __init__(self, fleet: nn.Module, decay: float) -> None:
        self.parameters = list(fleet.parameters())
        self.average = [p.detach().clone() for p in self.parameters]
        self.decay, self.count, self.taken = decay, 0, 0

    def update(self) -> None:
        """Count a step, and take its state in if it is its turn."""
        self.count += 1
        if self.count - self.taken == AVERAGE_EVERY:
            self._take()

    @torch.no_grad()
    def _take(self) -> None:
        if self.decay == 0 or self.taken == self.count:
            return
        steps = range(self.taken + 1, self.count + 1)
        decay = math.prod(min(self.decay, t / (t + 9)) for t in steps)
        self.taken = self.count
        private.move_each(self.average, [p.detach() for p in self.parameters], 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The fleet at its average, for as long as the block lasts."""
        if self.decay == 0:
            yield
            return
        self._take()
        present = [p.data for p in self.parameters]
        for p, average in zip(self.parameters, self.average, strict=True):
            p.data = average
        try:
            yield
        finally:
            for p, value in zip(self.parameters, present, strict=True):
                p.data = value

    def select(self, fleet: nn.Module, keep: Sequence[int]) -> MovingAverage:
        """The average of some members, whose parameters now live in ``fleet``."""
        chosen = MovingAverage(fleet, self.decay)
        chosen.average = [value[list(keep)] for value in self.average]
        chosen.count, chosen.taken = self.count, self.taken
        return chosen
