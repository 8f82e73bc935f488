"""The quick SVMs give the answers of the slow ones, all along a path of C."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from whowrote.baselines import RBFSVM
from whowrote_experiments.svm_paths import decisions, kernel_path, path

STRENGTHS = [0.001, 0.01, 0.1, 1.0]


@pytest.fixture(scope="module")
def clouds() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    codes = np.arange(200) % 4
    return random.normal(size=(4, 6))[codes] + random.normal(size=(200, 6)), codes


def test_a_path_gives_what_every_point_gives_alone(clouds: tuple[np.ndarray, np.ndarray]) -> None:
    X, codes = clouds
    along = path(X, codes, X, STRENGTHS)
    for C, found in zip(STRENGTHS, along, strict=True):
        np.testing.assert_allclose(found, decisions(X, codes, X, C), atol=1e-5)
    assert np.abs(along[0] - along[-1]).max() > 0.1


def test_the_end_of_a_path_is_scikit_learns(clouds: tuple[np.ndarray, np.ndarray]) -> None:
    X, codes = clouds
    scaled = StandardScaler().fit_transform(X)
    slow = LinearSVC(C=1.0, dual=False, tol=1e-10, max_iter=10_000).fit(scaled, codes)
    found = path(X, codes, X, STRENGTHS)[-1]
    np.testing.assert_allclose(found, slow.decision_function(scaled), atol=1e-4)


def test_a_shared_kernel_gives_what_every_svm_gives_alone(
    clouds: tuple[np.ndarray, np.ndarray],
) -> None:
    X, codes = clouds
    new = np.random.default_rng(1).normal(size=(80, 6))
    for C, found in zip(STRENGTHS, kernel_path(X, codes, new, 0.2, STRENGTHS), strict=True):
        alone = RBFSVM(C=C, gamma=0.2, probability=False).fit(X, codes)
        np.testing.assert_allclose(found, alone._checked_scores(new), atol=1e-6)
    other = kernel_path(X, codes, new, 0.4, STRENGTHS)[-1]
    assert np.abs(other - found).max() > 0.01
