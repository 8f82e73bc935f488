r"""New authors in a fixed latent space: the networks stay as they are, the mixture grows.

For the latent means :math:`x_i` of a new author's *n* passages, with the scale matrices
:math:`\Sigma_k = C_k C_k' + \sigma^2 I` of those already enrolled,

.. math:: \mu = \bar x, \qquad
    C C' = \frac{\kappa\, \overline{C_k C_k'} + n S}{\kappa + n}, \qquad
    \nu = \mathrm{median}_k\, \nu_k, \qquad \pi = \mathrm{mean}_k\, \pi_k

*S* being the scatter of the :math:`x_i` and :math:`\kappa = D + 2`: few passages borrow their
spread from the other authors. The contrasts of sparse features part the old authors only, so a new
one is told by where his texts lie among theirs and by his own profile; train anew when he matters.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import sparse
from torch import Tensor

from whowrote.arrays import IntArray
from whowrote.attribution.answers import roll
from whowrote.attribution.fitted_attributor import mean_per_text
from whowrote.attribution.profiles import Profiles, text_rows
from whowrote.attribution.rows import Read
from whowrote.attribution.storage import fingerprint
from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.estimators import MixtureVAEClassifier
from whowrote.model import MixtureVAE
from whowrote.model.fast.precision import lower_factor
from whowrote.model.mixture import class_statistics, free_factor

if TYPE_CHECKING:
    from whowrote.attribution.attributor import Attributor


def enroll(attributor: Attributor, corpus: Corpus) -> Attributor:
    """A new attributor that also knows the authors of ``corpus``; the old one is not touched."""
    corpus = corpus.labelled()
    corpus.require_attribution(min_authors=1, min_texts=1)
    names = [author.name for author in attributor.authors_]
    twice = sorted(set(names) & set(corpus.author_names))
    if twice:
        raise InputError(
            f"author {twice[0]!r} is enrolled already; enrolment adds new authors: leave his texts "
            "out, or train a new model on all texts"
        )
    read = attributor.reader_.read(corpus.texts)
    codes = np.searchsorted(corpus.author_names, np.array(corpus.authors))
    grown = copy.copy(attributor)
    grown.model_ = _grown_model(attributor.model_, read, codes, list(corpus.author_names))
    grown.authors_ = (*attributor.authors_, *roll(corpus, read.passages))
    new = len(corpus.author_names)
    shares = np.exp(attributor.log_share_)
    shares = np.concatenate([shares, np.full(new, shares.mean())])
    grown.log_share_ = np.log(shares / shares.sum())
    grown.profiles_ = _grown_profiles(attributor.profiles_, text_rows(read), codes)
    norms = attributor.calibration_.norms
    centers = np.vstack([norms.centers, np.tile(norms.centers.mean(axis=0), (new, 1))])
    grown.calibration_ = replace(attributor.calibration_, norms=replace(norms, centers=centers))
    grown.training_sha256_ = (*attributor.training_sha256_, *corpus.sha256)
    latents = mean_per_text(attributor.model_.transform(read.V), read).astype(np.float16)
    grown.training_latents_ = np.concatenate([attributor.training_latents_, latents])
    later = (codes + len(names)).astype(np.int32)
    grown.training_codes_ = np.concatenate([attributor.training_codes_, later])
    grown.id_ = fingerprint(grown)
    return grown


def _grown_profiles(profiles: Profiles, rows: sparse.csr_matrix, codes: IntArray) -> Profiles:
    new = Profiles.learn(rows, codes, profiles.columns)
    means = zip(profiles.means, new.means, strict=True)
    lengths = zip(profiles.lengths, new.lengths, strict=True)
    return Profiles(
        profiles.columns,
        tuple(np.vstack(pair) for pair in means),
        tuple(np.concatenate(pair) for pair in lengths),
    )


def _grown_model(
    model: MixtureVAEClassifier, read: Read, codes: IntArray, names: list[str]
) -> MixtureVAEClassifier:
    """The same networks, and a component more for each new author."""
    fleet, rows = model.fleet_, codes[read.passages.document]
    latents = torch.as_tensor(
        np.stack([model.member(m).transform(read.V) for m in range(len(fleet))])
    ).to(fleet.mixture.loc)
    labels = torch.as_tensor(rows, device=latents.device).expand(len(fleet), -1)
    grown: MixtureVAEClassifier = copy.copy(model)
    grown.fleet_ = grow(fleet, latents, labels, len(names))
    grown.classes_ = np.arange(grown.fleet_.architecture.n_components)
    return grown


@torch.no_grad()
def grow(
    fleet: MixtureVAE, x: Float[Tensor, "m n d"], labels: Int[Tensor, "m n"], new: int
) -> MixtureVAE:
    """A fleet with ``new`` more components, placed by labelled latent rows."""
    old, d = fleet.mixture, x.shape[-1]
    shape = replace(fleet.architecture, n_components=fleet.architecture.n_components + new)
    with x.device:
        grown = MixtureVAE(shape, fleet.members).to(x.dtype)
    state = {n: v for n, v in fleet.state_dict().items() if not n.startswith("mixture.")}
    grown.load_state_dict(state, strict=False)
    grown.mixture.scale_floor.copy_(old.scale_floor)
    factor = lower_factor(old.factor)
    borrowed = (factor @ factor.mT).mean(dim=1)
    for number in range(new):
        own = x[:, labels[0] == number]
        spread = class_statistics(own, torch.zeros_like(own[..., 0], dtype=torch.long), 1).within
        count, prior = own.shape[1], d + 2
        scale = (prior * borrowed + count * spread) / (prior + count)
        place = fleet.architecture.n_components + number
        grown.mixture.loc[:, place] = own.mean(dim=1)
        grown.mixture.factor[:, place] = free_factor(scale)
    k = fleet.architecture.n_components
    for name in ("loc", "factor"):
        getattr(grown.mixture, name)[:, :k] = getattr(old, name)
    grown.mixture.raw_df.copy_(_padded(old.raw_df, old.raw_df.median(dim=1).values, new))
    weights = old.log_weights.exp()
    grown.mixture.logits.copy_(_padded(weights, weights.mean(dim=1), new).log())
    return grown


def _padded(values: Float[Tensor, "m k"], value: Float[Tensor, " m"], new: int) -> Tensor:
    return torch.cat([values, value.unsqueeze(1).expand(-1, new)], dim=1)
