r"""Where learning may begin: logistic regression on random hidden units, with held-out answers.

.. math:: \phi(o) = f(W_1 o + b_1), \qquad
    \max_B \sum_n w_n \ln \mathrm{softmax}_{y_n}(\ln \pi + B^\top \phi_n) - \tfrac{\lambda}{2}
    \lVert B \rVert^2

The hidden layers are random; the last one is a logistic regression of the classes on what they
say. What it answers to rows that were held out chooses :math:`\lambda`, says where the components
stand and how wide they are, and so makes the first probabilities as sure as new rows will bear out.
Components have one scale and, unless the held-out rows ask for more, means at the corners of a
simplex: the most probable author is then that of the regression. The latent space begins with the
logits, then further directions of the hidden units; the decoder begins as a ridge regression of the
row on its latent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from whowrote.model.fleet import UNLABELLED, Batch
from whowrote.model.networks import FIRST_LOG_SCALE, LOG_SCALE_LIMIT, Network
from whowrote.model.vae import MixtureVAE

PENALTIES = tuple(10.0 ** (step * 3 / 4) for step in range(0, -10, -1))
"""Lambda for a row and a thousand hidden units, from strong to weak."""
SPREADS = (0.35, 0.7, 1.4)
"""Standard deviations of what the hidden units are given, to choose from."""
MANY_ROWS = 1000
"""From so many on, one part of the rows is held out instead of all in turn."""
SPREAD_ROWS, SPREAD_UNITS = 500, {"few": 512, "many": 128}
"""The spread is chosen on so many rows and units, these by the number of rows."""
DECODER_UNITS = 128
"""So many units of the decoder begin at work."""
STEPS = {"few": 24, "many": 8}
"""Of accelerated ascent for each penalty, from where the last one ended, by the number of rows."""
TEMPERATURES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
"""How sure one may be is settled later: penalties are compared each at its best temperature."""
PSEUDO_ROWS = (math.inf, 300.0, 30.0)
"""So many rows weighs what all classes have in common when the mean of one is learnt."""
FREE_ROWS = 100
"""Without hidden units, classes of fewer rows keep the means of all."""
WIDENINGS = tuple(2.0 ** (step / 2) for step in range(-6, 11))
"""By how much components may be wider than the scatter of held-out rows."""
TEMPERATURES = tuple(2.0 ** (step / 2) for step in range(-14, 7))
"""By which answers are divided, to say how good they can be."""
SHARPNESS = math.exp(2 * FIRST_LOG_SCALE)
"""The variance of q(x | o) at the start."""


def few_or_many(rows: int | Tensor) -> str:
    """What so many rows are."""
    return "few" if rows < MANY_ROWS else "many"


# -- regressions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spectrum:
    """Centred features as U S V', rows weighed by the root of their weights."""

    centred: Float[Tensor, "n h"]
    centre: Float[Tensor, " h"]
    u: Float[Tensor, "n r"]
    squares: Float[Tensor, " r"]
    """Of the singular values."""

    @classmethod
    def of(cls, features: Float[Tensor, "n h"], weights: Float[Tensor, " n"]) -> Spectrum:
        """By the eigenvalues of the smaller product of the features with themselves."""
        centre = (weights @ features) / weights.sum()
        centred = (features - centre) * weights.sqrt()[:, None]
        n, h = centred.shape
        gram = centred @ centred.mT if n <= h else centred.mT @ centred
        values, vectors = torch.linalg.eigh(gram)
        kept = values > 1e-10 * values[-1]
        values, vectors = values[kept], vectors[:, kept]
        u = vectors if n <= h else centred @ (vectors * values.rsqrt())
        return cls(centred, centre, u, values)

    def penalty(self, a_row: float) -> float:
        """Lambda, which grows with the rows and with the number of features."""
        return a_row * self.centred.numel() / 1000

    def weight(self, coefficients: Float[Tensor, "r k"]) -> Float[Tensor, "h k"]:
        """What the features are multiplied by to give ``u @ coefficients``."""
        return self.centred.mT @ (self.u @ (coefficients / self.squares[:, None]))


@dataclass(frozen=True)
class Regression:
    """A last layer, and what it would have answered to rows that it had not seen."""

    coefficients: Float[Tensor, "r k"]
    held_out: Float[Tensor, "m k"]
    held: Bool[Tensor, " n"]
    """Which rows these are."""
    loss: float
    """Of the held-out answers."""


def ridge(spectrum: Spectrum, targets: Float[Tensor, "n k"]) -> Regression:
    """Regress centred targets, for the penalty with the least squared error held out."""
    u, n = spectrum.u, len(targets)
    projected, square, found = u.mT @ targets, u.square(), []
    for penalty in PENALTIES:
        shrunk = spectrum.squares / (spectrum.squares + spectrum.penalty(penalty))
        leverage = (square @ shrunk + 1 / n).clamp(max=1 - 1e-6)
        residual = (targets - u @ (shrunk[:, None] * projected)) / (1 - leverage)[:, None]
        coefficients = shrunk[:, None] * projected
        loss = float(residual.square().mean())
        everyone = torch.ones_like(leverage, dtype=torch.bool)
        found.append(Regression(coefficients, targets - residual, everyone, loss))
    return min(found, key=lambda regression: regression.loss)


def logistic(
    spectrum: Spectrum,
    labels: Int[Tensor, " n"],
    log_prior: Float[Tensor, " k"],
    weights: Float[Tensor, " n"],
) -> Regression:
    """Logits of the classes over their prior, for the penalty with the least held-out log-loss.

    All rows and the rows without each fold are regressed side by side. Every penalty goes on from
    the former one, with steps along the curvature that bounds all (Boehning, 1992); two penalties
    without a gain end it.
    """
    u, k = spectrum.u.float(), len(log_prior)  # half as much to read, many times
    across, prior, root = u.mT.contiguous(), log_prior.float()[:, None], weights.sqrt().float()
    targets, folds = functional.one_hot(labels, k).to(u).mT, fold_numbers(labels)
    held, steps = folds >= 0, STEPS[few_or_many(len(labels))]
    fits = torch.arange(-1, int(folds.max()) + 1, device=folds.device)[:, None]  # the first of all
    learnt_from = ((fits != folds) | (fits < 0)) * root
    state, best, since = u.new_zeros(len(learnt_from), k, u.shape[1]), None, 0
    for penalty in PENALTIES:
        shrink = (spectrum.penalty(penalty) / spectrum.squares).float()
        former = state
        for step in range(steps):  # classes by rows: few, and so the fastest products
            ahead = state + step / (step + 3) * (state - former)
            proba = torch.softmax(prior + ahead @ across / root, dim=1)
            slope = (learnt_from[:, None] * (targets - proba)) @ u - shrink * ahead
            former, state = state, ahead + slope / (0.5 + shrink)
        own = (state @ across[:, held] / root[held]).permute(0, 2, 1)
        held_out = own[folds[held] + 1, torch.arange(own.shape[1], device=own.device)]
        told = held_out.double(), labels[held], log_prior, weights[held]
        loss = min(tempered_log_loss(*told, one) for one in TEMPERATURES)
        if best is None or loss < best.loss:
            best, since = Regression(state[0].mT.double(), told[0], held, loss), 0
        elif (since := since + 1) == 2:
            break
    assert best is not None  # for the type checker: there are penalties
    return best


def fold_numbers(labels: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """Which fold every row belongs to, by class in turn; -1 where it is never held out.

    Few rows are all held out, in as many folds as a class has rows, so that every class lacks one
    alike (one that alone has lost a row would look weaker than it is), and in ten at most, or five
    where there are hundreds. Of many rows a fifth is held out.
    """
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    order = shuffled.to(labels.device)[labels[shuffled].argsort(stable=True)]
    folds = torch.empty_like(labels)
    turn = torch.arange(len(labels), device=labels.device)
    if few_or_many(len(labels)) == "few":
        most = 10 if len(labels) < 300 else 5
        folds[order] = turn % int(torch.bincount(labels).double().median().clamp(2, most))
    else:
        folds[order] = torch.where(turn % 5 == 0, 0, -1)
    return folds


def tempered_log_loss(
    logits: Float[Tensor, "n k"],
    labels: Int[Tensor, " n"],
    log_prior: Float[Tensor, " k"],
    weights: Float[Tensor, " n"],
    temperature: float,
) -> float:
    """The log-loss of logits that are made so many times larger."""
    losses = functional.cross_entropy(log_prior + temperature * logits, labels, reduction="none")
    return float(weights @ losses / weights.sum())


def best_temperature(
    logits: Float[Tensor, "n k"],
    labels: Int[Tensor, " n"],
    log_prior: Float[Tensor, " k"],
    weights: Float[Tensor, " n"],
) -> float:
    """The temperature of the least log-loss."""
    told = logits, labels, log_prior, weights
    return min(TEMPERATURES, key=lambda one: tempered_log_loss(*told, one))


def log_prior_of(
    labels: Int[Tensor, " n"], weights: Float[Tensor, " n"], k: int
) -> Float[Tensor, " k"]:
    """ln pi by what the rows of each class weigh, and one row more."""
    count = torch.bincount(labels, weights, minlength=k) + 1
    return torch.log(count / count.sum())


# -- classes -------------------------------------------------------------------------------------


def simplex(logits: Float[Tensor, "r k"], d: int) -> Float[Tensor, "k c"]:
    """Corners for k classes in min(d, k - 1) dimensions, those first in which logits differ most.

    The columns are orthonormal and each sums to zero: what all classes share says nothing.
    """
    k = logits.shape[1]
    centred = logits - logits.mean(1, keepdim=True)
    axes = torch.linalg.eigh(centred.mT @ centred)[1].flip(1)
    axes = torch.linalg.qr(torch.cat([torch.ones_like(axes[:, :1]), axes], dim=1))[0]
    corners: Tensor = axes[:, 1 : 1 + min(d, k - 1)]
    return corners


@dataclass(frozen=True)
class Classes:
    """Where the held-out latents of each class lie: means, and the scatter of all around them."""

    means: Float[Tensor, "k r"]
    delta: Float[Tensor, "n k"]
    """Squared distances of rows; from a row's own class, without that row."""
    scatter: float


def class_means(
    latents: Float[Tensor, "n r"],
    labels: Int[Tensor, " n"],
    corners: Float[Tensor, "k r"],
    weights: Float[Tensor, " n"],
    pseudo_rows: float,
) -> Classes:
    """Means drawn to corners at the one distance that fits all classes best."""
    k = len(corners)
    member_of = functional.one_hot(labels, k).to(latents) * weights[:, None]
    count = member_of.sum(0)
    own = corners[labels]
    reach = (weights @ (latents * own).sum(1)) / (weights @ own.square().sum(1))
    tied = reach.clamp(min=1e-3) * corners
    means, without = tied, tied[labels]
    if math.isfinite(pseudo_rows):
        sums = member_of.mT @ latents + pseudo_rows * tied
        means = sums / (count + pseudo_rows)[:, None]
        rest = (count[labels] + pseudo_rows - weights)[:, None]
        without = (sums[labels] - weights[:, None] * latents) / rest
    nearest = (latents - without).square().sum(1)
    delta = torch.cdist(latents, means).square().scatter(1, labels[:, None], nearest[:, None])
    scatter = float(weights @ nearest / weights.sum()) / latents.shape[1]
    return Classes(means, delta, max(scatter, 1e-6))


# -- the start -----------------------------------------------------------------------------------


@torch.no_grad()
def logistic_start(
    fleet: MixtureVAE, batch: Batch, weights: Float[Tensor, "m n"] | None = None
) -> None:
    """Set networks and mixture of every member from its rows."""
    if fleet.architecture.hidden:
        _spread_hidden(fleet.encoder, batch)
    shape = *batch.labels.shape, fleet.architecture.latent_dim
    latents = torch.zeros(shape, dtype=torch.float64, device=batch.labels.device)
    features = fleet.encoder.hidden(batch.inputs)
    weights = torch.ones_like(latents[..., 0]) if weights is None else weights.double()
    for member, labels in enumerate(batch.labels):
        start = Start(fleet, member, features[member].double(), labels, weights[member])
        latents[member] = start.latents()
    start_decoder(fleet.decoder, latents.to(batch.targets), batch.targets)


@torch.no_grad()
def scores_start(fleet: MixtureVAE, batch: Batch, unit: float) -> None:
    r"""Set networks and mixture from rows that are scores of the classes already.

    .. math:: x = u\, C^\top o, \qquad \mu_k = r\, C_k

    C has the corners of a simplex in its rows, u is the unit of the rows. The scores must be those
    of rows that were held out: components are as wide as these ask for. The encoder is linear, so
    the answer is that of the scores, and the class of the largest one is the most probable.
    """
    assert isinstance(batch.inputs, Tensor)  # for the type checker: scores are dense
    latents = []
    for member, (rows, labels) in enumerate(zip(batch.inputs, batch.labels, strict=True)):
        logits, weights = unit * rows.double(), torch.ones(len(rows), device=rows.device).double()
        start = Start(fleet, member, logits, labels, weights)
        latents.append(start.of_scores(unit))
    start_decoder(fleet.decoder, torch.stack(latents).to(batch.targets), batch.targets)


def _spread_hidden(encoder: Network, batch: Batch) -> None:
    """Orthogonal directions, thresholds, and the spread that held-out rows prefer."""
    first = encoder.first
    _orthogonal(first.weight)
    _weigh_columns(encoder, batch)
    given = first(batch.inputs)
    unit = given.std(dim=1).clamp(min=1e-6)
    direction, centre = first.weight / unit.unsqueeze(1), given.mean(dim=1) / unit
    given = (given / unit.unsqueeze(1) - centre.unsqueeze(1))[:, :SPREAD_ROWS]
    # In an order that has nothing to do with that of the directions.
    thresholds = torch.linspace(-2, 2, unit.shape[-1])
    order = torch.randperm(len(thresholds), generator=torch.Generator().manual_seed(0))
    thresholds = thresholds[order].to(unit)
    for member, labels in enumerate(batch.labels):
        size = few_or_many((labels != UNLABELLED).sum())
        spread = _best_spread(encoder, given[member], thresholds, labels[:SPREAD_ROWS], size)
        first.weight[member] = spread * direction[member]
        first.bias[member] = spread * (thresholds - centre[member])


def _orthogonal(weight: Float[Tensor, "m l h"]) -> None:
    """Turn every l directions into orthogonal ones: they cover the space more evenly."""
    m, n_in, n_out = weight.shape
    if n_in <= n_out:  # more inputs than units: random directions are nearly so already
        full = weight[:, :, : n_out - n_out % n_in]
        blocks = full.reshape(m, n_in, -1, n_in).transpose(1, 2)
        full.copy_(torch.linalg.qr(blocks)[0].transpose(1, 2).reshape(full.shape))


def _weigh_columns(encoder: Network, batch: Batch) -> None:
    """Columns count by their mean absolute value: few far values make one no more important.

    A standardised column that is zero but for a hundredth of its rows is ten deviations out there,
    and would rule the hidden units of these rows. Of normal columns all count alike.
    """
    if isinstance(batch.inputs, Tensor):
        encoder.first.weight.mul_(batch.inputs.abs().mean(dim=1).unsqueeze(-1))


def _best_spread(
    encoder: Network,
    given: Float[Tensor, "n h"],
    thresholds: Float[Tensor, " h"],
    labels: Int[Tensor, " n"],
    size: str,
) -> float:
    """By the held-out error of a ridge regression on some of the units."""
    known = labels != UNLABELLED
    targets = functional.one_hot(labels[known]).double()
    targets = targets - targets.mean(0)
    losses = {}
    for spread in SPREADS:
        part = spread * (given[known] + thresholds)[:, : SPREAD_UNITS[size]]
        features = encoder.activate(part).double()
        losses[spread] = ridge(Spectrum.of(features, torch.ones_like(targets[:, 0])), targets).loss
    return min(losses, key=lambda spread: losses[spread])


@dataclass
class Start:
    """The last layer of one member's encoder, and its mixture."""

    fleet: MixtureVAE
    member: int
    features: Float[Tensor, "n h"]
    labels: Int[Tensor, " n"]
    weights: Float[Tensor, " n"]

    def latents(self) -> Float[Tensor, "n d"]:
        """Set them; the rows' latents, of rows that were held out as they were answered then."""
        shape, known = self.fleet.architecture, self.labels != UNLABELLED
        labels, weights = self.labels[known], self.weights[known]
        k, d = shape.n_components, shape.latent_dim
        log_prior = log_prior_of(labels, weights, k)
        spectrum = Spectrum.of(self.features[known], weights)
        found = logistic(spectrum, labels, log_prior, weights)
        corners = simplex(found.coefficients, d)
        logits = found.coefficients @ corners
        rest = _further_directions(logits, d - corners.shape[1]) * math.sqrt(len(labels))
        weight = spectrum.weight(torch.cat([logits, rest], dim=1))
        weight = functional.pad(weight, (0, d - weight.shape[1]))
        self._set_last_layer(weight, -spectrum.centre @ weight)
        latents = (self.features - spectrum.centre) @ weight
        held = known.nonzero()[:, 0][found.held]
        latents[held, : corners.shape[1]] = found.held_out @ corners
        own = self.labels[held], self.weights[held]
        self._place(latents[held], own[0], corners, log_prior, own[1])
        return latents

    def of_scores(self, unit: float) -> Float[Tensor, "n d"]:
        """The same where the features are the scores."""
        k, d = self.features.shape[1], self.fleet.architecture.latent_dim
        log_prior = log_prior_of(self.labels, self.weights, k)
        corners = simplex(self.features, d)
        weight = functional.pad(unit * corners, (0, d - corners.shape[1]))
        self._set_last_layer(weight, torch.zeros_like(weight[0]))
        latents = self.features @ functional.pad(corners, (0, d - corners.shape[1]))
        self._place(latents, self.labels, corners, log_prior, self.weights)
        return latents

    def _set_last_layer(self, weight: Float[Tensor, "h d"], bias: Float[Tensor, " d"]) -> None:
        last, d = self.fleet.encoder.last, len(bias)
        last.weight[self.member, :, :d] = weight.to(last.weight)
        last.weight[self.member, :, d:] = 0
        last.bias[self.member, :d] = bias.to(last.bias)

    def _place(
        self,
        latents: Float[Tensor, "n d"],
        labels: Int[Tensor, " n"],
        corners: Float[Tensor, "k r"],
        log_prior: Float[Tensor, " k"],
        weights: Float[Tensor, " n"],
    ) -> None:
        """Components at the classes' means; one scale for all, as wide as held-out rows ask."""
        mixture, d, r = self.fleet.mixture, latents.shape[1], corners.shape[1]
        df, floor = float(mixture.df[self.member, 0]), float(mixture.scale_floor[self.member])
        far = latents[:, r:].square().sum(1, keepdim=True) + (d - r) * SHARPNESS
        best = math.inf
        rows = float(torch.bincount(labels, minlength=len(corners)).double().median().clamp(min=2))
        # The scores of few texts tell nothing of an author's own place among the others.
        linear = self.fleet.encoder.first is self.fleet.encoder.last
        tied = linear and rows < FREE_ROWS
        for pseudo_rows in PSEUDO_ROWS[:1] if tied else PSEUDO_ROWS:
            classes = class_means(latents[:, :r], labels, corners, weights, pseudo_rows)
            found = []
            for wider in WIDENINGS:
                near = (classes.delta + r * SHARPNESS) / (wider * classes.scatter)
                score = -(df + d) / 2 * torch.log1p((near + far) / df)
                losses = functional.cross_entropy(log_prior + score, labels, reduction="none")
                found.append((float(weights @ losses), wider, score))
            loss, wider, score = min(found, key=lambda one: one[0])
            # Answers from scores are tempered later: means of their own must gain after that.
            loss = _tempered_loss(score, labels, weights) if linear else loss
            if loss < best:
                best, means, width = loss, classes.means, wider * classes.scatter
        # A class was known from one row fewer when its own was held out: one part in m wider.
        scale = torch.ones(d).to(latents)
        scale[:r] = width * (1 - 1 / rows)
        mixture.loc[self.member] = 0
        mixture.loc[self.member, :, :r] = means.to(mixture.loc)
        mixture.logits[self.member] = log_prior.to(mixture.logits)
        raw = torch.diag_embed((scale - floor).clamp(min=1e-3).sqrt().log())
        mixture.factor[self.member] = raw.to(mixture.factor)


def _tempered_loss(
    score: Float[Tensor, "n k"], labels: Int[Tensor, " n"], weights: Float[Tensor, " n"]
) -> float:
    """The log-loss at the best of some temperatures, every class as probable as any other."""
    losses = [functional.cross_entropy(score / t, labels, reduction="none") for t in TEMPERATURES]
    return min(float(weights @ one) for one in losses)


def _further_directions(taken: Float[Tensor, "r k"], wanted: int) -> Float[Tensor, "r w"]:
    """Leading directions of the hidden units that those already taken leave over."""
    n = taken.shape[0]
    leading = torch.eye(n, dtype=taken.dtype, device=taken.device).flip(1)  # eigh ascends
    both = torch.cat([taken, leading[:, : wanted + taken.shape[1]]], dim=1)[:, :n]
    found: Tensor = torch.linalg.qr(both)[0][:, taken.shape[1] : taken.shape[1] + wanted]
    return found


def start_decoder(
    decoder: Network, latents: Float[Tensor, "m n d"], targets: Float[Tensor, "m n l"]
) -> None:
    """A ridge regression of rows on what the hidden layers say of their latents, and its error."""
    first, last, width = decoder.first, decoder.last, targets.shape[-1]
    if first is not last:
        first.weight.div_(first(latents).std(dim=1).clamp(min=1e-6).unsqueeze(1))
    features = decoder.hidden(latents)[:, :, :DECODER_UNITS]
    for member, rows in enumerate(targets.double()):
        middle = rows.mean(0)
        spectrum = Spectrum.of(features[member].double(), torch.ones_like(rows[:, 0]))
        found = ridge(spectrum, rows - middle)
        weight = spectrum.weight(found.coefficients)
        spread = (rows - middle - found.held_out).square().mean(0).sqrt()
        log_scale = spread.log().clamp(-LOG_SCALE_LIMIT + 0.5, LOG_SCALE_LIMIT - 0.5)
        raw = LOG_SCALE_LIMIT * torch.atanh(log_scale / LOG_SCALE_LIMIT)
        last.weight[member] = 0
        last.weight[member, :DECODER_UNITS, :width] = weight.to(last.weight)
        last.bias[member] = torch.cat([middle - spectrum.centre @ weight, raw]).to(last.bias)
