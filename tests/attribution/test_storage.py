"""Model folders: equal answers elsewhere, whole or absent, no texts, a sentence for each damage."""

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attribution.people import corpus, strangers, texts_by
from whowrote import drafts
from whowrote.attribution import Attributor
from whowrote.attribution.storage import MANIFEST, fingerprint, load, read_manifest
from whowrote.errors import InputError
from whowrote.estimators import MixtureVAEClassifier
from whowrote.estimators.fitted_classifier import FittedClassifier
from whowrote.features import NGrams

NEW = [*corpus(4, 2, seed=1)[0], *strangers(1), texts_by(0, 1, words=1000, seed=2)[0]]
SECRETS = ("Zyxwvuts", "Qölßpmnb", "jkqxvhwz")
QUICK = MixtureVAEClassifier(start="random", n_members=2, hidden=8, max_epochs=2, random_state=0)


@pytest.fixture(scope="module")
def small() -> Attributor:
    """Every training text holds words that no file may hold."""
    texts, authors = corpus(3, 4)
    texts = [f"{text} {SECRETS[0]} {SECRETS[1]} {text} {SECRETS[2]}" for text in texts]
    return Attributor("ngrams", QUICK, none_below=0.02).fit(texts, authors)


@pytest.fixture
def folder(small: Attributor, tmp_path: Path) -> Path:
    return small.save(tmp_path / "model")


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def answers(model: Attributor) -> list[str]:
    return [answer.to_json() for answer in model.attribute(NEW)]


# Equal answers


@pytest.mark.parametrize("kind", ["small", "hybrid", "dense"])
def test_a_loaded_model_gives_equal_answers(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    model: Attributor = request.getfixturevalue(kind)
    twin = Attributor.load(model.save(tmp_path / "deep" / "model"))
    assert answers(twin) == answers(model)
    assert twin.identity() == model.identity()
    assert twin.authors_ == model.authors_
    assert twin.fitted_.training.sha256 == model.fitted_.training.sha256
    assert twin.verify(*NEW[:2]) == model.verify(*NEW[:2])


def test_and_so_it_does_in_another_process(small: Attributor, folder: Path) -> None:
    script = (
        "import json, sys, torch\n"
        "torch.set_num_threads(1)\n"
        "from whowrote.attribution import Attributor\n"
        "texts = json.load(sys.stdin)\n"
        "for answer in Attributor.load(sys.argv[1]).attribute(texts): print(answer.to_json())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        input=json.dumps(NEW),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert done.stdout.splitlines() == answers(small)


def test_settings_come_along(small: Attributor, folder: Path) -> None:
    twin = Attributor.load(folder)
    for name in ("false_attributions", "none_below", "prior", "random_state"):
        assert getattr(twin, name) == getattr(small, name)
    assert twin.passage_words == small.fitted_.reader.words
    assert isinstance(twin.features, NGrams)
    assert twin.model.n_members == 2


def test_saved_again_it_is_the_same_folder(folder: Path, tmp_path: Path) -> None:
    again = Attributor.load(folder).save(tmp_path / "again")
    assert contents(again) == contents(folder)


def test_a_loaded_model_can_be_saved_over_itself(folder: Path) -> None:
    before = contents(folder)
    Attributor.load(folder).save(folder, overwrite=True)
    assert contents(folder) == before


def test_a_loaded_model_can_learn_again(small: Attributor, folder: Path) -> None:
    texts, authors = corpus(3, 4)
    again = Attributor.load(folder).fit(texts, authors)
    fresh = Attributor("ngrams", QUICK, none_below=0.02).fit(texts, authors)
    assert again.id_ == fresh.id_ != small.id_


def test_the_identity_covers_the_scaling(small: Attributor) -> None:
    other, fitted = copy.copy(small), small.fitted()
    scaling = fitted.model.scaling
    assert fingerprint(fitted) == small.id_  # negative control: an equal model, an equal hash
    for changed in (
        replace(scaling, mean=scaling.mean + 1),
        replace(scaling, scale=scaling.scale * 2),
    ):
        other.fitted_ = replace(fitted, model=replace(fitted.model, scaling=changed))
        assert fingerprint(other.fitted_) != small.id_
        assert answers(other) != answers(small)


# What is in it


def test_the_manifest_lists_every_file(small: Attributor, folder: Path) -> None:
    manifest = read_manifest(folder)
    assert set(manifest.files) == set(os.listdir(folder)) - {MANIFEST}
    for name, about in manifest.files.items():
        assert about.bytes == (folder / name).stat().st_size
    assert manifest.id == small.id_
    assert [author.name for author in manifest.authors] == small.classes_.tolist()
    assert all(name == MANIFEST or name.endswith(".safetensors") for name in os.listdir(folder))


def test_no_training_text_is_in_it(folder: Path, small: Attributor) -> None:
    """Negative control: the search finds the names of authors, which are there."""

    def found(words: str) -> bool:
        spellings = [words.encode(code) for code in ("utf-8", "utf-16-le", "utf-32-le")]
        spellings.append(json.dumps(words)[1:-1].encode())
        return any(one in data for data in contents(folder).values() for one in spellings)

    assert found(small.classes_[0])
    assert [words for words in SECRETS if found(words)] == []
    assert [words for words in SECRETS if found(words[:5])] == []
    text = corpus(3, 4)[0][0]
    assert not any(found(text[low : low + 12]) for low in range(0, 200, 12))


# Whole or absent


def test_a_failure_midway_leaves_the_old_model(
    small: Attributor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    before, other = contents(folder), Attributor("ngrams", QUICK).fit(*corpus(2, 3))
    with monkeypatch.context() as patched:
        patched.setattr(FittedClassifier, "save", full_disk)
        with pytest.raises(OSError, match="no space left"):
            other.save(folder, overwrite=True)
        with pytest.raises(OSError, match="no space left"):
            other.save(folder.parent / "new")
    assert contents(folder) == before
    assert os.listdir(folder.parent) == ["model"]  # and no draft beside it
    assert answers(Attributor.load(folder)) == answers(small)
    other.save(folder, overwrite=True)  # negative control: without the failure it is replaced
    assert contents(folder) != before
    assert os.listdir(folder.parent) == ["model"]


def test_nothing_is_written_over_unasked(small: Attributor, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds a model already.*overwrite=True \(--overwrite\)"):
        small.save(folder)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"'.*file' is a file; a model is a folder"):
            small.save(tmp_path / "file", overwrite=overwrite)
        with pytest.raises(InputError, match=r"'.*mine' is a folder with other things in it"):
            small.save(tmp_path / "mine", overwrite=overwrite)
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"


def test_an_empty_folder_will_do(small: Attributor, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert read_manifest(small.save(tmp_path / "empty")).id == small.id_


def test_files_of_the_old_model_do_not_stay(small: Attributor, tmp_path: Path) -> None:
    place = tmp_path / "model"
    small.save(place)
    shutil.copyfile(place / "model.safetensors", place / "extractor.safetensors")
    small.save(place, overwrite=True)
    assert not (place / "extractor.safetensors").exists()


def test_what_is_not_ours_is_not_removed(small: Attributor, tmp_path: Path) -> None:
    place = tmp_path / "model"
    small.save(place)
    (place / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds 'thesis\.txt' beside a model; .* not removed"):
        small.save(place, overwrite=True)
    (place / "thesis.txt").unlink()
    (place / "notes").mkdir()
    with pytest.raises(InputError, match="holds 'notes' beside a model"):
        small.save(place, overwrite=True)
    (place / "notes").rmdir()
    small.save(place, overwrite=True)  # negative control: a model alone is written over


def test_a_manifest_of_something_else_is_no_model(small: Attributor, tmp_path: Path) -> None:
    """A web page, an extension of a browser, a package: all of them have a manifest.json."""
    for number, text in enumerate(('{"name": "app"}', "[1]", '{"kind": "Cat", "format": 2}', "")):
        place = tmp_path / str(number)
        place.mkdir()
        (place / MANIFEST).write_text(text)
        (place / "thesis.txt").write_text("mine")
        with pytest.raises(InputError, match="is a folder with other things in it"):
            small.save(place, overwrite=True)
        assert sorted(os.listdir(place)) == [MANIFEST, "thesis.txt"]


# Damage


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    change(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def scramble(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no folder": (shutil.rmtree, r"there is no model at '.*model' \(no manifest\.json in it\)"),
    "no manifest": (lambda f: (f / MANIFEST).unlink(), r"there is no model at"),
    "empty manifest": (lambda f: (f / MANIFEST).write_text(""), r"json' is damaged .*; train"),
    "half a manifest": (lambda f: truncate(f / MANIFEST), r"json' is damaged"),
    "not UTF-8": (lambda f: (f / MANIFEST).write_bytes(b"\xff\xfe{}"), r"json' is damaged"),
    "a list": (lambda f: (f / MANIFEST).write_text("[1]"), r"json' is damaged"),
    "no format": (lambda f: edit(f, lambda m: m.pop("format")), r"json' is damaged"),
    "other format": (
        lambda f: edit(f, lambda m: m.update(format=99, version="7.0")),
        r"has model format 99 \(Attributor, written by whowrote 7\.0\), this version reads 1 and 2",
    ),
    "other kind": (lambda f: edit(f, lambda m: m.update(kind="Cat")), r"format 2 \(Cat, written"),
    "missing file": (
        lambda f: (f / "contrasts.safetensors").unlink(),
        r"contrasts\.safetensors' is missing or is not what was saved.*copy the whole folder again",
    ),
    "truncated file": (
        lambda f: truncate(f / "model.safetensors"),
        r"model\.safetensors' is missing or is not what was saved",
    ),
    "other bytes": (
        lambda f: scramble(f / "profiles.safetensors"),
        r"profiles\.safetensors'",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_has_its_sentence(damage: str, folder: Path) -> None:
    spoil, message = DAMAGES[damage]
    spoil(folder)
    for reading in (Attributor.load, load):
        with pytest.raises(InputError, match=message):
            reading(folder)


# What was found wrong once


def test_changed_bytes_are_noticed(folder: Path) -> None:
    file = folder / "contrasts.safetensors"
    data = bytearray(file.read_bytes())
    data[-2000:-1000] = bytes(1000)
    file.write_bytes(data)
    with pytest.raises(InputError, match=r"contrasts\.safetensors"):
        Attributor.load(folder)


@pytest.mark.parametrize("entry", ["files", "settings", "authors", "calibration", "features"])
def test_a_manifest_without_an_entry_is_damaged(entry: str, folder: Path) -> None:
    edit(folder, lambda manifest: manifest.pop(entry))
    with pytest.raises(InputError, match="is damaged"):
        Attributor.load(folder)


def test_a_failure_at_the_last_step_leaves_the_old_model(
    small: Attributor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(folder)

    def refused(*_: Any) -> bool:
        raise OSError("permission denied")

    monkeypatch.setattr(drafts, "_rename", refused)
    with pytest.raises(OSError, match="permission denied"):
        small.save(folder, overwrite=True)
    assert contents(folder) == before
    assert os.listdir(folder.parent) == ["model"]


def test_what_was_fitted_is_saved_whatever_set_params_did_since(tmp_path: Path) -> None:
    model = Attributor("ngrams", QUICK, passage_words=40).fit(*corpus(2, 3))
    expected = model.predict_proba(NEW)
    model.set_params(passage_words=300).save(tmp_path / "model")
    np.testing.assert_array_equal(Attributor.load(tmp_path / "model").predict_proba(NEW), expected)
