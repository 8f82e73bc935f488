"""What each part of the extractor is worth: one short training per variant, one table.

Every variant but the first is the shipped configuration without n-grams and with some entries
changed, trained from scratch for as many steps on the same computer, and evaluated like the shipped
weights, on fewer texts: the error of a linear SVM on every fourth text of Blog-30 (C = 0.1) and the
AUC of pairs of unseen test authors in each domain. A variant whose record is there is not trained
again; one that was interrupted resumes from its checkpoint.

Command:  python experiments/extractor/ablations.py DATA --steps 500
          (DATA holds blogs_train.parquet, hotels_train.parquet, mail_train.parquet,
          forum_train.parquet and blog30.parquet; without an installation: PYTHONPATH=src)
          --only pairs,base runs some; --table prints what there is
Hardware: one H200 with 16 cores; about two minutes a variant, several at a time if you like.
Expect:   experiments/results/extractor_ablations/*.json and the table in docs/model_card.md.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from evaluate import Material, Read, evaluate, read_material, thinned

from whowrote import __version__
from whowrote.checks import choose_device
from whowrote.features.extractor.driver import train
from whowrote.features.extractor.recipe import Config, parse_config
from whowrote.features.extractor.run import Evaluation
from whowrote.files import write_text

HERE = Path(__file__).parent
DOMAINS = ("blogs", "hotels", "mail", "forum")
SHARES = {"blogs": 0.45, "hotels": 0.35, "mail": 0.1, "forum": 0.1}


def authors(total: int) -> dict[str, Any]:
    """So many training authors, of the domains as often as these are drawn."""
    return {"max_authors": {name: round(total * share) for name, share in SHARES.items()}}


VARIANTS: dict[str, dict[str, Any]] = {
    "shipped": {"vocabulary": {"n_grams": [32768, 16384]}},
    "base": {},
    "pairs": {"training": {"loss": "pairs"}, "batch": {"authors": 1536, "views": 2}},
    "no-characters": {"network": {"characters": False}},
    "no-sentences": {"network": {"levels": 1}},
    "rare-words-spelled": {"vocabulary": {"mask_rare": False}},
    "blogs-only": {"corpora": {"hotels": None, "mail": None, "forum": None}, "mixture": None},
    "authors-1k": authors(1_000),
    "authors-10k": authors(10_000),
    "vocabulary-1k": {"vocabulary": {"n_words": 1_000}},
    "vocabulary-20k": {"vocabulary": {"n_words": 20_000}},
}
MEANING = {
    "shipped": "as shipped: the network below and the n-grams beside it",
    "base": "no n-grams; batch loss, four domains, all authors, 5,000 words, rare words by shape",
    "pairs": "the published pair loss",
    "no-characters": "without the character network",
    "no-sentences": "without the sentence level",
    "rare-words-spelled": "rare words by spelling (mask_rare off)",
    "blogs-only": "one domain",
    "authors-1k": "1,000 training authors",
    "authors-10k": "10,000 training authors",
    "vocabulary-1k": "1,000 words",
    "vocabulary-20k": "20,000 words",
}


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of ``change`` in the place of those of ``base``; None takes an entry away.

    >>> merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None}, "d": 4})
    {'a': {'c': 2}, 'd': 4}
    """
    values = dict(base)
    for name, value in change.items():
        if value is None:
            values.pop(name, None)
        elif isinstance(value, Mapping):
            values[name] = merged(values.get(name, {}), value)
        else:
            values[name] = value
    return values


def config_of(
    variant: str, data: Path, work: Path, minutes: float | None, steps: int | None, recipe: Path
) -> Config:
    """The shipped configuration with the entries of a variant changed."""
    base = tomllib.loads(recipe.read_text(encoding="utf-8"))
    shared = {
        "out": str((work / variant).resolve()),
        "cache": str((work / "cache").resolve()),
        "corpora": {name: str((data / f"{name}_train.parquet").resolve()) for name in DOMAINS},
        "training": {"max_minutes": minutes, "steps": steps},
        "vocabulary": {"n_grams": [0, 0]},
        "start": None,
    }
    return parse_config(merged(merged(base, shared), VARIANTS[variant]), Path())


def run_variant(
    variant: str,
    config: Config,
    material: Material,
    device: str | None,
    read: Read | None = None,
) -> dict[str, Any]:
    """Train and evaluate."""
    began = perf_counter()
    outcome = train(config, device=device, on_evaluation=_tell)
    trained = perf_counter() - began
    network = outcome.extractor.network
    figures = evaluate(outcome.extractor, material, str(choose_device(device)), read=read)
    return {
        "variant": variant,
        "version": __version__,
        "settings": config.settings(),
        "steps": outcome.step,
        "minutes": config.recipe.max_minutes,
        "parameters": sum(p.numel() for p in network.parameters()),
        "authors": outcome.extractor.card["authors"],
        "documents": outcome.extractor.card["documents"],
        "device": _device_name(device),
        "seconds": {"training": trained, "evaluation": perf_counter() - began - trained},
        **figures,
    }


def _tell(record: Evaluation) -> None:
    print(f"  step {record.step}: loss {record.loss:.3f}, AUC {record.mean_auc:.4f}", flush=True)


def _device_name(device: str | None) -> str:
    chosen = choose_device(device)
    return torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else "cpu"


def table(folder: Path) -> str:
    """All records as one Markdown table."""
    head = [
        "variant",
        "Blog-30 / 4, error",
        *(f"AUC {name}" for name in DOMAINS),
        "steps",
        "parameters",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for variant in VARIANTS:
        path = folder / f"{variant}.json"
        if path.is_file():
            lines.append("| " + " | ".join(_row(json.loads(path.read_text()))) + " |")
    return "\n".join(lines)


def _row(record: Mapping[str, Any]) -> list[str]:
    figures = record.get("verification", {})
    error = f"{record['blog30']['error']:.1%}" if "blog30" in record else "-"
    areas = [f"{figures[name]['auc']:.3f}" if name in figures else "-" for name in DOMAINS]
    sizes = [f"{record['steps']}", f"{record['parameters'] / 1e6:.2f} M"]
    return [MEANING[record["variant"]], error, *areas, *sizes]


def chosen_variants(only: str | None) -> Sequence[str]:
    """The variants asked for."""
    asked = only.split(",") if only else list(VARIANTS)
    unknown = sorted(set(asked) - set(VARIANTS))
    if unknown:
        raise SystemExit(f"--only names {unknown}; the variants are {list(VARIANTS)}")
    return asked


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of the corpora")
    parser.add_argument("--minutes", type=float, help="training time of each variant")
    parser.add_argument("--steps", type=int, help="or training steps")
    parser.add_argument("--only", help="variants, separated by commas")
    parser.add_argument("--config", type=Path, default=HERE / "shipped.toml")
    parser.add_argument("--work", type=Path, default=Path("scratch/extractor/ablations"))
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "extractor_ablations")
    parser.add_argument("--device")
    parser.add_argument(
        "--every", type=int, default=4, help="evaluate on every so many-th text of Blog-30"
    )
    parser.add_argument("--most", type=int, default=1500, help="and so many texts of each domain")
    parser.add_argument("--table", action="store_true", help="only print what there is")
    given = parser.parse_args()
    missing = [v for v in chosen_variants(given.only) if not (given.out / f"{v}.json").is_file()]
    if missing and not given.table:
        if given.minutes is None and given.steps is None:
            parser.error("give --minutes or --steps: all variants train equally long")
        run_missing(missing, given)
    print(table(given.out))


def run_missing(missing: Sequence[str], given: argparse.Namespace) -> None:
    """One variant after the other, each with its record."""
    corpora = {name: given.data / f"{name}_train.parquet" for name in DOMAINS}
    whole = read_material(given.data / "blog30.parquet", corpora, {})
    material = thinned(whole, given.every, given.most)
    for variant in missing:
        print(variant, flush=True)
        config = config_of(
            variant, given.data, given.work, given.minutes, given.steps, given.config
        )
        record = run_variant(variant, config, material, given.device)
        write_text(given.out / f"{variant}.json", json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
