"""The losses against their formulas, and what must not count."""

import math

import pytest
import torch

from whowrote.features.extractor.losses import (
    BatchLoss,
    pair_losses,
    pairs_of_batch,
    same_author_probability,
)


def test_the_published_probability_and_margins() -> None:
    left, right = torch.zeros(3, 2), torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 4.0]])
    p = same_author_probability(left, right)
    torch.testing.assert_close(p, torch.exp(-0.09 * torch.tensor([0.0, 1.0, 64.0])))
    losses = pair_losses(left, right, torch.tensor([True, True, False]))
    assert losses.tolist() == [0.0, 0.0, 0.0]
    losses = pair_losses(left, right, torch.tensor([False, False, True]))
    expected = [(1 - 0.09) ** 2, (math.exp(-0.09) - 0.09) ** 2, (0.91 - math.exp(-5.76)) ** 2]
    assert losses.tolist() == pytest.approx(expected, abs=1e-6)


def test_equal_vectors_have_a_finite_gradient() -> None:
    left = torch.ones(2, 3, requires_grad=True)
    pair_losses(left, torch.ones(2, 3), torch.tensor([True, False])).sum().backward()
    assert left.grad is not None
    assert left.grad.isfinite().all()


def test_pairs_of_a_batch_use_every_document_once() -> None:
    levs = torch.arange(8.0).repeat_interleave(2)[:, None].requires_grad_()
    pairs_of_batch(levs + torch.tensor([0.0, 0.5]).repeat(8)[:, None], 2).backward()
    assert levs.grad is not None
    assert levs.shape == (16, 1)


def reference(levs: torch.Tensor, authors: list[int], documents: list[int], scale: float) -> float:
    unit = torch.nn.functional.normalize(levs, dim=1)
    means = []
    for i in range(len(levs)):
        terms = []
        negatives = [j for j in range(len(levs)) if authors[j] != authors[i]]
        for j in range(len(levs)):
            if authors[j] == authors[i] and documents[j] != documents[i]:
                own = math.exp(scale * float(unit[i] @ unit[j]))
                rest = sum(math.exp(scale * float(unit[i] @ unit[k])) for k in negatives)
                terms.append(-math.log(own / (own + rest)))
        if terms:
            means.append(sum(terms) / len(terms))
    return sum(means) / len(means)


def test_batch_loss_is_its_formula_and_one_text_twice_is_no_pair() -> None:
    torch.manual_seed(0)
    levs = torch.randn(7, 5)
    authors, documents = [0, 0, 0, 1, 1, 2, 2], [0, 0, 1, 2, 3, 4, 4]
    loss = BatchLoss(0.2)
    one = torch.zeros(7)
    found = loss(levs, torch.tensor(authors), torch.tensor(documents), one)
    assert found.item() == pytest.approx(reference(levs, authors, documents, 5.0), rel=1e-5)
    allowed = loss(levs, torch.tensor(authors), torch.tensor(documents), one, same_text=True)
    assert allowed.item() == pytest.approx(reference(levs, authors, list(range(7)), 5.0), rel=1e-5)


def test_authors_of_another_domain_are_no_negatives() -> None:
    torch.manual_seed(0)
    levs, authors, documents = torch.randn(8, 5), torch.arange(8) // 2, torch.arange(8)
    loss, domains = BatchLoss(), torch.arange(8) // 4
    apart = [
        loss(levs[p], authors[p], documents[p], domains[p]) for p in (slice(0, 4), slice(4, 8))
    ]
    torch.testing.assert_close(loss(levs, authors, documents, domains), (apart[0] + apart[1]) / 2)
    assert loss(levs, authors, documents, torch.zeros(8)) > (apart[0] + apart[1]) / 2


def test_the_temperature_has_a_floor() -> None:
    assert BatchLoss(1e-9).scale.item() == pytest.approx(100)
