r"""One density per class on vectors, Gaussian or Student-t, and Bayes' rule.

.. math:: \log p(k \mid x) = \log \pi_k + \log p_k(x) - \log \sum_j \pi_j\, p_j(x), \qquad
    \Sigma_k = (1 - s)\, S_k + s\, \Psi

.. math:: \log t(x; \mu, \Sigma, \nu) =
    \log\Gamma\tfrac{\nu + d}{2} - \log\Gamma\tfrac{\nu}{2} - \tfrac{d}{2} \log(\nu\pi)
    - \tfrac12 \log|\Sigma| - \tfrac{\nu + d}{2} \log\left(1 + \delta/\nu\right),
    \qquad \delta = (x - \mu)^\top \Sigma^{-1} (x - \mu)

Rows (n, L) and the names of their classes go in; log-probabilities and log densities come out.
Every class has its own scale matrix :math:`\Sigma_k`, drawn towards a target :math:`\Psi` that all
classes share. With *s* = 0 the Gaussians make quadratic, with *s* = 1 linear discriminant analysis
(but for the shrinkage inside :math:`\Psi`, see :func:`shared_scale`). For the Student-t,
:math:`S_k` is the weighted scatter of EM and the mixing is exactly the posterior mode under an
inverse-Wishart prior of weight :math:`\kappa = n_k s/(1 - s)`, so that EM still climbs.

The t is a Gaussian whose precision is itself drawn from a Gamma. EM weighs each row by its expected
precision :math:`u = (\nu + d)/(\nu + \delta)`, so that outliers count little; :math:`\nu` then
maximises the true likelihood at the new :math:`\mu, \Sigma` (ECME: Liu and Rubin, 1995), which
makes every round climb.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.covariance import ledoit_wolf
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from whowrote.arrays import FloatArray
from whowrote.baselines.classic import encode
from whowrote.checks import computable
from whowrote.errors import InputError


# The model has this density too (model/distributions.py), in torch, differentiable and batched. EM
# needs neither, and a baseline that shared the model's code could share its mistakes.
@dataclass(frozen=True)
class Component:
    """Location, lower Cholesky factor of the scale matrix, and degrees of freedom.

    ``nu`` is infinite for a Gaussian: the limit of the Student-t.
    """

    location: FloatArray
    cholesky: FloatArray
    nu: float = np.inf

    @property
    def scale(self) -> FloatArray:
        """The scale matrix; for a Gaussian the covariance."""
        return np.asarray(self.cholesky @ self.cholesky.T)

    def log_density(self, X: FloatArray) -> FloatArray:
        """Log density of each row.

        >>> round(float(Component(np.zeros(1), np.eye(1), 1.0).log_density(np.zeros((1, 1)))[0]), 6)
        -1.14473
        """
        log_det = 2.0 * float(np.log(np.diag(self.cholesky)).sum())
        distance = squared_distance(X, self.location, self.cholesky)
        return _log_kernel(distance, X.shape[1], self.nu) - 0.5 * log_det


@dataclass(frozen=True)
class Fit:
    """A fitted component and the penalised log-likelihood after each round of EM."""

    component: Component
    history: tuple[float, ...]


def factor(scale: FloatArray) -> FloatArray:
    """Lower Cholesky factor, or a sentence on why there is none."""
    try:
        return np.asarray(cholesky(scale, lower=True))
    except LinAlgError as problem:
        raise InputError(
            f"the scale matrix of {len(scale)} columns is not positive definite; a class needs "
            "more rows than columns or shrinkage above 0: raise shrinkage or drop constant columns"
        ) from problem


def squared_distance(X: FloatArray, location: FloatArray, lower: FloatArray) -> FloatArray:
    """Squared Mahalanobis distance of each row from the location."""
    solved = solve_triangular(lower, (X - location).T, lower=True)
    return np.asarray((solved * solved).sum(axis=0))


def fit_student_t(
    X: FloatArray,
    target: FloatArray,
    *,
    shrinkage: float = 0.0,
    nu: float | None = None,
    nu_bounds: tuple[float, float] = (1.0, 200.0),
    max_iter: int = 500,
    tol: float = 1e-6,
) -> Fit:
    """EM from the rows' mean and shrunk covariance; ``nu=None`` learns the degrees of freedom."""
    location = X.mean(axis=0)
    centered = X - location
    lower = factor(_shrink(centered.T @ centered / len(X), target, shrinkage))
    learnt = nu is None
    component = Component(location, lower, 10.0 if nu is None else nu)
    history: list[float] = []
    for _ in range(max_iter):
        component = _step(component, X, target, shrinkage)
        if learnt:
            component = _with_best_nu(component, X, nu_bounds)
        history.append(_objective(component, X, target, shrinkage))
        if len(history) > 1 and history[-1] - history[-2] < tol * len(X):
            return Fit(component, tuple(history))
    warnings.warn(
        f"EM stopped after max_iter={max_iter} rounds and still climbs; raise max_iter or tol",
        ConvergenceWarning,
        stacklevel=2,
    )
    return Fit(component, tuple(history))


def _step(now: Component, X: FloatArray, target: FloatArray, shrinkage: float) -> Component:
    """One E-step and one M-step for location and scale."""
    distance = squared_distance(X, now.location, now.cholesky)
    weights = (now.nu + X.shape[1]) / (now.nu + distance)
    location = weights @ X / weights.sum()
    centered = X - location
    scatter = (centered.T * weights) @ centered / len(X)
    return Component(location, factor(_shrink(scatter, target, shrinkage)), now.nu)


def _with_best_nu(now: Component, X: FloatArray, bounds: tuple[float, float]) -> Component:
    """Maximise the likelihood over log nu; keep the present nu if the search finds no better."""
    distance = squared_distance(X, now.location, now.cholesky)

    def loss(log_nu: float) -> float:
        return -float(_log_kernel(distance, X.shape[1], float(np.exp(log_nu))).sum())

    found = minimize_scalar(loss, bounds=(np.log(bounds[0]), np.log(bounds[1])), method="bounded")
    if bounds[0] <= now.nu <= bounds[1] and loss(float(np.log(now.nu))) < found.fun:
        return now
    return Component(now.location, now.cholesky, float(np.exp(found.x)))


def _objective(now: Component, X: FloatArray, target: FloatArray, shrinkage: float) -> float:
    """Log-likelihood plus the log of the inverse-Wishart prior, up to constants."""
    likelihood = float(now.log_density(X).sum())
    if shrinkage in (0.0, 1.0):
        return likelihood
    weight = len(X) * shrinkage / (1.0 - shrinkage)
    half = solve_triangular(now.cholesky, target, lower=True)
    trace = float(np.trace(solve_triangular(now.cholesky.T, half, lower=False)))
    log_det = 2.0 * float(np.log(np.diag(now.cholesky)).sum())
    return likelihood - 0.5 * weight * (log_det + trace)


def _shrink(scatter: FloatArray, target: FloatArray, shrinkage: float) -> FloatArray:
    return (1.0 - shrinkage) * scatter + shrinkage * target


def _log_kernel(distance: FloatArray, d: int, nu: float) -> FloatArray:
    """Log density but for the determinant."""
    if np.isinf(nu):
        return np.asarray(-0.5 * (d * np.log(2.0 * np.pi) + distance))
    constant = gammaln((nu + d) / 2.0) - gammaln(nu / 2.0) - d / 2.0 * np.log(nu * np.pi)
    return np.asarray(constant - (nu + d) / 2.0 * np.log1p(distance / nu))


TARGETS = ("tied", "diagonal", "identity")


def shared_scale(centered: FloatArray, target: str) -> FloatArray:
    """The matrix that all classes share, from rows that have lost their class's mean.

    "tied" is the pooled covariance, its correlations by Ledoit and Wolf: positive definite with any
    number of rows, and as indifferent to the units of a column as the model is; "diagonal" is the
    pooled variance of each column; "identity" the mean variance in every direction.
    """
    variance = np.mean(centered**2, axis=0)
    if target == "identity":
        return np.asarray(variance.mean() * np.eye(len(variance)))
    if target == "diagonal":
        return np.diag(variance)
    units = np.sqrt(np.where(variance > 0.0, variance, 1.0))
    correlation = ledoit_wolf(centered / units, assume_centered=True)[0]
    return np.asarray(correlation * np.outer(units, units))


class _ComponentPerClass(ClassifierMixin, BaseEstimator):
    """A component per class, the classes' shares, and Bayes' rule in log space."""

    shrinkage: float
    target: str

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit one component to the rows of each class."""
        rows, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite=False)
        computable(rows)
        self._check_settings()
        labels = encode(y)
        self.classes_, codes = labels.classes, labels.codes
        counts = np.bincount(codes)
        means = np.stack([rows[codes == k].mean(axis=0) for k in range(len(counts))])
        with threadpool_limits(limits=1, user_api="blas"):  # small matrices: threads only wait
            scale = shared_scale(rows - means[codes], self.target)
            fits = [self._fit_class(rows[codes == k], scale) for k in range(len(counts))]
        self.log_priors_ = np.log(counts / counts.sum())
        self.components_ = tuple(fit.component for fit in fits)
        self.history_ = tuple(fit.history for fit in fits)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Name the most probable class."""
        best = self.predict_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Log-probabilities, one column per class of ``classes_``."""
        joint = self.log_density(X) + self.log_priors_
        return np.asarray(log_softmax(joint, axis=1), dtype=np.float64)

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Probabilities, one column per class of ``classes_``."""
        return np.exp(self.predict_log_proba(X))

    def log_density(self, X: ArrayLike) -> FloatArray:
        """Log density of each row under each class: small under all of them is 'none of these'."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite=False)
        computable(rows)
        return np.stack([part.log_density(rows) for part in self.components_], axis=1)

    def _fit_class(self, X: FloatArray, scale: FloatArray) -> Fit:
        raise NotImplementedError

    def _check_settings(self) -> None:
        if not 0.0 <= self.shrinkage <= 1.0:
            raise InputError(
                f"shrinkage is {self.shrinkage!r}; it must lie between 0 (each class its own "
                "scale) and 1 (the shared scale): give 0.5"
            )
        if self.target not in TARGETS:
            raise InputError(
                f"target is {self.target!r}; it must be one of {', '.join(TARGETS)}: give 'tied'"
            )


class GaussianMixtureClassifier(_ComponentPerClass):
    """One Gaussian per class: from quadratic (``shrinkage=0``) to linear (1) discriminant analysis.

    >>> X = [[0.0], [0.2], [0.1], [1.0], [1.2], [1.1]]
    >>> model = GaussianMixtureClassifier().fit(X, ["ann"] * 3 + ["bob"] * 3)
    >>> model.predict([[0.0], [1.3]]).tolist()
    ['ann', 'bob']
    """

    def __init__(self, *, shrinkage: float = 0.5, target: str = "tied") -> None:
        self.shrinkage = shrinkage
        self.target = target

    def _fit_class(self, X: FloatArray, scale: FloatArray) -> Fit:
        centered = X - X.mean(axis=0)
        mixed = _shrink(centered.T @ centered / len(X), scale, self.shrinkage)
        component = Component(X.mean(axis=0), factor(mixed))
        return Fit(component, (float(component.log_density(X).sum()),))


class StudentTMixtureClassifier(_ComponentPerClass):
    """One multivariate Student-t per class, degrees of freedom learnt, or fixed by ``nu``.

    Large ``nu`` is the Gaussian; small ``nu`` says that an author now and then writes quite unlike
    themselves. ``history_`` holds each class's penalised log-likelihood after every round of EM.

    >>> X = [[0.0], [0.2], [0.1], [1.0], [1.2], [1.1]]
    >>> model = StudentTMixtureClassifier().fit(X, ["ann"] * 3 + ["bob"] * 3)
    >>> model.predict([[0.0], [1.3]]).tolist()
    ['ann', 'bob']
    """

    def __init__(
        self,
        *,
        shrinkage: float = 0.5,
        target: str = "tied",
        nu: float | None = None,
        nu_bounds: tuple[float, float] = (1.0, 200.0),
        max_iter: int = 500,
        tol: float = 1e-6,
    ) -> None:
        self.shrinkage = shrinkage
        self.target = target
        self.nu = nu
        self.nu_bounds = nu_bounds
        self.max_iter = max_iter
        self.tol = tol

    @property
    def n_iter_(self) -> int:
        """Rounds of EM that the slowest class took."""
        check_is_fitted(self)
        return max(len(history) for history in self.history_)

    @property
    def nu_(self) -> FloatArray:
        """Degrees of freedom of each class."""
        check_is_fitted(self)
        return np.array([component.nu for component in self.components_])

    def _fit_class(self, X: FloatArray, scale: FloatArray) -> Fit:
        return fit_student_t(
            X,
            scale,
            shrinkage=self.shrinkage,
            nu=self.nu,
            nu_bounds=self.nu_bounds,
            max_iter=self.max_iter,
            tol=self.tol,
        )

    def _check_settings(self) -> None:
        super()._check_settings()
        low, high = self.nu_bounds
        if not 0.0 < low < high:
            raise InputError(
                f"nu_bounds is {self.nu_bounds!r}; the bounds must be positive and rising: give "
                "(1.0, 200.0)"
            )
        if self.nu is not None and not self.nu > 0.0:
            raise InputError(
                f"nu is {self.nu!r}; degrees of freedom must be above 0: give None to learn them"
            )
