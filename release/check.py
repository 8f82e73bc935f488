"""The release, checked as others will meet it: built twice, installed into nothing, listed.

Both archives are built from the checkout and from a clean copy of its commit, and must be equal to
the byte: nothing that is not committed may get in. The wheel must be small
enough and hold the licences; it goes into an empty environment for every Python that is here, and
runs there without the repository (smoke.py). Every archive that was installed must have the SHA-256
of release/hashes.txt. What was installed is written as a bill of materials (CycloneDX), and
pip-audit compares it with known holes where it can reach its database.

Command:  make release-check       (after lint, tests and documentation: python release/check.py)
          python release/check.py installed REPORT   compares a report of `pip install --report`
          python release/check.py hashes REPORT      adds what a report tells to hashes.txt
Hardware: any; two cores take about five minutes, most of it to install torch
Expect:   a line for every step, and dist/ with both archives and whowrote.cdx.json
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

HOME = Path(__file__).resolve().parents[1]
DIST = HOME / "dist"
HASHES = HOME / "release" / "hashes.txt"
MOST_MB = 65
PYTHONS = ("3.11", "3.12", "3.13")
NEEDED = (
    "whowrote/features/pretrained/LICENSE-APACHE-2.0",
    "whowrote/features/pretrained/adhominem.safetensors",
)
UNWANTED = ("tests/", "docs/", "shared/", "experiments/", "benchmarks/")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        built = [
            build(HOME, Path(folder, "first")),
            build(clean(Path(folder)), Path(folder, "second")),
        ]
        equal(*built)
        (wheel,) = built[0].glob("*.whl")
        print(f"wheel: {contents(wheel)}")
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(built[0], DIST)
        for number in PYTHONS:
            print(smoke(number, DIST / wheel.name, Path(folder, number)), flush=True)
        print(audit(Path(folder, PYTHONS[0]), Path(folder, "audit")))


# -- what is installed has the hash that it had --------------------------------------------------


def archives(report: Path) -> dict[str, str]:
    """SHA-256 by the name of every archive that a report of pip tells of, our own left out."""
    found = json.loads(report.read_text(encoding="utf-8"))["install"]
    told = [one["download_info"] for one in found if one["metadata"]["name"] != "whowrote"]
    return {
        unquote(urlsplit(one["url"]).path.rsplit("/", 1)[-1]): one["archive_info"]["hashes"][
            "sha256"
        ]
        for one in told
        if "archive_info" in one
    }


def listed() -> dict[str, str]:
    """The same of the committed list, whose lines are those of sha256sum."""
    lines = HASHES.read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def compared(report: Path) -> str:
    """Whether every archive that is listed came as it was; how many are not listed."""
    known, found = listed(), archives(report)
    wrong = [name for name, digest in found.items() if known.get(name, digest) != digest]
    if wrong:
        raise SystemExit(
            f"{wrong[0]} has another SHA-256 than release/hashes.txt says: it is not the archive "
            "that was looked at; find out why before anything of it runs"
        )
    more = sorted(found.keys() - known.keys())
    unknown = f", {len(more)} not listed ({more[0]}, ...)" if more else ""
    return f"hashes: {len(found) - len(more)} archives as listed{unknown}"


def add_hashes(report: Path) -> str:
    """Add what a report tells; what is listed stays."""
    every = {**archives(report), **listed()}
    lines = [f"{every[name]}  {name}\n" for name in sorted(every, key=str.lower)]
    HASHES.write_text("".join(lines), encoding="utf-8")
    return f"release/hashes.txt: {len(lines)} archives"


def clean(folder: Path) -> Path:
    """What is committed, and nothing else, in a folder of its own."""
    copy = folder / "clean"
    copy.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=HOME, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", str(copy)], input=archive.stdout, check=True)
    return copy


def build(home: Path, out: Path) -> Path:
    """Both archives, dated as the last commit."""
    date = subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=HOME, text=True)
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    dated = {**os.environ, "SOURCE_DATE_EPOCH": date.strip()}
    subprocess.run(command, cwd=home, env=dated, check=True, capture_output=True)
    return out


def equal(first: Path, second: Path) -> None:
    """Both builds to the byte; anything else ends the check."""
    hashes = [
        {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(folder.iterdir())}
        for folder in (first, second)
    ]
    if hashes[0] != hashes[1] or len(hashes[0]) != 2:
        raise SystemExit(f"the builds differ (what of the checkout is not committed?): {hashes}")
    for name, digest in hashes[0].items():
        print(
            f"built twice, equal: {name} {digest[:16]} {(first / name).stat().st_size / 1e6:.1f} MB"
        )


def contents(wheel: Path) -> str:
    """What is in it and what must not be; the size in words."""
    megabytes = wheel.stat().st_size / 1e6
    names = zipfile.ZipFile(wheel).namelist()
    faults = [f"{name} is missing" for name in NEEDED if name not in names]
    faults += [f"{name} is in it" for name in names if name.startswith(UNWANTED)]
    faults += [f"{megabytes:.1f} MB are more than {MOST_MB}"] if megabytes > MOST_MB else []
    if faults:
        raise SystemExit(f"{wheel.name}: {'; '.join(faults)}")
    return f"{len(names)} files, {megabytes:.1f} MB of at most {MOST_MB}, licences inside"


def smoke(number: str, wheel: Path, folder: Path) -> str:
    """Install into an empty environment, run where no repository is; what came of it."""
    python = shutil.which(f"python{number}")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
        return f"Python {number}: not on this machine, not checked"
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    report, limits = folder / "report.json", str(HOME / "constraints.txt")
    told = ["--quiet", "--report", str(report)]
    pip(folder, "install", *told, "--constraint", limits, str(wheel))
    print(compared(report))
    empty = folder / "empty"
    empty.mkdir()
    apart = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(folder / "bin" / "python"), "-I", str(HOME / "release" / "smoke.py")]
    said = subprocess.run(
        command, cwd=empty, env=apart, check=True, text=True, stdout=subprocess.PIPE
    )
    (DIST / "whowrote.cdx.json").write_text(
        json.dumps(bill(folder), indent=1) + "\n", encoding="utf-8"
    )
    return said.stdout.strip().splitlines()[-1]


def pip(folder: Path, *arguments: str) -> str:
    """What pip of an environment prints."""
    command = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        *arguments,
    ]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def bill(folder: Path) -> dict[str, Any]:
    """What is installed, as CycloneDX writes it."""
    installed = json.loads(pip(folder, "inspect", "--local"))["installed"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "components": [component(one["metadata"]) for one in installed],
    }


def component(about: dict[str, Any]) -> dict[str, Any]:
    """One distribution, with its licence where it names one."""
    name, version = about["name"], about["version"]
    made = {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower()}@{version}",
    }
    licence = about.get("license_expression")
    return {**made, "licenses": [{"expression": licence}]} if licence else made


def audit(checked: Path, folder: Path) -> str:
    """Known holes in what was installed; where its database cannot be reached, that is said."""
    if not checked.is_dir():
        return "pip-audit: not run, for nothing was installed"
    frozen = folder.with_suffix(".txt")
    lines = [
        one for one in pip(checked, "freeze", "--exclude", "whowrote").splitlines() if "==" in one
    ]
    frozen.write_text("\n".join(line.split("+")[0] for line in lines), encoding="utf-8")
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip(folder, "install", "--quiet", "pip-audit")
        command = [
            str(folder / "bin" / "pip-audit"),
            "--no-deps",
            "--disable-pip",
            "-r",
            str(frozen),
        ]
        done = subprocess.run(command, text=True, capture_output=True, timeout=120, check=False)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as problem:
        return f"pip-audit: not run ({type(problem).__name__})"
    said = (done.stderr or done.stdout).strip().splitlines() or [""]
    if done.returncode and not done.stdout.strip():
        return f"pip-audit: not run ({said[-1][:120]})"
    if done.returncode:
        raise SystemExit(f"pip-audit found holes:\n{done.stdout}")
    return f"pip-audit: {said[-1]}"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["installed", report]:
            print(compared(Path(report)))
        case ["hashes", report]:
            print(add_hashes(Path(report)))
        case _:
            main()
