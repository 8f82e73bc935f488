r"""One step of a whole fleet, plain or replayed from a captured graph.

.. math:: g_m = \nabla_{\theta_m} \mathrm{loss}_m(\mathrm{rows}_m), \qquad
    \theta_m \leftarrow \theta_m - \eta_m\, \mathrm{Adam}(g_m), \qquad
    \bar\theta_m \leftarrow d\, \bar\theta_m + (1 - d)\, \theta_m

What is known of the scale matrices (their factors and determinants) is kept from step to step and
made anew when they move, at the end of the step that moved them. On a graphics processor the many
small kernels of a step are captured once and replayed: launching them one by one costs more than
running them. Nothing in a step asks the device for an answer.

Where the joint score of the true author is all that is maximised, a step computes the distance of
each row from its own component alone (:mod:`whowrote.model.fast.own_distance`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from whowrote.model import MixtureVAE, Reservoir, Rows, Streams
from whowrote.model.fast.own_distance import Groups, widest
from whowrote.model.fast.precision import Precision
from whowrote.model.vae import NAMES
from whowrote.training.optimizer import FleetAdam, MovingAverage

BLOCK = 16
WIDTHS = 8


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
        self.precision: Precision = fleet.mixture.precision()
        device = rows.targets.device
        self.total = torch.zeros(len(fleet), len(NAMES), device=device, dtype=torch.float64)
        self._own_only = fleet.joint_only and rows.all_labelled()
        self.width = 0  # of the groups of rows by author; 0 where all distances are asked for

    def succeed(self, former: Step) -> None:
        """Take over from the step of a larger crew."""
        self.width = former.width

    def begin_epoch(self, batches: Tensor) -> None:
        """Fresh random numbers, and sums that start at zero.

        ``batches`` (m, steps, n) are the rows of all steps to come: the widest group of rows with
        one author is measured once, so that no step has to ask.
        """
        self.numbers = Reservoir(self.streams, self.block)
        self.total.zero_()
        self._widen(batches)

    def _widen(self, batches: Tensor) -> None:
        if self._own_only:
            self.width = widest(self.rows.labels[batches], self._n_components)

    @property
    def _n_components(self) -> int:
        return self.fleet.architecture.n_components

    def __call__(self, index: Tensor, moves_scales: bool = True) -> None:
        """Learn from the rows ``index`` (m, n)."""
        self.numbers.begin_step()
        self._learn(index, moves_scales)
        self.average.update()

    def _learn(self, index: Tensor, moves_scales: bool) -> None:
        batch = self.rows.take(index)
        groups = Groups.of(batch.labels, self._n_components, self.width) if self.width else None
        terms = self.fleet(
            batch, self.numbers, precision=self.precision, frozen=not moves_scales, groups=groups
        )
        terms.loss.sum().backward()
        self.optimizer.step(self.clip_norm)
        self.total += torch.stack(list(terms.means().values()), dim=1).detach()
        if moves_scales:
            self.precision.renew(self.fleet.mixture.factor, self.fleet.mixture.scale_floor)


class GraphedStep(Step):
    """The same step, captured at its second run and replayed from then on."""

    def __init__(self, *parts: object, **options: object) -> None:
        super().__init__(*parts, **options)  # type: ignore[arg-type]
        self._graphs: dict[bool, torch.cuda.CUDAGraph] = {}
        self._former: dict[bool, torch.cuda.CUDAGraph] = {}
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._seen: set[bool] = set()
        self._index: Tensor | None = None
        self.numbers = Reservoir(self.streams, self.block)

    def succeed(self, former: Step) -> None:
        """Take over the memory of the step of a larger crew, which is never run again.

        Asking the device for gigabytes at every change of the crew costs more than the capture.
        """
        super().succeed(former)
        if isinstance(former, GraphedStep):
            self._former, self._stream = former._former | former._graphs, former._stream

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
            self._former, self._graphs = self._former | self._graphs, {}

    def __call__(self, index: Tensor, moves_scales: bool = True) -> None:
        """Learn from the rows ``index`` (m, n)."""
        self.numbers.begin_step()
        if self._index is None:
            self._index = index.clone()
        self._index.copy_(index)
        if moves_scales not in self._graphs:
            if moves_scales not in self._seen:  # a first plain run settles all allocations
                self._seen.add(moves_scales)
                self._warm_up(moves_scales)
                self.average.update()
                return
            self._capture(moves_scales)
        self._graphs[moves_scales].replay()
        self.average.update()

    def _warm_up(self, moves_scales: bool) -> None:
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._learn(self._index, moves_scales)  # type: ignore[arg-type]
        torch.cuda.current_stream().wait_stream(self._stream)

    def _capture(self, moves_scales: bool) -> None:
        graph = torch.cuda.CUDAGraph()
        known = [*self._graphs.values(), *self._former.values()]
        if known:
            # Not torch.cuda.graph: it first gives back all memory that is at hand.
            torch.cuda.synchronize()
            with torch.cuda.stream(self._stream):
                graph.capture_begin(pool=known[0].pool())
                try:
                    self._learn(self._index, moves_scales)  # type: ignore[arg-type]
                finally:
                    graph.capture_end()
        else:
            with torch.cuda.graph(graph):
                self._learn(self._index, moves_scales)  # type: ignore[arg-type]
        self._graphs[moves_scales] = graph
        self._former = {}  # only now: memory without a graph is given back
