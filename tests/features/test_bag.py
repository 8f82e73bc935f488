"""The n-grams beside the network."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from features.made_up import small_config, texts_by
from whowrote.errors import InputError
from whowrote.features.adhominem import AdHominem
from whowrote.features.counting import spelled_words, word_grams
from whowrote.features.extractor.driver import Outcome, train
from whowrote.features.extractor.preparation import (
    choose_ngrams,
    load_or_prepare,
    number,
    read_domain,
    rows_of,
)
from whowrote.features.extractor.run import WEIGHTS
from whowrote.features.extractor.start import make_network, start_from
from whowrote.features.layers import (
    DeviceRows,
    GramRows,
    choose_grams,
    count_users,
    leading_directions,
)
from whowrote.features.ngrams import NGrams
from whowrote.features.reading import DeviceCorpus, embed, read_extractor
from whowrote.features.vocabulary import VocabularySettings

BAG = {"vocabulary": {"n_grams": [60, 40]}, "network": {"gram_dim": 6, "lev_gain": 0.5}}


def some_rows() -> tuple[sparse.csr_matrix, DeviceRows]:
    dense = sparse.random(50, 30, 0.2, random_state=0).toarray()
    dense[7] = 0  # a text without a known n-gram
    matrix = sparse.csr_matrix(dense)
    flat = GramRows(
        matrix.indices.astype(np.int32),
        matrix.data.astype(np.float16),
        matrix.indptr.astype(np.int64),
    )
    rounded = sparse.csr_matrix(
        (flat.values.astype(float), matrix.indices, matrix.indptr), (50, 30)
    )
    return rounded, DeviceRows.place(flat, "cpu")


def test_rows_multiply_as_a_sparse_matrix_does() -> None:
    matrix, rows = some_rows()
    table = torch.randn(30, 4, dtype=torch.float64)
    np.testing.assert_allclose(rows.times(table), matrix @ table.numpy(), atol=1e-12)
    values = torch.randn(50, 3, dtype=torch.float64)
    found = rows.transposed_times(values, 30)
    np.testing.assert_allclose(found, matrix.T @ values.numpy(), atol=1e-12)


def test_taken_rows_are_those_of_the_matrix_in_that_order() -> None:
    matrix, rows = some_rows()
    order = torch.tensor([9, 7, 7, 0, 49])
    found = rows.take(order).times(torch.eye(30, dtype=torch.float64))
    np.testing.assert_array_equal(found, matrix[order.numpy()].toarray())
    assert not np.array_equal(found, matrix[np.sort(order.numpy())].toarray())


def test_the_table_starts_in_the_leading_singular_vectors() -> None:
    random = np.random.default_rng(0)
    low_rank = random.normal(size=(400, 3)) @ random.normal(size=(3, 30))
    matrix = sparse.csr_matrix(low_rank + 0.01 * random.normal(size=(400, 30)))
    flat = GramRows(
        matrix.indices.astype(np.int32),
        matrix.data.astype(np.float16),
        matrix.indptr.astype(np.int64),
    )
    basis = leading_directions(DeviceRows.place(flat, "cpu"), 30, 3, seed=1).double()
    assert basis.square().mean().sqrt().item() == pytest.approx(1.0)
    unit = basis / 30**0.5
    left = low_rank - low_rank @ unit.numpy() @ unit.T.numpy()
    assert np.linalg.norm(left) < 0.02 * np.linalg.norm(low_rank)
    chance = np.linalg.qr(random.normal(size=(30, 3)))[0]
    assert np.linalg.norm(low_rank - low_rank @ chance @ chance.T) > 0.5 * np.linalg.norm(low_rank)


def test_only_what_the_most_authors_use_has_a_column() -> None:
    texts = ["the cat", "the dog", "the cow", "a cow", "moo moo moo moo"]
    counted = [
        count_users(texts[:3], np.array([0, 1, 2])),
        count_users(texts[3:], np.array([3, 4])),
    ]
    chosen = choose_grams([(counted, 5)], (0, 2))
    known = dict(zip(word_grams("the cow moo").tolist(), spelled_words("the cow moo"), strict=True))
    kept = {known[key] for key in chosen.grams[1].keys.tolist() if key in known}
    assert kept == {"the"}  # by three of five; nothing else is used by two of one count
    weight = chosen.grams[1].idf[list(chosen.grams[1].keys).index(word_grams("the")[0])]
    assert weight == pytest.approx(1 - np.log(3 / 5))


def test_development_authors_choose_no_n_gram(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    domain = read_domain("one", config.corpora["one"])
    changed = replace(
        domain,
        texts=[
            "zyx " * 40 if domain.parts[author] else text
            for text, author in zip(domain.texts, domain.authors, strict=True)
        ],
    )
    before, after = (choose_ngrams([d], (60, 40), 1).state() for d in (domain, changed))
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])
    learnt = replace(changed, parts=np.zeros_like(changed.parts))
    counted = choose_ngrams([learnt], (60, 40), 1).state()["characters.idf"]
    assert not np.array_equal(counted, before["characters.idf"])


def test_processes_and_the_cache_change_nothing(tmp_path: Path) -> None:
    config = small_config(tmp_path, **BAG)
    first = load_or_prepare(config.corpora, config.vocabulary, tmp_path / "cache", workers=1)
    again = load_or_prepare(config.corpora, config.vocabulary, tmp_path / "cache", workers=1)
    assert first.rows is not None
    assert again.rows is not None
    assert again.ngrams is not None
    np.testing.assert_array_equal(first.rows.columns, again.rows.columns)
    texts = [
        text for name, path in config.corpora.items() for text in read_domain(name, path).texts
    ]
    alone = rows_of(texts, again.ngrams)
    np.testing.assert_array_equal(alone.values, again.rows.values)
    assert len(first.rows.offsets) == len(first) + 1
    none = VocabularySettings(**{**vars(config.vocabulary), "n_grams": (0, 0)})
    assert load_or_prepare(config.corpora, none, tmp_path / "cache", workers=1).rows is None
    assert len(list((tmp_path / "cache").glob("prepared-*"))) == 1  # tokens are shared


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    folder = tmp_path_factory.mktemp("bag")
    config = small_config(folder, **BAG)
    return folder, train(config, device="cpu")


def test_the_table_is_learnt_and_saved(trained: tuple[Path, Outcome]) -> None:
    folder, outcome = trained
    read = read_extractor(folder / "out" / WEIGHTS)
    assert read.ngrams is not None
    assert outcome.extractor.ngrams is not None
    for name, array in outcome.extractor.ngrams.state().items():
        np.testing.assert_array_equal(array, read.ngrams.state()[name])
    kept, learnt = read.network.grams, outcome.extractor.network.grams
    assert kept is not None
    assert learnt is not None
    torch.testing.assert_close(kept, learnt.detach(), atol=1e-3, rtol=1e-2)


def test_a_text_has_the_vector_that_training_gave_it(trained: tuple[Path, Outcome]) -> None:
    folder, _ = trained
    texts = [*texts_by(3, 3), "no of it"]
    read = read_extractor(folder / "out" / WEIGHTS)
    assert read.ngrams is not None
    numbered = number(texts, read.vocabulary)
    rows = rows_of(texts, read.ngrams)
    corpus = DeviceCorpus.place(numbered.tokens, numbered.types, "cpu", rows)
    slow = embed(read.network, corpus, numbered.offsets[:-1], numbered.lengths, longest=0).numpy()
    with pytest.warns(UserWarning, match="fewer than 20 tokens"):
        quick = AdHominem(folder / "out" / WEIGHTS, device="cpu").transform(texts)
    np.testing.assert_allclose(quick, slow, atol=1e-6)
    other = rows_of(texts[::-1], read.ngrams)
    corpus = DeviceCorpus.place(numbered.tokens, numbered.types, "cpu", other)
    wrong = embed(read.network, corpus, numbered.offsets[:-1], numbered.lengths, longest=0).numpy()
    assert np.abs(wrong - slow).max() > 1e-3  # the n-grams matter


def test_a_run_may_start_from_earlier_weights(
    trained: tuple[Path, Outcome], tmp_path: Path
) -> None:
    folder, outcome = trained
    config = small_config(
        tmp_path, **BAG, start=str(folder / "out" / WEIGHTS), training={"seed": 5}
    )
    network = make_network(config, outcome.extractor.vocabulary, outcome.extractor.ngrams)
    fresh = network.lev.weight.detach().clone()
    start_from(network, config.start)
    expected = outcome.extractor.network.lev.weight
    torch.testing.assert_close(network.lev.weight, expected, atol=1e-3, rtol=1e-2)
    assert not torch.allclose(fresh, expected, atol=1e-2)
    without = make_network(config, outcome.extractor.vocabulary)  # another shape of the last layer
    before = without.lev.weight.detach().clone()
    start_from(without, config.start)
    torch.testing.assert_close(without.lev.weight, before)
    torch.testing.assert_close(
        without.words.weight, outcome.extractor.network.words.weight, atol=1e-3, rtol=1e-2
    )


def test_bad_numbers_of_n_grams() -> None:
    for wrong in ((1,), (5, -1)):
        with pytest.raises(InputError, match=r"n_grams is .*; it must be two whole numbers"):
            VocabularySettings(n_grams=wrong)


def test_a_bag_of_more_numbers_than_n_grams(tmp_path: Path) -> None:
    config = small_config(tmp_path, vocabulary={"n_grams": [6, 4]}, network={"gram_dim": 11})
    with pytest.raises(InputError, match="gram_dim is 11 and the corpora have 10 widely used"):
        train(config, device="cpu")


def test_rows_of_no_known_n_gram_are_empty() -> None:
    rows = GramRows.of(["qqqq"], NGrams().fit(["one text", "two texts"]))
    assert rows.offsets.tolist() == [0, 0]
