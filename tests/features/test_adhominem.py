"""The transformer: company never matters, offsets are exact, odd texts and files are answered."""

import pickle
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from features.made_up import texts_by
from whowrote.errors import InputError
from whowrote.features import reading
from whowrote.features.adhominem import PRETRAINED, AdHominem
from whowrote.features.interface import FEW_TOKENS, ReliabilityWarning
from whowrote.features.network import Architecture, Network
from whowrote.features.reading import Extractor, read_extractor, write_extractor
from whowrote.features.vocabulary import Vocabulary

ROUNDING = 5e-5
LENGTHS = [25, 29, 30, 31, 56, 57, 100, 240, 700]


def sample() -> list[str]:
    return [texts_by(i, 1, length)[0] for i, length in enumerate(LENGTHS)]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained weights of a few hundred parameters."""
    path = tmp_path_factory.mktemp("weights") / "small.safetensors"
    vocabulary = Vocabulary(("the", "of", "and", "."), tuple(" .,abcdefghijklmnopqrstuvwxyzX9"))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        shape = Architecture(
            n_words=4, n_characters=31, word_dim=6, word_hidden=5, sentence_hidden=4, lev_dim=7
        )
        write_extractor(path, Extractor(Network(shape), vocabulary, card={"made": "up"}))
    return path


def test_the_packaged_weights_give_200_dimensions_and_are_small() -> None:
    levs = AdHominem().transform(sample())
    assert levs.shape == (len(LENGTHS), 200)
    assert levs.dtype == np.float32
    assert np.abs(levs).max() <= 1
    assert PRETRAINED.stat().st_size < 25e6
    names = AdHominem().get_feature_names_out()
    assert (names[0], names[-1], len(names)) == ("lev0", "lev199", 200)


def test_company_and_order_never_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, model = sample(), AdHominem(device="cpu")
    together = model.transform(texts)
    alone = np.concatenate([model.transform([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=ROUNDING)
    np.testing.assert_allclose(model.transform(texts[::-1])[::-1], together, atol=ROUNDING)
    monkeypatch.setattr(reading, "TEXTS_PER_BLOCK", 2)
    monkeypatch.setitem(reading.WINDOWS_PER_BATCH, "cpu", 3)
    np.testing.assert_allclose(model.transform(texts), together, atol=ROUNDING)
    # Negative control: one word more is another text, and seen.
    assert np.abs(model.transform([texts[3] + " hence"])[0] - together[3]).max() > 1e-3


def test_it_reads_like_the_network_in_training() -> None:
    """The reader's shortcuts (table of words, trimmed windows) change nothing."""
    from whowrote.features.extractor.preparation import number, rows_of
    from whowrote.features.reading import DeviceCorpus, embed

    extractor = read_extractor(PRETRAINED)
    assert extractor.ngrams is not None
    numbered = number(sample(), extractor.vocabulary)
    rows = rows_of(sample(), extractor.ngrams)
    corpus = DeviceCorpus.place(numbered.tokens, numbered.types, "cpu", rows)
    bounds = (numbered.offsets[:-1], numbered.lengths)
    slow = embed(extractor.network, corpus, *bounds, longest=0).numpy()
    np.testing.assert_allclose(AdHominem(device="cpu").transform(sample()), slow, atol=ROUNDING)


def test_long_texts_are_covered_and_sections_count_by_tokens(small: Path) -> None:
    long = texts_by(3, 1, 900)[0]
    model = AdHominem(small, section=100, device="cpu")
    lev = model.transform([long])[0]
    assert np.abs(model.transform([long + " end !"])[0] - lev).max() > 1e-6
    assert np.abs(AdHominem(small, device="cpu").transform([long])[0] - lev).max() > 1e-6
    # By hand: sections of 100 and 101 tokens or so, each alone, weighted by its tokens.
    reader = reading.open_reader(small, "cpu")
    block = reader.block([long])
    total = int(block.lengths[0])
    parts = -(-total // 100)
    edges = [total * i // parts for i in range(parts + 1)]
    tokens = block.tokens.numpy()
    by_hand = np.zeros(7)
    for low, high in pairwise(edges):
        piece = reading.Block(
            torch.from_numpy(tokens[low:high]), np.array([0, high - low]), block.vectors
        )
        by_hand += reader.levs(piece)[0] * (high - low) / total
    np.testing.assert_allclose(lev, by_hand, atol=1e-6)


def test_it_is_a_scikit_learn_transformer(small: Path) -> None:
    texts = [text for author in (0, 1) for text in texts_by(author, 12)]
    authors = ["a"] * 12 + ["b"] * 12
    pipeline = make_pipeline(AdHominem(device="cpu"), LogisticRegression())
    assert pipeline.fit(texts[::2], authors[::2]).score(texts[1::2], authors[1::2]) > 0.8
    model = AdHominem(str(small), section=77)
    assert clone(model).get_params() == model.get_params()
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.transform(texts[:3]), model.transform(texts[:3]))
    assert len(pickle.dumps(AdHominem())) < 1000  # parameters only: no weights in a pipeline
    assert model.fit(texts) is model
    frame = AdHominem(small).set_output(transform="pandas").transform(texts[:2])
    assert list(frame.columns)[:2] == ["lev0", "lev1"]


def test_weights_are_loaded_once_and_again_when_they_change(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy.safetensors"
    path.write_bytes(small.read_bytes())
    first = reading.open_reader(path, "cpu")
    assert reading.open_reader(path, "cpu") is first
    time.sleep(0.01)
    path.write_bytes(small.read_bytes())
    assert reading.open_reader(path, "cpu") is not first


# Attention


PIECES = [
    *(
        "\x00",
        "\ud800",
        "e\u0301",
        "👩\u200d👩\u200d👧",
        "👍🏽",
        "🇩🇪",
        "1\ufe0f\u20e3",
        "שלום",
        "العربية",
    ),
    *("हिन्दी", "  ", "\n", "the", "of", " ", " ", ".", "?!", "Kierkegaard", "\u202e", "3.14", "𝒳"),
]


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.text(min_size=1),
        st.lists(st.sampled_from(PIECES), min_size=1, max_size=90).map("".join),
    ).filter(lambda text: bool(text.strip())),
    st.sampled_from([40, 4000]),
)
def test_attention_maps_back_to_exact_characters(small: Path, text: str, section: int) -> None:
    from whowrote.features.vocabulary import split

    found = AdHominem(small, section=section, device="cpu").attention(text)
    assert [text[w.start : w.end] for w in found.words] == split(text)
    assert sum(w.weight for w in found.words) == pytest.approx(1, abs=1e-5)
    assert sum(w.weight for w in found.windows) == pytest.approx(1, abs=1e-5)
    assert min(w.weight for w in found.words) >= 0
    places = {(w.start, w.end) for w in found.words}
    for window in found.windows:
        assert {(w.start, w.end) for w in window.words} <= places
        assert (window.start, window.end) == (window.words[0].start, window.words[-1].end)
        assert sum(w.weight for w in window.words) == pytest.approx(1, abs=1e-5)


def test_overlapping_windows_are_added() -> None:
    text = texts_by(0, 1, 60)[0]
    found = AdHominem(device="cpu").attention(text)
    assert len(found.windows) >= 2
    by_hand: dict[int, float] = {}
    for window in found.windows:
        for word in window.words:
            by_hand[word.start] = by_hand.get(word.start, 0) + window.weight * word.weight
    assert [by_hand[w.start] for w in found.words] == pytest.approx([w.weight for w in found.words])
    assert len({round(w.weight, 6) for w in found.words}) > 10
    plain = found.to_dict()
    assert plain["words"][0]["weight"] == found.words[0].weight
    assert len(plain["windows"]) == len(found.windows)


def test_attention_is_what_the_network_weighs(small: Path) -> None:
    """A state's weight in the pooled vector is the weight that is told."""
    reader = reading.open_reader(small, "cpu")
    text = texts_by(1, 1, 20)[0]
    weights, network = reader.weights(text), reader.network
    block = reader.block([text])
    read = torch.nn.functional.embedding(block.tokens.long()[None], block.vectors)
    inside = torch.ones(read.shape[:2], dtype=torch.bool)
    states = network.words_to_window(read, torch.tensor([read.shape[1]]))
    pooled = network.window_pooling(states, read, inside)[0]
    told = torch.from_numpy(weights.words[0, : read.shape[1]]).float()
    torch.testing.assert_close(pooled, told @ states[0])


def test_attention_takes_one_text() -> None:
    with pytest.raises(InputError, match=r"text is of type list; it must be one str"):
        AdHominem().attention(["a text"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"X\[0\] is ''; a text must have words"):
        AdHominem().attention("")


# Short and odd texts


def test_short_texts_are_warned_about_once(small: Path, tmp_path: Path) -> None:
    texts = [*sample()[:2], "Too short.", "And this."]
    with pytest.warns(ReliabilityWarning, match=r"2 of 4 texts have fewer than 20 tokens") as said:
        AdHominem(small).transform(texts)
    assert len(said) == 1
    assert said[0].message.count == 2  # type: ignore[union-attr]
    assert r"the first is X[2] with 3" in str(said[0].message)
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AdHominem(small).transform([" ".join(["the"] * FEW_TOKENS)])
    extractor = read_extractor(small)
    measured = Extractor(
        extractor.network, extractor.vocabulary, card={"auc_by_tokens": {"100": 0.8, "20": 0.61}}
    )
    write_extractor(tmp_path / "measured.safetensors", measured)
    with pytest.warns(
        ReliabilityWarning, match=r"by tokens a text: 0.61 at 20, 0.80 at 100; guessing has 0.50"
    ):
        AdHominem(tmp_path / "measured.safetensors").transform(["Short."])


@pytest.mark.filterwarnings("ignore::whowrote.features.interface.ReliabilityWarning")
@pytest.mark.parametrize(
    "text",
    ["?!...", "a\x00b", "\x00", "\ud800 and \udfff", "\u0301", "👩\u200d👩\u200d👧", "\u202eשלום"],
)
def test_odd_texts_have_a_vector(text: str) -> None:
    lev = AdHominem().transform([text, "plain"])
    assert np.isfinite(lev).all()
    assert np.abs(lev[0] - lev[1]).max() > 1e-3


@pytest.mark.filterwarnings("ignore::whowrote.features.interface.ReliabilityWarning")
def test_a_token_of_five_megabytes_is_one_token_and_quick() -> None:
    began = time.perf_counter()
    huge = AdHominem().transform(["a" * 5_000_000])
    assert time.perf_counter() - began < 10
    np.testing.assert_allclose(huge, AdHominem().transform(["a" * 5_000]), atol=ROUNDING)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("one text", r"X is one string of 8 characters; it must be a list of texts: give \[text\]"),
        (b"bytes", r"X is one string of 5 bytes"),
        ([], r"X is empty; there must be at least one text"),
        (3, r"X is of type int; it must be a list of texts"),
        (["fine", None], r"X\[1\] is of type NoneType; every text must be a str"),
        (["fine", "fine", b"x"], r"X\[2\] is of type bytes"),
        (["fine", ""], r"X\[1\] is ''; a text must have words: leave it out"),
        ([" \n"], r"X\[0\] is ' \\n'; a text must have words"),
    ],
)
def test_bad_texts(X: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        AdHominem().transform(X)


def test_bad_weights(small: Path, tmp_path: Path) -> None:
    whole = small.read_bytes()
    for name, data, message in (
        ("cut", whole[: len(whole) // 2], r"is truncated or is not a safetensors file"),
        ("empty", b"", r"is truncated or is not a safetensors file"),
        ("other", whole.replace(b'\\"format\\": 1', b'\\"format\\": 9'), r"has model format 9"),
        (
            "misfit",
            whole.replace(b'\\"lev_dim\\": 7', b'\\"lev_dim\\": 8'),
            r"are not as large as",
        ),
        ("kind", whole.replace(b'\\"AdHominem\\"', b'\\"AdHominex\\"'), r"holds a AdHominex"),
    ):
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes(data)
        with pytest.raises(InputError, match=message):
            AdHominem(path).transform(["a text"])
    with pytest.raises(InputError, match=r"there is no model file at"):
        AdHominem(tmp_path / "absent").transform(["a text"])


def test_bad_parameters(small: Path) -> None:
    with pytest.raises(InputError, match=r"section is 0; it must be at least 1 token"):
        AdHominem(small, section=0).transform(["a text"])
    with pytest.raises(InputError, match=r"device is 'abacus'; it must be one of auto, cpu"):
        AdHominem(small, device="abacus").transform(["a text"])


@pytest.mark.gpu
def test_a_gpu_gives_the_same_vectors(cuda: torch.device) -> None:
    found = AdHominem(device=str(cuda)).transform(sample())
    np.testing.assert_allclose(found, AdHominem(device="cpu").transform(sample()), atol=2e-3)
