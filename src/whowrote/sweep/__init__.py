"""Many fits as a few fleets: a grid over splits and seeds that can be killed and resumed.

Names are imported on first use: who only reads records does not load torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whowrote.runtime import on_first_use

if TYPE_CHECKING:
    from whowrote.sweep.data import Vectors as Vectors
    from whowrote.sweep.data import read_vectors as read_vectors
    from whowrote.sweep.data import shares_of as shares_of
    from whowrote.sweep.grid import Halving as Halving
    from whowrote.sweep.grid import RandomSearch as RandomSearch
    from whowrote.sweep.grid import Range as Range
    from whowrote.sweep.records import Record as Record
    from whowrote.sweep.records import RecordWarning as RecordWarning
    from whowrote.sweep.records import pack as pack
    from whowrote.sweep.results import Choice as Choice
    from whowrote.sweep.results import Results as Results
    from whowrote.sweep.results import Row as Row
    from whowrote.sweep.results import read as read
    from whowrote.sweep.runner import Config as Config
    from whowrote.sweep.runner import read_config as read_config
    from whowrote.sweep.runner import run_config as run_config
    from whowrote.sweep.runner import sweep as sweep

_MODULES = {
    "Choice": "whowrote.sweep.results",
    "Config": "whowrote.sweep.runner",
    "Halving": "whowrote.sweep.grid",
    "RandomSearch": "whowrote.sweep.grid",
    "Range": "whowrote.sweep.grid",
    "Record": "whowrote.sweep.records",
    "RecordWarning": "whowrote.sweep.records",
    "Results": "whowrote.sweep.results",
    "Row": "whowrote.sweep.results",
    "Vectors": "whowrote.sweep.data",
    "pack": "whowrote.sweep.records",
    "read": "whowrote.sweep.results",
    "read_config": "whowrote.sweep.runner",
    "read_vectors": "whowrote.sweep.data",
    "run_config": "whowrote.sweep.runner",
    "shares_of": "whowrote.sweep.data",
    "sweep": "whowrote.sweep.runner",
}

__all__ = [
    "Choice",
    "Config",
    "Halving",
    "RandomSearch",
    "Range",
    "Record",
    "RecordWarning",
    "Results",
    "Row",
    "Vectors",
    "pack",
    "read",
    "read_config",
    "read_vectors",
    "run_config",
    "shares_of",
    "sweep",
]

__getattr__ = on_first_use(__name__, _MODULES)
