"""The jobs that every peer is given: who wrote 100 texts, which by nobody enrolled, which pairs.

Draws of Blog-30: so many texts of each author to learn from, and 100 others to ask about; for the
open set, 15 people are enrolled with 20 texts each and half of the 100 are by the other 15. The
verification jobs are those of PAN: training parts to calibrate on, test parts to answer.
The answers to the questions are kept apart from what a peer gets to see.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

QUESTIONS, PEOPLE = 100, 30
Text = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """What a peer learns from, what it is asked, and the truth, which it never sees."""

    name: str
    kind: str
    known: list[Text]
    questions: list[Text]
    truth: list[Any]

    def shown(self) -> dict[str, Any]:
        """All that goes to the peer."""
        return {"kind": self.kind, "known": self.known, "questions": self.questions}


PAN = {"pan15": "pan15-mixed", "essays": "pan14-essays", "novels": "pan14-novels"}
BLOGS = {"blogs5": 5, "blogs50": 50}
DRAWS = {**dict.fromkeys(BLOGS, 3), "strangers": 3, **dict.fromkeys(PAN, 1)}
"""How often each job is drawn; the sets of PAN are as they are."""


def made(name: str, data: Path, draw: int) -> Job:
    """A job by its name."""
    if name in PAN:
        return pan(name, pq.read_table(data / "pan_verification.parquet").to_pylist())
    table = pq.read_table(data / "blog30.parquet", columns=["author", "text"])
    return blogs(name, table.column("author").to_pylist(), table.column("text").to_pylist(), draw)


def blogs(name: str, authors: list[str], texts: list[str], draw: int) -> Job:
    """A draw of Blog-30; the seed is its number."""
    random = np.random.default_rng(draw)
    rows = random.permutation(len(texts))
    names = random.permutation(sorted(set(authors)))[:PEOPLE]
    enrolled = set(names if name in BLOGS else names[: PEOPLE // 2])
    wanted, known, left = BLOGS.get(name, 20), list[Text](), list[int]()
    counts = dict.fromkeys(enrolled, 0)
    for row in rows.tolist():
        author = authors[row]
        if author in enrolled and counts[author] < wanted:
            counts[author] += 1
            known.append({"author": author, "text": texts[row]})
        else:
            left.append(row)
    asked = left[:QUESTIONS]
    if name not in BLOGS:
        own = [row for row in left if authors[row] in enrolled]
        others = [row for row in left if authors[row] in set(names) - enrolled]
        asked = own[: QUESTIONS // 2] + others[: QUESTIONS // 2]
    truth = [authors[row] if authors[row] in enrolled else None for row in asked]
    return Job(name, "attribution", known, [{"text": texts[row]} for row in asked], truth)


def pan(name: str, rows: list[Text]) -> Job:
    """A set of PAN: all of its training part, all of its (last) test part."""
    rows = [row for row in rows if row["set"] == PAN[name]]
    known = [row for row in rows if row["part"] == "train"]
    tests = [row for row in rows if row["part"] == "test-corpus2"]
    kept = ("known", "unknown", "same")
    return Job(
        name,
        "verification",
        [{key: row[key] for key in kept} for row in known],
        [{key: row[key] for key in kept[:2]} for row in tests],
        [bool(row["same"]) for row in tests],
    )
