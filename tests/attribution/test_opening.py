"""A model opened to answer: what the attributor says, without what it learns with."""

from pathlib import Path

import pytest

from attribution.people import corpus, strangers, texts_by
from loading import loaded
from whowrote.attribution import Attributor
from whowrote.attribution.storage import load

NEW = [*corpus(4, 2, seed=1)[0], *strangers(1), texts_by(0, 1, words=1000, seed=2)[0], "so short"]
NOT_NEEDED = (
    *("sklearn", "pandas", "scipy.stats", "scipy.optimize", "matplotlib", "pyarrow"),
    *("py3langid", "joblib", "sympy", "torch._dynamo", "whowrote.training.loop"),
)


@pytest.fixture
def folder(hybrid: Attributor, tmp_path: Path) -> Path:
    (tmp_path / "new.txt").write_text(NEW[0], encoding="utf-8")
    return hybrid.save(tmp_path / "model")


@pytest.mark.parametrize("kind", ["model", "hybrid", "dense"])
def test_it_gives_equal_answers(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    model: Attributor = request.getfixturevalue(kind)
    opened = load(model.save(tmp_path / "model"))
    assert opened.attribute(NEW) == model.attribute(NEW)
    assert opened.identity() == model.identity()
    assert opened.predict(NEW).tolist() == model.predict(NEW).tolist()
    assert opened.verify(*NEW[:2]) == model.verify(*NEW[:2])


def test_limit_and_prior_come_along(tmp_path: Path) -> None:
    model = Attributor("ngrams", none_below=0.5, prior="training").fit(*corpus(2, 3))
    opened = load(model.save(tmp_path / "model"))
    assert (opened.none_below, opened.prior) == (0.5, "training")
    assert opened.attribute(NEW) == model.attribute(NEW)


def test_an_answer_loads_nothing_that_only_learning_needs(folder: Path) -> None:
    new = folder.parent / "new.txt"
    assert loaded(NOT_NEEDED, "attribute", folder, new) == []
    assert loaded(NOT_NEEDED, "verify", folder, new, new) == []


def test_what_a_whole_attributor_loads_is_seen(folder: Path) -> None:
    """Negative control: who can learn has loaded it."""
    before = "from whowrote.attribution.attributor import Attributor\n"
    seen = loaded(NOT_NEEDED, "inspect", folder, before=before)
    assert {"sklearn", "scipy.stats", "whowrote.training.loop"} <= set(seen)
