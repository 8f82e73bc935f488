"""From texts by known people to an answer for others: who, how sure, or none of these."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import replace
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
    check_limits,
    enrolled_authors,
    require_two_rows,
    words_of,
)
from whowrote.attribution.contrasts import SHORT_WORK
from whowrote.attribution.enrolment import enroll
from whowrote.attribution.explanation import Explanation
from whowrote.attribution.fitted_attributor import (
    Evidence,
    FittedAttributor,
    TrainingTexts,
)
from whowrote.attribution.many_rows import MOST_KERNEL_ROWS
from whowrote.attribution.profiles import Profiles, text_rows
from whowrote.attribution.rows import (
    LONG,
    MOST_PASSAGES,
    WORDS,
    Labels,
    Learnt,
    Passages,
    check_normalise,
    cut_all,
    learn_by_ridge,
    learn_to_read,
    mean_per_text,
    n_passages,
    normalised,
)
from whowrote.attribution.simulation import Truth, calibrate, held_out_log_proba, loss_of_texts
from whowrote.attribution.verification import (
    fit_verifier,
)
from whowrote.corpus.splits import finer, spread, usual_groups
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.estimators import MixtureVAEClassifier
from whowrote.estimators.classifier import MOST_LATENTS
from whowrote.features.interface import TextFeatures
from whowrote.features.kinds import named, require_storable, with_settings
from whowrote.progress import tell

MOST_FEW = 3000
"""Up to so many texts each is held out in turn, and each author is; of more, folds and groups."""
MOST_ROWS, LEAST_PASSAGES = 1500, 4
"""Long texts are learnt from by so many passages in all, and each by so many at least."""
WHOLE = 1000
"""Texts up to one and a half times as many words are read whole, where most are short."""
MOST_FOLDS, FOLDS_OF_MANY = 20, 5
"""Folds in which few texts, and many, are held out, as far as authors have as many."""
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


class Attributor(BaseEstimator):
    """Learn people's styles from their texts, then say who wrote other texts.

    Parameters
    ----------
    features : ``"hybrid"`` (the neural extractor beside n-grams), ``"adhominem"``, ``"ngrams"``, or
        a feature set such as ``SentenceEncoder("name")``.
    model : a ``MixtureVAEClassifier``; None means one with settings that suit the number of texts.
        Its ``n_members`` is the number of parts that training texts are held out in.
    passage_words : texts are read in passages of about so many words; None means 1,000, and where
        most texts are longer than 600 words what answers held-out texts best.
    normalise : what texts are read without, of ``"case"``, ``"punctuation"``, ``"quotes"`` (their
        typographic forms, and those of dashes and spaces) and ``"names"``: what a printer, an
        editor or a subject decided, and not the author.
    false_attributions : the share of texts by people who are not enrolled that may be given to one
        who is. Whatever looks less like somebody enrolled is "none of these"; 1 names somebody
        always. It is learnt from authors left out in turn, up to some 24,000 texts.
    none_below : answer "none of these" also where a text is so unusual for the best author that
        fewer than this share of their own texts would be; None means 2 % where
        ``false_attributions`` could not be learnt, else 0.
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
        passage_words: int | None = None,
        normalise: Sequence[str] = (),
        false_attributions: float = 0.05,
        none_below: float | None = None,
        prior: str = "equal",
        random_state: int = 0,
    ) -> None:
        self.features = features
        self.model = model
        self.passage_words = passage_words
        self.normalise = normalise
        self.false_attributions = false_attributions
        self.none_below = none_below
        self.prior = prior
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------

    def fit(self, texts: Corpus | Sequence[str], authors: Sequence[str] | None = None) -> Self:
        """Learn from a corpus, or from texts and who wrote each."""
        self.check()
        corpus = as_corpus(texts, authors).labelled()
        corpus.require_attribution(min_texts=1)
        corpus = _by_content(corpus)
        codes = np.searchsorted(corpus.author_names, np.array(corpus.authors))
        pieces = n_passages(np.array(corpus.word_counts), self._longest(corpus))
        require_two_rows(corpus.author_names, np.repeat(codes, pieces))
        learnt, model, held_out = self._learn(corpus, codes)
        passages = learnt.read.passages
        rows = codes[passages.document]
        blocks, origins = learnt.reader.features.blocks(), learnt.reader.features.origins()
        profiles = Profiles.learn(text_rows(learnt.read), codes, blocks, origins, learnt.units)
        log_share = np.log(np.bincount(rows) / len(rows))
        latents = mean_per_text(model.transform(learnt.read.V), passages)
        fitted = FittedAttributor(
            authors=enrolled_authors(corpus, passages),
            reader=replace(learnt.reader, normalise=tuple(self.normalise)),
            model=replace(model.fitted_, ranks=None),  # its typicality is that of whole texts
            log_share=log_share,
            profiles=profiles,
            calibration=calibrate(
                learnt,
                profiles,
                model.fitted_,
                held_out,
                Truth(codes, words_of(corpus.texts), log_share, self.prior),
            ),
            verifier=fit_verifier(
                learnt.reader.features, self._read(corpus), codes, int(self.random_state)
            ),
            training=TrainingTexts(
                tuple(corpus.sha256), latents.astype(np.float16), codes.astype(np.int32)
            ),
            none_below=self.none_below,
            false_attributions=float(self.false_attributions),
            prior=self.prior,
            random_state=int(self.random_state),
        )
        self.fitted_ = replace(fitted, id=storage.fingerprint(fitted))
        return self

    def _read(self, corpus: Corpus) -> list[str]:
        """The texts as they are read."""
        return [normalised(text, self.normalise) for text in corpus.texts]

    def _learn(
        self, corpus: Corpus, codes: IntArray
    ) -> tuple[Learnt, MixtureVAEClassifier, FloatArray]:
        if not self._ridge(corpus):
            return self._learn_in_folds(corpus, codes)
        if len(corpus) <= MOST_FEW:
            return self._learn_from_few(corpus, codes)
        learnt, model = self._learn_at(corpus, codes, self._lengths(corpus)[-1], many=True)
        return learnt, model, np.asarray(model.predict_log_proba(learnt.as_new.V))

    def _longest(self, corpus: Corpus) -> int:
        """The longest passages that texts are read in: of each author two are needed."""
        return (
            max(self._lengths(corpus)) if self._ridge(corpus) else int(self.passage_words or WORDS)
        )

    def _ridge(self, corpus: Corpus) -> bool:
        return self.model is None and by_ridge(corpus, self.passage_words or WHOLE)

    def _lengths(self, corpus: Corpus) -> list[int]:
        """Of passages, to choose from: whole texts but for long ones, and short passages."""
        if self.passage_words is not None:
            return [int(self.passage_words)]
        usual = int(np.median(corpus.word_counts))
        whole = usual if usual >= LONG else WHOLE
        return [whole] if usual < 2 * WORDS else [WORDS, whole]

    def _learn_from_few(
        self, corpus: Corpus, codes: IntArray
    ) -> tuple[Learnt, MixtureVAEClassifier, FloatArray]:
        """The linear answer, held out in closed form, and a mixture that starts and stays there.

        Of the lengths of passages, the one by which held-out texts are answered best.
        """
        best = None
        for words in self._lengths(corpus):
            learnt, model = self._learn_at(corpus, codes, words)
            log_proba = np.asarray(model.predict_log_proba(learnt.as_new.V))
            loss = loss_of_texts(log_proba, learnt.read.passages, codes)
            if best is None or loss < best[0]:
                best = loss, learnt, model, log_proba
        assert best is not None  # for the type checker: there is a length
        return best[1:]

    def _learn_at(
        self, corpus: Corpus, codes: IntArray, words: int, many: bool = False
    ) -> tuple[Learnt, MixtureVAEClassifier]:
        groups, seed = _by_appearance(np.array(corpus.units)), int(self.random_state)
        most_folds = FOLDS_OF_MANY if many else MOST_FOLDS
        n_folds = int(np.clip(usual_groups(codes, groups), 2, most_folds))
        folds = spread(_by_appearance(codes), groups, n_folds, seed)
        counts = np.array(corpus.word_counts)
        long = float(np.median(np.bincount(groups, counts))) > SHORT_WORK
        features = clone(named(self.features, few=True, words=int(counts.sum()), long=long))
        most = max(LEAST_PASSAGES, MOST_ROWS // len(corpus))
        passages = cut_all(self._read(corpus), words, min(most, MOST_PASSAGES))
        labels = Labels(codes, folds, groups, counts)
        learnt = learn_by_ridge(features, passages, labels, words, many)
        model = MixtureVAEClassifier(start="scores", random_state=int(self.random_state))
        model.fit(learnt.read.V, codes[passages.document])
        tell("learning the authors", 1, 1)
        return learnt, model

    def _learn_in_folds(
        self, corpus: Corpus, codes: IntArray
    ) -> tuple[Learnt, MixtureVAEClassifier, FloatArray]:
        """Contrasts in folds, and a mixture that learns from them."""
        words = int(self.passage_words or WORDS)
        passages = cut_all(self._read(corpus), words)
        rows = codes[passages.document]
        model, features = self._model(len(rows)), clone(named(self.features))
        members, folds = self._folds(corpus, passages, rows, model.n_members)
        learnt = learn_to_read(features, passages, rows, folds, words)
        model.fit(learnt.read.V, rows, folds=members)
        return learnt, model, held_out_log_proba(model, learnt.as_new.V, members)

    def check(self) -> None:
        """Whether the settings make sense; if not, a sentence on which does not."""
        if self.passage_words is not None:
            checks.at_least("passage_words", self.passage_words, 20, integer=True)
        check_normalise(self.normalise)
        check_limits(self.none_below, self.false_attributions)
        checks.one_of("prior", self.prior, ("equal", "training"))
        checks.seed("random_state", self.random_state)
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
        groups = _by_appearance(np.array(corpus.units))[passages.document]
        codes, seed = _by_appearance(codes), int(self.random_state)
        # Where authors have few groups, more folds would take unequal shares from them, and one
        # whose text is held out would look like less of themselves than the others do.
        usual = usual_groups(codes, groups)
        members = spread(codes, groups, max(2, min(n_members, usual)), seed)
        if len(codes) >= MANY_ROWS or usual < 2 * n_members:
            return members, members
        return members, finer(members, codes, groups, seed)

    # -- answers ---------------------------------------------------------------------------------

    def fitted(self) -> FittedAttributor:
        """What was learnt, with the limit and the prior as they are set now."""
        check_is_fitted(self, "fitted_")
        return replace(
            self.fitted_,
            none_below=self.none_below,
            false_attributions=float(self.false_attributions),
            prior=self.prior,
        )

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
        """How much likelier texts are so alike if one person wrote both: see FittedAttributor."""
        return self.fitted().verify(first, second, prior=prior)

    def explain(self, text: str, known: Corpus | None = None, **options: Any) -> Explanation:
        """Why the best author of a text is the best: see :meth:`FittedAttributor.explain`."""
        return self.fitted().explain(text, known, **options)

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
    def load(cls, path: str | os.PathLike[str], encoder: str | None = None) -> Self:
        """Read what :meth:`save` wrote; the answers are equal, and it can learn again.

        A sentence encoder, which can hold code, is loaded only if ``encoder`` names it too.
        """
        fitted = storage.load(Path(path), encoder)
        attributor = cls(
            with_settings(fitted.reader.features.stored().values, encoder),
            _model_to_learn_again(fitted),
            passage_words=fitted.reader.words,
            normalise=fitted.reader.normalise,
            false_attributions=fitted.false_attributions,
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


def by_ridge(corpus: Corpus, words: int = WHOLE) -> bool:
    """Whether texts are few enough for regressions that are solved at once, strangers included."""
    rows = int(n_passages(np.array(corpus.word_counts), words).clip(max=LEAST_PASSAGES).sum())
    few = len(corpus) <= MOST_FEW or rows <= MOST_KERNEL_ROWS
    return few and len(corpus.author_names) <= MOST_LATENTS


def _by_content(corpus: Corpus) -> Corpus:
    """In the order of the texts' hashes: an answer depends on no other order."""
    names = list(zip(corpus.sha256, corpus.authors, strict=True))
    return corpus.subset(sorted(range(len(corpus)), key=names.__getitem__))


def _by_appearance(values: NDArray[Any]) -> IntArray:
    """Numbers in the order of first appearance: what is dealt to folds depends on no name.

    >>> _by_appearance(np.array(["b", "a", "b"])).tolist()
    [0, 1, 0]
    """
    _, first, number = np.unique(values, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[number], dtype=np.int64)


def _model_to_learn_again(fitted: FittedAttributor) -> MixtureVAEClassifier | None:
    settings = dict(fitted.model.settings)
    return None if settings["start"] == "scores" else MixtureVAEClassifier(**settings)
