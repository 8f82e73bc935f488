"""From texts by known people to an answer for others: who, how sure, or none of these.

Names are imported on first use: what answers does not load what learns, nor scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whowrote.runtime import on_first_use

if TYPE_CHECKING:
    from whowrote.attribution.answers import Attribution as Attribution
    from whowrote.attribution.answers import Candidate as Candidate
    from whowrote.attribution.answers import Combination as Combination
    from whowrote.attribution.answers import Comparison as Comparison
    from whowrote.attribution.answers import Enrolled as Enrolled
    from whowrote.attribution.answers import ModelIdentity as ModelIdentity
    from whowrote.attribution.attributor import Attributor as Attributor

_MODULES = {
    "Attribution": "whowrote.attribution.answers",
    "Attributor": "whowrote.attribution.attributor",
    "Candidate": "whowrote.attribution.answers",
    "Combination": "whowrote.attribution.answers",
    "Comparison": "whowrote.attribution.answers",
    "Enrolled": "whowrote.attribution.answers",
    "ModelIdentity": "whowrote.attribution.answers",
}

__all__ = [
    "Attribution",
    "Attributor",
    "Candidate",
    "Combination",
    "Comparison",
    "Enrolled",
    "ModelIdentity",
]

__getattr__ = on_first_use(__name__, _MODULES)
