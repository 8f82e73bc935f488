"""The audit finds what was planted, does not find what was not, and counts like a direct count."""

import json
import random
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whowrote.corpus.audit import Audit, audit
from whowrote.corpus.copies import jaccard, shingles
from whowrote.corpus.texts import Corpus, load

WORDS = [f"{a}{b}{c}" for a in "bcdfg" for b in "aeiou" for c in "klmnprst"]


def passage(seed: int, length: int = 120) -> list[str]:
    return random.Random(seed).choices(WORDS, k=length)


def edited(words: list[str]) -> str:
    return " ".join(["changed" if index == 40 else word for index, word in enumerate(words)])


@pytest.fixture(scope="module")
def planted() -> Audit:
    """Six authors' texts with one exact copy, one near copy, and otherwise nothing in common."""
    texts = [" ".join(passage(seed)) for seed in range(30)]
    texts[7] = texts[2]  # author 1's copy of author 0's
    texts[12] = edited(passage(10))  # author 2 edits an own text
    return audit(Corpus.from_texts(texts, [f"author{row // 5}" for row in range(30)]))


def test_counts(planted: Audit) -> None:
    assert (planted.documents, planted.words) == (30, 3600)
    assert [(count.texts, count.words, count.groups) for count in planted.authors] == [
        (5, 600, 5)
    ] * 6
    assert {count.median_words for count in planted.authors} == {120}


def test_the_exact_copy_and_no_other(planted: Audit) -> None:
    (same,) = planted.exact_duplicates
    assert same.documents == ("3", "8")
    assert same.authors == ("author0", "author1")
    assert (same.between_authors, same.across_groups, same.similarity) == (True, True, 1.0)


def test_the_near_copy_and_no_other(planted: Audit) -> None:
    assert planted.near_duplicates is not None
    (same,) = planted.near_duplicates
    assert same.documents == ("11", "13")
    assert not same.between_authors
    # One word changed of 120 breaks 5 of 116 shingles on either side: 111 of 121 are shared.
    assert same.similarity == pytest.approx(111 / 121, abs=1e-4)


def test_copies_in_different_groups_leak(planted: Audit) -> None:
    assert [(leak.kind, leak.documents) for leak in planted.leaks] == [
        ("duplicates-across-groups", ("3", "8")),
        ("duplicates-across-groups", ("11", "13")),
    ]


def test_copies_in_one_group_do_not_leak() -> None:
    texts = [" ".join(passage(1)), edited(passage(1)), " ".join(passage(2)), " ".join(passage(3))]
    corpus = Corpus.from_texts(texts, ["a", "a", "a", "b"], groups=["g", "g", "h", "i"])
    assert audit(corpus).leaks == ()


def test_a_chain_of_edits_is_one_set() -> None:
    words = passage(5, 200)
    texts = [" ".join(words)]
    for position in (30, 90, 150):
        words[position] = "changed"
        texts.append(" ".join(words))
    other = " ".join(passage(6, 200))
    found = audit(Corpus.from_texts([other, *texts])).near_duplicates
    assert found is not None
    assert [same.documents for same in found] == [("2", "3", "4", "5")]


def test_two_sets_are_joined_by_a_third_text() -> None:
    # 1~3 and 2~3 but not 1~2 within the threshold: one set all the same.
    words = passage(9, 100)
    left, right = list(words), list(words)
    left[10], left[30] = "left", "lefter"
    right[60], right[80] = "right", "righter"
    texts = [" ".join(part) for part in (left, right, words)]
    found = audit(Corpus.from_texts(texts), similarity=0.75).near_duplicates
    assert found is not None
    assert [same.documents for same in found] == [("1", "2", "3")]
    assert jaccard(texts[0], texts[1]) < 0.75 < jaccard(texts[0], texts[2])


def test_the_search_can_be_switched_off() -> None:
    corpus = Corpus.from_texts([" ".join(passage(1)), edited(passage(1))])
    assert audit(corpus, near_duplicates=False).near_duplicates is None
    assert audit(corpus, near_duplicates=False).leaks == ()
    assert len(audit(corpus).leaks) == 1


def test_texts_without_words_are_no_duplicates() -> None:
    assert audit(Corpus.from_texts(["!!!", "???", "..."])).near_duplicates == ()


@given(st.lists(st.sampled_from(WORDS), max_size=30), st.lists(st.sampled_from(WORDS), max_size=30))
def test_jaccard_is_that_of_word_runs(first: list[str], second: list[str]) -> None:
    def runs(words: list[str]) -> set[tuple[str, ...]]:
        width = min(5, len(words))
        starts = range(len(words) - width + 1) if width else ()
        return {tuple(words[start : start + width]) for start in starts}

    one, two = runs(first), runs(second)
    expected = len(one & two) / len(one | two) if one | two else 0.0
    assert len(shingles(" ".join(first))) == len(one)
    assert jaccard(" ".join(first), ", ".join(second).upper()) == pytest.approx(expected)


def test_boilerplate_is_told_from_style() -> None:
    bodies = [" ".join(passage(seed, 20)) for seed in range(8)]
    signed = [f"{body}\n-- \nAnn Other, Acme Corp." for body in bodies[:4]]
    twice = [f"{body}\nSeen only two times" for body in bodies[4:6]]
    corpus = Corpus.from_texts(signed + twice + bodies[6:], ["Ann"] * 4 + ["Bob"] * 4)
    (found,) = audit(corpus).boilerplate
    assert (found.author, found.line, found.texts) == ("Ann", "Ann Other, Acme Corp.", 4)
    assert found.share == 1.0


def test_copies_are_no_boilerplate() -> None:
    corpus = Corpus.from_texts(["a first line of it\na second line"] * 5, ["Ann"] * 5)
    assert audit(corpus).boilerplate == ()


def test_rare_lines_of_prolific_authors_are_no_boilerplate() -> None:
    texts = [f"{' '.join(passage(seed, 10))}\n{seed} is the number" for seed in range(100)]
    texts[:3] = [f"text {seed} of it\nYours sincerely" for seed in range(3)]
    assert audit(Corpus.from_texts(texts, ["Ann"] * 100), near_duplicates=False).boilerplate == ()


def test_authors_with_too_little_text() -> None:
    corpus = Corpus.from_texts(["w " * 50] * 6 + ["v"], ["Ann"] * 4 + ["Bob"] * 2 + [None])
    assert [thin.author for thin in audit(corpus, min_texts=3, min_words=1).thin_authors] == ["Bob"]
    found = audit(corpus, min_texts=1, min_words=150).thin_authors
    assert [(thin.author, thin.words) for thin in found] == [("Bob", 100)]
    assert audit(corpus, min_texts=2, min_words=100).thin_authors == ()


def test_a_long_text_is_not_called_thin_and_many_short_ones_are() -> None:
    novel, notes = "so it was and went on as it had " * 700, [f"note {n} of nine" for n in range(9)]
    corpus = Corpus.from_texts([novel, *notes], ["Ann", *["Bob"] * 9])
    thin = audit(corpus, near_duplicates=False).thin_authors
    assert [author.author for author in thin] == ["Bob"]
    short = Corpus.from_texts([" ".join(novel.split()[:3000]), *notes], ["Ann", *["Bob"] * 9])
    assert len(audit(short, near_duplicates=False).thin_authors) == 2


def test_languages() -> None:
    english = "The people of this town were not at all pleased with what they had been told. "
    french = "Les gens de cette ville n'étaient pas du tout contents de ce qu'on leur disait. "
    found = audit(Corpus.from_texts([english, english * 2, french])).languages
    assert dict(found.texts) == {"en": 2, "fr": 1}
    assert (found.examined, found.of, found.characters) == (3, 3, 1000)


def test_groups_that_cannot_be_split() -> None:
    corpus = Corpus.from_texts(
        [" ".join(passage(seed)) for seed in range(6)],
        ["Ann", "Bob", "Ann", "Bob", "Cid", "Cid"],
        groups=["both", "both", "a", "b", "c", "c"],
    )
    assert [(leak.kind, leak.groups, leak.authors) for leak in audit(corpus).leaks] == [
        ("group-of-several-authors", ("both",), ("Ann", "Bob")),
        ("author-in-one-group", ("c",), ("Cid",)),
    ]


def test_notes_and_unknown_authors_are_told() -> None:
    found = audit(Corpus.from_texts(["bell\x07", "b"], ["Ann", None]))
    assert [note.kind for note in found.notes] == ["control"]
    assert [count.author for count in found.authors] == ["Ann", None]


def test_an_empty_corpus() -> None:
    found = audit(Corpus.from_texts([]))
    assert (found.documents, found.languages.examined, found.authors) == (0, 0, ())


def test_the_dict_is_json(planted: Audit) -> None:
    content = json.loads(json.dumps(planted.to_dict()))
    assert content["documents"] == 30
    assert content["near_duplicates"][0]["documents"] == ["11", "13"]
    assert content["settings"]["similarity"] == 0.7


def direct_count(path: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Texts and words per author, without a line of the package."""
    table = pq.read_table(path)
    texts: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for author, text in zip(table["author"].to_pylist(), table["text"].to_pylist(), strict=True):
        texts[author] += 1
        words[author] += len(text.split())
    return dict(texts), dict(words)


def audited_count(corpus: Corpus) -> tuple[dict[str | None, int], dict[str | None, int]]:
    found = audit(corpus, near_duplicates=False)
    return (
        {count.author: count.texts for count in found.authors},
        {count.author: count.words for count in found.authors},
    )


@pytest.mark.data
def test_blog30_counts_like_a_direct_count(data: Path) -> None:
    path = data / "blog30.parquet"
    assert audited_count(load(path)) == direct_count(path)


@pytest.mark.data
def test_federalist_folders_count_like_a_direct_count(data: Path, tmp_path: Path) -> None:
    path = data / "federalist.parquet"
    for row in pq.read_table(path).to_pylist():
        file = tmp_path / row["author"] / f"{row['number']:02d}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(row["text"], encoding="utf-8")
    assert audited_count(load(tmp_path)) == direct_count(path)
