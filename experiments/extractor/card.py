"""Fill the model card from records, so that no number in it was typed by hand.

Between ``<!-- name -->`` and ``<!-- /name -->`` in docs/model_card.md stands what the records say:
the card inside the weights, the evaluation (evaluate.py --out), the ablations (ablations.py) and
the log of the training, which is drawn as well.

Command:  python experiments/extractor/card.py     (needs no GPU; seconds)
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whowrote.features.adhominem import PRETRAINED
from whowrote.features.reading import Extractor, read_extractor
from whowrote.files import write_text
from whowrote_experiments.page import MISSING, as_table, fill

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
History = Sequence[Mapping[str, Any]]
"""The evaluations of one run, in their order."""


def about(extractor: Extractor, size: int, runs: Sequence[History]) -> str:
    """What the weights are and where they come from."""
    card, shape = extractor.card, extractor.network.architecture
    parameters = sum(p.numel() for p in extractor.network.parameters())
    rows = [
        ["trained", str(card.get("date", "-"))],
        ["corpora", ", ".join(card["settings"]["corpora"])],
        ["training authors / texts", f"{card['authors']:,} / {card['documents']:,}"],
        ["steps / minutes on one GPU", _duration(runs)],
        ["best mean AUC on development authors", f"{card['best_development_auc']:.4f}"],
        ["parameters / file", f"{parameters / 1e6:.2f} M / {size / 1e6:.1f} MB"],
        [
            "words / characters / n-grams",
            f"{shape.n_words:,} / {shape.n_characters} / {shape.n_grams:,}",
        ],
        ["loss", card["settings"]["training"]["loss"]],
    ]
    return as_table(["", ""], rows)


def _duration(runs: Sequence[History]) -> str:
    parts = [f"{run[-1]['step']:,} / {run[-1]['seconds'] / 60:.1f}" for run in runs]
    return ", then ".join(parts) if parts else "-"


def short_texts(card: Mapping[str, Any]) -> str:
    """AUC by length."""
    by_tokens = card.get("auc_by_tokens")
    if not by_tokens:
        return MISSING
    lengths = sorted(by_tokens, key=int)
    return as_table(
        ["tokens a text", *lengths], [["AUC", *(f"{by_tokens[length]:.3f}" for length in lengths)]]
    )


def results(record: Mapping[str, Any] | None) -> str:
    """Attribution and verification."""
    if record is None:
        return MISSING
    blog30 = record["blog30"]
    spread = ", ".join(f"{error:.1%}" for error in blog30["folds"])
    lines = [
        f"Linear SVM (C = {blog30['C']:g}) on Blog-30, {blog30['texts']:,} texts by 30 bloggers, "
        f"5 folds: error **{blog30['error']:.1%}** ({spread}).",
        "",
    ]
    head = ["pairs of unseen authors", "AUC", "c@1", "F0.5u", "F1", "Brier"]
    keys = ("auc", "c_at_1", "f_05_u", "f1", "brier")
    rows = [
        [f"{name} ({figures['n']:,})", *(f"{figures[key]:.3f}" for key in keys)]
        for name, figures in record["verification"].items()
    ]
    return "\n".join([*lines, as_table(head, rows)])


def ablations(folder: Path) -> str:
    """The table of ablations.py."""
    from ablations import table

    return table(folder) if any(folder.glob("*.json")) else MISSING


def joined(runs: Sequence[History]) -> list[dict[str, Any]]:
    """All evaluations, the clock of a run going on where the one before it stopped.

    >>> [r["seconds"] for r in joined([[{"seconds": 5.0}], [{"seconds": 1.0}]])]
    [5.0, 6.0]
    """
    found: list[dict[str, Any]] = []
    for run in runs:
        before = found[-1]["seconds"] if found else 0.0
        found += [{**record, "seconds": before + record["seconds"]} for record in run]
    return found


def by_authors(folder: Path) -> list[tuple[int, Mapping[str, float]]]:
    """Training authors and the AUC of development authors in each domain, from the ablations."""
    records = [folder / f"{name}.json" for name in ("authors-1k", "authors-10k", "base")]
    read = [json.loads(path.read_text()) for path in records if path.is_file()]
    return sorted((record["authors"], record["development_auc"]) for record in read)


def _labelled(axes: Any, x: Sequence[float], y: Sequence[float], name: str) -> None:
    """A curve with its name at its end."""
    (line,) = axes.plot(x, y, marker=".")
    end = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "clip_on": False}
    axes.annotate(name, (x[-1], y[-1]), color=line.get_color(), **end)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw(
    runs: Sequence[History], authors: Sequence[tuple[int, Mapping[str, float]]], path: Path
) -> None:
    """AUC on development authors over the minutes of training and over authors; the loss."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.3), layout="constrained")
    FigureCanvasAgg(figure)
    over_time, loss, over_authors = figure.subplots(1, 3)
    history = joined(runs)
    minutes = [record["seconds"] / 60 for record in history]
    for name in history[-1]["auc"]:
        _labelled(over_time, minutes, [record["auc"][name] for record in history], name)
        if authors:
            counts = [count for count, _ in authors]
            _labelled(over_authors, counts, [areas[name] for _, areas in authors], name)
    over_time.set(xlabel="minutes of training", ylabel="AUC, development authors")
    loss.plot(minutes, [record["loss"] for record in history], marker=".", color="#22303c")
    loss.set(xlabel="minutes of training", ylabel="training loss")
    for axes in (over_time, loss):
        for run in runs[:-1]:
            axes.axvline(run[-1]["seconds"] / 60, color="#999999", linestyle=":")
    over_authors.set(
        xlabel="training authors (short runs of equal length)", ylabel="AUC, development authors"
    )
    over_authors.set_xscale("log")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def read_history(path: Path) -> list[dict[str, Any]]:
    """The evaluations of a run."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Read the records, fill the page, draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, default=PRETRAINED)
    parser.add_argument("--record", type=Path, default=HERE.parent / "results" / "extractor.json")
    parser.add_argument(
        "--ablations", type=Path, default=HERE.parent / "results" / "extractor_ablations"
    )
    parser.add_argument(
        "--history",
        type=Path,
        nargs="*",
        default=[HERE / "first_history.jsonl", HERE / "history.jsonl"],
        help="of every run, in their order",
    )
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "model_card.md")
    parser.add_argument("--figure", type=Path, default=ROOT / "docs" / "extractor_curves.png")
    given = parser.parse_args()
    extractor = read_extractor(given.weights)
    record = json.loads(given.record.read_text()) if given.record.is_file() else None
    runs = [read_history(path) for path in given.history if path.is_file()]
    sections = {
        "about": about(extractor, given.weights.stat().st_size, runs),
        "results": results(record),
        "short": short_texts(extractor.card),
        "ablations": ablations(given.ablations),
    }
    write_text(given.page, fill(given.page.read_text(encoding="utf-8"), sections))
    if runs:
        draw(runs, by_authors(given.ablations), given.figure)


if __name__ == "__main__":
    main()
