"""Cases on the page: what is kept, what is refused, what a report may do in a browser."""

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from attribution.people import name, texts_by
from whowrote import Corpus
from whowrote.case import Case
from whowrote.case.dossier import write_report
from whowrote.case.findings import run
from whowrote.web.casework import CaseJob

HOSTILE = "<script>alert(1)</script>\u202e"


def mark(client: Any) -> str:
    found = re.search(r'name="csrf" value="(\w+)"', client.get("/case").text)
    assert found is not None
    return found[1]


def begun(client: Any, called: str = "the will", **more: str) -> Any:
    asked = {"question": f"Who wrote it? {HOSTILE}", "population": "nobody else", **more}
    return client.post("/case", data={"csrf": mark(client), "name": called, **asked})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed case that was run and reported."""
    folder = tmp_path_factory.mktemp("weighed") / "done"
    case = Case.new(folder, "Who?", population="none else", features="ngrams", closed=True)
    for author in range(2):
        known = Corpus.from_texts(texts_by(author, 4), [f"{name(author)} {HOSTILE}"] * 4)
        case = case.add(known, "known", path=None)
    case = case.add(Corpus.from_texts(texts_by(0, 1, seed=5)), "questioned", path=None)
    run(case)
    write_report(Case.open(folder))
    return folder


@pytest.fixture
def weighed(made: Path, tmp_path: Path) -> Path:
    """A copy of it, where the client's server finds it."""
    return Path(shutil.copytree(made, tmp_path / "cases" / "done"))


def test_a_case_begins_in_a_folder_of_its_own(client: Any, tmp_path: Path) -> None:
    answer = begun(client, "das Ärgernis", closed="yes")
    assert answer.headers["x-go-to"] == "/case/das%20%C3%84rgernis"
    case = Case.open(tmp_path / "cases" / "das Ärgernis")
    assert case.question.closed
    assert HOSTILE in case.question.question
    shown = client.get(answer.headers["x-go-to"]).text
    assert "&lt;script&gt;alert(1)" in shown
    assert "<script>alert" not in shown
    assert "\u202e" not in shown  # it would turn the sentence around it
    assert "is there already" in begun(client, "das Ärgernis").json()["detail"]


@pytest.mark.parametrize("called", ["../escape", "", ".hidden", "a/b", "x" * 61])
def test_a_name_is_one_folder(client: Any, tmp_path: Path, called: str) -> None:
    answer = begun(client, called)
    assert answer.status_code == 422
    assert "must begin with a letter" in answer.json()["detail"]
    assert not (tmp_path / "escape").exists()


def test_texts_are_registered_with_the_hash_of_their_file(client: Any, tmp_path: Path) -> None:
    begun(client)
    data = b"\xef\xbb\xbf" + texts_by(0, 1)[0].encode()
    files = {"files": ("../../etc/passwd.txt", data, "text/plain")}
    asked = {"csrf": mark(client), "role": "known", "author": "Ann", "source": "box 12"}
    assert client.post("/case/the will/add", data=asked, files=files).status_code == 200
    one = Case.open(tmp_path / "cases" / "the will").exhibits[0]
    assert (one.author, one.source, one.role) == ("Ann", "box 12", "known")
    assert one.source_sha256 == hashlib.sha256(data).hexdigest()
    again = client.post("/case/the will/add", data=asked, files=files)
    assert "cannot be evidence twice" in again.json()["detail"]


def test_what_is_missing_is_said_so(client: Any) -> None:
    begun(client)
    asked = {"csrf": mark(client), "role": "known", "text": texts_by(0, 1)[0]}
    assert "say who wrote it" in client.post("/case/the will/add", data=asked).json()["detail"]
    answer = client.post("/case/the will/run", data={"csrf": mark(client)})
    assert "needs one of each: add texts" in answer.json()["detail"]
    assert client.post("/case/the will/run", data={}).status_code == 403
    assert client.get("/case/nothing", headers={"accept": "text/html"}).status_code == 404
    assert client.get("/case/the will/report").status_code == 404


def test_only_one_hand_writes_the_log(client: Any) -> None:
    begun(client)
    job = CaseJob(name="the will", action="run", state="running")
    client.app.state.cases.processes.jobs[job.id] = job
    asked = {"csrf": mark(client), "role": "questioned", "text": "so it is"}
    answer = client.post("/case/the will/add", data=asked)
    assert "is being worked on" in answer.json()["detail"]
    job.state = "done"
    assert client.post("/case/the will/add", data=asked).status_code == 200


def test_a_report_shows_its_own_style_and_nothing_else(client: Any, weighed: Path) -> None:
    answer = client.get("/case/done/report")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "unsafe" not in policy
    assert "'sha256-" in policy
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    assert answer.text == (weighed / "report.html").read_text(encoding="utf-8")
    saved = client.get("/case/done/data")
    assert "attachment" in saved.headers["content-disposition"]
    assert saved.json()["findings"]


def test_changed_evidence_is_named_and_not_served(client: Any, weighed: Path) -> None:
    page = client.get("/case/done").text
    assert "What was found" in page
    assert "\u202e" not in page
    report = weighed / "report.html"
    report.write_bytes(report.read_bytes().replace(b"What was found", b"What was FOUND"))
    assert "bytes changed" in client.get("/case/done/report").json()["detail"]
    text = next((weighed / "texts").iterdir())
    text.write_bytes(text.read_bytes() + b"!")
    page = client.get("/case/done").text
    assert text.name in page
    assert "Validate and weigh" not in page
    log = weighed / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"new"', b'"nex"'))
    assert "the chain of hashes breaks" in client.get("/case/done").text
    assert "broken" in client.get("/case").text


def test_texts_that_came_after_the_findings_are_said_so(client: Any, weighed: Path) -> None:
    more = Corpus.from_texts(texts_by(1, 1, seed=9))
    Case.open(weighed).add(more, "questioned", path=None)
    assert "Texts were added after these findings" in client.get("/case/done").text
    assert "texts added since" in client.get("/case").text
    assert json.loads((weighed / "findings.json").read_text())["findings"][0]["text"] == "Q1"
