"""What can go wrong, in one sentence: the name, the value, the requirement and the cure.

Every type inherits the one that the ecosystem would raise, so ``except ValueError`` keeps working.
"""

from __future__ import annotations


class InputError(ValueError):
    """Bad input from a user: the command line prints it alone and leaves with status 2."""


class CorpusWarning(UserWarning):
    """A text was repaired or skipped; the whole list is in ``corpus.notes``."""
