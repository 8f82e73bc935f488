"""Put trained weights into the package, with a card that says how short texts fare.

The card gets the date and, for texts of 10 to 250 tokens, the AUC of pairs of development authors,
averaged over the corpora with enough long texts: the same texts, cut to so many tokens of their
middle. ``AdHominem`` quotes these when it warns of short texts. With ``--gain`` each dimension of
the LEV is centred and scaled to that deviation before its tanh, by development texts: weights
trained without ``lev_gain`` have a tanh that is nearly a sign, and give away accuracy. It changes
the last layer alone.

Command:  python experiments/extractor/package.py extractor.safetensors
          --corpus blogs=blogs_train.parquet --corpus mail=mail_train.parquet
          (StyleExtractor: --bits 8 --weight 0.7 --about experiments/extractor/style_card.toml
          --out src/whowrote/features/pretrained/style.safetensors; the weight is from
          tower_weight.py)
Hardware: two cores, about two minutes; ten for StyleExtractor.
"""

from __future__ import annotations

import argparse
import copy
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import torch
from evaluate import Texts, levs_of, named, read_material

from whowrote.features.adhominem import PRETRAINED
from whowrote.features.network import Network
from whowrote.features.reading import SECTION, Extractor, read_extractor, write_extractor
from whowrote.features.vocabulary import spans
from whowrote.metrics import auc, balanced_pairs, cosines

LENGTHS = (10, 20, 50, 100, 250)
PAIRS, FEWEST_PAIRS = 2000, 400
"""Pairs of a corpus; one with fewer long texts would bring noise, not knowledge."""
TEXTS_PER_CORPUS = 2000
NEARLY_LINEAR = 1e-3
"""What goes into a tanh is scaled by this, to be read off its other side."""
LARGEST = 60_000_000
"""Bytes of all packaged weights together."""


@torch.no_grad()
def standardised(extractor: Extractor, texts: Sequence[str], gain: float, device: str) -> Extractor:
    """The extractor with what goes into the tanh centred and scaled over these texts."""
    linear, network = (copy.deepcopy(extractor.network) for _ in range(2))
    for parameter in linear.lev.parameters():
        parameter *= NEARLY_LINEAR
    levs = levs_of(replace(extractor, network=linear), texts, device, SECTION)
    before = torch.from_numpy(levs).to(device) / NEARLY_LINEAR
    deviation, mean = torch.std_mean(before, dim=0)
    network.lev.weight *= gain / deviation[:, None]
    network.lev.bias.copy_((network.lev.bias - mean) * gain / deviation)
    return replace(extractor, network=network)


def weighed(extractor: Extractor, weight: float) -> Extractor:
    """The extractor with this weight of the second tower's numbers."""
    network = copy.deepcopy(extractor.network)
    if network.encoder is None:
        raise SystemExit("--weight is of the second tower, and these weights have none: leave it")
    shape = replace(network.architecture.encoder, weight=weight)
    network.architecture = replace(network.architecture, encoder=shape)
    network.encoder.shape = shape
    return replace(extractor, network=network)


@torch.no_grad()
def side_by_side(first: Extractor, seconds: Sequence[Extractor]) -> Extractor:
    """The first tower of one extractor beside the mean of the second towers of runs.

    The runs began in the same weights, so the mean of where they went is a tower again.
    """
    encoders = [one.network.encoder for one in seconds]
    if any(encoder is None for encoder in encoders):
        raise SystemExit("--second names weights without a second tower; train one with [encoder]")
    states = [encoder.state_dict() for encoder in encoders if encoder is not None]
    mean = {name: sum(state[name] for state in states) / len(states) for name in states[0]}
    shape = replace(seconds[0].network.architecture.encoder, alone=False)
    network = Network(replace(first.network.architecture, encoder=shape))
    network.load_state_dict(
        first.network.state_dict() | {f"encoder.{name}": value for name, value in mean.items()}
    )
    network.to(next(first.network.parameters()).device).requires_grad_(False)
    card = {**dict(first.card), "second": dict(seconds[0].card), "second_runs": len(seconds)}
    return replace(first, network=network, pieces=seconds[0].pieces, card=card)


def middle_tokens(text: str, count: int) -> str | None:
    """So many tokens from the middle, for beginnings are greetings; None if there are fewer.

    >>> middle_tokens("Call me Ishmael.", 2), middle_tokens("Call me", 3)
    ('me Ishmael', None)
    """
    found = spans(text)
    first = (len(found) - count) // 2
    return text[found[first].start : found[first + count - 1].end] if first >= 0 else None


def auc_by_tokens(extractor: Extractor, texts: Texts, device: str) -> list[float] | None:
    """AUC at each of the lengths, on the texts that are long enough for all; None if too few."""
    long = [i for i, text in enumerate(texts.texts) if middle_tokens(text, LENGTHS[-1]) is not None]
    authors = np.unique(texts.authors[long], return_inverse=True)[1]
    pairs = balanced_pairs(authors, PAIRS)
    if len(pairs.same) < FEWEST_PAIRS:
        return None
    found = []
    for count in LENGTHS:
        cut = [middle_tokens(texts.texts[i], count) or "" for i in long]
        levs = levs_of(extractor, cut, device, SECTION)
        found.append(auc(cosines(levs, pairs), pairs.same))
    return found


def measured(extractor: Extractor, domains: Sequence[Texts], device: str) -> dict[str, float]:
    """The mean over the corpora."""
    rows = [row for row in (auc_by_tokens(extractor, own, device) for own in domains) if row]
    if not rows:
        return {}
    means = np.mean(rows, axis=0)
    return {str(count): round(float(value), 3) for count, value in zip(LENGTHS, means, strict=True)}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("--corpus", action="append", default=[], help="name=path, as in training")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--date", default=date.today().isoformat(), help="of the training")
    parser.add_argument("--out", type=Path, default=PRETRAINED)
    parser.add_argument("--bits", type=int, default=16, help="8 for StyleExtractor")
    parser.add_argument("--gain", type=float, help="for a saturated LEV: 0.5")
    parser.add_argument("--about", type=Path, help="TOML: what else the card shall say")
    parser.add_argument("--weight", type=float, help="of the second tower, by tower_weight.py")
    parser.add_argument("--second", type=Path, nargs="*", help="runs of the second tower alone")
    options = parser.parse_args()
    extractor = read_extractor(options.weights, options.device)
    if options.second:
        seconds = [read_extractor(path, options.device) for path in options.second]
        extractor = side_by_side(extractor, seconds)
    material = read_material(None, named(options.corpus), {})
    development = [texts for (_, side), texts in material.domains.items() if side == 1]
    about = tomllib.loads(options.about.read_text(encoding="utf-8")) if options.about else {}
    card = {**extractor.card, **about, "date": options.date}
    if options.gain:
        some = [text for texts in development for text in texts.texts[:TEXTS_PER_CORPUS]]
        extractor = standardised(extractor, some, options.gain, options.device)
        card["lev_gain_after_training"] = options.gain
    if options.weight:
        extractor = weighed(extractor, options.weight)
        card["second_tower_weight"] = options.weight
    if development:
        card["auc_by_tokens"] = measured(extractor, development, options.device)
    write_extractor(options.out, replace(extractor, card=card), bits=options.bits)
    size = options.out.stat().st_size
    print(f"{options.out}: {size / 1e6:.1f} MB, {card.get('auc_by_tokens')}")
    size = sum(file.stat().st_size for file in options.out.parent.glob("*.safetensors"))
    if size > LARGEST:
        raise SystemExit(f"{size / 1e6:.1f} MB are over the {LARGEST / 1e6:.0f} MB of a package")


if __name__ == "__main__":
    main()
