r"""How much likelier is the likeness of two texts if one person wrote both? A likelihood ratio.

.. math:: \tilde x = x - r(n)\, \tfrac{m}{m + 1/2}\, \bar x, \qquad
    r(n) = \sqrt{n / (n + 40)}

*x* is the mean style vector of a side of *n* words, :math:`\bar x` that of *m* reference authors:
what everybody writes who writes of such things in such a place is no sign of one person, and a side
shows the share *r* of it. What the vectors of two sides so centred say is in
:mod:`whowrote.attribution.population`, and which of its curves are like the reference authors' own
domain their own texts tell, two parts of each. Features without a packaged curve have one of their
enrolled authors alone, shrunk by their number.

The ratio shrinks to 1 where it has no ground: where domains do not agree, in proportion to the
words of the shorter side below 35, and to :math:`1 + p` at most where *p* people have shown texts
so long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from whowrote.arrays import BoolArray, FloatArray, IntArray
from whowrote.attribution.answers import Comparison, Reference, words_of
from whowrote.attribution.population import (
    PRETRAINED,
    VECTORS,
    KnownPairs,
    Population,
    Sides,
    extractor_key,
    extractor_of,
    figures,
    packaged,
    read_by_extractor,
    shown,
)
from whowrote.attribution.profiles import mean_rows
from whowrote.attribution.rows import cut, cut_all, english_share
from whowrote.errors import InputError
from whowrote.features.fitted_features import FittedAdHominem, FittedStyle
from whowrote.features.interface import FEW_TOKENS, FittedFeatures
from whowrote.features.reading import SECTION
from whowrote.features.vocabulary import split
from whowrote.metrics import AuthorPairs, auc, matched_pairs
from whowrote.ratios import ridge_logistic

LEAST_ENGLISH = 0.2
"""Share of the commonest English words below which a text is hardly English."""
FULL_GROUND = 35
"""Words of the shorter side from which the ratio counts in full."""
PRIOR_AUTHORS = 10.0
"""So many enrolled authors weigh as much as a ratio of 1 where there is no packaged curve."""
PRIOR_CENTRE = 0.5
"""So many authors at the origin weigh as much: domains lie farther out than their authors do."""
MOST_AUTHORS, MOST_NOTES, MOST_TEXTS, MOST_PASSAGES, OTHERS = 60, 30, 6, 2, 8
"""Enrolled authors that are read; texts of each for the centre; texts for a curve; passages of
either part; others with whom each is compared."""
DRAWS, CONFIDENCE = 50, 0.95


# -- sides --------------------------------------------------------------------------------------


def read_by_features(features: FittedFeatures, texts: Sequence[str]) -> Sides:
    """Mean rows of passages, block by block."""
    passages = cut_all(texts)
    rows = sparse.csr_matrix(
        mean_rows(passages, sparse.csr_matrix(features.transform(passages.texts)))
    )
    return Sides({name: rows[:, own] for name, own in features.blocks().items()}, words_of(texts))


def joined(texts: str | Sequence[str]) -> str:
    """One side of a comparison: a text, or all known texts of one person one after another."""
    return texts if isinstance(texts, str) else "\n\n".join(texts)


# -- what enrolled authors add -------------------------------------------------------------------


def author_vectors(vectors: FloatArray, words: IntArray, codes: IntArray) -> FloatArray:
    r"""(authors, columns): :math:`\sum_i r_i x_i / \sum_i r_i^2` over the rows of each."""
    share = shown(words)
    number, each = np.unique(codes, return_inverse=True)
    total = np.zeros((len(number), vectors.shape[1]))
    np.add.at(total, each, share[:, None] * vectors)
    return np.asarray(total / np.bincount(each, share**2)[:, None])


@dataclass(frozen=True)
class Centre:
    """The mean style vector of enrolled authors, each counting alike, and what they tell."""

    authors: int
    vector: tuple[float, ...]
    weights: tuple[float, ...] = ()
    """Of the population's draws, after these authors' own pairs."""
    population: str = ""
    """The key of that population: the draws of another one are not those that were weighed."""

    @classmethod
    def learn(cls, vectors: FloatArray, words: IntArray, codes: IntArray) -> Self:
        """From rows of texts: the mean over authors."""
        return cls.about(author_vectors(vectors, words, codes))

    @classmethod
    def about(cls, vectors: FloatArray) -> Self:
        """From a vector of each author."""
        return cls(len(vectors), tuple(float(f"{one:.5g}") for one in vectors.mean(axis=0)))

    def applied(self, sides: Sides) -> Sides:
        """Sides without what the authors share, as far as so many of them can tell."""
        centre = self.authors / (self.authors + PRIOR_CENTRE) * np.array(self.vector)
        rows = sides.rows[VECTORS] - shown(sides.words)[:, None] * centre
        return Sides({VECTORS: rows}, sides.words)

    def weights_of(self, population: Population) -> FloatArray | None:
        """Those of its draws; None where the authors were never asked about this population."""
        alike = len(self.weights) == len(population.normals) and sum(self.weights) > 0
        known = alike and self.population == population.key()
        return np.array(self.weights) / sum(self.weights) if known else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "vector": list(self.vector), "weights": list(self.weights)}


@dataclass(frozen=True)
class Enrolled:
    """Sides of reference authors: two parts of each that share no text, long and short."""

    sides: Sides
    rows: IntArray
    """(authors, 2 parts, 2 lengths): which side it is, -1 where there is none."""

    def kept(self, authors: BoolArray) -> Enrolled:
        """Of some of the authors alone."""
        return replace(self, rows=self.rows[authors])

    def vectors(self) -> FloatArray:
        """(authors, columns): what each adds to the centre."""
        author, part = np.nonzero(self.rows[:, :, 0] >= 0)
        at = self.rows[author, part, 0]
        return author_vectors(self.sides.rows[VECTORS][at], self.sides.words[at], author)

    def pairs(self, most_words: float) -> KnownPairs:
        """Both parts of each author, and one of them with others, about the centre of the rest."""
        n = len(self.rows)
        both = [(a, (a + k) % n) for a in range(n) for k in range(min(n, OTHERS + 1))]
        a, b = np.repeat(np.array(both, dtype=np.intp), 2, axis=0).T
        length = np.tile([0, 1], len(both))
        left, right = self.rows[a, 0, length], self.rows[b, 1, length]
        # Of an author with one part that part will do, beside somebody else's.
        right = np.where((right < 0) & (a != b), self.rows[b, 0, length], right)
        good = np.minimum(left, right) >= 0
        a, b, left, right = a[good], b[good], left[good], right[good]
        vectors, other = self.vectors(), (a != b)
        rest = n - 1.0 - other
        total = vectors.sum(axis=0) - vectors[a] - other[:, None] * vectors[b]
        centre = total / (rest + PRIOR_CENTRE)[:, None]
        at, words = np.concatenate([left, right]), self.sides.words
        rows = self.sides.rows[VECTORS][at]
        rows = rows - shown(words[at])[:, None] * np.concatenate([centre, centre])
        pair = np.stack([np.arange(len(a)), np.arange(len(a)) + len(a)], axis=1)
        columns = figures(Sides({VECTORS: rows}, words[at]), pair, rest, most_words)
        return KnownPairs(columns, rest, ~other, a)

    def centre(self, population: Population) -> Centre:
        """Their centre, and how much each of the population's draws counts after their pairs."""
        weights = population.weights(self.pairs(population.most_words()))
        told = tuple(float(f"{one:.5g}") for one in weights)
        return replace(Centre.about(self.vectors()), weights=told, population=population.key())


@dataclass(frozen=True)
class OwnCurve:
    r"""A curve of enrolled authors alone, for features without a packaged one.

    .. math:: \ln \mathrm{LR} = \frac{m}{m + m_0} \Bigl(b + \sum_v w_v \cos(x_v, y_v)
        + c\, (\ln n_x + \ln n_y)\Bigr)

    for *m* authors, and less by as much as a side is shorter or longer than what was learnt from.
    """

    weights: tuple[float, ...]
    length_weight: float
    bias: float
    pairs: int
    auc: float
    authors: int
    words: tuple[int, int] = (FULL_GROUND, 10**6)
    """Eight in ten sides that were learnt from have so many words."""
    draws: tuple[tuple[float, ...], ...] = ()

    def log_lr(self, similarities: FloatArray, words: IntArray) -> FloatArray:
        """(pairs, 1 + draws): ln of the ratio."""
        low, high = self.words
        inside = np.clip(words, low, high)
        columns = np.column_stack([similarities, np.log(inside).sum(axis=1), np.ones(len(words))])
        each = np.array([(*self.weights, self.length_weight, self.bias), *self.draws])
        outside = np.exp(-np.abs(np.log(words) - np.log(inside)).max(axis=1))
        share = self.authors / (self.authors + PRIOR_AUTHORS)
        return np.asarray(share * outside[:, None] * (columns @ each.T))

    def most(self, words: IntArray) -> FloatArray:
        """ln of the largest ratio: 1 + m to one for m authors."""
        return np.full(len(words), np.log1p(self.authors))

    def reference(self) -> Reference:
        """Whom the ratio speaks of."""
        return Reference(self.authors, f"{self.authors} enrolled authors alone", self.authors)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        listed = {"weights": list(self.weights), "words": list(self.words)}
        return {**asdict(self), **listed, "draws": [list(one) for one in self.draws]}


Verifier = Centre | OwnCurve


def restore_verifier(plain: Mapping[str, Any] | None, authors: int) -> Verifier | None:
    """What ``to_dict`` wrote, also by versions that did not count the authors."""
    if plain is None:
        return None
    if "vector" in plain:
        told = {"weights": tuple(plain.get("weights", ())), "vector": tuple(plain["vector"])}
        return Centre(**{**plain, **told})
    tuples = {"weights": tuple(plain["weights"])}
    tuples["draws"] = tuple(tuple(one) for one in plain.get("draws", ()))
    if "words" in plain:
        tuples["words"] = tuple(plain["words"])
    return OwnCurve(**{"authors": authors, **plain, **tuples})


# -- answers -------------------------------------------------------------------------------------


def compare(
    features: FittedFeatures,
    verifier: Verifier | None,
    first: str | Sequence[str],
    second: str,
    prior: float | None = None,
) -> Comparison:
    """Two texts, or the known texts of one person and another one."""
    texts, pair = [joined(first), second], np.array([[0, 1]])
    compared = compared_by(features)
    if compared is not None:
        (extractor, population), enrolled, weights = compared, 0, None
        sides = read_by_extractor(extractor, texts)
        # Models of before have a centre of another extractor's vectors: it says nothing of these.
        if isinstance(verifier, Centre) and len(verifier.vector) == sides.rows[VECTORS].shape[1]:
            sides, enrolled = verifier.applied(sides), verifier.authors
            weights = verifier.weights_of(population)
        similar, words = sides.similarities(pair), sides.words[pair]
        log_lr = population.log_lr(sides, pair, enrolled, weights)
        limit, reference = population.most(words), population.reference(enrolled)
    elif isinstance(verifier, OwnCurve):
        sides = read_by_features(features, texts)
        similar, words = sides.similarities(pair), sides.words[pair]
        log_lr, limit = verifier.log_lr(similar, words), verifier.most(words)
        reference = verifier.reference()
    else:
        raise InputError(
            "the model was trained on too few pairs of texts by one author to compare others; "
            "train it with at least two texts each of several authors"
        )
    similarities = dict(zip(sides.rows, similar[0].tolist(), strict=True))
    found = _comparison(log_lr, limit, words, similarities, reference)
    return replace(found.given(prior), warnings=tuple(_remarks(features, texts)))


def grounded(log_lr: FloatArray, limit: FloatArray, words: IntArray) -> FloatArray:
    """(pairs, 1 + draws): no more than people have shown, and little where there is little text."""
    ground = np.minimum(1.0, words.min(axis=1) / FULL_GROUND)
    return np.asarray(np.clip(log_lr, -limit[:, None], limit[:, None]) * ground[:, None])


def _comparison(
    log_lr: FloatArray,
    limit: FloatArray,
    words: IntArray,
    similarities: dict[str, float],
    reference: Reference,
) -> Comparison:
    bounded = grounded(log_lr, limit, words)[0] / np.log(10)
    tail = 100 * (1 - CONFIDENCE) / 2
    # The draws are of the population and need not lie around the estimate: it is in its interval.
    low, high = np.percentile(bounded, [tail, 100 - tail])
    one = float(bounded[0])
    return Comparison(
        log10_lr=one,
        low=min(one, float(low)),
        high=max(one, float(high)),
        words=(int(words[0, 0]), int(words[0, 1])),
        similarities=similarities,
        population=reference,
        limited=bool(abs(log_lr[0, 0]) > limit[0]),
    )


def _remarks(features: FittedFeatures, texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        tokens = len(split(text))
        if tokens < FEW_TOKENS:
            yield f"only {tokens} tokens: an answer from fewer than {FEW_TOKENS} is mostly chance"
        foreign = not_english(features, text)
        if foreign:
            yield foreign
    if texts[0] == texts[1]:
        yield "both texts are the same: their likeness proves nothing"


def not_english(features: FittedFeatures, text: str) -> str:
    """A warning for a text in another language than the packaged extractor's; else nothing."""
    extractor, share = extractor_of(features), english_share(text)
    if share >= LEAST_ENGLISH or extractor is None or len(text.split()) < FEW_TOKENS:
        return ""
    known = {one["extractor"].partition("/")[0] for one in packaged()}
    if extractor_key(extractor).partition("/")[0] not in known:
        return ""
    return (
        f"{share:.0%} of its words are among the commonest of English, the one language that the "
        "extractor knows: the answer may mean nothing"
    )


def compared_by(features: FittedFeatures) -> tuple[FittedAdHominem, Population] | None:
    """The extractor whose vectors are compared, and its population; None where there is none."""
    extractor, population = extractor_of(features), Population.of(features)
    return None if extractor is None or population is None else (extractor, population)


def packaged_extractor() -> FittedAdHominem:
    """What compares texts without a model: two towers, as few texts are read by."""
    return FittedStyle(PRETRAINED / "style.safetensors", SECTION, size="large")


# -- learning ------------------------------------------------------------------------------------


def fit_verifier(
    features: FittedFeatures, texts: Sequence[str], codes: IntArray, seed: int = 0
) -> Verifier | None:
    """What the enrolled authors' own texts add; None where there is nothing to learn from."""
    random = np.random.default_rng([seed, 17])
    compared = compared_by(features)
    if compared is not None:
        extractor, population = compared
        authors = random.permutation(np.unique(codes))[:MOST_AUTHORS]
        return read_authors(extractor, texts, codes, authors).centre(population)
    own = _own_sides(texts, codes, random)
    pairs = matched_pairs(own.author, own.part, own.length, 4 * MOST_TEXTS, random)
    if len(np.unique(pairs.owner)) < 2:
        return None
    return _own_curve(read_by_features(features, own.texts), pairs, random)


def read_authors(
    extractor: FittedAdHominem, texts: Sequence[str], codes: IntArray, authors: IntArray
) -> Enrolled:
    """Both parts of each author, joined as the population's were: notes one by one show little."""
    passages: list[str] = []
    which = np.full((len(authors), 2, MOST_PASSAGES), -1, dtype=np.intp)
    for place, code in enumerate(authors):
        own = np.flatnonzero(codes == code)[:MOST_NOTES]
        for part in range(min(2, len(own))):
            every = cut(joined([texts[row] for row in own[part::2]]))
            # At equal distances: those of one text would be alike for what it is about.
            at = np.linspace(0, len(every) - 1, min(len(every), MOST_PASSAGES)).astype(int)
            found = [every[row] for row in at]
            which[place, part, : len(found)] = np.arange(len(found)) + len(passages)
            passages += found
    return enrolled_of(read_by_extractor(extractor, passages), which)


def enrolled_of(passages: Sides, which: IntArray) -> Enrolled:
    """Sides of passages that were read: of each part all together, and the first alone."""
    there = which >= 0
    counts = there.sum(axis=2)
    vectors, words = passages.rows[VECTORS], passages.words
    whole = (vectors[which] * there[..., None]).sum(axis=2) / np.maximum(counts, 1)[..., None]
    number = np.where(counts > 0, np.arange(counts.size).reshape(counts.shape), -1)
    first = np.where(counts > 1, which[..., 0] + counts.size, number)
    rows = np.concatenate([whole.reshape(counts.size, -1), vectors])
    lengths = np.concatenate([(words[which] * there).sum(axis=2).ravel(), words])
    return Enrolled(Sides({VECTORS: rows}, lengths), np.stack([number, first], axis=2))


@dataclass(frozen=True)
class _OwnSides:
    """Texts of enrolled authors and those of either half joined; a part shares no text."""

    texts: list[str]
    author: IntArray
    part: IntArray
    length: IntArray


def _own_sides(texts: Sequence[str], codes: IntArray, random: np.random.Generator) -> _OwnSides:
    several = np.flatnonzero(np.bincount(codes) >= 2)
    found: list[tuple[str, int, int, int]] = []
    for code in random.permutation(several)[:MOST_AUTHORS]:
        own = random.permutation(np.flatnonzero(codes == code))[:MOST_TEXTS]
        for part in (0, 1):
            half = ["".join(cut(texts[row])[:MOST_PASSAGES]) for row in own[part::2]]
            found += [(text, int(code), part, 0) for text in half]
            if len(half) > 1:
                found.append((joined(half), int(code), part, 1))
    sides, *numbers = zip(*found, strict=True) if found else ([], [], [], [])
    return _OwnSides(list(sides), *(np.array(each, dtype=np.intp) for each in numbers))


def _own_curve(sides: Sides, pairs: AuthorPairs, random: np.random.Generator) -> OwnCurve:
    words = sides.words[pairs.rows]
    raw = np.column_stack([sides.similarities(pairs.rows), np.log(words).sum(axis=1)])
    mean, spread = raw.mean(axis=0), raw.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    X = np.column_stack([(raw - mean) / spread, np.ones(len(raw))])

    def learnt(times: FloatArray) -> tuple[float, ...]:
        b = ridge_logistic(X, pairs.same, pairs.weights(times), np.ones(X.shape[1]))
        slopes = b[:-1] / spread
        return (*slopes.tolist(), float(b[-1] - slopes @ mean))

    every, *draws = (learnt(times) for times in _samples(pairs.owner, random))
    *weights, length_weight, bias = every
    low, high = np.percentile(words, [10, 90]).astype(int).tolist()
    found = OwnCurve(
        tuple(weights),
        length_weight,
        bias,
        pairs=len(pairs.same),
        auc=auc(raw @ np.array(every[:-1]), pairs.same),
        authors=len(np.unique(pairs.owner)),
        words=(low, high),
    )
    return replace(found, draws=tuple(draws))


def _samples(owner: IntArray, random: np.random.Generator) -> Iterator[FloatArray]:
    """How often every author counts: once, then as drawn with replacement."""
    codes = np.unique(owner)
    once = np.bincount(codes).astype(np.float64)
    yield once
    for _ in range(DRAWS):
        yield np.bincount(random.choice(codes, len(codes)), minlength=len(once)).astype(np.float64)
