"""Nearest neighbours: exact ones are, and a graph says how many it missed."""

import sys
from typing import Any

import numpy as np
import pytest

from planted_accounts import points
from whowrote.errors import InputError
from whowrote.linking import accounts as module
from whowrote.linking.accounts import Neighbours, Points, exact_neighbours, neighbours


def some(n: int, size: int = 16) -> Points:
    return points(n, 5, size=size)


def test_exact_neighbours_are_those_of_a_full_sort_and_never_oneself() -> None:
    X = some(1500)
    found = neighbours(X, X, 7, same=True)
    for values, near in ((X.alike(X), found.ratio), (X.cosines(X), found.cosine)):
        np.fill_diagonal(values, -np.inf)
        assert (near.ids == np.argsort(-values, axis=1)[:, :7]).mean() > 0.999  # but for ties
        np.testing.assert_allclose(near.values[:, 0], values.max(axis=1), rtol=1e-5, atol=1e-5)
        assert not (near.ids == np.arange(1500)[:, None]).any()
    assert (found.ratio.ids != found.cosine.ids).mean() > 0.2
    assert found.recall == 1.0


def test_a_graph_finds_nearly_all_and_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 32)  # so that the graph is built piece by piece
    monkeypatch.setattr(module, "WIDTHS", (100, 200))
    asked = list[int]()

    def watched(queries: Points, *more: Any) -> Neighbours:
        asked.append(len(queries))
        return exact_neighbours(queries, *more)

    monkeypatch.setattr(module, "exact_neighbours", watched)
    X = some(2000)
    found = neighbours(X, X, 7, same=True, most_exact=100)
    assert asked == [module.SAMPLE]  # not all of them: the graph was enough
    truth = exact_neighbours(X, X, 7, np.arange(2000))
    hits = [len(np.intersect1d(a, b)) for a, b in zip(found.ids, truth.ids, strict=True)]
    assert found.recall >= 0.98
    assert np.mean(hits) / 7 == pytest.approx(found.recall, abs=0.02)
    assert not (found.ids == np.arange(2000)[:, None]).any()
    near = np.abs(found.ratio.values[:, 0] - truth.ratio.values[:, 0]) < 0.2
    assert near.mean() >= 0.98


def test_the_graph_asks_in_much_the_order_of_the_ratio() -> None:
    """Accounts of two and of ten texts: what products alone would miss is few."""
    X = some(600)
    asked, rows = X.for_products()
    assert asked.flags.c_contiguous
    assert rows.flags.c_contiguous
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-5)
    wanted, surrogate = X.alike(X), asked @ rows.T
    np.fill_diagonal(wanted, -np.inf)
    np.fill_diagonal(surrogate, -np.inf)
    best, kept = np.argsort(-wanted, axis=1)[:, :7], np.argsort(-surrogate, axis=1)[:, :50]
    shuffled = np.random.default_rng(0).permuted(kept, axis=0)  # control
    share, chance = (
        np.mean([np.isin(a, b).mean() for a, b in zip(best, one, strict=True)])
        for one in (kept, shuffled)
    )
    assert share > 0.98
    assert chance < 0.3


def test_a_graph_that_misses_too_many_gives_way_to_exact_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LEAST_RECALL", 1.1)  # more than there is
    X = some(400)
    found = neighbours(X, X, 5, same=True, most_exact=100)
    assert (found.ids == exact_neighbours(X, X, 5, np.arange(400)).ids).all()


def test_without_voyager_a_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "voyager", None)
    with pytest.raises(InputError, match=r"voyager, which is not installed: pip install"):
        neighbours(some(300), some(300), 5, same=True, most_exact=100)
