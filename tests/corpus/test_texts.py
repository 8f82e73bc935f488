"""The record: immutable, consistent, and honest about what was skipped or repaired."""

import copy
import dataclasses
import hashlib
import io
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whowrote
from whowrote.attribution.jobs import questioned
from whowrote.corpus import documents as decoding
from whowrote.corpus import formats
from whowrote.corpus.texts import Corpus, Document, Note, load, stream
from whowrote.errors import CorpusWarning, InputError


@pytest.fixture
def small() -> Corpus:
    return Corpus.from_texts(
        ["one two three", "four five", "six", "seven eight"],
        ["b", "a", None, "a"],
        ids=["p", "q", "r", "s"],
        groups=["g", "g", "h", "s"],
        metadata=[{"year": year} for year in range(4)],
    )


def test_columns_have_one_entry_per_document(small: Corpus) -> None:
    assert len(small) == 4
    assert small.word_counts == (3, 2, 1, 2)
    assert small.author_names == ("a", "b")
    assert [document.metadata["year"] for document in small] == [0, 1, 2, 3]
    assert small[1] == Document("four five", "a", "q", "g", {"year": 1}, small.sha256[1])


def test_the_record_cannot_be_changed(small: Corpus) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        small.texts = ()  # type: ignore[misc]


def test_a_corpus_pickles_copies_and_hashes(small: Corpus) -> None:
    assert pickle.loads(pickle.dumps(small)) == small == copy.deepcopy(small)
    assert hash(small) == hash(copy.deepcopy(small))
    assert small != small.subset([0, 1])


def test_sha256_is_of_the_normalised_text() -> None:
    decomposed, composed = Corpus.from_texts(["e\u0301\r\n"]), Corpus.from_texts(["é\n"])
    assert decomposed.sha256 == composed.sha256
    assert decomposed.sha256[0] == hashlib.sha256("é\n".encode()).hexdigest()
    assert [note.kind for note in decomposed.notes] == ["unicode"]
    assert composed.notes == ()


def test_defaults_number_the_texts_and_make_each_its_own_group() -> None:
    corpus = Corpus.from_texts(["x", "y"])
    assert corpus.authors == (None, None)
    assert corpus.ids == corpus.groups == ("1", "2")


def test_joined_corpora_keep_their_documents(small: Corpus) -> None:
    other = Corpus.from_texts(["nine\x00"], ["c"], ids=["t"])
    both = Corpus.join([small, other])
    assert list(both) == [*small, *other]
    assert both.notes == other.notes
    assert both.notes != ()
    assert len(Corpus.join([])) == 0


def test_joined_corpora_are_numbered_where_ids_are_alike(small: Corpus) -> None:
    other = Corpus.from_texts(["nine\x00", "ten"], ids=["p", "t"])
    both = Corpus.join([small, other])
    assert both.ids == ("1: p", "2: q", "3: r", "4: s", "5: p", "6: t")
    assert both.texts == small.texts + other.texts
    assert both.sha256 == small.sha256 + other.sha256
    assert both.groups == ("g", "g", "h", "4: s", "5: p", "6: t")
    assert [note.document for note in both.notes] == ["5: p"]


def test_a_text_is_cleaned_and_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On its way from a file or standard input through every kind of selection."""
    seen: list[str] = []
    hashed = {"n": 0}

    def counting_clean(text: str) -> decoding.Decoded:
        seen.append(text)
        return clean(text)

    def counting_hash(data: bytes) -> object:
        hashed["n"] += 1
        return sha256(data)

    clean, sha256 = decoding.clean, hashlib.sha256
    monkeypatch.setattr(decoding, "clean", counting_clean)
    monkeypatch.setattr(formats, "clean", counting_clean)
    monkeypatch.setattr(formats.hashlib, "sha256", counting_hash)
    for folder in ("Ann", "Bob"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.txt").write_text(f"by {folder}")
    paths = [str(tmp_path / "Ann" / "1.txt"), str(tmp_path / "Bob" / "1.txt"), str(tmp_path), "-"]
    corpus = questioned(paths, io.StringIO("piped in"))
    assert corpus.ids == ("1: 1.txt", "2: 1.txt", "3: Ann/1.txt", "4: Bob/1.txt", "5: -")
    parts = corpus.subset(range(4)), corpus.labelled(), *corpus.by_author().values()
    assert Corpus.join([parts[0], corpus.subset([4])]).texts == corpus.texts
    assert seen == ["by Ann", "by Bob", "by Ann", "by Bob", "piped in"]
    assert hashed["n"] == len(seen)


def test_by_author_labelled_and_unlabelled(small: Corpus) -> None:
    assert {name: part.ids for name, part in small.by_author().items()} == {
        "a": ("q", "s"),
        "b": ("p",),
    }
    assert small.labelled().ids == ("p", "q", "s")
    assert small.unlabelled().ids == ("r",)


@given(st.lists(st.text("ab c", min_size=1).filter(str.strip), max_size=8), st.data())
def test_subset_is_indexing(texts: list[str], data: st.DataObject) -> None:
    corpus = Corpus.from_texts(texts)
    rows = data.draw(st.permutations(range(len(texts))))[: len(texts) // 2 + 1]
    part = corpus.subset(np.array(rows, dtype=int))
    assert list(part) == [corpus[row] for row in rows]
    assert corpus.subset(range(len(corpus))) == corpus


def test_subset_keeps_the_notes_of_its_documents() -> None:
    corpus = Corpus.from_texts(["a\x00", "b\x00", "c"])
    assert [note.document for note in corpus.subset([1, 2]).notes] == ["2"]


def test_subset_refuses_a_mask(small: Corpus) -> None:
    with pytest.raises(InputError, match="positions and got True; a mask is not one: pass the"):
        small.subset([True, False, True, True])
    with pytest.raises(TypeError):
        small.subset(np.array([True, False, True, True]))


def test_the_fingerprint_sees_every_part(small: Corpus) -> None:
    others = [
        dataclasses.replace(small, authors=("a", "a", None, "a")),
        dataclasses.replace(small, groups=("g", "g", "g", "s")),
        dataclasses.replace(small, ids=("p", "q", "r", "t")),
        small.subset([1, 0, 2, 3]),
    ]
    assert len({corpus.fingerprint for corpus in [small, *others]}) == 5
    assert dataclasses.replace(small).fingerprint == small.fingerprint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": ["x"], "authors": ["a", "b"]}, "authors has 2 entries for 1 texts; there must"),
        ({"texts": ["x", "y"], "ids": ["1", "1"]}, "id '1' is given to 2 documents; ids must be"),
        ({"texts": ["x", " \n"]}, "text 2 is empty; every text needs words: leave it out"),
        ({"texts": "x"}, "texts is one string ('x') and must be a sequence: put it in a list"),
        ({"texts": ["x", None]}, "text 2 is None (NoneType) and must be a string: convert it"),
    ],
)
def test_bad_texts(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Corpus.from_texts(**arguments)  # type: ignore[arg-type]


def test_columns_of_unequal_length(small: Corpus) -> None:
    with pytest.raises(InputError, match="groups has 1 entries for 4 texts"):
        dataclasses.replace(small, groups=("g",))


def test_one_author_only() -> None:
    corpus = Corpus.from_texts(["x", "y"], ["Ann", "Ann"])
    message = "1 known author ('Ann') and attribution needs at least 2: add texts by others"
    with pytest.raises(InputError, match=re.escape(message)):
        corpus.require_attribution()
    with pytest.raises(InputError, match=r"0 known authors \(none\)"):
        corpus.subset([]).require_attribution()


def test_an_author_with_one_text() -> None:
    corpus = Corpus.from_texts(["x", "y", "z"], ["Ann", "Ann", "Bob"])
    message = "author 'Bob' has 1 text and attribution needs at least 2 of each author: add texts"
    with pytest.raises(InputError, match=message):
        corpus.require_attribution()
    corpus.require_attribution(min_texts=1)  # the negative control
    Corpus.from_texts(["x"] * 4, ["Ann", "Bob"] * 2).require_attribution()


def test_load_and_stream_agree(tmp_path: Path) -> None:
    path = tmp_path / "posts.jsonl"
    path.write_text('{"text": "x y", "author": "a"}\n{"text": ""}\n{"text": "z"}\n')
    notes: list[Note] = []
    with pytest.warns(CorpusWarning, match=r"posts.jsonl: 1 empty \(all are in corpus.notes\)"):
        corpus = whowrote.load(path)
    assert list(stream(path, on_note=notes.append)) == list(corpus)
    assert tuple(notes) == corpus.notes
    assert str(notes[0]) == f"{path}, line 2: the text is empty: skipped"
    assert (notes[0].skipped, notes[0].lossless) == (True, False)


def test_stream_without_a_listener_warns(tmp_path: Path) -> None:
    path = tmp_path / "posts.jsonl"
    path.write_text('{"text": "x"}\n{"text": " "}\n{"text": null}\n')
    with pytest.warns(CorpusWarning, match="2 empty .pass on_note to see them"):
        assert len(list(stream(path))) == 1


def test_a_matter_of_form_is_noted_without_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "posts.jsonl"
    path.write_text('{"text": "be\\u0007ll"}\n')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(path).notes[0].kind == "control"
        assert [document.text for document in stream(path)] == ["bell"]


def test_an_error_of_the_path_is_raised_before_the_first_document(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        stream(tmp_path / "nothing")
