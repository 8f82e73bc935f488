"""Bytes to text: what is written is read back, and every repair is on record."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whowrote.corpus.documents import clean, decode, is_binary

TEXT = st.text(st.characters(exclude_categories=["Cc", "Cs"], include_characters="\n\t"))


def kinds(data: bytes) -> list[str]:
    return [repair.kind for repair in decode(data).repairs]


@given(TEXT)
def test_utf8_round_trip(text: str) -> None:
    expected = unicodedata.normalize("NFC", text.removeprefix("\ufeff"))
    assert decode(text.encode("utf-8")).text == expected


@given(TEXT)
def test_marked_encodings_round_trip(text: str) -> None:
    expected = unicodedata.normalize("NFC", text)
    for encoding in ("utf-8-sig", "utf-16"):
        assert decode(text.encode(encoding)).text == expected


@given(st.binary())
def test_any_bytes_become_clean_text(data: bytes) -> None:
    text = decode(data).text
    assert unicodedata.is_normalized("NFC", text)
    assert not any(unicodedata.category(char) in ("Cc", "Cs") for char in set(text) - {"\n", "\t"})


@given(st.text(st.characters()))
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    once = clean(text)
    assert clean(once.text) == type(once)(once.text, "str", ())


@pytest.mark.parametrize("mark", ["utf-16-le", "utf-16-be"])
def test_utf16_needs_its_mark(mark: str) -> None:
    data = "Où est-il ?".encode(mark)
    assert decode("\ufeff".encode(mark) + data).text == "Où est-il ?"
    assert is_binary(data)
    assert not is_binary("\ufeff".encode(mark) + data)


def test_broken_utf16_is_replaced_and_recorded() -> None:
    found = decode("\ufeffab".encode("utf-16-le") + b"c")
    assert found.text == "ab\ufffd"
    assert found.repairs[0].message == "bytes from 6 are not valid UTF-16 and became U+FFFD"


def test_cp1252_is_recorded() -> None:
    found = decode("“Zoë” – naïve".encode("cp1252"))
    assert (found.text, found.encoding) == ("“Zoë” – naïve", "cp1252")
    assert found.repairs[0].message == "byte 0x93 at 0 is not UTF-8; read as cp1252"
    assert kinds("“Zoë”".encode()) == []  # the negative control


def test_undecodable_bytes_are_replaced_and_recorded() -> None:
    found = decode(b"caf\xe9 \x81 and \x8d")
    assert found.text == "café \ufffd and \ufffd"
    assert [repair.kind for repair in found.repairs] == ["encoding", "undecodable"]
    assert found.repairs[1].message == "2 bytes (0x81, 0x8d) undefined in cp1252 became U+FFFD"


def test_nfc() -> None:
    assert decode("e\u0301".encode()).text == "é"
    assert kinds("e\u0301".encode()) == ["unicode"]
    assert kinds("é".encode()) == []


def test_control_characters() -> None:
    found = clean("bell\x07 page\x0cend\x1fof\x7f dash \x97 none\x81")
    assert found.text == "bell page\nend of dash — none"
    assert found.repairs[0].message == (
        "6 control characters (U+0007, U+000C, U+001F, U+007F, U+0081, U+0097) removed or replaced"
    )


def test_a_lone_surrogate_is_replaced() -> None:
    found = clean("smile \ud83d!")
    assert found.text == "smile \ufffd!"
    assert found.repairs[0].message == "1 lone surrogate became U+FFFD"


def test_line_ends_are_unified_without_a_repair() -> None:
    assert clean("a\r\nb\rc\n") == clean("a\nb\nc\n")
    assert clean("a\r\nb").repairs == ()


@pytest.mark.parametrize(
    "data", [b"a\0b", b"%PDF-1.7 plain", b"PK\x03\x04x", b"\x01\x02\x03 abc", b"\x1f\x8bgz"]
)
def test_binary(data: bytes) -> None:
    assert is_binary(data)


@pytest.mark.parametrize(
    "data", [b"", b"plain", b"tabs\tand\r\nlines", b"caf\xe9", b"one \x07 bell in a text"]
)
def test_not_binary(data: bytes) -> None:
    assert not is_binary(data)
