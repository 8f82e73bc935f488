"""The PAN shared tasks, in the form they are published in."""

import json
from pathlib import Path

import pytest

from whowrote.corpus.pan import truth_file
from whowrote.corpus.texts import load
from whowrote.errors import CorpusWarning, InputError


def put(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    put(
        tmp_path / "collection-info.json",
        [{"problem-name": "problem00001", "language": "en", "encoding": "UTF-8"}],
    )
    for name in ("problem00001", "problem00002"):
        problem = tmp_path / name
        put(problem / "problem-info.json", {"unknown-folder": "unknown", "candidate-authors": []})
        put(problem / "candidate00001" / "known00001.txt", f"one of {name}")
        put(problem / "candidate00002" / "known00001.txt", f"two of {name}")
        put(problem / "unknown" / "unknown00001.txt", f"who of {name}")
        put(problem / "unknown" / "unknown00002.txt", f"nobody of {name}")
    truth = [
        {"unknown-text": "unknown00001.txt", "true-author": "candidate00002"},
        {"unknown-text": "unknown00002.txt", "true-author": "<UNK>"},
    ]
    put(tmp_path / "problem00001" / "ground-truth.json", {"ground_truth": truth})
    return tmp_path


def test_a_collection_of_attribution_problems(problems: Path) -> None:
    corpus = load(problems)
    assert len(corpus) == 8
    assert corpus.author_names == tuple(
        f"problem0000{i}/candidate0000{j}" for i in (1, 2) for j in (1, 2)
    )
    known, unknown = corpus.labelled(), corpus.unlabelled()
    assert known.metadata[0] == {"problem": "problem00001", "language": "en", "role": "known"}
    assert unknown.metadata[0]["true_author"] == "candidate00002"
    assert unknown.metadata[1]["true_author"] is None
    assert unknown.metadata[2] == {"problem": "problem00002", "role": "unknown"}
    assert unknown.ids[0] == "problem00001/unknown/unknown00001.txt"
    assert corpus.notes == ()


def test_one_attribution_problem(problems: Path) -> None:
    corpus = load(problems / "problem00001")
    assert corpus.author_names == ("candidate00001", "candidate00002")
    assert corpus.unlabelled().metadata[0] == {"role": "unknown", "true_author": "candidate00002"}


def test_the_unknown_folder_may_have_another_name(problems: Path) -> None:
    problem = problems / "problem00002"
    put(problem / "problem-info.json", {"unknown-folder": "disputed"})
    (problem / "unknown").rename(problem / "disputed")
    assert load(problem).unlabelled().ids[0] == "disputed/unknown00001.txt"


def test_stray_files_and_missing_descriptions(problems: Path) -> None:
    put(problems / "readme.txt", "about")
    put(problems / "problem00001" / "notes.txt", "about")
    (problems / "collection-info.json").unlink()
    (problems / "problem00002" / "problem-info.json").unlink()
    with pytest.warns(CorpusWarning, match="2 not-text"):
        corpus = load(problems)
    assert len(corpus) == 8
    assert "language" not in corpus.metadata[0]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("collection-info.json", {}, "collection-info.json must hold a list of problems, as PAN"),
        ("collection-info.json", "[\n{", "line 2: not valid JSON .*: correct the file, or fetch"),
        ("problem00001/problem-info.json", [], "must hold an object with 'unknown-folder'"),
        (
            "problem00001/ground-truth.json",
            {"ground_truth": [1]},
            "must hold a list 'ground_truth'",
        ),
    ],
)
def test_broken_descriptions(problems: Path, file: str, content: object, message: str) -> None:
    put(problems / file, content)
    with pytest.raises(InputError, match=message):
        load(problems)


def test_a_collection_without_problems(tmp_path: Path) -> None:
    put(tmp_path / "collection-info.json", [])
    with pytest.raises(
        InputError, match="has no problem folder; a PAN collection holds one folder"
    ):
        load(tmp_path)


PAIRS = [
    {"id": "p1", "fandoms": ["Alpha", "Beta"], "pair": ["one", "two"]},
    {"id": "p2", "discourse_types": ["mail", "essay"], "pair": ["three", "four"]},
]
TRUTH = [{"id": "p1", "same": True, "authors": ["7", "7"]}, {"id": "p2", "same": False}]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    put(tmp_path / "pairs.jsonl", "\n".join(map(json.dumps, PAIRS)))
    put(tmp_path / "truth.jsonl", "\n".join(map(json.dumps, TRUTH)))
    return tmp_path


def test_verification_pairs(pairs: Path) -> None:
    for path in (pairs, pairs / "pairs.jsonl"):
        corpus = load(path)
        assert corpus.ids == ("p1/1", "p1/2", "p2/1", "p2/2")
        assert corpus.groups == ("p1", "p1", "p2", "p2")
        assert corpus.authors == ("7", "7", None, None)
        assert corpus.metadata[1] == {"pair": "p1", "fandom": "Beta", "same": True}
        assert corpus.metadata[2] == {"pair": "p2", "discourse_type": "mail", "same": False}


def test_pairs_without_truth(pairs: Path) -> None:
    (pairs / "truth.jsonl").unlink()
    corpus = load(pairs)
    assert set(corpus.authors) == {None}
    assert "same" not in corpus.metadata[0]


def test_the_truth_of_a_long_name(tmp_path: Path) -> None:
    name = "pan20-authorship-verification-training-small"
    put(tmp_path / f"{name}.jsonl", "\n".join(map(json.dumps, PAIRS)))
    assert truth_file(tmp_path / f"{name}.jsonl") is None
    put(tmp_path / f"{name}-truth.jsonl", "\n".join(map(json.dumps, TRUTH)))
    assert load(tmp_path).authors == ("7", "7", None, None)


@pytest.mark.parametrize(
    "row", [{"id": "p", "pair": ["x"]}, {"pair": ["x", "y"]}, {"id": "p", "pair": [1, 2]}]
)
def test_a_broken_pair(tmp_path: Path, row: dict[str, object]) -> None:
    put(tmp_path / "pairs.jsonl", json.dumps(row))
    with pytest.raises(
        InputError, match=r"line 1: found .*; each line must hold 'id' and 'pair', a"
    ):
        load(tmp_path)


def test_no_pairs(tmp_path: Path) -> None:
    put(tmp_path / "x.txt", "x")
    with pytest.raises(InputError, match=r"has no pairs\.jsonl; PAN verification data are"):
        load(tmp_path, format="pan-verification")
