"""The public names, frozen: a name comes or goes only together with this list."""

import re
from pathlib import Path

import whowrote

NAMES = {
    "AdHominem",
    "Attribution",
    "Attributor",
    "Corpus",
    "Hybrid",
    "MixtureVAEClassifier",
    "MixtureVAEClusterer",
    "NGrams",
    "SentenceEncoder",
    "StyleExtractor",
    "load",
}
REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "api.md"


def documented(page: str) -> set[str]:
    """The names that a page of the reference describes."""
    return set(re.findall(r"^\.\. auto(?:class|function):: (\w+)$", page, re.M))


def test_the_public_names_are_these() -> None:
    assert set(whowrote.__all__) == NAMES | {"__version__"}
    assert all(callable(getattr(whowrote, name)) for name in NAMES)


def test_dir_shows_the_public_names_alone_also_after_they_were_used() -> None:
    assert whowrote.NGrams is whowrote.features.ngrams.NGrams
    assert set(dir(whowrote)) == NAMES | {"__version__"}


def test_every_public_name_is_in_the_reference() -> None:
    assert documented(REFERENCE.read_text(encoding="utf-8")) == NAMES


def test_a_name_that_the_reference_forgets_is_found() -> None:
    assert documented(".. autoclass:: NGrams\n\n.. autofunction:: load\n") == {"NGrams", "load"}
