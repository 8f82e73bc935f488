r"""Attribution: a classifier whose classes are the components of the mixture.

.. math:: p(\mathrm{author} = k \mid o) = \gamma_k
    = \mathrm{softmax}_k\, \mathrm{score}_k(q(x \mid o))
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from whowrote import checks
from whowrote.errors import InputError
from whowrote.estimators.base import MixtureVAEBase
from whowrote.estimators.fitted_classifier import Sample
from whowrote.estimators.labels import read_labels
from whowrote.model.fleet import UNLABELLED
from whowrote.training import initialize


class MixtureVAEClassifier(ClassifierMixin, MixtureVAEBase):
    """A variational autoencoder with a Student-t (or Gaussian) component per class.

    Supervised when every row has a label; semi-supervised when some labels are missing: then it
    learns from the labelled rows first and from all rows afterwards. Missing is ``None``, NaN or
    ``pandas.NA``, and ``-1`` among integers as in scikit-learn's ``LabelSpreading``; in {-1, +1},
    and beside other negative numbers, -1 is a class like the others, and in {-1, 0, 1}, where it
    means missing, a warning says so.

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
        X = self._read(X, reset=True)
        self.classes_, labels = read_labels(y, X.shape[0])
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
        initialize(fit.fitted.fleet, rows, assignment)
        semi = len(known) < len(labels)
        epochs = self.warm_up if semi and self.warm_up else self.max_epochs
        plan = self._plan(len(known), epochs, "log-loss")
        self._train(fit, rows, assignment, plan, "labelled", stream=0)
        if semi:
            rest = torch.as_tensor(np.flatnonzero(labels == UNLABELLED), device=fit.fitted.device)
            everything = assignment.with_rows(rest)
            plan = self._plan(len(labels), self.max_epochs, "log-loss")
            self._train(fit, rows, everything, plan, "everything", stream=1)
        self._finish(fit)
        return self

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
