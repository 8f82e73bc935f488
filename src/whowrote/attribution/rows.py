r"""From texts to rows of numbers: passages, features, contrasts.

.. math:: \text{text} \to (\text{passage}_1, \dots, \text{passage}_m) \to X \to V

A long text is cut into passages, pieces of nearly equal length, between words; nothing is lost, and
a passage keeps the white space and the marks of its text: they are style. Sparse features become
contrasts, a few columns an author; dense ones are passed on as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from whowrote import checks
from whowrote.arrays import FloatArray, IntArray, per_text
from whowrote.attribution.contrasts import Contrasts, Known, ridge_contrasts
from whowrote.attribution.many_rows import contrasts_of_many
from whowrote.estimators.scaling import is_sparse
from whowrote.features.counting import COMMON, WORD
from whowrote.features.interface import FittedFeatures

NORMALISE = ("case", "punctuation", "quotes", "names")
"""What a text may be read without: capitals, marks, their typographic forms, proper names."""
WORDS = 300
"""Words of a passage: long enough to show a style, short enough that a text has several."""
LONG = 2000
"""A passage of so many words is learnt from in parts as well: shorter texts may be asked about."""
MOST_PARTS, PART_WORDS = 10, 600
"""So many parts at most, of so many words at least."""
MOST_PASSAGES = 40
"""Of one text: of a longer one, so many at equal distances are read."""
_WORD = re.compile(r"\S+")
_SIGNS = (
    ("[\u201c\u201d\u201e\u201f\u00ab\u00bb]", '"'),
    ("[\u2018\u2019\u201a\u201b\u2039\u203a`\u00b4]", "'"),
    (r"\s*(?:[\u2014\u2013]|--+)\s*", " - "),
    (r"\u2026|\.(?: ?\.){2,}", "..."),
    (r"[^\S\n]+", " "),
    (r" *\n\s*", "\n"),
)
"""Typographic forms, and the plain one of each."""
_MARKS = re.compile(r"(?<!\w)[^\w\s]+|[^\w\s]+(?!\w)|_+")
_NAME = re.compile(r"(?<=[\w,;:)] )[A-Z][\w'\u2019-]*")


def normalised(text: str, without: Sequence[str]) -> str:
    r"""A text without what is not style in some cases; as it is where nothing would be left.

    ``quotes`` writes typographic forms of quotes, dashes, ellipses and spaces in one plain way,
    ``names`` replaces capitalised words inside sentences but for the commonest, ``punctuation``
    leaves out all marks but those inside words, ``case`` all capitals.

    >>> normalised("\u201cWell\u201d \u2014 said  Ann of Kent \u2026", ["quotes", "names"])
    '"Well" - said Name of Name ...'
    >>> normalised("Don't stop, I said.", ["punctuation", "case"])
    "don't stop i said"
    """
    found = text
    if "quotes" in without:
        for pattern, plain in _SIGNS:
            found = re.sub(pattern, plain, found)
        found = found.strip()
    if "names" in without:
        found = _NAME.sub(_unnamed, found)
    if "punctuation" in without:
        found = re.sub(r"[^\S\n]+", " ", _MARKS.sub("", found))
    if "case" in without:
        found = found.lower()
    return found if found.strip() else text


def _unnamed(found: re.Match[str]) -> str:
    word = found.group()
    return word if word.lower().replace("\u2019", "'") in COMMON else "Name"


def check_normalise(without: Sequence[str]) -> None:
    """Whether each is something that a text may be read without."""
    for one in without:
        checks.one_of("normalise", one, NORMALISE)


def english_share(text: str) -> float:
    """The share of the words that are among the 300 commonest of English.

    Of running English it is above 0.3, of other languages below 0.15.

    >>> english_share("Where is the cat?"), english_share("Wo ist die Katze?")
    (0.75, 0.0)
    """
    words = [word.lower().replace("\u2019", "'") for word in WORD.findall(text)]
    return sum(word in COMMON for word in words) / max(1, len(words))


def cut(text: str, words: int = WORDS) -> list[str]:
    r"""Cut a text into passages of about ``words`` words, all within one word of equal length.

    >>> [len(passage.split()) for passage in cut("word " * 1000, 300)]
    [334, 333, 333]
    >>> "".join(cut("one  two\n three four", 2))
    'one  two\n three four'
    """
    starts = [match.start() for match in _WORD.finditer(text)]
    return _cut(text, starts, int(n_passages(len(starts), words)))


def n_passages(n_words: IntArray | int, words: int) -> IntArray:
    """How many passages texts of so many words are cut into.

    >>> n_passages(np.array([10, 450, 1000]), 300).tolist()
    [1, 2, 3]
    """
    return np.maximum(1, np.rint(np.asarray(n_words) / words)).astype(np.intp)


def _cut(text: str, starts: Sequence[int], pieces: int) -> list[str]:
    if pieces == 1:
        return [text]
    firsts = [int(part[0]) for part in np.array_split(np.array(starts), pieces)]
    bounds = [0, *firsts[1:], len(text)]
    return [text[low:high] for low, high in pairwise(bounds)]


@dataclass(frozen=True)
class Passages:
    """The passages of several texts: each with the number of its text."""

    texts: tuple[str, ...]
    document: NDArray[np.intp]

    @property
    def counts(self) -> NDArray[np.intp]:
        """How many passages each text has."""
        return np.bincount(self.document)


def cut_all(texts: Sequence[str], words: int = WORDS, most: int = MOST_PASSAGES) -> Passages:
    """Cut every text; of one with more than ``most`` passages, those at equal distances.

    >>> cut_all(["a b c d", "e"], 2).document.tolist()
    [0, 0, 1]
    """
    pieces = [_some(cut(text, words), most) for text in texts]
    document = np.repeat(np.arange(len(pieces)), [len(own) for own in pieces])
    return Passages(tuple(piece for own in pieces for piece in own), document)


def _some(pieces: Sequence[str], most: int) -> list[str]:
    kept = min(len(pieces), most)
    return [pieces[number * len(pieces) // kept] for number in range(kept)]


def parts_of_long(passages: Passages) -> Passages:
    """The parts of long passages, with the numbers of their texts.

    >>> [len(part.split()) for part in parts_of_long(cut_all(["word " * 2400], 9000)).texts]
    [600, 600, 600, 600]
    """
    texts: list[str] = []
    document: list[int] = []
    for text, number in zip(passages.texts, passages.document, strict=True):
        starts = [match.start() for match in _WORD.finditer(text)]
        if len(starts) >= LONG:
            own = _cut(text, starts, min(MOST_PARTS, len(starts) // PART_WORDS))
            texts += own
            document += [int(number)] * len(own)
    return Passages(tuple(texts), np.array(document, dtype=np.intp))


@dataclass(frozen=True)
class Read:
    """Texts as the model sees them: a row per passage, before (X) and after (V) the contrasts."""

    passages: Passages
    X: Any
    V: FloatArray


def mean_per_text(values: FloatArray, passages: Passages) -> FloatArray:
    """Means over the passages of each text."""
    return np.asarray(per_text(values, passages.document) / passages.counts[:, None])


@dataclass(frozen=True)
class Reader:
    """Fitted features and contrasts."""

    features: FittedFeatures
    contrasts: Contrasts | None
    words: int
    normalise: tuple[str, ...] = ()

    def read(self, texts: Sequence[str]) -> Read:
        """Rows of texts that were not learnt from."""
        passages = cut_all([normalised(text, self.normalise) for text in texts], self.words)
        X: Any = self.features.transform(passages.texts)
        if self.contrasts is not None:
            return Read(passages, X, self.contrasts.transform(X))
        return Read(passages, X, np.asarray(X, dtype=np.float64))


@dataclass(frozen=True)
class Learnt:
    """A reader, and the texts it learnt from: as they are, and as if they were new to it."""

    reader: Reader
    read: Read
    as_new: Read
    strangers: FloatArray | None = None
    """Contrasts of the passages by what knows nothing of their authors; own columns are NaN."""
    n_folds: int | None = None
    """Where new texts are answered by more texts than held-out ones were: by how many folds."""
    units: IntArray | None = None
    """What texts belong together; None where each stands alone."""


def learn_to_read(
    features: Any, passages: Passages, codes: IntArray, folds: IntArray, words: int
) -> Learnt:
    """Fit features and, for sparse ones, contrasts; ``codes`` and ``folds`` are by passage."""
    X: Any = features.fit_transform(passages.texts)
    fitted: FittedFeatures = features.fitted()
    if not is_sparse(X):
        read = Read(passages, X, np.asarray(X, float))
        return Learnt(Reader(fitted, None, words), read, read)
    as_new = features.as_new(X, passages.document)
    contrasts = Contrasts(fitted.views())
    V = contrasts.fit_transform(X, codes, folds, as_new)
    reader = Reader(fitted, contrasts, words)
    return Learnt(reader, Read(passages, X, V), Read(passages, as_new, V))


@dataclass(frozen=True)
class Labels:
    """Of each text: its author, its fold, the unit it belongs to and how many words it has."""

    codes: IntArray
    folds: IntArray
    units: IntArray
    words: IntArray


def learn_by_ridge(
    features: Any, passages: Passages, labels: Labels, words: int, many: bool = False
) -> Learnt:
    """Fit features and contrasts by ridge regression.

    One text of ``many`` changes neither the columns nor what is rare: as if new, rows are as they
    are, and it makes answers no surer. Of few, long passages are learnt from in parts as well.
    """
    extra = Passages((), np.array([], dtype=np.intp)) if many else parts_of_long(passages)
    m, document = len(passages.texts), np.concatenate([passages.document, extra.document])
    X: Any = features.fit_transform([*passages.texts, *extra.texts])
    fitted: FittedFeatures = features.fitted()
    codes, folds, units = (one[document] for one in (labels.codes, labels.folds, labels.units))
    if not is_sparse(X):
        X = np.asarray(X, float)
    as_new = as_stranger = X = X.astype(np.float32) if many else X
    if is_sparse(X) and not many:
        as_new, as_stranger = (features.as_new(X, own) for own in (units, codes))
    asked, usual = (
        np.arange(len(document)) < m,
        float(np.median(np.bincount(labels.units, labels.words))),
    )
    known = Known(X, as_new, as_stranger, codes, folds, document, asked, labels.units, usual)
    solve = contrasts_of_many if many else ridge_contrasts
    contrasts, found = solve(known, fitted.parts())
    own = found.held_out[:m]
    if many:
        read = new = Read(passages, _compared(X, fitted.blocks()), own)
    else:
        read, new = Read(passages, X[:m], own), Read(passages, as_new[:m], own)
    return Learnt(
        Reader(fitted, contrasts, words),
        read,
        new,
        found.strangers[:m],
        None if many else int(folds.max()) + 1,
        labels.units,
    )


def _compared(rows: Any, blocks: Mapping[str, slice]) -> Any:
    """Rows with nothing behind the columns of profiles: of many texts, the rest is not kept."""
    stop = max(own.indices(rows.shape[1])[1] for own in blocks.values())
    if not is_sparse(rows) or stop == rows.shape[1]:
        return rows
    kept = sparse.csr_matrix(rows[:, :stop])
    kept.resize(rows.shape)
    return kept
