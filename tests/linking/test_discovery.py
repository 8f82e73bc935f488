"""Planted links are found at the asked rate, and none where there is none."""

from dataclasses import replace

import numpy as np
import pytest

from planted_accounts import planted
from whowrote.errors import InputError
from whowrote.linking import find_links


def wrong(pairs: np.ndarray, links: set[tuple[int, int]]) -> int:  # type: ignore[type-arg]
    return sum(tuple(pair) not in links for pair in pairs.tolist())


@pytest.fixture(scope="module")
def runs() -> list[tuple[int, int, float]]:
    """(reported, wrong, expected links) of three corpora with 40 links each."""
    found = []
    for seed in range(3):
        accounts, links = planted(300, 40, seed, spread=0.9)
        told = find_links(accounts, random_state=seed)
        count = told.reported(0.05)
        found.append((count, wrong(told.pairs[:count], links), told.prior.links))
    return found


def test_planted_links_are_found_at_the_asked_rate(runs: list[tuple[int, int, float]]) -> None:
    reported, false = sum(run[0] for run in runs), sum(run[1] for run in runs)
    assert reported > 60  # of 120
    assert false / reported <= 0.1


def test_the_number_of_links_is_estimated(runs: list[tuple[int, int, float]]) -> None:
    assert 20 < np.mean([run[2] for run in runs]) < 60


@pytest.mark.parametrize("seed", range(3))
def test_where_nobody_has_two_accounts_none_is_linked(seed: int) -> None:
    accounts, _ = planted(300, 0, seed, spread=0.9)
    assert find_links(accounts, random_state=seed).reported(0.05) == 0


def test_shuffled_texts_link_nobody() -> None:
    """Where accounts have no style of their own, links cannot be found even if there are some."""
    accounts, _ = planted(200, 30, 0)
    rows = accounts.views["style vectors"]
    mixed = np.random.default_rng(1).permutation(rows)
    told = find_links(replace(accounts, views={"style vectors": mixed}))
    assert told.reported(0.05) == 0


def test_few_links_among_many_accounts_are_not_lost_to_the_bound() -> None:
    """A ratio bounded by the number of accounts could never outweigh a prior of one in 11,000."""
    accounts, links = planted(150, 6, 4)
    told = find_links(accounts)
    count = told.reported(0.05)
    assert count >= 3
    assert wrong(told.pairs[:count], links) == 0
    by_people = np.full(1, np.log1p(len(accounts)))
    assert told.prior.probabilities(by_people)[0] < 0.5


def test_a_given_prior_is_kept_and_a_larger_one_reports_more() -> None:
    accounts, _ = planted(300, 40, 0, spread=0.9)
    few, many = (find_links(accounts, expected=links) for links in (1.0, 100.0))
    assert (few.prior.links, few.prior.given) == (1.0, True)
    assert few.reported(0.05) < many.reported(0.05)


def test_two_platforms_give_pairs_across_alone() -> None:
    accounts, links = planted(120, 30, 4, spread=1.6)
    platform = (np.arange(len(accounts)) >= 120).astype(np.int64)
    # Twenty accounts more of the second platform can be cut in two; all 30 can.
    told = find_links(replace(accounts, platform=platform))
    assert (told.pairs[:, 0] < 120).all()
    assert (told.pairs[:, 1] >= 120).all()
    assert told.prior.pairs == 120 * 30
    count = told.reported(0.05)
    assert count > 15
    assert wrong(told.pairs[:count], links) <= 0.15 * count


def test_the_same_seed_gives_the_same_list() -> None:
    accounts, _ = planted(100, 10, 0)
    one, other = (find_links(accounts, random_state=3) for _ in range(2))
    assert (one.pairs == other.pairs).all()
    assert (one.log_lr == other.log_lr).all()


def test_too_few_accounts_to_learn_from_is_one_sentence() -> None:
    accounts, _ = planted(19, 0, 0)
    with pytest.raises(InputError, match=r"19 of 19 accounts have four texts .* at least 20 such"):
        find_links(accounts)


def test_pruning_keeps_what_is_worth_a_review() -> None:
    accounts, _ = planted(300, 40, 0, spread=0.9)
    assert find_links(accounts).kept > 0.95
