r"""Attribution: a classifier whose classes are the components of the mixture.

.. math:: p(\mathrm{author} = k \mid o) = \gamma_k
    = \mathrm{softmax}_k\, \mathrm{score}_k(q(x \mid o))
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from whowrote import checks, private
from whowrote.errors import InputError
from whowrote.estimators.base import Fit, MixtureVAEBase
from whowrote.estimators.fitted_classifier import Sample
from whowrote.model import Rows
from whowrote.model.fleet import UNLABELLED
from whowrote.training import Assignment, initialize, initialize_by_ridge


class MixtureVAEClassifier(ClassifierMixin, MixtureVAEBase):
    """A variational autoencoder with a Student-t (or Gaussian) component per class.

    Supervised when every row has a label; semi-supervised when some labels are ``None`` (names) or
    ``-1`` (integers): then it learns from the labelled rows first and from all rows afterwards.

    Parameters
    ----------
    component : ``"student-t"`` or ``"gaussian"``, the family of the mixture (``FAMILIES``).
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
    initial_df, df_rate : degrees of freedom at the start, and how many times the learning rate
        they learn with; 1 is the published way, in which they hardly leave their start.
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

    def fit(self, X: Any, y: Any, folds: Any = None) -> Self:
        """Learn from labelled rows, and from unlabelled ones where y is None or -1.

        ``folds`` gives every row a number from 0 to ``n_members`` - 1: the member of that number
        never learns from the row and stops early by it, so that ``member(i)`` can answer for rows
        of fold i as it will for new ones.
        """
        self._check_parameters()
        checks.one_of("start", self.start, ("random", "ridge"))
        X = self._read(X, reset=True)
        labels = self._codes(y, X.shape[0])
        if folds is not None and (labels == UNLABELLED).any():
            raise InputError(
                "folds are given and some labels are missing; every member learns from all "
                "unlabelled rows: leave these or the folds out"
            )
        fold_of = None if folds is None else checks.fold_numbers(folds, labels, self.n_members)
        fit = self._start(X, len(self.classes_))
        rows = fit.rows(X, labels)
        known = np.flatnonzero(labels != UNLABELLED)
        assignment = self._assign(fit, known, labels, fold_of)
        self._initialize(fit, rows, assignment)
        semi = len(known) < len(labels)
        epochs = self.warm_up if semi and self.warm_up else self.max_epochs
        plan = self._plan(len(known), epochs, "log-loss")
        if not fit.sound or any(len(held_out) for held_out in assignment.validation):
            self._train(fit, rows, assignment, plan, "labelled", stream=0)
        if semi:
            rest = torch.as_tensor(np.flatnonzero(labels == UNLABELLED), device=fit.fitted.device)
            everything = assignment.with_rows(rest)
            plan = self._plan(len(labels), self.max_epochs, "log-loss")
            self._train(fit, rows, everything, plan, "everything", stream=1)
        self._finish(fit)
        return self

    def _initialize(self, fit: Fit, rows: Rows, assignment: Assignment) -> None:
        """Networks and components to begin with; in closed form they are a model already."""
        begin = initialize if self.start == "random" else initialize_by_ridge
        begin(fit.fitted.fleet, rows, assignment)
        fit.sound = self.start == "ridge"

    def _codes(self, y: Any, n_rows: int) -> NDArray[np.int64]:
        """Labels as class numbers, -1 where unknown; sets ``classes_``."""
        if y is None:
            raise InputError(
                "requires y to be passed, but the target y is None: give an author per row, or use "
                "MixtureVAEClusterer, which needs none"
            )
        y = _check_y_keeping_none(y)
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
        self.classes_, codes, counts = np.unique(named, return_inverse=True, return_counts=True)
        checks.two_classes(self.classes_)
        if not unknown.any():
            checks.two_rows_each(self.classes_, counts)
        labels = np.full(len(y), UNLABELLED, dtype=np.int64)
        labels[~unknown] = codes
        return labels

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


def unlabelled(y: NDArray[Any]) -> NDArray[np.bool_]:
    """None or NaN among names, -1 among integers.

    >>> unlabelled(np.array(["a", None], dtype=object)), unlabelled(np.array([0, -1]))
    (array([False,  True]), array([False,  True]))
    """
    if y.dtype == object:
        missing = np.array([name is None or name != name for name in y], dtype=bool)
        integers = all(isinstance(name, Integral) for name in y[~missing])
        return missing | (y == UNLABELLED) if integers else missing
    if np.issubdtype(y.dtype, np.signedinteger):
        return np.asarray(y == UNLABELLED)
    return np.zeros(len(y), dtype=bool)


def _check_y_keeping_none(y: Any) -> NDArray[Any]:
    as_array = np.asarray(y)
    if as_array.dtype.kind == "U" and isinstance(y, (list, tuple)):
        as_array = np.array(y, dtype=object)  # numpy would turn a NaN among names into "nan"
    if as_array.dtype == object and as_array.ndim == 1:
        return as_array
    return np.asarray(private.checked_y(y))
