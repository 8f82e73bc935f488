r"""One step of a whole fleet, plain or replayed from a captured graph.

.. math:: g_m = \nabla_{\theta_m} \mathrm{loss}_m(\mathrm{rows}_m), \qquad
    \theta_m \leftarrow \theta_m - \eta_m\, \mathrm{Adam}(g_m), \qquad
    \bar\theta_m \leftarrow d\, \bar\theta_m + (1 - d)\, \theta_m

The factored scale matrices are kept from step to step and renewed in place at the end of each. On a
GPU the many small kernels of a step are captured once and replayed: launching them one by one costs
more than running them. Nothing in a step asks the device for an answer.

Where the joint score of the true author is all that is maximised, the rows of a step are grouped by
author, and the distance of each from its own component is all that is computed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from whowrote.model import MixtureVAE, Rows, Streams
from whowrote.model.fleet import BlockStreams, widest
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
            self.width = widest(self.rows.labels[batches], self._n_components)

    @property
    def _n_components(self) -> int:
        return self.fleet.architecture.n_components

    def __call__(self, index: Tensor) -> None:
        """Learn from the rows ``index`` (m, n)."""
        self.numbers.begin_step()
        self._learn(index)
        self.average.update()

    def _learn(self, index: Tensor) -> None:
        mixture, batch = self.fleet.mixture, self.rows.take(index)
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
