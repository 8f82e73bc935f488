"""Fill the part of the model card on StyleExtractor from records: no number was typed by hand.

The sections of docs/model_card.md whose names begin with ``style-`` say what the card inside the
weights, tower_weight.py, the log of the training, measure.py and speed.py say.

Command:  python experiments/extractor/style_card.py     (needs no GPU; seconds)
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from card import History, about, read_history, short_texts

from whowrote.features.adhominem import PRETRAINED_STYLE
from whowrote.features.reading import Extractor, read_extractor
from whowrote.files import write_text
from whowrote_experiments.page import MISSING, as_table, fill

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SIZES = ("AdHominem", "small", "large")
PAN = {
    "pan13-mixed": "PAN 2013 (30 problems)",
    "pan14-essays": "PAN 2014, essays",
    "pan14-novels": "PAN 2014, novels",
    "pan15-mixed": "PAN 2015",
}
Record = Mapping[str, Any]


def style_about(extractor: Extractor, size: int, history: History) -> str:
    """What the weights are and where they come from."""
    card, shape = extractor.card, extractor.network.architecture.encoder
    rows = [
        ["started from", card["start"]],
        ["weights of step", f"{card['best_step']:,}"],
        ["second tower", f"{shape.layers} layers, {shape.n_pieces:,} word pieces"],
        ["its weight in the vector", f"{shape.weight:g}"],
        *([f"data: {name}", text] for name, text in card["data"].items()),
        *([f"licence: {name}", text] for name, text in card["licences"].items()),
    ]
    return "\n".join([about(extractor, size, [history]), *as_table([], rows).split("\n")[2:]])


def towers(record: Record) -> str:
    """AUC of development authors by the weight of the second tower, and what did not pay."""
    names = ["mean", *record["texts"]]

    def row(label: str, found: Mapping[str, float]) -> list[str]:
        return [label, *(f"{found[name]:.4f}" for name in names)]

    rows = [row(name, record[name]) for name in ("AdHominem", "first tower", "second tower")]
    rows += [row(f"both, weight {w}", r) for w, r in record["by weight"].items() if float(w)]
    for alpha, found in record["towards the start"].items():
        weight = max(found, key=lambda w: found[w]["mean"])
        rows.append(row(f"both, second at {alpha} from its start, weight {weight}", found[weight]))
    errors = record["linear SVM"]
    domains = list(errors["AdHominem"])
    lines = [[name, *(f"{own[d]:.1%}" for d in domains)] for name, own in errors.items()]
    svm = as_table(["linear SVM, error", *domains], lines)
    return f"{as_table(['AUC by cosine', *names], rows)}\n\n{svm}"


def curve(history: History) -> str:
    """The evaluations of the run on development authors."""
    names = list(history[-1]["auc"])
    rows = [
        [
            f"{r['step']:,}",
            f"{np.mean(list(r['auc'].values())):.4f}",
            *(f"{r['auc'][name]:.4f}" for name in names),
            f"{r['loss']:.2f}",
        ]
        for r in history
    ]
    return as_table(["step", "mean AUC", *names, "training loss"], rows)


def results(record: Record | None) -> str:
    """Attribution and verification, beside AdHominem and what needs no network."""
    if record is None:
        return MISSING
    found = record["extractors"]
    every = record["blog30_every"]
    part = "" if every == 1 else f", every {every}th text"
    errors = [f"{np.mean(found[size]['blog30_folds']):.1%}" for size in SIZES]
    head = ["on authors never seen", *SIZES, "wanted of large", "character 4-grams", "winner"]
    rows = [[f"Blog-30{part}, linear SVM, error", *errors, "15.0%", "-", "-"]]
    wanted = record["targets"]
    for name, pairs in found["large"]["pairs"].items():
        values = [f"{found[size]['auc'][name]:.3f}" for size in SIZES]
        target = f"{wanted['auc'][name]:.3f}"
        rows.append([f"{name}, AUC ({pairs:,} pairs)", *values, target, "-", "-"])
    for task in found["large"]["pan"]:
        values = [f"{found[size]['pan'][task]:.3f}" for size in SIZES]
        target, winner = (
            f"{own[task]:.2f}" if task in own else "-"
            for own in (wanted["pan"], record["pan_winners"])
        )
        grams = f"{record['pan_four_grams'][task]:.3f}"
        rows.append([f"{PAN.get(task, task)}, AUC", *values, target, grams, winner])
    return as_table(head, rows)


def few(record: Record | None) -> str:
    """The errors of [n-grams, vector] by texts an author; the gain is at equal weights."""
    if record is None or "few_texts" not in record:
        return MISSING
    rows = []
    for size, errors in record["few_texts"].items():
        mean = {name: float(np.mean(own)) for name, own in errors.items()}
        gain = 1 - mean["large, 0.7"] / mean["AdHominem, 0.7"]
        rows.append([size, *(f"{value:.1%}" for value in mean.values()), f"{gain:.1%}"])
    names = next(iter(record["few_texts"].values()))
    return as_table(["texts an author", *names, "large below AdHominem at 0.7 by"], rows)


def beside(record: Record) -> str:
    """Mean errors of [n-grams, vector] on development authors, by the weight of the vector."""
    mean = record["mean"]
    weights = list(dict.fromkeys(name.split(", ")[1] for name in mean if ", " in name))
    rows = [[size, *(f"{mean[f'{size}, {weight}']:.1%}" for weight in weights)] for size in SIZES]
    alone = f"n-grams alone: {mean['n-grams']:.1%}"
    return as_table([alone, *(f"weight {weight}" for weight in weights)], rows)


def speed(record: Record) -> str:
    """Texts a second of one core, in one process and in turns."""
    middle = record["median"]
    own = middle["AdHominem"]
    rows = [[name, f"{rate:.0f}", f"{rate / own:.2f}"] for name, rate in middle.items()]
    return as_table(["", "texts a second of a core", "to AdHominem"], rows)


def sections(results_folder: Path, weights: Path = PRETRAINED_STYLE) -> dict[str, str]:
    """All of them."""

    def read(name: str) -> Any:
        path = results_folder / f"{name}.json"
        return json.loads(path.read_text()) if path.is_file() else None

    extractor, history = read_extractor(weights), read_history(HERE / "style_history.jsonl")
    measured = read("extractor_style")
    return {
        "style-about": style_about(extractor, weights.stat().st_size, history),
        "style-towers": towers(read("extractor_towers")),
        "style-history": curve(history),
        "style-results": results(measured),
        "style-hybrid": beside(read("extractor_hybrid")),
        "style-few": few(measured),
        "style-short": short_texts(extractor.card),
        "style-speed": speed(read("extractor_speed")),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the records and fill the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=HERE.parent / "results")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "model_card.md")
    given = parser.parse_args(arguments)
    page = given.page.read_text(encoding="utf-8")
    write_text(given.page, fill(page, sections(given.results)))


if __name__ == "__main__":
    main()
