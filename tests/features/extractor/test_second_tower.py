"""Both towers learn together, resume to the step, and answer from one file in two sizes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from features.made_up import small_config, texts_by, write_corpus
from features.towers import TABLE, tower_config
from whowrote.arrays import IntArray
from whowrote.errors import InputError
from whowrote.features import AdHominem, StyleExtractor, adhominem, encoder, reading
from whowrote.features.adhominem import MOST_FOR_LARGE, PRETRAINED_STYLE
from whowrote.features.extractor.driver import Outcome, train
from whowrote.features.extractor.losses import imitation
from whowrote.features.extractor.run import WEIGHTS, Run
from whowrote.features.fitted_features import restore_features
from whowrote.features.kinds import named, with_settings
from whowrote.features.network import Architecture
from whowrote.features.reading import read_extractor, write_extractor
from whowrote.features.streaming import Choice, embed_corpus
from whowrote.files import sha256_of

GRAMS = {"vocabulary": {"n_grams": [60, 30]}, "network": {"gram_dim": 6, "lev_gain": 0.5}}
TEXTS = [text for author in range(900, 904) for text in texts_by(author, 2, 50)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with weights of a short run."""
    folder = tmp_path_factory.mktemp("towers")
    train(tower_config(folder, training={"tower_weight": 0.5, "imitation": 0.5}, **GRAMS))
    return folder / "out"


def states(outcome: Outcome) -> dict[str, torch.Tensor]:
    return outcome.extractor.network.state_dict()


def test_both_towers_learn_the_habits_of_authors_they_never_saw(tmp_path: Path) -> None:
    write_corpus(tmp_path / "one.csv", range(400))
    write_corpus(tmp_path / "two.csv", range(1000, 1040))
    training = {"steps": 120, "evaluate_every": 120, "learning_rate": 0.005, "tower_weight": 0.5}
    config = tower_config(tmp_path, training=training, batch={"authors": 48})
    last = train(config, device="cpu").history[-1]
    untrained = tower_config(tmp_path, training={"steps": 1, "learning_rate": 1e-9}, out="none")
    before = train(untrained, device="cpu").history[-1]
    assert last.auc["one"] > 0.8
    for tower in ("small", "encoder"):
        assert last.towers[tower]["one"] > before.towers[tower]["one"] + 0.02


def test_an_interrupted_run_of_two_towers_ends_like_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"training": {"tower_weight": 0.3, "imitation": 0.2}, **GRAMS}
    whole = train(tower_config(tmp_path, out="whole", **options), device="cpu")
    config = tower_config(tmp_path, out="parts", **options)
    learn = Run.learn

    def falter(run: Run, share: float) -> int:
        if run.step == 5:
            raise KeyboardInterrupt
        documents = learn(run, share)
        if run.step == 3:
            run.count_step(documents, 0.0)
            run.save()
            run._since.steps -= 1
        return documents

    monkeypatch.setattr(Run, "learn", falter)
    with pytest.raises(KeyboardInterrupt):
        train(config, device="cpu")
    monkeypatch.setattr(Run, "learn", learn)
    resumed = train(config, device="cpu")
    assert resumed.step == whole.step
    for name, value in states(whole).items():
        torch.testing.assert_close(states(resumed)[name], value, rtol=0, atol=0)
    assert [r.loss for r in resumed.history] == [r.loss for r in whole.history]
    other = train(tower_config(tmp_path, out="other", training={"seed": 1}, **GRAMS), device="cpu")
    assert any((states(other)[name] != v).any() for name, v in states(whole).items())


def test_a_checkpoint_of_another_tower_is_refused(tmp_path: Path) -> None:
    train(tower_config(tmp_path), device="cpu")
    with pytest.raises(InputError, match="the checkpoint was made with encoder"):
        train(tower_config(tmp_path, encoder={"marks": False}), device="cpu")


def test_the_tower_starts_in_the_given_weights(tmp_path: Path) -> None:
    config = tower_config(tmp_path, training={"steps": 1, "learning_rate": 1e-12})
    network = train(config, device="cpu").extractor.network
    from features.towers import SHAPE, bert_arrays
    from whowrote.features.encoder import bert_state

    assert network.encoder is not None
    for name, value in bert_state(bert_arrays(), SHAPE).items():
        torch.testing.assert_close(network.encoder.state_dict()[name], value)


def test_tables_of_earlier_weights_are_kept(folder: Path, tmp_path: Path) -> None:
    start = folder / WEIGHTS
    options = {"start": str(start), "start_tables": True, **GRAMS}
    config = tower_config(tmp_path, training={"steps": 1, "learning_rate": 1e-12}, **options)
    before, after = read_extractor(start), train(config, device="cpu").extractor
    assert after.vocabulary == before.vocabulary
    assert after.ngrams is not None
    assert before.ngrams is not None
    for name, array in before.ngrams.state().items():
        np.testing.assert_array_equal(after.ngrams.state()[name], array)
    with pytest.raises(InputError, match="start_tables is true and there is no start"):
        tower_config(tmp_path, start_tables=True)


def test_sizes_answer_from_one_file(folder: Path) -> None:
    large = StyleExtractor(folder / WEIGHTS, size="large").transform(TEXTS)
    small = StyleExtractor(folder / WEIGHTS, size="small").transform(TEXTS)
    assert (large.shape, small.shape) == ((8, 22), (8, 12))
    np.testing.assert_array_equal(large[:, :12], small)
    again = StyleExtractor(folder / WEIGHTS).transform(TEXTS)
    np.testing.assert_array_equal(again, large)


def test_a_vector_does_not_depend_on_the_other_texts(folder: Path) -> None:
    extractor = StyleExtractor(folder / WEIGHTS)
    alone = np.concatenate([extractor.transform([text]) for text in TEXTS])
    np.testing.assert_allclose(extractor.transform(TEXTS), alone, atol=1e-5)


def test_auto_is_large_for_few_texts_and_small_for_many(folder: Path) -> None:
    few, many = TEXTS, TEXTS[:1] * (MOST_FOR_LARGE + 1)
    for texts, size in ((few, "large"), (many, "small")):
        made = StyleExtractor(folder / WEIGHTS).fit(texts).fitted()
        assert made.size == size
    assert len(StyleExtractor(folder / WEIGHTS).fit(many).get_feature_names_out()) == 12


def weighed(path: Path, weight: float, out: Path) -> Path:
    """The same weights in a file that says how much the second tower counts."""
    extractor = read_extractor(path)
    network = extractor.network
    assert network.encoder is not None
    shape = replace(network.architecture.encoder, weight=weight)
    network.architecture = replace(network.architecture, encoder=shape)
    write_extractor(out, extractor)
    return out


def test_the_second_tower_counts_by_its_weight(folder: Path, tmp_path: Path) -> None:
    whole = StyleExtractor(folder / WEIGHTS).transform(TEXTS)
    light = StyleExtractor(weighed(folder / WEIGHTS, 0.25, tmp_path / "light")).transform(TEXTS)
    np.testing.assert_array_equal(light[:, :12], whole[:, :12])
    np.testing.assert_allclose(light[:, 12:], 0.25 * whole[:, 12:], rtol=1e-6)
    with pytest.raises(InputError, match=r"weight is 0; it must be above 0"):
        weighed(folder / WEIGHTS, 0, tmp_path / "none")


def test_files_that_say_no_weight_have_the_weight_one(folder: Path) -> None:
    plain = read_extractor(folder / WEIGHTS).network.architecture.to_dict()
    assert plain["encoder"].pop("weight") == 1
    assert Architecture.from_dict(plain).encoder.weight == 1
    assert Architecture.from_dict(plain | {"encoder": {"weight": 0.5}}).encoder.weight == 0.5


def test_the_first_tower_has_attention(folder: Path) -> None:
    found = StyleExtractor(folder / WEIGHTS).attention(TEXTS[0])
    assert sum(word.weight for word in found.words) == pytest.approx(1)


def test_eight_bits_keep_the_vectors(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SMALLEST_MATRIX", 64)
    extractor = read_extractor(folder / WEIGHTS)
    write_extractor(tmp_path / "eight", extractor, bits=8)
    assert (tmp_path / "eight").stat().st_size < (folder / WEIGHTS).stat().st_size
    before, after = (
        StyleExtractor(path).transform(TEXTS) for path in (folder / WEIGHTS, tmp_path / "eight")
    )
    cosines = (before * after).sum(1) / np.linalg.norm(before, axis=1)
    assert (cosines / np.linalg.norm(after, axis=1)).min() > 0.99
    with pytest.raises(InputError, match="bits is 4"):
        write_extractor(tmp_path / "four", extractor, bits=4)


def test_a_model_folder_refuses_other_weights(folder: Path, tmp_path: Path) -> None:
    fitted = StyleExtractor(folder / WEIGHTS).fit(TEXTS).fitted()
    stored = fitted.stored()
    for name, path in stored.files.items():
        (tmp_path / name).write_bytes(path.read_bytes())
    restored = restore_features(stored.values, stored.arrays, tmp_path)
    np.testing.assert_array_equal(restored.transform(TEXTS), fitted.transform(TEXTS))
    anew = with_settings(stored.values)
    assert isinstance(anew, StyleExtractor)
    assert anew.size == "large"
    write_extractor(tmp_path / WEIGHTS, read_extractor(folder / WEIGHTS, small=True))
    with pytest.raises(InputError, match="a model answers by its own weights alone"):
        restore_features(stored.values, stored.arrays, tmp_path)


def test_sentences_on_what_is_missing(folder: Path, tmp_path: Path) -> None:
    one = read_extractor(folder / WEIGHTS, small=True)
    write_extractor(tmp_path / "one", one)
    with pytest.raises(InputError, match="have one tower and size is 'large'"):
        StyleExtractor(tmp_path / "one").transform(TEXTS)
    with pytest.raises(InputError, match="size is 'huge'"):
        StyleExtractor(folder / WEIGHTS, size="huge").transform(TEXTS)
    with pytest.raises(InputError, match="no pieces are named"):
        small_config(tmp_path, encoder={"layers": 2, "depths": [0, 2]})
    vectors = AdHominem(folder / WEIGHTS).transform(TEXTS)  # reads both towers, as the file has
    assert vectors.shape == (8, 22)


def test_imitation_is_least_where_the_student_is_the_teacher() -> None:
    teacher = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
    domains, scale = torch.arange(12) % 2, torch.tensor(10.0)
    student = teacher.clone().requires_grad_()
    least = imitation(student, teacher, domains, scale)
    torch.autograd.backward(least)
    assert student.grad is not None
    assert student.grad.abs().max() < 1e-5
    assert imitation(teacher.roll(1, 0), teacher, domains, scale) > least + 0.1


def test_pieces_of_a_batch_are_of_its_documents(tmp_path: Path) -> None:
    from whowrote.features.extractor.batches import AuthorBatches
    from whowrote.features.extractor.driver import load_for
    from whowrote.features.extractor.run import Processes

    config = tower_config(tmp_path)
    prepared = load_for(config, Processes())
    assert prepared.pieces is not None
    assert prepared.table is not None
    assert prepared.table.pieces == TABLE.pieces
    batches = AuthorBatches(prepared, config.batch, 0)
    crops = batches.draw(3)
    drawn = batches.draw_pieces(3, crops.documents, 15)
    offsets, owner = prepared.pieces.offsets, crops.documents[drawn.text]
    assert (drawn.starts >= offsets[owner]).all()
    assert (drawn.starts + drawn.lengths <= offsets[owner + 1]).all()
    assert drawn.lengths.max() <= 15
    crop = np.bincount(drawn.text, drawn.lengths)
    assert ((crop >= 20) & (crop <= 40)).all()
    assert (batches.draw_pieces(3, crops.documents, 15).starts == drawn.starts).all()
    assert (batches.draw_pieces(4, crops.documents, 15).starts[:9] != drawn.starts[:9]).any()


def test_the_second_tower_can_stand_alone(tmp_path: Path) -> None:
    config = tower_config(tmp_path, encoder={"alone": True}, training={"tower_weight": 0.5})
    outcome = train(config, device="cpu")
    assert outcome.history[-1].towers == {}
    vectors = StyleExtractor(config.out / WEIGHTS).transform(TEXTS)
    assert vectors.shape == (8, 10)
    optimised = (config.out / "checkpoint.json").read_text()
    assert '"alone": true' in optimised


def test_without_layers_there_is_one_tower_as_before(tmp_path: Path) -> None:
    plain = train(small_config(tmp_path, out="plain"), device="cpu")
    none = train(small_config(tmp_path, out="none", encoder={"layers": 0}), device="cpu")
    assert states(plain).keys() == states(none).keys()
    for name, value in states(plain).items():
        torch.testing.assert_close(states(none)[name], value, rtol=0, atol=0)


def test_a_corpus_is_embedded_in_either_size(folder: Path, tmp_path: Path) -> None:
    write_corpus(tmp_path / "texts.csv", range(3), count=2)
    found = {}
    for size in ("large", "small"):
        choice = Choice("style", str(folder / WEIGHTS), "cpu", size)
        done = embed_corpus(tmp_path / "texts.csv", tmp_path / f"{size}.parquet", choice)
        found[size] = done.dimensions
        assert choice.identity()["size"] == size
    by_rule = Choice("style", str(folder / WEIGHTS), "cpu", "auto")
    assert by_rule.identity() == Choice("style", str(folder / WEIGHTS), "cpu", "large").identity()
    assert found == {"large": 22, "small": 12}


def test_without_packaged_weights_there_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adhominem, "PRETRAINED_STYLE", tmp_path / "none")
    with pytest.raises(InputError, match="has no weights in this version of the package"):
        StyleExtractor().transform(TEXTS)


# -- the packaged weights ------------------------------------------------------------------------


def test_packaged_weights_answer_in_both_sizes_and_are_small() -> None:
    large, small = (StyleExtractor(size=s, device="cpu") for s in ("large", "small"))
    vectors = large.transform(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((8, 400), np.float32)
    np.testing.assert_array_equal(small.transform(TEXTS), vectors[:, :200])
    assert np.abs(vectors[:, :200] - AdHominem(device="cpu").transform(TEXTS)).max() > 0.01
    assert isinstance(named("style"), StyleExtractor)
    names = [len(one.get_feature_names_out()) for one in (large, small)]
    assert names == [400, 200]
    files = PRETRAINED_STYLE.parent.glob("*.safetensors")
    assert sum(file.stat().st_size for file in files) < 60e6


def test_packaged_weights_do_not_see_the_other_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [texts_by(author, 1, 15 + 2 * author)[0] for author in range(0, 60, 3)]
    extractor = StyleExtractor(device="cpu")

    def differences() -> float:
        together, turned = extractor.transform(texts), extractor.transform(texts[::-1])[::-1]
        alone = np.concatenate([extractor.transform([text]) for text in texts])
        return float(max(np.abs(together - other).max() for other in (alone, turned)))

    assert differences() < 5e-5

    def to_the_longest(lengths: IntArray, most: int) -> IntArray:
        return np.full_like(lengths, lengths.max())

    monkeypatch.setattr(encoder, "padded", to_the_longest)
    assert differences() > 5e-5  # padding by company moves what is rounded to 8 bits


def test_the_card_says_terms_limits_and_the_chosen_weight() -> None:
    card = StyleExtractor(device="cpu").card()
    assert card["licences"]["start"] == "Apache-2.0"
    assert set(card["data"]) == set(card["settings"]["corpora"])
    assert "no ages" in card["limits"]["ages"]
    assert set(card["auc_by_tokens"]) == {"10", "20", "50", "100", "250"}
    results = Path(__file__).parents[3] / "experiments" / "results"
    towers = json.loads((results / "extractor_towers.json").read_text())
    assert towers["authors"] == "development"  # nobody whom a result is reported on
    shape = read_extractor(PRETRAINED_STYLE).network.architecture.encoder
    assert shape.weight == card["second_tower_weight"] == towers["best weight"]


@pytest.mark.parametrize("size", ["large", "small"])
def test_a_model_of_packaged_weights_names_them_and_refuses_others(
    size: str, tmp_path: Path
) -> None:
    fitted = StyleExtractor(size=size, device="cpu").fit(TEXTS).fitted()
    stored = fitted.stored()
    assert stored.values["weights_sha256"] == sha256_of(PRETRAINED_STYLE)
    assert stored.values["size"] == size
    copy = tmp_path / WEIGHTS
    copy.write_bytes(PRETRAINED_STYLE.read_bytes())
    restored = restore_features(stored.values, stored.arrays, tmp_path)
    np.testing.assert_array_equal(restored.transform(TEXTS[:2]), fitted.transform(TEXTS[:2]))
    weighed(PRETRAINED_STYLE, 0.5, copy)
    with pytest.raises(InputError, match="a model answers by its own weights alone"):
        restore_features(stored.values, stored.arrays, tmp_path)
