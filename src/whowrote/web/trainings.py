"""Trainings: ``texts -> a process -> a model`` in the folder of models."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whowrote.corpus.texts import Corpus
from whowrote.errors import InputError
from whowrote.web.limits import RefusalError
from whowrote.web.processes import Job, Processes

NAME = re.compile(r"[\w][\w .-]{0,59}")
FEATURES = ("hybrid", "adhominem", "ngrams")


@dataclass(kw_only=True)
class Training(Job):
    """One training: what was asked and what came of it."""

    features: str
    texts: int
    authors: int
    trained: dict[str, Any] | None = None
    evaluation: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """What a page shows while it waits."""
        return {**super().to_dict(), "trained": self.trained is not None}


class Trainings:
    """The trainings of one server.

    Parameters
    ----------
    processes : in which they run.
    models : the folder in which models are written.
    first : the model that the server was started with, wherever it lies.

    """

    def __init__(self, processes: Processes, models: Path, first: Path | None = None) -> None:
        self.processes, self.models, self.first = processes, models, first

    def every(self) -> list[Training]:
        """All of them, the oldest first."""
        return [job for job in self.processes.jobs.values() if isinstance(job, Training)]

    def get(self, key: str) -> Training:
        """A job, or a refusal."""
        job = self.processes.jobs.get(key)
        if not isinstance(job, Training):
            raise RefusalError(404, "there is no such training here: see the list under Train")
        return job

    def start(
        self, corpus: Corpus, name: str, features: str, seed: int, evaluate: bool
    ) -> Training:
        """Begin, or wait for those before; the model is named as its folder will be."""
        out = self.place(name)
        if features not in FEATURES:
            raise InputError(f"features is {features!r}; it must be one of {', '.join(FEATURES)}")
        corpus.require_attribution()
        if any(job.name == name and not job.ended for job in self.every()):
            raise InputError(f"a training named {name!r} already runs: give another name")
        known = corpus.labelled()
        job = Training(
            name=name, features=features, texts=len(corpus), authors=len(corpus.author_names)
        )
        asked = {
            "task": "train",
            "texts": known.texts,
            "authors": known.authors,
            "ids": known.ids,
            "out": str(out),
            "features": features,
            "seed": seed,
            "evaluate": evaluate,
        }
        self.processes.begin(job, asked)
        return job

    def place(self, name: str) -> Path:
        """The folder of a model of that name, always inside the folder of models."""
        out = self.models / f"{checked_name(name, 'letters')}.model"
        if out.exists():
            raise InputError(f"a model named {name!r} is there already: give another name")
        return out

    def saved(self) -> dict[str, Path]:
        """The models that can be opened, by name: the first one, and those in the folder."""
        inside = sorted(self.models.iterdir()) if self.models.is_dir() else []
        every = [one for one in inside if one.name.endswith(".model")]
        if self.first is not None:
            every.append(self.first)
        return {
            one.name.removesuffix(".model"): one
            for one in every
            if (one / "manifest.json").is_file()
        }


def checked_name(name: str, example: str) -> str:
    """A name that is one folder, inside the folder that it is meant for.

    >>> checked_name("the will", "letters")
    'the will'
    """
    if not NAME.fullmatch(name) or name.endswith((".", " ")):
        raise InputError(
            f"the name is {name[:60]!r}; it must begin with a letter or digit and have at most "
            f"60 letters, digits, spaces, dots, hyphens: call it {example!r}"
        )
    return name
