"""Word pieces are those of BERT's tokenizers; the marks keep what these forget."""

from pathlib import Path

import numpy as np
import pytest

from features.towers import TABLE
from whowrote.errors import InputError
from whowrote.features.pieces import (
    LINE_BREAK,
    LOWER,
    MIXED,
    NONE,
    SPACE,
    SPACES,
    SPECIAL,
    TITLE,
    UPPER,
    PieceRows,
    PieceTable,
    folded,
    shares_of_users,
)

ODD = [
    "Naïve café—THE WHALE's 3.50$ (sic)...",
    "tab\there\r\nand\u00a0there\u200b zero\x00byte \ufffd",
    "鯨魚 of 2026, and Straße ﬁn",
    "a" * 101 + " b",
    "it isn't: “quoted” ‘so’ – e-mail me@x.org; #1 *bold* _under_ `code` ~ ^ | <b>",
    "İstanbul ǅ Ω ½ ² № ™ € 😀👍🏽",
]


@pytest.mark.parametrize("text", ODD)
def test_pieces_are_those_of_the_tokenizers_package(text: str) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")
    known = {piece: number for number, piece in enumerate(TABLE.pieces)}
    theirs = tokenizers.BertWordPieceTokenizer(vocab=known, lowercase=True)
    assert TABLE.read([text]).pieces.tolist() == theirs.encode(text, add_special_tokens=False).ids


def test_a_word_is_its_longest_pieces_from_its_beginning() -> None:
    table = PieceTable((*SPECIAL, "un", "##believ", "##able", "##a", "u", "##n", "##b", "##le"))
    names = [table.pieces[number] for number in table.read(["Unbelievable unable unx"]).pieces]
    assert names == ["un", "##believ", "##able", "un", "##able", "[UNK]"]


def test_marks_keep_case_and_space_that_pieces_forget() -> None:
    rows = TABLE.read(["the The THE tHe\n\nit."])
    assert len({*rows.pieces[:4].tolist()} - {TABLE.index["the"]}) == 0
    shapes, spaces = rows.marks // SPACES, rows.marks % SPACES
    assert shapes.tolist() == [LOWER, TITLE, UPPER, MIXED, LOWER, NONE]
    assert spaces.tolist() == [0, SPACE, SPACE, SPACE, LINE_BREAK, 0]


def test_later_pieces_of_a_word_have_nothing_before_them() -> None:
    rows = TABLE.read(["of Ab"])
    assert (rows.marks % SPACES).tolist() == [0, SPACE, 0]
    assert (rows.marks // SPACES).tolist() == [LOWER, TITLE, TITLE]


def test_a_text_never_changes_the_pieces_of_another() -> None:
    together, reader = TABLE.read(ODD), TABLE.reader()
    alone = PieceRows.join([reader([text]) for text in ODD])
    for name in ("pieces", "marks", "offsets"):
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))


@pytest.mark.parametrize("text", ["\u200b", "", "   "])
def test_a_text_without_pieces_is_one_unknown_piece(text: str) -> None:
    assert TABLE.read([text]).pieces.tolist() == [TABLE.index["[UNK]"]]


def test_spans_are_the_words_of_the_pieces() -> None:
    text = "It  was—Ahab!"
    rows, spans = TABLE.read([text]), TABLE.spans(text)
    assert len(spans) == len(rows.pieces)
    for number, (start, end) in zip(rows.pieces, spans, strict=True):
        piece = TABLE.pieces[number].removeprefix("##")
        assert piece == "[UNK]" or piece in folded(text[start:end])


def test_shares_count_training_authors_and_domains_alike() -> None:
    rows = TABLE.read(["the", "the of", "of", "a", "the"])
    authors, domains = np.array([0, 0, 1, 2, 3]), np.array([0, 0, 1, 1])
    learnt = np.array([True, True, True, False])
    found = shares_of_users(rows, authors, domains, learnt, len(TABLE))
    of_domain = {"the": 0.5 / 2, "of": 1.0 / 2, "a": 1.0 / 2}
    assert {piece: found[TABLE.index[piece]] for piece in of_domain} == of_domain


@pytest.mark.parametrize("pieces", [("a", "b"), (*SPECIAL, "a", "a")])
def test_a_table_that_cannot_be_one_is_refused(pieces: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"give the vocab\.txt of a BERT model"):
        PieceTable(pieces)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    from whowrote.features.extractor.preparation import read_table

    with pytest.raises(InputError, match="table of word pieces is not there"):
        read_table(tmp_path / "vocab.txt")
