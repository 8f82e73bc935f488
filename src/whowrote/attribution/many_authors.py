r"""Attribution among hundreds to a hundred thousand authors: learn, answer, enrol.

Above some hundred authors the linear contrasts of :mod:`whowrote.attribution.contrasts`, a column
for each, cost more and tell no more. What is learnt here does not grow with the authors: which
n-grams there are, the centre of the vectors, and how much a cosine says
(:class:`~whowrote.attribution.directory.Concentrations`), from one held-out text of each of some
hundred authors. An author is a row of a :class:`~whowrote.attribution.directory.Directory`.

Probabilities are those of the nearest authors and of everybody else together. The share of
strangers is that of held-out texts which come as near to somebody with their own author taken out.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logsumexp

from whowrote import __version__
from whowrote.arrays import FloatArray, IntArray
from whowrote.attribution.answers import (
    Attribution,
    Candidate,
    Combination,
    Comparison,
    Enrolled,
    ModelIdentity,
    as_corpus,
    by_new_authors,
)
from whowrote.attribution.calibration import HeldOut
from whowrote.attribution.directory import (
    Concentrations,
    Directory,
    Grams,
    Scores,
    Unit,
    near_everybody,
    unit,
    with_cells,
)
from whowrote.attribution.fitted_attributor import CLOSE, NONE_BELOW
from whowrote.attribution.verification import Verifier, compare, compared_by, fit_verifier
from whowrote.corpus.texts import Corpus
from whowrote.features.counting import counted_once
from whowrote.features.fitted_features import FittedHybrid, excerpts
from whowrote.features.interface import FEW_TOKENS, FittedFeatures
from whowrote.features.vocabulary import split
from whowrote.progress import tell

MANY = 201
"""From so many authors on, training makes this kind of model: up to 200, each has a regression."""
MOST_GRAM_TEXTS = 10_000
"""Texts from which it is learnt which n-grams there are."""
MOST_HELD_OUT, FEWEST_HELD_OUT = 1000, 30
SHOWN = 20
"""Candidates that an answer lists."""
BLOCK = 1000
FIRST = Concentrations(13.0, 17.0, 6.0, 6.4)
"""Where nothing can be held out; chosen on bloggers who are in no measurement."""
PENALTY = 10.0
"""So many texts weigh as much as the first guess."""
COMPONENT = "von Mises-Fisher"


@dataclass(frozen=True)
class Rows:
    """Texts as unit rows: style vectors without their centre, and n-grams."""

    styles: Unit
    grams: sparse.csr_matrix


@dataclass(frozen=True)
class ManyAuthors:
    """What was learnt from texts by very many people; it answers for others."""

    authors: tuple[Enrolled, ...]
    features: FittedHybrid
    """The extractor, the n-grams, and the centre as the mean of the vectors."""
    directory: Directory
    own: FloatArray
    """Scores of held-out texts under their author, ascending."""
    strangers: FloatArray
    """How far the best of texts stands out with their author taken out, ascending."""
    held_out: HeldOut
    verifier: Verifier | None
    training: NDArray[np.uint8]
    """(texts, 32): SHA-256 of the training texts."""
    none_below: float | None = None
    false_attributions: float = 0.05
    random_state: int = 0
    id: str = ""

    def attribute(self, texts: Corpus | Sequence[str]) -> list[Attribution]:
        """One record per text; its ranking has the likeliest authors alone."""
        corpus, answers = as_corpus(texts, None), list[Attribution]()
        for low in range(0, len(corpus), BLOCK):
            part = corpus.subset(range(low, min(low + BLOCK, len(corpus))))
            rows = read(self.features, part.texts)
            for row, document in enumerate(part):
                scores = self.directory.scores(rows.styles[row], rows.grams[row])
                answers.append(self._answer(document.id, document.sha256, document.text, scores))
            tell("attributing", len(answers), len(corpus))
        return answers

    def predict(self, texts: Corpus | Sequence[str]) -> NDArray[np.str_]:
        """The most probable author of each text; never "none of these"."""
        return np.array([one.best.author for one in self.attribute(texts)])

    def _answer(self, document: str, sha256: str, text: str, scores: Scores) -> Attribution:
        ranking, tokens = self._ranking(scores), len(split(text))
        best, limit = ranking[0], NONE_BELOW if self.none_below is None else self.none_below
        stranger = share_above(self.strangers, stands_out(scores.score))
        if self.none_below is None:
            limit = 0.0
        named = best.typicality >= limit and stranger <= self.false_attributions
        return Attribution(
            document=document,
            sha256=sha256,
            author=best.author if named else None,
            ranking=ranking,
            typicality=best.typicality,
            none_below=limit,
            stranger=stranger,
            false_attributions=self.false_attributions,
            tokens=tokens,
            combination=Combination(1, 1.0, 0.0, "equal"),
            warnings=tuple(self._remarks(sha256, tokens, ranking)),
            model=self.identity(),
        )

    def _ranking(self, scores: Scores) -> tuple[Candidate, ...]:
        log_proba = log_shares(scores.score, self.directory.shared.rest)
        others, limit = math.log(max(1, len(self.authors) - 1)), math.log1p(self.held_out.texts)
        found = []
        for author, score, log_p in zip(
            scores.authors[:SHOWN], scores.score[:SHOWN], log_proba[:SHOWN], strict=True
        ):
            log_lr = log_p - math.log(max(-math.expm1(log_p), 1e-300)) + others
            found.append(
                Candidate(
                    self.authors[int(author)].name,
                    math.exp(log_p),
                    float(score),
                    1.0 - share_above(self.own, float(score)) if len(self.own) else 1.0,
                    min(max(log_lr, -limit), limit) / math.log(10.0),
                )
            )
        return tuple(found)

    def _remarks(self, sha256: str, tokens: int, ranking: Sequence[Candidate]) -> Iterator[str]:
        if tokens < FEW_TOKENS:
            yield f"only {tokens} tokens: an answer from fewer than {FEW_TOKENS} is mostly chance"
        if (self.training == np.frombuffer(bytes.fromhex(sha256), np.uint8)).all(axis=1).any():
            yield "this very text is among the training texts: the answer proves nothing"
        if len(ranking) > 1 and ranking[0].probability < CLOSE * ranking[1].probability:
            yield f"undecided between {ranking[0].author} and {ranking[1].author}"
        if not len(self.own):
            yield "every enrolled author has one text: no typicality could be learnt"

    def identity(self) -> ModelIdentity:
        """Which model this is."""
        return ModelIdentity(self.id, __version__, self.features.kind, COMPONENT, len(self.authors))

    def verify(
        self, first: str | Sequence[str], second: str, *, prior: float | None = None
    ) -> Comparison:
        """How much likelier two texts are so alike if one person wrote both."""
        return compare(self.features, self.verifier, first, second, prior)

    def enroll(self, corpus: Corpus) -> ManyAuthors:
        """With the authors of ``corpus`` besides; nothing of the others is touched."""
        corpus = by_new_authors(self.authors, corpus)
        codes = np.searchsorted(corpus.author_names, np.array(corpus.authors))
        rows, grams = laid_out(self.features, corpus.texts, codes)
        return replace(
            self,
            authors=(*self.authors, *_enrolled(corpus, codes)),
            directory=self.directory.grown(rows, grams),
            training=np.concatenate([self.training, _hashes(corpus)]),
        )


def log_shares(score: FloatArray, rest: float) -> FloatArray:
    """ln of each candidate's probability; what is missing to 1 is everybody else's."""
    return np.asarray(score - logsumexp(np.append(score, rest)))


def stands_out(score: FloatArray) -> float:
    """How far the best score stands above the mean of those that follow.

    >>> stands_out(np.array([5.0, 2.0, 1.0]))
    3.5
    """
    after = score[1 : SHOWN + 1]
    return float(score[0] - after.mean()) if len(after) else 0.0


def share_above(reference: FloatArray, value: float) -> float:
    """The share of an ascending reference that is at least ``value``, and one more of it.

    >>> share_above(np.array([1.0, 2.0, 3.0]), 2.5)
    0.5
    """
    return (len(reference) - bisect.bisect_left(reference, value) + 1) / (len(reference) + 1)


# -- reading -------------------------------------------------------------------------------------


def read(features: FittedHybrid, texts: Sequence[str]) -> Rows:
    """Unit rows of texts."""
    with counted_once():  # the extractor may read n-grams of the same texts
        vectors = np.asarray(features.dense.transform(excerpts(texts)))
        grams = sparse.csr_matrix(features.ngrams.transform(texts), dtype=np.float32)
    return Rows(unit(vectors - features.mean), _unit_sparse(grams))


def _unit_sparse(rows: sparse.csr_matrix) -> sparse.csr_matrix:
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return sparse.csr_matrix(sparse.diags(1.0 / np.maximum(lengths, 1e-12)) @ rows)


def laid_out(features: FittedHybrid, texts: Sequence[str], codes: IntArray) -> tuple[Unit, Grams]:
    """A row of each kind per author, some authors at a time; ``codes`` has every author."""
    order, known = np.argsort(codes, kind="stable"), int(codes.max()) + 1
    edges = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=known))])
    rows, grams, low = list[Unit](), list[Grams](), 0
    while low < known:
        high = max(low + 1, int(np.searchsorted(edges, edges[low] + BLOCK, side="right")) - 1)
        own = order[edges[low] : edges[high]]
        made = read(features, [texts[row] for row in own])
        place = (codes[own] - low, np.arange(len(own)))
        summed = sparse.csr_matrix((np.ones(len(own), np.float32), place), (high - low, len(own)))
        rows.append(unit(summed @ made.styles))
        grams.append(Grams.of(_unit_sparse(sparse.csr_matrix(summed @ made.grams))))
        low = high
        tell("laying out authors", int(edges[high]), len(texts))
    return np.concatenate(rows), Grams.joined_all(grams)


# -- learning ------------------------------------------------------------------------------------


def learn_many(
    corpus: Corpus, *, extractor: FittedFeatures | None = None, random_state: int = 0
) -> ManyAuthors:
    """From a corpus with authors; ``extractor`` is one of your own."""
    corpus = corpus.labelled()
    corpus.require_attribution(min_texts=1)
    codes = np.searchsorted(corpus.author_names, np.array(corpus.authors))
    random = np.random.default_rng([random_state, 83])
    held, kept = _held_out(codes, random)
    features = _features(corpus, kept, codes, extractor, random)
    rows, grams = laid_out(features, [corpus.texts[row] for row in kept], codes[kept])
    first = Directory(rows, grams, near_everybody(rows), None, FIRST)
    asked, own = _asked(features, corpus.texts, codes, held, kept, random)
    if len(held) >= FEWEST_HELD_OUT:
        first = replace(first, shared=learn_shared(first, asked, own))
    trial = _trial(first, asked, own, named=len(held) >= FEWEST_HELD_OUT)
    whole = _completed(first, features, corpus.texts, codes, held)
    known = compared_by(features) is not None
    return ManyAuthors(
        authors=_enrolled(corpus, codes),
        features=features,
        directory=with_cells(
            whole, asked.styles, asked.grams, random_state, None if trial.held_out.texts else own
        ),
        own=trial.own,
        strangers=trial.strangers,
        held_out=trial.held_out,
        verifier=fit_verifier(features, corpus.texts, codes, random_state) if known else None,
        training=_hashes(corpus),
        random_state=random_state,
    )


def _held_out(codes: IntArray, random: np.random.Generator) -> tuple[IntArray, IntArray]:
    """One text of each of some authors who have several, and all other texts."""
    several = random.permutation(np.flatnonzero(np.bincount(codes) > 1))[:MOST_HELD_OUT]
    order = random.permutation(len(codes))
    first = {int(code): int(row) for code, row in zip(codes[order], order, strict=True)}
    held = np.sort(np.array([first[int(code)] for code in several], dtype=np.int64))
    return held, np.setdiff1d(np.arange(len(codes)), held)


def _features(
    corpus: Corpus,
    kept: IntArray,
    codes: IntArray,
    extractor: FittedFeatures | None,
    random: np.random.Generator,
) -> FittedHybrid:
    """The extractor, the n-grams of some texts, and the mean of some authors' vectors."""
    # Late: answers need no scikit-learn.
    from whowrote.features.adhominem import AdHominem, StyleExtractor
    from whowrote.features.kinds import MOST_WORDS_FOR_LARGE
    from whowrote.features.ngrams import NGrams

    dense = extractor
    if dense is None:
        few = sum(corpus.word_counts) <= MOST_WORDS_FOR_LARGE
        dense = (StyleExtractor(size="large") if few else AdHominem()).fitted()
    some = random.permutation(kept)[:MOST_GRAM_TEXTS]
    ngrams = NGrams().fit([corpus.texts[row] for row in some]).fitted()
    # One text of an author is as good as all for a mean over so many of them.
    each = some[np.unique(codes[some], return_index=True)[1]][: 2 * BLOCK]
    vectors = np.asarray(dense.transform(excerpts([corpus.texts[row] for row in each])))
    centre = vectors.mean(axis=0, dtype=np.float64)
    return FittedHybrid(dense, ngrams, centre, np.ones(len(centre)), 1.0)


@dataclass(frozen=True)
class _Trial:
    """How texts fare: scores under their author, and how they stand out without them."""

    own: FloatArray
    strangers: FloatArray
    held_out: HeldOut


def _trial(directory: Directory, asked: Rows, own: IntArray, named: bool) -> _Trial:
    """``named``: the texts were not learnt from, and their authors are to be found."""
    found, away, right = list[float](), list[float](), 0
    for row, author in enumerate(own.tolist()):
        text = asked.styles[row], asked.grams[row]
        away.append(stands_out(directory.scores(*text, without=author).score))
        if named:
            alone = np.array([author])
            found.append(float(directory.shared.score(directory.parts(*text, alone))[0]))
            right += int(directory.scores(*text).authors[0]) == author
        tell("answering held-out texts", row + 1, len(own))
    held_out = HeldOut(len(own) if named else 0, right)
    return _Trial(np.sort(found), np.sort(away), held_out)


def _asked(
    features: FittedHybrid,
    texts: Sequence[str],
    codes: IntArray,
    held: IntArray,
    kept: IntArray,
    random: np.random.Generator,
) -> tuple[Rows, IntArray]:
    """The held-out texts; where there are few, some that were learnt from: to play strangers."""
    rows = held if len(held) >= FEWEST_HELD_OUT else random.permutation(kept)[:MOST_HELD_OUT]
    return read(features, [texts[row] for row in rows]), codes[rows]


def _completed(
    first: Directory, features: FittedHybrid, texts: Sequence[str], codes: IntArray, held: IntArray
) -> Directory:
    """With the held-out texts too."""
    if not len(held):
        return first
    again = np.flatnonzero(np.isin(codes, codes[held]))
    authors, own = np.unique(codes[again], return_inverse=True)
    rows, grams = laid_out(features, [texts[int(row)] for row in again], own)
    whole = first.rows.copy()
    whole[authors] = rows
    return replace(
        first, rows=whole, grams=first.grams.replaced(authors, grams), near=near_everybody(whole)
    )


def learn_shared(directory: Directory, asked: Rows, own: IntArray) -> Concentrations:
    r"""The concentrations that make held-out texts likeliest, drawn to a first guess.

    .. math:: \max_{a, b, c, r} \sum_i \ln p(k_i \mid t_i)
        - \frac{\lambda}{2} \sum_w \left(\frac{w - w_0}{w_0}\right)^2
    """
    from scipy.optimize import minimize  # late: answers need none

    parts, place = [], []
    for row, author in enumerate(own.tolist()):
        near = directory.nearest(asked.styles[row])
        parts.append(directory.parts(asked.styles[row], asked.grams[row], near))
        place.append(int(np.flatnonzero(near == author)[0]) if author in near else -1)
    guess = np.array([FIRST.style, FIRST.grams, FIRST.near, FIRST.rest])
    wide = max(len(one) for one in parts)
    table = np.full((len(parts), wide, 3), np.nan)
    for row, one in enumerate(parts):
        table[row, : len(one)] = one
    truth = np.array(place)

    def cost(scaled: FloatArray) -> tuple[float, FloatArray]:
        weights = guess * scaled
        score = table @ np.array([weights[0], weights[1], -weights[2]])
        score = np.concatenate(
            [np.where(np.isnan(score), -np.inf, score), np.full((len(score), 1), weights[3])],
            axis=1,
        )
        log_p = score - logsumexp(score, axis=1, keepdims=True)
        rows, p = np.arange(len(truth)), np.exp(log_p)
        loss = -log_p[rows, truth].sum() + PENALTY / 2 * ((scaled - 1.0) ** 2).sum()
        p[rows, truth] -= 1.0
        inner = np.einsum("nk,nkj->j", p[:, :-1], np.nan_to_num(table))
        slope = guess * np.array([inner[0], inner[1], -inner[2], p[:, -1].sum()])
        return float(loss), slope + PENALTY * (scaled - 1.0)

    bounds = [(0.01, 20.0), (0.0, 20.0), (0.0, 20.0), (-20.0, 20.0)]
    found = minimize(cost, np.ones(4), jac=True, method="L-BFGS-B", bounds=bounds)
    style, grams, near, rest = (guess * found.x).tolist()
    return Concentrations(style, grams, near, rest, len(own))


def _enrolled(corpus: Corpus, codes: IntArray) -> tuple[Enrolled, ...]:
    texts = np.bincount(codes)
    words = np.bincount(codes, np.array(corpus.word_counts)).astype(int)
    rows = zip(corpus.author_names, texts.tolist(), words.tolist(), strict=True)
    return tuple(Enrolled(name, count, count, total) for name, count, total in rows)


def _hashes(corpus: Corpus) -> NDArray[np.uint8]:
    return np.stack([np.frombuffer(bytes.fromhex(one), np.uint8) for one in corpus.sha256])
