"""Files that are either whole or absent: write beside the target, flush, then rename over it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; rename it to the target if all went well.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "answer.txt"
    >>> with atomic_path(target) as draft:
    ...     _ = draft.write_text("42")
    ...     target.exists()
    False
    >>> target.read_text()
    '42'
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(
        dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix
    )
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        os.chmod(draft, 0o666 & ~_umask())
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write a whole UTF-8 text file atomically."""
    with atomic_path(target) as draft:
        draft.write_text(text, encoding="utf-8")
