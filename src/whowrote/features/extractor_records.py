r"""What a training run tells of itself: :math:`\bar\ell = \frac1n \sum_t \ell_t`, speed and AUC.

The loop appends these records; showing them is someone else's job.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Evaluation:
    """How the averaged weights do on development authors."""

    step: int
    seconds: float
    loss: float
    documents_per_second: float
    learning_rate: float
    auc: dict[str, float]
    recall_at_1: dict[str, float]

    @property
    def mean_auc(self) -> float:
        """Over the domains, each counting alike; not a number where there are none."""
        return float(np.mean(list(self.auc.values()))) if self.auc else math.nan


@dataclass(frozen=True)
class Step:
    """Where a run stands."""

    step: int
    share_done: float
    loss: float
    documents_per_second: float
    seconds_left: float


@dataclass
class Since:
    """What was done since the last evaluation."""

    steps: int = 0
    documents: int = 0
    seconds: float = 0.0

    def add(self, documents: int, seconds: float) -> None:
        """Count one step."""
        self.steps, self.documents = self.steps + 1, self.documents + documents
        self.seconds += seconds
