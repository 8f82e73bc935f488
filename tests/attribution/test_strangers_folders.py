"""Model folders by strangers: no code runs, nothing huge is made, nonsense is a sentence."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attribution.people import QUICK, corpus, name, texts_by
from whowrote.arrays import Arrays
from whowrote.attribution import Attributor
from whowrote.attribution import storage as folders
from whowrote.attribution.manifest import (
    LEARNT,
    MANIFEST,
    MODEL,
    OWN_HASH,
    as_text,
    learnt_hash,
)
from whowrote.attribution.storage import load
from whowrote.errors import InputError
from whowrote.estimators.fitted_classifier import FLEET, SCALING
from whowrote.features import NGrams, SentenceEncoder
from whowrote.features.kinds import with_settings
from whowrote.files import (
    ModelFile,
    below,
    canonical_hash,
    read_model_file,
    sha256_of,
    write_model_file,
)

Change = Callable[[dict[str, Any]], Any]
ENCODER = '''
import numpy as np
class SentenceTransformer:
    """Stands in the place of the package: what it is asked to load it says, and so it has run."""
    def __init__(self, name, **options):
        print("LOADED", name, options.get("local_files_only"), options.get("trust_remote_code"))
    def encode(self, texts, **options):
        return np.array([[text.count(mark) / len(text) for mark in "eti ."] for text in texts])
'''


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = Attributor(NGrams(max_features=(300, 100)), QUICK).fit(*corpus(3, 4))
    return model.save(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture
def folder(small: Path, tmp_path: Path) -> Path:
    return shutil.copytree(small, tmp_path / "model")


def edit(folder: Path, change: Change, *, coherent: bool = True) -> None:
    """Change the manifest; coherent: hashes and id are those of what is there then."""
    plain = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    change(plain)
    if coherent:
        seal(folder, plain)
    (folder / MANIFEST).write_bytes(as_text(plain).encode("utf-8", "surrogatepass"))


def seal(folder: Path, plain: dict[str, Any]) -> None:
    """What a stranger can do who knows the format: every hash is right."""
    parts = [read_model_file(folder / f"{one}.safetensors").arrays for one in order(folder)]
    model = read_model_file(folder / MODEL).arrays
    for one in plain["files"]:
        path = folder / one
        plain["files"][one] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    if set(LEARNT) <= set(plain):
        arrays = (*parts, below(FLEET, model), below(SCALING, model))
        plain["id"] = learnt_hash(plain, arrays, [])
    plain.pop(OWN_HASH, None)
    plain[OWN_HASH] = canonical_hash(plain)


def order(folder: Path) -> list[str]:
    names = ("features", "training", "profiles", "contrasts")
    return [one for one in names if (folder / f"{one}.safetensors").is_file()]


def change_file(folder: Path, file: str, change: Callable[[dict[str, Any], Arrays], Any]) -> None:
    """Change values and arrays of a file, and seal the folder again."""
    record = read_model_file(folder / file)
    values, arrays = json.loads(json.dumps(record.values)), dict(record.arrays)
    change(values, arrays)
    write_model_file(folder / file, ModelFile(record.kind, values, arrays))
    edit(folder, lambda plain: None)


def refused_at_once(folder: Path) -> None:
    """A sentence within two seconds of processor time."""
    began = time.process_time()
    with pytest.raises(InputError):
        load(folder)
    assert time.process_time() - began < 2


# Code


def test_an_encoder_that_a_file_names_does_not_run_unless_it_is_asked_for(tmp_path: Path) -> None:
    """In a process whose sentence-transformers says what it loads."""
    (tmp_path / "sentence_transformers.py").write_text(ENCODER)
    script = f"""
import sys
from pathlib import Path
sys.path[:0] = [{str(tmp_path)!r}, {str(Path(__file__).parents[1])!r}]
from attribution.people import QUICK, corpus
from whowrote.attribution import Attributor
from whowrote.attribution.storage import load
from whowrote.errors import InputError
from whowrote.features import SentenceEncoder
model = Attributor(SentenceEncoder("evil/encoder"), QUICK).fit(*corpus(2, 4))
model.save({str(tmp_path / "model")!r})
from whowrote.features import fitted_features
fitted_features._loaded.cache_clear()
print("SAVED")
for opened in (load, Attributor.load):
    try:
        opened(Path({str(tmp_path / "model")!r})).attribute(["a text of words"])
        print("ANSWERED")
    except InputError as problem:
        print("REFUSED", problem)
Attributor.load({str(tmp_path / "model")!r}, encoder="evil/encoder").attribute(["a text of words"])
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.split("SAVED\n")
    assert before == "LOADED evil/encoder True False\n"  # who makes it, names it: local files only
    lines = after.splitlines()
    assert [line.split()[0] for line in lines] == ["REFUSED", "REFUSED", "LOADED"]
    assert "not loaded unless you name it too" in lines[0]


def test_another_encoder_than_that_of_the_folder_is_refused() -> None:
    values = {"kind": "sentences", "model": "one", "batch_size": 1}
    assert isinstance(with_settings(values, "one"), SentenceEncoder)
    with pytest.raises(InputError, match=r"encoder is 'other'; the model was made with 'one'"):
        with_settings(values, "other")


FEATURES: dict[str, dict[str, Any]] = {
    "unknown kind": {"kind": "web"},
    "no kind": {"model": "evil"},
    "a kind that is no name": {"kind": ["sentences"]},
    "weights from anywhere": {"kind": "adhominem", "section": 10, "weights": "/etc/passwd"},
    "an encoder that is no name": {"kind": "sentences", "model": {"a": 1}, "batch_size": 1},
    "a hybrid in a hybrid": {
        "kind": "hybrid",
        "weight": 1.0,
        "dense": {"kind": "hybrid"},
        "ngrams": {"kind": "ngrams"},
    },
    "other settings": {"kind": "ngrams", "trust_remote_code": True},
}


@pytest.mark.parametrize("case", FEATURES)
def test_features_of_unknown_kinds_are_refused(case: str, folder: Path) -> None:
    edit(folder, lambda plain: plain.update(features=FEATURES[case]))
    for opened in (load, Attributor.load):
        with pytest.raises(InputError, match="features"):
            opened(folder)
    with pytest.raises(InputError, match="features"):
        with_settings(FEATURES[case])


# Sizes


def huge_layer(values: dict[str, Any], arrays: Arrays) -> None:
    values["architecture"]["hidden"] = [10**8]


def many_layers(values: dict[str, Any], arrays: Arrays) -> None:
    values["architecture"]["hidden"] = [1] * 10**6


def many_members(values: dict[str, Any], arrays: Arrays) -> None:
    values["members"] *= 100_000


def many_authors(values: dict[str, Any], arrays: Arrays) -> None:
    values["architecture"]["n_components"] = 10**7


def beyond_numbers(values: dict[str, Any], arrays: Arrays) -> None:
    values["architecture"]["latent_dim"] = 10**30


def cut_means(values: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["scaling.mean"] = arrays["scaling.mean"][:-1]


def no_number(values: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["fleet.mixture.loc"] = arrays["fleet.mixture.loc"] * np.float32("nan")


@pytest.mark.parametrize(
    "change",
    [huge_layer, many_layers, many_members, many_authors, beyond_numbers, cut_means, no_number],
)
def test_what_is_not_there_is_not_allocated(change: Any, folder: Path) -> None:
    change_file(folder, MODEL, change)
    refused_at_once(folder)


@pytest.mark.parametrize("what", ["pipe", "zeros", "folder", "deep", "large number", "large file"])
def test_a_manifest_that_does_not_end_is_refused(what: str, folder: Path) -> None:
    place = folder / MANIFEST
    place.unlink()
    if what == "pipe":
        os.mkfifo(place)
    elif what == "zeros":
        place.symlink_to("/dev/zero")
    elif what == "folder":
        place.mkdir()
    elif what == "large file":
        with place.open("wb") as file:
            file.truncate(10**11)
    else:
        place.write_text("[" * 10**6 if what == "deep" else f'{{"format": {"9" * 10**5}}}')
    refused_at_once(folder)


@pytest.mark.parametrize("listed", ["../secret", "/etc/passwd", "notes.txt"])
def test_files_of_other_names_are_not_read(listed: str, folder: Path) -> None:
    about = {"bytes": 1, "sha256": "0" * 64}
    edit(folder, lambda m: m["files"].update({listed: about}), coherent=False)
    with pytest.raises(InputError, match=r"a name in the manifest\.files is"):
        load(folder)


# Nonsense

NONSENSE: dict[str, tuple[Change, str]] = {
    "temperature": (
        lambda m: m["calibration"]["pooling"].update(temperature=-1),
        r"pooling\.temperature is -1; it must be a finite number above 0",
    ),
    "exponent": (lambda m: m["calibration"]["pooling"].update(exponent=True), "exponent is True"),
    "right": (lambda m: m["calibration"]["held_out"].update(right=10**9), "held_out.right is"),
    "share": (lambda m: m["log_share"].__setitem__(0, -9.0), "shares that sum to 1"),
    "a count": (lambda m: m["authors"][0].update(texts=0), r"authors\[0\]\.texts is 0"),
    "a name": (lambda m: m["authors"][0].update(name=""), r"authors\[0\]\.name is ''"),
    "half a character": (
        lambda m: m["authors"][0].update(name="\udcff"),
        r"authors\[0\]\.name is '\\udcff'; it must be a text of whole characters",
    ),
    "a name twice": (lambda m: m["authors"][0].update(name=name(1)), "every name stands once"),
    "an author more": (lambda m: m["authors"].append(dict(m["authors"][0], name="x")), "log_share"),
    "no settings": (lambda m: m["settings"].clear(), "settings has no 'passage_words'"),
    "a prior": (lambda m: m["settings"].update(prior="mine"), "prior is 'mine'; it must be one of"),
    "another entry": (lambda m: m.update(extra=1), "has 'extra', which does not belong there"),
    "order": (lambda m: m["calibration"]["norms"]["reference"].reverse(), "in ascending order"),
    "a list too short": (
        lambda m: m["calibration"]["norms"]["centers"][0].pop(),
        r"norms\.centers\[0\] is a list of",
    ),
    "a version": (lambda m: m.update(version=""), "version is ''; it must be a version"),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_is_a_sentence(case: str, folder: Path) -> None:
    change, message = NONSENSE[case]
    edit(folder, change)
    with pytest.raises(InputError, match=message):
        load(folder)


def test_swapped_names_do_not_answer_under_the_same_id(folder: Path) -> None:
    def swap(plain: dict[str, Any]) -> None:
        first, second, *_ = plain["authors"]
        first["name"], second["name"] = second["name"], first["name"]

    def sealed_but_for_the_id(plain: dict[str, Any]) -> None:
        before = plain["id"]
        swap(plain)
        seal(folder, plain)
        plain["id"] = before
        plain[OWN_HASH] = canonical_hash({k: v for k, v in plain.items() if k != OWN_HASH})

    edit(folder, swap, coherent=False)
    with pytest.raises(InputError, match="it is not what was saved"):
        load(folder)
    edit(folder, swap, coherent=False)  # as they were
    load(folder)  # negative control
    edit(folder, sealed_but_for_the_id, coherent=False)
    with pytest.raises(InputError, match="is not the model whose id it bears"):
        load(folder)


def test_equal_entries_in_another_form_are_noticed(folder: Path) -> None:
    place = folder / MANIFEST
    place.write_text(json.dumps(json.loads(place.read_text())))
    with pytest.raises(InputError, match="it is not what was saved"):
        load(folder)


def test_a_value_that_cannot_be_read_again_is_not_written(small: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    fitted = load(small)
    authors = (replace(fitted.authors[0], name="caf\udce9"), *fitted.authors[1:])
    with pytest.raises(InputError, match=r"the model cannot be saved: .*whole characters"):
        folders.save(replace(fitted, authors=authors), tmp_path / "model")
    assert os.listdir(tmp_path) == []


# Before the work


def test_an_author_whose_name_is_no_text_has_a_printable_one(tmp_path: Path) -> None:
    texts, authors = corpus(2, 3)
    authors = ["caf\udce9" if author == name(0) else author for author in authors]
    model = Attributor("ngrams", QUICK).fit(texts, authors)
    assert model.classes_.tolist() == [name(1), "caf\\udce9"]
    model.save(tmp_path / "m")
    assert Attributor.load(tmp_path / "m").classes_.tolist() == model.classes_.tolist()


def test_half_characters_in_texts_and_ids_do_no_harm(small: Path) -> None:
    said = load(small).attribute([texts_by(0, 1)[0] + " \ud800 and"])
    assert said[0].author is None or said[0].ranking
