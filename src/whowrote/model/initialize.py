r"""Where learning starts: random networks, and components placed by (provisional) labels.

Networks: weights :math:`\sim N(0, 2/(n_{in} + n_{out}))`, biases zero, each member from its own
seed. Components: with rows :math:`x_n = E[q(x \mid o_n)]` of the untrained encoder,

.. math:: \mu_k = \bar x_k, \qquad
    \Sigma_k = S_{\mathrm{within}}, \qquad \pi_k \propto n_k

A pooled :math:`S_{\mathrm{within}}` is defined even for an author with two texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from whowrote.model.fleet import UNLABELLED
from whowrote.model.mixture import Mixture
from whowrote.model.networks import Layer
from whowrote.model.vae import MixtureVAE

FIRST_LOG_SCALE = -1.0


@torch.no_grad()
def initialize_networks(fleet: MixtureVAE, seeds: Sequence[int]) -> None:
    """Draw every member's weights from its own seed, the same alone and on every device."""
    layers = [layer for layer in fleet.modules() if isinstance(layer, Layer)]
    sizes = [layer.weight[0].numel() for layer in layers]
    different = list(dict.fromkeys(seeds))  # a grid has many members and few seeds
    drawn = torch.empty(len(different), sum(sizes))
    for row, seed in zip(drawn, different, strict=True):
        row.normal_(generator=torch.Generator().manual_seed(seed))
    number = {seed: place for place, seed in enumerate(different)}
    device = fleet.encoder.last.weight.device
    drawn = drawn.to(device)[torch.tensor([number[seed] for seed in seeds], device=device)]
    for layer, part in zip(layers, torch.split(drawn, sizes, dim=1), strict=True):
        _, n_in, n_out = layer.weight.shape
        layer.weight.copy_(part.reshape(layer.weight.shape) * math.sqrt(2 / (n_in + n_out)))
        layer.bias.zero_()
    # A sharp q(x | o) from the start keeps the components from merging before they differ.
    fleet.encoder.last.bias[:, fleet.architecture.latent_dim :] = FIRST_LOG_SCALE


@dataclass(frozen=True)
class ClassStatistics:
    """Counts, means and the pooled within-class covariance of labelled latent rows."""

    count: Float[Tensor, "m k"]
    mean: Float[Tensor, "m k d"]
    within: Float[Tensor, "m d d"]


def class_statistics(
    x: Float[Tensor, "m n d"], labels: Int[Tensor, "m n"], k: int
) -> ClassStatistics:
    """Statistics of each class; an empty class gets the mean of all rows."""
    known = labels != UNLABELLED
    member_of = functional.one_hot(labels.clamp(min=0), k).to(x) * known.unsqueeze(-1)
    count = member_of.sum(1)
    mean = member_of.mT @ x / count.clamp(min=1).unsqueeze(-1)
    mean = torch.where((count > 0).unsqueeze(-1), mean, x.mean(1, keepdim=True))
    residual = (x - member_of @ mean) * known.unsqueeze(-1)
    within = residual.mT @ residual / known.sum(1).clamp(min=1)[:, None, None]
    return ClassStatistics(count, mean, within)


@torch.no_grad()
def place_components(
    mixture: Mixture, x: Float[Tensor, "m n d"], labels: Int[Tensor, "m n"]
) -> None:
    """Set weights, locations and scale matrices from latent rows and their labels."""
    m, k, d = mixture.loc.shape
    classes = class_statistics(x, labels, k)
    count = classes.count + 1
    mixture.loc.copy_(classes.mean)
    mixture.logits.copy_(torch.log(count / count.sum(-1, keepdim=True)))
    mixture.factor.copy_(free_factor(classes.within).unsqueeze(1).expand(m, k, d, d))


def free_factor(matrix: Float[Tensor, "m d d"]) -> Float[Tensor, "m d d"]:
    """Cholesky factor with a log diagonal; a small ridge makes rank-deficient data harmless."""
    mean = torch.diagonal(matrix, dim1=-2, dim2=-1).mean(-1).clamp(min=1e-6)
    ridge = 0.01 * mean[:, None, None] * torch.eye(matrix.shape[-1]).to(matrix)
    factor = torch.linalg.cholesky_ex(matrix + ridge).L  # NaN stays with its member
    diagonal = torch.diagonal(factor, dim1=-2, dim2=-1)
    return torch.tril(factor, -1) + torch.diag_embed(diagonal.log())
