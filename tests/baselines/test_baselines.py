from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import estimator_checks_generator

import contract
from whowrote.baselines import (
    RBFSVM,
    BurrowsDelta,
    GaussianMixtureClassifier,
    LinearSVM,
    NGramSVM,
    StudentTMixtureClassifier,
)
from whowrote.baselines.classic import cross_scores, fit_temperature, log_probabilities
from whowrote.baselines.densities import Component, factor, fit_student_t, shared_scale
from whowrote.errors import InputError
from whowrote.features import NGrams

VECTOR_MODELS = [LinearSVM, RBFSVM, GaussianMixtureClassifier, StudentTMixtureClassifier]
TEXT_MODELS = [NGramSVM, BurrowsDelta]


def vectors(n: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    centers = np.array([[0.0, 0.0, 0.0, 0.0], [2.0, 0.0, 1.0, 0.0], [0.0, 2.0, 0.0, 1.0]])
    return centers[y] + rng.standard_normal((n, 4)), np.array(["ann", "bob", "cyd"])[y]


HABITS = {
    "ann": "indeed, moreover; I should think that perhaps the very idea of it is quite so",
    "bob": "ok so like we went there and it was great!! no idea why, lol, anyway the end",
    "cyd": "The report states: item one, item two. See section 4 of the annex for the data",
}


def texts(n: int = 15, words: int = 60, seed: int = 0) -> tuple[list[str], list[str]]:
    rng = np.random.default_rng(seed)
    names = [("ann", "bob", "cyd")[row % 3] for row in range(n)]
    return [" ".join(rng.choice(HABITS[name].split(), words)) for name in names], names


# The contract


@pytest.mark.parametrize("model", VECTOR_MODELS)
def test_contract_on_vectors(model: Any) -> None:
    contract.check_contract(model, *vectors())


@pytest.mark.parametrize("model", TEXT_MODELS)
def test_contract_on_texts(model: Any) -> None:
    contract.check_contract(model, *texts())


class Liar(ClassifierMixin, BaseEstimator):
    """Answers the least probable class: the contract must notice."""

    def fit(self, X: Any, y: Any) -> "Liar":
        self.model_ = GaussianMixtureClassifier().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.model_.predict_proba(X)

    def predict_log_proba(self, X: Any) -> Any:
        return self.model_.predict_log_proba(X)

    def predict(self, X: Any) -> Any:
        return self.classes_[self.predict_proba(X).argmin(axis=1)]


def test_the_contract_notices_a_liar() -> None:
    with pytest.raises(AssertionError):
        contract.check_probabilities(Liar, *vectors())
    with pytest.raises(AssertionError):
        contract.check_beats_chance(Liar, *vectors())


def scikit_learn_checks() -> list[Any]:
    return [
        pytest.param(estimator, check, id=f"{type(estimator).__name__}-{check.func.__name__}")
        for model in VECTOR_MODELS
        for estimator, check in estimator_checks_generator(model())
    ]


@pytest.mark.parametrize(("estimator", "check"), scikit_learn_checks())
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# Temperature


def test_temperature_is_recovered() -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(20_000, 4))
    cumulative = np.exp(log_probabilities(scores, 0.4)).cumsum(axis=1)
    codes = (rng.random((len(scores), 1)) > cumulative).sum(axis=1)
    assert fit_temperature(scores, codes) == pytest.approx(0.4, rel=0.03)
    wrong = fit_temperature(scores, rng.permutation(codes))
    assert wrong > 4.0


def test_a_few_right_answers_are_not_certainty() -> None:
    scores, codes = 100.0 * np.eye(3)[[0, 1, 2] * 2], np.array([0, 1, 2] * 2)
    sure = np.exp(log_probabilities(scores, fit_temperature(scores, codes))).max()
    assert sure == pytest.approx(7 / 8, abs=1e-3)


def test_calibration_needs_two_rows_of_each_class() -> None:
    X, y = np.eye(5), np.array([0, 0, 1, 1, 2])
    with pytest.raises(
        InputError, match=r"class number 2 has 1 row.*at least 2.*probability=False"
    ):
        LinearSVM().fit(X, y)
    assert LinearSVM(probability=False).fit(X, y).predict(X).tolist() == y.tolist()


def test_cross_scores_never_see_their_own_row() -> None:
    X, codes = np.arange(10.0)[:, None], np.array([0, 1] * 5)

    def seen(train: Any, y: Any, test: Any) -> Any:
        assert not set(train.ravel()) & set(test.ravel())
        return np.repeat(test, 2, axis=1)

    scores = cross_scores(seen, X, codes, n_folds=5, random_state=0)
    np.testing.assert_array_equal(scores, np.repeat(X, 2, axis=1))


@pytest.mark.parametrize("model", [LinearSVM, RBFSVM, NGramSVM])
def test_without_probability_the_answers_stay_and_the_method_goes(model: Any) -> None:
    X, y = texts() if model is NGramSVM else vectors()
    plain = model(probability=False).fit(X, y)
    assert plain.predict(X).tolist() == model().fit(X, y).predict(X).tolist()
    assert not hasattr(plain, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        plain.predict_proba(X)
    assert hasattr(model(), "predict_proba")


def test_probabilities_of_the_svms_are_calibrated() -> None:
    X, y = vectors(3000)
    new, truth = vectors(3000, seed=1)
    for model in (LinearSVM(), RBFSVM()):
        sure = model.fit(X, y).predict_proba(new).max(axis=1)
        assert sure.mean() == pytest.approx(model.score(new, truth), abs=0.03)


# Gaussian and Student-t


@pytest.mark.parametrize("nu", [0.7, 3.0, 40.0])
def test_density_is_scipys(nu: float) -> None:
    rng = np.random.default_rng(2)
    half = rng.normal(size=(3, 3))
    scale, location, X = half @ half.T + np.eye(3), rng.normal(size=3), rng.normal(size=(7, 3)) * 5
    ours = Component(location, factor(scale), nu)
    np.testing.assert_allclose(ours.scale, scale)
    expected = stats.multivariate_t(location, scale, df=nu).logpdf(X)
    np.testing.assert_allclose(ours.log_density(X), expected, rtol=1e-10)
    gaussian = stats.multivariate_normal(location, scale).logpdf(X)
    np.testing.assert_allclose(Component(location, factor(scale)).log_density(X), gaussian)
    assert not np.allclose(ours.log_density(X), gaussian, rtol=1e-3)


def test_density_stays_finite_far_out() -> None:
    far = Component(np.zeros(200), np.eye(200), 2.0).log_density(np.full((1, 200), 1e100))
    assert np.isfinite(far).all()


def test_em_recovers_a_student_t() -> None:
    scale = np.array([[2.0, 0.6], [0.6, 1.0]])
    rows = stats.multivariate_t([1.0, -2.0], scale, df=4.0).rvs(8000, random_state=3)
    found = fit_student_t(rows, np.eye(2)).component
    np.testing.assert_allclose(found.location, [1.0, -2.0], atol=0.06)
    np.testing.assert_allclose(found.scale, scale, atol=0.12)
    assert found.nu == pytest.approx(4.0, rel=0.15)
    # Negative control: the plain covariance is nu / (nu - 2) times too wide.
    assert np.cov(rows.T)[0, 0] > 1.5 * found.scale[0, 0]


def test_em_finds_a_gaussian_gaussian() -> None:
    rows = np.random.default_rng(4).normal(size=(4000, 2))
    assert fit_student_t(rows, np.eye(2)).component.nu > 40.0


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 0.9])
def test_em_climbs(shrinkage: float) -> None:
    rows = np.random.default_rng(5).standard_t(2.0, size=(60, 4))
    history = fit_student_t(rows, np.eye(4), shrinkage=shrinkage).history
    assert len(history) > 3
    assert (np.diff(history) > -1e-8).all()


def test_em_at_its_end_cannot_be_improved() -> None:
    rows = np.random.default_rng(6).standard_t(3.0, size=(500, 2))
    best = fit_student_t(rows, np.eye(2), tol=1e-10).component
    height = best.log_density(rows).sum()
    for other in (
        Component(best.location + 0.05, best.cholesky, best.nu),
        Component(best.location, best.cholesky * 1.05, best.nu),
        Component(best.location, best.cholesky, best.nu * 1.3),
        Component(best.location, best.cholesky, best.nu / 1.3),
    ):
        assert other.log_density(rows).sum() < height


def test_em_says_when_it_stops_early() -> None:
    rows = np.random.default_rng(7).standard_t(2.0, size=(100, 2))
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2 rounds.*raise max_iter"):
        fit_student_t(rows, np.eye(2), max_iter=2)


def test_fixed_nu_is_kept_and_an_outlier_moves_the_t_less() -> None:
    X, y = vectors()
    model = StudentTMixtureClassifier(nu=3.0).fit(X, y)
    assert model.nu_.tolist() == [3.0] * 3
    X[0] += 1000.0
    moved_t = StudentTMixtureClassifier(nu=3.0, target="diagonal").fit(X, y).components_[0].location
    moved_gaussian = GaussianMixtureClassifier().fit(X, y).components_[0].location
    assert np.abs(moved_t - model.components_[0].location).max() < 5.0
    assert np.abs(moved_gaussian).min() > 20.0


def test_shrinkage_runs_from_quadratic_to_linear_discriminants() -> None:
    X, y = vectors(600)
    X = X @ np.array([[50.0, 30.0, 0.0, 0.0], [0, 50.0, 0, 0], [0, 0, 0.1, 0.1], [0, 0, 0, 0.1]])
    mine = GaussianMixtureClassifier(shrinkage=0.0).fit(X, y)
    quadratic = QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.0).fit(X, y)
    np.testing.assert_allclose(mine.predict_proba(X), quadratic.predict_proba(X), atol=2e-2)
    linear = LinearDiscriminantAnalysis().fit(X, y)
    tied = GaussianMixtureClassifier(shrinkage=1.0).fit(X, y)
    np.testing.assert_allclose(tied.predict_proba(X), linear.predict_proba(X), atol=4e-2)
    assert np.abs(mine.predict_proba(X) - tied.predict_proba(X)).max() > 0.05


def test_log_density_knows_a_stranger() -> None:
    X, y = vectors()
    for model in (GaussianMixtureClassifier(), StudentTMixtureClassifier()):
        inside = model.fit(X, y).log_density(X).max(axis=1)
        stranger = model.log_density(np.full((1, 4), 30.0)).max()
        assert stranger < inside.min()


@pytest.mark.parametrize("target", ["tied", "diagonal", "identity"])
def test_more_columns_than_rows_work_with_shrinkage(target: str) -> None:
    rng = np.random.default_rng(8)
    y = np.repeat([0, 1, 2], 5)
    X = rng.normal(size=(15, 40)) + 3.0 * np.eye(40)[y]
    for model in (GaussianMixtureClassifier, StudentTMixtureClassifier):
        assert model(target=target).fit(X, y).score(X, y) == 1.0
        with pytest.raises(InputError, match=r"not positive definite.*raise shrinkage"):
            model(target=target, shrinkage=0.0).fit(X, y)


def test_shared_scales() -> None:
    centered = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    np.testing.assert_allclose(shared_scale(centered, "identity"), 1.25 * np.eye(2))
    np.testing.assert_allclose(shared_scale(centered, "diagonal"), [[2.0, 0.0], [0.0, 0.5]])
    rows = np.random.default_rng(9).normal(size=(50, 3)) @ [[1, 2, 0], [0, 1, 1], [0, 0, 1.0]]
    tied, units = shared_scale(rows, "tied"), np.array([1.0, 1000.0, 0.001])
    np.testing.assert_allclose(np.diag(tied), (rows**2).mean(axis=0))
    np.testing.assert_allclose(shared_scale(rows * units, "tied"), tied * np.outer(units, units))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shrinkage": 1.5}, r"shrinkage is 1\.5.*between 0.*give 0\.5"),
        ({"target": "tide"}, "target is 'tide'.*tied, diagonal, identity"),
        ({"nu": 0.0}, r"nu is 0\.0.*above 0.*None"),
        ({"nu_bounds": (5.0, 2.0)}, r"nu_bounds is \(5\.0, 2\.0\).*rising"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        StudentTMixtureClassifier(**settings).fit(*vectors())


# Texts


def test_ngram_svm_is_the_recipe() -> None:
    X, y = texts(210)
    model = NGramSVM(probability=False).fit(X, y)
    rows = NGrams(min_df=(5, 3)).fit_transform(X)
    direct = LinearSVC(C=1.0, random_state=0).fit(rows, y)
    assert model.predict(X).tolist() == direct.predict(rows).tolist()


def test_ngram_svm_passes_its_limits_on() -> None:
    fixed = NGramSVM(min_df=(3, 4), max_features=(9, 5)).fit(*texts(15))
    assert [len(block.keys) for block in fixed.ngrams_.fitted_.grams] == [9, 5]
    with pytest.raises(InputError, match=r"min_df is 'few'.*give \(5, 3\)"):
        NGramSVM(min_df="few").fit(*texts(15))


def test_two_texts_alike_in_nothing_still_fit() -> None:
    model = NGramSVM(probability=False).fit(["abcd", "wxyz"], ["ann", "bob"])
    assert model.predict(["wxyz"]).tolist() == ["bob"]


def test_delta_by_hand() -> None:
    # Shares of "a": 1, .5, 0 and 0; of "b": 0, .5, 1 and 1; so z of b is minus z of a.
    model = BurrowsDelta().fit(["a a", "a b", "b b", "b b"], ["x", "x", "y", "y"])
    spread = np.std([1.0, 0.5, 0.0, 0.0])
    to_x, to_y = abs(0.5 - 0.75) / spread, abs(0.5 - 0.0) / spread
    expected = np.array([1 / to_x, 1 / to_y]) / (1 / to_x + 1 / to_y)
    np.testing.assert_allclose(model.predict_proba(["a b"])[0], expected)


def test_delta_on_the_centre_is_certain_and_finite() -> None:
    proba = BurrowsDelta().fit(["a a", "b b"], ["x", "y"]).predict_proba(["a"])
    np.testing.assert_allclose(proba, [[1.0, 0.0]], atol=1e-300)


def test_delta_counts_only_the_frequent_words() -> None:
    X, y = texts(30)
    assert len(BurrowsDelta(n_words=5).fit(X, y).vectorizer_.vocabulary_) == 5
    with pytest.raises(InputError, match=r"n_words is 0.*at least 1"):
        BurrowsDelta(n_words=0).fit(X, y)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("one text", "X is one string of 8 characters.*list of texts"),
        ([], "X is empty.*at least one text"),
        (["fine", 3.0], r"X\[1\] is of type float.*LinearSVM"),
        (["fine", " \n"], r"X\[1\] is .*must have words"),
    ],
)
@pytest.mark.parametrize("model", TEXT_MODELS)
def test_bad_texts(model: Any, X: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model().fit(X, ["a", "b"])


@pytest.mark.data
def test_svms_on_real_vectors_match_the_reference(data: Path) -> None:
    stored = np.load(data / "levs30.npz")
    keep = stored["y"] < 6
    train, test = (rows[keep[rows]] for rows in (stored["train"], stored["test"]))
    X, y = stored["X"].astype(float), stored["y"]
    for model in (LinearSVM(probability=False), RBFSVM(probability=False)):
        assert model.fit(X[train], y[train]).score(X[test], y[test]) > 0.8
