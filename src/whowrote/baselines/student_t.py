r"""The multivariate Student-t: density, and maximum likelihood by EM.

.. math:: \log t(x; \mu, \Sigma, \nu) =
    \log\Gamma\tfrac{\nu + d}{2} - \log\Gamma\tfrac{\nu}{2} - \tfrac{d}{2} \log(\nu\pi)
    - \tfrac12 \log|\Sigma| - \tfrac{\nu + d}{2} \log\left(1 + \delta/\nu\right),
    \qquad \delta = (x - \mu)^\top \Sigma^{-1} (x - \mu)

The t is a Gaussian whose precision is itself drawn from a Gamma. EM weighs each row by its expected
precision :math:`u = (\nu + d)/(\nu + \delta)`, so that outliers count little; :math:`\nu` then
maximises the true likelihood at the new :math:`\mu, \Sigma` (ECME: Liu and Rubin, 1995), which
makes every round climb.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from sklearn.exceptions import ConvergenceWarning

from whowrote.errors import InputError

FloatArray = NDArray[np.float64]


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
