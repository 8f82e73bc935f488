"""What the code is asked, by the public names alone: the answers are kept in ``answers.json``.

A case is a function without arguments that returns plain values by name. ``make.py`` files what
they return; ``test_golden.py`` asks again and compares.
"""

from __future__ import annotations

import json
import platform
import re
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.datasets import make_blobs

from whowrote import (
    AdHominem,
    Attributor,
    Corpus,
    Hybrid,
    MixtureVAEClassifier,
    MixtureVAEClusterer,
    NGrams,
)
from whowrote.baselines import (
    RBFSVM,
    BurrowsDelta,
    GaussianMixtureClassifier,
    LinearSVM,
    NGramSVM,
    StudentTMixtureClassifier,
)
from whowrote.sweep import sweep

try:
    from whowrote.corpus.splits import folds
except ImportError:
    from whowrote.splits import folds

HERE = Path(__file__).parent
ANSWERS, TEXTS = HERE / "answers.json", HERE / "texts.json"
CLASSIFIER, NGRAMS, HYBRID = HERE / "classifier.safetensors", HERE / "ngrams", HERE / "hybrid"
EXTRACTOR = "extractor.safetensors"
NAMES = np.array(["ann", "bob", "cyd"])
ASKED = slice(0, 6)
# In float64, so that the rounding of another processor stays below what is compared.
QUICK: dict[str, Any] = {
    "hidden": 8,
    "learning_rate": 0.02,
    "max_epochs": 10,
    "batch_size": 32,
    "dropout": 0.1,
    "dtype": "float64",
    "device": "cpu",
    "random_state": 0,
}
FROM_RANDOM: dict[str, Any] = {**QUICK, "start": "random"}
"""As the classifier learnt before it could begin with a regression."""
DIGITS = 12
SHORT = "It was the best of times."
Plain = dict[str, Any]
CASES: dict[str, Callable[[], Plain]] = {}


def case(question: Callable[[], Plain]) -> Callable[[], Plain]:
    CASES[question.__name__] = question
    return question


def machine() -> str:
    """What decides how numbers are rounded: kind of processor, and who does the algebra."""
    about = Path("/proc/cpuinfo")
    maker = re.search(r"vendor_id\s*:\s*(\w+)", about.read_text() if about.is_file() else "")
    kind = torch.backends.cpu.get_cpu_capability()
    versions = f"torch {torch.__version__}, numpy {np.__version__}"
    return f"{platform.machine()} {maker and maker[1]} {kind}, {versions}"


def plain(value: Any) -> Any:
    """Lists, numbers and names; numbers with more digits than are compared."""
    match value:
        case dict():
            return {str(name): plain(one) for name, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case float():
            return float(f"{value:.{DIGITS}g}")
        case _:
            return value


# -- vectors -------------------------------------------------------------------------------------


def blobs() -> tuple[np.ndarray, np.ndarray]:
    """Three authors who overlap, so that probabilities are neither 0 nor 1."""
    X, codes = make_blobs(
        [70, 60, 50], n_features=4, cluster_std=6.0, center_box=(-8.0, 8.0), random_state=3
    )
    return X, codes


def wide() -> tuple[sparse.csr_matrix, np.ndarray]:
    """Sparse rows of 60 columns, of which each author prefers some."""
    random = np.random.default_rng(5)
    codes = np.arange(150) % 3
    likes = random.dirichlet(np.full(60, 4.0), size=3)
    counts = np.stack([random.multinomial(20, likes[code]) for code in codes])
    return sparse.csr_matrix(np.log1p(counts)), codes


def classified(model: MixtureVAEClassifier, X: Any) -> Plain:
    """Everything a classifier answers, for a handful of rows."""
    rows = X[ASKED]
    drawn, own = model.sample(4, random_state=1), model.sample(2, model.classes_[1], random_state=2)
    return {
        "classes": model.classes_,
        "predict": model.predict(rows),
        "predict_proba": model.predict_proba(rows),
        "transform": model.transform(rows),
        "score_samples": model.score_samples(rows),
        "bound": model.bound(rows),
        "typicality": model.typicality(rows, calibrated=False),
        "log_densities": model.log_densities(rows),
        "expected_scales": model.expected_scales(rows),
        "degrees_of_freedom": model.degrees_of_freedom_,
        "weights": model.weights_,
        "means": model.means_,
        "sample": drawn.observations,
        "sample_classes": drawn.classes,
        "sample_latents": drawn.latents,
        "sample_scales": drawn.scales,
        "sample_of_one": own.observations,
        "epochs": model.n_iter_,
    }


def fitted(X: Any, y: Any, fold_of: Any = None, **settings: Any) -> Plain:
    return classified(
        MixtureVAEClassifier(**{**FROM_RANDOM, **settings}).fit(X, y, folds=fold_of), X
    )


@case
def student_t() -> Plain:
    X, codes = blobs()
    return fitted(X, NAMES[codes])


@case
def single_precision() -> Plain:
    """At the default precision and otherwise default settings, but for the epochs."""
    X, codes = blobs()
    model = MixtureVAEClassifier(start="random", max_epochs=10, device="cpu", random_state=0)
    return classified(model.fit(X, NAMES[codes]), X)


@case
def gaussian() -> Plain:
    X, codes = blobs()
    return fitted(X, NAMES[codes], component="gaussian")


@case
def algorithm_1() -> Plain:
    X, codes = blobs()
    return fitted(X, NAMES[codes], objective="algorithm-1")


@case
def semi_supervised() -> Plain:
    X, codes = blobs()
    names = np.where(np.arange(len(codes)) % 3 == 0, NAMES[codes].astype(object), None)
    return fitted(X, names, warm_up=6)


@case
def semi_supervised_by_number() -> Plain:
    X, codes = blobs()
    return fitted(X, np.where(np.arange(len(codes)) % 2 == 0, codes, -1), component="gaussian")


@case
def members_by_folds() -> Plain:
    X, codes = blobs()
    fold_of = np.empty(len(codes), dtype=int)
    for number, split in enumerate(folds(codes.tolist(), n_folds=3)):
        fold_of[list(split.held_out)] = number
    model = MixtureVAEClassifier(**FROM_RANDOM, n_members=3).fit(X, NAMES[codes], folds=fold_of)
    alone = [model.member(number).predict_proba(X[ASKED]) for number in range(3)]
    return {**classified(model, X), "folds": fold_of[ASKED], "members": alone}


@case
def joint_score_alone() -> Plain:
    X, codes = blobs()
    return fitted(X, NAMES[codes], label_weight=0.0, l1=0.001, n_samples=2)


@case
def wide_sparse() -> Plain:
    X, codes = wide()
    return fitted(X, NAMES[codes], projection_dim=12)


@case
def narrow_sparse() -> Plain:
    X, codes = wide()
    return fitted(X, NAMES[codes], latent_dim=5, activation="relu", hidden=(8, 6))


@case
def clusters() -> Plain:
    X, _ = make_blobs([70, 60, 50], n_features=4, cluster_std=2.5, random_state=3)
    settings = {"max_epochs": 10, "warm_up": 5, "hidden": 16, "dtype": "float64", "device": "cpu"}
    model = MixtureVAEClusterer(3, **settings, random_state=0).fit(X)
    return {
        "labels": model.labels_,
        "predict": model.predict(X[ASKED]),
        "predict_proba": model.predict_proba(X[ASKED]),
        "degrees_of_freedom": model.degrees_of_freedom_,
        "score": model.score(X),
    }


@case
def grid() -> Plain:
    X, codes = blobs()
    grids = {**QUICK, "latent_dim": [2, 3], "component": ["student-t", "gaussian"]}
    for name in ("dtype", "device", "random_state"):
        del grids[name]
    splits = folds(codes.tolist(), n_folds=2)
    with tempfile.TemporaryDirectory() as out:
        options = {"out": out, "device": "cpu", "dtype": "float64"}
        records = list(sweep(grids, X, NAMES[codes], splits, **options))
    figures = ("development_error", "development_log_loss", "test_error", "test_log_loss")
    return {
        f"{one.configuration['component']} D={one.configuration['latent_dim']} fold={one.fold}": {
            **{name: getattr(one, name) for name in figures},
            "df": one.df,
            "epochs": [one.epochs, one.best_epoch],
        }
        for one in sorted(records, key=lambda one: (str(one.configuration), one.fold))
    }


@case
def baselines_on_vectors() -> Plain:
    X, codes = blobs()
    machines = (LinearSVM(), RBFSVM(), GaussianMixtureClassifier(), StudentTMixtureClassifier())
    return {
        type(machine).__name__: machine.fit(X, NAMES[codes]).predict_proba(X[ASKED])
        for machine in machines
    }


# -- texts ---------------------------------------------------------------------------------------


@cache
def texts() -> dict[str, list[dict[str, str]]]:
    """Excerpts of addresses: ``known``, ``asked``, and ``new`` ones by somebody else."""
    found: dict[str, list[dict[str, str]]] = json.loads(TEXTS.read_text(encoding="utf-8"))
    return found


def written(part: str) -> list[str]:
    return [one["text"] for one in texts()[part]]


def authors(part: str) -> list[str]:
    return [one["author"] for one in texts()[part]]


def corpus(part: str) -> Corpus:
    return Corpus.from_texts(written(part), authors(part), ids=[one["id"] for one in texts()[part]])


def project(rows: Any) -> Plain:
    """Norms of rows and their products with fixed columns: wide rows in a few numbers."""
    random = np.random.default_rng(11)
    columns = random.normal(size=(rows.shape[1], 3))
    squares = rows.multiply(rows).sum(axis=1) if sparse.issparse(rows) else (rows**2).sum(axis=1)
    return {
        "shape": list(rows.shape),
        "norms": np.sqrt(np.asarray(squares, dtype=np.float64)).ravel(),
        "products": np.asarray(rows @ columns),
    }


@case
def style_vectors() -> Plain:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "1 of .* texts have fewer than 20 tokens", UserWarning)
        rows = AdHominem(device="cpu").transform([*written("asked"), SHORT])
    return {**project(rows), "first": rows[:, :5]}


@case
def n_grams() -> Plain:
    features = NGrams().fit(written("known"))
    names = features.get_feature_names_out()
    return {
        "known": project(features.transform(written("known")[:3])),
        "asked": project(features.transform(written("asked"))),
        "names": names[:: len(names) // 7].tolist(),
    }


@case
def hybrid_rows() -> Plain:
    features = Hybrid(AdHominem(device="cpu")).fit(written("known"))
    return project(features.transform(written("asked")))


def told(answers: Sequence[Any]) -> list[Plain]:
    """Records without the version, and without the hash of every bit that was learnt."""
    plain = [json.loads(answer.to_json()) for answer in answers]
    for one in plain:
        del one["model"]["version"], one["model"]["id"]
    return plain


def answered(model: Attributor) -> Plain:
    """Everything an attributor answers."""
    asked = corpus("asked")
    first, second = asked.texts[:2]
    with tempfile.TemporaryDirectory() as folder:
        again = Attributor.load(model.save(Path(folder) / "model"))
        twin = told(again.attribute(asked.subset([0])))
    return {
        "classes": model.classes_,
        "predict": model.predict(asked.texts),
        "predict_proba": model.predict_proba(asked.texts),
        "attribute": told(model.attribute(asked)),
        "short": told(model.attribute([SHORT])),
        "verify": asdict(model.verify(first, second)),
        "verify the same": asdict(model.verify(first, first)),
        "enrolled": told(model.enroll(corpus("new")).attribute(asked)),
        "loaded": twin,
    }


def small(features: Any, **settings: Any) -> Attributor:
    """An attributor whose folder is small."""
    model = MixtureVAEClassifier(**{**FROM_RANDOM, "n_members": 2, "batch_size": 8, **settings})
    return Attributor(features, model, passage_words=150).fit(corpus("known"))


def few_n_grams() -> NGrams:
    return NGrams(max_features=(1200, 600))


@case
def attributor_n_grams() -> Plain:
    return answered(small("ngrams"))


@case
def attributor_hybrid() -> Plain:
    return answered(small(Hybrid(AdHominem(device="cpu"))))


@case
def attributor_n_grams_by_default() -> Plain:
    return answered(Attributor("ngrams").fit(corpus("known")))


@case
def attributor_of_many_texts() -> Plain:
    """So many that typicality is a rank, with a prior by the number of texts."""
    pieces, names = [], []
    for text, author in zip(written("known"), authors("known"), strict=True):
        words = text.split()
        some = [" ".join(words[low : low + 24]) for low in range(0, len(words) - 23, 24)]
        pieces += some
        names += [author] * len(some)
    model = MixtureVAEClassifier(**{**FROM_RANDOM, "n_members": 3, "component": "gaussian"})
    return answered(Attributor("ngrams", model, prior="training").fit(pieces, names))


@case
def attributor_by_default() -> Plain:
    return answered(Attributor().fit(corpus("known")))


@case
def baselines_on_texts() -> Plain:
    return {
        type(machine).__name__: machine.fit(written("known"), authors("known")).predict_proba(
            written("asked")
        )
        for machine in (NGramSVM(), BurrowsDelta())
    }
