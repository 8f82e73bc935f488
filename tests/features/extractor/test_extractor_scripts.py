"""The scripts of experiments/extractor run, small, and their shortcuts are exact."""

import json
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import load_file, save_file
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch import Tensor

from features.made_up import texts_by
from features.towers import TABLE, bert_arrays, tower_config
from whowrote.errors import InputError
from whowrote.features import AdHominem, StyleExtractor
from whowrote.features.adhominem import PRETRAINED_STYLE
from whowrote.features.extractor.driver import train
from whowrote.features.network import Architecture, Network
from whowrote.features.reading import DeviceCorpus, Extractor, read_extractor
from whowrote.features.vocabulary import Vocabulary
from whowrote.files import sha256_of

SCRIPTS = Path(__file__).parents[3] / "experiments" / "extractor"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import a script by name, as if run beside its neighbours."""
    monkeypatch.syspath_prepend(SCRIPTS)
    before = set(sys.modules)
    yield import_module
    for name in set(sys.modules) - before:
        if str(SCRIPTS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def clouds(n: int = 400, classes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    codes = np.arange(n) % classes
    return random.normal(size=(classes, 12))[codes] + random.normal(size=(n, 12)), codes


def test_the_quick_svm_is_the_svm(script: Any) -> None:
    X, codes = clouds()
    new = clouds(200)[0] * 1.3
    quick = script("linear_svm").decisions(X, codes, new, 0.1)
    scaler = StandardScaler().fit(X)
    slow = LinearSVC(C=0.1, dual=False, tol=1e-10, max_iter=10_000).fit(scaler.transform(X), codes)
    np.testing.assert_allclose(quick, slow.decision_function(scaler.transform(new)), atol=1e-5)
    other = script("linear_svm").decisions(X, codes, new, 1.0)
    assert np.abs(other - quick).max() > 1e-2


def test_cross_validated_errors_are_scikit_learns(script: Any) -> None:
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline

    X, codes = clouds()
    machine = make_pipeline(StandardScaler(), LinearSVC(C=0.1, dual=False, tol=1e-8))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    expected = 1 - cross_val_score(machine, X, codes, cv=folds)
    found = script("linear_svm").cross_validated_errors(X, codes.astype(str))
    assert found == pytest.approx(expected.tolist())
    assert 0 < np.mean(found) < 0.5


def write_table(path: Path, authors: range, count: int, length: int = 40) -> None:
    rows = [(f"a{a}", text) for a in authors for text in texts_by(a, count, length)]
    names, texts = zip(*rows, strict=True)
    pq.write_table(pa.table({"author": list(names), "text": list(texts)}), path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four domains and a benchmark, all made up."""
    for number, name in enumerate(("blogs", "hotels", "mail", "forum")):
        write_table(tmp_path / f"{name}_train.parquet", range(100 * number, 100 * number + 70), 3)
    write_table(tmp_path / "blog30.parquet", range(1000, 1003), 10)
    return tmp_path


RECIPE = """
[vocabulary]
n_words = 40
[network]
word_dim = 8
word_hidden = 8
sentence_hidden = 8
lev_dim = 12
gram_dim = 6
[mixture]
blogs = 0.45
hotels = 0.35
mail = 0.1
forum = 0.1
[batch]
authors = 20
views = 2
max_crop = 60
[training]
evaluate_every = 2
"""


def test_ablations_resume_by_record_and_fill_the_card(
    script: Any, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, out, work = data / "recipe.toml", data / "records", data / "work"
    recipe.write_text(RECIPE)
    ablations, evaluate = script("ablations"), script("evaluate")
    monkeypatch.setattr(evaluate, "CORES", 1)
    small = {"authors-1k": ablations.authors(40), "shipped": {"vocabulary": {"n_grams": [60, 40]}}}
    monkeypatch.setattr(ablations, "VARIANTS", {**ablations.VARIANTS, **small})
    command = ["ablations.py", data, "--steps", "2", "--config", recipe, "--work", work]
    command += ["--out", out, "--device", "cpu", "--every", "1", "--only"]
    monkeypatch.setattr(sys, "argv", [str(part) for part in [*command, "base,blogs-only"]])
    ablations.main()
    assert sorted(path.stem for path in out.iterdir()) == ["base", "blogs-only"]
    base, blogs = (
        json.loads((out / f"{name}.json").read_text()) for name in ("base", "blogs-only")
    )
    assert base["steps"] == blogs["steps"] == 2
    assert (base["settings"]["corpora"], blogs["settings"]["corpora"]) == (
        ["blogs", "forum", "hotels", "mail"],
        ["blogs"],
    )
    assert set(blogs["verification"]) == {"blogs", "hotels", "mail", "forum"}
    made = (out / "base.json").stat().st_mtime_ns
    changes = "shipped,base,pairs,no-characters,no-sentences,authors-1k"
    monkeypatch.setattr(sys, "argv", [str(part) for part in [*command, changes]])
    ablations.main()
    assert (out / "base.json").stat().st_mtime_ns == made
    few = json.loads((out / "authors-1k.json").read_text())
    assert few["authors"] < base["authors"]
    shown = capsys.readouterr().out
    assert shown.count("the published pair loss") == 1
    rows = shown.splitlines()[-7:]
    assert rows[0].startswith("| as shipped: the network below and the n-grams beside it")
    assert rows[1].startswith("| no n-grams; batch loss, four domains")
    shipped = json.loads((out / "shipped.json").read_text())
    assert shipped["settings"]["vocabulary"]["n_grams"] == [60, 40]
    assert base["settings"]["vocabulary"]["n_grams"] == [0, 0]
    assert shipped["parameters"] > base["parameters"]
    check_card(script, data, work / "base" / "extractor.safetensors", out, monkeypatch)
    with pytest.raises(SystemExit, match=r"--only names \['x'\]"):
        ablations.chosen_variants("x")


def test_the_network_goes_where_the_texts_are(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training ends on the CPU, evaluation may be on a GPU: a device without memory stands in."""
    evaluate, asked = script("evaluate"), []

    def embed(network: Network, corpus: DeviceCorpus, *bounds: Any, **options: Any) -> Tensor:
        asked.append({t.device.type for t in (*network.state_dict().values(), corpus.tokens)})
        return torch.zeros(2, 3)

    monkeypatch.setattr(evaluate, "CORES", 1)
    monkeypatch.setattr(evaluate, "embed", embed)
    vocabulary = Vocabulary(("the",), ("e", "h", "t"))
    network = Network(Architecture(n_words=1, n_characters=3, standardise=True))
    for device in ("cpu", "meta"):
        evaluate.levs_of(Extractor(network, vocabulary), ["the", "hat"], device, 100)
    assert asked == [{"cpu"}, {"meta"}]


def check_card(
    script: Any, data: Path, weights: Path, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Package the weights, evaluate them, fill a copy of the card."""
    package, card, packaged = script("package"), script("card"), data / "packaged.safetensors"
    monkeypatch.setattr(package, "LENGTHS", (10, 30))
    corpora = [f"--corpus={name}={data}/{name}_train.parquet" for name in ("blogs", "hotels")]
    monkeypatch.setattr(package, "TEXTS_PER_CORPUS", 20)
    command = ["package.py", weights, "--out", packaged, "--device", "cpu", *corpora]
    command += ["--gain", "0.5"]
    monkeypatch.setattr(sys, "argv", [str(part) for part in command])
    package.main()
    assert read_extractor(packaged).card["auc_by_tokens"] == {}  # so few pairs say nothing
    monkeypatch.setattr(package, "FEWEST_PAIRS", 2)
    package.main()
    assert set(read_extractor(packaged).card["auc_by_tokens"]) == {"10", "30"}
    texts = [text for author in range(20) for text in texts_by(author, 3, 40)]
    levs = {path: AdHominem(path, device="cpu").transform(texts) for path in (weights, packaged)}
    spread = {path: np.arctanh(own).std(axis=0).mean() for path, own in levs.items()}
    assert spread[packaged] == pytest.approx(0.5, rel=0.3)
    assert spread[weights] < 0.3
    page = data / "card.md"
    page.write_text((SCRIPTS.parents[1] / "docs" / "model_card.md").read_text(encoding="utf-8"))
    history = weights.parent / "history.jsonl"
    command = ["card.py", "--weights", packaged, "--record", records / "base.json", "--page", page]
    command += ["--ablations", records, "--history", history, "--figure", data / "curves.png"]
    monkeypatch.setattr(sys, "argv", [str(part) for part in command])
    card.main()
    filled = page.read_text(encoding="utf-8")
    assert "the published pair loss" in filled
    assert "| tokens a text | 10 | 30 |" in filled
    assert (data / "curves.png").stat().st_size > 1000
    with pytest.raises(InputError, match="no section between"):
        card.fill("nothing", {"about": "x"})


def test_every_variant_is_a_valid_configuration(script: Any, tmp_path: Path) -> None:
    ablations = script("ablations")
    assert set(ablations.MEANING) == set(ablations.VARIANTS)
    settings = {
        name: json.dumps(
            ablations.config_of(
                name, tmp_path, tmp_path, 1.0, None, SCRIPTS / "shipped.toml"
            ).settings()
        )
        for name in ablations.VARIANTS
    }
    assert len(set(settings.values())) == len(settings)


def test_the_committed_card_is_what_the_records_say(script: Any, tmp_path: Path) -> None:
    """Whoever changes the weights or a record runs card.py again."""
    card = script("card")
    docs, results = SCRIPTS.parents[1] / "docs", SCRIPTS.parent / "results"
    extractor = read_extractor(card.PRETRAINED)
    record = results / "extractor.json"
    runs = [card.read_history(SCRIPTS / name) for name in ("first_history.jsonl", "history.jsonl")]
    page = (docs / "model_card.md").read_text(encoding="utf-8")
    sections = {
        "about": card.about(extractor, card.PRETRAINED.stat().st_size, runs),
        "results": card.results(json.loads(record.read_text()) if record.is_file() else None),
        "short": card.short_texts(extractor.card),
        "ablations": card.ablations(results / "extractor_ablations"),
    }
    assert card.fill(page, sections) == page


def test_a_thinned_material_keeps_whole_authors(script: Any) -> None:
    evaluate = script("evaluate")
    authors = np.repeat(np.arange(4), 3)
    texts = evaluate.Texts([f"{a} {i}" for i, a in enumerate(authors)], authors)
    thin = evaluate.thinned(evaluate.Material(texts, {("x", 1): texts}, {}), every=4, most=5)
    assert thin.blog30.texts == ["0 0", "1 4", "2 8"]
    assert thin.domains["x", 1].authors.tolist() == [0, 0, 0, 1, 1, 1]
    assert evaluate.thinned(thin, every=1, most=10**6).domains["x", 1].texts == [
        text for text in texts.texts if text[0] in "01"
    ]


def tables(script: Any, folder: Path) -> None:
    """The Parquet tables and start weights that pack.py reads, small."""
    for number, file in enumerate(script("pack").TABLES.values()):
        texts = texts_by(number, 3, 12)
        pq.write_table(pa.table({"author": ["é", "b", "b"], "text": texts}), folder / file)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in TABLE.pieces))
    save_file(bert_arrays(), folder / "model.safetensors")


def test_what_is_packed_is_unpacked(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = script("pack")
    tables(script, tmp_path)
    monkeypatch.setattr(pack, "SHARD_BYTES", 100)
    pack.pack(tmp_path, tmp_path, tmp_path / "packed", 13_000)
    folders = sorted((tmp_path / "packed").iterdir())
    assert len(folders) > 1
    assert max(sum(f.stat().st_size for f in own.iterdir()) for own in folders) <= 13_000
    pack.unpack(tmp_path / "packed", tmp_path / "texts")
    rows = [
        json.loads(line)
        for line in (tmp_path / "texts" / "mail.jsonl").read_text().split("\n")[:-1]
    ]
    assert rows == pq.read_table(tmp_path / "mail_train.parquet").to_pylist()
    started = load_file(tmp_path / "texts" / "start.safetensors")
    for name, array in bert_arrays().items():
        np.testing.assert_allclose(started[name], array, atol=2e-3)
    damaged = next(tmp_path.glob("packed/*/mail-000*"))
    damaged.write_bytes(next(tmp_path.glob("packed/*/forum-000*")).read_bytes())
    with pytest.raises(SystemExit, match="mail is damaged"):
        pack.unpack(tmp_path / "packed", tmp_path / "texts")
    damaged.unlink()
    with pytest.raises(SystemExit, match="are missing; send their part"):
        pack.unpack(tmp_path / "packed", tmp_path / "texts")
    pack.unpack(tmp_path / "packed", tmp_path / "some", only=["forum"])
    assert not (tmp_path / "some" / "mail.jsonl").exists()


def test_weights_come_home_in_pieces(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = script("train")
    config = tower_config(tmp_path, training={"steps": 2})
    made = train(config, device="cpu").extractor
    monkeypatch.setattr(module, "PIECE_BYTES", 4000)
    module.bring(config.out, tmp_path / "home")
    assert len(list((tmp_path / "home").glob("weights-*.bin"))) > 10  # the tenth after the ninth
    module.join(tmp_path / "home", tmp_path / "style.safetensors", 16)
    home = read_extractor(tmp_path / "style.safetensors")
    there = read_extractor(config.out / "extractor.safetensors").network.state_dict()
    for name, value in there.items():
        torch.testing.assert_close(home.network.state_dict()[name], value, rtol=0, atol=0)
    assert home.card["step"] == made.card["step"]
    with pytest.raises(SystemExit, match=r"has no weights-0\.bin"):
        module.join(tmp_path, tmp_path / "other.safetensors", 16)


def test_both_towers_are_evaluated_as_they_are_read(script: Any, tmp_path: Path) -> None:
    config = tower_config(tmp_path, training={"steps": 2})
    extractor = train(config, device="cpu").extractor
    texts = [text for author in range(3) for text in texts_by(author, 2, 40)]
    found = script("evaluate").levs_of(extractor, texts, "cpu", 4000)
    read = StyleExtractor(config.out / "extractor.safetensors").transform(texts)
    np.testing.assert_allclose(found, read, atol=0.02)  # the file has half precision


def test_a_weight_of_the_second_tower_goes_into_the_file(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = script("package")
    config = tower_config(tmp_path, training={"steps": 2})
    train(config, device="cpu")
    made, packaged = config.out / "extractor.safetensors", tmp_path / "packaged.safetensors"
    (tmp_path / "about.toml").write_text('[licences]\nstart = "Apache-2.0"\n')
    command = ["package.py", made, "--out", packaged, "--device", "cpu", "--weight", "0.5"]
    command += ["--about", tmp_path / "about.toml"]
    monkeypatch.setattr(sys, "argv", [str(part) for part in command])
    package.main()
    texts = [text for author in range(3) for text in texts_by(author, 2, 40)]
    before, after = (StyleExtractor(path).transform(texts) for path in (made, packaged))
    np.testing.assert_array_equal(after[:, :12], before[:, :12])
    np.testing.assert_allclose(after[:, 12:], 0.5 * before[:, 12:], rtol=1e-5)
    card = read_extractor(packaged).card
    assert (card["second_tower_weight"], card["licences"]["start"]) == (0.5, "Apache-2.0")
    with pytest.raises(SystemExit, match="these weights have none"):
        package.weighed(read_extractor(packaged, small=True), 0.5)


def test_the_tower_weight_is_measured_by_cosine(script: Any, tmp_path: Path) -> None:
    towers = script("tower_weight")
    config = tower_config(tmp_path, training={"steps": 2})
    train(config, device="cpu")
    made = config.out / "extractor.safetensors"
    texts = [text for author in range(12) for text in texts_by(author, 8, 40)]
    sets = {"one": script("evaluate").Texts(texts, np.repeat(np.arange(12), 8))}
    record = towers.measure(made, sets, tmp_path / "start.safetensors", alphas=(0.5,))
    assert record["by weight"]["0"] == record["first tower"]
    means = {weight: own["mean"] for weight, own in record["by weight"].items()}
    assert means[f"{record['best weight']:g}"] == max(means.values())
    assert set(record["linear SVM"]["both towers"]) == {"one"}
    assert set(record["towards the start"]) == {"0.5"}


def test_half_way_to_the_start_is_half_way(script: Any, tmp_path: Path) -> None:
    towers = script("tower_weight")
    extractor = train(tower_config(tmp_path, training={"steps": 3}), device="cpu").extractor
    start = tmp_path / "start.safetensors"
    ends = [towers.towards_start(extractor, start, alpha) for alpha in (0.0, 0.5, 1.0)]
    first, middle, last = (one.network.encoder.state_dict() for one in ends)
    for name, value in extractor.network.encoder.state_dict().items():
        torch.testing.assert_close(last[name], value)
        torch.testing.assert_close(middle[name], (first[name] + value) / 2, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        first["pieces.weight"], bert_arrays()["embeddings.word_embeddings.weight"], atol=1e-6
    )
    assert (first["pieces.weight"] != last["pieces.weight"]).any()


def test_the_committed_card_of_style_is_what_the_records_say(script: Any) -> None:
    """Whoever changes the weights or a record runs style_card.py again."""
    card = script("style_card")
    page = (SCRIPTS.parents[1] / "docs" / "model_card.md").read_text(encoding="utf-8")
    found = card.sections(SCRIPTS.parent / "results")
    assert card.fill(page, found) == page
    other = {**found, "style-few": found["style-few"] + " "}
    assert card.fill(page, other) != page
    measured = json.loads((SCRIPTS.parent / "results" / "extractor_style.json").read_text())
    assert measured["weights_sha256"] == sha256_of(PRETRAINED_STYLE)


def test_a_variant_changes_and_drops_entries(script: Any, tmp_path: Path) -> None:
    module = script("style_ablations")
    variants = tomllib.loads((SCRIPTS / "style_ablations.toml").read_text())
    plan = module.Plan(tmp_path, tmp_path / "work", tmp_path / "out", steps=7, authors=32)
    configs = {name: module.config_of(one, name, plan) for name, one in variants.items()}
    assert {config.batch.authors for config in configs.values()} == {32}
    assert {config.recipe.steps for config in configs.values()} == {7}
    assert configs["both"].encoder.layers == 4
    assert configs["first"].encoder.layers == 0
    assert configs["second"].encoder.alone
    assert configs["random"].start_encoder is None
    # The tables are those of all corpora, which are read once for all variants.
    assert dict(configs["blogs-only"].max_authors) == {"hotels": 0, "mail": 0, "forum": 0}
    assert configs["blogs-only"].mixture == {}
    settings = {name: json.dumps(config.settings()) for name, config in configs.items()}
    assert len(set(settings.values())) == len(settings)


def test_problems_are_scored_by_the_mean_of_their_known_texts(script: Any) -> None:
    measure = script("measure")
    problems = [
        measure.Problem("a", ["x", "y"], "z", True),
        measure.Problem("a", ["x"], "y", False),
    ]
    vectors = np.array([[1.0, 0], [0, 1], [2, 2], [1, 0], [0, 3]])
    np.testing.assert_allclose(measure.pan_scores(problems, vectors), [1, 0], atol=1e-12)
    assert measure.pan_aucs(problems, np.array([0.9, 0.1])) == {"a": 1.0}
    assert measure.pan_aucs(problems, np.array([0.1, 0.9])) == {"a": 0.0}


def test_draws_never_ask_what_was_learnt(script: Any) -> None:
    measure = script("measure")
    authors = np.repeat(["a", "b"], 40)
    learnt, asked = measure.draw(authors, 3, 0)
    assert (len(learnt), len(asked)) == (6, 40)
    assert not set(learnt) & set(asked)
    assert set(measure.draw(authors, 3, 1)[0]) != set(learnt)


def test_vectors_beside_n_grams_count_by_their_weight(
    script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, authors = script("measure"), np.repeat(np.arange(4), 12)
    texts = script("evaluate").Texts([texts_by(0, 1, 30)[0]] * 48, authors)  # n-grams know nothing
    monkeypatch.setattr(measure, "DRAWS", 2)
    known = {"who": np.eye(4)[authors], "none": np.random.default_rng(0).normal(size=(48, 4))}
    found = measure.few_texts(texts, known, sizes=(3,), weights=(0.0, 1.0))["3"]
    assert set(found) == {"n-grams", "who, 0", "who, 1", "none, 0", "none, 1"}
    assert found["who, 0"] == found["none, 0"] == found["n-grams"]
    assert found["who, 1"] == [0.0, 0.0]
    assert min(found["n-grams"] + found["none, 1"]) > 0.5


def test_only_authors_with_enough_texts_are_drawn(script: Any) -> None:
    module = script("hybrid_weight")
    authors = np.repeat([3, 5, 9], [8, 7, 10])
    kept = module.with_enough(script("evaluate").Texts([str(a) for a in authors], authors))
    assert set(kept.authors) == {3, 9}
    assert kept.texts == [str(a) for a in kept.authors]
    cells = {"blogs": {"3": {"a": [0.2, 0.4]}, "5": {"a": [0.0, 0.2]}}}
    assert module.means(cells) == pytest.approx({"a": 0.2})
