r"""Hundreds to a hundred thousand authors: a mixture of Student-t components with one scale.

.. math:: m_k = \frac{b\, n_k \bar x_k}{b\, n_k + 1}, \qquad v_k = 1 + \frac{b}{b\, n_k + 1}, \qquad
    \ln p(x \mid k) = -\tfrac12 \ln\lvert v_k\rvert
    - \frac{\nu + D}{2} \ln\Bigl(1 + \frac1\nu \sum_d \frac{(x_d - m_{kd})^2}{v_{kd}}\Bigr)

in coordinates in which texts vary inside authors by 1 in every direction and authors among each
other by :math:`b_d`: both scatters are learnt across all authors and diagonal together. An author
costs *D* numbers, not a contrast against all others; with one text their mean is shrunk and their
scale wider. A new one is added without touching the others, and equal numbers of texts make equal
scales, so the largest components of a text are the nearest means, which a graph finds in a time
that hardly grows with the number of authors; they are weighed exactly.

Rows have length one. Whether the scatters are used as they are or as spheres (then the nearest mean
is nearly that by cosine), the tails and a temperature are chosen by texts held out from their
authors' means. "None of these" is what a text is whose distance from its best author is larger than
that of nearly all held-out texts from their own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from whowrote import __version__
from whowrote.arrays import FloatArray, IntArray
from whowrote.attribution.answers import (
    Attribution,
    Candidate,
    Combination,
    ModelIdentity,
    as_corpus,
    check_limit,
    words_of,
)
from whowrote.attribution.profiles import Space
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.features.fitted_features import excerpts
from whowrote.features.streaming import Choice
from whowrote.features.vocabulary import split
from whowrote.files import ModelFile, canonical_hash, read_model_file, write_model_file
from whowrote.ratios import against_others

FROM_AUTHORS = 500
"""From so many authors on, contrasts of each against all others are not learnt."""
MOST_HELD_OUT = 1000
"""Texts that are held out to choose."""
SHAPES = ((0.5, False), (1.0, True))
"""How far the scatter inside authors is drawn to a sphere, and whether authors' is one as well."""
TAILS = (40.0, 1000.0)
MOST_EXACT, CANDIDATES, LISTED, EFFORT = 20_000, 200, 10, 300
"""Means compared one by one; components weighed exactly; candidates told; width of a search."""
NONE_BELOW = 0.02
KIND = "many authors"


# -- the authors, enrolled and found -------------------------------------------------------------


@dataclass(frozen=True)
class Roster:
    """Enrolled authors: the sum of their placed texts, and how many these are."""

    space: Space
    sums: NDArray[np.float32]
    times: FloatArray
    usual: float
    """Texts of an author by whose scale nearness is measured."""
    graph: _Graph | None = field(default=None, compare=False)

    @cached_property
    def means(self) -> NDArray[np.float32]:
        """m_k, shrunk."""
        return np.asarray(self.space.shrunk(self.sums, self.times), dtype=np.float32)

    @cached_property
    def _scale(self) -> NDArray[np.float32]:
        """By which differences are multiplied, so that the nearest are the largest components."""
        scale = self.space.scale(np.array(self.usual))
        return np.asarray(1.0 / np.sqrt(scale), dtype=np.float32)

    def indexed(self) -> Roster:
        """With a graph of neighbours, where there are many authors."""
        if len(self.times) <= MOST_EXACT:
            return self
        return replace(self, graph=_Graph.of(self.means * self._scale))

    def candidates(self, x: NDArray[np.float32], count: int = CANDIDATES) -> IntArray:
        """(texts, count): the authors with the nearest means."""
        count = min(count, len(self.times))
        near, means = x * self._scale, self.means
        if self.graph is None:
            return _nearest(near, means * self._scale, count)
        known = self.graph.size
        found = self.graph.nearest(near, min(count, known))
        later = np.arange(known, len(means))  # enrolled since: compared one by one
        if not len(later):
            return found
        return np.concatenate([found, np.broadcast_to(later, (len(x), len(later)))], axis=1)

    def weigh(self, x: NDArray[np.float32], candidates: IntArray) -> FloatArray:
        """Log densities of the candidates, exact."""
        found = np.empty(candidates.shape)
        for low in range(0, len(x), 64):
            own = candidates[low : low + 64]
            found[low : low + 64] = self.space.log_density(
                x[low : low + 64, None], self.means[own], self.times[own]
            )
        return found

    def joined(self, sums: NDArray[np.float32], times: FloatArray) -> Roster:
        """With more authors; the others, and the graph of them, stay as they are."""
        every = np.concatenate([self.sums, sums])
        return Roster(
            self.space, every, np.concatenate([self.times, times]), self.usual, self.graph
        )


def _nearest(x: NDArray[np.float32], means: NDArray[np.float32], count: int) -> IntArray:
    squares = (means**2).sum(axis=1)
    found = []
    for low in range(0, len(x), 256):
        distance = squares - 2.0 * x[low : low + 256] @ means.T
        found.append(np.argpartition(distance, count - 1, axis=1)[:, :count])
    return np.concatenate(found).astype(np.int64)


@dataclass(frozen=True)
class _Graph:
    """A graph of the means' neighbours (voyager)."""

    index: Any
    size: int

    @classmethod
    def of(cls, means: NDArray[np.float32]) -> Self | None:
        """None where the package is not installed: all means are compared then."""
        try:
            from voyager import Index
            from voyager import Space as Distance
        except ImportError:
            return None
        index = Index(
            Distance.Euclidean,
            means.shape[1],
            M=16,
            ef_construction=150,
            random_seed=1,
            max_elements=len(means),
        )
        index.add_items(means)
        return cls(index, len(means))

    def nearest(self, x: NDArray[np.float32], count: int) -> IntArray:
        """Ids of the nearest."""
        ids, _ = self.index.query(x, k=count, query_ef=max(EFFORT, 2 * count))
        return np.asarray(ids).astype(np.int64)


# -- learning ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """What held-out texts said: how many went to their author, and of how many."""

    right: int
    texts: int
    distances: FloatArray
    """Of held-out texts from their own author, rising."""


def choose(rows: FloatArray, codes: IntArray, seed: int) -> tuple[Space, Chosen]:
    """Shape, tails and a temperature by texts held out from their authors' means."""
    random = np.random.default_rng([seed, 53])
    able = random.permutation(np.flatnonzero(np.bincount(codes)[codes] > 1))
    _, first = np.unique(codes[able], return_index=True)
    asked = random.permutation(able[first])[:MOST_HELD_OUT]
    rest = np.ones(len(rows), dtype=bool)
    rest[asked] = False
    best: tuple[tuple[int, float], Space, Chosen] | None = None
    for shrinkage, round_ in SHAPES:
        small = Space.learn(rows, codes, shrinkage, round_)
        x = small.place(rows)
        roster = _roster(small, x[rest], codes[rest])
        near = roster.candidates(x[asked])
        own = codes[asked]
        missed = ~(near == own[:, None]).any(axis=1)
        near[missed, -1] = own[missed]
        for df in TAILS:
            tried = replace(roster, space=replace(small, df=df))
            log_p = tried.weigh(x[asked], near)
            temperature, loss = _temperature(log_p, near == own[:, None])
            right = int((near[np.arange(len(near)), log_p.argmax(axis=1)] == own).sum())
            if best is None or (-right, loss) < best[0]:
                apart = small.distance(x[asked], roster.means[own], roster.times[own])
                told = Chosen(right, len(asked), np.sort(apart))
                best = (-right, loss), replace(small, df=df, temperature=temperature), told
    assert best is not None  # for the type checker: there are tails
    return best[1:]


def _temperature(log_p: FloatArray, own: NDArray[np.bool_]) -> tuple[float, float]:
    """By which log densities are divided, so that held-out texts are answered best."""
    losses = {
        one: float(np.mean(logsumexp(log_p / one, axis=1) - log_p[own] / one))
        for one in np.geomspace(0.5, 8.0, 25).tolist()
    }
    best = min(losses, key=lambda one: losses[one])
    return best, losses[best]


def _roster(space: Space, x: NDArray[np.float32], codes: IntArray) -> Roster:
    """Authors by their placed texts; one whose texts are all held out has none, and lies at 0."""
    sums = np.zeros((codes.max() + 1, x.shape[1]), dtype=np.float32)
    np.add.at(sums, codes, x)
    times = np.bincount(codes).astype(np.float64)
    return Roster(space, sums, times, float(np.median(times)))


@dataclass(frozen=True)
class FittedMany:
    """What was learnt of many authors: it answers, grows and is stored."""

    names: tuple[str, ...]
    words: IntArray
    roster: Roster
    chosen: Chosen
    choice: Choice
    none_below: float = NONE_BELOW
    id: str = ""

    def place(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Texts in the coordinates of the model."""
        return self.roster.space.place(read(self.choice, texts))

    def attribute(self, texts: Corpus | Sequence[str]) -> list[Attribution]:
        """One record per text, with the ten best candidates."""
        corpus = as_corpus(texts, None)
        x = self.place(corpus.texts)
        near = self.roster.candidates(x)
        log_density = self.roster.weigh(x, near)
        log_p = log_density / self.roster.space.temperature
        log_p = log_p - logsumexp(log_p, axis=1, keepdims=True)
        even = np.full(near.shape[1], -np.log(near.shape[1]))
        ratios = against_others(log_p, even, float(np.log10(1 + self.chosen.texts)))
        return [
            self._answer(
                corpus, row, x[row], near[row], (log_p[row], log_density[row], ratios[row])
            )
            for row in range(len(corpus))
        ]

    def _answer(
        self,
        corpus: Corpus,
        row: int,
        x: NDArray[np.float32],
        near: IntArray,
        figures: tuple[FloatArray, FloatArray, FloatArray],
    ) -> Attribution:
        log_p, log_density, ratios = figures
        order = np.argsort(-log_p)[:LISTED]
        own = near[order]
        apart = self.roster.space.distance(x, self.roster.means[own], self.roster.times[own])
        known = self.chosen.distances
        usual = (len(known) - np.searchsorted(known, apart) + 1) / (len(known) + 1)
        ranking = tuple(
            Candidate(
                self.names[int(one)],
                float(np.exp(log_p[place])),
                float(log_density[place]),
                float(typical),
                float(ratios[place]),
            )
            for one, place, typical in zip(own, order, usual, strict=True)
        )
        tokens = len(split(corpus.texts[row]))
        best = ranking[0]
        return Attribution(
            document=corpus.ids[row],
            sha256=corpus.sha256[row],
            author=None if best.typicality < self.none_below else best.author,
            ranking=ranking,
            typicality=best.typicality,
            none_below=self.none_below,
            stranger=None,
            false_attributions=None,
            tokens=tokens,
            combination=Combination(1, self.roster.space.temperature, 1.0, "equal"),
            warnings=(f"only {tokens} tokens: mostly chance",) if tokens < 20 else (),
            model=self.identity(),
        )

    def identity(self) -> ModelIdentity:
        """Which model this is."""
        kind, count = self.choice.features, len(self.names)
        return ModelIdentity(self.id, __version__, kind, "Student-t, one scale", count)

    def enroll(self, corpus: Corpus) -> FittedMany:
        """With the authors of a corpus; nothing that is known of the others changes."""
        new = corpus.labelled()
        return self.enrolled(
            self.place(new.texts), list(map(str, new.authors)), words_of(new.texts)
        )

    def enrolled(
        self, x: NDArray[np.float32], authors: Sequence[str], words: IntArray
    ) -> FittedMany:
        """The same of texts that are placed already."""
        names, codes = np.unique(np.array(authors), return_inverse=True)
        twice = sorted(set(names.tolist()) & set(self.names))
        if twice:
            raise InputError(
                f"author {twice[0]!r} is enrolled already; a name stands for one person: give the "
                "new one another name, or train again"
            )
        more = _roster(self.roster.space, x, codes)
        grown = replace(
            self,
            names=(*self.names, *names.tolist()),
            words=np.concatenate([self.words, np.bincount(codes, words).astype(np.int64)]),
            roster=self.roster.joined(more.sums, more.times),
        )
        tail = [names.tolist(), np.round(more.sums.astype(float), 3).tolist()]
        return replace(grown, id=canonical_hash([self.id, *tail]))

    # -- storage ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write one file, whole or not at all; no text is in it, nor the extractor's weights."""
        space = self.roster.space
        values = {
            **{"names": list(self.names), "df": space.df, "temperature": space.temperature},
            **{"right": self.chosen.right, "texts": self.chosen.texts, "id": self.id},
            **{"none_below": self.none_below, "usual": self.roster.usual},
            **{"features": self.choice.features, "size": self.choice.size},
            "identity": self.choice.identity(),
        }
        arrays = {
            **{"mean": space.mean, "axes": space.axes, "spread": space.spread},
            **{"sums": self.roster.sums, "times": self.roster.times, "words": self.words},
            "distances": self.chosen.distances,
        }
        write_model_file(path, ModelFile(KIND, values, arrays))
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote; the weights here must be those it was made with."""
        record = read_model_file(path, KIND)
        values, arrays = record.values, record.arrays
        choice = Choice(values["features"], size=values["size"])
        if choice.identity() != values["identity"]:
            raise InputError(
                f"'{path}' was made with other weights of {values['features']} than this version "
                "has; a model answers by its own alone: train it again or change versions"
            )
        axes = (arrays["mean"], arrays["axes"], arrays["spread"])
        space = Space(*axes, values["df"], values["temperature"])
        roster = Roster(space, arrays["sums"], arrays["times"], values["usual"]).indexed()
        chosen = Chosen(values["right"], values["texts"], arrays["distances"])
        limits = (values["none_below"], values["id"])
        return cls(tuple(values["names"]), arrays["words"], roster, chosen, choice, *limits)


def read(choice: Choice, texts: Sequence[str]) -> FloatArray:
    """Style vectors of texts."""
    features: Any = choice.make()
    return np.asarray(features.fitted().transform(excerpts(texts)), dtype=np.float64)


class ManyAuthors:
    """An attributor for hundreds of authors and more; ``size`` is that of ``style``.

    The same contract as :class:`~whowrote.attribution.attributor.Attributor`: ``fit``,
    ``attribute``, ``enroll``, ``save``, ``load``.
    """

    fitted_: FittedMany

    def __init__(
        self,
        features: str = "adhominem",
        *,
        size: str = "small",
        none_below: float = NONE_BELOW,
        random_state: int = 0,
    ) -> None:
        self.features = features
        self.size = size
        self.none_below = none_below
        self.random_state = random_state

    def fit(self, texts: Corpus | Sequence[str], authors: Sequence[str] | None = None) -> Self:
        """Learn from a corpus, or from texts and who wrote each."""
        check_limit(self.none_below)
        corpus = as_corpus(texts, authors).labelled()
        corpus.require_attribution(min_texts=1)
        rows = read(Choice(self.features, size=self.size), corpus.texts)
        return self.fit_rows(rows, list(map(str, corpus.authors)), words_of(corpus.texts))

    def fit_rows(self, rows: FloatArray, authors: Sequence[str], words: IntArray) -> Self:
        """The same of style vectors that were made already."""
        names, codes = np.unique(np.array(authors), return_inverse=True)
        space, chosen = choose(rows, codes, self.random_state)
        roster = _roster(space, space.place(rows), codes).indexed()
        digest = canonical_hash(
            [names.tolist(), np.round(np.asarray(roster.sums[:, :3], float), 3).tolist()]
        )
        self.fitted_ = FittedMany(
            tuple(names.tolist()),
            np.bincount(codes, words).astype(np.int64),
            roster,
            chosen,
            Choice(self.features, size=self.size),
            self.none_below,
            digest,
        )
        return self

    def attribute(self, texts: Corpus | Sequence[str]) -> list[Attribution]:
        """One record per text: who, how sure, how usual that is for them, or none of these."""
        return self.fitted_.attribute(texts)

    def enroll(self, corpus: Corpus) -> ManyAuthors:
        """A new attributor that also knows the authors of ``corpus``."""
        grown = copy(self)
        grown.fitted_ = self.fitted_.enroll(corpus)
        return grown

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write one file."""
        return self.fitted_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote; the answers are equal."""
        fitted = FittedMany.load(path)
        found = cls(fitted.choice.features, size=fitted.choice.size, none_below=fitted.none_below)
        found.fitted_ = fitted
        return found
