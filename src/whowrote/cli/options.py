"""Options that several commands share, each said once, and how they read a corpus."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whowrote.formatting import printable

if TYPE_CHECKING:
    from whowrote.corpus.texts import Corpus

FORMATS = (
    "authors, flat, stylo, text, csv, tsv, jsonl, amazon, parquet, blogs, pan-attribution or "
    "pan-verification"
)


MOST_SEED = 2**32 - 1


def file_to_write(help: str) -> Any:
    """An option that names a file; that it can be written is known before the work."""
    return typer.Option(help=help, callback=_probed_file)


def folder_to_write(help: str) -> Any:
    """An option that names a folder; that files can be written in it is known before the work."""
    return typer.Option(help=help, callback=_probed_folder)


def _probed_file(path: Path | None) -> Path | None:
    from whowrote.drafts import probe

    if path is not None:
        probe(path)
    return path


def _probed_folder(path: Path | None) -> Path | None:
    from whowrote.drafts import probe

    if path is not None:
        probe(path, folder=True)
    return path


def between(low: float, high: float = math.inf) -> Callable[[Any], Any]:
    """A check of an option's number. Limits of Typer's own would fill a column of every help.

    >>> between(1, 10)(3), between(1)(None)
    (3, None)
    """
    needed = f"at least {low:g}" if high == math.inf else f"from {low:g} to {high:.10g}"

    def check(value: Any) -> Any:
        if value is not None and not low <= value <= high:
            raise typer.BadParameter(f"{value} is not {needed}; give a number that is.")
        return value

    return check


CorpusPath = Annotated[Path, typer.Argument(help="A folder of texts, or a table of them.")]
ModelPath = Annotated[Path, typer.Argument(help="The folder that `whowrote train` wrote.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, only the answer.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more: where time goes.")]
Seed = Annotated[
    int,
    typer.Option(
        callback=between(0, MOST_SEED), help="The same seed and texts give the same answer."
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Write over a model that is there already.")
]
Plots = Annotated[
    Path | None,
    folder_to_write("Folder for plots as PNG and SVG; none by default."),
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, ...; default: a GPU if any.")]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Share the work out to a Ray cluster: auto (the one that runs here), local, host:port "
        "or ray://host:port. Needs whowrote[ray].",
    ),
]
Features = Annotated[str, typer.Option(help="hybrid, adhominem or ngrams.")]

Normalise = Annotated[
    str,
    typer.Option(
        help="Read texts without these, joined by commas: case, punctuation, quotes, names."
    ),
]


@dataclass(frozen=True)
class Reading:
    """How a corpus is read: its format and its columns; None is to be detected."""

    format: Annotated[
        str | None, typer.Option(help=f"The format, if not to be detected: {FORMATS}.")
    ] = None
    text_column: Annotated[str | None, typer.Option(help="The column of texts.")] = None
    author_column: Annotated[
        str | None, typer.Option(help="The column of authors; '' if there is none.")
    ] = None
    id_column: Annotated[
        str | None, typer.Option(help="The column of ids; '' numbers the documents.")
    ] = None
    group_column: Annotated[
        str | None,
        typer.Option(help="The column (or metadata) of groups that no split may divide."),
    ] = None

    def load(self, path: Path) -> Corpus:
        """Load a corpus; what was skipped or repaired is one line on standard error."""
        from whowrote.corpus.texts import load
        from whowrote.errors import CorpusWarning

        with told_on_stderr(CorpusWarning):
            return load(path, **asdict(self))


PLAIN = Reading()


def corpus_options(
    without: tuple[str, ...] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Options for the fields of ``Reading``, in the place of a command's argument ``reading``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hidden = inspect.signature(command, eval_str=True)
        fields = inspect.signature(Reading, eval_str=True).parameters.values()
        shown = [one for one in fields if one.name not in without]
        names = [one.name for one in shown]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            reading = Reading(**{name: given.pop(name) for name in names})
            command(**given, reading=reading)

        parameters = []
        for one in hidden.parameters.values():
            parameters += shown if one.name == "reading" else [one]
        keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
        run.__signature__ = hidden.replace(parameters=keywords)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in keywords}
        del run.__wrapped__
        return run

    return decorate


def say(text: object, *, err: bool = False) -> None:
    """One message on standard output or error, which cannot steer the terminal."""
    typer.echo(printable(str(text)), err=err)


@contextmanager
def told_on_stderr(kind: type[Warning]) -> Iterator[None]:
    """Warnings of this kind in here, a line each on standard error."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", kind)
        yield
    for warning in caught:
        say(f"whowrote: {warning.message}", err=True)


def on_gpus(device: str | None) -> bool:
    """Whether tasks on other machines ask for a GPU each."""
    return device is not None and device.startswith("cuda")
