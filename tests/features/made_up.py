"""Made-up authors with habits, for tests of learning."""

import csv
from pathlib import Path

import numpy as np

from whowrote.features.extractor.recipe import Config, parse_config

WORDS = ["the", "a", "of", "and", "to", "in", "that", "it", "is", "was", "for", "on", "are"]
MARKS = [".", ",", "!", "...", ";", " -"]


def texts_by(author: int, count: int, length: int = 60) -> list[str]:
    """Texts whose words and marks are drawn with the author's own preferences."""
    habits = np.random.default_rng([7, author])
    words, marks = (
        habits.dirichlet(np.full(len(WORDS), 2.0)),
        habits.dirichlet(np.full(len(MARKS), 2.0)),
    )
    random = np.random.default_rng([8, author])
    texts = []
    for number in range(count):
        drawn = random.choice(WORDS, length, p=words)
        ends = random.choice(MARKS, length, p=marks)
        pieces = [w + (e if i % 5 == 4 else "") for i, (w, e) in enumerate(zip(drawn, ends))]  # noqa: B905
        texts.append(" ".join([*pieces, f"name{author}x{number}"]))
    return texts


def write_corpus(path: Path, authors: range, count: int = 4, length: int = 60) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["author", "text"])
        for author in authors:
            writer.writerows([f"author {author}", text] for text in texts_by(author, count, length))
    return path


def small_config(folder: Path, **sections: object) -> Config:
    """Two domains and a network of a few thousand parameters."""
    if not (folder / "one.csv").exists():
        write_corpus(folder / "one.csv", range(60))
        write_corpus(folder / "two.csv", range(100, 140))
    values: dict[str, object] = {
        "corpora": {"one": "one.csv", "two": "two.csv"},
        "out": "out",
        "vocabulary": {"n_words": 40, "n_characters": 40},
        "network": {
            "word_dim": 8,
            "word_hidden": 8,
            "sentence_hidden": 8,
            "lev_dim": 12,
            "mean_pooling": True,
            "standardise": True,
        },
        "batch": {"authors": 16, "views": 2, "min_crop": 30, "max_crop": 60},
        "training": {"steps": 8, "warm_up": 2, "evaluate_every": 4, "average": 0.9},
    }
    for name, entries in sections.items():
        before = values.get(name, {})
        both = isinstance(before, dict) and isinstance(entries, dict)
        values[name] = {**before, **entries} if both else entries  # type: ignore[dict-item]
    return parse_config(values, folder)
