"""Rolling attribution: spliced texts cut where they were joined, the outsider's part left out.

Novels of 33 novelists. In each half of the novelists (development, test), some are enrolled by
texts of 1,000 words of their first two novels, and the others are outsiders. A splice has 3,000
words each of two enrolled authors' third novels and of an outsider's, in a random order; an
unspliced text 9,000 words of one enrolled author. The rule of change points and its penalty were
chosen on the development half alone, in draws of who is an outsider and which novels are learnt
from. A change point counts where it lies within one window (1,000 words) of a joint, and both
joints must be found. The outsider's part counts where "none of these" has the largest share in it.
How short windows may be is measured on windows of the test half.

What windows say is kept in a folder, so that a run can go on where it was stopped.

With ``--henry8`` Henry VIII is drawn along its scenes, by a model of eight plays known to be
Shakespeare's and Fletcher's.

Command:  python experiments/rolling.py --novels novels.parquet --henry8 henry8.parquet --keep DIR
          (--parts development test length henry8: some of it)
Hardware: one core, about a quarter of an hour.
Expect:   results/rolling.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from whowrote import Attributor, Corpus, __version__, load
from whowrote.arrays import BoolArray
from whowrote.attribution.fitted_attributor import FittedAttributor
from whowrote.attribution.rolling import (
    PENALTY,
    Milestone,
    Rolling,
    Window,
    change_points_of,
    roll,
)
from whowrote.files import atomic_path, write_text
from whowrote.plots import save
from whowrote.plots.along import along_text

OUT = Path(__file__).parent / "results" / "rolling.json"
PICTURE = Path(__file__).parents[1] / "docs" / "henry8.png"
PART, TEXT, WINDOW, STEP, OUTSIDERS = 3000, 1000, 1000, 250, 5
PENALTIES = (2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
DRAWS, TEST_SEED = (0, 1), 2026
PARTS = ("development", "test", "length", "henry8")
LENGTHS = (50, 100, 200, 300, 500, 1000)


@dataclass(frozen=True)
class Half:
    """A model of some novelists, and the words of the novels it has not seen."""

    model: Callable[[], FittedAttributor]
    enrolled: dict[str, list[str]]
    outsiders: dict[str, list[str]]


def half_of(corpus: Corpus, names: Sequence[str], features: str, first: int = 0) -> Half:
    """Enrol all but the last few of these novelists, from their novels from the first one on."""
    novels = {name: [d.text.split() for d in corpus if d.author == name] for name in names}
    turned = {name: first % len(own) for name, own in novels.items()}
    novels = {name: own[turned[name] :] + own[: turned[name]] for name, own in novels.items()}
    known = [name for name in names[:-OUTSIDERS] if len(novels[name]) == 3]
    texts, authors, groups = [], [], []
    for name in known:
        for number, words in enumerate(novels[name][:2]):
            parts = range(0, len(words) - TEXT + 1, 2 * TEXT)
            texts += [" ".join(words[low : low + TEXT]) for low in parts]
            authors += [name] * len(parts)
            groups += [f"{name}/{number}"] * len(parts)
    known_texts = Corpus.from_texts(texts, authors, groups=groups)
    model = cache(lambda: Attributor(features).fit(known_texts).fitted())
    enrolled = {name: novels[name][2] for name in known}
    return Half(model, enrolled, {name: novels[name][-1] for name in names[-OUTSIDERS:]})


def piece(words: Sequence[str], n: int, random: np.random.Generator) -> list[str]:
    """So many words in a row, somewhere."""
    low = int(random.integers(0, len(words) - n))
    return list(words[low : low + n])


@dataclass(frozen=True)
class Case:
    """A text, where it was joined, whose its parts are, and what was said of its windows."""

    joints: tuple[int, ...]
    authors: tuple[str | None, ...]
    found: Rolling


def cases(half: Half, n: int, spliced: bool, seed: int, keep: Path) -> list[Case]:
    """Texts to be asked about; answers that are kept are not asked for again."""
    random, made = np.random.default_rng([seed, int(spliced), 91]), []
    for number in range(n):
        place = keep / f"{seed}-{int(spliced)}-{number}"
        names: list[str | None] = random.permutation(list(half.enrolled))[:2].tolist()
        stranger = str(random.choice(list(half.outsiders)))
        order: list[str | None] = [names[0]]
        if spliced:
            order = [[names[0], names[1], None][i] for i in random.permutation(3)]
        words: list[str] = []
        for name in order:
            own = half.outsiders[stranger] if name is None else half.enrolled[name]
            words += piece(own, PART if spliced else 3 * PART, random)
        found = kept(place)
        if found is None:
            found = roll(half.model(), " ".join(words), WINDOW, STEP, bands=False)
            put(place, found)
            print(place.name, flush=True)
        joints = (PART, 2 * PART) if spliced else ()
        made.append(Case(joints, tuple(order), found))
    return made


def put(place: Path, found: Rolling) -> None:
    """Keep the answers to the windows of a text; the vectors first, so that both are there."""
    with atomic_path(place.with_suffix(".npy")) as path, path.open("wb") as out:
        np.save(out, found.styles, allow_pickle=False)
    write_text(place.with_suffix(".json"), json.dumps(found.to_dict()))


def kept(place: Path) -> Rolling | None:
    """Answers that were kept before."""
    if not place.with_suffix(".json").is_file():
        return None
    told = json.loads(place.with_suffix(".json").read_text(encoding="utf-8"))
    told["windows"] = tuple(Window(**one) for one in told["windows"])
    told["segments"], told["milestones"] = (), ()
    return Rolling(**told, styles=np.load(place.with_suffix(".npy")))


def judged(case: Case, penalty: float) -> dict[str, int]:
    """Whether the joints were found, with nothing else, and the outsider's part left out."""
    points = change_points_of(case.found, penalty)
    near = [any(abs(point - joint) <= WINDOW for point in points) for joint in case.joints]
    extra = [p for p in points if all(abs(p - joint) > WINDOW for joint in case.joints)]
    told: dict[str, int] = {"joints": all(near), "clean": not extra and len(points) <= len(near)}
    if None in case.authors:
        low = PART * case.authors.index(None)
        middles = np.array([(one.start + one.end) / 2 for one in case.found.windows])
        inside = (middles >= low) & (middles < low + PART)
        told["outsider"] = refused(case, inside)
        own = [(middles >= part * PART) & (middles < (part + 1) * PART) for part in range(3)]
        told["refused"] = sum(refused(case, own[p]) for p in range(3) if case.authors[p])
        told["authors"] = all(
            case.found.authors[int(case.found.shares()[own, :-1].mean(axis=0).argmax())] == name
            for part, name in enumerate(case.authors)
            if name is not None
            for own in [(middles >= part * PART) & (middles < (part + 1) * PART)]
        )
    return told


def refused(case: Case, rows: BoolArray) -> bool:
    """Whether "none of these" has the largest share in some windows."""
    return int(case.found.shares()[rows].mean(axis=0).argmax()) == len(case.found.authors)


def counted(spliced: Sequence[Case], whole: Sequence[Case], penalty: float) -> dict[str, int]:
    """How many of each."""
    told = [judged(case, penalty) for case in spliced]
    return {
        "both joints within one window": sum(one["joints"] for one in told),
        "and no other change point": sum(one["joints"] and one["clean"] for one in told),
        "outsider's part none of these": sum(one["outsider"] for one in told),
        "enrolled parts none of these, two a text": sum(one["refused"] for one in told),
        "both enrolled parts their author's": sum(one["authors"] for one in told),
        "unspliced without a change point": sum(judged(one, penalty)["clean"] for one in whole),
    }


def by_length(half: Half, seed: int) -> dict[str, float]:
    """The share of windows of enrolled authors' third novels that go to another author."""
    wrong = {}
    for length in LENGTHS:
        random = np.random.default_rng([seed, length])
        names = [name for name in half.enrolled for _ in range(20)]
        texts = [" ".join(piece(half.enrolled[name], length, random)) for name in names]
        answers = half.model().predict(texts)
        wrong[str(length)] = round(float(np.mean(answers != np.array(names))), 3)
    return wrong


def henry8(corpus: Corpus) -> dict[str, Any]:
    """Henry VIII along its scenes: the picture, and windows that lie in one hand's part."""
    texts, authors, groups = [], [], []
    for play in (one for one in corpus if one.metadata["part"] == "known"):
        words = play.text.split()
        parts = range(0, len(words) - TEXT + 1, TEXT)
        texts += [" ".join(words[low : low + TEXT]) for low in parts]
        authors += [str(play.author)] * len(parts)
        groups += [str(play.metadata["title"])] * len(parts)
    model = Attributor().fit(Corpus.from_texts(texts, authors, groups=groups)).fitted()
    scenes = [one for one in corpus if one.metadata["part"] != "known"]
    starts = np.cumsum([0, *(len(one.text.split()) for one in scenes)]).tolist()
    names = [f"{one.metadata['part'].split()[-1]} {str(one.author)[:1]}." for one in scenes]
    stones = [Milestone(word, name) for word, name in zip(starts, names, strict=False)]
    found = roll(model, "\n".join(one.text for one in scenes), WINDOW, STEP, milestones=stones)
    title = "Henry VIII by scene (S., F.: Spedding's division)"
    save(along_text(found, title), PICTURE)
    inside = [
        (one, scene)
        for one in found.windows
        for scene, low, high in zip(scenes, starts, starts[1:], strict=False)
        if low <= (one.start + one.end) / 2 < high
    ]
    best = [found.authors[int(np.argmax(one.probabilities))] for one, _ in inside]
    agree = sum(name == scene.author for name, (_, scene) in zip(best, inside, strict=True))
    return {
        "windows": len(found.windows),
        "windows whose middle is in a scene that Spedding gives to their best author": agree,
        "windows by none of these": sum(one.author is None for one in found.windows),
        "change points": list(found.change_points),
        "scene": [[one.word, one.name] for one in stones],
    }


def main() -> None:
    """Choose, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--novels", required=True)
    parser.add_argument("--features", default="hybrid")
    parser.add_argument("--henry8")
    parser.add_argument("--keep", type=Path, required=True, help="folder of answers to windows")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    corpus, parts = load(given.novels), given.parts
    names = np.random.default_rng(3).permutation(corpus.author_names).tolist()
    found: dict[str, Any] = json.loads(OUT.read_text()) if set(parts) != set(PARTS) else {}
    found |= {"version": __version__, "features": given.features}
    if "development" in parts:
        found["development"] = development(corpus, names[:16], given)
    test = half_of(corpus, names[16:], given.features)
    if "test" in parts:
        sides = [cases(test, 20, spliced, TEST_SEED, given.keep) for spliced in (True, False)]
        found["test"] = {"penalty": PENALTY, "of": 20, **counted(sides[0], sides[1], PENALTY)}
        found["enrolled"] = len(test.enrolled)
    if "length" in parts:
        found["wrong by words of a window"] = by_length(test, 13)
    if "henry8" in parts:
        found["Henry VIII"] = henry8(load(given.henry8))
    print(json.dumps(found, indent=1), flush=True)
    write_text(OUT, json.dumps(found, indent=1) + "\n")


def development(corpus: Corpus, names: Sequence[str], given: argparse.Namespace) -> dict[str, Any]:
    """Splices of the development half: others are outsiders and others novels learnt from."""
    sides: list[list[Case]] = [[], []]
    for draw in DRAWS:
        order = np.random.default_rng([draw, 40]).permutation(names).tolist()
        half = half_of(corpus, order, given.features, draw)
        for side, spliced in enumerate((True, False)):
            sides[side] += cases(half, 12, spliced, draw, given.keep)
    return {str(penalty): counted(sides[0], sides[1], penalty) for penalty in PENALTIES}


if __name__ == "__main__":
    main()
