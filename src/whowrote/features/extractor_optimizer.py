r"""How far a step goes, and for which weights.

.. math:: \eta(t) = \eta\, \min\!\left(1, \tfrac{t + 1}{t_w}\right)
    \left(f + (1 - f)\, \tfrac{1 + \cos \pi s}{2}\right)

with :math:`t_w` steps of warm-up, :math:`s` the share of the run that is done and :math:`f` the
share of the rate that is left at its end.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from whowrote.features.extractor_config import Recipe


def learning_rate(recipe: Recipe, step: int, share_done: float) -> float:
    """Linear warm-up, then half a cosine down to ``final_rate``."""
    warm = min(1.0, (step + 1) / max(1, recipe.warm_up))
    fall = (1 + math.cos(math.pi * min(1.0, share_done))) / 2
    return recipe.learning_rate * warm * (recipe.final_rate + (1 - recipe.final_rate) * fall)


def make_optimizer(
    modules: nn.Module, recipe: Recipe, device: torch.device
) -> torch.optim.Optimizer:
    """AdamW; biases and the temperature are not decayed, the n-grams' table learns slowly."""
    named = dict(modules.named_parameters())
    table = [p for name, p in named.items() if name == "network.grams"]
    others = [p for name, p in named.items() if name != "network.grams"]
    decay = {"weight_decay": recipe.weight_decay}
    groups: list[dict[str, Any]] = [
        {"params": [p for p in others if p.ndim > 1], "share": 1.0, **decay},
        {"params": [p for p in others if p.ndim <= 1], "share": 1.0, "weight_decay": 0.0},
    ]
    if table:
        groups.append({"params": table, "share": recipe.gram_rate, **decay})
    return torch.optim.AdamW(
        groups, lr=recipe.learning_rate, betas=(0.9, 0.99), fused=device.type == "cuda"
    )
