r"""Where learning may begin: a model in closed form, whose held-out answers are known.

.. math:: \phi(o) = f(W_1 o + b_1), \qquad
    B = \arg\min_B \sum_n \lVert y_n - B^\top \phi_n \rVert^2 + \lambda \lVert B \rVert^2, \qquad
    \hat y_{-n} = y_n - \frac{y_n - \hat y_n}{1 - h_n}

The hidden layers are random; the last one is a ridge regression of the class indicators
:math:`y_n` on what they say. What it would have answered to each row without that row,
:math:`\hat y_{-n}`, comes for free (:math:`h_n` is the leverage): it chooses :math:`\lambda` and
the spread of the hidden units, says where the components stand and how wide they are, and so makes
the first probabilities as sure as new rows will bear out. The latent space begins with the
directions in which the classes' answers differ most, then further ones of the hidden units; the
decoder begins as a ridge regression of the row on its latent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from whowrote.model.distributions import DiagonalNormal
from whowrote.model.fleet import UNLABELLED, Batch
from whowrote.model.mixture import (
    Mixture,
    Scores,
    expectation_maximization,
    factor_above,
)
from whowrote.model.networks import FIRST_LOG_SCALE, LOG_SCALE_LIMIT, Network
from whowrote.model.vae import MixtureVAE

PENALTIES = tuple(10.0 ** (step / 2) for step in range(-12, 1))
"""Of the ridge regressions, a row."""
SPREADS = (0.35, 0.7, 1.4)
"""Standard deviations of what the hidden units are given, to choose from."""
PSEUDO_ROWS = (3.0, 30.0, 300.0)
"""So many rows weighs what all classes have in common when the mean of one is learnt."""
WIDENINGS = tuple(2.0 ** (step / 2) for step in range(-2, 9))
"""By how much components may be wider than the scatter of held-out rows."""
FOLDS, ITERATIONS, COARSE = 5, 10, 20
"""Fits in which labels are hidden, steps of expectation-maximisation, leading directions."""
SHARPNESS = math.exp(2 * FIRST_LOG_SCALE)
"""The variance of q(x | o) at the start."""


# -- ridge regression ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Ridge:
    """A ridge regression with the penalty that held-out rows prefer."""

    weight: Float[Tensor, "h k"]
    bias: Float[Tensor, " k"]
    held_out: Float[Tensor, "n k"]
    """What every row would have been answered without it."""
    error: float
    """Mean squared error of the held-out answers."""


def ridge(features: Float[Tensor, "n h"], targets: Float[Tensor, "n k"]) -> Ridge:
    """Regress targets on features, with exact leave-one-out answers for every penalty."""
    n = len(features)
    centre, middle = features.mean(0), targets.mean(0)
    u, s, vt = torch.linalg.svd(features - centre, full_matrices=False)
    projected = u.mT @ (targets - middle)
    best = None
    for penalty in PENALTIES:
        shrunk = s.square() / (s.square() + penalty * n)
        leverage = (u.square() @ shrunk + 1 / n).clamp(max=1 - 1e-9)
        fitted = middle + u @ (shrunk[:, None] * projected)
        held_out = targets - (targets - fitted) / (1 - leverage)[:, None]
        error = float((held_out - targets).square().mean())
        if best is None or error < best.error:
            weight = vt.mT @ ((s / (s.square() + penalty * n))[:, None] * projected)
            best = Ridge(weight, middle - centre @ weight, held_out, error)
    assert best is not None  # for the type checker: there are penalties
    return best


# -- classes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Classes:
    """Where the held-out answers of each class lie: means, scatter around them, counts."""

    means: Float[Tensor, "k k"]
    within: Float[Tensor, "k k"]
    count: Float[Tensor, " k"]
    without: Float[Tensor, "n k"]
    """For every row the mean of its own class without it."""

    @property
    def log_weights(self) -> Float[Tensor, " k"]:
        """ln pi, with one row more of each class."""
        return torch.log_softmax(torch.log(self.count + 1), dim=0)

    def discriminants(self, most: int) -> Float[Tensor, "k r"]:
        """Directions in which classes differ most; within a class all of them spread by one."""
        values, vectors = torch.linalg.eigh(self.within)
        whiten = vectors * values.clamp(min=1e-6 * float(values.max())).rsqrt()
        middle = (self.count @ self.means) / self.count.sum()
        between = (self.means - middle) @ whiten * self.count.sqrt()[:, None]
        axes = torch.linalg.svd(between, full_matrices=False)[2]
        turn: Tensor = whiten @ axes[: min(most, len(self.count) - 1)].mT
        return turn


def shrunken_classes(
    answers: Float[Tensor, "n k"], labels: Int[Tensor, " n"], k: int, df: float
) -> Classes:
    """Means drawn to the tied ones: own answer a, every other b, the same for all classes.

    How strongly is chosen by the log-loss of the rows under Student-t components with ``df``.
    """
    member_of = functional.one_hot(labels, k).to(answers)
    count, n = member_of.sum(0), len(answers)
    own = (answers * member_of).sum() / n
    other = (answers * (1 - member_of)).sum() / (n * max(1, k - 1))
    tied = other + (own - other) * torch.eye(k).to(answers)
    found = []
    for rows in PSEUDO_ROWS:
        sums = member_of.mT @ answers + rows * tied
        without = (sums[labels] - answers) / (count[labels] + rows - 1)[:, None]
        residual = answers - without
        within = shrunken(residual.mT @ residual / n, max(1, n - k))
        classes = Classes(sums / (count + rows)[:, None], within, count, without)
        delta = _distances(answers, labels, classes, classes.discriminants(k))
        losses = [_log_loss(classes, delta / wider, labels, df, k) for wider in WIDENINGS]
        found.append((min(losses), classes))
    return min(found, key=lambda pair: pair[0])[1]


def _distances(
    answers: Float[Tensor, "n k"],
    labels: Int[Tensor, " n"],
    classes: Classes,
    turn: Float[Tensor, "k r"],
) -> Float[Tensor, "n k"]:
    """Squared distances from the classes' means; from a row's own class, without that row."""
    delta = torch.cdist(answers @ turn, classes.means @ turn).square()
    own = ((answers - classes.without) @ turn).square().sum(1)
    return delta.scatter(1, labels[:, None], own[:, None])


def _log_loss(
    classes: Classes, delta: Float[Tensor, "n k"], labels: Int[Tensor, " n"], df: float, d: int
) -> float:
    """Of Student-t components at these distances in d dimensions."""
    score = classes.log_weights - (df + d) / 2 * torch.log1p(delta / df)
    return float(functional.cross_entropy(score, labels))


def shrunken(covariance: Float[Tensor, "k k"], n: int) -> Float[Tensor, "k k"]:
    """Drawn to a multiple of one as far as n rows ask for (OAS: Chen et al., 2010)."""
    k, trace, square = len(covariance), covariance.trace(), covariance.square().sum()
    share = ((1 - 2 / k) * square + trace**2) / ((n + 1 - 2 / k) * (square - trace**2 / k))
    share = share.nan_to_num(1.0).clamp(1e-6, 1)
    return (1 - share) * covariance + share * trace / k * torch.eye(k).to(covariance)


# -- the start -----------------------------------------------------------------------------------


@torch.no_grad()
def ridge_start(fleet: MixtureVAE, batch: Batch) -> None:
    """Set networks and mixture of every member from its rows; hidden layers keep their weights."""
    _weigh_columns(fleet.encoder, batch)
    _spread_hidden(fleet.encoder, batch)
    shape = *batch.labels.shape, fleet.architecture.latent_dim
    latents = torch.zeros(shape, dtype=torch.float64, device=batch.labels.device)
    features = fleet.encoder.hidden(batch.inputs).double()
    for member in range(len(fleet)):
        latents[member] = _start_encoder(fleet, member, features[member], batch.labels[member])
    _start_decoder(fleet.decoder, latents.to(batch.targets), batch.targets)


def _weigh_columns(encoder: Network, batch: Batch) -> None:
    """Columns count by their mean absolute value: few far values make one no more important.

    A standardised column that is zero but for a hundredth of its rows is ten deviations out there,
    and would rule the hidden units of these rows. Of normal columns all count alike.
    """
    if isinstance(batch.inputs, Tensor):
        encoder.first.weight.mul_(batch.inputs.abs().mean(dim=1).unsqueeze(-1))


def _spread_hidden(encoder: Network, batch: Batch) -> None:
    """Give the first layer thresholds, and the spread that held-out rows prefer."""
    first = encoder.first
    given = first(batch.inputs)
    unit = given.std(dim=1).clamp(min=1e-6)
    direction, centre = first.weight / unit.unsqueeze(1), given.mean(dim=1) / unit
    thresholds = torch.linspace(-2, 2, unit.shape[-1]).to(unit)
    best = [math.inf] * len(unit)
    chosen = first.weight.clone(), first.bias.clone()
    for spread in SPREADS:
        first.weight.copy_(spread * direction)
        first.bias.copy_(spread * (thresholds - centre))
        features = encoder.hidden(batch.inputs).double()
        for member, labels in enumerate(batch.labels):
            known = labels != UNLABELLED
            targets = functional.one_hot(labels[known]).double()
            error = ridge(features[member][known], targets).error
            if error < best[member]:
                best[member] = error
                chosen[0][member], chosen[1][member] = first.weight[member], first.bias[member]
    first.weight.copy_(chosen[0])
    first.bias.copy_(chosen[1])


def _start_encoder(
    fleet: MixtureVAE, member: int, features: Float[Tensor, "n h"], labels: Int[Tensor, " n"]
) -> Float[Tensor, "n d"]:
    """The last layer of one member's encoder, and its mixture; its held-out latents."""
    known = labels != UNLABELLED
    k, d = fleet.architecture.n_components, fleet.architecture.latent_dim
    found = ridge(features[known], functional.one_hot(labels[known], k).double())
    df = float(fleet.mixture.df[member, 0])
    classes = shrunken_classes(found.held_out, labels[known], k, df)
    turn = classes.discriminants(d)
    weight, bias = found.weight @ turn, found.bias @ turn
    rest = _further_directions(features, weight, d - turn.shape[1])
    centre = features.mean(0) @ rest
    last = fleet.encoder.last
    last.weight[member, :, :d] = torch.cat([weight, rest], dim=1).to(last.weight)
    last.weight[member, :, d:] = 0
    last.bias[member, :d] = torch.cat([bias, -centre]).to(last.bias)
    own = features @ weight + bias
    own[known] = found.held_out @ turn
    latents = torch.cat([own, features @ rest - centre], dim=1)
    near = _distances(found.held_out, labels[known], classes, turn)
    _place(fleet, member, classes, turn, near, latents[known], labels[known])
    return latents


def _further_directions(
    features: Float[Tensor, "n h"], weight: Float[Tensor, "h r"], wanted: int
) -> Float[Tensor, "h w"]:
    """Leading directions of unit variance that those of ``weight`` leave over."""
    rest = features.new_zeros(len(weight), wanted)
    if wanted:
        centred = features - features.mean(0)
        known = torch.linalg.qr(centred @ weight)[0]
        _, s, vt = torch.linalg.svd(centred - known @ (known.mT @ centred), full_matrices=False)
        n = min(wanted, int((s > 1e-6 * s[0]).sum()))
        rest[:, :n] = vt[:n].mT * (math.sqrt(len(features)) / s[:n])
    return rest


def _place(
    fleet: MixtureVAE,
    member: int,
    classes: Classes,
    turn: Float[Tensor, "k r"],
    near: Float[Tensor, "n k"],
    latents: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
) -> None:
    """Components at the classes' means, with one scale for all, as wide as held-out rows ask."""
    mixture, d, r = fleet.mixture, latents.shape[1], turn.shape[1]
    df, floor = float(mixture.df[member, 0]), float(mixture.scale_floor[member])
    far = latents[:, r:].square().sum(1, keepdim=True) + (d - r) * SHARPNESS
    losses = {
        wider: _log_loss(classes, (near + r * SHARPNESS) / wider + far, labels, df, d)
        for wider in WIDENINGS
    }
    scale = torch.ones(d).to(latents)
    scale[:r] = min(losses, key=lambda wider: losses[wider])
    mixture.loc[member] = 0
    mixture.loc[member, :, :r] = (classes.means @ turn).to(mixture.loc)
    mixture.logits[member] = classes.log_weights.to(mixture.logits)
    raw = torch.diag_embed((scale - floor).clamp(min=1e-3).sqrt().log())
    mixture.factor[member] = raw.to(mixture.factor)


def _start_decoder(
    decoder: Network, latents: Float[Tensor, "m n d"], targets: Float[Tensor, "m n l"]
) -> None:
    """A ridge regression of rows on what the hidden layers say of their latents, and its error."""
    first, last, width = decoder.first, decoder.last, targets.shape[-1]
    first.weight.div_(first(latents).std(dim=1).clamp(min=1e-6).unsqueeze(1))
    features = decoder.hidden(latents).double()
    for member, rows in enumerate(targets.double()):
        found = ridge(features[member], rows)
        spread = (rows - found.held_out).square().mean(0).sqrt()
        log_scale = spread.log().clamp(-LOG_SCALE_LIMIT + 0.5, LOG_SCALE_LIMIT - 0.5)
        raw = LOG_SCALE_LIMIT * torch.atanh(log_scale / LOG_SCALE_LIMIT)
        last.weight[member, :, :width] = found.weight.to(last.weight)
        last.weight[member, :, width:] = 0
        last.bias[member] = torch.cat([found.bias, raw]).to(last.bias)


# -- rows without a label ------------------------------------------------------------------------


@torch.no_grad()
def refine_by_all_rows(fleet: MixtureVAE, batch: Batch, widen: bool = True) -> list[float]:
    """Let rows without a label say where the classes lie; what each member gains by it.

    The latent space becomes the leading directions of what the hidden layers say of all rows. In
    it, expectation-maximisation fits a component a class, from the answers of a ridge regression of
    the labels and with the labels held fast. Each label is also hidden in one of ``FOLDS`` such
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
    _start_decoder(fleet.decoder, latents, batch.targets)
    return gains


def _refine(
    fleet: MixtureVAE,
    member: int,
    features: Float[Tensor, "n h"],
    labels: Int[Tensor, " n"],
    widen: bool,
) -> tuple[float, Float[Tensor, "n d"]]:
    """Encoder and mixture of one member from all rows; its gain, and its latents."""
    k, d, df = *fleet.mixture.loc.shape[1:], float(fleet.mixture.df[member, 0])
    shown = _with_hidden_labels(labels, k)
    first = torch.stack([_answered(features, own, k, df) for own in shown])
    weight = _further_directions(features, features.new_zeros(features.shape[1], 0), d)
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
    features: Float[Tensor, "n h"], labels: Int[Tensor, " n"], k: int, df: float
) -> Float[Tensor, "n k"]:
    """What a start from the labelled rows alone says of every row, ln p up to a constant."""
    known = labels != UNLABELLED
    found = ridge(features[known], functional.one_hot(labels[known], k).double())
    classes = shrunken_classes(found.held_out, labels[known], k, df)
    turn = classes.discriminants(k)
    near = _distances(found.held_out, labels[known], classes, turn)
    d = turn.shape[1]
    wider = min(WIDENINGS, key=lambda w: _log_loss(classes, near / w, labels[known], df, d))
    answers = features @ found.weight + found.bias
    delta = torch.cdist(answers @ turn, classes.means @ turn).square()
    return classes.log_weights - (df + d) / 2 * torch.log1p(delta / (wider * df))


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
