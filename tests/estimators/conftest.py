"""Three well separated authors, quick settings, and models fitted once for everyone who looks."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs

from threads import one_thread as one_thread
from whowrote import MixtureVAEClassifier, MixtureVAEClusterer
from whowrote.estimators.scaling import Scaling
from whowrote.model.mixture import log_excess

COMPONENTS = ("student-t", "gaussian")
NAMES = np.array(["ann", "bob", "cyd"])
QUICK: dict[str, Any] = {
    "hidden": 8,
    "learning_rate": 0.02,
    "max_epochs": 12,
    "batch_size": 32,
    "dropout": 0.1,
    "random_state": 0,
}


class Data(NamedTuple):
    """Rows, the names of their authors, and the numbers of those names."""

    X: np.ndarray
    y: np.ndarray
    codes: np.ndarray


@pytest.fixture(scope="session")
def quick() -> dict[str, Any]:
    """Settings that learn the blobs in a fraction of a second, from random networks."""
    return QUICK | {"start": "random"}


@pytest.fixture(scope="session")
def quick_for_both() -> dict[str, Any]:
    """The same for estimators with labels, from their default start, and without."""
    return dict(QUICK)


@pytest.fixture(scope="session")
def blobs() -> Data:
    X, codes = make_blobs([70, 60, 50], n_features=4, cluster_std=1.5, random_state=3)
    X.setflags(write=False)
    return Data(X, NAMES[codes], codes)


@pytest.fixture(scope="session", params=COMPONENTS)
def component(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def classifier(component: str, blobs: Data) -> MixtureVAEClassifier:
    return MixtureVAEClassifier(component, start="random", **QUICK).fit(blobs.X, blobs.y)


@pytest.fixture(scope="session")
def clusterer(component: str, blobs: Data) -> MixtureVAEClusterer:
    """At its default settings, which must find what anyone can see."""
    return MixtureVAEClusterer(3, component=component, random_state=0).fit(blobs.X)


@pytest.fixture(params=["classifier", "clusterer"])
def model(request: pytest.FixtureRequest, component: str) -> Any:
    """Each of the two, with each component."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def ensemble(blobs: Data) -> MixtureVAEClassifier:
    return MixtureVAEClassifier(n_members=3, start="random", **QUICK).fit(blobs.X, blobs.y)


@pytest.fixture(scope="session")
def identity(component: str) -> MixtureVAEClassifier:
    """A model known in closed form: networks that copy, two authors, columns in odd units.

    Its density of an observation is the mixture's density of the standardised row.
    """
    start = np.random.default_rng(0).normal(size=(40, 2))
    settings = {"hidden": (), "max_epochs": 1, "dtype": "float64", "random_state": 0}
    model = MixtureVAEClassifier(component, **settings).fit(start, NAMES[np.arange(40) % 2])
    scaling = Scaling(np.array([100.0, -1.0]), np.array([10.0, 0.01]))
    model.fitted_ = replace(model.fitted_, scaling=scaling)
    mixture = model.fleet_.mixture
    with torch.no_grad():
        for network in (model.fleet_.encoder, model.fleet_.decoder):
            network.last.weight.copy_(torch.eye(2, 4)[None])
            network.last.bias.copy_(torch.tensor([[0.0, 0.0, -99.0, -99.0]]))
        mixture.loc.copy_(torch.tensor([[[0.0, 0.0], [6.0, -4.0]]]))
        mixture.factor.copy_(torch.tensor([[0.0, 0.0], [0.7, 0.2]]).expand(1, 2, 2, 2))
        mixture.log_excess.copy_(log_excess(torch.tensor(4.13)))
    return model
