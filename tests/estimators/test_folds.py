"""``fit(X, y, folds=...)``: the member of a fold's number never learns from that fold."""

from typing import Any

import numpy as np
import pytest
import torch

from whowrote import MixtureVAEClassifier
from whowrote.errors import InputError

MEMBERS = 4
CODES = np.arange(48) % 3
X = np.random.default_rng(0).normal(size=(3, 4))[CODES] + np.random.default_rng(1).normal(
    size=(48, 4)
)
FOLDS = np.arange(48) // 3 % MEMBERS  # 12 rows each: too few to stop early by


def fitted(
    y: Any = CODES, folds: Any = FOLDS, rows: Any = X, **settings: Any
) -> MixtureVAEClassifier:
    quick: dict[str, Any] = {"hidden": 6, "max_epochs": 3, "batch_size": 12, "learning_rate": 0.02}
    model = MixtureVAEClassifier(n_members=MEMBERS, random_state=0, **quick | settings)
    return model.fit(rows, y, folds=folds)


def parameters(model: MixtureVAEClassifier, member: int) -> np.ndarray:
    state = model.member(member).fleet_.state_dict()
    return torch.cat([value.flatten() for value in state.values()]).numpy()


def changed(one: MixtureVAEClassifier, other: MixtureVAEClassifier) -> list[bool]:
    """Which members differ."""
    return [
        not np.array_equal(parameters(one, member), parameters(other, member))
        for member in range(MEMBERS)
    ]


@pytest.fixture(scope="module")
def plain() -> MixtureVAEClassifier:
    return fitted()


@pytest.mark.parametrize("fold", range(MEMBERS))
def test_wrong_authors_in_a_fold_leave_its_member_alone(
    plain: MixtureVAEClassifier, fold: int
) -> None:
    y = CODES.copy()
    y[fold == FOLDS] = (y[fold == FOLDS] + 1) % 3
    assert changed(plain, fitted(y)) == [member != fold for member in range(MEMBERS)]


def test_so_do_wrong_rows(plain: MixtureVAEClassifier) -> None:
    """Rows of one fold swapped: the means and spreads of columns, which all share, stay."""
    rows = X.copy()
    own = np.flatnonzero(FOLDS == 1)
    rows[own] = X[np.roll(own, 1)]
    assert changed(plain, fitted(rows=rows)) == [True, False, True, True]


def test_without_folds_everybody_learns_from_everything() -> None:
    """Negative control: the same spoilt rows change every member."""
    y = CODES.copy()
    y[FOLDS == 1] = (y[FOLDS == 1] + 1) % 3
    assert changed(fitted(folds=None), fitted(y, folds=None)) == [True] * MEMBERS


def test_a_large_fold_is_what_its_member_stops_by() -> None:
    """From 20 rows on, a fold is watched: by a member's own history and by no other's."""
    big = np.tile(np.arange(MEMBERS), 24)
    codes = np.repeat(np.arange(3), 32)
    rows = np.random.default_rng(2).normal(size=(96, 4)) + codes[:, None]
    model = fitted(codes, big, rows)
    watched = {(record["member"], record["watched"] is not None) for record in model.history_}
    assert watched == {(member, True) for member in range(MEMBERS)}
    assert all(record["watched"] is None for record in fitted().history_)


@pytest.mark.parametrize("sizes", [(30, 10, 5, 3), (24, 24, 0, 0)])
def test_folds_may_differ_in_size_and_be_empty(sizes: tuple[int, ...]) -> None:
    folds = np.repeat(np.arange(MEMBERS), sizes)
    model = fitted(folds=folds)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    y = CODES.copy()
    y[folds == 1] = (y[folds == 1] + 1) % 3
    if sizes[1] < 20:
        assert not changed(model, fitted(y, folds))[1]


def test_held_out_answers_are_humbler() -> None:
    """On pure noise a member is surer of what it learnt than of its own fold."""
    rng = np.random.default_rng(0)
    noise, codes = rng.normal(size=(48, 30)), rng.permutation(CODES)
    folds = np.empty(48, dtype=int)
    for code in range(3):
        folds[codes == code] = np.arange(16) % MEMBERS
    model = fitted(codes, folds, noise, start="random", max_epochs=40, dropout=0.0)
    seen, held_out = [], []
    for member in range(MEMBERS):
        own = model.member(member).predict_proba(noise)[np.arange(48), codes]
        held_out += own[folds == member].tolist()
        seen += own[folds != member].tolist()
    assert np.mean(seen) > 0.6
    assert np.mean(held_out) < 0.45


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        (FOLDS[:-1], r"folds has the shape \(47,\).*one whole number for each of 48 rows"),
        (FOLDS[:, None], r"folds has the shape \(48, 1\).*one whole number"),
        (FOLDS / 1.0, r"type float64; it must be one whole number"),
        ([str(fold) for fold in FOLDS], r"it must be one whole number"),
        (FOLDS + 1, r"folds has numbers from 1 to 4.*n_members=4.*number them from 0 to 3"),
        (FOLDS - 1, r"folds has numbers from -1 to 2.*number them from 0 to 3"),
        (np.where(CODES == 2, 3, FOLDS % 3), r"class number 2 are in fold 3.*spread the rows"),
    ],
)
def test_errors(folds: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted(folds=folds)


def test_unsigned_and_plain_lists_will_do(plain: MixtureVAEClassifier) -> None:
    for folds in (FOLDS.astype(np.uint8), FOLDS.tolist()):
        assert changed(plain, fitted(folds=folds)) == [False] * MEMBERS


def test_unlabelled_rows_and_folds_do_not_go_together() -> None:
    y = CODES.copy()
    y[36:] = -1
    with pytest.raises(InputError, match="folds are given and some labels are missing"):
        fitted(y)
