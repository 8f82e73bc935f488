"""The second tower: BERT's own states, padding and company change nothing, 8 bits change little."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import Tensor, nn

from features.made_up import texts_by
from features.towers import SHAPE, TABLE, bert_arrays
from whowrote import private
from whowrote.errors import InputError
from whowrote.features.encoder import (
    MOST_STRETCHES,
    DevicePieces,
    EightBitLinear,
    EncoderShape,
    Hiding,
    PieceEncoder,
    PieceGroup,
    bert_state,
    encode,
    from_eight_bits,
    in_eight_bits,
    start_encoder,
    stretches_of,
    to_eight_bits,
)

TEXTS = [" ".join(texts_by(author, 1, length)) for author, length in ((1, 9), (2, 60), (3, 200))]


def made(shape: EncoderShape = SHAPE) -> PieceEncoder:
    torch.manual_seed(3)
    encoder = PieceEncoder(shape)
    encoder.load_state_dict(bert_state(bert_arrays(), shape), strict=False)
    if encoder.marks is not None:
        nn.init.normal_(encoder.marks.weight, std=0.5)
    return encoder.requires_grad_(False)


def vectors(encoder: PieceEncoder, texts: list[str], at_once: int = 1) -> Tensor:
    rows = TABLE.read(texts)
    placed = DevicePieces.place(rows, "cpu")
    return encode(encoder, placed, rows.offsets[:-1], rows.lengths, at_once=at_once)


def layer_by_hand(states: Tensor, arrays: dict[str, np.ndarray], number: int) -> Tensor:
    """BERT's layer as its paper has it, one head after the other."""

    def linear(name: str, values: Tensor) -> Tensor:
        own = f"encoder.layer.{number}.{name}."
        return values @ torch.from_numpy(arrays[own + "weight"]).T + torch.from_numpy(
            arrays[own + "bias"]
        )

    def norm(name: str, values: Tensor) -> Tensor:
        own = f"encoder.layer.{number}.{name}.LayerNorm."
        centred = values - values.mean(1, keepdim=True)
        scaled = centred / (centred.square().mean(1, keepdim=True) + 1e-12).sqrt()
        weight, bias = (torch.from_numpy(arrays[own + end]) for end in ("weight", "bias"))
        return scaled * weight + bias

    q, k, v = (linear(f"attention.self.{name}", states) for name in ("query", "key", "value"))
    size = SHAPE.width // SHAPE.heads
    heads = []
    for low in range(0, SHAPE.width, size):
        own = slice(low, low + size)
        heads.append((q[:, own] @ k[:, own].T / size**0.5).softmax(1) @ v[:, own])
    mixed = norm("attention.output", states + linear("attention.output.dense", torch.cat(heads, 1)))
    inner = linear("intermediate.dense", mixed)
    inner = inner * 0.5 * (1 + torch.erf(inner / 2**0.5))
    return norm("output", mixed + linear("output.dense", inner))


def test_states_are_those_of_bert() -> None:
    arrays = bert_arrays()
    shape = replace(SHAPE, marks=False)
    encoder = made(shape)
    rows = TABLE.read(["the whale of it"])
    batch = DevicePieces.place(rows, "cpu").batch(
        stretches_of(rows.offsets[:-1], rows.lengths, 40), shape, 1
    )
    group = batch.groups[0]
    found = encoder.sums(group.pieces, group.marks, group.inside).view(3, SHAPE.width)
    numbers = [SHAPE.special[0], *rows.pieces.tolist(), SHAPE.special[1]]
    states = torch.from_numpy(
        arrays["embeddings.word_embeddings.weight"][numbers]
        + arrays["embeddings.position_embeddings.weight"][: len(numbers)]
        + arrays["embeddings.token_type_embeddings.weight"][0]
    )
    states = nn.functional.layer_norm(
        states,
        [SHAPE.width],
        *(torch.from_numpy(arrays[f"embeddings.LayerNorm.{e}"]) for e in ("weight", "bias")),
        eps=1e-12,
    )
    expected = [states.sum(0)]
    for number in range(2):
        states = layer_by_hand(states, arrays, number)
        expected.append(states.sum(0))
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-4, atol=1e-4)


def test_company_and_padding_change_nothing() -> None:
    encoder = made()
    torch.testing.assert_close(vectors(encoder, TEXTS), vectors(encoder, TEXTS, at_once=3))


def test_in_eight_bits_company_and_padding_change_nothing() -> None:
    eight = in_eight_bits(made())
    together = vectors(eight, TEXTS, at_once=3)
    for number, text in enumerate(TEXTS):
        torch.testing.assert_close(together[number], vectors(eight, [text])[0], rtol=0, atol=1e-5)


def test_whole_numbers_give_the_same_products_with_and_without_fast_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    linear, inputs = nn.Linear(1536, 40), torch.randn(2, 5, 1536)
    found = []
    for fast in (False, True):
        monkeypatch.setattr(private, "multiplies_bytes", lambda fast=fast: fast)
        found.append(EightBitLinear(linear)(inputs))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)
    exact = linear(inputs)
    assert 1e-4 < (found[0] - exact).abs().max() < 0.05 * exact.abs().max()


def test_eight_bits_are_near_single_precision() -> None:
    exact, eight = vectors(made(), TEXTS), vectors(in_eight_bits(made()), TEXTS)
    assert nn.functional.cosine_similarity(exact, eight).min() > 0.99
    other = vectors(made(), [TEXTS[1], TEXTS[2], TEXTS[0]])
    assert nn.functional.cosine_similarity(other, eight).max() < 0.99


def test_marks_tell_cases_apart_and_without_them_nothing_does() -> None:
    texts = ["the of it", "The OF it", "the  of\nit"]
    seen = vectors(made(), texts)
    assert (seen[1:] - seen[0]).abs().amax(1).min() > 1e-3
    folded = vectors(made(replace(SHAPE, marks=False)), texts)
    torch.testing.assert_close(folded, folded[:1].expand(3, -1))


def test_hidden_pieces_and_rare_ones_are_not_seen() -> None:
    encoder = made()
    rows = TABLE.read(["the of the of", "the zz the zz"])
    placed = DevicePieces.place(rows, "cpu")
    batch = placed.batch(stretches_of(rows.offsets[:-1], rows.lengths, 40), SHAPE, 2)
    encoder.rare[[TABLE.index["z"], TABLE.index["##z"], TABLE.index["of"]]] = 1.0
    group, hidden = batch.groups[0], SHAPE.special[2]
    shown = hiding(rare=1.0).pieces(group, encoder.rare, hidden)
    rare = encoder.rare[group.pieces] > 0
    assert rare.any()
    assert (shown[rare] == SHAPE.special[2]).all()
    assert (shown[~rare] == group.pieces[~rare]).all()
    everything = hiding(pieces=1.0).pieces(group, encoder.rare, hidden)
    assert ((everything == SHAPE.special[2]) == group.inner).all()  # ends are never hidden


def test_stretches_hide_shares_of_rare_pieces_of_their_own_around_the_mean() -> None:
    place = torch.ones(400, 100, dtype=torch.bool)
    group = PieceGroup(place.long(), place.long(), place, place)
    rare = torch.ones(2)

    def hidden_shares(spread: float) -> torch.Tensor:
        shown = hiding(rare=0.5, rare_spread=spread).pieces(group, rare, 0)
        return (shown == 0).float().mean(1)

    alike, apart = hidden_shares(0.0), hidden_shares(0.9)
    assert alike.std() < 0.07  # what chance alone makes of 100 pieces is 0.05
    assert apart.std() > 0.2
    assert apart.min() < 0.15
    assert apart.max() > 0.85
    torch.testing.assert_close(apart.mean(), alike.mean(), atol=0.04, rtol=0)


def hiding(**shares: float) -> Hiding:
    none = dict.fromkeys(("pieces", "rare", "rare_spread", "means", "states"), 0.0)
    return Hiding(none | shares, torch.Generator().manual_seed(0))


def test_hidden_states_are_the_same_columns_along_a_stretch_and_keep_their_mean() -> None:
    added = torch.ones(400, 5, 40)
    shown = hiding(states=0.25).states(added)
    assert (shown == shown[:, :1]).all()
    assert 0.7 < (shown > 0).float().mean() < 0.8
    torch.testing.assert_close(shown[shown > 0], torch.full_like(shown[shown > 0], 4 / 3))
    assert hiding().states(added) is added


def test_a_tower_that_hides_nothing_learns_from_what_it_reads() -> None:
    encoder, rows = made(), TABLE.read(TEXTS)
    placed = DevicePieces.place(rows, "cpu")
    batch = placed.batch(stretches_of(rows.offsets[:-1], rows.lengths, 40), SHAPE, len(TEXTS))
    plain = encoder.means(batch)
    torch.testing.assert_close(encoder.means(batch, hiding()), plain)
    assert (encoder.means(batch, hiding(states=0.5)) - plain).abs().max() > 1e-3


def test_a_long_text_is_read_at_equal_distances() -> None:
    found = stretches_of(np.array([7]), np.array([40_000]), 40)
    assert len(found.starts) == MOST_STRETCHES
    assert (np.diff(found.starts) > 1000).all()
    assert found.starts[0] == 7
    assert (found.starts + found.lengths).max() <= 40_007


def test_eight_bits_round_to_half_a_step() -> None:
    matrix = np.random.default_rng(0).normal(size=(7, 5, 3))
    whole, steps = to_eight_bits(matrix)
    error = np.abs(from_eight_bits(whole, steps) - matrix).reshape(7, -1).max(1)
    assert (error <= 0.51 * steps + 127 * steps * 2**-11).all()
    assert (error > 0).all()


def test_start_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    save_file(bert_arrays(), tmp_path / "start.safetensors")
    with pytest.raises(InputError, match=r"they must agree: correct \[encoder\]"):
        start_encoder(PieceEncoder(replace(SHAPE, hidden=30)), tmp_path / "start.safetensors")
    with pytest.raises(InputError, match="BERT model of at least 3 layers"):
        start_encoder(PieceEncoder(replace(SHAPE, layers=3)), tmp_path / "start.safetensors")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"depths": (0, 3)}, "depths are"),
        ({"heads": 3}, "multiple of the heads"),
        ({"positions": 2}, "3 positions"),
        ({"weight": 0.0}, "weight is"),
    ],
)
def test_impossible_shapes_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(SHAPE, **changes)  # type: ignore[arg-type]
