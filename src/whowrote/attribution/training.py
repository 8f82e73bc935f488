"""One job: a corpus in, a model folder out, and an account of what it took."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from whowrote.attribution.attributor import Attributor
from whowrote.attribution.storage import check_place
from whowrote.calibration import HeldOut
from whowrote.corpus import Corpus
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
