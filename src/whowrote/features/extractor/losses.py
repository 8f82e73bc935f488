r"""What the extractor minimises: the published pair loss, or a contrastive loss over a batch.

.. math:: \ell_\text{pairs} = [y=1]\,(\tau_+ - p)_+^2 + [y=0]\,(p - \tau_-)_+^2, \quad
    p = e^{-a \lVert u - v \rVert^3}, \qquad
    \ell_\text{batch} = -\log \frac{e^{s(u, v)/T}}{e^{s(u, v)/T} + \sum_{w} e^{s(u, w)/T}}

with a = 0.09, margins 0.91 and 0.09, s the cosine, T learnt, v every view of the same author in
turn and w every view of another one in the same domain: authors of two domains are too easily told
apart to teach anything. Views of one and the same text are neither: to find them alike
would be to learn topics.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

STEEPNESS, SAME, DIFFERENT = 0.09, 0.91, 0.09
LARGEST_SCALE = 100.0


def same_author_probability(left: Tensor, right: Tensor) -> Tensor:
    """p = exp(-a d^3) of rows; one where they are equal."""
    squared = (left - right).square().sum(1)
    safe = torch.where(squared > 0, squared, 1.0)  # the root has no slope at zero
    return torch.exp(-STEEPNESS * torch.where(squared > 0, safe**1.5, 0.0))


def pair_losses(left: Tensor, right: Tensor, same: Tensor) -> Tensor:
    """The squared hinge of each pair."""
    p = same_author_probability(left, right)
    return torch.where(same, (SAME - p).clamp(min=0), (p - DIFFERENT).clamp(min=0)).square()


def pairs_of_batch(levs: Tensor, views: int) -> Tensor:
    """The published loss: half of the authors give pairs of their own, half pairs of two authors.

    No document is in two pairs.
    """
    rows = levs.reshape(-1, views, levs.shape[1])
    left, right = rows[:, 0 : views // 2 * 2 : 2], rows[:, 1 : views // 2 * 2 : 2]
    order = torch.arange(len(rows), device=levs.device)
    strangers = order[1::2]
    other = order.index_copy(0, strangers, strangers.roll(-1))
    same = (other == order)[:, None].expand(-1, left.shape[1])
    return pair_losses(left.flatten(0, 1), right[other].flatten(0, 1), same.flatten()).mean()


def imitation(student: Tensor, teacher: Tensor, domains: Tensor, scale: Tensor) -> Tensor:
    r""":math:`-\frac1n \sum_i \sum_j p_{ij} \log q_{ij}`: who is near whom, as the teacher has it.

    p and q are the shares of the other views of the domain by their scaled cosine to view i. Only
    the student learns.
    """
    away = (domains[:, None] != domains) | torch.eye(
        len(domains), dtype=torch.bool, device=domains.device
    )
    unit = [nn.functional.normalize(v.float(), dim=1) for v in (student, teacher.detach())]
    logits = [(scale.detach() * (v @ v.T)).masked_fill(away, -math.inf) for v in unit]
    p, q = logits[1].softmax(1), logits[0].log_softmax(1)
    return -(p * q.masked_fill(away, 0.0)).sum() / len(student)


class BatchLoss(nn.Module):
    """Supervised contrastive loss with a learnt temperature."""

    def __init__(self, temperature: float = 0.1) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([-math.log(temperature)]))

    @property
    def scale(self) -> Tensor:
        """One over the temperature, at most 100."""
        return self.log_scale.clamp(max=math.log(LARGEST_SCALE)).exp()

    def forward(
        self,
        levs: Tensor,
        authors: Tensor,
        documents: Tensor,
        domains: Tensor,
        same_text: bool = False,
    ) -> Tensor:
        """Mean over all pairs of views by one author, each author counting alike.

        ``same_text`` lets two views of one text be a pair as well.
        """
        unit = nn.functional.normalize(levs.float(), dim=1)
        logits = self.scale * (unit @ unit.T)
        same_author = authors[:, None] == authors
        same_document = documents[:, None] == documents
        if same_text:
            same_document = torch.eye(len(levs), dtype=torch.bool, device=levs.device)
        positive = same_author & ~same_document
        other_domain = domains[:, None] != domains
        others = logits.masked_fill(same_author | other_domain, -math.inf).logsumexp(
            1, keepdim=True
        )
        terms = torch.logaddexp(logits, others) - logits
        weight = positive / positive.sum(1, keepdim=True).clamp(min=1)
        return (terms * weight).sum() / positive.any(1).sum().clamp(min=1)
