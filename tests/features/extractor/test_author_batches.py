"""Batches: a function of the step, views of different texts, crops inside their documents."""

import numpy as np
import pytest

from features.made_up import write_corpus
from whowrote.errors import InputError
from whowrote.features.extractor.batches import AuthorBatches, BatchSettings
from whowrote.features.extractor.preparation import Prepared, prepare, read_domain
from whowrote.features.vocabulary import VocabularySettings


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("corpora")
    one = write_corpus(folder / "one.csv", range(80), count=5)
    two = write_corpus(folder / "two.csv", range(100, 130), count=2)
    return prepare([read_domain("one", one), read_domain("two", two)], VocabularySettings())


SETTINGS = BatchSettings(authors=20, views=3, min_crop=10, max_crop=40)


def test_a_draw_depends_on_seed_process_and_step_alone(prepared: Prepared) -> None:
    batches = AuthorBatches(prepared, SETTINGS, seed=0)
    drawn = [batches.draw(step).starts for step in (0, 450, 3)]
    fresh = AuthorBatches(prepared, SETTINGS, seed=0)
    assert (fresh.draw(3).starts == drawn[2]).all()
    assert (fresh.draw(450).starts == drawn[1]).all()
    for other in (AuthorBatches(prepared, SETTINGS, 1), AuthorBatches(prepared, SETTINGS, 0, 1)):
        assert not np.array_equal(other.draw(3).starts, drawn[2])


def test_views_are_of_different_texts_and_inside_them(prepared: Prepared) -> None:
    batches = AuthorBatches(prepared, SETTINGS, seed=0)
    for step in range(5):
        crops = batches.draw(step)
        assert (prepared.authors[crops.documents] == crops.authors).all()
        assert (prepared.part[crops.authors] == 0).all()
        assert (crops.starts >= prepared.offsets[crops.documents]).all()
        ends = crops.starts + crops.lengths
        assert (ends <= prepared.offsets[crops.documents + 1]).all()
        assert (crops.lengths <= 40).all()
        rich = prepared.domain_of[crops.authors] == 0
        rows = crops.documents[rich].reshape(-1, 3)
        assert all(len(set(row)) == 3 for row in rows.tolist())
        poor = crops.documents[~rich].reshape(-1, 3)
        assert all(len(set(row)) == 2 for row in poor.tolist())


def test_every_text_is_drawn_in_time(prepared: Prepared) -> None:
    batches = AuthorBatches(prepared, SETTINGS, seed=0)
    seen = set(np.concatenate([batches.draw(step).documents for step in range(300)]).tolist())
    assert seen == set(np.flatnonzero(prepared.part[prepared.authors] == 0).tolist())


def test_domains_mix_as_asked(prepared: Prepared) -> None:
    even = AuthorBatches(prepared, SETTINGS, 0, mixture={"one": 1, "two": 1})
    crops = even.draw(0)
    assert (prepared.domain_of[crops.authors] == 0).mean() == 0.5
    apart = BatchSettings(authors=20, views=2, mixed=False, alpha=1.0)
    domains = [
        np.unique(prepared.domain_of[AuthorBatches(prepared, apart, 0).draw(step).authors])
        for step in range(60)
    ]
    assert all(len(found) == 1 for found in domains)
    assert 0.5 < np.mean([found[0] == 0 for found in domains]) < 0.95


def test_hard_negatives_are_neighbours(prepared: Prepared) -> None:
    settings = BatchSettings(authors=20, views=2, hard_share=0.5)
    batches = AuthorBatches(prepared, settings, seed=0, mixture={"one": 0.9, "two": 0.1})
    pool = batches.pools[0]
    batches.neighbours = np.zeros((len(prepared.part), 2), dtype=np.int64)
    batches.neighbours[batches.pools[1]] = batches.pools[1][0]
    batches.neighbours[pool] = pool[:2]
    for step in range(5):
        assert np.isin(pool[:2], batches.draw(step).authors).any()


def test_bad_settings(prepared: Prepared) -> None:
    with pytest.raises(InputError, match=r"needs at least 2 authors, 2 views"):
        BatchSettings(views=1)
    with pytest.raises(InputError, match=r"hard_share is 1"):
        BatchSettings(hard_share=1)
    with pytest.raises(InputError, match=r"mixture is \{'one': 1\}; it must give each of"):
        AuthorBatches(prepared, SETTINGS, 0, mixture={"one": 1})
