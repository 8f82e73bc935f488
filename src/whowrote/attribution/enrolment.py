r"""New authors in a fixed latent space: the networks stay as they are, the mixture grows.

For the latent means :math:`x_i` of a new author's *n* passages, with the scale matrices
:math:`\Sigma_k = C_k C_k' + \sigma^2 I` of those already enrolled,

.. math:: \mu = \bar x, \qquad
    C C' = \frac{\kappa\, \overline{C_k C_k'} + n S}{\kappa + n}, \qquad
    \nu = \mathrm{median}_k\, \nu_k, \qquad \pi = \mathrm{mean}_k\, \pi_k

*S* being the scatter of the :math:`x_i` and :math:`\kappa = D + 2`: few passages borrow their
spread from the other authors. The contrasts of sparse features part the old authors only, so new
ones are told by where their texts lie among the others' and by their own profile; train anew when
they matter.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import sparse
from torch import Tensor

from whowrote.arrays import FloatArray, IntArray
from whowrote.attribution.answers import by_new_authors, enrolled_authors
from whowrote.attribution.calibration import Calibration
from whowrote.attribution.fitted_attributor import FittedAttributor, TrainingTexts
from whowrote.attribution.profiles import Profiles, text_rows
from whowrote.attribution.rows import mean_per_text
from whowrote.attribution.storage import fingerprint
from whowrote.corpus.texts import Corpus
from whowrote.model import MixtureVAE
from whowrote.model.mixture import class_statistics, free_factor
from whowrote.model.precision import lower_factor


def enroll(fitted: FittedAttributor, corpus: Corpus) -> FittedAttributor:
    """What was learnt, and the authors of ``corpus`` besides."""
    corpus = by_new_authors(fitted.authors, corpus)
    read = fitted.reader.read(corpus.texts)
    codes = np.searchsorted(corpus.author_names, np.array(corpus.authors))
    new, latents = len(corpus.author_names), fitted.model.latents(read.V)
    own = mean_per_text(latents[fitted.model.leader], read.passages)
    training = TrainingTexts(
        tuple(corpus.sha256),
        own.astype(np.float16),
        (codes + len(fitted.authors)).astype(np.int32),
    )
    fleet = _grown_fleet(fitted.model.fleet, latents, codes[read.passages.document], new)
    grown = replace(
        fitted,
        authors=(*fitted.authors, *enrolled_authors(corpus, read.passages)),
        model=replace(fitted.model, fleet=fleet),
        log_share=_grown_shares(fitted.log_share, new),
        profiles=_grown_profiles(fitted.profiles, text_rows(read), codes),
        calibration=_grown_calibration(fitted.calibration, new),
        training=fitted.training.joined(training),
    )
    return replace(grown, id=fingerprint(grown))


def _grown_shares(log_share: FloatArray, new: int) -> FloatArray:
    """A new author counts as the mean of the others."""
    shares = np.exp(log_share)
    shares = np.concatenate([shares, np.full(new, shares.mean())])
    return np.asarray(np.log(shares / shares.sum()))


def _grown_calibration(calibration: Calibration, new: int) -> Calibration:
    norms = calibration.norms
    centers = np.vstack([norms.centers, np.tile(norms.centers.mean(axis=0), (new, 1))])
    return replace(calibration, norms=replace(norms, centers=centers))


def _grown_profiles(profiles: Profiles, rows: sparse.csr_matrix, codes: IntArray) -> Profiles:
    new = Profiles.about(rows, codes, profiles.columns, profiles.shifts)
    means = zip(profiles.means, new.means, strict=True)
    lengths = zip(profiles.lengths, new.lengths, strict=True)
    return Profiles(
        profiles.columns,
        tuple(np.vstack(pair) for pair in means),
        tuple(np.concatenate(pair) for pair in lengths),
        profiles.shifts,
    )


def _grown_fleet(fleet: MixtureVAE, latents: FloatArray, rows: IntArray, new: int) -> MixtureVAE:
    """The same networks, and a component more for each new author."""
    x = torch.as_tensor(latents).to(fleet.mixture.loc)
    return grow(fleet, x, torch.as_tensor(rows, device=x.device).expand(len(fleet), -1), new)


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
    middle = old.log_excess.median(dim=1).values
    grown.mixture.log_excess.copy_(_padded(old.log_excess, middle, new))
    weights = old.log_weights.exp()
    grown.mixture.logits.copy_(_padded(weights, weights.mean(dim=1), new).log())
    return grown


def _padded(values: Float[Tensor, "m k"], value: Float[Tensor, " m"], new: int) -> Tensor:
    return torch.cat([values, value.unsqueeze(1).expand(-1, new)], dim=1)
