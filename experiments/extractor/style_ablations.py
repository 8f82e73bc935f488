"""What each part of StyleExtractor is worth: one short training per variant, equal in steps.

The variants stand in style_ablations.toml. Each is evaluated as in ablations.py: the error of a
linear SVM on some texts of Blog-30 and the AUC of pairs of unseen test authors. A variant whose
record is there is not trained again, so the command may be ended and repeated at will.

Command:  python experiments/extractor/style_ablations.py --steps 200 --authors 512 --at-once 2
          --texts TEXTS --every 1 (TEXTS as thin.py unpacks them; --only both,first runs some;
          --prepare only reads the corpora; --table prints what there is)
Hardware: one H200 with 16 cores, about half a minute a variant.
Expect:   experiments/results/extractor_style/*.json and the table in docs/model_card.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

from ablations import DOMAINS, merged, run_variant
from evaluate import Material, Read, read_material, read_texts, thinned

from whowrote.features.extractor.driver import load_for
from whowrote.features.extractor.preparation import read_table
from whowrote.features.extractor.recipe import Config, parse_config
from whowrote.features.extractor.run import Processes
from whowrote.features.reading import Extractor, read_extractor
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


@dataclass(frozen=True)
class Plan:
    """What all variants share: where the texts are, how long and on how many authors to train."""

    texts: Path
    work: Path
    out: Path
    steps: int
    authors: int
    device: str | None = None


def config_of(variant: Mapping[str, Any], name: str, plan: Plan) -> Config:
    """The run of a variant."""
    base = tomllib.loads((HERE / "style.toml").read_text(encoding="utf-8"))
    texts = plan.texts.resolve()
    shared = {
        "out": str((plan.work / name).resolve()),
        "cache": str((plan.work / "cache").resolve()),
        "pieces": str(texts / "vocab.txt"),
        "start_encoder": str(texts / "start.safetensors"),
        "corpora": {domain: str(texts / f"{domain}.jsonl") for domain in DOMAINS},
        "batch": {"authors": plan.authors},
        "training": {
            "max_minutes": None,
            "steps": plan.steps,
            "evaluate_every": plan.steps,
            "warm_up": plan.steps // 4,
            "checkpoint_minutes": 60,
        },
    }
    if (first := texts / "adhominem.safetensors").is_file():
        shared["start"] = str(first)
    return parse_config(changed(merged(base, shared), variant), HERE)


def table(variants: Mapping[str, Any], folder: Path) -> str:
    """All records as one Markdown table."""
    head = ["variant", "Blog-30 thinned, error", *(f"AUC {name}" for name in DOMAINS), "steps"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, variant in variants.items():
        path = folder / f"{name}.json"
        if path.is_file():
            record = json.loads(path.read_text(encoding="utf-8"))
            areas = [f"{record['verification'][d]['auc']:.3f}" for d in DOMAINS]
            row = [variant["meaning"], f"{record['blog30']['error']:.1%}", *areas]
            lines.append("| " + " | ".join([*row, str(record["steps"])]) + " |")
    return "\n".join(lines)


def read_once(plan: Plan, every: int, most: int) -> tuple[Material, Read]:
    """What all variants are evaluated on, by the tables that they share."""
    corpora = {name: plan.texts / f"{name}.jsonl" for name in DOMAINS}
    material = thinned(read_material(plan.texts / "blog30.jsonl", corpora, {}), every, most)
    config = config_of({}, "both", plan)
    assert config.start is not None
    assert config.pieces is not None
    load_for(config, Processes())
    before = read_extractor(config.start)
    tables = Extractor(
        before.network, before.vocabulary, ngrams=before.ngrams, pieces=read_table(config.pieces)
    )
    return material, read_texts(tables, material.texts())


def run_one(name: str, config: Config, plan: Plan, material: Material, read: Read) -> float:
    """Train and evaluate; the record is written, the checkpoint has done its work."""
    began = perf_counter()
    record = run_variant(name, config, material, plan.device, read)
    write_text(plan.out / f"{name}.json", json.dumps(record, indent=1) + "\n")
    shutil.rmtree(config.out)
    return perf_counter() - began


def run_missing(
    variants: Mapping[str, Any], missing: Sequence[str], plan: Plan, given: argparse.Namespace
) -> None:
    """Some variants at a time; none is begun when the minutes are over."""
    began = perf_counter()
    material, read = read_once(plan, given.every, given.most)
    print(f"corpora read, {perf_counter() - began:.0f} s", flush=True)
    waiting = [] if given.prepare else list(missing)
    with ProcessPoolExecutor(given.at_once, mp_context=get_context("spawn")) as pool:
        running = {}
        while waiting or running:
            while waiting and len(running) < given.at_once:
                name = waiting.pop(0)
                if perf_counter() - began > 60 * given.minutes:
                    print(f"{name}: no time left", flush=True)
                    continue
                config = config_of(variants[name], name, plan)
                running[pool.submit(run_one, name, config, plan, material, read)] = name
            done = next(as_completed(running), None)
            if done is not None:
                name, failed = running.pop(done), done.exception()
                said = f"failed ({failed!r})" if failed else f"{done.result():.0f} s"
                print(f"{name}: {said}, {perf_counter() - began:.0f} s in all", flush=True)


def main() -> None:
    """Run what is missing while there is time, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--authors", type=int, default=1024, help="of a batch")
    parser.add_argument("--at-once", type=int, default=1, help="variants that train at a time")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no variant after so many")
    parser.add_argument("--only", help="variants, separated by commas")
    parser.add_argument("--texts", type=Path, default=Path("scratch/extractor/texts"))
    parser.add_argument("--every", type=int, default=4, help="every so many-th text of Blog-30")
    parser.add_argument("--most", type=int, default=1500, help="texts of each side of a domain")
    parser.add_argument("--work", type=Path, default=Path("scratch/extractor/style_ablations"))
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "extractor_style")
    parser.add_argument("--device")
    parser.add_argument("--prepare", action="store_true", help="only read the corpora")
    parser.add_argument("--table", action="store_true", help="only print what there is")
    given = parser.parse_args()
    variants = tomllib.loads((HERE / "style_ablations.toml").read_text(encoding="utf-8"))
    asked = given.only.split(",") if given.only else list(variants)
    if unknown := sorted(set(asked) - set(variants)):
        raise SystemExit(f"--only names {unknown}; the variants are {list(variants)}")
    missing = [name for name in asked if not (given.out / f"{name}.json").is_file()]
    plan = Plan(given.texts, given.work, given.out, given.steps, given.authors, given.device)
    if missing and not given.table:
        run_missing(variants, missing, plan, given)
    print(table(variants, given.out))


if __name__ == "__main__":
    main()
