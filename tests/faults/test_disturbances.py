"""What the world does to a command while it works: the short form, and races made to happen."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from attribution.people import QUICK, corpus, texts_by
from faults.disturbances import DISTURBANCES, Found, attack, clock_library, prepare, said_wrong
from faults.kills import forked_told
from whowrote.attribution import Attributor
from whowrote.case.exhibits import Case, read_unchanged
from whowrote.case.findings import run as weigh
from whowrote.corpus.texts import Corpus, load
from whowrote.errors import InputError
from whowrote.features import AdHominem, reading
from whowrote.features.adhominem import PRETRAINED
from whowrote.features.fitted_features import WEIGHTS, FittedAdHominem
from whowrote.features.reading import read_extractor, write_extractor
from whowrote.schema import read_toml

pytestmark = pytest.mark.skipif(os.name != "posix", reason="forks and signals of POSIX systems")
LONGEST = 30


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A process with several threads must not be forked."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# -- the short form ------------------------------------------------------------------------------


@pytest.mark.parametrize("what", [one for one in DISTURBANCES if one != "the clock jumps"])
def test_a_disturbed_command_ends_well_or_with_a_sentence(what: str, tmp_path: Path) -> None:
    found = Found()
    prepare("case add", tmp_path)
    attack("case add", what, tmp_path, times=3, seed=5, seconds=20, found=found)
    assert found.wrong == []
    assert found.refused[what] + found.ended[what] >= 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a library in front of another")
def test_a_clock_that_jumps_by_years_changes_nothing(tmp_path: Path) -> None:
    library = clock_library(tmp_path)
    if library is None:
        pytest.skip("there is no C compiler")
    words = ["--only", "case add", "--what", "the clock jumps", "--times", "2"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "faults.disturbances", *words],
        env={**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 ended well, 0 wrong" in done.stdout


def test_the_search_finds_what_it_looks_for() -> None:
    """Negative control: tracebacks, hangs, other statuses and silence are noticed."""
    assert said_wrong(0, "", may_refuse=True) == ""
    assert said_wrong(2, "whowrote: 'a' is gone; check the path\n", may_refuse=True) == ""
    assert "status 2" in said_wrong(2, "whowrote: 'a' is gone\n", may_refuse=False)
    assert "traceback" in said_wrong(1, "Traceback\nKeyError: 'a'", may_refuse=True)
    assert "hangs" in said_wrong(-signal.SIGALRM, "", may_refuse=True)
    assert "no sentence" in said_wrong(2, "Killed", may_refuse=True)


# -- a pipe takes the place of a file between the look and the opening ---------------------------


def _texts(folder: Path) -> Path:
    for author in range(2):
        (folder / "texts" / f"p{author}").mkdir(parents=True)
        for number, text in enumerate(texts_by(author, 2)):
            (folder / "texts" / f"p{author}" / f"{number}.txt").write_text(text)
    return folder / "texts"


def _csv(folder: Path) -> Path:
    (folder / "a.csv").write_text("author,text\n" + "ann,I am here today\n" * 3)
    return folder / "a.csv"


def _json_lines(folder: Path) -> Path:
    (folder / "a.jsonl").write_text('{"author": "ann", "text": "I am here today"}\n' * 3)
    return folder / "a.jsonl"


def _packed(folder: Path) -> Path:
    import gzip

    (folder / "a.csv.gz").write_bytes(gzip.compress(_csv(folder).read_bytes()))
    return folder / "a.csv.gz"


def _parquet(folder: Path) -> Path:
    pq.write_table(pa.table({"author": ["ann"], "text": ["I am here today"]}), folder / "a.parquet")
    return folder / "a.parquet"


def _model(folder: Path) -> Path:
    return Attributor("ngrams", QUICK).fit(*corpus(2, 3)).save(folder / "model")


def _case(folder: Path) -> Path:
    case = Case.new(folder / "case", "Who?", population="people", features="ngrams")
    case.add(Corpus.from_texts(texts_by(0, 2)), "known", path=None, author="Ann")
    return folder / "case"


def _recipe(folder: Path) -> Path:
    (folder / "a.toml").write_text("[data]\n")
    return folder / "a.toml"


READ: dict[str, tuple[Callable[[Path], Path], Callable[[Path], object]]] = {
    "a folder of texts": (_texts, load),
    "CSV": (_csv, load),
    "JSON lines": (_json_lines, load),
    "a packed table": (_packed, load),
    "Parquet": (_parquet, load),
    "a model": (_model, Attributor.load),
    "a case": (_case, lambda path: Case.open(path).corpus("known")),
    "settings": (_recipe, read_toml),
}


@pytest.mark.parametrize("kind", READ)
def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(kind: str, tmp_path: Path) -> None:
    make, read = READ[kind]
    path = make(tmp_path)
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    whole = {file: file.read_bytes() for file in files}

    def work() -> None:
        signal.alarm(LONGEST)
        try:
            read(path)
        except (InputError, OSError):
            os._exit(2)

    def all_become_pipes() -> None:
        for file in files:
            file.unlink()
            os.mkfifo(file)

    read(path)  # what is loaded at the first time
    status, told = forked_told(work)
    assert status == 0
    statuses = []
    for at in told[1:]:
        statuses.append(forked_told(work, at=at, happens=all_become_pipes)[0])
        for file, data in whole.items():
            file.unlink()
            file.write_bytes(data)
    assert 2 in statuses
    assert set(statuses) <= {0, 2}


# -- what is hashed is what is read --------------------------------------------------------------


def _other_weights(path: Path) -> None:
    """A sound file of weights that reads otherwise."""
    extractor = read_extractor(PRETRAINED)
    with torch.no_grad():
        for value in extractor.network.parameters():
            value.mul_(0.9)
    write_extractor(path, extractor)


def test_weights_exchanged_under_an_open_model_are_refused(tmp_path: Path) -> None:
    """Another answer under the same id is what must not come."""
    texts, authors = corpus(2, 3)
    folder = Attributor(AdHominem(), QUICK).fit(texts, authors).save(tmp_path / "model")
    asked = texts_by(0, 1, seed=9)
    answer = Attributor.load(folder).attribute(asked)[0]

    late = Attributor.load(folder)
    other = tmp_path / "other.safetensors"
    _other_weights(other)
    mine = FittedAdHominem(other, 4000)
    assert not np.allclose(mine.transform(asked), AdHominem().transform(asked), atol=1e-3)
    os.replace(other, folder / WEIGHTS)
    assert late.attribute(asked)[0] == answer  # the weights that were read are the model's
    reading._opened.cache_clear()
    with pytest.raises(InputError, match=f"{WEIGHTS}' is missing or is not what was saved"):
        late.attribute(asked)
    with pytest.raises(InputError, match=f"{WEIGHTS}' is missing or is not what was saved"):
        Attributor.load(folder)


def test_weights_that_were_read_answer_when_the_folder_is_gone(tmp_path: Path) -> None:
    texts, authors = corpus(2, 3)
    folder = Attributor(AdHominem(), QUICK).fit(texts, authors).save(tmp_path / "model")
    asked, model = texts_by(0, 1, seed=9), Attributor.load(folder)
    before = model.attribute(asked)[0].to_json()
    _other_weights(folder / WEIGHTS)
    assert model.attribute(asked)[0].to_json() == before
    for file in folder.iterdir():
        file.unlink()
    assert model.attribute(asked)[0].to_json() == before


def test_weights_exchanged_while_a_model_is_made_are_refused(tmp_path: Path) -> None:
    mine = tmp_path / "mine.safetensors"
    mine.write_bytes(PRETRAINED.read_bytes())
    fitted = Attributor(AdHominem(mine), QUICK).fit(*corpus(2, 3))
    _other_weights(mine)
    with pytest.raises(InputError, match="was changed while the model was made"):
        fitted.save(tmp_path / "model")
    assert sorted(os.listdir(tmp_path)) == ["mine.safetensors"]


def test_an_exhibit_has_the_hash_of_the_bytes_that_are_read(tmp_path: Path) -> None:
    folder = _case(tmp_path)
    exhibit = Case.open(folder).exhibits[0]
    path, whole = folder / exhibit.file, (folder / exhibit.file).read_bytes()

    def work() -> None:
        try:
            text = Case.open(folder).corpus("known").texts[0]
        except InputError:
            os._exit(2)
        assert hashlib.sha256(text.encode()).hexdigest() == exhibit.sha256

    _, told = forked_told(work)
    statuses = set()
    for at in range(1, told[0] + 1):
        happens = lambda: path.write_bytes(b"I never wrote this.")  # noqa: E731
        statuses.add(forked_told(work, at=at, happens=happens)[0])
        path.write_bytes(whole)
    assert statuses == {0, 2}  # once it is read, it may change


def test_a_registered_text_is_that_of_the_registered_source(tmp_path: Path) -> None:
    letter, versions = tmp_path / "letter.txt", texts_by(0, 2)
    right = {
        hashlib.sha256(load_text(tmp_path, text).encode()).hexdigest(): hashlib.sha256(
            text.encode()
        ).hexdigest()
        for text in versions
    }

    def work() -> None:
        letter.write_text(versions[0])
        try:
            texts = read_unchanged(letter, load)
        except InputError:
            os._exit(2)
        case = Case.new(tmp_path / "case", "Who?", population="people", features="ngrams")
        (added,) = case.add(texts, "known", path=letter, author="Ann").exhibits
        assert right[added.sha256] == added.source_sha256

    _, told = forked_told(work)
    statuses = []
    for at in range(1, told[0] + 1):
        subprocess.run(["rm", "-rf", str(tmp_path / "case")], check=True)
        happens = lambda: letter.write_text(versions[1])  # noqa: E731
        statuses.append(forked_told(work, at=at, happens=happens)[0])
    assert set(statuses) == {0, 2}


def load_text(folder: Path, text: str) -> str:
    (folder / "a.txt").write_text(text)
    return load(folder / "a.txt").texts[0]


def test_findings_are_not_filed_for_texts_that_they_have_not_seen(tmp_path: Path) -> None:
    """Somebody adds a text while others compute."""
    folder = tmp_path / "case"
    case = Case.new(folder, "Who?", population="people", features="ngrams", closed=True)
    for author in range(2):
        known = Corpus.from_texts(texts_by(author, 4))
        case = case.add(known, "known", path=None, author=f"p{author}")
    case = case.add(Corpus.from_texts(texts_by(0, 1, seed=5)), "questioned", path=None)
    case.add(Corpus.from_texts(texts_by(1, 1, seed=6)), "questioned", path=None)
    with pytest.raises(InputError, match=r"texts were added .* meanwhile; run the command again"):
        case.write("findings", {"findings.json": "{}"})
    assert Case.open(folder).log.last("findings") is None
    assert weigh(Case.open(folder))["findings"]  # negative control


def test_findings_that_change_between_two_looks_are_refused(tmp_path: Path) -> None:
    case = Case.new(tmp_path / "case", "Who?", population="people", features="ngrams")
    case.write("findings", {"findings.json": "{}"})
    case = Case.open(tmp_path / "case")
    assert case.written("findings", "findings.json") == b"{}"
    (tmp_path / "case" / "findings.json").write_text('{"a": 1}')
    with pytest.raises(InputError, match="not as the log says"):
        case.written("findings", "findings.json")
    with pytest.raises(InputError, match="has no report yet"):
        replace(case).written("report", "report.html")
