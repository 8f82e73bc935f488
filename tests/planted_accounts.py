"""Accounts with known people: mean vectors and texts around them, drawn."""

import numpy as np

from whowrote.linking.accounts import Accounts, Points, texts_of

VIEW = "style vectors"


def planted(
    people: int, links: int, seed: int, *, texts: int = 6, spread: float = 1.6, size: int = 24
) -> tuple[Accounts, set[tuple[int, int]]]:
    """One account each, and for the first ``links`` people a second one, which comes last."""
    random = np.random.default_rng(seed)
    person = np.concatenate([np.arange(people), np.arange(links)])
    means = spread * random.standard_normal((people, size))[person]
    owner = np.repeat(np.arange(len(person)), texts)
    vectors = means[owner] + random.standard_normal((len(owner), size))
    accounts = Accounts(
        tuple(f"account {number}" for number in range(len(person))),
        owner,
        random.integers(80, 300, len(owner)),
        {VIEW: vectors.astype(np.float32)},
        np.arange(len(owner)),
        np.zeros(len(person), dtype=np.int64),
    )
    return accounts, {(one, people + one) for one in range(links)}


def points(n: int, seed: int, size: int = 6) -> Points:
    """Accounts of one view, worth one, two, four or eight texts."""
    random = np.random.default_rng(seed)
    spread, level = np.linspace(0.3, 3.0, size), 4 * random.integers(4, size=n)
    z = random.standard_normal((n, size))
    x = z * np.sqrt(spread + 1 / texts_of(level)[:, None])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return Points(z.astype(np.float32), unit.astype(np.float32), level, spread)
