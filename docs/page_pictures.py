"""Pictures of every view of the page: light and dark, phone and desktop.

    a served model of twelve presidents -> a browser without a window -> docs/page/*.png

Command: ``python docs/page_pictures.py presidents.model`` (``whowrote serve --demo`` makes the
model, in ``whowrote-models``), about three minutes on one core; needs /usr/bin/chromium. All texts
are public addresses of presidents, or made up.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from whowrote import Corpus
from whowrote.case import Case
from whowrote.case.dossier import write_report
from whowrote.case.findings import run
from whowrote.demo import OUTSIDER, Trial, hold_out, read_addresses

OUT = Path(__file__).parent / "page"
CHROMIUM = "/usr/bin/chromium"
SIZES = {"desktop": (1280, 860), "phone": (360, 740)}
SCHEMES = ("light", "dark")
CASE, CANDIDATES, WORDS = "two addresses", 3, 700


def cut(text: str, words: int) -> str:
    """The first so many words."""
    return " ".join(text.split()[:words])


def make_case(folder: Path, trial: Trial) -> None:
    """Two held-out addresses among three presidents, weighed from n-grams."""
    names = trial.enrolled[-CANDIDATES:]
    case = Case.new(
        folder,
        "Which of three presidents held two addresses without a name?",
        population="the addresses are official, and only these three held office in those years",
        features="ngrams",
        closed=True,
    )
    known = [one for one in trial.training if one.author in names]
    asked = [one for one in trial.held_out if one.author in names][:2]
    texts = Corpus.from_texts(
        [cut(one.text, WORDS) for one in known],
        [one.author for one in known],
        ids=[f"{one.author}/{one.id}.txt" for one in known],
    )
    case = case.add(texts, "known", path=None)
    case = case.add(
        Corpus.from_texts([cut(one.text, WORDS) for one in asked], ids=["first.txt", "second.txt"]),
        "questioned",
        path=None,
    )
    run(case)
    write_report(Case.open(folder))


@contextmanager
def served(model: Path, place: Path) -> Iterator[str]:
    """The address of a server as a user starts it."""
    command = [sys.executable, "-m", "whowrote", "serve", str(model), "--port", "0"]
    command += ["--models", "models", "--cases", "cases"]
    server = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=place,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"},
    )
    assert server.stdout is not None
    yield server.stdout.readline().split()[1].rstrip("/")
    server.terminate()
    server.wait()


class Camera:
    """Takes one state of the page in every size and scheme; ``only`` some views where given."""

    def __init__(self, page: Any, only: list[str]) -> None:
        self.page, self.only = page, only

    def take(self, name: str, at: str | None = None) -> None:
        """With ``at`` at the top of the picture, where it is named."""
        if self.only and name not in self.only:
            return
        for size, (width, height) in SIZES.items():
            self.page.set_viewport_size({"width": width, "height": height})
            for scheme in SCHEMES:
                self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                self.page.evaluate(
                    "at => at ? document.querySelector(at).scrollIntoView({block: 'start'})"
                    " : window.scrollTo(0, 0)",
                    at,
                )
                self.page.wait_for_timeout(150)
                taken = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
                small = taken.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
                small.save(OUT / f"{name}-{size}-{scheme}.png", optimize=True)
        width, height = SIZES["desktop"]
        self.page.set_viewport_size({"width": width, "height": height})
        print(name, flush=True)


def ask(page: Any, camera: Camera, trial: Trial) -> None:
    """Ask, its answer, why, along."""
    page.goto("/")
    camera.take("ask")
    own = trial.held_out[5]
    page.fill("#text", cut(own.text, 1200))
    page.click("button:text-is('Ask')")
    page.wait_for_selector("article.answer", timeout=120_000)
    camera.take("answer", "article.answer")
    page.click("text=Why? Mark the text")
    page.wait_for_selector(".marked", timeout=240_000)
    camera.take("why", "section[aria-label='Why']")
    page.click("button:text-is('Along the text')")
    page.wait_for_selector(".along", timeout=240_000)
    camera.take("along", "section[aria-label='Along the text']")
    page.goto("/")
    page.fill("#text", cut(trial.foreign[0].text, 800))
    page.click("button:text-is('Ask')")
    page.wait_for_selector("article.answer", timeout=120_000)
    camera.take("none-of-these", "article.answer")


def compare(page: Any, camera: Camera, trial: Trial) -> None:
    """Known texts of one president beside another text."""
    own = [one for one in trial.training if one.author == trial.enrolled[2]][:5]
    other = next(one for one in trial.held_out if one.author == own[0].author)
    page.goto("/compare")
    page.set_input_files("#known_files-files", [_file(one.id, cut(one.text, 600)) for one in own])
    page.fill("#other", cut(other.text, 600))
    page.fill("#prior", "50")
    camera.take("compare")
    page.click("button:text-is('Compare')")
    page.wait_for_selector("article.answer", timeout=240_000)
    camera.take("comparison", "#compared")


def train(page: Any, camera: Camera, trial: Trial, place: Path) -> None:
    """The audit, and a training that is done."""
    for one in [one for one in trial.training if one.author in trial.enrolled[:3]]:
        file = place / "addresses" / one.author / f"{one.id}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(cut(one.text, WORDS), encoding="utf-8")
    page.goto("/train")
    page.set_input_files("#files-folder", str(place / "addresses"))
    page.click("text=Look through them first")
    page.wait_for_selector("#audit article")
    camera.take("train", "#audit")
    page.fill("#name", "three presidents")
    page.select_option("#features", "ngrams")
    page.click("text=Learn from them")
    page.wait_for_url("**/train/*")
    page.wait_for_selector(".state.done", timeout=240_000)
    camera.take("training")


def _file(name: str, text: str) -> dict[str, Any]:
    return {"name": f"{name}.txt", "mimeType": "text/plain", "buffer": text.encode()}


def main() -> None:
    """Serve, click, take pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="names of pictures; default: all")
    given = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    trial = hold_out(read_addresses(), presidents=12, outsider=OUTSIDER, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make_case(place / "cases" / CASE, trial)
        with served(given.model.resolve(), place) as address, sync_playwright() as play:
            flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
            browser = play.chromium.launch(executable_path=CHROMIUM, args=flags)
            page = browser.new_context(base_url=address).new_page()
            camera = Camera(page, given.only)
            steps: dict[str, Callable[[], None]] = {
                "ask answer why along none-of-these": lambda: ask(page, camera, trial),
                "compare comparison": lambda: compare(page, camera, trial),
                "train training": lambda: train(page, camera, trial, place),
                "cases case report": lambda: cases(page, camera),
                "card": lambda: card(page, camera),
            }
            for names, step in steps.items():
                if not given.only or set(names.split()) & set(given.only):
                    step()
            browser.close()


def cases(page: Any, camera: Camera) -> None:
    """The list, one case, its report."""
    page.goto("/case")
    camera.take("cases")
    page.click(f"text={CASE}")
    page.wait_for_selector("#found")
    camera.take("case")
    page.wait_for_load_state("networkidle")
    camera.take("report", "#report")


def card(page: Any, camera: Camera) -> None:
    """The model."""
    page.goto("/card")
    camera.take("card")


if __name__ == "__main__":
    main()
