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
from whowrote.features import AdHominem, Hybrid, NGrams, SentenceEncoder, StyleExtractor
from whowrote.features.fitted_features import WEIGHTS, FittedSentences, restore_features
from whowrote.features.interface import Stored
from whowrote.features.kinds import KINDS, named, require_storable, with_settings

TEXTS = [text for author in (0, 1) for text in texts_by(author, 5)]
NEW = [texts_by(2, 1)[0], "quite other words", "\ud800 and \x00 and the"]
SETS: dict[str, Callable[[], Any]] = {
    "ngrams": NGrams,
    "ngrams, settings": lambda: NGrams(min_df=(2, 1), max_features=(300, 20)),
    "adhominem": lambda: AdHominem(device="cpu"),
    "adhominem, settings": lambda: AdHominem(section=15, device="cpu"),
    "style": lambda: StyleExtractor(device="cpu"),
    "style, settings": lambda: StyleExtractor(size="small", section=15, device="cpu"),
    "hybrid": lambda: Hybrid(AdHominem(device="cpu")),
    "hybrid, style": lambda: Hybrid(StyleExtractor(device="cpu")),
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
    return restore_features(json.loads(json.dumps(stored.values)), stored.arrays, folder)


@pytest.mark.filterwarnings("ignore::whowrote.features.ReliabilityWarning")
@pytest.mark.parametrize("name", SETS)
def test_rows_are_equal_after_the_journey(name: str, tmp_path: Path) -> None:
    features = SETS[name]().fit(TEXTS)
    stored = features.fitted().stored()
    twin = through_a_folder(stored, tmp_path)
    assert type(twin) is type(features.fitted())
    for texts in (TEXTS, NEW):
        one, two = features.transform(texts), twin.transform(texts)
        np.testing.assert_array_equal(dense(one), dense(two))
    again = twin.stored()
    assert again.values == stored.values
    for key, array in stored.arrays.items():
        np.testing.assert_array_equal(array, again.arrays[key])


@pytest.mark.filterwarnings("ignore::whowrote.features.ReliabilityWarning")
def test_what_was_learnt_matters(tmp_path: Path) -> None:
    """Negative control: the same settings with another's arrays give other rows."""
    features, other = NGrams().fit(TEXTS), NGrams().fit(NEW)
    stored = Stored(features.fitted().stored().values, other.fitted().stored().arrays)
    twin = through_a_folder(stored, tmp_path)
    assert twin.transform(NEW).shape != features.transform(NEW).shape


@pytest.mark.parametrize("name", ["ngrams, settings", "hybrid, settings"])
def test_settings_come_along(name: str, tmp_path: Path) -> None:
    features = SETS[name]().fit(TEXTS)
    stored = through_a_folder(features.fitted().stored(), tmp_path).stored()
    ours, theirs = features.get_params(), with_settings(stored.values).get_params()
    for key in ("min_df", "max_features", "weight", "dense__section", "ngrams__max_features"):
        assert ours.get(key) == theirs.get(key)


def test_the_extractor_goes_along_as_a_file(tmp_path: Path) -> None:
    stored = AdHominem().fitted().stored()
    assert list(stored.files) == [WEIGHTS]
    assert not stored.arrays
    assert Path(through_a_folder(stored, tmp_path).weights) == tmp_path / WEIGHTS
    mine = tmp_path / "mine.safetensors"
    shutil.copyfile(tmp_path / WEIGHTS, mine)
    assert AdHominem(mine).fitted().stored().files == {WEIGHTS: mine}


def test_a_sentence_encoder_is_known_by_its_name(tmp_path: Path) -> None:
    stored = SentenceEncoder("some/model", batch_size=7).fitted().stored()
    assert stored.values == {"kind": "sentences", "model": "some/model", "batch_size": 7}
    twin = through_a_folder(stored, tmp_path)
    assert (type(twin), twin.model, twin.batch_size) == (FittedSentences, "some/model", 7)
    again = with_settings(stored.values, "some/model")
    assert isinstance(again, SentenceEncoder)
    assert (again.model, again.batch_size) == ("some/model", 7)
    with pytest.raises(InputError, match=r"given as an object.*give its name or folder instead"):
        SentenceEncoder(Letters()).fitted().stored()
    with pytest.raises(InputError, match=r"given as an object"):
        Hybrid(SentenceEncoder(Letters())).fit(TEXTS).fitted().stored()
    with pytest.raises(InputError, match=r"given as an object"):
        require_storable(Hybrid(SentenceEncoder(Letters())))


def test_no_text_is_stored() -> None:
    """Negative control: hashes of n-grams are there, their letters are not."""
    secret = "Zyxwvutsrq"
    stored = NGrams().fit([f"{secret} and {secret} again", *TEXTS]).fitted().stored()
    everything = b"".join(array.tobytes() for array in stored.arrays.values())
    assert len(everything) > 1000
    for code in ("utf-8", "utf-16-le", "utf-32-le"):
        assert secret[:4].encode(code) not in everything
    assert secret not in json.dumps(stored.values)


class Mine(NGrams):
    """A feature set of a user's own."""


def test_names() -> None:
    kinds = {"adhominem": AdHominem, "style": StyleExtractor, "ngrams": NGrams, "hybrid": Hybrid}
    for name, kind in kinds.items():
        made = named(name)
        assert type(made) is kind
        require_storable(made)
    mine = Mine()
    assert named(mine) is mine
    assert set(KINDS) == {"adhominem", "ngrams", "hybrid", "sentences", "style"}


def test_errors() -> None:
    with pytest.raises(InputError, match=r"features is 'n-grams'; it must be one of .*ngrams"):
        named("n-grams")
    for features in (Mine(), Mine().fit(TEXTS), Hybrid(Mine())):
        with pytest.raises(InputError, match=r"features is of type Mine, which a model folder can"):
            require_storable(features)
    for untrained in (NGrams(), Hybrid()):
        with pytest.raises(NotFittedError):
            untrained.fitted()
    with pytest.raises(
        InputError, match=r"'a folder' has features that this version does not know"
    ):
        restore_features({"kind": "web", "model": "anything"}, {}, Path("a folder"))
