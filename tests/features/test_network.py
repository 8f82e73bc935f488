"""The network: padding and company never change a vector; ablations are arguments."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from features.made_up import texts_by
from whowrote.errors import InputError
from whowrote.features.extractor.preparation import Numbered, number
from whowrote.features.layers import BiLSTM, Pooling, Standardise
from whowrote.features.network import Architecture, Dropout, Network, lay_out
from whowrote.features.reading import (
    DeviceCorpus,
    Extractor,
    embed,
    read_extractor,
    write_extractor,
)
from whowrote.features.vocabulary import Vocabulary
from whowrote.files import ModelFile, read_model_file, write_model_file

VOCABULARY = Vocabulary(("the", "of", "and", "."), tuple(" .,abcdefghijklmnopqrstuvwxyzX9"))
SMALL = {"n_words": 4, "n_characters": 31, "word_dim": 6, "word_hidden": 5, "sentence_hidden": 4}
VARIANTS: dict[str, dict[str, Any]] = {
    "published": {},
    "mean pooling": {"mean_pooling": True},
    "standardised": {"standardise": True, "mean_pooling": True},
    "LEV standardised": {"lev_gain": 0.5},
    "one level": {"levels": 1},
    "no characters": {"characters": False},
    "three widths": {"character_widths": (2, 3, 4)},
}


def make(seed: int = 0, **options: Any) -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = Network(Architecture(**{**SMALL, "lev_dim": 7, **options}))
        for scaling in network.modules():
            if isinstance(scaling, Standardise):
                scaling.mean.uniform_(-1, 1)
                scaling.variance.uniform_(0.5, 2)
    return network


def texts() -> list[str]:
    lengths = [1, 3, 29, 30, 31, 56, 57, 100, 240]
    return [texts_by(i, 1, length)[0] for i, length in enumerate(lengths)]


def levs(network: Network, numbered: Numbered, **options: Any) -> torch.Tensor:
    corpus = DeviceCorpus.place(numbered.tokens, numbered.types, "cpu")
    return embed(network, corpus, numbered.offsets[:-1], numbered.lengths, **options)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_text_alone_has_the_vector_it_has_in_company(variant: str) -> None:
    network = make(**VARIANTS[variant])
    together = levs(network, number(texts(), VOCABULARY), longest=0, windows=10**6)
    alone = torch.cat([levs(network, number([t], VOCABULARY), longest=0) for t in texts()])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=1e-5)
    assert together.std(0).min() > 0


def test_without_the_turn_padding_would_leak() -> None:
    torch.manual_seed(0)
    lstm, plain = BiLSTM(3, 4), torch.nn.LSTM(3, 4, batch_first=True, bidirectional=True)
    values, lengths = torch.randn(2, 6, 3), torch.tensor([6, 2])
    inside = (torch.arange(6) < lengths[:, None])[:, :, None]
    other = torch.where(inside, values, 9.0)
    torch.testing.assert_close(
        torch.where(inside, lstm(values, lengths), 0), torch.where(inside, lstm(other, lengths), 0)
    )
    assert not torch.allclose(plain(values)[0][1, :2], plain(other)[0][1, :2])


def test_the_two_directions_are_torchs() -> None:
    torch.manual_seed(0)
    ours, theirs = BiLSTM(3, 4), torch.nn.LSTM(3, 4, batch_first=True, bidirectional=True)
    for suffix, lstm in (("", ours.ahead), ("_reverse", ours.back)):
        for name, value in lstm.named_parameters():
            dict(theirs.named_parameters())[name + suffix].data.copy_(value.data)
    values, lengths = torch.randn(3, 5, 3), torch.tensor([5, 3, 1])
    packed = torch.nn.utils.rnn.pack_padded_sequence(values, lengths, batch_first=True)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    inside = (torch.arange(5) < lengths[:, None])[:, :, None]
    torch.testing.assert_close(torch.where(inside, ours(values, lengths), 0), expected)


def test_attention_leaves_padding_out() -> None:
    torch.manual_seed(0)
    pooling = Pooling(4, 3, mean=True)
    states, inputs = torch.randn(2, 5, 4), torch.randn(2, 5, 3)
    inside = torch.arange(5) < torch.tensor([[5], [2]])
    weights = pooling.weights(states, inside)
    torch.testing.assert_close(weights.sum(1), torch.ones(2))
    assert (weights[1, 2:] == 0).all()
    pooled = pooling(states, inputs, inside)
    torch.testing.assert_close(
        pooled[1], pooling(states[1:, :2], inputs[1:, :2], inside[1:, :2])[0]
    )
    torch.testing.assert_close(pooled[1, 4:8], states[1, :2].mean(0))


def test_characters_are_masked_and_ends_are_seen() -> None:
    network = make()
    assert network.spelling is not None
    short = torch.tensor([[5, 6, 7, 0, 0, 0]])
    with torch.no_grad():
        found = network.spelling(short)
        torch.testing.assert_close(found, network.spelling(short[:, :3]))
        assert not torch.allclose(found, network.spelling(torch.tensor([[7, 6, 5, 0, 0, 0]])))


def test_one_pass_over_distinct_tokens_equals_one_per_token() -> None:
    network = make()
    numbered = number(texts(), VOCABULARY)
    corpus = DeviceCorpus.place(numbered.tokens, numbered.types, "cpu")
    every = torch.arange(len(corpus.words))
    with torch.no_grad():
        table = network.word_vectors(corpus.characters, corpus.words)
        one = network.word_vectors(corpus.characters[every[5:6]], corpus.words[every[5:6]])
    torch.testing.assert_close(table[5:6], one)


def test_segments_cover_a_long_text() -> None:
    network = make()
    long = texts_by(3, 1, 700)[0]
    numbered = number([long], VOCABULARY)
    whole, cut = (levs(network, numbered, longest=longest) for longest in (0, 200))
    assert not torch.allclose(whole, cut)
    changed = number([long + " changed"], VOCABULARY)
    assert not torch.allclose(levs(network, changed, longest=200), cut)


def test_dropout_needs_its_generator_and_follows_its_seed() -> None:
    network, numbered = make(standardise=True), number(texts(), VOCABULARY)
    corpus = DeviceCorpus.place(numbered.tokens, numbered.types, "cpu")
    layout = lay_out(numbered.offsets[:-1], numbered.lengths, 30, 26)

    def run(seed: int | None) -> torch.Tensor:
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        ids = layout.ids(corpus.tokens, 30)
        with torch.no_grad():
            return network(ids, layout, corpus.characters, corpus.words, Dropout(), generator)

    torch.testing.assert_close(run(None), run(None))
    torch.testing.assert_close(run(1), run(1))
    assert not torch.allclose(run(1), run(2))


def test_standardise_uses_the_batch_in_training_and_its_memory_after() -> None:
    scaling, values = Standardise(3), torch.randn(50, 3) * 4 + 2
    learnt = scaling(values, True)
    torch.testing.assert_close(learnt.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(learnt, scaling(values, False))


@pytest.mark.parametrize(("length", "windows"), [(1, 1), (30, 1), (31, 2), (56, 2), (57, 3)])
def test_windows_cover_every_token(length: int, windows: int) -> None:
    layout = lay_out(np.array([5]), np.array([length]), 30, 26)
    assert layout.counts.tolist() == [windows]
    ids = layout.ids(torch.arange(1000), 30)
    assert set(ids[ids > 0].tolist()) == set(range(5, 5 + length))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hop": 31}, r"hop is 31 and window 30.*give at most the window"),
        ({"levels": 3}, r"levels is 3; it must be 1 or 2"),
        ({"lev_gain": -1.0}, r"lev_gain is -1.0; it must be 0 or more"),
        ({"word_dim": 0}, r"word_dim is 0; it must be at least 1"),
    ],
)
def test_bad_shapes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Architecture(**options)
    with pytest.raises(InputError, match=r"dropout words is 1; it must be in \[0, 1\)"):
        Dropout(words=1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("half", [False, True])
def test_a_gpu_gives_the_same_vectors(half: bool) -> None:
    network, numbered = make(standardise=True, mean_pooling=True), number(texts(), VOCABULARY)
    expected = levs(network, numbered)
    corpus = DeviceCorpus.place(numbered.tokens, numbered.types, "cuda")
    found = embed(network.cuda(), corpus, numbered.offsets[:-1], numbered.lengths, half=half)
    torch.testing.assert_close(found.cpu(), expected, atol=0.05 if half else 2e-3, rtol=0)


def slopes(lstm: BiLSTM, states: tuple[torch.Tensor, torch.Tensor]) -> list[torch.Tensor]:
    weight = torch.linspace(-1, 1, states[0].numel()).view_as(states[0]).to(states[0])
    total = (weight * states[0]).sum() + (weight.square() * states[1]).sum()
    return list(torch.autograd.grad(total, list(lstm.parameters())))


@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda",
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
            ],
        ),
    ],
)
def test_steps_in_one_product_are_the_library_s_lstm(device: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        lstm = BiLSTM(5, 4).double().to(device)
        ahead, back = torch.randn(2, 3, 6, 5, dtype=torch.float64, device=device)
    ours, theirs = lstm.stepwise(ahead, back), lstm._library(ahead, back)
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)
    torch.testing.assert_close(slopes(lstm, ours), slopes(lstm, theirs), atol=1e-11, rtol=0)
    swapped = lstm.stepwise(back, ahead)
    assert not torch.allclose(swapped[0], theirs[0], atol=1e-3)


def test_weights_that_ask_for_more_than_they_hold_are_refused(tmp_path: Path) -> None:
    """A file of some kilobytes that asks for a table of terabytes."""
    small = Extractor(make(), VOCABULARY)
    path = tmp_path / "weights.safetensors"
    write_extractor(path, small)
    read_extractor(path)  # negative control
    record = read_model_file(path)
    for name, size in (("n_words", 10**12), ("word_dim", 10**7), ("lev_dim", 10**30)):
        values = {**record.values, "architecture": {**record.values["architecture"], name: size}}
        write_model_file(path, ModelFile(record.kind, values, record.arrays))
        with pytest.raises(InputError, match=r"as large as the file says|do not fit this version"):
            read_extractor(path)
