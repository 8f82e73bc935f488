r"""Prepared corpora on disk: :math:`\text{name} = H(\text{settings}, \text{bytes of the files})`.

Who trains again on the same files with the same tables tokenises nothing. Tokens and n-grams have
files of their own, so that runs with other n-grams share the tokens.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from whowrote import persistence
from whowrote.cores import usable_cores
from whowrote.errors import InputError
from whowrote.features.bag import GramRows
from whowrote.features.counting import FittedNGrams
from whowrote.features.preparation import (
    SHARES,
    Prepared,
    choose_ngrams,
    prepare,
    read_domain,
    rows_of,
)
from whowrote.features.vocabulary import Types, VocabularySettings, vocabulary_from

FORMAT = 1
_ARRAYS = ("tokens", "offsets", "authors", "domain_of", "part")


def load_or_prepare(
    corpora: Mapping[str, Path],
    settings: VocabularySettings,
    cache: Path,
    *,
    min_texts: int = 2,
    workers: int | None = None,
) -> Prepared:
    """The prepared corpus, from the cache if these files and settings were prepared before."""
    if not corpora:
        raise InputError("[corpora] is empty; name at least one file: blogs = 'blogs.parquet'")
    for name, path in corpora.items():
        if not path.exists():
            raise InputError(f"corpus '{name}' is not there: '{path}'; correct the path")
    workers, key = workers or usable_cores(), _key(corpora, settings, min_texts)
    target = cache / f"prepared-{key}.safetensors"
    if target.is_file():
        prepared = read_prepared(target)
    else:
        domains = (read_domain(name, path, min_texts) for name, path in corpora.items())
        prepared = prepare(domains, settings, workers)
        write_prepared(target, prepared)
    if not any(settings.n_grams):
        return prepared
    target = cache / f"ngrams-{key}-{'-'.join(map(str, settings.n_grams))}.safetensors"
    if not target.is_file():
        read = [read_domain(name, path, min_texts) for name, path in corpora.items()]
        ngrams = choose_ngrams(read, settings.n_grams, workers)
        rows = rows_of([text for domain in read for text in domain.texts], ngrams, workers)
        write_rows(target, ngrams, rows)
    ngrams, rows = read_rows(target)
    return replace(prepared, ngrams=ngrams, rows=rows)


def _key(corpora: Mapping[str, Path], settings: VocabularySettings, min_texts: int) -> str:
    words = {name: value for name, value in asdict(settings).items() if name != "n_grams"}
    digest = hashlib.sha256(json.dumps([FORMAT, words, min_texts, SHARES]).encode())
    for name, path in corpora.items():
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        digest.update(f"{name}:{len(files)}".encode())
        for file in files:
            digest.update(str(file.relative_to(path)).encode())
            if file.is_file():
                with file.open("rb") as opened:
                    digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()[:16]


def write_prepared(path: Path, prepared: Prepared) -> None:
    """Write the cache; it holds the texts, so it belongs to whoever may read them."""
    arrays = {name: getattr(prepared, name) for name in _ARRAYS}
    arrays |= {"characters": prepared.types.characters, "words": prepared.types.words}
    values = {"domains": prepared.domains, "vocabulary": asdict(prepared.vocabulary)}
    persistence.write(path, persistence.Record("prepared corpus", values, arrays))


def read_prepared(path: Path) -> Prepared:
    """Read what :func:`write_prepared` wrote."""
    record = persistence.read(path, "prepared corpus")
    arrays: dict[str, Any] = {name: record.arrays[name] for name in _ARRAYS}
    return Prepared(
        **arrays,
        domains=tuple(record.values["domains"]),
        vocabulary=vocabulary_from(record.values["vocabulary"]),
        types=Types(record.arrays["characters"], record.arrays["words"]),
    )


def write_rows(path: Path, ngrams: FittedNGrams, rows: GramRows) -> None:
    """Write the n-grams of a corpus; without the texts nobody can tell what they mean."""
    arrays = {f"rows/{name}": value for name, value in vars(rows).items()}
    arrays |= {f"ngrams/{name}": value for name, value in ngrams.state().items()}
    persistence.write(path, persistence.Record("n-grams of a corpus", {}, arrays))


def read_rows(path: Path) -> tuple[FittedNGrams, GramRows]:
    """Read what :func:`write_rows` wrote."""
    arrays = persistence.read(path, "n-grams of a corpus").arrays
    parts: dict[str, dict[str, NDArray[Any]]] = {"rows": {}, "ngrams": {}}
    for name, value in arrays.items():
        part, _, own = name.partition("/")
        parts[part][own] = value
    return FittedNGrams.restore(parts["ngrams"]), GramRows(**parts["rows"])
