"""What the system refuses is one sentence and status 2, known before the work; Ctrl-C is 130."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attribution.people import corpus, name, texts_by
from whowrote.cli import sentence

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits and signals of POSIX systems")
CODE = "import sys; from whowrote.cli import main; sys.argv[0] = 'whowrote'; main()"


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts") / "letters"
    for number, (text, author) in enumerate(zip(*corpus(2, 2), strict=True)):
        (folder / author).mkdir(parents=True, exist_ok=True)
        (folder / author / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder


def run(
    *arguments: object, first: tuple[str, ...] = (), **options: Any
) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [*first, sys.executable, "-c", CODE, *map(str, arguments)],
        **{
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "env": {**os.environ, "OMP_NUM_THREADS": "1"},
            **options,
        },
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def refused(done: "subprocess.CompletedProcess[str]", *words: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("whowrote: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr


def bound_by_permissions() -> tuple[str, ...]:
    """What to begin a command with, so that permissions concern it: root they do not."""
    if os.getuid():
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("root passes over permissions, and there is no setpriv to bind it")
    lost = "-dac_override,-dac_read_search"
    return ("setpriv", f"--bounding-set={lost}", f"--inh-caps={lost}")


def small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


# Told before the work: the texts are never learnt from, the cheapest sign of which is the time


TARGETS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no such file system": (lambda _: "/proc/none/model", "No such file"),
    "name too long": (lambda folder: folder / ("n" * 300), "File name too long; give a shorter"),
    "a file on the way": (lambda folder: folder / "file" / "model", "a part of it is a file"),
    "a loop of links": (lambda folder: folder / "loop" / "model", "a link that leads nowhere"),
}


@pytest.mark.parametrize("case", TARGETS)
def test_a_model_that_cannot_be_written_is_known_before_it_is_learnt(
    case: str, letters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whowrote.attribution.jobs import train_model
    from whowrote.corpus.texts import load
    from whowrote.features.ngrams import NGrams

    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    target, said = TARGETS[case]
    monkeypatch.setattr(NGrams, "fit", lambda *_: pytest.fail("learnt before it was known"))
    with pytest.raises(OSError, match=r"\[Errno") as caught:
        train_model(load(letters), Path(str(target(tmp_path))), features="ngrams")
    assert said in sentence(caught.value)


def test_a_folder_that_may_not_be_written(letters: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    words = ("train", letters, "--out", closed / "m", "--features", "ngrams", "-q")
    refused(run(*words, first=bound_by_permissions()), "Permission denied; change its permissions")


def test_a_text_that_may_not_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text(texts_by(0, 1)[0])
    (folder / "a.txt").chmod(0)
    done = run("audit", folder, first=bound_by_permissions())
    assert done.returncode == 2
    assert "a.txt" in done.stderr


def test_a_limit_of_file_sizes_stands_for_a_full_disk(letters: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    words = ("train", letters, "--out", out, "--features", "ngrams", "-q")
    refused(run(*words, preexec_fn=small_files), "File too large; raise the limit")
    assert os.listdir(tmp_path) == []


def test_plots_and_tables_are_probed_too(letters: Path) -> None:
    refused(run("distances", letters, "--csv", "/proc/none/a.csv"), "No such file")
    refused(run("distances", letters, "--plot", "/dev/null/a.svg"), "a part of it is a file")
    refused(run("tree", letters, "--newick", "/dev/null"), "'/dev/null' is no regular file")


# Standard streams


def test_a_closed_standard_output_is_told(letters: Path) -> None:
    done = run("audit", letters, preexec_fn=lambda: os.close(1))
    refused(done, "standard output is closed")


def test_a_full_standard_output_is_told(letters: Path) -> None:
    with open("/dev/full", "w") as full:
        refused(run("audit", letters, "--json", stdout=full), "No space left on device")


def test_a_reader_that_leaves_is_told(letters: Path) -> None:
    out, into = os.pipe()
    os.close(out)
    refused(run("audit", letters, "--json", stdout=into), "whoever read the output has left")
    os.close(into)


def test_closed_standard_input_is_an_empty_one(letters: Path) -> None:
    done = run("verify", "-", letters / name(0) / "0.txt", preexec_fn=lambda: os.close(0))
    refused(done, "standard input is empty")


def test_a_closed_standard_error_leaves_the_status(tmp_path: Path) -> None:
    done = run("audit", tmp_path / "none", preexec_fn=lambda: os.close(2))
    assert (done.returncode, done.stdout) == (2, "")


def test_names_that_are_no_text_are_printed_escaped(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9")
    refused(run("audit", odd), "caf\\udce9")


# Ctrl-C


def test_ctrl_c_is_a_sentence_and_130(letters: Path, tmp_path: Path) -> None:
    words = ("train", letters, "--out", tmp_path / "model", "--features", "ngrams")
    waiting = CODE.replace("main()", "")
    waiting += (  # a shell that runs the tests in the background has its children ignore Ctrl-C
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import time; from whowrote.attribution import jobs\n"
        "jobs.storage.write = lambda *_: (print('now', flush=True), time.sleep(600))\n"
        "main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", waiting, *map(str, words), "-q"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "now\n"
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert said == (
        "whowrote: stopped by Ctrl-C; what was finished is kept, and nothing is half written\n"
    )
    assert os.listdir(tmp_path) == []


def test_every_error_has_a_sentence() -> None:
    assert sentence(OSError("odd")) == "odd; mend that, and run the command again"
    for code in errno.errorcode:
        said = sentence(OSError(code, os.strerror(code), "a", None, "b"))
        assert said.startswith("'a' and 'b': ")
        assert ";" in said


# What surrounds a command


def test_pairs_and_graphs_are_probed_before_accounts_are_read(letters: Path) -> None:
    refused(run("link", letters, "--out", "/proc/none/a.csv"), "'/proc/none'", "No such file")
    refused(run("link", letters, "--graph", "/dev/null/a"), "a part of it is a file")


def test_a_terminal_without_a_width_shows_the_answer(letters: Path) -> None:
    shown = run("audit", letters, env={**os.environ, "COLUMNS": "80"}).stdout
    assert len(shown) > 100
    assert run("audit", letters, env={**os.environ, "COLUMNS": "0"}).stdout == shown


def test_a_folder_that_is_gone_is_told(letters: Path, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    first = ("sh", "-c", f"cd '{tmp_path}/gone' && rmdir ../gone && exec \"$@\"", "sh")
    refused(run("audit", letters, first=first), "the folder in which this runs is not there")


def test_a_library_that_cannot_be_loaded_is_a_sentence() -> None:
    from whowrote.cli import guarded
    from whowrote.errors import InputError

    with pytest.raises(InputError, match=r"a library cannot be loaded \(no memory\)"), guarded():
        raise ImportError("no memory")
    with pytest.raises(ModuleNotFoundError), guarded():  # our own mistake is no user's
        raise ModuleNotFoundError("whowrote.nothing")


def test_a_file_of_milestones_is_decoded_as_texts_are(tmp_path: Path) -> None:
    from whowrote.cli.explanations import _milestones

    (tmp_path / "lines").write_bytes("3 Café".encode("latin-1"))
    (found,) = _milestones(str(tmp_path / "lines"), "one two three four five")
    assert "Café" in str(found)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"text"])
def test_vectors_of_words_that_cannot_be_read_are_a_sentence(data: bytes, tmp_path: Path) -> None:
    from whowrote.errors import InputError
    from whowrote.features.extractor.start import _glove

    (tmp_path / "glove.npz").write_bytes(data)
    with pytest.raises(InputError, match=r"it must be an \.npz with the arrays words"):
        _glove(tmp_path / "glove.npz")


def test_an_empty_file_of_vectors_is_a_sentence(tmp_path: Path) -> None:
    from whowrote.errors import InputError
    from whowrote.sweep.data import read_vectors

    (tmp_path / "vectors.npz").write_bytes(b"")
    with pytest.raises(InputError, match="cannot be read"):
        read_vectors(tmp_path / "vectors.npz")
