"""How good is it on this corpus? Cross-validation, beside the classic methods.

Texts are cut into folds, groups whole; each fold is attributed by a model that has learnt from the
others. The answers of all folds together give the figures of :mod:`whowrote.metrics`, the error
against the length of the texts, and how often "none of these" was said of texts whose author was
enrolled: each such answer is wrong, the price of refusing strangers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whowrote.arrays import BoolArray, FloatArray
from whowrote.attribution import Attributor
from whowrote.attribution.answers import words_of
from whowrote.attribution.fitted_attributor import FittedAttributor
from whowrote.attribution.many_authors import MANY, ManyAuthors, learn_many
from whowrote.corpus.splits import combined_hash, folds
from whowrote.corpus.texts import Corpus
from whowrote.distributed import HERE, Machines
from whowrote.errors import InputError
from whowrote.metrics import Evaluation, Interval, evaluate, wilson
from whowrote.progress import tell

OURS = "whowrote"


@dataclass(frozen=True)
class LengthBin:
    """Texts of ``low`` to ``high`` words (both occur), and how often their answer was wrong."""

    low: int
    high: int
    n: int
    error: float
    interval: Interval


@dataclass(frozen=True)
class Method:
    """The figures of one method, and what each text got: confidence, right or not."""

    name: str
    evaluation: Evaluation
    by_length: tuple[LengthBin, ...]
    confidence: tuple[float, ...]
    right: tuple[bool, ...]
    none_share: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            **self.evaluation.to_dict(),
            "by_length": [asdict(one) for one in self.by_length],
            "none_share": self.none_share,
        }


@dataclass(frozen=True)
class CrossValidation:
    """All methods on the same folds."""

    texts: int
    authors: tuple[str, ...]
    n_folds: int
    split_hash: str
    seed: int
    methods: tuple[Method, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = asdict(self)
        plain["authors"] = list(self.authors)
        plain["methods"] = [method.to_dict() for method in self.methods]
        return plain

    def _repr_html_(self) -> str:
        from whowrote.formatting import grid, paragraph  # late: for notebooks alone

        columns = ["method", ">error", ">95 % interval", ">macro-F1", ">log-loss", ">ECE"]
        rows = [_row_of(method) for method in self.methods]
        said = f"{self.texts} texts by {len(self.authors)} authors, {self.n_folds} folds"
        return paragraph(said, strong=True) + grid(columns, rows)


def _row_of(method: Method) -> tuple[str, ...]:
    found = method.evaluation
    low, high = found.error_interval.low, found.error_interval.high
    figures = (found.macro_f1, found.log_loss, found.ece)
    return (
        method.name,
        f"{found.error:.1%}",
        f"{low:.1%} to {high:.1%}",
        *(f"{one:.3f}" for one in figures),
    )


@dataclass(frozen=True)
class _Answers:
    """Log-probabilities of some texts, and whether "none of these" was said."""

    log_proba: FloatArray
    none: BoolArray | None


def learnt(attributor: Attributor, training: Corpus) -> FittedAttributor | ManyAuthors:
    """What `whowrote train` would make of some texts: from hundreds of authors on a directory."""
    from sklearn.base import clone

    usual = attributor.features == "hybrid" and attributor.model is None
    if not (usual and len(training.author_names) >= MANY):
        linear: Attributor = clone(attributor).fit(training)
        return linear.fitted()
    many = learn_many(training, random_state=int(attributor.random_state))
    limits = attributor.none_below, float(attributor.false_attributions)
    return replace(many, none_below=limits[0], false_attributions=limits[1])


def _ours(attributor: Attributor, training: Corpus, new: Corpus) -> _Answers:
    fitted = learnt(attributor, training)
    found = fitted.attribute(new)
    columns = {author.name: column for column, author in enumerate(fitted.authors)}
    table = np.empty((len(new), len(columns)))
    for row, one in enumerate(found):
        # A directory lists the likeliest alone; what they leave of 1 is everybody else's.
        rest = max(0.0, 1.0 - sum(candidate.probability for candidate in one.ranking))
        table[row] = rest / max(1, len(columns) - len(one.ranking))
        for candidate in one.ranking:
            table[row, columns[candidate.author]] = candidate.probability
    none = np.array([one.author is None for one in found])
    with np.errstate(divide="ignore"):
        return _Answers(np.log(table), none)


def _classic(name: str, training: Corpus, new: Corpus) -> _Answers:
    fitted = BASELINES[name]().fit(list(training.texts), list(training.authors))
    return _Answers(fitted.predict_log_proba(list(new.texts)), None)


def _answers_of(attributor: Attributor, task: tuple[str, Corpus, Corpus]) -> _Answers:
    """One method on one fold."""
    name, training, new = task
    return _ours(attributor, training, new) if name == OURS else _classic(name, training, new)


def _on_vectors(name: str) -> Any:
    from sklearn.pipeline import make_pipeline

    from whowrote import baselines
    from whowrote.features import AdHominem

    return make_pipeline(AdHominem(), getattr(baselines, name)())


def _on_texts(name: str) -> Any:
    from whowrote import baselines

    return getattr(baselines, name)()


BASELINES: dict[str, Callable[[], Any]] = {
    "ngram-svm": lambda: _on_texts("NGramSVM"),
    "delta": lambda: _on_texts("BurrowsDelta"),
    "linear-svm": lambda: _on_vectors("LinearSVM"),
    "rbf-svm": lambda: _on_vectors("RBFSVM"),
    "gaussian": lambda: _on_vectors("GaussianMixtureClassifier"),
    "student-t": lambda: _on_vectors("StudentTMixtureClassifier"),
}
"""Classic methods by name: the first two read the texts, the others the extractor's vectors."""


def cross_validate(
    corpus: Corpus,
    attributor: Attributor | None = None,
    *,
    baselines: Sequence[str] = (),
    n_folds: int | None = None,
    seed: int = 0,
    machines: Machines = HERE,
) -> CrossValidation:
    """Attribute every text by models that have not seen it; None: five folds, or as many as go.

    Folds of all methods are worked on by ``machines``, ours first: it takes longest.
    """
    corpus = corpus.labelled()
    corpus.require_attribution(min_texts=2)
    unknown = [name for name in baselines if name not in BASELINES]
    if unknown:
        raise InputError(
            f"baseline {unknown[0]!r} is not known; it must be one of {', '.join(BASELINES)}"
        )
    splits = folds(
        [str(author) for author in corpus.authors],
        corpus.units,
        ids=corpus.ids,
        n_folds=n_folds or possible_folds(corpus),
        random_state=seed,
    )
    names = list(dict.fromkeys((OURS, *baselines)))
    parts = [(corpus.subset(split.train), corpus.subset(split.held_out)) for split in splits]
    tasks = [(name, *part) for name in names for part in parts]
    found: dict[int, _Answers] = {}
    for place, answers in machines.map(
        _answers_of, attributor or Attributor(random_state=seed), tasks
    ):
        found[place] = answers
        tell(f"evaluating {tasks[place][0]}", len(found), len(tasks))
    held_out = [new for _, new in parts]
    methods = [
        _evaluated(
            name,
            corpus.author_names,
            held_out,
            [found[n * len(parts) + f] for f in range(len(parts))],
        )
        for n, name in enumerate(names)
    ]
    return CrossValidation(
        texts=len(corpus),
        authors=corpus.author_names,
        n_folds=len(splits),
        split_hash=combined_hash(splits),
        seed=seed,
        methods=tuple(methods),
    )


def possible_folds(corpus: Corpus) -> int:
    """Five, or as many as the author with the fewest groups and single texts has; at least two."""
    groups = {(author, group) for author, group in zip(corpus.authors, corpus.units, strict=True)}
    return max(2, min(5, *Counter(author for author, _ in groups).values()))


def _evaluated(
    name: str, authors: tuple[str, ...], parts: Sequence[Corpus], found: Sequence[_Answers]
) -> Method:
    log_proba = np.concatenate([one.log_proba for one in found])
    truth = [str(author) for part in parts for author in part.authors]
    words = words_of([text for part in parts for text in part.texts])
    right = np.array(authors)[log_proba.argmax(axis=1)] == np.array(truth)
    none = [one.none for one in found if one.none is not None]
    return Method(
        name=name,
        evaluation=evaluate(truth, log_proba, authors, log=True),
        by_length=error_by_length(words, right),
        confidence=tuple(np.exp(log_proba.max(axis=1)).tolist()),
        right=tuple(right.tolist()),
        none_share=float(np.concatenate(none).mean()) if none else None,
    )


# -- error against the length of a text ----------------------------------------------------------


def error_by_length(words: ArrayLike, right: ArrayLike, n_bins: int = 6) -> tuple[LengthBin, ...]:
    """Error with Wilson's interval in up to ``n_bins`` bins of words.

    The borders are quantiles, so that no bin is much less certain than another; texts of one
    length stay together, and where many are equally long there are fewer bins.

    >>> short, long = error_by_length([90, 100, 800, 900], [False, True, True, True], n_bins=2)
    >>> (short.low, short.high, short.error), (long.low, long.high, long.error)
    ((90, 100, 0.5), (800, 900, 0.0))
    """
    lengths, hits = np.asarray(words), np.asarray(right, dtype=bool)
    _check_lengths(lengths, hits, n_bins)
    borders = np.unique(np.quantile(lengths, np.linspace(0.0, 1.0, n_bins + 1)[1:-1]))
    bins = np.searchsorted(borders, lengths, side="right")
    return tuple(_bin(lengths[bins == one], hits[bins == one]) for one in np.unique(bins))


def _bin(lengths: NDArray[np.int_], hits: BoolArray) -> LengthBin:
    wrong = int((~hits).sum())
    return LengthBin(
        low=int(lengths.min()),
        high=int(lengths.max()),
        n=len(hits),
        error=wrong / len(hits),
        interval=wilson(wrong, len(hits)),
    )


def _check_lengths(lengths: NDArray[np.int_], hits: BoolArray, n_bins: int) -> None:
    if lengths.ndim != 1 or lengths.shape != hits.shape or len(lengths) == 0:
        raise InputError(
            f"words has shape {lengths.shape} and right {hits.shape}; both must have one entry per "
            "text: count the words of each text and compare its answer with the truth"
        )
    if lengths.min() < 1:
        raise InputError(
            f"words has {lengths.min()}; a text must have at least one word: leave empty texts out"
        )
    if n_bins < 1:
        raise InputError(f"n_bins is {n_bins}; it must be at least 1: give 6")
