"""Fill the model card from records, so that no number in it was typed by hand.

Between ``<!-- name -->`` and ``<!-- /name -->`` in docs/model_card.md stands what the records say:
the card inside the weights, the evaluation (evaluate.py --out), the ablations (ablations.py) and
the log of the training, which is drawn as well.

Command:  python experiments/extractor/card.py     (needs no GPU; seconds)
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whowrote.atomic import write_text
from whowrote.features.adhominem import PRETRAINED
from whowrote.features.weights import Extractor, read_extractor

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MISSING = "*Not measured yet.*"


def fill(page: str, sections: Mapping[str, str]) -> str:
    r"""Replace what stands between the marks of each section.

    >>> fill("<!-- a -->old<!-- /a -->", {"a": "new"})
    '<!-- a -->\nnew\n<!-- /a -->'
    """
    for name, text in sections.items():
        marks = re.compile(rf"(<!-- {name} -->).*?(<!-- /{name} -->)", re.DOTALL)
        if not marks.search(page):
            raise SystemExit(f"the page has no section between <!-- {name} --> and its end")
        page = marks.sub(lambda found, text=text: f"{found[1]}\n{text}\n{found[2]}", page)
    return page


def as_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def about(extractor: Extractor, size: int) -> str:
    """What the weights are and where they come from."""
    card, shape = extractor.card, extractor.network.architecture
    parameters = sum(p.numel() for p in extractor.network.parameters())
    rows = [
        ["trained", str(card.get("date", "-"))],
        ["corpora", ", ".join(card["settings"]["corpora"])],
        ["training authors / texts", f"{card['authors']:,} / {card['documents']:,}"],
        ["steps / minutes on one GPU", f"{card['step']:,} / {card['minutes']:g}"],
        ["best mean AUC on development authors", f"{card['best_development_auc']:.4f}"],
        ["parameters / file", f"{parameters / 1e6:.2f} M / {size / 1e6:.1f} MB"],
        ["words / characters", f"{shape.n_words:,} / {shape.n_characters}"],
        ["loss", card["settings"]["training"]["loss"]],
    ]
    return as_table(["", ""], rows)


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


def draw(history: Sequence[Mapping[str, Any]], path: Path) -> None:
    """AUC on development authors, and the loss, over the minutes of training."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    minutes = [record["seconds"] / 60 for record in history]
    for name in history[-1]["auc"]:
        left.plot(minutes, [record["auc"][name] for record in history], marker=".", label=name)
    left.set(xlabel="minutes of training", ylabel="AUC, development authors")
    left.legend(frameon=False)
    right.plot(minutes, [record["loss"] for record in history], marker=".", color="#22303c")
    right.set(xlabel="minutes of training", ylabel="training loss")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main() -> None:
    """Read the records, fill the page, draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, default=PRETRAINED)
    parser.add_argument("--record", type=Path, default=HERE.parent / "results" / "extractor.json")
    parser.add_argument(
        "--ablations", type=Path, default=HERE.parent / "results" / "extractor_ablations"
    )
    parser.add_argument("--history", type=Path, default=HERE / "history.jsonl")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "model_card.md")
    parser.add_argument("--figure", type=Path, default=ROOT / "docs" / "extractor_curves.png")
    given = parser.parse_args()
    extractor = read_extractor(given.weights)
    record = json.loads(given.record.read_text()) if given.record.is_file() else None
    sections = {
        "about": about(extractor, given.weights.stat().st_size),
        "results": results(record),
        "short": short_texts(extractor.card),
        "ablations": ablations(given.ablations),
    }
    write_text(given.page, fill(given.page.read_text(encoding="utf-8"), sections))
    if given.history.is_file():
        lines = given.history.read_text(encoding="utf-8").splitlines()
        draw([json.loads(line) for line in lines], given.figure)


if __name__ == "__main__":
    main()
