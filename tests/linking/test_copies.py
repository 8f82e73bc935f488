"""Copied texts are found, and what an account repeats of its own is not one."""

import numpy as np

from whowrote.linking.accounts import Accounts, halves
from whowrote.linking.linker import find_copies

WORDS = [f"word{number}" for number in range(400)]


def text(seed: int, words: int = 60) -> str:
    return " ".join(np.random.default_rng(seed).choice(WORDS, words).tolist())


def test_a_text_that_stands_in_two_accounts_is_copied_in_both() -> None:
    texts = [text(0), text(1), text(0) + " " + text(9, 20), text(2)]
    found = find_copies(texts, np.array([0, 0, 1, 1]))
    assert found.copied.tolist() == [True, False, True, False]
    assert found.pairs[0, :2].tolist() == [0, 1]
    assert found.pairs[0, 2] >= 50


def test_what_an_account_repeats_is_its_own() -> None:
    found = find_copies([text(0), text(0), text(1)], np.array([0, 0, 1]))
    assert not found.copied.any()
    assert len(found.pairs) == 0


def test_a_quoted_title_makes_no_copy() -> None:
    title = text(3, 9)
    found = find_copies([text(0) + " " + title, text(1) + " " + title], np.array([0, 1]))
    assert not found.copied.any()


def test_short_texts_have_no_runs() -> None:
    assert not find_copies(["a b c", "a b c"], np.array([0, 1])).copied.any()


def accounts(groups: list[int]) -> Accounts:
    n = len(groups)
    return Accounts(
        ("a",), np.zeros(n, int), np.full(n, 9), {}, np.array(groups), np.zeros(1, dtype=int)
    )


def test_a_group_is_never_on_both_sides() -> None:
    groups = [0, 0, 0, 1, 1, 2, 3]
    for seed in range(20):
        half = halves(accounts(groups), np.random.default_rng(seed))
        if (half >= 0).all():
            sides = {(group, int(side)) for group, side in zip(groups, half, strict=True)}
            assert len(sides) == 4
            assert min((half == 0).sum(), (half == 1).sum()) >= 2


def test_an_account_of_one_group_or_three_texts_is_not_cut() -> None:
    random = np.random.default_rng(0)
    assert (halves(accounts([0] * 8), random) == -1).all()
    assert (halves(accounts([0, 1, 2]), random) == -1).all()
    assert (halves(accounts([0, 1, 2, 3]), random) >= 0).all()
