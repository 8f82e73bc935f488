"""What the commands do, each one typed function: train, open, read, verify, enrol, inspect."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from whowrote.attribution import storage
from whowrote.attribution.answers import Comparison, Enrolled, check_limits
from whowrote.attribution.calibration import HeldOut
from whowrote.attribution.fitted_attributor import FittedAttributor
from whowrote.attribution.many_authors import COMPONENT, MANY, ManyAuthors, learn_many
from whowrote.attribution.population import (
    extractor_of,
)
from whowrote.attribution.rows import normalised
from whowrote.attribution.verification import (
    compare,
    not_english,
    packaged_extractor,
)
from whowrote.corpus.audit import typography
from whowrote.corpus.texts import Corpus, load, load_stream
from whowrote.errors import InputError
from whowrote.features.interface import FittedFeatures
from whowrote.formatting import as_limit
from whowrote.progress import tell, timed


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
    named: float | None
    """The share that goes to its author by name, at the limit for strangers; None: not known."""
    seconds: dict[str, float]
    megabytes: float
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def train_model(
    corpus: Corpus,
    out: Path,
    *,
    features: str = "hybrid",
    weights: Path | None = None,
    normalise: Sequence[str] = (),
    seed: int = 0,
    overwrite: bool = False,
) -> Trained:
    """Fit an attributor to a corpus and save it; ``weights`` is an extractor of your own.

    ``normalise`` are what texts are read without; see :class:`Attributor`.
    """
    # late: only learning needs scikit-learn
    from whowrote.attribution.attributor import Attributor, by_ridge
    from whowrote.features.adhominem import AdHominem
    from whowrote.features.kinds import with_weights

    if features == "hybrid" and not normalise and len(corpus.author_names) >= MANY:
        own = None if weights is None else AdHominem(weights).fitted()
        return _train_many(corpus, out, extractor=own, seed=seed, overwrite=overwrite)
    chosen = features if weights is None else with_weights(features, weights, by_ridge(corpus))
    with timed() as stopwatch, storage.new_folder(out, overwrite=overwrite) as draft:
        attributor = Attributor(chosen, normalise=tuple(normalise), random_state=seed).fit(corpus)
        tell("calibrating", 1, 1)
        fitted = attributor.fitted()
        storage.write(fitted, draft)
        tell("saving", 1, 1)
    curve = fitted.calibration.strangers
    return Trained(
        out=str(out),
        id=attributor.id_,
        authors=len(attributor.authors_),
        texts=sum(author.texts for author in attributor.authors_),
        passages=sum(author.passages for author in attributor.authors_),
        words=sum(author.words for author in attributor.authors_),
        held_out=fitted.calibration.held_out,
        named=None if curve is None else 1.0 - curve.missed(fitted.false_attributions),
        seconds=stopwatch.seconds,
        megabytes=sum(file.stat().st_size for file in out.iterdir()) / 1e6,
        warnings=tuple(_doubts(corpus.labelled(), attributor.fitted_)),
    )


def _doubts(corpus: Corpus, fitted: FittedAttributor) -> Iterator[str]:
    """What may make a model look better, or be worse, than it is."""
    reader = fitted.reader
    texts = [normalised(text, reader.normalise) for text in corpus.texts]
    read = Corpus.from_texts(texts, corpus.authors, groups=corpus.groups)
    marks = typography(read)
    if marks is not None and marks.telling:
        yield marks.in_words
    foreign = sum(not_english(reader.features, text) != "" for text in texts)
    if 2 * foreign > len(corpus):
        yield (
            f"{foreign} of {len(corpus)} texts do not look like English, the one language of the "
            "packaged extractor: --features ngrams reads any"
        )


def _train_many(
    corpus: Corpus, out: Path, *, extractor: FittedFeatures | None, seed: int, overwrite: bool
) -> Trained:
    """The same for very many authors."""
    with timed() as stopwatch, storage.new_folder(out, overwrite=overwrite) as draft:
        fitted = learn_many(corpus, extractor=extractor, random_state=seed)
        storage.write_many(fitted, draft)
        tell("saving", 1, 1)
    texts = sum(one.texts for one in fitted.authors)
    return Trained(
        out=str(out),
        id=storage.load_many(out).id,
        authors=len(fitted.authors),
        texts=texts,
        passages=texts,
        words=sum(one.words for one in fitted.authors),
        held_out=fitted.held_out,
        named=None,
        seconds=stopwatch.seconds,
        megabytes=sum(file.stat().st_size for file in out.iterdir()) / 1e6,
    )


STDIN = "-"


def open_any(
    path: Path, none_below: float | None = None, false_attributions: float | None = None
) -> FittedAttributor | ManyAuthors:
    """Open a model of any number of authors to answer; limits as for :func:`open_model`."""
    if not ((path / storage.MANIFEST).is_file() and storage.holds_many(path)):
        return open_model(path, none_below, false_attributions)
    many = storage.load_many(path)
    least = many.none_below if none_below is None else none_below
    rate = many.false_attributions if false_attributions is None else false_attributions
    check_limits(least, rate)
    return replace(many, none_below=least, false_attributions=rate)


def open_model(
    path: Path, none_below: float | None = None, false_attributions: float | None = None
) -> FittedAttributor:
    """Open a model to answer; limits where others than its own are wanted."""
    fitted = storage.load(path)
    least = fitted.none_below if none_below is None else none_below
    rate = fitted.false_attributions if false_attributions is None else false_attributions
    check_limits(least, rate)
    return replace(fitted, none_below=least, false_attributions=rate)


def questioned(paths: Sequence[str], stdin: TextIO, **reading: Any) -> Corpus:
    """The texts of files, folders, tables and (as ``-``) standard input, in their order.

    Both are decoded from their bytes by the same rules: one text has one answer.
    """
    return Corpus.join(
        load_stream(_bytes_of(stdin), id=STDIN) if path == STDIN else load(path, **reading)
        for path in paths
    )


def _bytes_of(stdin: TextIO) -> BinaryIO:
    """The bytes below a text stream; one that is in memory alone has none."""
    below = getattr(stdin, "buffer", None)
    return below or io.BytesIO(stdin.read().encode("utf-8", "surrogatepass"))


@dataclass(frozen=True)
class Verified:
    """Two sides, the known texts of one person or a text, and how much alike they are."""

    first: tuple[str, ...]
    second: str
    comparison: Comparison

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "comparison": self.comparison.to_dict()}


def verify_texts(
    paths: Sequence[str],
    stdin: TextIO,
    *,
    model: Path | None = None,
    known: str | None = None,
    prior: float | None = None,
) -> Verified:
    """Compare two texts, or known ones with another, by a model's curve or the packaged one.

    The first of ``paths`` may be the model's folder.
    """
    paths = list(paths)
    if model is None and paths and (Path(paths[0]) / storage.MANIFEST).is_file():
        model = Path(paths.pop(0))
    asked = questioned(paths, stdin) if paths else Corpus.from_texts([])
    wanted = 2 if known is None else 1
    if len(asked) != wanted:
        listed = " and ".join(f"'{path}'" for path in paths) or "nothing"
        raise InputError(
            f"{listed} given with {len(asked)} texts; verification compares two: give one text "
            "file each, or --known FOLDER and one text file"
        )
    first = asked.subset([0]) if known is None else load(known)
    sides = (first.texts, asked.texts[-1])
    if model is None:
        found = compare(packaged_extractor(), None, *sides, prior)
    else:
        found = open_any(model).verify(*sides, prior=prior)
    return Verified(tuple(first.ids), asked.ids[-1], found)


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
    from whowrote.attribution.enrolment import enroll  # late: an answer needs none

    grown: FittedAttributor | ManyAuthors
    with storage.new_folder(out, overwrite=overwrite) as draft:
        fitted, new = open_any(model), corpus.labelled()
        if isinstance(fitted, ManyAuthors):
            grown = fitted.enroll(new)
            storage.write_many(grown, draft)
        else:
            grown = enroll(fitted, new)
            storage.write(grown, draft)
    if isinstance(grown, ManyAuthors):
        grown = storage.load_many(out)
    pairs = zip(grown.predict(new.texts), new.authors, strict=True)
    right, known = sum(named == true for named, true in pairs), len(fitted.authors)
    return EnrolledMore(str(out), grown.id, grown.authors[known:], int(right), len(new))


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
    none_of_these: str
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
    if (path / storage.MANIFEST).is_file() and storage.holds_many(path):
        return _inspect_many(path)
    manifest, fitted = storage.read_manifest(path), storage.load(path)
    sizes = {name: about.bytes for name, about in manifest.files.items()}
    sizes[storage.MANIFEST] = (path / storage.MANIFEST).stat().st_size
    fleet = fitted.model.fleet
    return Inspected(
        path=str(path),
        id=manifest.id,
        version=manifest.version,
        features=dict(manifest.learnt["features"]),
        settings=asdict(manifest.settings),
        authors=fitted.authors,
        degrees_of_freedom=tuple(fitted.model.degrees_of_freedom.tolist()),
        held_out=fitted.calibration.held_out,
        calibration=asdict(fitted.calibration.pooling),
        none_of_these=_none_of_these(fitted),
        verification=_in_short(manifest.learnt["verifier"]),
        latent_dim=fleet.architecture.latent_dim,
        members=len(fleet),
        component=fitted.model.component,
        bytes=dict(sorted(sizes.items(), key=lambda item: -item[1])),
        card=_card(fitted.reader.features),
    )


def _inspect_many(path: Path) -> Inspected:
    plain, fitted = storage.read_many(path), storage.load_many(path)
    sizes = {name: one["bytes"] for name, one in plain["files"].items()}
    sizes[storage.MANIFEST] = (path / storage.MANIFEST).stat().st_size
    rate, directory = fitted.false_attributions, fitted.directory
    return Inspected(
        path=str(path),
        id=fitted.id,
        version=plain["version"],
        features=plain["learnt"]["features"],
        settings={**plain["settings"], "passage_words": 0, "prior": "equal"},
        authors=fitted.authors,
        degrees_of_freedom=(),
        held_out=fitted.held_out,
        calibration={"temperature": 1.0, "exponent": 0.0, **asdict(directory.shared)},
        none_of_these=(
            f"none of these where more than {as_limit(rate)} of {len(fitted.strangers)} texts with "
            "their author taken out stand out as much"
        ),
        verification=_in_short(plain["learnt"]["verifier"]),
        latent_dim=directory.rows.shape[1],
        members=1,
        component=COMPONENT,
        bytes=dict(sorted(sizes.items(), key=lambda item: -item[1])),
        card=_card(fitted.features),
    )


def _none_of_these(fitted: FittedAttributor) -> str:
    """When nobody is named, and what that costs."""
    curve = fitted.calibration.strangers
    if curve is None:
        return f"none of these below {as_limit(fitted.typicality_limit(None))} typicality"
    rate = fitted.false_attributions
    return (
        f"none of these where more than {as_limit(rate)} of strangers' texts look as much like "
        f"somebody enrolled ({curve.people} authors left out in turn), which costs "
        f"{curve.missed(rate):.0%} of the enrolled authors' own texts"
    )


def _in_short(verifier: dict[str, Any] | None) -> dict[str, Any] | None:
    """What was learnt for comparisons, without its long lists."""
    if verifier is None:
        return None
    return {name: one for name, one in verifier.items() if name not in ("vector", "draws")}


def _card(features: FittedFeatures) -> dict[str, Any]:
    """Where the weights of the extractor come from, if the features have one."""
    extractor = extractor_of(features)
    if extractor is None:
        return {}
    card = extractor.card()
    wanted = ("date", "authors", "texts", "corpora", "steps")
    return {name: card[name] for name in wanted if name in card}
