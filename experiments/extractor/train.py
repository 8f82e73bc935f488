"""Train an extractor where nothing but Python and torch is sure to be there, and bring it home.

The same as ``whowrote extractor train``, without the packages of the command line. With ``--bring``
the best weights so far, in half precision and cut into files of at most 15 MB, and the log are
written to a folder after each call; ``--join`` puts such a folder together again. The state of the
optimiser stays where it is: the same command resumes to the step.

Command:  python experiments/extractor/train.py experiments/extractor/style.toml --minutes 8.5
          --bring OUT
          python experiments/extractor/train.py --join OUT --into style.safetensors [--bits 8]
Hardware: as the configuration says.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from time import perf_counter

from whowrote.features.extractor.driver import train
from whowrote.features.extractor.recipe import read_config
from whowrote.features.extractor.run import HISTORY, WEIGHTS, Evaluation, Step
from whowrote.features.reading import read_extractor, write_extractor
from whowrote.files import atomic_path, write_text

PIECE_BYTES = 15_000_000


def bring(out: Path, target: Path) -> None:
    """The weights in pieces, and the log."""
    target.mkdir(parents=True, exist_ok=True)
    data = (out / WEIGHTS).read_bytes()
    for number, low in enumerate(range(0, len(data), PIECE_BYTES)):
        (target / f"weights-{number}.bin").write_bytes(data[low : low + PIECE_BYTES])
    write_text(target / HISTORY, (out / HISTORY).read_text(encoding="utf-8"))


def join(folder: Path, target: Path, bits: int) -> None:
    """The weights of a folder that :func:`bring` filled; read and written, so they are whole."""
    pieces = sorted(folder.glob("weights-*.bin"), key=lambda path: int(path.stem.split("-")[1]))
    if not pieces:
        raise SystemExit(f"'{folder}' has no weights-0.bin; give the folder of --bring")
    with atomic_path(target) as draft:
        draft.write_bytes(b"".join(piece.read_bytes() for piece in pieces))
    write_extractor(target, read_extractor(target), bits=bits)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB")


def tell(record: Evaluation) -> None:
    """One line of JSON per evaluation."""
    print(json.dumps({**asdict(record), "mean_auc": record.mean_auc}), flush=True)


def main() -> None:
    """Train for some minutes, or join."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path, nargs="?")
    parser.add_argument("--minutes", type=float, help="leave after so many, ready to be resumed")
    parser.add_argument("--device")
    parser.add_argument("--bring", type=Path, help="folder for weights in pieces, and the log")
    parser.add_argument("--join", type=Path, help="such a folder")
    parser.add_argument("--into", type=Path, help="file for the joined weights")
    parser.add_argument("--bits", type=int, default=16)
    given = parser.parse_args()
    if given.join is not None:
        join(given.join, given.into, given.bits)
        return
    config, began = read_config(given.config), perf_counter()

    def show(step: Step) -> None:
        if step.step % 100 == 0:
            print(
                f"step {step.step} loss {step.loss:.3f} {step.documents_per_second:.0f}/s "
                f"{perf_counter() - began:.0f} s",
                flush=True,
            )

    outcome = train(
        config, device=given.device, minutes=given.minutes, on_step=show, on_evaluation=tell
    )
    if given.bring is not None:
        bring(config.out, given.bring)
    state = "finished" if outcome.finished else "interrupted; the same command resumes it"
    print(f"step {outcome.step}, {state}, {perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
