"""A trained model read from its file to answer, and nothing else: without scikit-learn.

Loading scikit-learn takes longer than an answer. An estimator's own ``load`` reads the same file
and can learn again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from whowrote import persistence
from whowrote.estimators import checks
from whowrote.estimators.answers import Answers
from whowrote.estimators.scaling import Scaling
from whowrote.model import Architecture, Member, MixtureVAE

FLEET, SCALING = "fleet.", "scaling."
"""What the names of their arrays begin with."""


class FittedClassifier(Answers):
    """What ``MixtureVAEClassifier`` answers, without its settings; classes go by their numbers."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what the estimator's ``save`` wrote; answers are bit-equal."""
        record = persistence.read(path, "MixtureVAEClassifier")
        fitted = cls()
        fitted.scaling_ = scaling_from(record)
        device = checks.device_named(record.values["parameters"]["device"])
        fitted.fleet_ = fleet_from(record).to(device)
        fitted.leader_ = record.values["state"]["leader_"]
        fitted.n_features_in_ = record.values["state"]["n_features_in_"]
        return fitted

    def _read(self, X: Any, *, reset: bool) -> Any:
        """Rows that our own features made: numbers in the right columns."""
        rows = np.asarray(X, dtype=np.float64)
        checks.all_finite(rows)
        return rows


def scaling_from(record: persistence.Record) -> Scaling:
    """The scaling in a model file."""
    return Scaling.restore(persistence.below(SCALING, record.arrays))


def fleet_from(record: persistence.Record) -> MixtureVAE:
    """The networks and the mixture in a model file."""
    shape, members = dict(record.values["architecture"]), record.values["members"]
    shape["hidden"] = tuple(shape["hidden"])
    arrays = persistence.below(FLEET, record.arrays)
    state = {name: torch.as_tensor(array) for name, array in arrays.items()}
    fleet = MixtureVAE(Architecture(**shape), [Member(**one) for one in members])
    fleet.to(dtype=state["mixture.loc"].dtype)
    fleet.load_state_dict(state)
    return fleet
