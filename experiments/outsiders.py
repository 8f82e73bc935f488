"""None of these: how many addresses of presidents who are not enrolled are refused.

Twelve presidents are enrolled as in ``whowrote demo``; every address of all others is asked about,
beside the held-out addresses of the twelve, on several splits. Nothing is chosen here.

Command:  python experiments/outsiders.py [--seeds 2]
Hardware: two cores, about a minute and a half a split.
Expect:   at a typicality of 2 %, three of four outsiders' addresses refused, and 0 or 1 of 25.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from whowrote import Attributor, __version__
from whowrote.demo import OUTSIDER, as_corpus, hold_out, read_addresses
from whowrote.files import write_text
from whowrote.metrics import auc

OUT = Path(__file__).parent / "results" / "outsiders.json"
LIMITS = (0.02, 0.05)


def trial(seed: int) -> dict[str, Any]:
    """One split: typicality of the best candidate for insiders and outsiders."""
    addresses = read_addresses()
    split = hold_out(addresses, presidents=12, outsider=OUTSIDER, seed=seed)
    model = Attributor(random_state=seed).fit(as_corpus(split.training))
    foreign = [address for address in addresses if address.author not in split.enrolled]
    asked = [*split.held_out, *foreign]
    typicality = np.array([found.typicality for found in model.attribute(as_corpus(asked))])
    inside = np.arange(len(asked)) < len(split.held_out)
    shown = np.array([address.author == OUTSIDER for address in asked])
    return {
        "seed": seed,
        "split": split.split_hash,
        "inside": int(inside.sum()),
        "outside": len(foreign),
        "presidents_outside": len({address.author for address in foreign}),
        "auc": auc(typicality, inside),
        "refused": {
            str(limit): {
                "inside": int((typicality[inside] < limit).sum()),
                "outside": int((typicality[~inside] < limit).sum()),
                OUTSIDER: int((typicality[shown] < limit).sum()),
            }
            for limit in LIMITS
        },
    }


def main() -> None:
    """Run and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    trials = [trial(seed) for seed in range(options.seeds)]
    record = {"version": __version__, "trials": trials}
    write_text(options.out, json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
