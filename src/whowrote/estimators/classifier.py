r"""Attribution: a classifier whose classes are the components of the mixture.

.. math:: p(\mathrm{author} = k \mid o) = \gamma_k
    = \mathrm{softmax}_k\, \mathrm{score}_k(q(x \mid o))

``None``, NaN and ``pandas.NA`` say that a label is missing. So does -1 among integers, as in
scikit-learn's ``LabelSpreading``, where the other labels are at least two and none is negative: in
{-1, +1} and in {-2, -1, 0} it is a class like the others, and in {-1, 0, 1}, which can be read both
ways, it is missing and a :class:`~whowrote.errors.DataWarning` says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from whowrote import checks, private
from whowrote.arrays import FloatArray, IntArray
from whowrote.errors import DataWarning, InputError, did_you_mean
from whowrote.estimators.base import MixtureVAEBase, all_or_nothing
from whowrote.estimators.fitted_classifier import Fit, Sample
from whowrote.estimators.scaling import stacked
from whowrote.model.fleet import UNLABELLED
from whowrote.training import Validation, assign, initialize, initialize_by_ridge, refine

GENERATION = {
    "start": "ridge",
    "latent_dim": 15,
    "hidden": 256,
    "initial_df": 30.0,
    "df_rate": 0.01,
    "label_weight": 0.0,
    "dropout": 0.0,
}
"""Parameters of a model that is to generate."""


class MixtureVAEClassifier(ClassifierMixin, MixtureVAEBase):
    """A variational autoencoder with a Student-t (or Gaussian) component per class.

    Supervised when every row has a label; semi-supervised when some labels are missing: then it
    learns from the labelled rows first and from all rows afterwards, of which the labelled ones are
    half of every step; from a ridge start, all rows move it where hidden labels gain. Missing is
    ``None``, NaN or ``pandas.NA``, and ``-1`` among integers as in scikit-learn's
    ``LabelSpreading``; in {-1, +1}, and beside other negative numbers, -1 is a class like the
    others, and in {-1, 0, 1}, where it means missing, a warning says so.

    Parameters
    ----------
    component : ``"student-t"`` or ``"gaussian"``, the family of the mixture.
    latent_dim : dimension D of the latent space; None means min(50, L).
    hidden : width (or tuple of widths) of the hidden layers; None means one of (D + L) / 2.
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
    start : ``"random"`` networks, or ``"ridge"``: hidden layers at random, the rest in closed form
        (:mod:`whowrote.model.ridge`). Such a start answers at once and with calibrated
        probabilities; training leaves it only where the validation rows gain, and without any
        (fewer than 20) it stays. Give ``hidden=256`` with it.
    initial_df, df_rate : degrees of freedom nu at the start, and how many times the learning rate
        the steps of ln(nu - 2) are: 10 times 0.002 multiplies nu - 2 by up to 1.02 a step.
    n_members : size of the ensemble; probabilities are averaged, everything that speaks of the
        latent space comes from the leading member (lowest validation loss).
    validation_fraction, patience : early stopping on a stratified part of the labelled rows, its
        own for every member; 0 means none, and so does a part of fewer than 20 rows.
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

        A component a class is fitted in closed form to the leading directions of the rows, and
        training maximises the joint bound, by which it also stops early. nu stays near 30: learnt,
        it falls below 5 to explain a few odd rows, and then many draws are odder than any row.
        ``parameters`` replace those of this setting.

        >>> MixtureVAEClassifier.for_generation(latent_dim=5).label_weight
        0.0
        """
        return cls(**{**GENERATION, **parameters})

    def fit(
        self,
        X: Any,
        y: Any,
        folds: Any = None,
        *,
        sample_weight: Any = None,
        validation: tuple[Any, Any] | None = None,
        callbacks: Any = None,
    ) -> Self:
        """Learn from labelled rows, and from unlabelled ones where y has no label.

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
            self._check_parameters()
            checks.one_of("start", self.start, ("random", "ridge"))
            X = self._read(X, reset=not self._goes_on)
            labels = self._same_classes(read_labels(y, X.shape[0]))
            weights = row_weights(sample_weight, self.class_weight, labels)
            codes, fold_of = labels.codes, None
            if folds is not None:
                fold_of = self._folds(folds, codes, validation)
            if weights is not None:  # rows that do not count are not there
                counts = weights > 0
                X, codes, weights = X[counts], codes[counts], weights[counts]
                weights = None if (weights == weights[0]).all() else weights
                fold_of = None if fold_of is None else fold_of[counts]
            k = len(labels.classes)
            fit = self._continued(k) if self._goes_on else self._start(X, k, weights)
            fit.callbacks = checks.callbacks_of(callbacks)
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
        n, given = len(codes), None
        known, rest = np.flatnonzero(codes != UNLABELLED), np.flatnonzero(codes == UNLABELLED)
        if held_out is not None:
            more, more_codes, more_weights = held_out
            given = n + np.arange(len(more_codes))
            X, codes = stacked(X, more), np.concatenate([codes, more_codes])
            weights = None if weights is None else np.concatenate([weights, more_weights])
        rows = fit.rows(X, codes, weights)
        validation = Validation(self.validation_fraction, folds, given, weights is not None)
        assignment = assign(fit.fitted.fleet, known, codes, validation)
        watch = "log-loss" if self.label_weight >= self.joint_weight else "bound"
        others = torch.as_tensor(rest, device=fit.fitted.device)
        started = not fit.earlier and self.start == "ridge"  # in closed form
        if started:
            all_rows = assignment.with_rows(others)
            initialize_by_ridge(fit.fitted.fleet, rows, all_rows)
            fit.sound = True
            if len(rest) or watch == "bound":
                refine(fit.fitted.fleet, rows, all_rows, watch)
            if not any(len(own) for own in assignment.validation):
                return  # nothing says whether training would gain
        elif not fit.earlier:
            initialize(fit.fitted.fleet, rows, assignment)
        if not (started and len(rest)):
            epochs = self.warm_up if len(rest) and self.warm_up else self.max_epochs
            plan = self._plan(len(known), epochs, watch)
            self._train(fit, rows, assignment, plan, "labelled", stream=0)
        if len(rest):
            everything = assignment.repeated(len(rest)).with_rows(others)
            plan = self._plan(n, self.max_epochs, watch)
            self._train(fit, rows, everything, plan, "everything", stream=1)

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


# -- labels --------------------------------------------------------------------------------------


class Labels(NamedTuple):
    """The classes of y in order, and the class number of every row, -1 where it is unknown."""

    classes: NDArray[Any]
    codes: IntArray


def read_labels(y: Any, n_rows: int) -> Labels:
    """Labels of ``n_rows`` rows, of at least two classes.

    >>> read_labels(["b", None, "a", "b"], 4).codes.tolist()
    [1, -1, 0, 1]
    """
    if y is None:
        raise InputError(
            "requires y to be passed, but the target y is None: give an author per row, or use "
            "MixtureVAEClusterer, which needs none"
        )
    y = _checked(y)
    if len(y) != n_rows:
        raise InputError(
            f"X and y have inconsistent numbers of samples, {n_rows} rows and {len(y)} labels; "
            "give one label per row"
        )
    unknown = unlabelled(y)
    if unknown.all():
        raise InputError(
            f"all {len(y)} labels are missing; label some rows or use MixtureVAEClusterer"
        )
    named = np.array(y[~unknown].tolist()) if y.dtype == object else y[~unknown]
    check_classification_targets(named)
    classes, own, counts = np.unique(named, return_inverse=True, return_counts=True)
    checks.two_classes(classes)
    if not unknown.any():
        checks.two_rows_each(classes, counts)
    codes = np.full(len(y), UNLABELLED, dtype=np.int64)
    codes[~unknown] = own
    return Labels(classes, codes)


def unlabelled(y: NDArray[Any]) -> NDArray[np.bool_]:
    """None, NaN or NA among names; -1 among integers of which two or more others are not negative.

    >>> unlabelled(np.array(["a", None], dtype=object)), unlabelled(np.array([0, 7, -1]))
    (array([False,  True]), array([False, False,  True]))
    >>> unlabelled(np.array([1, -1])), unlabelled(np.array([-2, -1, 0]))
    (array([False, False]), array([False, False, False]))
    """
    missing = np.zeros(len(y), dtype=bool)
    if y.dtype == object:
        missing = np.array([_is_missing(name) for name in y], dtype=bool)
        if not all(isinstance(name, Integral) for name in y[~missing]):
            return missing
    elif not np.issubdtype(y.dtype, np.signedinteger):
        return missing
    missing[~missing] = _means_unlabelled(y[~missing].astype(np.int64))
    return missing


def _is_missing(name: Any) -> bool:
    try:
        return name is None or bool(name != name)
    except TypeError:  # pandas.NA is neither equal to itself nor not
        return True


def _means_unlabelled(numbers: IntArray) -> NDArray[np.bool_]:
    """Which of these whole numbers are a -1 that means a missing label."""
    found: NDArray[np.bool_] = numbers == UNLABELLED
    others = np.unique(numbers[~found]).tolist()
    if len(others) == 1 or (others and others[0] < 0):
        return np.zeros_like(found)
    if found.any() and others == [0, 1]:
        warnings.warn(
            f"y has the values -1, 0 and 1: the {int(found.sum())} rows of -1 are taken as "
            "unlabelled, not as a class; for three classes give names, y.astype(str), and for "
            "unlabelled rows without this warning None, np.where(y == -1, None, y)",
            DataWarning,
            stacklevel=5,  # where fit was called
        )
    return found


def _checked(y: Any) -> NDArray[Any]:
    """One column; objects as they are, so that what is missing can be told from a name."""
    if hasattr(y, "isna") and not isinstance(y.dtype, np.dtype):
        y = y.astype(object)  # pandas would turn an NA among its own integers into a float
    as_array = np.asarray(y)
    if as_array.dtype.kind == "U" and isinstance(y, (list, tuple)):
        as_array = np.array(y, dtype=object)  # numpy would turn a NaN among names into "nan"
    if as_array.dtype == object and as_array.ndim == 1:
        return as_array
    return np.asarray(private.checked_y(y))


def codes_of(y: Any, classes: NDArray[Any], n_rows: int) -> IntArray:
    """The class numbers of validation rows, each of which must have a class that was learnt."""
    y = _checked(y)
    if len(y) != n_rows:
        raise InputError(
            f"validation has {n_rows} rows and {len(y)} labels; give one label per row"
        )
    number = {name: code for code, name in enumerate(classes.tolist())}
    for row, name in enumerate(y.tolist()):
        if _is_missing(name) or name not in number:
            raise InputError(
                f"row {row} of validation has the label {name!r}, which is not among the classes "
                f"{classes.tolist()} of y; leave the row out"
            )
    return np.array([number[name] for name in y.tolist()], dtype=np.int64)


# -- weights -------------------------------------------------------------------------------------


def row_weights(sample_weight: Any, class_weight: Any, labels: Labels) -> FloatArray | None:
    r"""How much every row counts, :math:`w_n = s_n c_{y_n}`; None where all count alike.

    ``"balanced"`` is :math:`c_k = \sum_n s_n / (K \sum_{n: y_n = k} s_n)` over labelled rows. The
    unlabelled have no class weight. A class of which no row counts cannot be learnt and is refused.
    """
    if sample_weight is None and class_weight is None:
        return None
    codes = labels.codes
    weights = _sample_weights(sample_weight, len(codes))
    known = codes != UNLABELLED
    counts: FloatArray = np.zeros(len(labels.classes))
    np.add.at(counts, codes[known], weights[known])
    if class_weight is not None:
        by_class = _class_weights(class_weight, labels.classes, counts)
        weights[known] *= by_class[codes[known]]
        counts = counts * by_class
    if not counts.all():
        lost = labels.classes.tolist()[int(np.argmin(counts))]
        raise InputError(
            f"all rows of class {lost!r} have zero weight; a class is learnt from rows that count: "
            "give one of them a weight above 0 or leave the class out"
        )
    return weights


def _sample_weights(sample_weight: Any, n_rows: int) -> FloatArray:
    if sample_weight is None:
        return np.ones(n_rows)
    weights = np.array(sample_weight, dtype=np.float64)
    weights = np.full(n_rows, weights) if weights.ndim == 0 else weights
    if weights.shape != (n_rows,):
        raise InputError(
            f"sample_weight has the shape {weights.shape}; it must be one number for each of "
            f"{n_rows} rows"
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"sample_weight is {weights[row]:g} in row {row}; weights must be finite and at least "
            "0, which leaves a row out"
        )
    if not weights.any():
        raise InputError(f"all {n_rows} sample weights are zero; give some rows a weight above 0")
    return weights


def _class_weights(class_weight: Any, classes: NDArray[Any], counts: FloatArray) -> FloatArray:
    """The weight of every class, from ``"balanced"`` or a dictionary; 1 where it names none."""
    names = classes.tolist()
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(counts.sum() / (len(names) * np.where(counts > 0, counts, 1)))
    if not isinstance(class_weight, Mapping):
        raise InputError(
            f"class_weight is {class_weight!r}; it must be None, 'balanced' or a dictionary of "
            "classes and their weights"
        )
    for name, weight in class_weight.items():
        if name not in names:
            hint = did_you_mean(str(name), [str(one) for one in names])
            raise InputError(f"class_weight names {name!r}, which is not among {names}{hint}")
        checks.at_least(f"class_weight of {name!r}", weight, 0)
    return np.array([float(class_weight.get(name, 1.0)) for name in names])
