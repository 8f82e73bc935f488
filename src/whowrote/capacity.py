r"""How many members fit: a memory model that is measured, so that nothing ends in a crash.

.. math:: \mathrm{bytes}(M) = a + b M, \qquad
    M_{\max} = \lfloor (0.8\, \mathrm{free} - a) / b \rfloor

On a graphics processor *a* and *b* are measured by training and judging two small fleets for two
steps. On a processor they are counted from the sizes of the arrays a step holds.
"""

from __future__ import annotations

import os
from dataclasses import replace

import torch

from whowrote.model import Architecture, Member, MixtureVAE, Rows, Streams
from whowrote.stepping import BLOCK
from whowrote.training import EVALUATION_ROWS, Assignment, Plan, train

LARGEST_GROUP = 512
"""More members do not train faster together, and a killed sweep loses more of them."""
USABLE = 0.8
PROBES, SMALLEST_PROBES = (4, 12), (1, 3)
"""Members of the fleets that are measured: memory comes in pieces, which few do not fill."""


def group_size(
    architecture: Architecture, plan: Plan, device: torch.device, wanted: int = LARGEST_GROUP
) -> int:
    """The number of members to train together, at least one and at most ``wanted``.

    >>> small = Architecture(n_features=4, n_components=2, latent_dim=2, hidden=(3,))
    >>> group_size(small, Plan(), torch.device("cpu"))
    512
    """
    wanted = min(wanted, LARGEST_GROUP)
    each = counted_bytes(architecture, plan)
    if device.type == "cuda":
        room = USABLE * torch.cuda.mem_get_info(device)[0]
        if 2 * wanted * each < room:  # no need to measure what fits twice
            return wanted
        few, more = PROBES if 2 * PROBES[1] * each < room else SMALLEST_PROBES
        lower, upper = (_measured(architecture, plan, m, device) for m in (few, more))
        each = max(1, (upper - lower) // (more - few))
        room = USABLE * torch.cuda.mem_get_info(device)[0] - max(0, lower - few * each)
    else:
        room = USABLE * _free_memory()
    return max(1, min(wanted, int(room // each)))


def counted_bytes(architecture: Architecture, plan: Plan) -> int:
    """Bytes a member holds at its worst moment, in single precision.

    Parameters live seven times (value, gradient, two moments, average, best state, scratch); a row
    lives in the whitened latents of every component four times and in every layer about twelve.
    """
    a = architecture
    fleet = MixtureVAE(replace(a, n_components=1), [Member()])
    networks = sum(p.numel() for net in (fleet.encoder, fleet.decoder) for p in net.parameters())
    mixture = a.n_components * (a.latent_dim**2 + a.latent_dim + 2)
    layers = a.encoder_width + a.n_features + 2 * (sum(a.hidden) + a.latent_dim)
    step_rows, judged_rows = plan.batch_size * a.n_samples, EVALUATION_ROWS
    whitened = a.n_components * a.latent_dim
    activations = max(step_rows, judged_rows) * (4 * whitened + 12 * layers)
    noise = BLOCK * step_rows * layers
    return 4 * (7 * (networks + mixture) + activations + noise)


def _measured(architecture: Architecture, plan: Plan, m: int, device: torch.device) -> int:
    """Peak bytes of two steps and an evaluation of ``m`` members on made-up rows."""
    n = 2 * plan.batch_size + EVALUATION_ROWS
    shape = replace(architecture, n_inputs=None)
    targets = torch.randn(n, shape.n_features, device=device, generator=_seeded(device))
    rows = Rows(targets, torch.arange(n, device=device) % shape.n_components)
    worst = Member(l1=0.1, label_weight=1.0, input_dropout=0.1, hidden_dropout=0.1)
    members = [replace(worst, seed=i) for i in range(m)]
    fleet = MixtureVAE(shape, members).to(device)
    index = torch.arange(n, device=device)
    assignment = Assignment((index[EVALUATION_ROWS:],) * m, (index[:EVALUATION_ROWS],) * m)
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved(device)
    torch.cuda.reset_peak_memory_stats(device)
    train(fleet, rows, assignment, replace(plan, max_epochs=2), Streams(range(m), device))
    return torch.cuda.max_memory_reserved(device) - before


def _seeded(device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(0)


def _free_memory() -> int:
    """Bytes the machine can still give; a guess of 4 GB where the system does not say."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 4 << 30
