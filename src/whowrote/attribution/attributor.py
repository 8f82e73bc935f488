"""From texts by known people to an answer for others: who, how sure, or none of these."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from whowrote import checks
from whowrote.arrays import IntArray
from whowrote.attribution.answers import as_corpus, require_two_rows, roll, words_of
from whowrote.attribution.calibration import Calibration, HeldOut, Norms, Pooling, per_text
from whowrote.attribution.contrasts import MANY_ROWS, finer, spread
from whowrote.attribution.fitted_attributor import Answering, check_limit, mean_per_text
from whowrote.attribution.profiles import Profiles, blocks, text_rows
from whowrote.attribution.rows import WORDS, Learnt, Passages, cut_all, learn_to_read
from whowrote.attribution.verification import fit_verifier
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.estimators import MixtureVAEClassifier
from whowrote.features.feature_storage import name_of, named, require_storable
from whowrote.features.interface import TextFeatures

MEMBERS = 5
FEW_ROWS = 1000


def default_model(n_rows: int, random_state: int) -> MixtureVAEClassifier:
    """The Student-t autoencoder with the settings that did best on so many passages.

    Few passages are learnt from less hard: docs/attribution.md has the measurements.
    """
    few = n_rows < FEW_ROWS
    return MixtureVAEClassifier(
        hidden=256,
        dropout=(0.0, 0.5),
        label_weight=10.0 if few else 30.0,
        max_epochs=30 if few else 60,
        batch_size=max(8, min(32, n_rows // 4)) if few else None,
        n_members=MEMBERS,
        random_state=random_state,
    )


class Attributor(Answering, BaseEstimator):
    """Learn people's styles from their texts, then say who wrote other texts.

    Parameters
    ----------
    features : ``"hybrid"`` (the neural extractor beside n-grams), ``"adhominem"``, ``"ngrams"``, or
        a feature set such as ``SentenceEncoder("name")``.
    model : a ``MixtureVAEClassifier``; None means one with settings that suit the number of texts.
        Its ``n_members`` is the number of parts that training texts are held out in.
    passage_words : long texts are cut into passages of about so many words.
    none_below : answer "none of these" where a text is so unusual for the best author that fewer
        than this share of his own texts would be.
    prior : ``"equal"``: before reading, every author is as probable as any other; ``"training"``:
        as probable as he has passages.
    random_state : seed; the same seed and texts give the same model.

    Examples
    --------
    >>> ann, bob = "I walk, and I sing, and I hum along. ", "We went home; we slept! It was late. "
    >>> texts = [ann * n for n in (3, 4, 5)] + [bob * n for n in (3, 4, 5)]
    >>> model = Attributor("ngrams").fit(texts, ["Ann"] * 3 + ["Bob"] * 3)
    >>> model.attribute([ann * 6])[0].best.author
    'Ann'

    """

    model_: MixtureVAEClassifier

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
        enrolled = roll(corpus, passages)
        names = [author.name for author in enrolled]
        codes = np.searchsorted(names, np.array(corpus.authors))
        rows = codes[passages.document]
        require_two_rows(names, rows)
        model, features = self._model(len(rows)), clone(named(self.features))
        members, folds = self._folds(corpus, passages, rows, model.n_members)
        learnt = learn_to_read(features, passages, rows, folds, int(self.passage_words))
        model.fit(learnt.read.V, rows, folds=members)
        # Only now, so that a fit that failed leaves the model as it was.
        self.authors_, self.reader_, self.model_ = enrolled, learnt.reader, model
        self.log_share_ = np.log(np.bincount(rows) / len(rows))
        columns = list(blocks(learnt.reader.features).values())
        self.profiles_ = Profiles.learn(text_rows(learnt.read), codes, columns)
        self.calibration_ = self._calibrate(learnt, words_of(corpus.texts), codes, members)
        self.verifier_ = fit_verifier(learnt.read, learnt.reader.features, codes)
        self.training_sha256_ = tuple(corpus.sha256)
        latents = mean_per_text(self.model_.transform(learnt.read.V), learnt.read)
        self.training_latents_ = latents.astype(np.float16)
        self.training_codes_ = codes.astype(np.int32)
        self.id_ = self._digest()
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
                "what one member learns from, another one is judged by: give 5"
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
        # Where authors have few groups, more folds would take unequal shares from them, and he
        # whose text is held out would look like less of himself than the others do.
        each = [len(np.unique(groups[codes == k])) for k in range(int(codes.max()) + 1)]
        usual = int(np.median(each))
        members = spread(codes, groups, max(2, min(n_members, usual)), seed)
        if len(codes) >= MANY_ROWS or usual < 2 * n_members:
            return members, members
        return members, finer(members, codes, groups, seed)

    def _calibrate(
        self, learnt: Learnt, words: IntArray, codes: IntArray, member: IntArray
    ) -> Calibration:
        """Judge every training text by what has not learnt from it."""
        read = learnt.blind
        log_proba = np.empty((len(member), len(self.authors_)))
        for number in np.unique(member):
            rows, alone = member == number, self.model_.member(int(number))
            log_proba[rows] = alone.predict_log_proba(read.V[rows])
        counts, document = read.passages.counts, read.passages.document
        evidence = per_text(log_proba - self.log_share_, document)
        pooling = Pooling.fit(evidence, counts, self._log_prior(), codes)
        own = self._figures(read, log_proba)[np.arange(len(codes)), codes]
        rows = text_rows(learnt.read)
        nearness = self.profiles_.own_nearness(rows, codes, text_rows(read))
        own[:, : nearness.shape[1]] = nearness
        answers = pooling.log_proba(evidence, counts, self._log_prior()).argmax(axis=1)
        held_out = HeldOut(len(codes), int((answers == codes).sum()))
        return Calibration(pooling, Norms.fit(own, words, codes), held_out)

    def _digest(self) -> str:
        """A hash of everything that decides an answer."""
        from whowrote.attribution.storage import fingerprint

        return fingerprint(self)

    def _features_name(self) -> str:
        return name_of(self.reader_.features)

    # -- other uses ------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the model to a folder, whole or not at all; no training text is in it."""
        from whowrote.attribution.storage import save

        check_is_fitted(self, "model_")
        return save(self, Path(path), overwrite=overwrite)

    def enroll(self, corpus: Corpus) -> Attributor:
        """A new attributor that also knows the authors of ``corpus``; networks stay as they are."""
        from whowrote.attribution.enrolment import enroll

        check_is_fitted(self, "model_")
        return enroll(self, corpus)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote; the answers are equal."""
        from whowrote.attribution.storage import load

        return load(cls, Path(path))
