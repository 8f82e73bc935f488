r"""Everything an attributor has learnt, and what it says of texts.

.. math:: \text{texts} \to V \to \log p(k \mid o_i) \to \text{evidence} \to \text{Attribution}

Who, how sure, how usual that is for them, or none of these. For every text and author there are the
summed evidence of the passages, the log density of the latent, and the figures by which it is
decided whether the text is like the author's others,

.. math:: s_{kv}(x), \qquad \frac1m \sum_i \ln p(k \mid o_i), \qquad
    \frac1m \sum_i c_k(o_i)

the last one for sparse features, in the last view, and NaN for authors enrolled later, who have no
contrast of their own. Nothing here learns, and nothing here loads scikit-learn, which takes longer
than an answer.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from whowrote import __version__
from whowrote.arrays import FloatArray, IntArray, per_text
from whowrote.attribution.answers import (
    Attribution,
    Candidate,
    Combination,
    Comparison,
    Enrolled,
    ModelIdentity,
    as_corpus,
    words_of,
)
from whowrote.attribution.calibration import STANDING, Calibration, best_figures
from whowrote.attribution.contrasts import Contrasts
from whowrote.attribution.profiles import Profiles, text_rows
from whowrote.attribution.rows import Read, Reader, mean_per_text, normalised
from whowrote.attribution.verification import (
    Verifier,
    compare,
    not_english,
)
from whowrote.corpus.texts import Corpus
from whowrote.estimators.fitted_classifier import FittedClassifier, log_mean_exp
from whowrote.features.interface import FEW_TOKENS, ReliabilityWarning
from whowrote.features.vocabulary import split
from whowrote.progress import tell
from whowrote.ratios import against_others

if TYPE_CHECKING:
    from whowrote.attribution.explanation import Explanation
    from whowrote.attribution.rolling import Rolling

CLOSE = 1.5
"""A candidate less than so many times as probable as the next is not a decision."""
NONE_BELOW = 0.02
"""The least typicality of a named author where nobody could be left out."""
AT_ONCE = 512
"""Texts that are attributed together."""


@dataclass(frozen=True)
class Evidence:
    """What the model says of texts under every author, a row each."""

    counts: IntArray
    words: IntArray
    log_likelihood: FloatArray
    """Sum over passages of ln p(author | passage) - ln p(author)."""
    log_density: FloatArray
    """Mean over passages of the log density of the latent."""
    figures: FloatArray
    """(texts, authors, J): how like the author's others the text is, larger is more."""


def figures(
    read: Read, log_proba: FloatArray, profiles: Profiles, contrasts: Contrasts | None
) -> FloatArray:
    """How like each author's others texts are, (texts, authors, J)."""
    means = mean_per_text(log_proba, read.passages)
    parts = [profiles.nearness(text_rows(read)), means[..., None]]
    if contrasts is not None:
        own = np.full_like(means, np.nan)
        own[:, : contrasts.n_authors] = mean_per_text(
            read.V[:, -contrasts.n_authors :], read.passages
        )
        parts.append(own[..., None])
    return np.concatenate(parts, axis=-1)


def prior_of(prior: str, log_share: FloatArray) -> FloatArray:
    """ln of how probable each author is before anything is read: as all others, or by passages."""
    if prior == "training":
        return log_share
    return np.full(len(log_share), -np.log(len(log_share)))


@dataclass(frozen=True)
class TrainingTexts:
    """The texts that were learnt from: their hashes, where they lie, and whose they are."""

    sha256: tuple[str, ...]
    latents: NDArray[np.float16]
    codes: NDArray[np.int32]

    def joined(self, other: TrainingTexts) -> TrainingTexts:
        """These and others."""
        return TrainingTexts(
            (*self.sha256, *other.sha256),
            np.concatenate([self.latents, other.latents]),
            np.concatenate([self.codes, other.codes]),
        )


@dataclass(frozen=True)
class FittedAttributor:
    """What was learnt from texts by known people; it answers for others.

    ``none_below`` and ``prior`` may differ from those it was learnt with (use
    :func:`dataclasses.replace`); every answer names them.
    """

    authors: tuple[Enrolled, ...]
    """In the order of their names, those enrolled later behind."""
    reader: Reader
    model: FittedClassifier
    log_share: FloatArray
    """ln of each author's share of the passages."""
    profiles: Profiles
    calibration: Calibration
    verifier: Verifier | None
    training: TrainingTexts
    none_below: float | None
    prior: str
    false_attributions: float = 0.05
    random_state: int = 0
    id: str = ""
    """The hash of everything learnt."""

    @property
    def names(self) -> NDArray[np.str_]:
        """The names of the authors."""
        return np.array([author.name for author in self.authors])

    # -- evidence --------------------------------------------------------------------------------

    def evidence(self, texts: Corpus | Sequence[str]) -> Evidence:
        """What every passage says, put together by text but not yet weighed."""
        texts = as_corpus(texts, None).texts
        return self.weighed(texts, self.read(texts))

    def read(self, texts: Sequence[str]) -> Read:
        """The rows of texts, for :meth:`weighed`."""
        with _without_warnings():
            return self.reader.read(texts)

    def weighed(self, texts: Sequence[str], read: Read) -> Evidence:
        """The evidence of texts of which the rows were read before."""
        scored = self.model.score(read.V)
        # The mean over members of what each says, as each was validated on the rows it held out.
        log_proba = scored.log_proba.mean(axis=0)
        return Evidence(
            counts=read.passages.counts,
            words=words_of(texts),
            log_likelihood=per_text(log_proba - self.log_share, read.passages.document),
            log_density=mean_per_text(log_mean_exp(scored.log_density), read.passages),
            figures=figures(read, log_proba, self.profiles, self.reader.contrasts),
        )

    def log_proba(self, found: Evidence) -> FloatArray:
        """Log-probabilities of whole texts, a column per author."""
        pooling = self.calibration.pooling
        log_prior = prior_of(self.prior, self.log_share)
        return pooling.log_proba(found.log_likelihood, found.counts, log_prior)

    # -- answers ---------------------------------------------------------------------------------

    def predict_log_proba(self, texts: Corpus | Sequence[str]) -> FloatArray:
        """Log-probabilities of whole texts, a column per author."""
        return self.log_proba(self.evidence(texts))

    def predict(self, texts: Corpus | Sequence[str]) -> NDArray[np.str_]:
        """The most probable author of each text; never "none of these"."""
        return np.asarray(self.names[self.predict_log_proba(texts).argmax(axis=1)])

    def attribute(self, texts: Corpus | Sequence[str]) -> list[Attribution]:
        """One record per text: who, how sure, how usual that is for them, or none of these."""
        corpus = as_corpus(texts, None)
        answers: list[Attribution] = []
        for low in range(0, len(corpus), AT_ONCE):
            part = corpus.subset(range(low, min(low + AT_ONCE, len(corpus))))
            answers += self._attribute(part)
            tell("attributing", len(answers), len(corpus))
        return answers

    def _attribute(self, corpus: Corpus) -> list[Attribution]:
        return self.answers(corpus, self.evidence(corpus))

    def answers(self, corpus: Corpus, found: Evidence) -> list[Attribution]:
        """The answers to texts of which the evidence was put together before."""
        log_proba = self.log_proba(found)
        p_values = self.calibration.norms.p_values(found.figures, found.words)
        strangers = self.stranger_shares(found, log_proba)
        identity, pooling = self.identity(), self.calibration.pooling
        told, known = [], set(self.training.sha256)
        ratios = self.log10_ratios(log_proba)
        for row, document in enumerate(corpus):
            ranking = self._ranking(
                log_proba[row], found.log_density[row], p_values[row], ratios[row]
            )
            tokens, best, stranger = len(split(document.text)), ranking[0], strangers[row]
            limit = self.typicality_limit(stranger)
            named = best.typicality >= limit and (stranger or 0.0) <= self.false_attributions
            told.append(
                Attribution(
                    document=document.id,
                    sha256=document.sha256,
                    author=best.author if named else None,
                    ranking=ranking,
                    typicality=best.typicality,
                    none_below=limit,
                    stranger=stranger,
                    false_attributions=None if stranger is None else self.false_attributions,
                    tokens=tokens,
                    combination=Combination(
                        int(found.counts[row]), pooling.temperature, pooling.exponent, self.prior
                    ),
                    warnings=(
                        *_remarks(document.sha256, tokens, known, ranking),
                        *filter(None, [not_english(self.reader.features, document.text)]),
                    ),
                    model=identity,
                )
            )
        return told

    def stranger_shares(self, found: Evidence, log_proba: FloatArray) -> list[float | None]:
        """The share of strangers' texts that look as much like one of the enrolled, by text."""
        curve = self.calibration.strangers
        if curve is None:
            return [None] * len(log_proba)
        norms, people = self.calibration.norms, curve.people
        figures = best_figures(norms, found.figures, log_proba, found.words, people, curve.block)
        if curve.doubt == 0.0:  # models of before learnt from the standing as it is
            figures[:, STANDING] = np.sinh(figures[:, STANDING])
        shares = curve.share(figures, found.words).tolist()
        return [None if math.isnan(share) else share for share in shares]

    def typicality_limit(self, stranger: float | None) -> float:
        """Typicality decides where the user says so, or where nothing else can."""
        if self.none_below is not None:
            return self.none_below
        return NONE_BELOW if stranger is None else 0.0

    def log10_ratios(self, log_proba: FloatArray) -> FloatArray:
        """Of each author against the other enrolled ones; as far as held-out texts bear out."""
        limit = math.log10(1 + self.calibration.held_out.texts)
        return against_others(log_proba, prior_of(self.prior, self.log_share), limit)

    def _ranking(
        self,
        log_proba: FloatArray,
        log_density: FloatArray,
        p_values: FloatArray,
        ratios: FloatArray,
    ) -> tuple[Candidate, ...]:
        columns = zip(
            [author.name for author in self.authors],
            np.exp(log_proba).tolist(),
            log_density.tolist(),
            p_values.tolist(),
            ratios.tolist(),
            strict=True,
        )
        # Ties go to the smaller name, so that the order is always the same.
        return tuple(
            sorted(
                (Candidate(*column) for column in columns),
                key=lambda one: (-one.probability, one.author),
            )
        )

    def identity(self) -> ModelIdentity:
        """Which model this is."""
        return ModelIdentity(
            id=self.id,
            version=__version__,
            features=self.reader.features.kind,
            component=self.model.component,
            authors=len(self.authors),
        )

    def verify(
        self, first: str | Sequence[str], second: str, *, prior: float | None = None
    ) -> Comparison:
        """How much likelier two texts are so alike if one person, enrolled or not, wrote both.

        ``first`` may be several known texts of one person; ``prior`` is the probability of one
        author before reading, and without it there is a likelihood ratio and no probability.
        """
        without = self.reader.normalise
        known = [first] if isinstance(first, str) else first
        sides = [normalised(text, without) for text in known], normalised(second, without)
        with _without_warnings():
            return compare(self.reader.features, self.verifier, *sides, prior)

    def explain(
        self, text: str, known: Corpus | None = None, *, draws: int = 20, seed: int = 0
    ) -> Explanation:
        """Why the best author of a text is the best; ``known`` texts give lines to look up."""
        from whowrote.attribution.explanation import explain  # late: an answer needs none

        return explain(self, text, known, draws=draws, seed=seed)

    def roll(self, text: str, window: int = 1000, step: int = 250, **options: Any) -> Rolling:
        """Who, window by window: see :func:`whowrote.attribution.rolling.roll`."""
        from whowrote.attribution.rolling import roll  # late: an answer needs none

        return roll(self, text, window, step, **options)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Every answer says itself where a text is too short."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        yield


def _remarks(
    sha256: str, tokens: int, known: set[str], ranking: Sequence[Candidate]
) -> Iterator[str]:
    if tokens < FEW_TOKENS:
        yield _few(tokens)
    if sha256 in known:
        yield "this very text is among the training texts: the answer proves nothing"
    if ranking[0].probability < CLOSE * ranking[1].probability:
        yield f"undecided between {ranking[0].author} and {ranking[1].author}"


def _few(tokens: int) -> str:
    """A warning for a text of so few tokens; nothing for a longer one."""
    if tokens >= FEW_TOKENS:
        return ""
    return f"only {tokens} tokens: an answer from fewer than {FEW_TOKENS} is mostly chance"
