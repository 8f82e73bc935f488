r"""Drafts: what is written beside its target, and put in its place in one step.

.. math:: \text{draft} \rightleftharpoons \text{target}

A draft is locked as long as its process writes it. One that can be locked was left by a process
that died, and whoever writes next in that folder clears it away; one that cannot be locked belongs
to somebody, who has the target to themselves. A folder is exchanged with the former one in a single
system call where there is one (Linux); elsewhere the former one steps aside for a moment under a
name of its own, by which it is found again. Nothing is removed that is not of a known name.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from whowrote.errors import InputError

if sys.platform == "win32":  # a process that died leaves its drafts there: nothing tells them apart
    fcntl = None
else:
    import fcntl

Names = Callable[[str], bool]
"""Whether a file of that name is one of ours."""

MOST_NAME_BYTES = 180
"""Of a target's name in that of its draft; file systems end at 255."""
_DRAFT = re.compile(r"\..*\.[0-9a-f]{12}\.draft(\.[^.]*)?", re.DOTALL)
_BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)
_NOT_SUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | os.O_RDONLY
_AT_FDCWD, _RENAME_NOREPLACE, _RENAME_EXCHANGE = -100, 1, 2


def resolved(target: str | os.PathLike[str]) -> Path:
    """The target without links and ``..``: what is exchanged is what the name means now."""
    return Path(os.path.realpath(target))


def is_draft(name: str) -> bool:
    """Whether a file of that name is a draft of one.

    >>> is_draft(".a.csv.0123456789ab.draft.csv"), is_draft(".a.csv")
    (True, False)
    """
    return _DRAFT.fullmatch(name) is not None


# -- files ---------------------------------------------------------------------------------------


@contextmanager
def draft_file(target: Path) -> Iterator[Path]:
    """A draft in the target's folder, which is gone afterwards unless it was renamed.

    Drafts that dead processes have left in that folder go first.
    """
    clear_drafts(target.parent)
    draft, handle = _new_draft(target)
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)
        os.close(handle)


def _new_draft(target: Path) -> tuple[Path, int]:
    """A new file and the handle that holds its lock."""
    while True:
        name = f".{_short(target.name)}.{uuid4().hex[:12]}.draft{target.suffix[:20]}"
        draft = target.with_name(name)
        handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        if _lock(handle) is not False and os.fstat(handle).st_nlink:
            return draft, handle
        os.close(handle)  # taken for a dead one between the two calls, and cleared away


def _short(name: str) -> str:
    """A name that leaves room for more."""
    if len(os.fsencode(name)) <= MOST_NAME_BYTES:
        return name
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:32]


def clear_drafts(folder: Path) -> None:
    """Remove the drafts of files that dead processes have left."""
    try:
        names = [one.name for one in os.scandir(folder) if is_draft(one.name)]
    except OSError:
        return  # whoever writes there will hear why it cannot be
    for name in names:
        with suppress(OSError):
            _clear_dead(folder / name)


def _clear_dead(draft: Path) -> None:
    handle = os.open(draft, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        if stat.S_ISREG(os.fstat(handle).st_mode) and _lock(handle):
            draft.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool | None:
    """Lock for this process; False where another one has it, None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        return False if problem.errno in _BUSY else None
    return True


# -- folders -------------------------------------------------------------------------------------


@contextmanager
def draft_folder(target: Path, ours: Names) -> Iterator[Path]:
    """An empty folder beside the target; as long as it is there, nobody else gets one.

    ``target`` is :func:`resolved`. What is left of the draft afterwards is removed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    draft, former = draft_of(target), former_of(target)
    with held(draft, target):
        remove(draft, ours, keep_folder=True)
        if former.is_dir():  # a process died between two renames, or right after
            if target.exists():
                remove(former, ours)
            else:
                os.rename(former, target)
        try:
            yield draft
        finally:
            _leave(draft, target, ours)


def draft_of(target: Path) -> Path:
    """Where the draft of a folder lies."""
    return target.with_name(f".{_short(target.name)}.draft")


def former_of(target: Path) -> Path:
    """Where the former folder lies for a moment, where two folders cannot be exchanged."""
    return target.with_name(f".{_short(target.name)}.former")


@contextmanager
def held(folder: Path, target: Path) -> Iterator[None]:
    """A folder made or taken over for this process alone, or a sentence on why not."""
    handle = _hold(folder, target)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _hold(folder: Path, target: Path) -> int | None:
    while True:
        made = not folder.exists()
        with suppress(FileExistsError):
            folder.mkdir()
        if fcntl is None:
            locked, handle = None, None
        else:
            try:
                handle = os.open(folder, _FOLDER)
            except FileNotFoundError:
                continue  # whoever had it has just put it in its place
            locked = _lock(handle)
        if locked is False or (locked is None and not made):
            if handle is not None:
                os.close(handle)
            raise InputError(
                f"'{target}' is being written by another process (in '{folder}'); wait until it is "
                "done, or give another name"
            )
        if handle is None or _is_still(folder, handle):
            return handle
        os.close(handle)


def _is_still(folder: Path, handle: int) -> bool:
    """Whether the name is still that of the open folder."""
    try:
        return os.path.samestat(os.stat(folder, follow_symlinks=False), os.fstat(handle))
    except FileNotFoundError:
        return False


def strangers(folder: Path, ours: Names) -> list[str]:
    """What lies in a folder and is not ours: other names, and folders."""
    return sorted(
        one.name
        for one in os.scandir(folder)
        if not (ours(one.name) or is_draft(one.name)) or one.is_dir(follow_symlinks=False)
    )


def remove(folder: Path, ours: Names, *, keep_folder: bool = False) -> None:
    """Remove what is ours, and the folder; one with other things in it is a sentence."""
    others = strangers(folder, ours)
    if others:
        raise InputError(
            f"'{folder}' holds '{others[0]}', which is not of whowrote's making and is not "
            "removed: take it away, or give another name"
        )
    for one in os.scandir(folder):
        os.unlink(one.path)
    if not keep_folder:
        folder.rmdir()


def _leave(draft: Path, target: Path, ours: Names) -> None:
    """Remove a draft, which after an exchange is the former folder."""
    if not draft.exists():
        return
    if strangers(draft, ours):  # somebody put them there a moment ago
        rescue = target.with_name(f"{_short(target.name)}.former-{uuid4().hex[:8]}")
        os.rename(draft, rescue)
        raise InputError(
            f"'{target}' was replaced while somebody else wrote into it; the former folder with "
            f"what was added lies in '{rescue}'"
        )
    remove(draft, ours)


def put(draft: Path, target: Path, ours: Names) -> None:
    """Put a draft in its place in one step; afterwards it is what was there before, if anything."""
    draft.chmod(0o777 & ~umask())
    sync(draft)
    if target.exists():
        if not _rename(draft, target, _RENAME_EXCHANGE):
            _step_aside(draft, target, ours)
    elif not _rename(draft, target, _RENAME_NOREPLACE):
        os.rename(draft, target)
    sync(target.parent)


def _rename(draft: Path, target: Path, flag: int) -> bool:
    """``renameat2``; False where the system or the file system does not have it."""
    call = None if sys.platform == "win32" else getattr(_c_library(), "renameat2", None)
    if call is None:
        return False
    names = os.fsencode(draft), os.fsencode(target)
    if call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], flag) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_SUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(target))


def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _step_aside(draft: Path, target: Path, ours: Names) -> None:
    """Two renames; what happens between them is undone, or said with where the former one lies."""
    former = former_of(target)
    os.rename(target, former)
    try:
        os.rename(draft, target)
    except BaseException as problem:
        try:
            os.rename(former, target)
        except OSError:
            raise InputError(
                f"'{target}' could not be put in its place ({problem}); the former one is whole "
                f"and lies in '{former}': rename it"
            ) from problem
        raise
    remove(former, ours)


# -- what both need ------------------------------------------------------------------------------


def umask() -> int:
    """What this process keeps from others in the files that it makes."""
    current = os.umask(0)
    os.umask(current)
    return current


def sync(path: Path) -> None:
    """Have the disk keep what a file holds, or which files a folder names, as far as it can."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # a folder on Windows
        return
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.EBADF, *_NOT_SUPPORTED):
            raise
    finally:
        os.close(handle)


PROBE_BYTES = 65_536


def require_unwritten(target: Path, overwrite: bool) -> None:
    """Nothing is written over unasked."""
    if target.exists() and not overwrite:
        raise InputError(
            f"'{target}' is there already; it is not written over unasked: give another name, or "
            "overwrite=True (--overwrite)"
        )


def probe(target: str | os.PathLike[str], *, folder: bool = False) -> None:
    """Whether a file, or files in a folder, can be written there: before the work, not after it.

    A few bytes are written, flushed and removed again, and so are the folders on the way.
    """
    place = resolved(target)
    inside = place / "probe" if folder else place
    require_regular(inside)
    missing = [one for one in inside.parents if not one.exists()]
    try:
        inside.parent.mkdir(parents=True, exist_ok=True)
        with draft_file(inside) as draft:
            draft.write_bytes(bytes(PROBE_BYTES))
            sync(draft)
    finally:
        for one in missing:
            with suppress(OSError):  # others may use it by now
                one.rmdir()


def regular(path: str | os.PathLike[str], flags: int) -> int:
    """An ``opener`` for :func:`open` that looks at what it has opened: a regular file, or a folder.

    Whatever has taken the place of a file since somebody looked, a pipe is not waited for.
    """
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # of a folder open() says that it is one
        return handle
    os.close(handle)
    raise InputError(
        f"{os.fspath(path)} is a pipe or a device, no regular file: save its bytes to a file, or "
        "pipe one text into standard input (-)"
    )


def require_regular(target: Path) -> None:
    """Refuse to replace a device, a pipe or a folder by a file."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise InputError(f"'{target}' is {what}; what is written needs the name of a file")
