r"""The other methods of the table, each over its grid, on every fold of a training size.

.. math:: C \in \{10^{-3}, \dots, 1\}, \qquad (C, \gamma) \in \{\tfrac14, \dots, 16\} \times
    \{\tfrac1{8 L}, \dots, \tfrac4L\}

The linear SVM follows the path of its C, one start per fold; the RBF SVM shares a kernel between
the C of one gamma. The readers take the texts themselves: an SVM on n-grams, and
``Attributor()`` as it comes. Jobs are spread over processes, each with one thread.
"""

from __future__ import annotations

import hashlib
import platform
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from multiprocessing import get_context
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whowrote import __version__
from whowrote.corpus.splits import Split
from whowrote.errors import InputError
from whowrote.files import canonical_json
from whowrote.sweep.data import Part
from whowrote.sweep.records import Record
from whowrote_experiments.protocol import READERS, Method, Unit

PACKAGES = ("scikit-learn", "numpy", "scipy")


@dataclass(frozen=True)
class Material:
    """What is to be told apart: vectors and, for n-grams, the texts in the same order."""

    corpus: str
    X: NDArray[Any]
    y: NDArray[Any]
    hash: str
    texts: Sequence[str] | None = None

    @cached_property
    def text_hash(self) -> str:
        """SHA-256 of texts and authors."""
        digest = hashlib.sha256("\n".join(map(str, self.y)).encode())
        for text in self.required_texts:
            digest.update(hashlib.sha256(text.encode()).digest())
        return digest.hexdigest()

    @property
    def required_texts(self) -> Sequence[str]:
        """The texts, or a sentence on how to give them."""
        if self.texts is None:
            raise InputError(
                "this method reads texts and only vectors are given; name the corpus with --texts, "
                "or leave the method out"
            )
        return self.texts


@dataclass(frozen=True)
class Job:
    """One task of a process: some points of a grid on one split."""

    kind: str
    points: tuple[dict[str, Any], ...]
    split: Split
    hash: str
    """That of the split, computed once."""
    fold: int


@dataclass(frozen=True)
class Scored:
    """What came of one point."""

    point: dict[str, Any]
    development_error: float
    test_error: float
    seconds: float


def svm_records(
    unit: Unit, material: Material, splits: dict[int, Split], workers: int = 1
) -> list[Record]:
    """Fit a unit of SVMs, or of readers of texts, and return its records."""
    if unit.method.kind in READERS:
        _ = material.required_texts  # or a sentence, before any process starts
    jobs = [job for fold in unit.folds for job in _jobs(unit.method, splits[fold], fold)]
    with _pool(material, min(workers, len(jobs))) as run:
        return [
            _record(unit, job, one, material)
            for job, scored in zip(jobs, run(jobs), strict=True)
            for one in scored
        ]


def _jobs(method: Method, split: Split, fold: int) -> list[Job]:
    """The points of a grid that have all but C in common are one job."""
    alike: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for point in ({**method.fixed, **point} for point in method.points):
        alike[canonical_json({**point, "C": None})].append(point)
    ordered = (
        tuple(sorted(own, key=lambda point: float(point.get("C", 0)))) for own in alike.values()
    )
    name = split.hash
    return [Job(method.kind, points, split, name, fold) for points in ordered]


def _record(unit: Unit, job: Job, scored: Scored, material: Material) -> Record:
    return Record(
        configuration={"kind": job.kind, **scored.point},
        protocol={},
        split=job.hash,
        data=material.text_hash if job.kind in READERS else material.hash,
        seed=0,
        **Part(job.fold, unit.share, job.split).labels,
        development_error=scored.development_error,
        development_log_loss=None,
        test_error=scored.test_error,
        test_log_loss=None,
        df=None,
        epochs=0,
        best_epoch=None,
        seconds=scored.seconds,
        diverged=None,
        versions=_versions(),
        method=unit.method.name,
        corpus=material.corpus,
    )


def _versions() -> dict[str, str]:
    found = {"whowrote": __version__} | {name: version(name) for name in PACKAGES}
    return {**found, "python": platform.python_version(), "device": platform.machine()}


# -- in a process --------------------------------------------------------------------------------

_HERE: list[Material] = []


@contextmanager
def _pool(material: Material, workers: int) -> Iterator[Any]:
    """Something that maps jobs to lists of scores, here or in processes."""
    if workers <= 1:
        yield lambda jobs: (scores(job, material) for job in jobs)
        return
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_settle, initargs=(material,)
    ) as pool:
        yield lambda jobs: pool.map(_scores_here, jobs)


def _settle(material: Material) -> None:
    """Every process gets the rows once, not with each job."""
    _HERE[:] = [material]


def _scores_here(job: Job) -> list[Scored]:
    return scores(job, _HERE[0])


def scores(job: Job, material: Material) -> list[Scored]:
    """Fit the points of a job and count the wrong answers on both held-out halves."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    began = perf_counter()
    with threadpool_limits(1):
        answers = _answers(job, material)
    seconds = (perf_counter() - began) / len(job.points)
    held = np.array([*job.split.development, *job.split.test])
    n = len(job.split.development)
    found = []
    for point, given in zip(job.points, answers, strict=True):
        wrong = given != material.y[held]
        found.append(Scored(point, float(wrong[:n].mean()), float(wrong[n:].mean()), seconds))
    return found


def _answers(job: Job, material: Material) -> list[NDArray[Any]]:
    """The named authors of development and test rows, for every point."""
    train, held = list(job.split.train), [*job.split.development, *job.split.test]
    if job.kind in READERS:
        return [_read(job.kind, material, train, held, point) for point in job.points]
    X = np.asarray(material.X, dtype=np.float64)
    classes, codes = np.unique(material.y[train], return_inverse=True)
    strengths = [point["C"] for point in job.points]
    if job.kind == "linear-svm":
        from whowrote_experiments.svm_paths import path

        found = path(X[train], codes, X[held], strengths)
    else:
        from whowrote_experiments.svm_paths import kernel_path

        found = kernel_path(X[train], codes, X[held], job.points[0]["gamma"], strengths)
    return [classes[one.argmax(axis=1)] for one in found]


def _read(
    kind: str,
    material: Material,
    train: Sequence[int],
    held: Sequence[int],
    point: dict[str, Any],
) -> NDArray[Any]:
    """The authors that a reader of texts names; of ours the best one, however unusual the text."""
    from whowrote.attribution import Attributor
    from whowrote.baselines import NGramSVM
    from whowrote.features.interface import ReliabilityWarning

    texts = material.required_texts
    own = kind == "attributor"
    reader: Any = Attributor(**point) if own else NGramSVM(**point, probability=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)  # short texts are part of the corpus
        reader.fit([texts[row] for row in train], material.y[train].tolist())
        return np.asarray(reader.predict([texts[row] for row in held]))
