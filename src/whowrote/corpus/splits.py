r"""Which texts train, which choose, which are reported: made once, disjoint, and hashed.

For every author *a* with :math:`n_a` texts and every fold *f* of *k*,

.. math:: \lfloor n_a / k \rfloor \le |\text{held out}_f \cap a| \le \lceil n_a / k \rceil,

and the held-out part falls into a development and a test half that differ by at most one text of
each author. Texts of one group (passages of one address, replies to one letter) never lie on two
sides. A training part has a fixed order inside each author, so that its fractions are nested: the
first 20 % lie inside the first 40 %. The SHA-256 of a split says who lies where and nothing else;
it goes into every result, so that two results with one hash were measured on the same texts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from whowrote.arrays import BoolArray, IntArray
from whowrote.checks import seed
from whowrote.errors import InputError


@dataclass(frozen=True)
class Split:
    """Row numbers of the parts of one fold, each sorted, together every row exactly once."""

    train: tuple[int, ...]
    development: tuple[int, ...]
    test: tuple[int, ...]
    unused: tuple[int, ...] = ()
    """Training rows that a smaller ``fraction`` leaves out."""
    ids: tuple[Hashable, ...] | None = field(default=None, repr=False)
    """Names of the rows for the hash; the row numbers where none are given."""
    quantiles: tuple[float, ...] = field(default=(), repr=False)
    """The place of each training row in its author's order, in [0, 1)."""

    @property
    def held_out(self) -> tuple[int, ...]:
        """Development and test rows together."""
        return tuple(sorted(self.development + self.test))

    @property
    def hash(self) -> str:
        """SHA-256 over the names in each part: no seed, no order, no texts."""
        parts = {
            "train": self.train,
            "development": self.development,
            "test": self.test,
            "unused": self.unused,
        }
        names = {part: sorted(self._name(row) for row in rows) for part, rows in parts.items()}
        return hashlib.sha256(json.dumps(names, sort_keys=True).encode()).hexdigest()

    def fraction(self, share: float) -> Split:
        """Keep the first ``share`` of each author's training texts, and one at the least.

        >>> split = folds(["ann"] * 50 + ["bob"] * 50)[0]
        >>> len(split.train), len(split.fraction(0.2).train), len(split.fraction(0.2).unused)
        (80, 16, 64)
        >>> set(split.fraction(0.2).train) <= set(split.fraction(0.4).train)
        True
        """
        if not 0.0 < share <= 1.0:
            raise InputError(
                f"share is {share!r}; a fraction of the training texts must be above 0 and at most "
                "1: give 0.2 for 20 %"
            )
        kept = [place for place, quantile in enumerate(self.quantiles) if quantile <= share]
        left = set(range(len(self.train))) - set(kept)
        return replace(
            self,
            train=tuple(self.train[place] for place in kept),
            quantiles=tuple(self.quantiles[place] for place in kept),
            unused=tuple(sorted(self.unused + tuple(self.train[place] for place in left))),
        )

    def _name(self, row: int) -> str:
        return str(row if self.ids is None else self.ids[row])


def folds(
    authors: Iterable[Hashable],
    groups: Iterable[Hashable] | None = None,
    *,
    ids: Sequence[Hashable] | None = None,
    n_folds: int = 5,
    random_state: int = 0,
) -> tuple[Split, ...]:
    """Cut texts into ``n_folds`` splits; every text is held out in exactly one of them.

    Where every text stands alone, the held-out parts are those of scikit-learn's shuffled
    ``StratifiedKFold``, so that figures measured there and here compare fold by fold. Otherwise
    each group goes whole to the fold with the fewest texts of its authors so far, large ones first.

    >>> first = folds(["ann", "bob"] * 10, n_folds=5, random_state=0)[0]
    >>> len(first.train), len(first.development), len(first.test)
    (16, 2, 2)
    """
    seed("random_state", random_state)
    names = _checked_authors(authors)
    codes = _codes(names)
    units = _units(groups, len(names))
    _check_ids(ids, len(names))
    alone = len(np.unique(units)) == len(units)
    _check_counts(names, codes, units, n_folds, what="texts" if alone else "groups of texts")
    rng = np.random.default_rng(random_state)
    held = _stratified(codes, n_folds, random_state) if alone else deal(codes, units, n_folds, rng)
    _check_training(names, codes, held, n_folds)
    return tuple(_split(codes, units, held == fold, ids, rng) for fold in range(n_folds))


def combined_hash(splits: Iterable[Split]) -> str:
    """One SHA-256 for a whole cross-validation, whatever the order of its folds."""
    return hashlib.sha256("\n".join(sorted(split.hash for split in splits)).encode()).hexdigest()


def _split(
    codes: IntArray,
    units: IntArray,
    held: BoolArray,
    ids: Sequence[Hashable] | None,
    rng: np.random.Generator,
) -> Split:
    train, rest = np.flatnonzero(~held), np.flatnonzero(held)
    half = deal(codes[rest], units[rest], 2, rng)
    return Split(
        train=tuple(train.tolist()),
        development=tuple(rest[half == 0].tolist()),
        test=tuple(rest[half == 1].tolist()),
        ids=None if ids is None else tuple(ids),
        quantiles=tuple(_quantiles(codes[train], rng).tolist()),
    )


def _stratified(codes: IntArray, n_folds: int, random_state: int) -> IntArray:
    from sklearn.model_selection import StratifiedKFold  # late: answers need none

    held = np.empty(len(codes), dtype=np.intp)
    folder = StratifiedKFold(n_folds, shuffle=True, random_state=random_state)
    for fold, (_, test) in enumerate(folder.split(codes, codes)):
        held[test] = fold
    return held


def deal(codes: IntArray, units: IntArray, n_bins: int, rng: np.random.Generator) -> IntArray:
    """Deal whole units to bins so that each author's texts spread evenly; ties go to the emptiest.

    The cost of a bin is what the unit adds to the sum over authors of squared counts. Large units
    come first, and those of one author together, so that odd texts of authors even out.
    """
    n_authors = int(codes.max()) + 1
    turn, names = rng.permutation(n_authors), rng.permutation(n_bins)
    members = _members(units)
    rng.shuffle(members)
    members.sort(key=lambda rows: (-len(rows), turn[codes[rows[0]]]))
    load = np.zeros((n_bins, n_authors))
    total = np.zeros(n_bins)
    bins = np.empty(len(codes), dtype=np.intp)
    for rows in members:
        present, counts = np.unique(codes[rows], return_counts=True)
        cost = (2 * load[:, present] + counts) @ counts
        chosen = np.lexsort((total, cost))[0]
        load[chosen, present] += counts
        total[chosen] += len(rows)
        bins[rows] = names[chosen]
    return bins


def _members(units: IntArray) -> list[IntArray]:
    """Rows of each unit, in the order of the units' first rows."""
    order = np.argsort(units, kind="stable")
    edges = np.flatnonzero(np.diff(units[order])) + 1
    return [rows for rows in np.split(order, edges) if len(rows)]


def _quantiles(codes: IntArray, rng: np.random.Generator) -> NDArray[np.float64]:
    """Row *i* of *n* in an author's random order gets (i + 1/2)/n, but the first 0."""
    quantiles = np.empty(len(codes))
    for members in _members(codes):
        rows = rng.permutation(members)
        quantiles[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
        quantiles[rows[0]] = 0.0
    return quantiles


def _codes(names: Sequence[Hashable]) -> IntArray:
    """Number names by first appearance."""
    seen: dict[Hashable, int] = {}
    return np.array([seen.setdefault(name, len(seen)) for name in names], dtype=np.intp)


def _checked_authors(authors: Iterable[Hashable]) -> list[Hashable]:
    names = list(authors)
    if not names:
        raise InputError("authors is empty; a split needs at least two authors: give one per text")
    unknown = [row for row, name in enumerate(names) if name is None]
    if unknown:
        raise InputError(
            f"authors[{unknown[0]}] is None ({len(unknown)} of {len(names)} texts); a split needs "
            "the author of every text: leave out the texts of unknown authorship"
        )
    if len(set(names)) < 2:
        raise InputError(
            f"authors has one author only, {names[0]!r}; attribution needs at least two: add texts "
            "by someone else"
        )
    return names


def _units(groups: Iterable[Hashable] | None, n_texts: int) -> IntArray:
    if groups is None:
        return np.arange(n_texts)
    names = list(groups)
    if len(names) != n_texts:
        raise InputError(
            f"groups has {len(names)} entries for {n_texts} texts; there must be one per text: "
            "give None for a text that stands alone"
        )
    return _codes(
        [("alone", row) if name is None else ("group", name) for row, name in enumerate(names)]
    )


def _check_ids(ids: Sequence[Hashable] | None, n_texts: int) -> None:
    if ids is None:
        return
    if len(ids) != n_texts:
        raise InputError(
            f"ids has {len(ids)} entries for {n_texts} texts; there must be one per text: "
            "leave ids out to number the texts"
        )
    names = {str(name) for name in ids}
    if len(names) != n_texts:
        raise InputError(
            f"ids has {len(names)} different names for {n_texts} texts; a text may lie in one part "
            "only: make the ids unique"
        )


def _check_counts(
    names: Sequence[Hashable], codes: IntArray, units: IntArray, n_folds: int, *, what: str
) -> None:
    if isinstance(n_folds, bool) or not isinstance(n_folds, int | np.integer) or n_folds < 2:
        raise InputError(f"n_folds is {n_folds!r}; it must be a whole number of at least 2: give 5")
    pairs = np.unique(np.column_stack([codes, units]), axis=0)
    counts = np.bincount(pairs[:, 0])
    if counts.min() < n_folds:
        scarce = int(counts.argmin())
        name = names[int(np.flatnonzero(codes == scarce)[0])]
        raise InputError(
            f"author {name!r} has {counts.min()} {what}; {n_folds} folds need at least {n_folds} "
            "from each author (copies of one text are one): add texts, leave the author out or set "
            f"n_folds to {max(2, int(counts.min()))}"
        )


def _check_training(
    names: Sequence[Hashable], codes: IntArray, held: IntArray, n_folds: int
) -> None:
    for fold in range(n_folds):
        missing = np.setdiff1d(codes, codes[held != fold])
        if len(missing):
            name = names[int(np.flatnonzero(codes == missing[0])[0])]
            raise InputError(
                f"author {name!r} has no training text in fold {fold + 1} of {n_folds}; every "
                "author must be on the training side: use fewer folds or smaller groups"
            )


def usual_groups(codes: IntArray, groups: IntArray) -> int:
    """How many groups of rows an author has, in the median.

    >>> usual_groups(np.array([0, 0, 1, 1, 1]), np.array([0, 0, 1, 2, 3]))
    2
    """
    each = [len(np.unique(groups[codes == k])) for k in range(int(codes.max()) + 1)]
    return int(np.median(each))


def spread(codes: IntArray, groups: IntArray, n_folds: int, seed: int) -> IntArray:
    """A fold for every row: groups stay whole if they can, every author is in two folds at least.

    The rows of an author who would be in one fold only are dealt one by one: there is nothing else
    to hold out from them.

    >>> folds = spread(np.array([0, 0, 1, 1]), np.array([0, 1, 2, 2]), 2, 0)
    >>> sorted(folds[:2].tolist()), sorted(folds[2:].tolist())
    ([0, 1], [0, 1])
    """
    folds = deal(codes, groups, n_folds, np.random.default_rng(seed))
    lone = [k for k in range(int(codes.max()) + 1) if len(np.unique(folds[codes == k])) < 2]
    if not lone:
        return folds
    rows = np.flatnonzero(np.isin(codes, lone))
    units = groups.copy()
    units[rows] = int(groups.max()) + 1 + np.arange(len(rows))
    return deal(codes, units, n_folds, np.random.default_rng(seed))


def finer(folds: IntArray, codes: IntArray, groups: IntArray, seed: int) -> IntArray:
    """Two folds of each, groups whole where they were: what a coarse fold leaves out, both do.

    >>> finer(np.array([0, 0, 1]), np.array([0, 0, 0]), np.array([0, 1, 2]), 0).tolist()
    [0, 1, 2]
    """
    halves = np.zeros_like(folds)
    for fold in np.unique(folds):
        rows = np.flatnonzero(folds == fold)
        halves[rows] = deal(codes[rows], groups[rows], 2, np.random.default_rng(seed))
    return np.asarray(np.unique(2 * folds + halves, return_inverse=True)[1])
