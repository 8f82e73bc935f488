"""The executions of ``nasty.py``, guided by coverage: inputs that reach new code are kept.

Needs atheris, which is no dependency: ``pip install atheris`` into an environment of its own. The
first byte of an input chooses what it is fed to; beside the readers these are the manifest of a
model, a file of weights, the log of a case and settings. What is no ``InputError`` ends the run and
leaves its input behind.

Command:  PYTHONPATH=src:tests python -m corpus.guided -max_total_time=600 corpus_folder
Expect:   libFuzzer's lines; "Done N runs" at the end and status 0
"""

import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path


def main() -> None:
    """Feed until libFuzzer ends it."""
    import atheris  # here: whoever only looks through the tests does not need it

    with atheris.instrument_imports(include=["whowrote"]):
        from corpus.nasty import NASTY, Tries
        from whowrote.attribution.manifest import holds_model, read_manifest
        from whowrote.case.exhibits import problems
        from whowrote.errors import CorpusWarning, InputError
        from whowrote.files import read_model_file
        from whowrote.schema import read_toml

    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    tries = Tries(folder)

    def manifest(data: bytes) -> None:
        (folder / "manifest.json").write_bytes(data)
        holds_model(folder)
        read_manifest(folder)

    def weights(data: bytes) -> None:
        (folder / "a.safetensors").write_bytes(data)
        read_model_file(folder / "a.safetensors")

    def log(data: bytes) -> None:
        (folder / "log.jsonl").write_bytes(data)
        problems(folder)

    def settings(data: bytes) -> None:
        (folder / "a.toml").write_bytes(data)
        read_toml(folder / "a.toml")

    fed: list[Callable[[bytes], None]] = [*tries.shares, manifest, weights, log, settings]

    def one(data: bytes) -> None:
        if not data:
            return
        try:
            fed[data[0] % len(fed)](data[1:])
        except InputError as problem:
            str(problem).encode("utf-8", "backslashreplace")

    places = [Path(word) for word in sys.argv[1:] if not word.startswith("-")]
    for place in places[:1]:
        place.mkdir(exist_ok=True)
        for number, seed in enumerate(NASTY):
            for kind in range(len(fed)):
                (place / f"{number}-{kind}").write_bytes(bytes([kind]) + seed[:4000])
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", CorpusWarning)
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
