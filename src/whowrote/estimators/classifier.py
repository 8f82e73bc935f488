r"""Attribution: a classifier whose classes are the components of the mixture.

.. math:: p(\mathrm{author} = k \mid o) = \gamma_k
    = \mathrm{softmax}_k\, \mathrm{score}_k(q(x \mid o))
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from whowrote import checks
from whowrote.arrays import FloatArray, IntArray
from whowrote.errors import InputError
from whowrote.estimators.base import MixtureVAEBase, all_or_nothing
from whowrote.estimators.fitted_classifier import (
    LEAST_RANKED_ROWS,
    Fit,
    HeldOutRanks,
    OwnFigures,
    Sample,
)
from whowrote.estimators.labels import Labels, codes_of, labels_of, row_weights
from whowrote.estimators.scaling import one_unit, stacked, warn_of_far_values
from whowrote.estimators.vector_table import VectorTable, numbers_of
from whowrote.model import MixtureVAE, Rows
from whowrote.model.fleet import UNLABELLED
from whowrote.model.logistic import MANY_ROWS
from whowrote.progress import listening
from whowrote.training import (
    Assignment,
    Validation,
    assign,
    initialize,
    initialize_by_regression,
    initialize_by_scores,
    leave_out,
    refine,
)

RULES: dict[str, dict[str, Any]] = {
    "logistic": {
        "dropout": 0.0,
        "label_weight": 30.0,
        "learning_rate": 0.002,
        "max_epochs": 10,
        "patience": 3,
    },
    "scores": {
        "dropout": 0.0,
        "label_weight": 30.0,
        "learning_rate": 0.002,
        "max_epochs": 1,
        "patience": 3,
    },
    "random": {
        "dropout": (0.2, 0.5),
        "label_weight": 100.0,
        "learning_rate": 0.002,
        "max_epochs": 60,
        "patience": 15,
    },
}
"""What parameters are where nobody says, by where learning begins."""
WIDTHS = ((2500, 1024), (MANY_ROWS, 512), (0, 2048))
"""Hidden units from so many rows on: few rows are answered best, and soon, by many."""
MOST_LATENTS = 200
"""D grows with the number of classes up to this."""
FOLDS = 10
"""Where a model learns from all rows, others leave these out in turn, for typicality."""
FOLDS_OF_FEW = 4
"""The same where few rows have a label and many have none."""
MOST_VALIDATION_ROWS = 20_000
"""More to stop early by would cost time and tell no more."""
RANKED_ROWS = 100
"""As many of the folds as hold so many rows."""
GENERATION = {
    "latent_dim": 15,
    "hidden": 256,
    "initial_df": 30.0,
    "df_rate": 0.01,
    "label_weight": 0.0,
    "validation_fraction": 0.0,
}
"""Parameters of a model that is to generate."""


class MixtureVAEClassifier(ClassifierMixin, MixtureVAEBase):
    """A variational autoencoder with a Student-t (or Gaussian) component per class.

    Supervised when every row has a label; semi-supervised when some labels are missing: then it
    learns from the labelled rows first and from all rows afterwards, of which the labelled ones are
    half of every step; from a start by regression,
    all rows move it where hidden labels gain. Missing is
    ``None``, NaN or ``pandas.NA``, and ``-1`` among integers as in scikit-learn's
    ``LabelSpreading``; in {-1, +1}, and beside other negative numbers, -1 is a class like the
    others, and in {-1, 0, 1}, where it means missing, a warning says so.

    Parameters
    ----------
    component : ``"student-t"`` or ``"gaussian"``, the family of the mixture.
    latent_dim : dimension D of the latent space; None means min(50, L), K - 1 at least (of up to
        200) and else a tenth of the rows at most; from a random start min(50, L).
    hidden : width (or tuple of widths) of the hidden layers; None means one of 2048 below 1,000
        rows, 512 below 2,500, then 1024; from a random start (D + L) / 2.
    activation : ``"tanh"``, ``"relu"``, ``"gelu"`` or ``"silu"``.
    n_samples : Monte Carlo samples T of the reconstruction term.
    scale_floor : sigma^2 in Sigma = C C' + sigma^2 I.
    l1 : weight of the l1 penalty on both networks.
    learning_rate, max_epochs, batch_size, clip_norm : Adam with a per-member gradient norm; the
        step size falls along half a cosine. ``batch_size=None`` grows with the data up to 256.
    joint_weight, label_weight : weights of the joint score and of ln p(author | o) of labelled
        rows. The second is what makes a good classifier; the first is what makes it generative.
    dropout : one rate, or (input, hidden).
    objective : ``"bound"`` (exact) or ``"algorithm-1"`` (the literal published loss).
    warm_up : semi-supervised only: epochs of labelled pre-training; 0 means ``max_epochs``.
    start : ``"logistic"``: hidden layers at random, the last one a logistic regression, components
        by what it answers to held-out rows (:mod:`whowrote.model.logistic`). Such a start answers
        at once and with calibrated probabilities; training leaves it only where the validation rows
        gain, and below 1,000 rows there is none unless ``max_epochs`` is given. ``"scores"``: the
        rows are held-out scores of the classes, a column each in their order; nothing is trained,
        the components stand where the scores put the classes. ``"random"`` are
        random networks, as published. What is None is chosen for the start: see ``RULES``.
    initial_df, df_rate : degrees of freedom nu at the start, and how many times the learning rate
        the steps of ln(nu - 2) are: 10 times 0.002 multiplies nu - 2 by up to 1.02 a step.
    n_members : size of the ensemble; probabilities are averaged, everything that speaks of the
        latent space comes from the leading member (lowest validation loss).
    validation_fraction, patience : early stopping on a stratified part of the labelled rows, of
        20,000 at most, its own for every member; 0 means none, and so does a part of fewer than 20.
    average : decay of the moving average of the parameters that is evaluated and kept; 0 is off.
    projection_dim : wide sparse X is explained through a projection of this width: the encoder
        reads the sparse rows as side information, and the bound is a bound on ln p(projection).
    device : ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``.
    dtype : ``"float32"`` or ``"float64"``.
    random_state : seed; the same seed gives the same model on the CPU, with the same number of
        threads.
    verbose : 1 shows a progress bar on a terminal.
    class_weight : None, ``"balanced"`` (every class counts alike, however many rows it has) or a
        dictionary of classes and weights, 1 where it names none; multiplies ``sample_weight``.
    warm_start : ``fit`` goes on from what was learnt before, with the same classes, columns and
        shape of the networks; scaling and validation rows stay those of the first fit.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(200, centers=3, n_features=4, random_state=0)
    >>> model = MixtureVAEClassifier(max_epochs=20, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.degrees_of_freedom_.shape, model.sample(5, random_state=0).observations.shape
    ((3,), (5, 4))

    """

    classes_: NDArray[Any]

    @classmethod
    def for_generation(cls, **parameters: Any) -> Self:
        """A model to draw new rows from: few latent directions, and no label term to fold them.

        A component a class is fitted to the leading directions of the rows by
        expectation-maximisation, and that is all: training raises the bound and makes draws worse.
        nu stays at 30: learnt, it falls below 5 to explain a few odd rows, and then many draws are
        odder than any row. ``parameters`` replace those of this setting.

        >>> MixtureVAEClassifier.for_generation(latent_dim=5).label_weight
        0.0
        """
        return cls(**{**GENERATION, **parameters})

    def fit(
        self,
        X: Any,
        y: Any = None,
        folds: Any = None,
        *,
        sample_weight: Any = None,
        validation: tuple[Any, Any] | None = None,
        callbacks: Any = None,
    ) -> Self:
        """Learn from labelled rows, and from unlabelled ones where y has no label.

        X is an array, a sparse matrix, or a table that stays in its file: a
        :class:`~whowrote.estimators.VectorTable` or the path of one (Parquet, Arrow, a folder of
        either). Such a table brings y along in a column ``author``. What is held of it is a window
        of 256 MB; up to so many bytes the model is the one that the same rows in memory make.

        ``folds`` gives every row a number from 0 to ``n_members`` - 1: the member of that number
        never learns from the row and stops early by it, so that ``member(i)`` can answer for rows
        of fold i as it will for new ones.

        ``sample_weight`` says how much each row counts in scaling, start, objective and early
        stopping: 2 as two equal rows would (up to the random numbers), 0 as none, exactly.

        ``validation=(X, y)`` are rows that all members stop early by and none learns from, in place
        of ``validation_fraction``.

        ``callbacks``, one callable or several, get the record of each epoch and member as it ends,
        as ``history_`` keeps it. An exception in one of them stops the fit and comes out of it; the
        estimator is then as it was before.
        """
        with all_or_nothing(self):
            checks.one_of("start", self.start, tuple(RULES))
            self._check_parameters()
            X = self._read(X, reset=not self._goes_on)
            labels = self._same_classes(labels_of(X, y))
            weights = row_weights(sample_weight, self.class_weight, labels)
            codes, fold_of = labels.codes, None
            if folds is not None:
                fold_of = self._folds(folds, codes, validation)
            if weights is not None:  # rows that do not count are not there
                counts = weights > 0
                X = X if counts.all() else X[counts]
                codes, weights = codes[counts], weights[counts]
                weights = None if (weights == weights[0]).all() else weights
                fold_of = None if fold_of is None else fold_of[counts]
            k = len(labels.classes)
            fit = self._continued(X.shape[0], k) if self._goes_on else self._start(X, k, weights)
            if not self._goes_on:
                warn_of_far_values(X)
            if self.start == "scores":
                fit.fitted = replace(fit.fitted, scaling=one_unit(X, k))
            fit.callbacks = checks.callbacks_of(callbacks)
            with X.held(self.n_members) if isinstance(X, VectorTable) else nullcontext():
                self._learn(fit, X, codes, weights, fold_of, self._validation(validation, labels))
            self.classes_ = labels.classes
            self._finish(fit, X, weights)
        return self

    def _learn(
        self,
        fit: Fit,
        X: Any,
        codes: IntArray,
        weights: FloatArray | None,
        folds: IntArray | None,
        held_out: tuple[Any, IntArray, FloatArray] | None,
    ) -> None:
        """One phase on the labelled rows, and one on all where some have no label."""
        given = None
        known, rest = numbers_of(codes != UNLABELLED, X), numbers_of(codes == UNLABELLED, X)
        if held_out is not None:
            more, more_codes, more_weights = held_out
            given = len(codes) + np.arange(len(more_codes))
            X, codes = stacked(X, more), np.concatenate([codes, more_codes])
            weights = None if weights is None else np.concatenate([weights, more_weights])
        rows = fit.rows(X, codes, weights)
        epochs = self._epochs(len(known))
        most = min(self.validation_fraction, MOST_VALIDATION_ROWS / len(known))
        fraction = most if epochs else 0.0
        validation = Validation(fraction, folds, given, weights is not None)
        assignment = assign(fit.fitted.fleet, known, codes, validation)
        if isinstance(X, VectorTable):
            assignment = replace(assignment, runs=X.runs(self.n_members))
        self._run_phases(fit, rows, assignment, known, rest)
        unseen = assignment.held_out(known)
        few = min(map(len, unseen)) < LEAST_RANKED_ROWS
        if self.start == "scores":  # the rows were held out when they were scored
            found = fit.fitted.held_out_figures(X, codes, [known] * len(fit.fitted.fleet))
        elif few and folds is None and len(known) >= LEAST_RANKED_ROWS:
            found = self._figures_of_refits(fit, X, rows, known, rest)
        else:
            found = fit.fitted.held_out_figures(X, codes, unseen)
        ranks = HeldOutRanks.learn(found, len(fit.fitted.fleet), pooled=few)
        fit.fitted = replace(fit.fitted, ranks=ranks)
        chosen = folds is None and given is None  # by us, to steer by: now they teach as well
        if fit.stayed and chosen and not len(rest):
            everyone = assign(fit.fitted.fleet, known, codes, Validation())
            initialize_by_regression(fit.fitted.fleet, rows, everyone)

    def _run_phases(
        self, fit: Fit, rows: Rows, assignment: Assignment, known: IntArray, rest: IntArray
    ) -> None:
        """A start, one phase on the labelled rows, and one on all where some have no label."""
        watch = "log-loss" if self._setting("label_weight") >= self.joint_weight else "bound"
        others = torch.as_tensor(rest, device=fit.fitted.device)
        started = not fit.continued and self.start == "logistic"
        if self.start == "scores":
            initialize_by_scores(fit.fitted.fleet, rows, assignment, fit.fitted.scaling.scale[0])
            fit.sound = True
            return
        if started:
            self._begin(fit, rows, assignment.with_rows(others), watch, bool(len(rest)))
            if not any(len(own) for own in assignment.validation):
                return  # nothing says whether training would gain
        elif not fit.continued:
            initialize(fit.fitted.fleet, rows, assignment)
        before = fit.fitted.means.copy()
        if not (started and len(rest)):
            epochs = self.warm_up if len(rest) and self.warm_up else self._setting("max_epochs")
            plan = self._plan(len(known), epochs, watch)
            self._train(fit, rows, assignment, plan, "labelled", stream=0)
        if len(rest):
            everything = assignment.repeated(len(rest)).with_rows(others)
            plan = self._plan(len(known) + len(rest), self._setting("max_epochs"), watch)
            self._train(fit, rows, everything, plan, "everything", stream=1)
        fit.stayed = started and watch == "log-loss" and bool((before == fit.fitted.means).all())

    def _begin(
        self, fit: Fit, rows: Rows, assignment: Assignment, watch: str, unlabelled: bool
    ) -> None:
        """By regression of the labelled rows, then by all rows where that is better."""
        initialize_by_regression(fit.fitted.fleet, rows, assignment)
        fit.sound = True
        if unlabelled or watch == "bound":
            refine(fit.fitted.fleet, rows, assignment, watch)

    @property
    def _by_rule(self) -> Mapping[str, Any]:
        return RULES[self.start]

    def _latent_dim(self, n: int, k: int, n_features: int) -> int:
        """A regression of k classes needs k - 1 dimensions to answer in; few rows bear few more."""
        d = super()._latent_dim(n, k, n_features)
        if self.start == "random" or self.latent_dim is not None:
            return d
        if self.start == "scores":
            return max(1, min(k - 1, MOST_LATENTS))
        return max(min(d, n // 10), min(k - 1, MOST_LATENTS), 1)

    def _hidden_sizes(self, n: int, d: int, n_features: int) -> tuple[int, ...]:
        if self.start == "random" or self.hidden is not None:
            return super()._hidden_sizes(n, d, n_features)
        if self.start == "scores":
            return ()
        return (next(width for rows, width in WIDTHS if n >= rows),)

    def _epochs(self, n: int) -> int:
        """None on few rows that a regression has answered, unless somebody asks for them."""
        if self.start == "scores" or (
            self.max_epochs is None and self.start == "logistic" and n < MANY_ROWS
        ):
            return 0
        return int(self._setting("max_epochs"))

    def _batch_size(self, n: int) -> int:
        if self.start == "random" or self.batch_size is not None:
            return super()._batch_size(n)
        return max(4, min(128, n // 8))

    def _figures_of_refits(
        self, fit: Fit, X: Any, rows: Rows, known: IntArray, rest: IntArray
    ) -> list[OwnFigures]:
        """Figures of labelled rows by models that have not learnt from them, as this one has.

        They are one fleet, with the seeds of the members in turn, and made as these were.
        """
        members, codes = fit.fitted.fleet.members, rows.labels.cpu().numpy()
        n_folds = FOLDS_OF_FEW if len(rest) else FOLDS
        wanted = math.ceil(n_folds * RANKED_ROWS / (len(known) + len(rest)))
        parts = leave_out(codes[known], n_folds, min(n_folds, wanted), members[0].seed)
        train, device = [np.delete(known, part) for part in parts], fit.fitted.device
        # Trained, as many rows make as many steps; in a regression, no row may come twice.
        size = len(known) if self.start == "random" else min(map(len, train))
        train = [np.resize(own, size) for own in train]
        again = [members[number % len(members)] for number in range(len(parts))]
        fleet = MixtureVAE(fit.fitted.fleet.architecture, again, fit.fitted.dtype)
        other = Fit(replace(fit.fitted, fleet=fleet.to(device), leader=0, ranks=None))
        assignment = Assignment(
            tuple(torch.as_tensor(own, device=device) for own in train),
            tuple(torch.as_tensor(known[:0], device=device) for _ in train),
        )
        with listening(lambda stage: None):
            self._run_phases(other, rows, assignment, known, rest)
        return other.fitted.held_out_figures(X, codes, [known[part] for part in parts])

    def _same_classes(self, labels: Labels) -> Labels:
        """The labels, if a model that goes on learning knows their classes."""
        if self._goes_on and labels.classes.tolist() != self.classes_.tolist():
            raise InputError(
                f"y has the classes {labels.classes.tolist()} but warm_start goes on from a model "
                f"of {self.classes_.tolist()}; give rows of these, or set warm_start=False"
            )
        return labels

    def _folds(self, folds: Any, codes: IntArray, validation: Any) -> IntArray:
        if (codes == UNLABELLED).any():
            raise InputError(
                "folds are given and some labels are missing; every member learns from all "
                "unlabelled rows: leave these or the folds out"
            )
        if validation is not None:
            raise InputError(
                "folds and validation are given; every member stops early by its fold or by the "
                "validation rows: leave one of them out"
            )
        return checks.fold_numbers(folds, codes, self.n_members)

    def _validation(
        self, validation: Any, labels: Labels
    ) -> tuple[Any, IntArray, FloatArray] | None:
        """Rows, class numbers and weights of what is validated on."""
        if validation is None:
            return None
        if not (isinstance(validation, (tuple, list)) and len(validation) == 2):
            raise InputError("validation must be a pair (X, y) of rows and their labels")
        rows = self._read(validation[0], reset=False)
        codes = codes_of(validation[1], labels.classes, rows.shape[0])
        alone = Labels(labels.classes, np.concatenate([labels.codes, codes]))
        weights = row_weights(None, self.class_weight, alone)
        return rows, codes, np.ones(len(codes)) if weights is None else weights[-len(codes) :]

    def decision_function(self, X: Any) -> FloatArray:
        """Ln p(author | o), (n, K); of two classes the log odds of the second, (n,)."""
        log_proba = self.predict_log_proba(X)
        return log_proba[:, 1] - log_proba[:, 0] if log_proba.shape[1] == 2 else log_proba

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable author of every row."""
        winners = self.predict_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[winners])

    def sample(self, n_samples: int = 1, author: Any = None, random_state: Any = None) -> Sample:
        """Draw new observations by the generative story, of one author if given."""
        check_is_fitted(self, "fitted_")
        checks.at_least("n_samples", n_samples, 1, integer=True)
        codes = None
        if author is not None:
            if author not in self.classes_.tolist():
                raise InputError(f"author {author!r} is not among {self.classes_.tolist()}")
            codes = np.full(n_samples, int(np.flatnonzero(self.classes_ == author)[0]))
        drawn = self._draw(codes, n_samples, random_state)
        return drawn._replace(classes=self.classes_[drawn.classes])

    def _values(self) -> dict[str, Any]:
        return {**super()._values(), "classes_": [self.classes_.dtype.str, self.classes_.tolist()]}

    def _restore(self, values: dict[str, Any]) -> None:
        dtype, names = values["classes_"]
        self.classes_ = np.array(names, dtype=dtype)
        super()._restore(values)
