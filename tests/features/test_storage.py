"""Feature sets in and out of a model folder: equal rows, plain values, no texts."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from features.made_up import texts_by
from whowrote.errors import InputError
from whowrote.features import AdHominem, Hybrid, NGrams, SentenceEncoder
from whowrote.features.feature_storage import NAMES, WEIGHTS, Stored, name_of, named, restore, store
from whowrote.features.fitted_features import restore_fitted

TEXTS = [text for author in (0, 1) for text in texts_by(author, 5)]
NEW = [texts_by(2, 1)[0], "quite other words", "\ud800 and \x00 and the"]
SETS: dict[str, Callable[[], Any]] = {
    "ngrams": NGrams,
    "ngrams, settings": lambda: NGrams(min_df=(2, 1), max_features=(300, 20)),
    "adhominem": lambda: AdHominem(device="cpu"),
    "adhominem, settings": lambda: AdHominem(section=15, device="cpu"),
    "hybrid": lambda: Hybrid(AdHominem(device="cpu")),
    "hybrid, settings": lambda: Hybrid(
        AdHominem(section=15, device="cpu"), NGrams(max_features=(50, 20)), weight=2.0
    ),
}


class Letters:
    """Stands for a sentence-transformers model: shares of letters."""

    def encode(self, texts: list[str], **options: Any) -> Any:
        return np.array([[text.count(mark) / len(text) for mark in "eti ."] for text in texts])


def dense(rows: Any) -> Any:
    return rows.toarray() if sparse.issparse(rows) else rows


def through_a_folder(stored: Stored, folder: Path) -> Any:
    for name, source in stored.files.items():
        shutil.copyfile(source, folder / name)
    return restore(json.loads(json.dumps(stored.values)), stored.arrays, folder)


@pytest.mark.filterwarnings("ignore::whowrote.features.ReliabilityWarning")
@pytest.mark.parametrize("name", SETS)
def test_rows_are_equal_after_the_journey(name: str, tmp_path: Path) -> None:
    features = SETS[name]().fit(TEXTS)
    twin = through_a_folder(store(features), tmp_path)
    assert type(twin) is type(features)
    for texts in (TEXTS, NEW):
        one, two = features.transform(texts), twin.transform(texts)
        np.testing.assert_array_equal(dense(one), dense(two))
        reading = restore_fitted(store(features).values, store(features).arrays, tmp_path)
        np.testing.assert_array_equal(dense(one), dense(reading.transform(texts)))
    again = store(twin)
    assert again.values == store(features).values
    for key, array in store(features).arrays.items():
        np.testing.assert_array_equal(array, again.arrays[key])


@pytest.mark.filterwarnings("ignore::whowrote.features.ReliabilityWarning")
def test_what_was_learnt_matters(tmp_path: Path) -> None:
    """Negative control: the same settings with another's arrays give other rows."""
    features, other = NGrams().fit(TEXTS), NGrams().fit(NEW)
    stored = Stored(store(features).values, store(other).arrays)
    twin = through_a_folder(stored, tmp_path)
    assert twin.transform(NEW).shape != features.transform(NEW).shape


@pytest.mark.parametrize("name", ["ngrams, settings", "hybrid, settings"])
def test_settings_come_along(name: str, tmp_path: Path) -> None:
    features = SETS[name]().fit(TEXTS)
    twin = through_a_folder(store(features), tmp_path)
    ours, theirs = features.get_params(), twin.get_params()
    for key in ("min_df", "max_features", "weight", "dense__section", "ngrams__max_features"):
        assert ours.get(key) == theirs.get(key)


def test_the_extractor_goes_along_as_a_file(tmp_path: Path) -> None:
    stored = store(AdHominem())
    assert list(stored.files) == [WEIGHTS]
    assert not stored.arrays
    assert Path(through_a_folder(stored, tmp_path).weights) == tmp_path / WEIGHTS
    mine = tmp_path / "mine.safetensors"
    shutil.copyfile(tmp_path / WEIGHTS, mine)
    assert store(AdHominem(mine)).files == {WEIGHTS: mine}


def test_a_sentence_encoder_is_known_by_its_name(tmp_path: Path) -> None:
    stored = store(SentenceEncoder("some/model", batch_size=7))
    assert stored.values == {"kind": "sentences", "model": "some/model", "batch_size": 7}
    twin = through_a_folder(stored, tmp_path)
    assert (type(twin), twin.model, twin.batch_size) == (SentenceEncoder, "some/model", 7)
    assert type(restore_fitted(stored.values, {}, tmp_path)) is SentenceEncoder
    with pytest.raises(InputError, match=r"given as an object.*give its name or folder instead"):
        store(SentenceEncoder(Letters()))
    with pytest.raises(InputError, match=r"given as an object"):
        store(Hybrid(SentenceEncoder(Letters())).fit(TEXTS))


def test_no_text_is_stored() -> None:
    """Negative control: hashes of n-grams are there, their letters are not."""
    secret = "Zyxwvutsrq"
    stored = store(NGrams().fit([f"{secret} and {secret} again", *TEXTS]))
    everything = b"".join(array.tobytes() for array in stored.arrays.values())
    assert len(everything) > 1000
    for code in ("utf-8", "utf-16-le", "utf-32-le"):
        assert secret[:4].encode(code) not in everything
    assert secret not in json.dumps(stored.values)


class Mine(NGrams):
    """A feature set of a user's own."""


def test_names() -> None:
    for name, kind in (("adhominem", AdHominem), ("ngrams", NGrams), ("hybrid", Hybrid)):
        made = named(name)
        assert type(made) is kind
        assert name_of(made) == name
    mine = Mine()
    assert named(mine) is mine
    assert set(NAMES) == {"adhominem", "ngrams", "hybrid", "sentences"}


def test_errors() -> None:
    with pytest.raises(InputError, match=r"features is 'n-grams'; it must be one of .*ngrams"):
        named("n-grams")
    for features in (Mine().fit(TEXTS), Hybrid(Mine())):
        with pytest.raises((InputError, NotFittedError, AttributeError)):
            store(features)
    with pytest.raises(InputError, match=r"features is of type Mine, which a model folder cannot"):
        store(Mine().fit(TEXTS))
    with pytest.raises(NotFittedError):
        store(NGrams())
