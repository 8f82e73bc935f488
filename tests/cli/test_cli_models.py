"""From a folder of texts to an answer on the command line, with real parts throughout."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attribution.people import name, strangers, texts_by
from whowrote.attribution import Attributor
from whowrote.attribution.calibration import HeldOut
from whowrote.attribution.jobs import Trained
from whowrote.cli import app, main
from whowrote.cli.models import _answer_table, _show_answers, _show_trained
from whowrote.demo import read_addresses
from whowrote.errors import InputError
from whowrote.features import Hybrid, StyleExtractor
from whowrote.features.adhominem import PRETRAINED, PRETRAINED_STYLE
from whowrote.files import sha256_of

runner = CliRunner()


def write(folder: Path, texts: list[str]) -> None:
    folder.mkdir(parents=True)
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training texts of three people, questions, and a model made by the command."""
    place = tmp_path_factory.mktemp("case")
    for author in range(3):
        write(place / "known" / name(author), texts_by(author, 6))
    write(place / "new", [texts_by(author, 1, seed=1)[0] for author in range(3)])
    write(place / "strange", strangers(2))
    write(place / "more" / "Newcomer", texts_by(7, 5))
    done = runner.invoke(
        app,
        ["train", str(place / "known"), "--out", str(place / "m"), "--features", "ngrams", "-v"],
    )
    assert done.exit_code == 0, done.output
    assert "3 authors, 18 texts in 18 passages" in done.stdout
    assert "contrasting the authors" in done.stdout
    assert "learning the authors" in done.stdout
    return place


def run(*arguments: object, code: int = 0, text: str | None = None) -> str:
    answer = runner.invoke(app, [str(one) for one in arguments], input=text)
    assert answer.exit_code == code, answer.output
    return answer.stdout


@pytest.mark.parametrize(("named", "cure"), [(0.9, False), (0.2, True), (None, False)])
def test_training_says_how_many_would_be_named(
    named: float | None, cure: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Trained("m", "id", 6, 30, 30, 9000, HeldOut(30, 23), named, {}, 1.0)
    _show_trained(done, verbose=False)
    said = capsys.readouterr().out
    assert ("Where 'none of these' may be said" in said) == (named is not None)
    assert ("--false-attributions" in said) == cure


def test_attribute_a_folder(place: Path) -> None:
    lines = [
        json.loads(line)
        for line in run("attribute", place / "m", place / "new", "--json").splitlines()
    ]
    assert [line["author"] for line in lines] == [name(author) for author in range(3)]
    direct = Attributor.load(place / "m").attribute(
        [(place / "new" / f"{n}.txt").read_text(encoding="utf-8") for n in range(3)]
    )
    assert [line["ranking"] for line in lines] == [one.to_dict()["ranking"] for one in direct]
    assert all(line["sha256"] == one.sha256 for line, one in zip(lines, direct, strict=True))


def test_training_warns_of_typography_and_reads_without_it(tmp_path: Path) -> None:
    """Quotes of two programs name the authors; read without them, they do not."""
    for number, quotes in enumerate(('""', "\u201c\u201d")):
        own = [f"{quotes[0]}Yes{quotes[1]}, I said. {one}" for one in texts_by(number, 8)]
        write(tmp_path / "known" / name(number), own)
    command = ["train", tmp_path / "known", "--features", "ngrams", "--json", "--out"]
    told = json.loads(run(*command, tmp_path / "plain").splitlines()[-1])
    assert "marks of typography alone name the author of 100%" in told["warnings"][0]
    done = run(*command, tmp_path / "read", "--normalise", "quotes, punctuation")
    assert json.loads(done.splitlines()[-1])["warnings"] == []
    settings = json.loads(run("inspect", tmp_path / "read", "--json"))["settings"]
    assert settings["normalise"] == ["quotes", "punctuation"]
    asked = tmp_path / "asked.txt"
    answers = []
    for quotes in ('""', "\u201c\u201d"):
        asked.write_text(f"{quotes[0]}Yes{quotes[1]} -- " + texts_by(0, 9)[8])
        answers.append(json.loads(run("attribute", tmp_path / "read", asked, "--json")))
    assert answers[0]["ranking"] == answers[1]["ranking"]
    plain = json.loads(run("attribute", tmp_path / "plain", asked, "--json"))
    assert plain["ranking"] != answers[1]["ranking"]


def test_the_table_names_and_refuses(place: Path) -> None:
    shown = run("attribute", place / "m", place / "new", place / "strange", "--top", "1")
    assert name(1) in shown
    assert "none of these" in shown
    assert "5 texts, 2 by none of the 3 enrolled authors" in " ".join(shown.split())
    named = run("attribute", place / "m", place / "strange", "--false-attributions", "1")
    assert "0 by none of the 3" in " ".join(named.split())


def test_long_names_in_a_narrow_window_are_never_cut(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, author in enumerate(("Christina Georgina Rossetti", "Sir Arthur Conan Doyle")):
        write(tmp_path / "known" / author, texts_by(number, 6))
    write(tmp_path / "letters of the winter", [texts_by(0, 1, seed=1)[0]])
    run("train", tmp_path / "known", "--out", tmp_path / "m", "--features", "ngrams", "-q")
    wide = _shown_at(140, tmp_path, monkeypatch)
    assert "candidates" in wide
    for width in (80, 60):
        shown = _shown_at(width, tmp_path, monkeypatch)
        assert "candidates" not in shown  # they have lines of their own
        assert "…" not in shown
        assert max(map(len, shown.splitlines())) <= width
        whole = " ".join(shown.split())
        assert "typicality" in whole
        assert re.search(r"Sir Arthur Conan Doyle <?\d+%", whole)


def _shown_at(width: int, place: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    return run("attribute", place / "m", place / "letters of the winter")


def test_an_extractor_of_your_own(place: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.safetensors"
    own.write_bytes(PRETRAINED.read_bytes())
    for name_, more in (("own", ["--weights", own]), ("packaged", [])):
        out = tmp_path / name_
        run("train", place / "known", "--out", out, "--features", "adhominem", "-q", *more)
    assert sha256_of(tmp_path / "own" / "extractor.safetensors") == sha256_of(PRETRAINED)
    own.unlink()  # the model has its own copy
    told = [run("attribute", tmp_path / n, place / "new", "--json") for n in ("own", "packaged")]
    rankings = [[json.loads(line)["ranking"] for line in one.splitlines()] for one in told]
    assert rankings[0] == rankings[1]


@pytest.mark.parametrize(
    ("features", "exists", "said"),
    [("hybrid", False, "which is no file"), ("ngrams", True, "which has no extractor")],
)
def test_weights_that_cannot_be(
    place: Path, tmp_path: Path, features: str, exists: bool, said: str
) -> None:
    weights = PRETRAINED if exists else tmp_path / "none.safetensors"
    arguments = ["--features", features, "--weights", weights, "--out", tmp_path / "m"]
    done = runner.invoke(app, [str(a) for a in ("train", place / "known", *arguments)])
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)


def test_standard_input(place: Path) -> None:
    said = run("attribute", place / "m", "-", "--json", text=texts_by(2, 1, seed=3)[0])
    answer = json.loads(said)
    assert (answer["document"], answer["author"]) == ("-", name(2))


def test_a_short_text_is_warned_of(place: Path) -> None:
    assert "only 3 tokens" in run("attribute", place / "m", "-", text="not so long")


def test_inspect(place: Path, tmp_path: Path) -> None:
    shown = run("inspect", place / "m", "--plots", tmp_path)
    assert name(2) in shown
    assert "contrasts.safetensors" in shown
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        *("map.png", "map.svg", "tails.png", "tails.svg", "tree.png", "tree.svg")
    ]
    plain = json.loads(run("inspect", place / "m", "--json"))
    assert [author["texts"] for author in plain["authors"]] == [6, 6, 6]
    assert plain["bytes"]["model.safetensors"] == (place / "m" / "model.safetensors").stat().st_size


def test_a_model_says_which_weights_of_which_size_it_was_made_with(
    place: Path, tmp_path: Path
) -> None:
    texts = [text for author in range(3) for text in texts_by(author, 4)]
    authors = [name(author) for author in range(3) for _ in range(4)]
    model, question = tmp_path / "m", [texts_by(1, 1, seed=1)[0]]
    made = Attributor(Hybrid(StyleExtractor(device="cpu"))).fit(texts, authors)
    made.save(model)
    weights = sha256_of(PRETRAINED_STYLE)
    assert f"hybrid (style, large, weights {weights[:12]})" in run("inspect", model)
    said = json.loads(run("inspect", model, "--json"))["features"]["dense"]
    assert (said["kind"], said["size"], said["weights_sha256"]) == ("style", "large", weights)
    assert "(style" not in run("inspect", place / "m")  # n-grams have no weights
    one, two = (m.attribute(question)[0].to_dict() for m in (made, Attributor.load(model)))
    assert one["ranking"] == two["ranking"]
    (model / "extractor.safetensors").write_bytes(PRETRAINED.read_bytes())
    with pytest.raises(InputError, match=r"extractor.safetensors"):
        Attributor.load(model)


def test_verify_by_a_model_of_few_authors(place: Path, tmp_path: Path) -> None:
    one, same, other = tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "c.txt"
    one.write_text(texts_by(5, 1)[0])
    same.write_text(texts_by(5, 1, seed=1)[0])
    other.write_text(strangers(1)[0])
    shown = run("verify", place / "m", one, same)
    assert re.search(r"log10 likelihood ratio \+0\.\d+ \(95 % interval [+-]\d", shown)
    assert "Population: 3 enrolled authors alone" in shown
    assert "Weighed: one person wrote both; against: two different people" in shown
    assert "beforehand" not in shown
    assert re.search(r"support for (either|the) proposition", shown)
    assert "From prior to posterior: 1 in 1,000,000 to <0.1%" in shown
    assert "ratio -0." in run("verify", place / "m", one, other, code=1)
    assert "both texts are the same" in run("verify", place / "m", one, one)
    by_option = run("verify", one, same, "--model", place / "m", "--prior", "0.1")
    assert by_option.startswith(shown.rstrip())
    assert re.search(r"With a probability of 10 ?% beforehand, that of one author is", by_option)
    plain = json.loads(run("verify", place / "m", one, other, "--json", code=1))
    assert plain["comparison"]["log10_lr"] < 0
    assert plain["comparison"]["probability"] is None
    assert "support for" in plain["comparison"]["support"]
    assert len(plain["comparison"]["posteriors"]) == 6
    assert plain["second"] == "c.txt"


def test_verify_without_a_model(tmp_path: Path) -> None:
    addresses = [one for one in read_addresses() if one.author == "Ronald Reagan"]
    write(tmp_path / "known", [one.text for one in addresses[:3]])
    (tmp_path / "new.txt").write_text(addresses[4].text, encoding="utf-8")
    (tmp_path / "old.txt").write_text(read_addresses()[3].text, encoding="utf-8")
    arguments = ["verify", "--known", tmp_path / "known"]
    plain = json.loads(run(*arguments, tmp_path / "new.txt", "--json"))
    assert len(plain["first"]) == 3
    assert plain["comparison"]["words"][0] == sum(len(one.text.split()) for one in addresses[:3])
    assert plain["comparison"]["population"]["people"] > 1000
    other = json.loads(run(*arguments, tmp_path / "old.txt", "--json", code=1))
    assert other["comparison"]["log10_lr"] < 0 < plain["comparison"]["log10_lr"]
    shown = run("verify", tmp_path / "new.txt", tmp_path / "old.txt", code=1)
    assert "people who write English (blogs" in shown


def test_known_texts_in_several_folders_are_told(tmp_path: Path) -> None:
    addresses = read_addresses()
    for folder, text in (("ann", addresses[0].text), ("bob", addresses[9].text)):
        write(tmp_path / "known" / folder, [text])
    (tmp_path / "new.txt").write_text(addresses[1].text, encoding="utf-8")
    for known, told in (("known", True), ("known/ann", False)):
        arguments = ["verify", "--known", str(tmp_path / known), str(tmp_path / "new.txt")]
        said = " ".join(runner.invoke(app, arguments).stderr.split())
        assert ("lie in 2 folders ('ann', 'bob')" in said) == told


def test_enroll_adds_an_author_and_leaves_the_model(place: Path) -> None:
    before = (place / "m" / "manifest.json").read_bytes()
    said = run("enroll", place / "m", place / "more", "--out", place / "m2")
    assert "New: Newcomer (5 texts)" in said
    assert (place / "m" / "manifest.json").read_bytes() == before
    new = texts_by(7, 4, seed=2)
    grown, old = Attributor.load(place / "m2"), Attributor.load(place / "m")
    assert grown.predict(new).tolist().count("Newcomer") >= 3
    own = [text for author in range(3) for text in texts_by(author, 4, seed=2)]
    agree = grown.predict(own) == old.predict(own)
    assert agree.mean() > 0.8
    assert grown.id_ != old.id_
    assert grown.predict_proba(new).sum(axis=1) == pytest.approx(1.0)


def test_an_unknown_share_of_strangers_is_a_dash_and_both_rules_are_told(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    answer = Attributor.load(place / "m").attribute(texts_by(0, 1))[0]
    known = replace(answer, stranger=0.012, false_attributions=0.05, none_below=0.0)
    new = replace(answer, stranger=None, false_attributions=None, none_below=0.02)
    for pair in ([known, new], [new, known]):
        assert sorted(_answer_table(pair, 3).columns[3].cells) == ["-", "1.2%"]
        _show_answers(pair, 3, False)
        shown = " ".join(capsys.readouterr().out.split())
        assert "strangers above 5%" in shown
        assert "typicality below 2%" in shown


def test_evaluate(place: Path, tmp_path: Path) -> None:
    arguments = ["evaluate", place / "known", "--features", "ngrams", "--folds", "3"]
    shown = run(*arguments, "--baseline", "delta", "--plots", tmp_path)
    assert "18 texts, 3 authors, 3 folds" in shown
    assert "delta" in shown
    assert len(list(tmp_path.iterdir())) == 6
    plain = json.loads(run(*arguments, "--json"))
    ours = plain["methods"][0]
    assert ours["error"] < 0.3
    assert sum(map(sum, ours["confusion"])) == 18
    assert ours["error_interval"]["low"] <= ours["error"] <= ours["error_interval"]["high"]
    assert sum(one["n"] for one in ours["by_length"]) == 18


def test_evaluate_leaves_people_out(place: Path, tmp_path: Path) -> None:
    for author in range(6):
        write(tmp_path / "known" / name(author), texts_by(author, 4))
    arguments = ["evaluate", tmp_path / "known", "--features", "ngrams", "--folds", "2", "--verify"]
    plots = tmp_path / "plots"
    plain = json.loads(run(*arguments, "--plots", plots, "--json").splitlines()[0])
    strangers, ratios = plain["strangers"], plain["verification"]
    assert (strangers["people"], strangers["strangers"]) == (6, 24)
    assert 0 <= strangers["refused_interval"]["low"] <= strangers["refused"] <= 1
    assert ratios["quality"]["cllr_min"] <= ratios["quality"]["cllr"] < 1
    assert len(ratios["log10_lr"]) == ratios["quality"]["same"] + ratios["quality"]["different"]
    assert {"tippett.png", "ratios.png"} <= {path.name for path in plots.iterdir()}
    shown = " ".join(run(*arguments, "--no-strangers").split())
    assert re.search(r"Cllr 0\.\d+ \(95 % interval .* at best 0\.\d+", shown)
    assert re.search(r"Above 1: \S+% of pairs by one person and \S+% of pairs by two", shown)
    assert "People left out" not in shown
    few = " ".join(run("evaluate", place / "known", "--features", "ngrams", "--folds", "2").split())
    assert "Nobody was left out: the corpus has 3 authors" in few


def test_no_ratio_is_printed_without_what_it_weighs(place: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.txt"
    one.write_text(texts_by(0, 1, seed=4)[0])
    shown = " ".join(run("attribute", place / "m", one).split())
    assert re.search(rf"likelihood ratios {name(0)} [\d.]+, ", shown)
    assert "against: another of the enrolled authors wrote it" in shown
    assert "Population: the 3 enrolled authors, equally probable beforehand" in shown
    assert re.search(rf"support for the proposition that {name(0)} wrote the text", shown)
    assert "1 in 1,000,000 to <0.1%" in shown
    answer = json.loads(run("attribute", place / "m", one, "--json"))
    best = answer["ranking"][0]
    assert answer["ratio"]["log10_lr"] == best["log10_lr"] > 0 > answer["ranking"][1]["log10_lr"]
    assert len(answer["ratio"]["posteriors"]) == 6
    assert "likelihood ratios" not in run("attribute", place / "m", place / "new")
    assert "likelihood ratios" in run("attribute", place / "m", place / "new", "--ratios")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["attribute", "{}/nowhere", "{}/new"], "there is no model at"),
        (["attribute", "{}/m", "{}/nowhere"], "nowhere"),
        (["attribute", "{}/m", "-"], "standard input is empty"),
        (["attribute", "{}/m", "{}/new", "--none-below", "2"], "none_below is 2.0"),
        (["train", "{}/known", "--out", "{}/m"], "holds a model already"),
        (["train", "{}/known", "--out", "{}/x", "--features", "words"], "features is 'words'"),
        (["train", "{}/new", "--out", "{}/x"], "attribution needs at least 2"),
        (["enroll", "{}/m", "{}/known", "--out", "{}/x"], "is enrolled already"),
        (["verify", "{}/m", "{}/new", "{}/new"], "verification compares two"),
        (["verify", "{}/m", "{}/new/0.txt"], "verification compares two"),
        (["verify", "{}/m", "--known", "{}/new", "{}/new"], "or --known FOLDER and one text"),
        (["verify", "{}/m", "{}/new/0.txt", "{}/new/1.txt", "--prior", "1"], "prior is 1.0; it"),
        (["evaluate", "{}/known", "--baseline", "magic"], "baseline 'magic' is not known"),
    ],
)
def test_bad_input_is_one_sentence_and_status_two(
    arguments: list[str],
    message: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["whowrote", *(one.format(place) for one in arguments)])
    monkeypatch.setattr("sys.stdin", io.StringIO(" \n"))
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    said = capsys.readouterr()
    assert message in said.err
    assert len(said.err.splitlines()) == 1
    assert not (place / "x").exists()
