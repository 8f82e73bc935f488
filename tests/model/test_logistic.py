"""The start by regression: held-out answers, weights, and a model that is calibrated untrained."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from whowrote.model import Architecture, Member, MixtureVAE, Rows
from whowrote.model.logistic import (
    PENALTIES,
    Spectrum,
    class_means,
    fold_numbers,
    logistic,
    logistic_start,
    ridge,
    simplex,
)
from whowrote.model.networks import initialize_networks

N, H, K = 60, 12, 3


def made_up(seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(N) % K
    means = torch.randn(K, H, generator=random, dtype=torch.float64)
    noise = torch.randn(N, H, generator=random, dtype=torch.float64)
    return means[labels] + 2 * noise, labels


def one_hot(labels: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(labels, K).double()


def ones(n: int) -> Tensor:
    return torch.ones(n, dtype=torch.float64)


def answered(features: Tensor, targets: Tensor, new: Tensor, penalty: float) -> Tensor:
    """Ridge regression by its normal equations, the constant left free."""
    centre, middle = features.mean(0), targets.mean(0)
    own = features - centre
    gram = own.mT @ own + penalty * torch.eye(H, dtype=own.dtype)
    return middle + (new - centre) @ torch.linalg.solve(gram, own.mT @ (targets - middle))


def test_ridge_holds_out_each_row_exactly() -> None:
    features, labels = made_up()
    targets = one_hot(labels) - one_hot(labels).mean(0)
    spectrum = Spectrum.of(features, ones(N))
    found = ridge(spectrum, targets)
    seen = {}
    for penalty in PENALTIES:
        left_out = torch.stack(
            [
                answered(features[rest], targets[rest], features[n], spectrum.penalty(penalty))
                for n in range(N)
                if (rest := torch.arange(N) != n) is not None
            ]
        )
        seen[penalty] = float((left_out - targets).square().mean())
        if seen[penalty] == min(seen.values()):
            best = left_out
    # The leverage formula keeps the centre of all rows: equal but for one part in the rows.
    assert float((found.held_out - best).abs().max()) < 0.5 / N
    fitted = (features - spectrum.centre) @ spectrum.weight(found.coefficients)
    assert float((fitted - best).abs().max()) > 5 / N  # negative control: rows know themselves


def test_logistic_answers_rows_that_it_has_not_seen() -> None:
    features, labels = made_up()
    prior = torch.full((K,), 1 / K, dtype=torch.float64).log()
    spectrum = Spectrum.of(features, ones(N))
    found = logistic(spectrum, labels, prior, ones(N))
    assert bool(found.held.all())
    centred, folds = (features - spectrum.centre).numpy(), fold_numbers(labels).numpy()
    own = centred @ spectrum.weight(found.coefficients).numpy()
    near, known = [], []
    for penalty in PENALTIES[:3]:
        left_out = np.empty((N, K))
        model = LogisticRegression(
            C=1 / spectrum.penalty(penalty), fit_intercept=False, tol=1e-6, max_iter=500
        )
        for fold in range(folds.max() + 1):
            rest = folds != fold
            model.fit(centred[rest], labels[rest].numpy())
            left_out[~rest] = model.decision_function(centred[~rest])
        mine = found.held_out - found.held_out.mean(1, keepdim=True)
        seen = own - own.mean(1, keepdims=True)
        near.append(np.corrcoef(mine.numpy().ravel(), left_out.ravel())[0, 1])
        known.append(np.corrcoef(seen.ravel(), left_out.ravel())[0, 1])
    assert max(near) > 0.99  # of one of the penalties they are the answers, nearly converged
    assert max(known) < 0.97  # negative control: rows know themselves


def test_every_class_lacks_as_many_rows_as_the_others() -> None:
    labels = torch.arange(200).repeat_interleave(3)
    folds = fold_numbers(labels)
    lacking = torch.stack([torch.bincount(labels[folds == f], minlength=200) for f in range(3)])
    assert bool((lacking == 1).all())
    many = fold_numbers(torch.arange(2000) % 4)
    assert many.unique().tolist() == [-1, 0]
    assert int((many == 0).sum()) == 400


def test_a_row_of_weight_two_counts_as_two() -> None:
    features, labels = made_up()
    weights = ones(N)
    weights[:20] = 2
    prior = torch.full((K,), 1 / K, dtype=torch.float64).log()
    twice = torch.cat([features, features[:20]]), torch.cat([labels, labels[:20]])
    found = []
    for rows, own, weight in ((features, labels, weights), (*twice, ones(N + 20))):
        spectrum = Spectrum.of(rows, weight)
        state = logistic(spectrum, own, prior, weight).coefficients
        found.append(spectrum.weight(state) / spectrum.weight(state).norm())
    # Rows that stand twice are held out one at a time, so another penalty may be chosen.
    assert float((found[0] * found[1]).sum()) > 0.97
    spectrum = Spectrum.of(features, ones(N))
    alike = spectrum.weight(logistic(spectrum, labels, prior, ones(N)).coefficients)
    apart = float((found[0] * alike / alike.norm()).sum())
    assert apart < float((found[0] * found[1]).sum())  # negative control: without weights


@pytest.mark.parametrize("d", [1, 3, 4, 9])
def test_corners_are_a_simplex_as_far_as_there_is_room(d: int) -> None:
    logits = torch.randn(20, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    corners = simplex(logits, d)
    assert corners.shape == (5, min(d, 4))
    np.testing.assert_allclose(corners.sum(0), 0, atol=1e-9)
    np.testing.assert_allclose(corners.mT @ corners, np.eye(min(d, 4)), atol=1e-9)
    if d >= 4:  # then no class is nearer to another than to the rest
        apart = torch.cdist(corners, corners)[~torch.eye(5, dtype=torch.bool)]
        np.testing.assert_allclose(apart, np.sqrt(2), atol=1e-9)


def test_few_rows_share_what_all_classes_have_in_common() -> None:
    random = torch.Generator().manual_seed(0)
    labels, corners = torch.arange(2 * 30) % 30, torch.eye(30, dtype=torch.float64)
    latents = 3 * corners[labels]
    latents = latents + 0.7 * torch.randn(60, 30, generator=random, dtype=torch.float64)
    tied = class_means(latents, labels, corners, ones(60), float("inf"))
    own = torch.diagonal(tied.means)
    assert float(own.std()) < 1e-9
    assert abs(float(own[0]) - 3) < 0.2
    free = class_means(latents, labels, corners, ones(60), 0.1)
    assert float(torch.diagonal(free.means).std()) > 0.3  # the mean of two rows scatters by 0.5
    # Without the row itself, the own mean is no nearer than it would be to a new row.
    nearest = free.delta[torch.arange(60), labels].mean()
    assert float(nearest) > 1.5 * 30 * 0.49


@pytest.mark.parametrize("latent_dim", [1, 2, 5])
@torch.no_grad()
def test_an_untrained_model_answers_and_is_as_sure_as_it_may_be(latent_dim: int) -> None:
    random = torch.Generator().manual_seed(1)
    labels = torch.arange(900) % K
    centres = torch.tensor([[0.0, 0.0], [2.0, 2.0], [-2.0, 2.0]])
    X = centres[labels] + torch.randn(900, 2, generator=random)
    rows = Rows((X - X.mean(0)) / X.std(0), labels)
    shape = Architecture(2, K, latent_dim, (32,))
    fleet = MixtureVAE(shape, [Member(seed=3), Member(seed=4, component="gaussian")])
    initialize_networks(fleet.encoder, fleet.decoder, [3, 4])
    index = torch.arange(600).expand(2, 600)
    before = fleet.scores(rows.take(index).inputs).log_responsibilities
    logistic_start(fleet, rows.take(index))
    new = rows.take(torch.arange(600, 900).expand(2, 300))
    proba = fleet.scores(new.inputs).log_responsibilities.exp()
    right = (proba.argmax(-1) == new.labels).float().mean(1)
    assert bool((right > (0.6 if latent_dim == 1 else 0.85)).all())
    assert float((proba.amax(-1).mean(1) - right).abs().max()) < 0.08
    chance = (before.argmax(-1) == rows.labels[index]).float().mean()
    assert float(chance) < 0.6  # negative control: before, nothing was known
    error = (fleet.decode(fleet.encode(new.inputs).mean).mean - new.targets).square().mean()
    assert float(error) < (0.9 if latent_dim == 1 else 0.3)


def test_every_member_starts_from_its_own_rows() -> None:
    features, labels = made_up()
    rows = Rows(features.float(), labels)
    index = torch.stack([torch.arange(0, 50), torch.arange(10, 60)])
    both = MixtureVAE(Architecture(H, K, 2, (16,)), [Member(seed=5), Member(seed=5)])
    initialize_networks(both.encoder, both.decoder, [5, 5])
    alone = both.select([1])
    logistic_start(both, rows.take(index))
    logistic_start(alone, rows.take(index[1:]))
    for name, value in alone.state_dict().items():
        assert torch.allclose(both.state_dict()[name][1:], value, atol=1e-4), name
    assert not torch.allclose(both.mixture.loc[0], both.mixture.loc[1])
