"""Nearest neighbours: exact ones are, and a graph says how many it missed."""

import sys

import numpy as np
import pytest

from whowrote.errors import InputError
from whowrote.linking import accounts as module
from whowrote.linking.accounts import exact_neighbours, neighbours


def rows(n: int, size: int = 16) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    found = np.random.default_rng(5).standard_normal((n, size)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_exact_neighbours_are_those_of_a_full_sort_and_never_oneself() -> None:
    X = rows(1500)
    found = neighbours(X, X, 7, same=True)
    products = X @ X.T
    np.fill_diagonal(products, -np.inf)
    assert (found.ids == np.argsort(-products, axis=1)[:, :7]).mean() > 0.999  # but for ties
    assert not (found.ids == np.arange(1500)[:, None]).any()
    assert found.recall == 1.0


def test_a_graph_finds_nearly_all_and_says_how_many() -> None:
    X = rows(2000)
    found = neighbours(X, X, 7, same=True, most_exact=100)
    truth = exact_neighbours(X, X, 7, np.arange(2000))
    hits = [len(np.intersect1d(a, b)) for a, b in zip(found.ids, truth.ids, strict=True)]
    assert found.recall >= 0.98
    assert np.mean(hits) / 7 == pytest.approx(found.recall, abs=0.02)
    assert not (found.ids == np.arange(2000)[:, None]).any()
    assert (np.abs(found.cosines[:, 0] - truth.cosines[:, 0]) < 0.2).mean() >= 0.98


def test_a_graph_that_misses_too_many_gives_way_to_exact_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LEAST_RECALL", 1.1)  # more than there is
    X = rows(400)
    found = neighbours(X, X, 5, same=True, most_exact=100)
    assert (found.ids == exact_neighbours(X, X, 5, np.arange(400)).ids).all()


def test_without_voyager_a_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "voyager", None)
    with pytest.raises(InputError, match=r"voyager, which is not installed: pip install"):
        neighbours(rows(300), rows(300), 5, same=True, most_exact=100)
