r"""From a corpus, or two, to links: texts read, copies taken out, pairs weighed, a list made.

Beside style vectors stand sketches of n-grams, :math:`s(t) = V_D^\top g(t)`: *g* is the row of
character and word n-grams of a text in which all but the commonest words are masked
(:mod:`whowrote.features.counting`), habits of spelling, marks and small words, little of the topic.
:math:`V_D` are the leading right singular vectors of the rows of some texts. They know of no
account: axes on which each account has its own would make its halves more alike than two accounts
of one person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whowrote import checks
from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.corpus.texts import Corpus
from whowrote.distributed import HERE, Machines
from whowrote.errors import InputError
from whowrote.features.counting import FittedNGrams, word_runs
from whowrote.features.fitted_features import excerpts
from whowrote.features.ngrams import NGrams
from whowrote.features.streaming import Choice
from whowrote.linking.accounts import MOST_EXACT, Accounts
from whowrote.linking.discovery import Found, find_links
from whowrote.linking.linked import Link, Links, group_numbers, groups_of
from whowrote.progress import tell

STYLE, NGRAMS = "style vectors", "masked n-grams"
FEWEST_WORDS = 100
"""Accounts of fewer words are left out."""
MOST_COPIES = 100
DIMENSIONS = 200
MOST_TEXTS, MOST_COLUMNS = 3000, (8_000, 4_000)
"""Texts that are learnt from; n-grams of characters and of words that count."""
BLOCK = 1000
LN10 = float(np.log(10.0))


@dataclass(frozen=True)
class _Texts:
    """All texts that are compared: of which account each is, and what was left out."""

    corpus: Corpus
    accounts: Accounts
    owner: IntArray
    copies: Copies
    names: tuple[str, ...]
    left_out: tuple[str, ...]


def link(
    corpus: Corpus,
    against: Corpus | None = None,
    *,
    features: str = "adhominem",
    size: str = "small",
    device: str | None = None,
    budget: int = 200,
    fdr: float = 0.05,
    expected: float | None = None,
    fewest_words: int = FEWEST_WORDS,
    exact: bool = False,
    random_state: int = 0,
    machines: Machines = HERE,
) -> Links:
    """Which accounts belong to one person; with ``against``, which of one platform and another.

    ``features`` is "adhominem" or "style" (of that ``size``). ``budget`` pairs are listed for
    review, and those reported at a false-discovery rate of ``fdr``. ``expected`` is how many links
    there are supposed to be; None means the likeliest number. ``exact`` compares all pairs however
    many there are. Texts are read by ``machines``.
    """
    _check(budget, fdr, expected, fewest_words, random_state)
    names, parts = _named(corpus, against)
    texts = _read(names, Corpus.join(parts), [len(part) for part in parts], fewest_words)
    views = {
        STYLE: _vectors(Choice(features, device=device, size=size), _texts_of(texts), machines),
        NGRAMS: sketches(texts.corpus.texts, random_state, machines),
    }
    accounts = replace(texts.accounts, views={k: np.asarray(v) for k, v in views.items()})
    most = len(accounts) if exact else MOST_EXACT
    found = find_links(accounts, expected=expected, most_exact=most, random_state=random_state)
    settings = {
        **{"features": features, "size": size if features == "style" else None, "fdr": fdr},
        **{"budget": budget, "expected": expected, "fewest_words": fewest_words},
        "random_state": random_state,
    }
    return _links(texts, accounts, found, settings, len(parts) > 1)


def _check(
    budget: int, fdr: float, expected: float | None, fewest_words: int, random_state: int
) -> None:
    checks.at_least("budget", budget, 1, integer=True)
    checks.fraction("fdr", fdr)
    if expected is not None:
        checks.above_zero("expected", expected)
    checks.at_least("fewest_words", fewest_words, 1, integer=True)
    checks.at_least("random_state", random_state, 0, integer=True)


def _texts_of(texts: _Texts) -> list[str]:
    return excerpts(texts.corpus.texts)


def _named(
    corpus: Corpus, against: Corpus | None
) -> tuple[list[tuple[int, str, str]], list[Corpus]]:
    """Platform, account and shown name of each text; those without an account are left out."""
    parts = [part.labelled() for part in (corpus, *(() if against is None else (against,)))]
    for part in parts:
        if len(part.author_names) < 2:
            raise InputError(
                f"the corpus has {len(part.author_names)} accounts; linking needs at least two: "
                "name the column of accounts with author_column (--author-column)"
            )
    mark = ("", "") if against is None else ("1: ", "2: ")
    rows = [
        (number, str(author), mark[number] + str(author))
        for number, part in enumerate(parts)
        for author in part.authors
    ]
    return rows, parts


def _read(
    rows: Sequence[tuple[int, str, str]], corpus: Corpus, sizes: Sequence[int], fewest: int
) -> _Texts:
    """Accounts with enough words of their own; copied texts are not their own."""
    shown = np.array([name for _, _, name in rows])
    names, owner = np.unique(shown, return_inverse=True)
    copies = find_copies(corpus.texts, owner)
    words = np.array(corpus.word_counts)
    own = np.bincount(owner, np.where(copies.copied, 0, words), len(names))
    kept = np.flatnonzero(~copies.copied & (own[owner] >= fewest))
    platform = np.repeat(np.arange(len(sizes)), sizes)[kept]
    # Accounts of the first platform come first, each platform in the order of names.
    known, account = np.unique(owner[kept] + platform * len(names), return_inverse=True)
    known = known % len(names)
    if len(known) < 2:
        raise InputError(
            f"{len(known)} of {len(names)} accounts have {fewest} words that are not copied; "
            "linking needs at least two: add texts, or lower fewest_words (--min-words)"
        )
    groups = np.unique(np.array(corpus.groups)[kept], return_inverse=True)[1]
    first = np.unique(account, return_index=True)[1]
    accounts = Accounts(
        tuple(names[known].tolist()), account, words[kept], {}, groups, platform[first]
    )
    left = np.setdiff1d(np.arange(len(names)), known)
    return _Texts(
        corpus.subset(kept.tolist()),
        accounts,
        owner,
        copies,
        tuple(names.tolist()),
        tuple(names[left].tolist()),
    )


def _links(
    texts: _Texts, accounts: Accounts, found: Found, settings: Mapping[str, Any], across: bool
) -> Links:
    budget, fdr = settings["budget"], settings["fdr"]
    reported = found.reported(fdr)
    shown = min(len(found.pairs), max(budget, reported))
    listed = _list(texts, accounts, found, shown, reported)
    copies = tuple(
        (texts.names[a], texts.names[b], int(times))
        for a, b, times in texts.copies.pairs[:MOST_COPIES].tolist()
    )
    return Links(
        links=listed,
        groups=groups_of(listed),
        reported=reported,
        fdr=fdr,
        budget=budget,
        expected_in_budget=float(found.probabilities[:budget].sum()),
        expected_links=found.prior.links,
        prior_given=found.prior.given,
        pairs=found.prior.pairs,
        accounts=len(accounts),
        texts=len(texts.corpus),
        population=_population(accounts, found, across),
        ratio=found.ratio.to_dict() | {"most_log10": found.ratio.most / LN10},
        search={
            **{"candidates": len(found.pairs), "neighbours_found": found.recall},
            "probable_links_kept": found.kept,
        },
        copied_texts=int(texts.copies.copied.sum()),
        copies=copies,
        left_out=texts.left_out,
        warnings=tuple(_warnings(texts, across)),
        settings=dict(settings),
    )


def _population(accounts: Accounts, found: Found, across: bool) -> str:
    where = "two platforms" if across else "this corpus"
    return (
        f"the {len(accounts):,} accounts of {where}; the ratio was learnt from "
        f"{found.ratio.accounts:,} of them, each cut in two, and {found.ratio.pairs:,} pairs of "
        "halves of different accounts"
    )


def _warnings(texts: _Texts, across: bool) -> list[str]:
    found = []
    if across:
        found.append(
            "the ratio was learnt inside each platform; people write less alike on two, so across "
            "them it is too large"
        )
    if len(set(texts.corpus.groups)) == len(texts.corpus):
        found.append(
            "texts carry no group (a thread, a topic, a day), so halves of an account may share "
            "topics that two accounts of one person would not: ratios may be too large; name one "
            "with --group-column"
        )
    return found


def _list(
    texts: _Texts, accounts: Accounts, found: Found, shown: int, reported: int
) -> tuple[Link, ...]:
    """The first pairs as records."""
    names, number, words = accounts.names, accounts.texts(), accounts.total_words()
    pairs = found.pairs[:shown].tolist()
    groups = group_numbers((names[a], names[b]) for a, b in pairs[:reported])
    interval = found.ratio.interval(found.standings[:shown]) / LN10
    rates, views = found.rates(), list(accounts.views)
    code = {name: place for place, name in enumerate(texts.names)}
    shared = {(int(a), int(b)): int(times) for a, b, times in texts.copies.pairs}
    alike = _Alike(texts, accounts)
    listed = []
    for row, (a, b) in enumerate(pairs):
        same = (code[names[a]], code[names[b]])
        listed.append(
            Link(
                rank=row + 1,
                first=names[a],
                second=names[b],
                log10_lr=float(found.log_lr[row]) / LN10,
                low=float(interval[row, 0]),
                high=float(interval[row, 1]),
                limited=bool(found.log_lr[row] >= found.ratio.most),
                probability=float(found.probabilities[row]),
                false_discovery_rate=float(rates[row]),
                reported=row < reported,
                group=groups.get(names[a]) if row < reported else None,
                standings=dict(zip(views, found.standings[row].tolist(), strict=True)),
                cosines=dict(zip(views, found.cosines[row].tolist(), strict=True)),
                texts=(int(number[a]), int(number[b])),
                words=(int(words[a]), int(words[b])),
                shared_runs=shared.get((min(same), max(same)), 0),
                alike=alike.of(a, b),
            )
        )
    return tuple(listed)


class _Alike:
    """The two texts of a pair of accounts with the most alike style vectors."""

    def __init__(self, texts: _Texts, accounts: Accounts) -> None:
        self.ids = texts.corpus.ids
        self.rows = np.asarray(accounts.views[STYLE], dtype=np.float32)
        order = np.argsort(accounts.owner, kind="stable")
        self.own = np.split(order, np.cumsum(accounts.texts())[:-1])
        self.centre: FloatArray = self.rows.mean(axis=0)

    def of(self, first: int, second: int) -> tuple[str, str]:
        """Their ids."""
        left, right = (self._unit(self.own[one]) for one in (first, second))
        i, j = np.unravel_index(int((left @ right.T).argmax()), (len(left), len(right)))
        return self.ids[int(self.own[first][i])], self.ids[int(self.own[second][j])]

    def _unit(self, rows: IntArray) -> FloatArray:
        found = self.rows[rows] - self.centre
        return np.asarray(found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12))


# -- sketches -----------------------------------------------------------------------------------


def sketches(texts: Sequence[str], seed: int = 0, machines: Machines = HERE) -> NDArray[np.float32]:
    """(texts, columns): a sketch of every text."""
    from sklearn.utils.extmath import randomized_svd  # late: loads scikit-learn

    random = np.random.default_rng([seed, 31])
    some = np.sort(random.permutation(len(texts))[:MOST_TEXTS])
    ngrams = NGrams(readings=("masked",), max_features=MOST_COLUMNS)
    known = ngrams.fit_transform([texts[row] for row in some])
    size = min(DIMENSIONS, min(known.shape) - 1)
    axes = randomized_svd(known, size, n_iter=2, random_state=seed)[2].T
    return _by_block(_sketch, (ngrams.fitted(), axes), texts, machines, "sketching n-grams")


def _sketch(learnt: tuple[FittedNGrams, FloatArray], texts: Sequence[str]) -> NDArray[np.float32]:
    ngrams, axes = learnt
    return np.asarray(ngrams.transform(texts) @ axes, dtype=np.float32)


def _vectors(choice: Choice, texts: Sequence[str], machines: Machines) -> NDArray[np.float32]:
    return _by_block(_embed, choice, texts, machines, "reading texts")


def _embed(choice: Choice, texts: Sequence[str]) -> NDArray[np.float32]:
    return np.asarray(choice.make().transform(texts), dtype=np.float32)


def _by_block(
    function: Any, shared: Any, texts: Sequence[str], machines: Machines, name: str
) -> NDArray[np.float32]:
    """Rows of all texts, made block by block."""
    blocks = [texts[low : low + BLOCK] for low in range(0, len(texts), BLOCK)]
    found: dict[int, NDArray[np.float32]] = {}
    done = 0
    for number, rows in machines.map(function, shared, blocks):
        found[number], done = rows, done + len(rows)
        tell(name, done, len(texts))
    return np.concatenate([found[number] for number in range(len(blocks))])


# -- copied texts -------------------------------------------------------------------------------

RUN, MOST_SHARED = 8, 0.3
"""Words of a run, and the share of a text's runs from which on it counts as copied."""
FEWEST_RUNS = 5
"""Fewer shared runs are proverbs and titles."""


@dataclass(frozen=True)
class Copies:
    """Which texts are copied, and how many runs of words each pair of accounts has in common."""

    copied: BoolArray
    pairs: IntArray
    """(pairs, 3): two accounts and their shared runs, most first."""


def find_copies(texts: Sequence[str], owner: IntArray) -> Copies:
    """Texts that stand, by and large, in another account as well."""
    runs = []
    for number, text in enumerate(texts):
        runs.append(np.unique(word_runs(text, RUN)))
        if number % 1000 == 0:
            tell("looking for copies", number, len(texts))
    lengths = np.array([len(own) for own in runs])
    document = np.repeat(np.arange(len(texts)), lengths)
    keys, key = np.unique(np.concatenate(runs), return_inverse=True)
    # The accounts of a run: each once, in order of runs.
    held = np.unique(np.stack([key, owner[document]], axis=1), axis=0)
    holders = np.bincount(held[:, 0], minlength=len(keys))
    shared = np.bincount(document, holders[key] > 1, minlength=len(texts))
    tell("looking for copies", len(texts), len(texts))
    copied = (shared >= FEWEST_RUNS) & (shared > MOST_SHARED * lengths)
    return Copies(copied, _pairs(held[holders[held[:, 0]] == 2][:, 1].reshape(-1, 2)))


def _pairs(accounts: IntArray) -> IntArray:
    """Pairs of accounts by the runs that they alone share, from so many on."""
    found, times = np.unique(np.sort(accounts, axis=1), axis=0, return_counts=True)
    table = np.column_stack([found, times])[times >= FEWEST_RUNS]
    return np.asarray(table[np.argsort(-table[:, 2], kind="stable")])
