"""One job: a corpus in, a model folder out, and an account of what it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from whowrote.attribution.answers import Enrolled
from whowrote.attribution.attributor import Attributor
from whowrote.attribution.calibration import HeldOut
from whowrote.attribution.fitted_attributor import check_limit
from whowrote.attribution.storage import Opened, check_place, read_manifest
from whowrote.attribution.verification import Verdict
from whowrote.corpus.texts import Corpus, load
from whowrote.errors import InputError
from whowrote.progress import tell, timed

if TYPE_CHECKING:
    from whowrote.attribution.attributor import Attributor


@dataclass(frozen=True)
class Trained:
    """A finished training: where the model is, what it learnt from, where the time went."""

    out: str
    id: str
    authors: int
    texts: int
    passages: int
    words: int
    held_out: HeldOut
    seconds: dict[str, float]
    megabytes: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def train_model(
    corpus: Corpus,
    out: Path,
    *,
    features: str = "hybrid",
    seed: int = 0,
    overwrite: bool = False,
) -> Trained:
    """Fit an attributor to a corpus and save it."""
    check_place(out, overwrite)  # before the work, not after it
    with timed() as watch:
        attributor = Attributor(features, random_state=seed).fit(corpus)
        tell("calibrating", 1, 1)
        attributor.save(out, overwrite=overwrite)
        tell("saving", 1, 1)
    return Trained(
        out=str(out),
        id=attributor.id_,
        authors=len(attributor.authors_),
        texts=sum(author.texts for author in attributor.authors_),
        passages=sum(author.passages for author in attributor.authors_),
        words=sum(author.words for author in attributor.authors_),
        held_out=attributor.calibration_.held_out,
        seconds=watch.seconds,
        megabytes=sum(file.stat().st_size for file in out.iterdir()) / 1e6,
    )


# DOC """What the commands do, each one typed function: open, read, verify, enrol, inspect.
# DOC
# DOC Commands that only answer load what answers; an attributor is loaded where it is needed whole.
# DOC """

STDIN = "-"


def open_model(path: Path, none_below: float | None = None) -> Opened:
    """Open a model to answer; ``none_below`` where another limit than its own is wanted."""
    opened = Opened(path)
    if none_below is not None:
        check_limit(none_below)
        opened.none_below = none_below
    return opened


def questioned(paths: Sequence[str], stdin: TextIO, **reading: Any) -> Corpus:
    """The texts of files, folders, tables and (as ``-``) standard input, in their order."""
    return Corpus.join(
        Corpus.from_texts([_whole(stdin)], ids=[STDIN]) if path == STDIN else load(path, **reading)
        for path in paths
    )


def _whole(stdin: TextIO) -> str:
    text = stdin.read()
    if not text.strip():
        raise InputError("standard input is empty; a text must have words: pipe one in")
    return text


@dataclass(frozen=True)
class Verified:
    """Two texts, and whether one author wrote both."""

    first: str
    second: str
    verdict: Verdict
    pairs: int
    auc: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def verify_texts(model: Path, first: str, second: str, stdin: TextIO) -> Verified:
    """Judge two texts by a model's curve."""
    opened = open_model(model)
    corpus = questioned([first, second], stdin)
    if len(corpus) != 2:
        raise InputError(
            f"'{first}' and '{second}' hold {len(corpus)} texts; verification compares two: give "
            "one text file each"
        )
    verdict = opened.verify(*corpus.texts)
    curve = opened.verifier_
    assert curve is not None  # for the type checker: verify has raised otherwise
    return Verified(corpus.ids[0], corpus.ids[1], verdict, curve.pairs, curve.auc)


@dataclass(frozen=True)
class EnrolledMore:
    """A grown model, and how the new authors' own texts fare with it."""

    out: str
    id: str
    new: tuple[Enrolled, ...]
    own_texts_right: int
    own_texts: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def enroll_model(
    model: Path, corpus: Corpus, out: Path, *, overwrite: bool = False
) -> EnrolledMore:
    """Add the authors of a corpus to a model and save it under another name."""
    from whowrote.attribution.attributor import Attributor
    from whowrote.attribution.storage import check_place

    check_place(out, overwrite)
    attributor = Attributor.load(model)
    known, new = len(attributor.authors_), corpus.labelled()
    grown = attributor.enroll(new)
    grown.save(out, overwrite=overwrite)
    pairs = zip(grown.predict(new.texts), new.authors, strict=True)
    right = sum(named == true for named, true in pairs)
    return EnrolledMore(str(out), grown.id_, grown.authors_[known:], int(right), len(new))


@dataclass(frozen=True)
class Inspected:
    """What a model folder says of itself."""

    path: str
    id: str
    version: str
    features: dict[str, Any]
    settings: dict[str, Any]
    authors: tuple[Enrolled, ...]
    degrees_of_freedom: tuple[float, ...]
    held_out: HeldOut
    calibration: dict[str, float]
    verification: dict[str, Any] | None
    latent_dim: int
    members: int
    component: str
    bytes: dict[str, int]
    card: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def inspect_model(path: Path) -> Inspected:
    """Everything a model tells about itself, without a text."""
    from whowrote.attribution.attributor import Attributor

    manifest, attributor = read_manifest(path), Attributor.load(path)
    sizes = {name: int(about["bytes"]) for name, about in manifest["files"].items()}
    sizes["manifest.json"] = (path / "manifest.json").stat().st_size
    fleet = attributor.model_.fleet_
    return Inspected(
        path=str(path),
        id=manifest["id"],
        version=manifest["version"],
        features=manifest["features"],
        settings=manifest["settings"],
        authors=attributor.authors_,
        degrees_of_freedom=tuple(attributor.model_.degrees_of_freedom_.tolist()),
        held_out=attributor.calibration_.held_out,
        calibration=asdict(attributor.calibration_.pooling),
        verification=manifest["verifier"],
        latent_dim=fleet.architecture.latent_dim,
        members=len(fleet),
        component=attributor.model_.component,
        bytes=dict(sorted(sizes.items(), key=lambda item: -item[1])),
        card=_card(attributor),
    )


def _card(attributor: Attributor) -> dict[str, Any]:
    """Where the weights of the extractor come from, if the features have one."""
    from whowrote.features import AdHominem

    features = getattr(attributor.reader_.features, "dense_", attributor.reader_.features)
    if not isinstance(features, AdHominem):
        return {}
    card = features.card()
    wanted = ("date", "authors", "texts", "corpora", "steps")
    return {name: card[name] for name in wanted if name in card}
