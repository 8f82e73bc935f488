r"""Rows without a label: where the classes lie, by expectation-maximisation among all rows.

.. math:: \gamma_{nk} = \mathrm{softmax}_k\, \mathrm{score}_k(q(x \mid o_n)), \qquad
    \gamma_{nk} = [y_n = k] \text{ where there is a label}

The latent space is that of the leading directions of the hidden units. Each label is also hidden in
one of a few such fits: what these say of it decides how wide the components are, and whether the
rows without a label have helped at all.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from whowrote.model.distributions import DiagonalNormal
from whowrote.model.fleet import UNLABELLED, Batch
from whowrote.model.logistic import (
    Spectrum,
    best_temperature,
    log_prior_of,
    logistic,
    start_decoder,
)
from whowrote.model.mixture import Mixture, Scores, expectation_maximization, factor_above
from whowrote.model.networks import FIRST_LOG_SCALE
from whowrote.model.vae import MixtureVAE

WIDENINGS = tuple(2.0 ** (step / 2) for step in range(-2, 9))
"""By how much components may be wider than their rows."""
FOLDS, ITERATIONS, COARSE = 5, 10, 20
"""Fits in which labels are hidden, steps of expectation-maximisation, leading directions."""


@torch.no_grad()
def refine_by_all_rows(fleet: MixtureVAE, batch: Batch, widen: bool = True) -> list[float]:
    """Let rows without a label say where the classes lie; what each member gains by it.

    The latent space becomes the leading directions of what the hidden layers say of all rows. In
    it, expectation-maximisation fits a component a class, from the answers of a regression of the
    labels and with the labels held fast. Each label is also hidden in one of ``FOLDS`` such
    fits: their log-loss says how wide the components should be, and by how much their Brier score
    is below that of a start from the labelled rows alone is what is gained (NaN, which is no gain,
    where no class has two labels). Without ``widen`` components are as wide as their rows: what
    new rows should be drawn from.
    """
    features = fleet.encoder.hidden(batch.inputs).double()
    latents = fleet.encode(batch.inputs).mean.clone()
    gains = []
    for member, labels in enumerate(batch.labels):
        gain, x = _refine(fleet, member, features[member], labels, widen)
        gains.append(gain)
        latents[member] = x
    start_decoder(fleet.decoder, latents, batch.targets)
    return gains


def _refine(
    fleet: MixtureVAE,
    member: int,
    features: Float[Tensor, "n h"],
    labels: Int[Tensor, " n"],
    widen: bool,
) -> tuple[float, Float[Tensor, "n d"]]:
    """Encoder and mixture of one member from all rows; its gain, and its latents."""
    k, d = fleet.mixture.loc.shape[1:]
    shown = _with_hidden_labels(labels, k)
    first = torch.stack([_answered(features, own, k) for own in shown])
    weight = _leading_directions(features, d)
    gamma = functional.one_hot(first.argmax(-1), k).to(first)
    weight = weight @ _whitening(features @ weight, gamma[0])
    bias = -features.mean(0) @ weight
    x = features @ weight + bias
    alone = fleet.select([member]).mixture.double()
    mixture = _propagated(alone, x, shown, gamma)
    hidden = (shown == UNLABELLED) & (labels != UNLABELLED)
    truth = labels.expand_as(shown)[hidden]
    q = _sharp(x, len(shown))
    widths = WIDENINGS if widen else (1.0,)
    answers = {wider: _widened(mixture, mixture(q), wider)[hidden] for wider in widths}
    wider = min(widths, key=lambda one: float(functional.cross_entropy(answers[one], truth)))
    last, own = fleet.encoder.last, fleet.mixture
    last.weight[member] = functional.pad(weight, (0, d)).to(last.weight)
    last.bias[member] = functional.pad(bias, (0, d), value=FIRST_LOG_SCALE).to(last.bias)
    own.loc[member], own.logits[member] = mixture.loc[0].to(own.loc), mixture.logits[0].to(own.loc)
    wide = factor_above(alone.scale_floor, wider * mixture.scale_matrix[:1])
    own.factor[member] = wide[0].to(own.factor)
    return brier(first[hidden], truth) - brier(answers[wider], truth), x.to(own.loc)


def _propagated(
    alone: Mixture,
    x: Float[Tensor, "n d"],
    shown: Int[Tensor, "f n"],
    gamma: Float[Tensor, "f n k"],
) -> Mixture:
    """Components of all fits at once: in the leading directions first, then in all of them.

    Few labels say little in many directions; the responsibilities of few directions are a better
    start for the rest than answers of the labels alone.
    """
    f, d = len(shown), x.shape[1]
    for width in (min(d, COARSE), d):
        mixture = Mixture(alone.component, gamma.shape[-1], width, alone.scale_floor.expand(f))
        mixture = mixture.to(x)
        mixture.log_excess.copy_(alone.log_excess.expand(f, -1))
        q = _sharp(x[:, :width], f)
        expectation_maximization(mixture, q, shown, gamma, ITERATIONS, pseudo_rows=2.0 * width)
        gamma = mixture(q).log_responsibilities.exp()
    return mixture


def _sharp(x: Float[Tensor, "n d"], times: int) -> DiagonalNormal:
    """q(x | o) at the start, for so many fits."""
    mean = x.expand(times, -1, -1)
    return DiagonalNormal(mean, torch.full_like(mean, FIRST_LOG_SCALE))


def _with_hidden_labels(labels: Int[Tensor, " n"], k: int) -> Int[Tensor, "f n"]:
    """All labels, and ``FOLDS`` times all but some: of a class with one, that is never hidden."""
    fold = torch.full_like(labels, -1)
    for code in range(k):
        own = torch.nonzero(labels == code).flatten()
        if len(own) > 1:
            fold[own] = torch.arange(len(own), device=labels.device) % FOLDS
    hidden = [labels.masked_fill(fold == number, UNLABELLED) for number in range(FOLDS)]
    return torch.stack([labels, *hidden])


def _answered(
    features: Float[Tensor, "n h"], labels: Int[Tensor, " n"], k: int
) -> Float[Tensor, "n k"]:
    """What a start from the labelled rows alone says of every row, ln p up to a constant."""
    known = labels != UNLABELLED
    weights = torch.ones_like(features[known, 0])
    log_prior = log_prior_of(labels[known], weights, k)
    spectrum = Spectrum.of(features[known], weights)
    found = logistic(spectrum, labels[known], log_prior, weights)
    told = labels[known][found.held], log_prior, weights[found.held]
    logits = (features - spectrum.centre) @ spectrum.weight(found.coefficients)
    return log_prior + best_temperature(found.held_out, *told) * logits


def _leading_directions(features: Float[Tensor, "n h"], d: int) -> Float[Tensor, "h d"]:
    """Weights of the d directions in which the rows differ most, each of variance one."""
    spectrum = Spectrum.of(features, torch.ones_like(features[:, 0]))
    rank = spectrum.u.shape[1]
    leading = torch.eye(rank, dtype=features.dtype, device=features.device).flip(1)[:, :d]
    weight = spectrum.weight(leading) * math.sqrt(len(features))
    return functional.pad(weight, (0, d - weight.shape[1]))


def _whitening(x: Float[Tensor, "n d"], gamma: Float[Tensor, "n k"]) -> Float[Tensor, "d d"]:
    """What makes the scatter within classes one in every direction: the floor is far below it."""
    means = gamma.mT @ x / gamma.sum(0).clamp(min=1).unsqueeze(-1)
    residual = x - gamma @ means
    factor = torch.linalg.cholesky(shrunken(residual.mT @ residual / len(x), len(x)))
    turn: Tensor = torch.linalg.inv(factor).mT
    return turn


def _widened(mixture: Mixture, scores: Scores, wider: float) -> Float[Tensor, "f n k"]:
    """Scores if every scale matrix were so many times wider, up to a constant."""
    density, nought = mixture.component.log_density, torch.zeros_like(mixture.df)
    d = mixture.loc.shape[-1]
    narrow = density(scores.delta, nought, mixture.df, d)
    return scores.score - narrow + density(scores.delta / wider, nought, mixture.df, d)


def brier(scores: Float[Tensor, "n k"], labels: Int[Tensor, " n"]) -> float:
    """The mean squared distance of probabilities and labels; infinite without any.

    Of few labels it is a steadier guide than the log-loss, which one sure mistake rules.
    """
    if not len(labels):
        return math.inf
    wrong = torch.softmax(scores, -1) - functional.one_hot(labels, scores.shape[-1])
    return float(wrong.square().sum(-1).mean())


def shrunken(covariance: Float[Tensor, "k k"], n: int) -> Float[Tensor, "k k"]:
    """Drawn to a multiple of one as far as n rows ask for (OAS: Chen et al., 2010)."""
    k, trace, square = len(covariance), covariance.trace(), covariance.square().sum()
    share = ((1 - 2 / k) * square + trace**2) / ((n + 1 - 2 / k) * (square - trace**2 / k))
    share = share.nan_to_num(1.0).clamp(1e-6, 1)
    return (1 - share) * covariance + share * trace / k * torch.eye(k).to(covariance)
