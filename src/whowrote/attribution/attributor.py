"""From texts by known people to an answer for others: who, how sure, or none of these."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from whowrote import checks
from whowrote.arrays import FloatArray, IntArray
from whowrote.attribution import storage
from whowrote.attribution.answers import (
    Attribution,
    Comparison,
    Enrolled,
    ModelIdentity,
    as_corpus,
    check_limit,
    enrolled_authors,
    require_two_rows,
    words_of,
)
from whowrote.attribution.calibration import Calibration, HeldOut, Norms, Pooling, per_text
from whowrote.attribution.enrolment import enroll
from whowrote.attribution.fitted_attributor import (
    Evidence,
    FittedAttributor,
    TrainingTexts,
    figures,
    prior_of,
)
from whowrote.attribution.profiles import Profiles, text_rows
from whowrote.attribution.rows import (
    WORDS,
    Learnt,
    Passages,
    cut_all,
    learn_to_read,
    mean_per_text,
)
from whowrote.attribution.verification import fit_verifier
from whowrote.corpus.splits import deal
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.estimators import MixtureVAEClassifier
from whowrote.features.interface import TextFeatures
from whowrote.features.kinds import named, require_storable, with_settings

MEMBERS = 5
FEW_ROWS = 1000
MANY_ROWS = 4000
"""From so many rows on, five folds do; fewer rows are better used by ten."""


def default_model(n_rows: int, random_state: int) -> MixtureVAEClassifier:
    """The Student-t autoencoder with the settings that did best on so many passages.

    Few passages are learnt from less hard: docs/attribution.md has the measurements.
    """
    few = n_rows < FEW_ROWS
    return MixtureVAEClassifier(
        start="random",
        hidden=256,
        dropout=(0.0, 0.5),
        label_weight=10.0 if few else 30.0,
        max_epochs=30 if few else 60,
        batch_size=max(8, min(32, n_rows // 4)) if few else None,
        n_members=MEMBERS,
        random_state=random_state,
    )


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


class Attributor(BaseEstimator):
    """Learn people's styles from their texts, then say who wrote other texts.

    Parameters
    ----------
    features : ``"hybrid"`` (the neural extractor beside n-grams), ``"adhominem"``, ``"ngrams"``, or
        a feature set such as ``SentenceEncoder("name")``.
    model : a ``MixtureVAEClassifier``; None means one with settings that suit the number of texts.
        Its ``n_members`` is the number of parts that training texts are held out in.
    passage_words : long texts are cut into passages of about so many words.
    none_below : answer "none of these" where a text is so unusual for the best author that fewer
        than this share of their own texts would be.
    prior : ``"equal"``: before reading, every author is as probable as any other; ``"training"``:
        as probable as they have passages.
    random_state : seed; the same seed and texts give the same model.

    Examples
    --------
    >>> ann, bob = "I walk, and I sing, and I hum along. ", "We went home; we slept! It was late. "
    >>> texts = [ann * n for n in (3, 4, 5)] + [bob * n for n in (3, 4, 5)]
    >>> model = Attributor("ngrams").fit(texts, ["Ann"] * 3 + ["Bob"] * 3)
    >>> model.attribute([ann * 6])[0].best.author
    'Ann'

    """

    fitted_: FittedAttributor

    def __init__(
        self,
        features: str | TextFeatures = "hybrid",
        model: MixtureVAEClassifier | None = None,
        *,
        passage_words: int = WORDS,
        none_below: float = 0.02,
        prior: str = "equal",
        random_state: int = 0,
    ) -> None:
        self.features = features
        self.model = model
        self.passage_words = passage_words
        self.none_below = none_below
        self.prior = prior
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------

    def fit(self, texts: Corpus | Sequence[str], authors: Sequence[str] | None = None) -> Self:
        """Learn from a corpus, or from texts and who wrote each."""
        self.check()
        corpus = as_corpus(texts, authors).labelled()
        corpus.require_attribution(min_texts=1)
        passages = cut_all(corpus.texts, int(self.passage_words))
        enrolled = enrolled_authors(corpus, passages)
        names = [author.name for author in enrolled]
        codes = np.searchsorted(names, np.array(corpus.authors))
        rows = codes[passages.document]
        require_two_rows(names, rows)
        model, features = self._model(len(rows)), clone(named(self.features))
        members, folds = self._folds(corpus, passages, rows, model.n_members)
        learnt = learn_to_read(features, passages, rows, folds, int(self.passage_words))
        model.fit(learnt.read.V, rows, folds=members)
        columns = list(learnt.reader.features.blocks().values())
        profiles = Profiles.learn(text_rows(learnt.read), codes, columns)
        log_share = np.log(np.bincount(rows) / len(rows))
        latents = mean_per_text(model.transform(learnt.read.V), passages)
        fitted = FittedAttributor(
            authors=enrolled,
            reader=learnt.reader,
            model=replace(model.fitted_, ranks=None),  # its typicality is that of whole texts
            log_share=log_share,
            profiles=profiles,
            calibration=_calibrate(
                learnt,
                profiles,
                _held_out_log_proba(model, learnt.as_new.V, members),
                _Truth(codes, words_of(corpus.texts), log_share, self.prior),
            ),
            verifier=fit_verifier(
                learnt.reader.features, corpus.texts, codes, int(self.random_state)
            ),
            training=TrainingTexts(
                tuple(corpus.sha256), latents.astype(np.float16), codes.astype(np.int32)
            ),
            none_below=float(self.none_below),
            prior=self.prior,
            random_state=int(self.random_state),
        )
        self.fitted_ = replace(fitted, id=storage.fingerprint(fitted))
        return self

    def check(self) -> None:
        """Whether the settings make sense; if not, a sentence on which does not."""
        checks.at_least("passage_words", self.passage_words, 20, integer=True)
        check_limit(self.none_below)
        checks.one_of("prior", self.prior, ("equal", "training"))
        checks.at_least("random_state", self.random_state, 0, integer=True)
        if not (isinstance(self.features, str) or hasattr(self.features, "get_params")):
            raise InputError(
                f"features is {self.features!r}; it must be 'hybrid', 'adhominem', 'ngrams', or a "
                "feature set such as SentenceEncoder('name')"
            )
        if isinstance(self.features, type):
            raise InputError(
                f"features is the class {self.features.__name__}; it must be an object: write "
                f"{self.features.__name__}()"
            )
        require_storable(named(self.features))  # before the work, not after it
        if not isinstance(self.model, MixtureVAEClassifier | None):
            raise InputError(
                f"model is {self.model!r}; it must be a MixtureVAEClassifier, or None for one that "
                "suits the texts"
            )

    def _model(self, n_rows: int) -> MixtureVAEClassifier:
        if self.model is None:
            return default_model(n_rows, self.random_state)
        if self.model.n_members < 2:
            raise InputError(
                f"the model's n_members is {self.model.n_members}; it must be at least 2, since "
                "what one member learns from, another one is validated on: give 5"
            )
        model: MixtureVAEClassifier = clone(self.model)
        if model.random_state is None:
            model.set_params(random_state=int(self.random_state))
        return model

    def _folds(
        self, corpus: Corpus, passages: Passages, codes: IntArray, n_members: int
    ) -> tuple[IntArray, IntArray]:
        """What each member leaves out, and the folds of the contrasts: the same or finer."""
        _, groups = np.unique(np.array(corpus.groups), return_inverse=True)
        groups, seed = groups[passages.document], int(self.random_state)
        # Where authors have few groups, more folds would take unequal shares from them, and one
        # whose text is held out would look like less of themselves than the others do.
        each = [len(np.unique(groups[codes == k])) for k in range(int(codes.max()) + 1)]
        usual = int(np.median(each))
        members = spread(codes, groups, max(2, min(n_members, usual)), seed)
        if len(codes) >= MANY_ROWS or usual < 2 * n_members:
            return members, members
        return members, finer(members, codes, groups, seed)

    # -- answers ---------------------------------------------------------------------------------

    def fitted(self) -> FittedAttributor:
        """What was learnt, with the limit and the prior as they are set now."""
        check_is_fitted(self, "fitted_")
        return replace(self.fitted_, none_below=float(self.none_below), prior=self.prior)

    def attribute(self, texts: Corpus | Sequence[str]) -> list[Attribution]:
        """One record per text: who, how sure, how usual that is for them, or none of these."""
        return self.fitted().attribute(texts)

    def evidence(self, texts: Corpus | Sequence[str]) -> Evidence:
        """What every passage says, put together by text but not yet weighed."""
        return self.fitted().evidence(texts)

    def predict_log_proba(self, texts: Sequence[str]) -> FloatArray:
        """Log-probabilities of whole texts, a column per author."""
        return self.fitted().predict_log_proba(texts)

    def predict_proba(self, texts: Sequence[str]) -> FloatArray:
        """Probabilities of whole texts, a column per author."""
        return np.asarray(np.exp(self.predict_log_proba(texts)))

    def predict(self, texts: Sequence[str]) -> NDArray[Any]:
        """The most probable author of each text; never "none of these"."""
        return self.fitted().predict(texts)

    def verify(
        self, first: str | Sequence[str], second: str, *, prior: float | None = None
    ) -> Comparison:
        """How much likelier two texts are so alike if one person, enrolled or not, wrote both.

        ``first`` may be several known texts of one person; ``prior`` is the probability of one
        author before reading, and without it there is a likelihood ratio and no probability.
        """
        return self.fitted().verify(first, second, prior=prior)

    def identity(self) -> ModelIdentity:
        """Which model this is."""
        return self.fitted().identity()

    @property
    def classes_(self) -> NDArray[Any]:
        """The names of the authors: sorted, those enrolled later behind."""
        return self.fitted_.names

    @property
    def authors_(self) -> tuple[Enrolled, ...]:
        """The authors, with what was read of each."""
        return self.fitted_.authors

    @property
    def id_(self) -> str:
        """The hash of everything learnt."""
        return self.fitted_.id

    # -- other uses ------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the model to a folder, whole or not at all; no training text is in it."""
        return storage.save(self.fitted(), Path(path), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote; the answers are equal, and it can learn again."""
        fitted = storage.load(Path(path))
        attributor = cls(
            with_settings(fitted.reader.features.stored().values),
            MixtureVAEClassifier(**fitted.model.settings),
            passage_words=fitted.reader.words,
            none_below=fitted.none_below,
            prior=fitted.prior,
            random_state=fitted.random_state,
        )
        attributor.fitted_ = fitted
        return attributor

    def enroll(self, corpus: Corpus) -> Self:
        """A new attributor that also knows the authors of ``corpus``; networks stay as they are."""
        grown = copy.copy(self)
        grown.fitted_ = enroll(self.fitted(), corpus)
        return grown


# -- calibration ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Truth:
    """Who wrote the training texts, how long they are, and how probable each author is."""

    codes: IntArray
    words: IntArray
    log_share: FloatArray
    prior: str


def _held_out_log_proba(
    model: MixtureVAEClassifier, rows: FloatArray, members: IntArray
) -> FloatArray:
    """Log-probabilities of training rows, each by the member that has not learnt from it."""
    log_proba = np.empty((len(members), model.fitted_.n_components))
    for number in np.unique(members):
        own = members == number
        log_proba[own] = model.member(int(number)).predict_log_proba(rows[own])
    return log_proba


def _calibrate(
    learnt: Learnt, profiles: Profiles, log_proba: FloatArray, truth: _Truth
) -> Calibration:
    """Learn how sure and how usual answers are from texts that were held out."""
    read, codes = learnt.as_new, truth.codes
    counts, log_prior = read.passages.counts, prior_of(truth.prior, truth.log_share)
    evidence = per_text(log_proba - truth.log_share, read.passages.document)
    pooling = Pooling.fit(evidence, counts, log_prior, codes)
    own = figures(read, log_proba, profiles, learnt.reader.contrasts)
    own = own[np.arange(len(codes)), codes]
    nearness = profiles.own_nearness(text_rows(learnt.read), codes, text_rows(read))
    own[:, : nearness.shape[1]] = nearness
    answers = pooling.log_proba(evidence, counts, log_prior).argmax(axis=1)
    held_out = HeldOut(len(codes), int((answers == codes).sum()))
    return Calibration(pooling, Norms.fit(own, truth.words, codes), held_out)
