import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_t

from whowrote.attribution.maps import author_distances, latent_map_of, plane
from whowrote.errors import InputError
from whowrote.evaluation import error_by_length
from whowrote.metrics import wilson

K, D = 5, 7


def components(seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(K, D, D))
    return rng.normal(size=(K, D)), roots @ roots.transpose(0, 2, 1) + np.eye(D)


# -- the plane -----------------------------------------------------------------------------------


def test_no_other_plane_holds_more_of_what_separates_the_means() -> None:
    means, _ = components()
    P = plane(means)
    np.testing.assert_allclose(P.T @ P, np.eye(2), atol=1e-12)
    apart = means - means.mean(axis=0)
    held = ((apart @ P) ** 2).sum()
    for seed in range(50):
        Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(D, 2)))[0]
        assert ((apart @ Q) ** 2).sum() < held


def test_the_plane_does_not_move_with_the_means_and_never_flips() -> None:
    means, _ = components()
    np.testing.assert_allclose(plane(means + 100.0), plane(means), atol=1e-9)
    np.testing.assert_allclose(plane(means[::-1]), plane(means), atol=1e-9)
    np.testing.assert_allclose(plane(-means), plane(means), atol=1e-9)


def test_two_authors_have_a_plane_too() -> None:
    P = plane([[0.0, 0.0, 0.0], [0.0, 0.0, 4.0]])
    np.testing.assert_allclose(P.T @ P, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(np.abs(P[:, 0]), [0.0, 0.0, 1.0], atol=1e-12)


def test_a_projected_component_is_the_marginal_of_the_author() -> None:
    means, scales = components()
    picture = latent_map_of(means, np.arange(K), "abcde", means, scales)
    draws = multivariate_t(means[2], scales[2], df=4, seed=0).rvs(40_000)
    P = plane(means)
    apart = draws @ P - picture.means[2]
    squared = np.einsum("ni,ij,nj->n", apart, np.linalg.inv(picture.scales[2]), apart)
    # delta / 2 is F(2, nu) for a Student-t in the plane; its median at nu = 4 is 0.8284.
    np.testing.assert_allclose(np.median(squared / 2), 0.8284, rtol=0.03)
    wrong = np.einsum("ni,ij,nj->n", apart, P.T @ np.linalg.inv(scales[2]) @ P, apart)
    assert abs(np.median(wrong / 2) - 0.8284) > 0.1  # the inverse is not projected


def test_a_map_keeps_texts_names_and_unknown_authors() -> None:
    means, scales = components()
    latents = np.vstack([means, means.mean(axis=0)])
    picture = latent_map_of(latents, [0, 1, 2, 3, 4, -1], list(range(K)), means, scales)
    assert picture.names == ("0", "1", "2", "3", "4")
    assert picture.groups.tolist() == [0, 1, 2, 3, 4, -1]
    assert picture.scales.shape == (K, 2, 2)
    np.testing.assert_allclose(picture.points[:K], picture.means)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"means": np.zeros(3)}, r"means has shape \(3,\).*give means_"),
        ({"means": np.full((K, D), np.nan)}, r"means has shape \(5, 7\) or an entry"),
        ({"scales": np.eye(D)}, r"scales has shape \(7, 7\) for means \(5, 7\).*\(K, D, D\)"),
        (
            {"scales": np.stack([np.eye(D)] * 4 + [-np.eye(D)])},
            r"scales\[4\] has the eigenvalue -1",
        ),
        ({"latents": np.zeros((1, 3))}, r"latents has shape \(1, 3\) and codes \(1,\)"),
        ({"names": ["a"]}, r"names has 1 entries for 5 means"),
        ({"codes": [5]}, r"codes has 5 to 5; a code must be -1 .*5 authors"),
        ({"codes": [-2]}, r"codes has -2 to -2"),
    ],
)
def test_what_does_not_fit_together_is_refused(changed: dict[str, Any], message: str) -> None:
    means, scales = components()
    good = {"latents": means[:1], "codes": [0], "names": "abcde", "means": means, "scales": scales}
    latent_map_of(**good)
    with pytest.raises(InputError, match=message):
        latent_map_of(**{**good, **changed})


def test_one_dimension_has_no_plane() -> None:
    with pytest.raises(InputError, match=r"means has 1 dimension.*latent_dim=2"):
        plane([[0.0], [1.0]])


# -- distances -----------------------------------------------------------------------------------


def test_distances_are_the_equation_pair_by_pair() -> None:
    means, scales = components()
    found = author_distances(means, scales)
    for k in range(K):
        for one in range(K):
            apart = means[k] - means[one]
            middle = np.linalg.inv((scales[k] + scales[one]) / 2)
            np.testing.assert_allclose(found[k, one], np.sqrt(apart @ middle @ apart))
    assert (found == found.T).all()
    assert not np.diagonal(found).any()


def test_distances_do_not_depend_on_the_coordinates() -> None:
    means, scales = components()
    A = np.random.default_rng(1).normal(size=(D, D))
    turned = author_distances(means @ A.T + 3.0, A @ scales @ A.T)
    np.testing.assert_allclose(turned, author_distances(means, scales), rtol=1e-6)
    euclid = np.linalg.norm(means[0] - means[1])  # which does depend on them
    assert abs(np.linalg.norm(A @ (means[0] - means[1])) - euclid) > 0.1


# -- error by length -----------------------------------------------------------------------------


def test_bins_hold_every_text_once_and_about_equally_many() -> None:
    rng = np.random.default_rng(0)
    words = np.exp(rng.normal(6.0, 1.0, size=600)).astype(int) + 1
    right = rng.random(600) < 0.7
    bins = error_by_length(words, right)
    assert len(bins) == 6
    assert sum(one.n for one in bins) == 600
    assert min(one.n for one in bins) > 90
    assert all(one.high < other.low for one, other in pairwise(bins))
    for one in bins:
        inside = (words >= one.low) & (words <= one.high)
        assert one.n == inside.sum()
        np.testing.assert_allclose(one.error, (~right[inside]).mean())
        assert one.interval == wilson(int((~right[inside]).sum()), one.n)


def test_error_that_falls_with_length_is_seen_and_one_that_does_not_is_not() -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(10, 2000, size=3000)
    falling = error_by_length(words, rng.random(3000) > 0.8 * np.exp(-words / 300))
    flat = error_by_length(words, rng.random(3000) > 0.3)
    assert falling[0].interval.low > falling[-1].interval.high
    assert flat[0].interval.low < flat[-1].interval.high


def test_texts_of_one_length_stay_together() -> None:
    bins = error_by_length([300] * 9 + [5], [True] * 9 + [False])
    assert [(one.low, one.high, one.n, one.error) for one in bins] == [
        (5, 5, 1, 1.0),
        (300, 300, 9, 0.0),
    ]
    (only,) = error_by_length([7, 7], [True, False])
    assert (only.low, only.high, only.error) == (7, 7, 0.5)


def test_what_cannot_be_binned_is_refused() -> None:
    with pytest.raises(InputError, match=r"words has shape \(2,\) and right \(1,\)"):
        error_by_length([1, 2], [True])
    with pytest.raises(InputError, match=r"words has shape \(0,\)"):
        error_by_length([], [])
    with pytest.raises(InputError, match=r"words has 0; a text must have at least one word"):
        error_by_length([0, 3], [True, True])
    with pytest.raises(InputError, match=r"n_bins is 0; it must be at least 1"):
        error_by_length([3], [True], n_bins=0)


def test_maps_and_lengths_do_not_load_matplotlib() -> None:
    code = (
        "import sys, whowrote.attribution.maps, whowrote.evaluation;"
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
