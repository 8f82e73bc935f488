"""Private names of other libraries, all of them: each with the reason, and none used elsewhere.

=========================================  ====================================================
``torch._standard_gamma``                  gamma numbers from a generator of one's own
``torch._fused_adam_``                     one step of Adam in one pass, the step size a tensor
``torch._foreach_add_``, ``_foreach_lerp_``  one call for a whole list of parameters
``torch.ops.aten._thnn_fused_lstm_cell``   the gates of an LSTM in one kernel
``torch._int_mm``                          products of matrices of 8-bit numbers
``sklearn.utils.validation._check_y``      the checks of y that every scikit-learn estimator makes
=========================================  ====================================================

A private name may go with any release. Each is looked up at its first use, so that importing this
module loads neither library, and where it is missing the error names the versions that have it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

VERSIONS = {"torch": "torch>=2.8,<3", "sklearn": "scikit-learn>=1.6,<2"}
NAMES = (
    "torch._standard_gamma",
    "torch._fused_adam_",
    "torch._foreach_add_",
    "torch._foreach_lerp_",
    "torch.ops.aten._thnn_fused_lstm_cell",
    "torch._int_mm",
    "sklearn.utils.validation._check_y",
)


@functools.cache
def found(name: str) -> Any:
    """What a dotted name of :data:`NAMES` stands for.

    >>> found("torch._foreach_add_").__name__
    '_foreach_add_'
    """
    package, *parts = name.split(".")
    library = import_module(package)
    try:
        if package == "sklearn":
            return getattr(import_module(".".join([package, *parts[:-1]])), parts[-1])
        return functools.reduce(getattr, parts, library)
    except (AttributeError, ImportError) as error:
        raise ImportError(
            f"{package} {library.__version__} has no {name}, a private name that whowrote needs: "
            f"install {VERSIONS[package]}"
        ) from error


def standard_gamma(shape: Tensor, generator: torch.Generator) -> Tensor:
    """Gamma(shape, 1): the only gamma sampler of torch that takes a generator."""
    drawn: Tensor = found("torch._standard_gamma")(shape, generator=generator)
    return drawn


def fused_adam(
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    first: Sequence[Tensor],
    second: Sequence[Tensor],
    counts: Sequence[Tensor],
    *,
    rate: Tensor,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """Adam in place, in one pass over parameters, gradients and both moments.

    ``torch.optim.Adam(fused=True)`` does the same for whole parameters; a fleet moves slices of
    them, those of the members with one step size.
    """
    found("torch._fused_adam_")(
        parameters,
        gradients,
        first,
        second,
        [],
        counts,
        lr=rate,
        beta1=betas[0],
        beta2=betas[1],
        weight_decay=0.0,
        eps=epsilon,
        amsgrad=False,
        maximize=False,
    )


def add_to_each(tensors: Sequence[Tensor], number: float) -> None:
    """Add a number to every tensor in place, in one call instead of many small ones."""
    found("torch._foreach_add_")(tensors, number)


def move_each(tensors: Sequence[Tensor], towards: Sequence[Tensor], weight: float) -> None:
    """a <- a + weight (b - a) for every pair in place, in one call instead of many small ones."""
    found("torch._foreach_lerp_")(tensors, towards, weight)


def fused_lstm_cell(inputs: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """The new state and cell of an LSTM on a GPU, in the one kernel that ``nn.LSTMCell`` runs.

    ``nn.LSTMCell`` multiplies by its own weights; here both products are known already.
    """
    state, new, _ = found("torch.ops.aten._thnn_fused_lstm_cell")(inputs, hidden, cell)
    return state, new


@functools.cache
def multiplies_bytes() -> bool:
    """Whether this processor and this torch multiply 8-bit numbers faster than single precision."""
    import torch

    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    library: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return wide and library and hasattr(torch, "_int_mm")


def multiply_bytes(left: Tensor, right: Tensor) -> Tensor:
    """(n, k) x (k, m) of 8-bit numbers, exact in 32 bits.

    torch has public products of such numbers for quantised tensors alone, which are deprecated.
    """
    product: Tensor = found("torch._int_mm")(left, right)
    return product


def checked_y(y: Any) -> NDArray[np.generic]:
    """One column of classes, checked as scikit-learn's own estimators do it.

    Its public ``check_X_y`` reads X a second time, and ``validate_data`` takes no y without it.
    """
    checked: NDArray[np.generic] = found("sklearn.utils.validation._check_y")(
        y, multi_output=False, y_numeric=False
    )
    return checked
