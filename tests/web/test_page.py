"""The page as a person uses it, in a browser without a window."""

import io
import re
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attribution.people import strangers, texts_by

CHROMIUM = Path("/usr/bin/chromium")
AXE = Path(__file__).parent / "node" / "axe.min.js"
SIZES = {"phone": (360, 740), "desktop": (1280, 800), "wall": (3840, 2160)}
HOSTILE = "<script>document.title='gone'</script> &lt;b&gt; <img src=x onerror=alert(1)> 😀 שלום "

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="needs /usr/bin/chromium")
sync_api = pytest.importorskip("playwright.sync_api")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as play:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        made = play.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        yield made
        made.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page whose console must stay silent and which may ask nobody but our server."""
    context = browser.new_context(base_url=address, reduced_motion="reduce")
    context.set_default_timeout(120_000)  # other work may share the machine
    made = context.new_page()
    said: list[str] = []
    made.on("console", lambda message: said.append(message.text))
    made.on("pageerror", lambda problem: said.append(str(problem)))
    made.on("request", lambda one: one.url.startswith(address) or said.append(one.url))
    yield made
    context.close()
    refused = "Failed to load resource"  # how a browser tells of a refusal that the page shows
    assert [line for line in said if refused not in line] == []


def ask(page: Any, text: str) -> Any:
    page.goto("/")
    page.fill("#text", text)
    page.click("button:text-is('Ask')")
    page.wait_for_selector("article.answer")
    return page.locator("article.answer").first


def made_cases(page: Any) -> list[str]:
    """The addresses of cases that are there."""
    page.goto("/case")
    links: list[str] = page.eval_on_selector_all(
        ".jobs a", "every => every.map(one => one.getAttribute('href'))"
    )
    return links


def folder_of(path: Path, authors: int = 3, count: int = 6) -> Path:
    for author in range(authors):
        own = path / f"Person {author}"
        own.mkdir(parents=True)
        for number, text in enumerate(texts_by(author, count)):
            (own / f"{number}.txt").write_text(text, encoding="utf-8")
    return path


def archive_of(folder: Path) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for file in sorted(folder.rglob("*.txt")):
            archive.write(file, file.relative_to(folder.parent))
    return made.getvalue()


def test_paste_and_read_the_ranking_and_why(page: Any) -> None:
    answer = ask(page, texts_by(2, 1, words=1100, seed=3)[0])
    assert answer.locator(".who").inner_text() == "Person 2"
    assert answer.locator(".ranking tbody tr").first.inner_text().split("\t")[0] == "Person 2"
    assert "for the proposition that Person 2 wrote it" in answer.inner_text()
    assert "one of the other 7 enrolled authors wrote it" in answer.inner_text()
    page.click("text=Why? Mark the text")
    page.wait_for_selector(".marked mark")
    assert page.locator(".check").inner_text().startswith("The marks ")
    for kind in ("sentences", "ngrams", "words"):
        page.locator(f"label[for^='{kind}-']").click()
        shown = page.locator(".marked:visible")
        assert shown.count() == 1
        assert shown.get_attribute("data-marks") == kind
        assert shown.locator("mark").count() > 3
    page.click("button:text-is('Along the text')")
    page.wait_for_selector(".along polygon")
    assert "windows of 400" in page.locator("section[aria-label='Along the text']").inner_text()


def test_the_slider_decides_and_says_what_it_costs(page: Any) -> None:
    answer = ask(page, strangers(1)[0])
    assert answer.locator(".who").inner_text() == "None of these"
    page.locator("#rate").press("End")
    assert page.locator("#rate-out").inner_text() == "100%"
    assert "Somebody is always named" in page.locator("#cost").inner_text()
    page.locator("#rate").press("Home")
    assert page.locator("#rate-out").inner_text() == "0.1%"
    assert re.search(r"That costs \d+(\.\d)?% of the enrolled", page.locator("#cost").inner_text())
    answer = ask(page, texts_by(4, 1, words=900, seed=3)[0])
    assert answer.locator(".who").inner_text() == "Person 4"
    before = answer.bounding_box()["height"]
    stranger = float(answer.get_attribute("data-stranger"))
    page.locator("#rate").press("Home")
    named = stranger <= 0.001
    assert (answer.locator(".who").inner_text() == "Person 4") == named
    assert answer.bounding_box()["height"] == before  # nothing jumps


def test_drop_a_folder_with_the_mouse(page: Any) -> None:
    page.goto("/")
    texts = {f"letters/{n}.txt": texts_by(n, 1, seed=8)[0] for n in range(3)}
    transfer = page.evaluate_handle(
        """files => { const made = new DataTransfer();
        for (const [name, text] of Object.entries(files)) made.items.add(new File([text], name));
        return made; }""",
        texts,
    )
    page.dispatch_event("[data-drop='files']", "drop", {"dataTransfer": transfer})
    page.wait_for_selector(".files li >> nth=2")
    page.click("button:text-is('Ask')")
    page.wait_for_selector("article.answer >> nth=2")
    named = page.locator("article.answer .who").all_inner_texts()
    assert named == ["Person 0", "Person 1", "Person 2"]


def test_choose_a_folder_train_watch_reload_and_open(page: Any, tmp_path: Path) -> None:
    page.goto("/train")
    page.set_input_files("#files-folder", str(folder_of(tmp_path / "letters")))
    page.wait_for_selector(".files li")
    page.click("text=Look through them first")
    page.wait_for_selector("text=18 texts by 3 authors")
    assert "fewer than" in page.locator(".findings").inner_text()
    page.fill("#name", "three people")
    page.select_option("#features", "ngrams")
    page.click("text=Learn from them")
    page.wait_for_url("**/train/*")
    page.reload()  # in the middle
    page.wait_for_selector(".state.done", timeout=60_000)
    assert "Held out," in page.locator(".training").inner_text()
    assert "Cross-validated in" in page.locator(".training").inner_text()
    page.click("text=Open this model")
    page.wait_for_url("**/card")
    assert page.locator("h1").inner_text() == "The model three people"
    assert "3 authors" in page.locator(".lead").inner_text()
    page.locator(".jobs li:not(:has-text('three'))").get_by_text("Open").click()
    page.wait_for_selector("h1:text-is('The model people')")


def test_train_from_an_archive_and_cancel(page: Any, tmp_path: Path) -> None:
    data = archive_of(folder_of(tmp_path / "letters", authors=8, count=40))
    page.goto("/train")
    file = {"name": "letters.zip", "mimeType": "application/zip", "buffer": data}
    page.set_input_files("#files-files", file)
    page.click("text=Look through them first")
    page.wait_for_selector("text=320 texts by 8 authors")
    page.fill("#name", "never done")
    page.click("text=Learn from them")
    page.wait_for_url("**/train/*")
    page.wait_for_selector(".stages li, .state.running")
    began = time.monotonic()
    page.click("button:text-is('Cancel')")
    page.wait_for_selector(".state.cancelled")
    assert time.monotonic() - began < 10
    page.goto("/card")
    assert "never done" not in page.locator("main").inner_text()
    page.goto("/train")
    assert "cancelled" in page.locator(".jobs").inner_text()


def test_a_thing_that_cannot_be_learnt_says_why(page: Any) -> None:
    page.goto("/train")
    page.set_input_files(
        "#files-files", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"One text."}
    )
    page.click("text=Look through them first")
    page.wait_for_selector(".warning")
    assert "needs at least 2" in page.locator(".warning").first.inner_text()
    assert page.locator("#name").count() == 0


def test_compare_two_and_a_writers_range(page: Any) -> None:
    page.goto("/compare")
    page.click("button:text-is('Compare')")
    page.wait_for_selector(".problem:visible")
    assert "first side is empty" in page.locator(".problem").inner_text()
    known = [
        {"name": f"{n}.txt", "mimeType": "text/plain", "buffer": text.encode()}
        for n, text in enumerate(texts_by(1, 4, seed=5))
    ]
    page.set_input_files("#known_files-files", known)
    page.fill("#other", texts_by(1, 1, seed=6)[0])
    page.fill("#prior", "50")
    page.click("button:text-is('Compare')")
    page.wait_for_selector("article.answer")
    told = page.locator("#compared").inner_text()
    assert "one person wrote both" in told
    assert "population" in told
    assert "with 50% beforehand" in told
    assert page.locator(".strip .own").count() == 4


def test_the_report_is_taken_home_and_stands_alone(page: Any, tmp_path: Path) -> None:
    ask(page, texts_by(3, 1, seed=3)[0])
    page.click("text=Why? Mark the text")
    page.wait_for_selector(".marked")
    with page.expect_download() as waiting:
        page.click("text=Download the report")
    path = tmp_path / "report.html"
    waiting.value.save_as(path)
    assert waiting.value.suggested_filename == "pasted text report.html"
    other = page.context.new_page()
    other.goto(path.as_uri())
    told = other.locator("body").inner_text()
    assert "Who wrote pasted text?" in told
    assert "not a verdict" in told
    assert "The marked text" in told
    other.close()


def test_hostile_texts_and_names_are_shown_as_text(page: Any) -> None:
    page.goto("/")
    name = "<b onclick=1>&amp;‮txt.exe😀.txt"
    text = HOSTILE + texts_by(0, 1)[0]
    file = {"name": name, "mimeType": "text/plain", "buffer": text.encode()}
    page.set_input_files("#files-files", file)
    assert "<b onclick=1>&amp;" in page.locator(".files").inner_text()
    page.click("button:text-is('Ask')")
    page.wait_for_selector("article.answer")
    assert "<b onclick=1>&amp;" in page.locator(".doc").inner_text()
    page.click("text=Why? Mark the text")
    page.wait_for_selector(".marked")
    assert "<script>document.title='gone'</script>" in page.locator(".marked").first.inner_text()
    assert "whowrote" in page.title()
    assert page.locator("article script, article img, article b[onclick]").count() == 0


def test_a_megabyte_is_answered_and_nothing_breaks(page: Any) -> None:
    text = (texts_by(2, 1)[0] + "\n") * 2_400
    assert len(text) > 1_000_000
    page.goto("/")
    file = {"name": "long.txt", "mimeType": "text/plain", "buffer": text.encode()}
    page.set_input_files("#files-files", file)
    page.click("button:text-is('Ask')")
    page.wait_for_selector("article.answer", timeout=60_000)
    assert "An explanation needs 40 to 12,000 words" in page.locator("article").inner_text()


def test_the_map_is_pointed_at_and_chosen_by_keyboard(page: Any) -> None:
    ask(page, texts_by(2, 1, seed=3)[0])
    place = page.locator(".map .place[data-name='Person 2']")
    place.focus()
    assert page.locator(".pointed").inner_text() == "Person 2"
    place.press("Enter")
    assert place.get_attribute("aria-pressed") == "true"
    assert page.locator(".dot.chosen").count() == 8
    assert page.locator("tr.chosen").inner_text().startswith("Person 2")


def test_a_training_that_is_not_there_is_a_page_with_a_sentence(page: Any) -> None:
    page.goto("/train/nothing")
    assert "There is no such training here" in page.locator(".problem").inner_text()


def test_a_case_from_the_question_to_the_replay(page: Any, tmp_path: Path) -> None:
    page.goto("/case")
    assert "No case yet" in page.locator("main").inner_text()
    page.fill("#question", f"Who wrote it? {HOSTILE}")
    page.fill("#population", "nobody else had the key")
    page.check("input[name='closed'][value='yes']")
    page.fill("#name", "the will")
    page.select_option("#features", "ngrams")
    page.click("button:text-is('Begin')")
    page.wait_for_url("**/case/the%20will")
    assert HOSTILE.strip() in page.locator("h1").inner_text()
    assert page.locator("input[value='reference']").count() == 0  # a closed case takes none
    page.set_input_files("#files-folder", str(folder_of(tmp_path / "letters", 3, 5)))
    page.check("input[name='role'][value='known']")
    page.click("button:text-is('Register')")
    page.wait_for_selector("text=15 texts known")
    page.fill("#text", texts_by(1, 1, seed=5)[0] + HOSTILE)
    page.fill("#source", "bank, box 12")
    page.click("button:text-is('Register')")
    page.wait_for_selector("text=1 text questioned")
    page.click("button:text-is('Validate and weigh')")
    page.wait_for_selector(".stages li, .state.running")
    page.reload()  # in the middle
    page.wait_for_selector("#report", timeout=120_000)
    ratios = page.locator("[aria-label='Likelihood ratios'] tbody tr").all_inner_texts()
    largest = [row for row in ratios if "Person 1" in row]
    assert len(ratios) == 3
    assert "support for the proposition that Person 1 wrote the questioned text" in largest[0]
    framed = page.frame_locator("iframe.framed")
    assert "What was not found" in framed.locator("body").inner_text()
    assert framed.locator("script, body > img").count() == 0
    drawn = framed.locator("figure img").first.evaluate("one => one.naturalWidth")
    assert drawn > 100
    styled = framed.locator("main").evaluate("one => getComputedStyle(one).maxWidth")
    assert styled != "none"  # its own style, known by its hash, and no other
    page.click("button:text-is('Replay')")
    page.wait_for_selector("#replay ~ .check", timeout=120_000)
    assert page.locator(".check").inner_text().startswith("Equal")
    page.locator("#log ~ details summary").click()
    assert "findings" in page.locator("[aria-label='Log']").inner_text()
    taken_home(page, tmp_path / "report.html")
    page.goto("/case")
    assert "weighed" in page.locator(".jobs").inner_text()


def taken_home(page: Any, path: Path) -> None:
    """The report that the page gives away is the one in the folder."""
    page.goto("/case/the%20will")
    with page.expect_download() as waiting:
        page.click("text=Download the report")
    waiting.value.save_as(path)
    assert waiting.value.suggested_filename == "the will report.html"
    assert "Comparison of style: report of a case" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("size", SIZES)
def test_no_view_is_wider_than_its_screen(page: Any, size: str) -> None:
    width, height = SIZES[size]
    page.set_viewport_size({"width": width, "height": height})
    ask(page, texts_by(2, 1, words=1100, seed=3)[0])
    page.click("text=Why? Mark the text")
    page.wait_for_selector(".marked")
    over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(over) == 0
    for path in ("/compare", "/case", *made_cases(page), "/train", "/card"):
        page.goto(path)
        assert page.evaluate(over) == 0


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not beside the tests: see docs/page.md")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_a_serious_barrier(page: Any, scheme: str) -> None:
    script = AXE.read_text(encoding="utf-8")

    def barriers() -> list[str]:
        session = page.context.new_cdp_session(page)  # past the policy that forbids foreign scripts
        session.send("Runtime.evaluate", {"expression": script})
        found = page.evaluate("() => axe.run()")["violations"]
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:120]}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]

    page.emulate_media(color_scheme=scheme)
    ask(page, texts_by(2, 1, words=1100, seed=3)[0])
    page.click("text=Why? Mark the text")
    page.wait_for_selector(".marked")
    page.click("button:text-is('Along the text')")
    page.wait_for_selector(".along polygon")
    assert barriers() == []
    for path in ("/compare", "/case", *made_cases(page), "/train", "/card"):
        page.goto(path)
        assert barriers() == []
    page.evaluate(
        "document.querySelector('textarea, h1').insertAdjacentHTML('afterend', '<img src=data:,>')"
    )
    assert barriers() != []  # the control
