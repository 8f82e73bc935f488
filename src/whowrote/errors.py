"""What can go wrong, in one sentence: the name, the value, the requirement and the cure.

Every type inherits the one that the ecosystem would raise, so ``except ValueError`` keeps working.
"""

from __future__ import annotations

from collections.abc import Iterable


class InputError(ValueError):
    """Bad input from a user: the command line prints it alone and leaves with status 2."""


class CorpusWarning(UserWarning):
    """A text was repaired or skipped; the whole list is in ``corpus.notes``."""


def first_line(problem: BaseException) -> str:
    r"""What another library complains of, short enough for one sentence.

    >>> first_line(OSError("no such file\nand much more")), first_line(ValueError())
    ('no such file', 'ValueError')
    """
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__


class DataWarning(UserWarning):
    """X or y can be learnt from but hardly means what it says; the sentence names the cure."""


class ClusterWarning(UserWarning):
    """Clusters are empty or have merged; the sentence names the cure."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """The end of a sentence about a misspelt name, or nothing.

    >>> did_you_mean("latent_dims", ["latent_dim", "hidden"]), did_you_mean("x", ["hidden"])
    ("; did you mean 'latent_dim'?", '')
    """
    import difflib  # only who misspells pays for it

    close = difflib.get_close_matches(name, list(choices), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
