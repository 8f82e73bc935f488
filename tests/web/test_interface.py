"""The interface for programs: answers, batches, limits in sentences, no text in what is told."""

import asyncio
import io
import logging
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, settings

from attribution.people import strangers, texts_by
from loading import loaded
from whowrote.attribution.jobs import open_model
from whowrote.errors import InputError
from whowrote.web.engine import Engine, Shelf, at_rate, ratio_of
from whowrote.web.limits import Access, Limits, RefusalError, access_for
from whowrote.web.server import create_app

TEXT = texts_by(2, 1, seed=3)[0]
LONG = texts_by(2, 1, words=900, seed=3)[0]


def small(folder: Path, **limits: Any) -> TestClient:
    app = create_app(folder, limits=Limits(**limits))
    return TestClient(app, base_url="http://127.0.0.1")


# -- answers -------------------------------------------------------------------------------------


def test_the_answer_is_that_of_the_model(client: TestClient, folder: Path) -> None:
    told = client.post("/attribute", json={"text": TEXT}).json()
    own = open_model(folder).attribute([TEXT])[0]
    assert told["author"] == own.author == "Person 2"
    assert told["sha256"] == own.sha256
    assert [one["author"] for one in told["ranking"]] == [one.author for one in own.ranking]
    assert told["ranking"][0]["probability"] == pytest.approx(own.best.probability)
    assert told["ratio"]["propositions"][0] == "Person 2 wrote the text"


def test_a_batch_is_answered_in_its_order_and_a_stranger_gets_nobody(client: TestClient) -> None:
    texts = [texts_by(5, 1, seed=4)[0], strangers(1)[0], texts_by(1, 1, seed=4)[0]]
    answers = client.post("/attribute", json={"texts": texts}).json()["answers"]
    assert [one["author"] for one in answers] == ["Person 5", None, "Person 1"]


def test_another_rate_of_false_attributions_decides_anew(client: TestClient) -> None:
    asked = {"text": strangers(1)[0], "false_attributions": 1.0}
    told = client.post("/attribute", json=asked).json()
    assert told["false_attributions"] == 1.0
    limit, typicality = told["none_below"], told["typicality"]
    assert (told["author"] is not None) == (typicality >= limit)


def test_the_ratio_is_no_larger_than_held_out_texts_support(folder: Path) -> None:
    model = open_model(folder)
    answer = model.attribute([LONG])[0]
    ratio, limited = ratio_of(model, answer)
    assert limited
    assert 10**ratio == pytest.approx(1 + model.calibration.held_out.texts)
    weak = model.attribute(strangers(1))[0]
    assert ratio_of(model, weak)[0] < ratio


def test_explanations_windows_and_comparisons(client: TestClient) -> None:
    why = client.post("/explain", json={"text": TEXT, "draws": 4}).json()
    assert why["best"] == "Person 2"
    assert len(why["checks"]) == 3
    rolled = client.post("/roll", json={"text": LONG, "window": 300, "step": 150}).json()
    assert rolled["words"] == len(LONG.split())
    pair = {"first": [TEXT, LONG], "second": texts_by(3, 1, seed=9)[0], "prior": 0.5}
    told = client.post("/verify", json=pair).json()
    assert told["propositions"] == [
        "one person wrote both",
        "two different people of the population wrote them",
    ]
    assert 0 < told["probability"] < 1
    both = client.post("/verify", json={"pairs": [pair, {"first": TEXT, "second": LONG}]}).json()
    assert both["answers"][0]["log10_lr"] == told["log10_lr"]
    assert both["answers"][1]["probability"] is None


def test_style_vectors_are_those_of_the_extractor(client: TestClient) -> None:
    from whowrote.attribution.verification import (
        packaged_extractor,
    )

    told = client.post("/embed", json={"texts": [TEXT, LONG]}).json()["answers"]
    own = packaged_extractor().transform([TEXT])[0]
    assert told[0]["vector"] == pytest.approx(own.tolist(), abs=1e-5)
    assert told[0]["vector"] != told[1]["vector"]


def test_model_health_and_metrics(client: TestClient, folder: Path) -> None:
    told = client.get("/model").json()
    assert told["path"] == "people.model"  # not where it lies
    assert len(told["authors"]) == 8
    assert client.get("/health").json() == {"status": "ok", "model": told["id"]}
    client.post("/attribute", json={"text": TEXT})
    lines = client.get("/metrics").text
    assert 'whowrote_requests_total{route="/attribute",status="200"} 1' in lines
    assert re.search(r"^whowrote_texts_total 1$", lines, re.MULTILINE)


# -- together ------------------------------------------------------------------------------------


def test_requests_of_several_clients_are_answered_together(folder: Path) -> None:
    texts = [texts_by(author, 1, seed=6)[0] for author in range(8)] * 4

    async def ask(at_once: int) -> tuple[list[str | None], int]:
        engine = Engine(Limits(at_once=at_once), folder)
        await engine.start()
        answers = await asyncio.gather(*(engine.attribute([text], ["x"]) for text in texts))
        await engine.stop()
        return [one[0].author for one in answers], engine.counts.batches

    together, batches = asyncio.run(ask(64))
    alone, one_by_one = asyncio.run(ask(1))
    assert together == alone
    assert batches <= 2
    assert one_by_one == len(texts)


def test_a_text_that_cannot_be_answered_spoils_no_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask() -> list[Any]:
        engine = Engine(Limits(), folder)
        real = engine._attributed

        def fails(texts: list[str]) -> Any:
            if "bad" in texts:
                raise InputError("bad is bad")
            return real(texts)

        monkeypatch.setattr(engine, "_attributed", fails)
        await engine.start()
        both = [engine.attribute([text], ["x"]) for text in (TEXT, "bad", TEXT)]
        found = await asyncio.gather(*both, return_exceptions=True)
        await engine.stop()
        return found

    first, bad, last = asyncio.run(ask())
    assert first[0].author == last[0].author == "Person 2"
    assert isinstance(bad, InputError)


# -- limits, each with its sentence ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "asked", "status", "words"),
    [
        ({"body_bytes": 500}, {"text": TEXT}, 413, "the request has 0.0 MB and the limit"),
        ({"text_characters": 100}, {"text": TEXT}, 413, "characters and the limit is 100"),
        ({"texts": 1}, {"texts": [TEXT, TEXT]}, 413, "2 texts and the limit is 1"),
        ({}, {"text": " ... "}, 422, "text 1 has no word"),
        ({}, {"texts": []}, 422, "there is no text"),
        ({}, {"text": TEXT, "texts": [TEXT]}, 422, "give text or texts"),
        ({}, {"text": TEXT, "false_attributions": 2}, 422, "false_attributions"),
        ({"waiting_texts": 1}, {"texts": [TEXT, TEXT]}, 503, "1 texts already wait"),
        ({"seconds": 0.0}, {"text": TEXT}, 503, "no answer within 0 seconds"),
        ({"per_client": 0}, {"text": TEXT}, 429, "more than 0 requests of yours"),
    ],
)
def test_what_is_too_much_is_refused_in_a_sentence(
    folder: Path, limits: dict[str, Any], asked: dict[str, Any], status: int, words: str
) -> None:
    with small(folder, **limits) as client:
        answer = client.post("/attribute", json=asked)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]
    assert TEXT[:30] not in answer.text


def test_a_body_of_unknown_length_is_counted(folder: Path) -> None:
    def parts() -> Any:
        yield b'{"text": "'
        for _ in range(100):
            yield b"word " * 20
        yield b'"}'

    with small(folder, body_bytes=2_000) as client:
        head = {"content-type": "application/json"}
        answer = client.post("/attribute", content=parts(), headers=head)
    assert answer.status_code == 413


def test_long_work_waits_its_turn_up_to_a_limit(folder: Path) -> None:
    with small(folder, waiting_tasks=0) as client:
        answer = client.post("/explain", json={"text": TEXT})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"


def test_without_a_model_it_says_what_to_do() -> None:
    with TestClient(create_app(), base_url="http://127.0.0.1") as client:
        answer = client.post("/attribute", json={"text": TEXT})
        assert answer.status_code == 503
        assert "whowrote serve MODEL" in answer.json()["detail"]
        assert "Train one" in client.get("/").text
        told = client.post("/verify", json={"first": TEXT, "second": LONG})
        assert told.status_code == 200  # nobody need be enrolled


# -- who may ask ---------------------------------------------------------------------------------


def test_beyond_this_machine_a_token_is_demanded(folder: Path) -> None:
    access = access_for("192.0.2.1", None)
    assert access.token is not None
    app = create_app(folder, access=access)
    with TestClient(app, base_url="http://192.0.2.1") as client:
        assert client.get("/health").status_code == 200
        assert client.get("/").status_code == 401
        assert client.post("/attribute", json={"text": TEXT}).status_code == 401
        wrong = {"authorization": "Bearer nothing"}
        assert client.get("/model", headers=wrong).status_code == 401
        right = {"authorization": f"Bearer {access.token}"}
        assert client.get("/model", headers=right).status_code == 200
        assert client.get(f"/?token={access.token}").status_code == 200
        assert client.get("/compare").status_code == 200  # by the cookie
    assert access_for("127.0.0.1", None).token is None
    with pytest.raises(InputError, match="at least 16"):
        access_for("192.0.2.1", "short")


def test_a_foreign_host_or_site_is_refused(client: TestClient) -> None:
    assert client.get("/", headers={"host": "evil.example"}).status_code == 403
    foreign = {"origin": "http://evil.example"}
    assert client.post("/attribute", json={"text": TEXT}, headers=foreign).status_code == 403
    own = {"origin": "http://127.0.0.1"}
    assert client.post("/attribute", json={"text": TEXT}, headers=own).status_code == 200


def test_a_form_without_the_mark_of_our_page_is_refused(client: TestClient) -> None:
    page = client.get("/").text
    mark = re.search(r'name="csrf" value="(\w+)"', page)
    assert mark is not None
    assert client.post("/ask", data={"text": TEXT}).status_code == 403
    assert client.post("/ask", data={"text": TEXT, "csrf": "0" * 64}).status_code == 403
    answer = client.post("/ask", data={"text": TEXT, "csrf": mark[1]})
    assert answer.status_code == 200
    assert "Person 2" in answer.text
    client.cookies.clear()
    assert client.post("/ask", data={"text": TEXT, "csrf": mark[1]}).status_code == 403


def test_every_answer_has_the_headers_that_protect_a_reader(client: TestClient) -> None:
    for path in ("/", "/health", "/static/page.js", "/nowhere"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_pages_hold_no_script_and_no_style_of_their_own(client: TestClient) -> None:
    mark = re.search(r'name="csrf" value="(\w+)"', client.get("/").text)
    assert mark is not None
    pages = [client.get(path).text for path in ("/", "/compare", "/train", "/card")]
    asked = client.post("/ask", data={"text": LONG, "csrf": mark[1]}).text
    key = re.search(r'data-key="([\w-]+)"', asked)
    assert key is not None
    more = [
        client.post(f"/ask/{key[1]}/{what}", data={"csrf": mark[1]}) for what in ("explain", "roll")
    ]
    assert [one.status_code for one in more] == [200, 200]
    for html in [*pages, asked, *(one.text for one in more)]:
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?! src=)|https?://", html)


# -- nothing is kept -----------------------------------------------------------------------------


def test_texts_are_neither_on_disk_nor_in_logs(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_file(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("a temporary file was made")

    mark = re.search(r'name="csrf" value="(\w+)"', client.get("/").text)
    assert mark is not None
    monkeypatch.setattr(tempfile, "TemporaryFile", no_file)
    with (
        tempfile.SpooledTemporaryFile(max_size=10) as rolled,
        pytest.raises(AssertionError, match="temporary file"),
    ):
        rolled.write(
            b"more than ten bytes"
        )  # the control: this is how an upload would land on disk
    large = ("secretword " + TEXT + "\n") * 4_000
    assert len(large) > 2_000_000
    with caplog.at_level(logging.DEBUG):
        files = {"files": ("big.txt", io.BytesIO(large.encode()), "text/plain")}
        answer = client.post("/ask", data={"csrf": mark[1]}, files=files)
        client.post("/attribute", json={"text": "secretword " + TEXT, "nonsense": 1})
    assert answer.status_code == 200, answer.text[:300]
    assert "secretword" not in caplog.text


def test_a_shelf_forgets() -> None:
    shelf: Shelf[str] = Shelf(2, 60.0)
    keys = [shelf.put(text) for text in "abc"]
    assert shelf.get(keys[2]) == "c"
    with pytest.raises(RefusalError, match="no longer in memory"):
        shelf.get(keys[0])
    old: Shelf[str] = Shelf(2, -1.0)
    with pytest.raises(RefusalError):
        old.get(old.put("a"))


def test_a_decision_at_another_rate_needs_a_rate(folder: Path) -> None:
    answer = open_model(folder).attribute([TEXT])[0]
    with pytest.raises(InputError, match="above 0 and at most 1"):
        at_rate(answer, 0.0)
    assert answer.stranger is not None
    assert at_rate(answer, answer.stranger).author == "Person 2"
    assert at_rate(answer, answer.stranger * 0.9).author is None


# -- the description -----------------------------------------------------------------------------

DESCRIBED = schemathesis.openapi.from_asgi("/openapi.json", create_app(access=Access(hosts=("*",))))


@DESCRIBED.parametrize()
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_nothing_described_breaks_the_server(case: schemathesis.Case, described: Any) -> None:
    answer = case.call(app=described)
    assert answer.status_code < 500 or answer.status_code == 503, answer.text
    if answer.status_code == 503:
        assert "detail" in answer.json()


@pytest.fixture(scope="module")
def described(folder: Path) -> Any:
    app = create_app(folder, access=Access(hosts=("*",)))
    with TestClient(app):
        yield app


def test_help_needs_no_server() -> None:
    assert loaded(("fastapi", "uvicorn", "torch"), "serve", "--help") == []


def test_a_server_starts_without_what_learns_or_draws() -> None:
    seen = "print([one for one in ('sklearn', 'matplotlib') if one in sys.modules]); "
    server = "import sys; from whowrote.web.server import create_app; create_app(); "
    code = server + seen + "import sklearn; " + seen  # the control: it would be seen
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[]", "['sklearn']"], done.stderr
