"""What is said of a text: typed, whole, and plain enough for JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Candidate:
    """One enrolled author and what speaks for him.

    ``probability`` is that of this author, given that one of the enrolled wrote the text;
    ``log_density`` the log density of the text's style under him, mean over its passages;
    ``typicality`` how often a text of his own is as unusual for him as this one is.
    """

    author: str
    probability: float
    log_density: float
    typicality: float


@dataclass(frozen=True)
class Combination:
    """How the passages of a text were put together.

    The log-likelihoods of ``passages`` passages are summed, divided by ``temperature`` times
    ``passages`` to the power ``exponent``, and added to the log of the prior.
    """

    passages: int
    temperature: float
    exponent: float
    prior: str


@dataclass(frozen=True)
class ModelIdentity:
    """Which model spoke: the hash of everything it has learnt, and what made it."""

    id: str
    version: str
    features: str
    component: str
    authors: int


@dataclass(frozen=True)
class Attribution:
    """The answer for one text; ``author`` is None for "none of these".

    ``typicality`` is the p-value of the best candidate: when it is below ``none_below``, a text so
    unusual for him is rather by somebody who is not enrolled.
    """

    document: str
    sha256: str
    author: str | None
    ranking: tuple[Candidate, ...]
    typicality: float
    none_below: float
    tokens: int
    combination: Combination
    warnings: tuple[str, ...]
    model: ModelIdentity

    @property
    def best(self) -> Candidate:
        """The most probable of the enrolled authors, whether or not he is the answer."""
        return self.ranking[0]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain = asdict(self)
        plain["ranking"] = list(plain["ranking"])
        plain["warnings"] = list(plain["warnings"])
        return plain

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)
