r"""A training corpus as one flat array: :math:`\text{texts} \to (t_1, \dots, t_N)` and its offsets.

Every document is a slice of one array of type numbers; documents of one author lie together. The
authors, not the texts, are split into training, development and test by a hash of domain and name,
so that the split needs no file and an author is on the same side in every run. Tokenising runs in
several processes. What was prepared is cached under a hash of the settings and of the files' bytes;
tokens and n-grams have files of their own, so that runs with other n-grams share the tokens.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from whowrote.arrays import BoolArray, IntArray
from whowrote.corpus.texts import stream
from whowrote.errors import InputError
from whowrote.features import layers
from whowrote.features.counting import FittedNGrams
from whowrote.features.layers import GramRows
from whowrote.features.pieces import PieceRows, PieceTable
from whowrote.features.vocabulary import (
    FIRST_WORD,
    Types,
    Vocabulary,
    VocabularySettings,
    choose,
    spelling,
    split,
    vocabulary_from,
)
from whowrote.files import ModelFile, bytes_of, read_model_file, sha256_of, write_model_file
from whowrote.runtime import usable_cores

PARTS = ("train", "development", "test")
SHARES = (0.90, 0.05, 0.05)
DOCUMENTS_PER_TASK = 1000

Result = TypeVar("Result")


def part_of(domain: str, author: str) -> int:
    """On which side of the split an author is: an index into ``PARTS``.

    >>> from collections import Counter
    >>> sorted(Counter(part_of("blogs", str(i)) for i in range(1000)).items())
    [(0, 891), (1, 55), (2, 54)]
    """
    digest = hashlib.sha256(f"{domain}/{author}".encode("utf-8", "surrogatepass")).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    return int(place >= SHARES[0]) + int(place >= SHARES[0] + SHARES[1])


@dataclass(frozen=True)
class Prepared:
    """Tokenised documents, sorted by author.

    Document i is ``tokens[offsets[i]:offsets[i + 1]]``, numbers of rows in ``types``, and was
    written by ``authors[i]``; ``domain_of`` and ``part`` belong to authors.
    """

    tokens: NDArray[np.int32]
    offsets: IntArray
    authors: IntArray
    domain_of: IntArray
    part: IntArray
    domains: tuple[str, ...]
    vocabulary: Vocabulary
    types: Types
    ngrams: FittedNGrams | None = None
    """The widely used n-grams, and below the rows of the documents; none unless asked for."""
    rows: GramRows | None = None
    table: PieceTable | None = None
    """The table of word pieces, and below those of the documents; none unless asked for."""
    pieces: PieceRows | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """Tokens of each document."""
        return np.diff(self.offsets)

    def documents(self, domain: int, part: int) -> IntArray:
        """The documents of one domain by the authors of one side of the split."""
        wanted = (self.domain_of == domain) & (self.part == part)
        return np.flatnonzero(wanted[self.authors])


@dataclass(frozen=True)
class Domain:
    """The labelled texts of one corpus, sorted by author."""

    name: str
    texts: Sequence[str]
    authors: IntArray
    parts: IntArray


def read_domain(name: str, path: Path, min_texts: int = 2) -> Domain:
    """Read a corpus; texts without author and authors with too few texts are left out."""
    by_author: dict[str, list[str]] = defaultdict(list)
    for document in stream(path):
        if document.author is not None:
            by_author[document.author].append(document.text)
    kept = {a: texts for a, texts in sorted(by_author.items()) if len(texts) >= min_texts}
    if len(kept) < 2:
        raise InputError(
            f"corpus '{name}' ({path}) has {len(kept)} authors with at least {min_texts} texts; an "
            "extractor learns to tell authors apart and needs two, better thousands: add texts"
        )
    return Domain(
        name=name,
        texts=[text for texts in kept.values() for text in texts],
        authors=np.repeat(np.arange(len(kept)), [len(texts) for texts in kept.values()]),
        parts=np.array([part_of(name, author) for author in kept]),
    )


@dataclass(frozen=True)
class Counted:
    """Some documents, tokenised, with their own numbering of tokens and its counts."""

    read: list[str]
    tokens: NDArray[np.int32]
    lengths: IntArray
    users: IntArray
    """Training authors who use each token."""
    occurrences: IntArray


def count_tokens(texts: Sequence[str], authors: IntArray, counts: BoolArray) -> Counted:
    """Tokenise; ``counts`` says which documents count towards the vocabulary."""
    raw: defaultdict[str, int] = defaultdict()
    raw.default_factory = raw.__len__
    rows = [np.fromiter(map(raw.__getitem__, split(text) or [""]), np.int32) for text in texts]
    index: defaultdict[str, int] = defaultdict()
    index.default_factory = index.__len__
    merged = np.fromiter((index[spelling(token)] for token in raw), np.int32, len(raw))
    tokens = merged[np.concatenate(rows)] if rows else np.zeros(0, np.int32)
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    writer, inside = np.repeat(authors, lengths), np.repeat(counts, lengths)
    pairs = np.unique(writer[inside] * len(index) + tokens[inside]) % max(1, len(index))
    return Counted(
        list(index),
        tokens,
        lengths,
        np.bincount(pairs, minlength=len(index)),
        np.bincount(tokens[inside], minlength=len(index)),
    )


def _tasks(domain: Domain) -> Iterator[tuple[Sequence[str], IntArray, BoolArray]]:
    """Runs of documents that never part an author."""
    firsts = np.flatnonzero(np.diff(domain.authors, prepend=-1))
    n_texts, low = len(domain.texts), 0
    while low < n_texts:
        later = firsts[firsts >= low + DOCUMENTS_PER_TASK]
        high = int(later[0]) if len(later) else n_texts
        authors = domain.authors[low:high]
        yield domain.texts[low:high], authors, domain.parts[authors] == 0
        low = high


def count_domains(domains: Iterable[Domain], workers: int) -> list[tuple[Domain, list[Counted]]]:
    """Tokenise all domains."""
    tasks = [(domain, list(_tasks(domain))) for domain in domains]
    found = iter(in_processes(count_tokens, [task for _, own in tasks for task in own], workers))
    return [(domain, [next(found) for _ in own]) for domain, own in tasks]


def in_processes(
    work: Callable[..., Result], tasks: Sequence[tuple[Any, ...]], workers: int
) -> list[Result]:
    """Do all tasks, in several processes if there are several and enough to do."""
    if workers <= 1 or len(tasks) < 2 * workers:
        return [work(*task) for task in tasks]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        begun = [pool.submit(work, *task) for task in tasks]
        return [future.result() for future in begun]


def choose_ngrams(domains: Sequence[Domain], most: Sequence[int], workers: int) -> FittedNGrams:
    """The n-grams that the most training authors use."""
    tasks = [[_learnt(*task) for task in _tasks(domain)] for domain in domains]
    found = iter(in_processes(layers.count_users, [task for own in tasks for task in own], workers))
    counted = [[next(found) for _ in own] for own in tasks]
    n_authors = [max(1, int((domain.parts == 0).sum())) for domain in domains]
    return layers.choose_grams(list(zip(counted, n_authors, strict=True)), most)


def _learnt(
    texts: Sequence[str], authors: IntArray, counts: BoolArray
) -> tuple[list[str], IntArray]:
    """Those documents of a task that count."""
    return [text for text, counted in zip(texts, counts, strict=True) if counted], authors[counts]


def rows_of(texts: Sequence[str], ngrams: FittedNGrams, workers: int = 1) -> GramRows:
    """The n-grams of texts."""
    runs = range(0, len(texts), DOCUMENTS_PER_TASK)
    tasks = [(texts[low : low + DOCUMENTS_PER_TASK], ngrams) for low in runs]
    return GramRows.join(in_processes(GramRows.of, tasks, workers))


@dataclass(frozen=True)
class Numbered:
    """Texts as the network reads them: flat type numbers, document offsets, the table of types."""

    tokens: NDArray[np.int32]
    offsets: IntArray
    types: Types

    @property
    def lengths(self) -> IntArray:
        """Tokens of each text."""
        return np.diff(self.offsets)


def number(texts: Sequence[str], vocabulary: Vocabulary, workers: int = 1) -> Numbered:
    """Tokenise texts for a given vocabulary; an empty text becomes one unknown token.

    >>> numbered = number(["the whale", ""], Vocabulary(("the",), ("e", "h", "t", "x")))
    >>> numbered.tokens.tolist(), numbered.offsets.tolist()
    ([2, 3, 4], [0, 2, 3])
    """
    everyone = Domain("texts", texts, np.arange(len(texts)), np.ones(len(texts), dtype=np.int64))
    merged = _merge(count_domains([everyone], workers))
    renumber, types = _final_types(merged.read, vocabulary)
    lengths = np.concatenate([np.zeros(1, np.int64), *merged.lengths])
    tokens = np.concatenate([np.zeros(0, np.int32), *(renumber[own] for own in merged.tokens)])
    return Numbered(tokens, np.cumsum(lengths), types)


def pieces_of(texts: Sequence[str], table: PieceTable, workers: int = 1) -> PieceRows:
    """The word pieces of texts."""
    runs = range(0, len(texts), DOCUMENTS_PER_TASK)
    tasks = [(texts[low : low + DOCUMENTS_PER_TASK],) for low in runs]
    return PieceRows.join(in_processes(table.read, tasks, workers))


def prepare(
    domains: Iterable[Domain],
    settings: VocabularySettings,
    workers: int = 1,
    vocabulary: Vocabulary | None = None,
) -> Prepared:
    """Tokenise, choose the vocabulary on the training authors if none is given, number all."""
    counted = [(domain, parts) for domain, parts in count_domains(domains, workers) if parts]
    merged = _merge(counted)
    if vocabulary is None:
        vocabulary = choose(merged.read, merged.scores, merged.occurrences, settings)
    renumber, types = _final_types(merged.read, vocabulary)
    n_authors = [len(domain.parts) for domain, _ in counted]
    shifts = np.concatenate([[0], np.cumsum(n_authors)[:-1]])
    lengths = np.concatenate([np.zeros(1, np.int64), *merged.lengths])
    authors = [domain.authors + shift for (domain, _), shift in zip(counted, shifts, strict=True)]
    return Prepared(
        tokens=np.concatenate([renumber[own] for own in merged.tokens]),
        offsets=np.cumsum(lengths),
        authors=np.concatenate(authors).astype(np.int64),
        domain_of=np.repeat(np.arange(len(counted)), n_authors),
        part=np.concatenate([domain.parts for domain, _ in counted]),
        domains=tuple(domain.name for domain, _ in counted),
        vocabulary=vocabulary,
        types=types,
    )


@dataclass(frozen=True)
class _Merged:
    read: list[str]
    scores: NDArray[np.float64]
    occurrences: IntArray
    tokens: list[NDArray[np.int32]]
    lengths: list[IntArray]


def _merge(counted: Sequence[tuple[Domain, Sequence[Counted]]]) -> _Merged:
    """One numbering of the tokens of all tasks."""
    index: defaultdict[str, int] = defaultdict()
    index.default_factory = index.__len__
    maps = [
        [np.fromiter(map(index.__getitem__, part.read), np.int32, len(part.read)) for part in parts]
        for _, parts in counted
    ]
    scores, occurrences = np.zeros(len(index)), np.zeros(len(index), dtype=np.int64)
    tokens = []
    for (domain, parts), own in zip(counted, maps, strict=True):
        n_authors = max(1, int((domain.parts == 0).sum()))
        for part, places in zip(parts, own, strict=True):
            scores[places] += part.users / n_authors / len(counted)
            occurrences[places] += part.occurrences
            tokens.append(places[part.tokens])
    lengths = [part.lengths for _, parts in counted for part in parts]
    return _Merged(list(index), scores, occurrences, tokens, lengths)


def _final_types(read: Sequence[str], vocabulary: Vocabulary) -> tuple[NDArray[np.int32], Types]:
    """Tokens that the network cannot tell apart become one type."""
    index: dict[tuple[int, str], int] = {}
    renumber = np.empty(len(read), dtype=np.int32)
    for number, token in enumerate(read):
        key = (vocabulary.word_id(token), vocabulary.spelled(token))
        renumber[number] = index.setdefault(key, len(index) + FIRST_WORD)
    return renumber, vocabulary.table([word for word, _ in index], [s for _, s in index])


def limit_authors(prepared: Prepared, per_domain: Mapping[str, int]) -> Prepared:
    """Move all but so many training authors of a domain out of use: for curves over authors."""
    part = prepared.part.copy()
    for name, count in per_domain.items():
        if name not in prepared.domains:
            raise InputError(
                f"max_authors names '{name}'; the corpora are {list(prepared.domains)}: use one"
            )
        own = np.flatnonzero((prepared.domain_of == prepared.domains.index(name)) & (part == 0))
        part[list(islice(own, count, None))] = -1
    return replace(prepared, part=part)


@dataclass(frozen=True)
class Tables:
    """Words and n-grams of earlier weights, and the SHA-256 of their file."""

    vocabulary: Vocabulary
    ngrams: FittedNGrams | None
    sha256: str


FORMAT = 2
_ARRAYS = ("tokens", "offsets", "authors", "domain_of", "part")


def load_or_prepare(
    corpora: Mapping[str, Path],
    settings: VocabularySettings,
    cache: Path,
    *,
    min_texts: int = 2,
    workers: int | None = None,
    tables: Tables | None = None,
    pieces: Path | None = None,
) -> Prepared:
    """The prepared corpus, from the cache if these files and settings were prepared before.

    ``tables`` are used in the place of words and n-grams chosen here; ``pieces`` is the table of
    word pieces for a second tower.
    """
    if not corpora:
        raise InputError("[corpora] is empty; name at least one file: blogs = 'blogs.parquet'")
    for name, path in corpora.items():
        if not path.exists():
            raise InputError(f"corpus '{name}' is not there: '{path}'; correct the path")
    workers, read = workers or usable_cores(), _key(corpora, settings, min_texts)
    key = read + (f"-{tables.sha256[:16]}" if tables else "")

    @functools.cache
    def domains() -> list[Domain]:
        return [read_domain(name, path, min_texts) for name, path in corpora.items()]

    def texts() -> list[str]:
        return [text for domain in domains() for text in domain.texts]

    target = cache / f"prepared-{key}.safetensors"
    if not target.is_file():
        given = tables.vocabulary if tables else None
        made = prepare(domains(), settings, workers, given)
        if _key(corpora, settings, min_texts) != read:
            raise InputError("a corpus was changed while it was read; run the command again")
        write_prepared(target, made)
    prepared = read_prepared(target)
    if any(settings.n_grams):
        target = cache / f"ngrams-{key}-{'-'.join(map(str, settings.n_grams))}.safetensors"
        if not target.is_file():
            known = tables.ngrams if tables else None
            ngrams = known or choose_ngrams(domains(), settings.n_grams, workers)
            write_rows(target, ngrams, rows_of(texts(), ngrams, workers))
        ngrams, rows = read_rows(target)
        prepared = replace(prepared, ngrams=ngrams, rows=rows)
    if pieces is not None:
        table = read_table(pieces)
        target = cache / f"pieces-{key}-{sha256_of(pieces)[:16]}.safetensors"
        if not target.is_file():
            write_pieces(target, pieces_of(texts(), table, workers))
        prepared = replace(prepared, table=table, pieces=read_pieces(target))
    return prepared


def read_table(path: Path) -> PieceTable:
    """The table of word pieces in a ``vocab.txt``: one a line."""
    if not path.is_file():
        raise InputError(f"the table of word pieces is not there: '{path}'; correct the path")
    return PieceTable(bytes_of(path).decode("utf-8").removesuffix("\n").split("\n"))


def _key(corpora: Mapping[str, Path], settings: VocabularySettings, min_texts: int) -> str:
    words = {name: value for name, value in asdict(settings).items() if name != "n_grams"}
    digest = hashlib.sha256(json.dumps([FORMAT, words, min_texts, SHARES]).encode())
    for name, path in corpora.items():
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        digest.update(f"{name}:{len(files)}".encode())
        for file in files:
            digest.update(str(file.relative_to(path)).encode())
            if file.is_file():
                digest.update(bytes.fromhex(sha256_of(file)))
    return digest.hexdigest()[:16]


def write_prepared(path: Path, prepared: Prepared) -> None:
    """Write the cache; it holds the texts, so it belongs to whoever may read them."""
    arrays = {name: getattr(prepared, name) for name in _ARRAYS}
    arrays |= {"characters": prepared.types.characters, "words": prepared.types.words}
    values = {"domains": prepared.domains, "vocabulary": asdict(prepared.vocabulary)}
    write_model_file(path, ModelFile("prepared corpus", values, arrays), sealed=True)


def read_prepared(path: Path) -> Prepared:
    """Read what :func:`write_prepared` wrote."""
    record = read_model_file(path, "prepared corpus", sealed=True)
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
    write_model_file(path, ModelFile("n-grams of a corpus", {}, arrays), sealed=True)


def read_rows(path: Path) -> tuple[FittedNGrams, GramRows]:
    """Read what :func:`write_rows` wrote."""
    arrays = read_model_file(path, "n-grams of a corpus", sealed=True).arrays
    parts: dict[str, dict[str, NDArray[Any]]] = {"rows": {}, "ngrams": {}}
    for name, value in arrays.items():
        part, _, own = name.partition("/")
        parts[part][own] = value
    return FittedNGrams.restore(parts["ngrams"]), GramRows(**parts["rows"])


def write_pieces(path: Path, pieces: PieceRows) -> None:
    """Write the word pieces of a corpus: with their table, they are its texts."""
    write_model_file(
        path, ModelFile("word pieces of a corpus", {}, dict(vars(pieces))), sealed=True
    )


def read_pieces(path: Path) -> PieceRows:
    """Read what :func:`write_pieces` wrote."""
    return PieceRows(**read_model_file(path, "word pieces of a corpus", sealed=True).arrays)
