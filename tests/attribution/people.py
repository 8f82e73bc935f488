"""Made-up people: each has favourite words and marks, and strangers have other ones."""

from typing import Any

import numpy as np

from whowrote.attribution import Attribution, Attributor
from whowrote.estimators import MixtureVAEClassifier

WORDS = (
    "the a of and to in that it is was for on are with as they at be this from have or by one had "
    "not but what all were when we there can an which said if do will each about how up out them "
    "then she many some so these would other into has more two like him see time could no make"
)
STRANGE = "quoth yonder forsooth verily hath doth thine ere whilst perchance nay mayhap"
MARKS = [".", ",", "!", "...", ";", " -", "?", ":"]


def texts_by(
    author: int,
    count: int,
    *,
    words: int = 120,
    seed: int = 0,
    vocabulary: str = WORDS,
) -> list[str]:
    """Texts drawn with the author's preferences; another ``seed`` gives new ones by him."""
    known, habits = vocabulary.split(), np.random.default_rng([7, author])
    likes = habits.dirichlet(np.full(len(known), 0.7))
    ends = habits.dirichlet(np.full(len(MARKS), 0.7))
    random, texts = np.random.default_rng([8, author, seed]), []
    for _ in range(count):
        drawn = random.choice(known, words, p=likes)
        marks = random.choice(MARKS, words, p=ends)
        pairs = enumerate(zip(drawn, marks, strict=True))
        texts.append(" ".join(word + (mark if i % 6 == 5 else "") for i, (word, mark) in pairs))
    return texts


def name(author: int) -> str:
    return f"Person {author}"


def corpus(authors: int, count: int, *, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts by several people, and their names."""
    texts = [text for author in range(authors) for text in texts_by(author, count, seed=seed)]
    return texts, [name(author) for author in range(authors) for _ in range(count)]


def strangers(count: int) -> list[str]:
    """Texts of somebody with quite other habits."""
    return texts_by(99, count, vocabulary=STRANGE)


NEW, NEW_AUTHORS = corpus(4, 5, seed=1)
QUICK = MixtureVAEClassifier(start="random", n_members=2, hidden=8, max_epochs=3, random_state=0)


def quick(**settings: Any) -> Attributor:
    """An attributor that has learnt a little in a moment."""
    return Attributor("ngrams", QUICK, **settings)


def plain(answers: list[Attribution]) -> list[dict[str, Any]]:
    """Answers as plain values."""
    return [answer.to_dict() for answer in answers]
