r"""What a model says of texts, before it is weighed.

For every text and author: the summed evidence of the passages, the log density of the latent, and
the figures by which it is judged whether the text is like the author's others,

.. math:: s_{kv}(x), \qquad \frac1m \sum_i \ln p(k \mid o_i), \qquad
    \frac1m \sum_i c_k(o_i)

the last one for sparse features, in the last view, and NaN for authors enrolled later, who have no
contrast of their own.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whowrote import __version__, checks
from whowrote.arrays import FloatArray, IntArray
from whowrote.attribution.answers import (
    Attribution,
    Candidate,
    Combination,
    Enrolled,
    ModelIdentity,
    as_corpus,
    words_of,
)
from whowrote.attribution.calibration import Calibration, per_text
from whowrote.attribution.profiles import Profiles, text_rows
from whowrote.attribution.rows import Read, Reader
from whowrote.attribution.verification import Verdict, Verifier
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.estimators.fitted_classifier import Answers
from whowrote.features.interface import FEW_TOKENS, ReliabilityWarning
from whowrote.features.vocabulary import split
from whowrote.progress import tell


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


def mean_per_text(values: FloatArray, read: Read) -> FloatArray:
    """Means over the passages of each text."""
    return np.asarray(per_text(values, read.passages.document) / read.passages.counts[:, None])


def figures(
    read: Read, log_proba: FloatArray, profiles: Profiles, n_contrasts: int | None
) -> FloatArray:
    """(texts, authors, J); ``n_contrasts`` is how many authors have contrasts, None for none."""
    means = mean_per_text(log_proba, read)
    parts = [profiles.nearness(text_rows(read)), means[..., None]]
    if n_contrasts is not None:
        own = np.full_like(means, np.nan)
        own[:, :n_contrasts] = mean_per_text(read.V[:, -n_contrasts:], read)
        parts.append(own[..., None])
    return np.concatenate(parts, axis=-1)


# DOC """What a model that has learnt says of texts: who, how sure, how usual that is, or none of these.
# DOC
# DOC Nothing here learns, and nothing here loads scikit-learn, which takes longer than an answer.
# DOC """

CLOSE = 1.5
"""A candidate less than so many times as probable as the next is not a decision."""


class Answering:
    """The answering half of an attributor; the other half learns what is named here."""

    none_below: float
    prior: str
    authors_: tuple[Enrolled, ...]
    reader_: Reader
    model_: Answers
    log_share_: FloatArray
    profiles_: Profiles
    calibration_: Calibration
    verifier_: Verifier | None
    training_sha256_: tuple[str, ...]
    training_latents_: NDArray[np.float16]
    training_codes_: NDArray[np.int32]
    id_: str

    def evidence(self, texts: Corpus | Sequence[str]) -> Evidence:
        """What every passage says, put together by text but not yet weighed."""
        checks.fitted(self, "model_")
        texts = as_corpus(texts, None).texts
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReliabilityWarning)  # every Attribution says it itself
            read = self.reader_.read(texts)
        # The mean over members of what each says, as each was judged on the rows it held out.
        log_proba = self.model_.member_log_proba(read.V).mean(axis=0)
        return Evidence(
            counts=read.passages.counts,
            words=words_of(texts),
            log_likelihood=per_text(log_proba - self.log_share_, read.passages.document),
            log_density=mean_per_text(self.model_.log_densities(read.V), read),
            figures=self._figures(read, log_proba),
        )

    def predict_log_proba(self, texts: Sequence[str]) -> FloatArray:
        """Log-probabilities of whole texts, a column per author."""
        return self._log_proba(self.evidence(texts))

    def predict_proba(self, texts: Sequence[str]) -> FloatArray:
        """Probabilities of whole texts, a column per author."""
        return np.asarray(np.exp(self.predict_log_proba(texts)))

    def predict(self, texts: Sequence[str]) -> NDArray[Any]:
        """The most probable author of each text; never "none of these"."""
        best = self.predict_log_proba(texts).argmax(axis=1)
        return np.asarray(self.classes_[best])

    @property
    def classes_(self) -> NDArray[Any]:
        """The names of the authors: sorted, those enrolled later behind."""
        return np.array([author.name for author in self.authors_])

    def _log_proba(self, found: Evidence) -> FloatArray:
        pooling = self.calibration_.pooling
        return pooling.log_proba(found.log_likelihood, found.counts, self._log_prior())

    def attribute(self, texts: Corpus | Sequence[str]) -> list[Attribution]:
        """One record per text: who, how sure, how usual that is for him, or none of these."""
        checks.fitted(self, "model_")
        corpus = as_corpus(texts, None)
        answers: list[Attribution] = []
        for low in range(0, len(corpus), 512):
            part = corpus.subset(range(low, min(low + 512, len(corpus))))
            answers += self._attribute(part)
            tell("attributing", len(answers), len(corpus))
        return answers

    def _attribute(self, corpus: Corpus) -> list[Attribution]:
        found = self.evidence(corpus)
        log_proba = self._log_proba(found)
        p_values = self.calibration_.norms.p_values(found.figures, found.words)
        identity, pooling = self.identity(), self.calibration_.pooling
        answers, known = [], set(self.training_sha256_)
        for row, document in enumerate(corpus):
            ranking = self._ranking(log_proba[row], found.log_density[row], p_values[row])
            tokens, best = len(split(document.text)), ranking[0]
            answers.append(
                Attribution(
                    document=document.id,
                    sha256=document.sha256,
                    author=best.author if best.typicality >= self.none_below else None,
                    ranking=ranking,
                    typicality=best.typicality,
                    none_below=self.none_below,
                    tokens=tokens,
                    combination=Combination(
                        int(found.counts[row]), pooling.temperature, pooling.exponent, self.prior
                    ),
                    warnings=tuple(self._warnings(document.sha256, tokens, known, ranking)),
                    model=identity,
                )
            )
        return answers

    def _ranking(
        self, log_proba: FloatArray, log_density: FloatArray, p_values: FloatArray
    ) -> tuple[Candidate, ...]:
        columns = zip(
            [author.name for author in self.authors_],
            np.exp(log_proba).tolist(),
            log_density.tolist(),
            p_values.tolist(),
            strict=True,
        )
        # Ties go to the smaller name, so that the order is always the same.
        return tuple(
            sorted(
                (Candidate(*column) for column in columns),
                key=lambda one: (-one.probability, one.author),
            )
        )

    @staticmethod
    def _warnings(
        sha256: str, tokens: int, known: set[str], ranking: Sequence[Candidate]
    ) -> list[str]:
        said = [_few(tokens)] if tokens < FEW_TOKENS else []
        if sha256 in known:
            said.append("this very text is among the training texts: the answer proves nothing")
        if ranking[0].probability < CLOSE * ranking[1].probability:
            said.append(f"undecided between {ranking[0].author} and {ranking[1].author}")
        return said

    def identity(self) -> ModelIdentity:
        """Which model this is."""
        checks.fitted(self, "model_")
        return ModelIdentity(
            id=self.id_,
            version=__version__,
            features=self._features_name(),
            component=self.model_.fleet_.members[0].component,
            authors=len(self.authors_),
        )

    def _features_name(self) -> str:
        raise NotImplementedError

    def verify(self, first: str, second: str) -> Verdict:
        """Whether one author, enrolled or not, wrote both texts."""
        checks.fitted(self, "model_")
        if self.verifier_ is None:
            raise InputError(
                "the model was trained on too few pairs of texts by one author to judge others; "
                "train it with at least two texts each of several authors"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReliabilityWarning)
            read = self.reader_.read([first, second])
        verdict = self.verifier_.verdict(read, self.reader_.features)
        said = [_few(len(split(text))) for text in (first, second)]
        if first == second:
            said.append("both texts are the same: their likeness proves nothing")
        return replace(verdict, warnings=tuple(sentence for sentence in said if sentence))

    def _figures(self, read: Read, log_proba: FloatArray) -> FloatArray:
        contrasts = self.reader_.contrasts
        n_contrasts = None if contrasts is None else contrasts.n_authors
        return figures(read, log_proba, self.profiles_, n_contrasts)

    def _log_prior(self) -> FloatArray:
        if self.prior == "training":
            return self.log_share_
        return np.full(len(self.log_share_), -np.log(len(self.log_share_)))


def _few(tokens: int) -> str:
    """A warning for a text of so few tokens; nothing for a longer one."""
    if tokens >= FEW_TOKENS:
        return ""
    return f"only {tokens} tokens: an answer from fewer than {FEW_TOKENS} is mostly chance"


def check_limit(none_below: Any) -> None:
    """Whether a limit of typicality makes sense; if not, a sentence on why."""
    if not (isinstance(none_below, Real) and 0 <= float(none_below) < 1):
        raise InputError(
            f"none_below is {none_below!r}; it must be at least 0 and below 1: give 0.02, "
            "or 0 to always name somebody"
        )
