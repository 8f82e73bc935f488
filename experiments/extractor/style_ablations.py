"""What each part of StyleExtractor is worth: one short training per variant, equal in steps.

The variants stand in style_ablations.toml. Each is evaluated as in ablations.py: the error of a
linear SVM on every fourth text of Blog-30 and the AUC of pairs of unseen test authors. A variant
whose record is there is not trained again; one that was interrupted resumes from its checkpoint, so
the command may be ended and repeated at will.

Command:  python experiments/extractor/style_ablations.py --steps 300 --minutes 9
          (after pack.py unpack; --only both,first runs some; --table prints what there is)
Hardware: one H200 with 16 cores, about two minutes a variant.
Expect:   experiments/results/extractor_style/*.json and the table in docs/model_card.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from ablations import DOMAINS, merged, run_variant
from evaluate import Material, read_material, thinned

from whowrote.features.extractor.recipe import Config, parse_config
from whowrote.files import write_text

HERE = Path(__file__).parent


def changed(base: Mapping[str, Any], variant: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with the entries of a variant; those that it drops are gone.

    >>> changed({"a": {"b": 1, "c": 2}}, {"meaning": "", "drop": ["a.b"], "a": {"c": 3}})
    {'a': {'c': 3}}
    """
    changes = {name: value for name, value in variant.items() if name not in ("meaning", "drop")}
    values = merged(base, changes)
    for entry in variant.get("drop", []):
        section, _, name = entry.rpartition(".")
        values = merged(values, {section: {name: None}} if section else {name: None})
    return values


def config_of(name: str, variant: Mapping[str, Any], steps: int, work: Path) -> Config:
    """The run of a variant."""
    base = tomllib.loads((HERE / "style.toml").read_text(encoding="utf-8"))
    shared = {
        "out": str((work / name).resolve()),
        "training": {
            "max_minutes": None,
            "steps": steps,
            "evaluate_every": steps,
            "warm_up": steps // 4,
        },
    }
    return parse_config(changed(merged(base, shared), variant), HERE)


def table(variants: Mapping[str, Any], folder: Path) -> str:
    """All records as one Markdown table."""
    head = ["variant", "Blog-30 / 4, error", *(f"AUC {name}" for name in DOMAINS), "steps"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, variant in variants.items():
        path = folder / f"{name}.json"
        if path.is_file():
            record = json.loads(path.read_text(encoding="utf-8"))
            areas = [f"{record['verification'][d]['auc']:.3f}" for d in DOMAINS]
            row = [variant["meaning"], f"{record['blog30']['error']:.1%}", *areas]
            lines.append("| " + " | ".join([*row, str(record["steps"])]) + " |")
    return "\n".join(lines)


def read(texts: Path) -> Material:
    """What all variants are evaluated on."""
    corpora = {name: texts / f"{name}.jsonl" for name in DOMAINS}
    return thinned(read_material(texts / "blog30.jsonl", corpora, {}), 4, 1500)


def main() -> None:
    """Run what is missing while there is time, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no variant after so many")
    parser.add_argument("--only", help="variants, separated by commas")
    parser.add_argument("--texts", type=Path, default=Path("scratch/extractor/texts"))
    parser.add_argument("--work", type=Path, default=Path("scratch/extractor/style_ablations"))
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "extractor_style")
    parser.add_argument("--device")
    parser.add_argument("--table", action="store_true", help="only print what there is")
    given = parser.parse_args()
    variants = tomllib.loads((HERE / "style_ablations.toml").read_text(encoding="utf-8"))
    asked = given.only.split(",") if given.only else list(variants)
    if unknown := sorted(set(asked) - set(variants)):
        raise SystemExit(f"--only names {unknown}; the variants are {list(variants)}")
    missing = [name for name in asked if not (given.out / f"{name}.json").is_file()]
    material, began = read(given.texts) if missing and not given.table else None, perf_counter()
    for name in missing if material is not None else []:
        if perf_counter() - began > 60 * given.minutes:
            break
        config = config_of(name, variants[name], given.steps, given.work)
        print(name, flush=True)
        record = run_variant(name, config, material, given.device)
        write_text(given.out / f"{name}.json", json.dumps(record, indent=1) + "\n")
        shutil.rmtree(config.out)  # its checkpoint has done its work
    print(table(variants, given.out))


if __name__ == "__main__":
    main()
