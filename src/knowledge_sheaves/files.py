"""Files and folders, written so that nobody ever meets half of one.

What is written stands beside its place, under a name of its own, and takes its place with a rename:
a reader, or a kill, meets the old or the new. Writers of one place wait for each other; what a
killed one left behind is removed by the next.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from knowledge_sheaves.errors import OutputError

Read = TypeVar("Read")
PATIENCE = 600.0
"""Seconds that a writer waits for another one of the same place."""
TRIES = 20
"""How often a reader reads a folder that is being replaced before it asks the writers to wait."""
SEAL = "seal"
_held = threading.local()
TEMPORARY = re.compile(r"\..*\.[0-9a-f]{8}\.new(\.\w+)?|\..*\.lock")


def write_text(path: Path, text: str) -> None:
    """Write a file of text, all or nothing."""
    with writing(path) as beside:
        beside.write_bytes(encoded(text))


def write_json(path: Path, data: object) -> None:
    """Write data as JSON that a person can read, all or nothing."""
    write_text(path, as_json(data))


def as_json(data: object) -> str:
    """Data as JSON that a person can read."""
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


def encoded(text: str) -> bytes:
    """Text as it is written: UTF-8, line ends as they are."""
    # Half of a surrogate pair is no character, but a name read in Python may hold one.
    return text.encode("utf-8", "surrogatepass")


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Give a name to write to, and put that file in the place of ``path`` at the end.

    After an error inside the block the old file is still there, untouched.

    >>> with writing(Path("build/numbers.txt")) as beside:  # doctest: +SKIP
    ...     beside.write_text("1 2 3")
    """
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "not an ordinary file"
        raise OutputError(f"{path} cannot be written: it is {what}; choose another name.")
    path = path.resolve()
    with said_of(path), locked(path), _own_name(path) as beside:
        yield beside
        _flush(beside)
        beside.replace(path)


@contextmanager
def replacing(folder: Path, own: Collection[str]) -> Iterator[Path]:
    """Give an empty folder to write to, and put it in the place of ``folder`` at the end.

    What the old folder holds besides the files in ``own`` is kept. After an error inside the block
    the old folder is still there, untouched. No system renames over a full folder, so the old one
    steps aside for a moment; whoever comes then reads it there (`reading`).
    """
    folder = folder.resolve()
    aside = _aside(folder)
    with said_of(folder), changing(folder), _own_name(folder) as new:
        _remove(aside)
        new.mkdir()
        yield new
        if folder.exists():
            _keep_companions(folder, new, own)
        for path in (*new.iterdir(), new):
            _flush(path)
        if folder.exists():
            _rename(folder, aside)
        _rename(new, folder)
        _flush(folder.parent)
        _remove(aside)


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Keep other writers of a folder out; one that a kill left aside is back in its place."""
    folder = folder.resolve()
    with locked(folder):
        if not folder.exists() and _aside(folder).exists():
            _rename(_aside(folder), folder)  # a save was killed between its two renames
        yield


def reading(folder: Path, read: Callable[[Path], Read]) -> Read:
    """Read a folder that may be replaced meanwhile: what was not one folder is read again.

    Readers wait for nobody, unless the folder was replaced again and again under their hands.
    """
    for _ in range(TRIES):
        place = _present(folder.resolve())
        before = _identity(place)

        def is_the_same(before: tuple[int, int] | None = before) -> bool:
            # A folder that was not there when it was looked at may be between its two renames.
            return before is not None and _identity(_present(folder.resolve())) == before

        try:
            found = read(folder if place == folder.resolve() else place)
        except (OSError, ValueError):
            if is_the_same():
                raise
        else:
            # A file that was checked may have been replaced before it was read.
            if is_the_same():
                return found
    if not _present(folder.resolve()).exists():
        return read(folder)
    with said_of(folder), changing(folder):
        return read(folder)


def check_place(path: Path, needed: int = 0) -> None:
    """Refuse a place where a file or folder cannot be written, or that has less room than needed.

    Ask before hours of work, not after.
    """
    parent = path.resolve().parent
    while not parent.exists():
        parent = parent.parent
    with said_of(path):
        # Rights, quotas, a disk that may only be read: only trying tells.
        with tempfile.TemporaryDirectory(prefix=f".{path.name[:64]}.", dir=parent):
            pass
        free = shutil.disk_usage(parent).free
    if free < needed:
        raise OutputError(
            f"{path} needs up to {needed / 2**20:,.0f} MiB, and its disk has {free / 2**20:,.0f}: "
            "make room or choose another place."
        )


def sealed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Data with a checksum of what they say, not of how they are laid out in a file.

    >>> is_sealed(sealed({"mrr": 0.5}))
    True
    >>> is_sealed(sealed({"mrr": 0.5}) | {"mrr": 0.9})
    False
    """
    said = {name: value for name, value in data.items() if name != SEAL}
    text = json.dumps(said, sort_keys=True)
    return said | {SEAL: hashlib.sha256(text.encode()).hexdigest()}


def is_sealed(data: Mapping[str, Any]) -> bool:
    """Whether data are as they were sealed."""
    return SEAL in data and sealed(data)[SEAL] == data[SEAL]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other writers of a place out, in this process and in others.

    Whoever has a place already may lock it again.
    """
    mine: set[Path] = _held.__dict__.setdefault("places", set())
    if path in mine:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=PATIENCE, poll_interval=0.01)
    try:
        lock.acquire()
    except Timeout:
        raise OutputError(
            f"{path} cannot be written: another process has been writing it for "
            f"{PATIENCE / 60:.0f} minutes; end that one first."
        ) from None
    mine.add(path)
    try:
        yield
    finally:
        mine.discard(path)
        # Removed while it is held: whoever waits for it sees that it is gone, and makes a new one.
        with suppress(OSError):
            os.unlink(lock.lock_file)
        lock.release()


@contextmanager
def said_of(path: Path) -> Iterator[None]:
    """Turn what the system says of a failed write into a sentence that names the file."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}.") from error


@contextmanager
def _own_name(path: Path) -> Iterator[Path]:
    """A name that no other writer has; what killed writers left is removed, as is one's own.

    Its ending is that of the file, because some writers choose the format by it.
    """
    left = re.compile(rf"{re.escape(f'.{path.name}')}\.[0-9a-f]{{8}}\.new{re.escape(path.suffix)}")
    for name in os.listdir(path.parent):
        if left.fullmatch(name):
            _remove(path.with_name(name))
    mine = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new{path.suffix}")
    try:
        yield mine
    finally:
        _remove(mine)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _rename(folder: Path, target: Path) -> None:
    # Windows does not rename a folder while somebody reads in it: wait for the reader.
    for _ in range(100 if os.name == "nt" else 0):
        with suppress(PermissionError):
            folder.rename(target)
            return
        time.sleep(0.05)
    folder.rename(target)


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _present(folder: Path) -> Path:
    aside = _aside(folder)
    return aside if not folder.exists() and aside.exists() else folder


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _keep_companions(old: Path, new: Path, own: Collection[str]) -> None:
    for item in old.iterdir():
        if item.name in own or TEMPORARY.fullmatch(item.name):
            continue
        if item.is_dir():
            shutil.copytree(item, new / item.name, copy_function=_link, symlinks=True)
        else:
            _link(str(item), str(new / item.name))


def _link(source: str, target: str) -> None:
    # One file with two names: a log that someone is still writing to goes on in both.
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _flush(path: Path) -> None:
    if os.name != "posix" or not (path.is_file() or path.is_dir()):
        return  # elsewhere a folder cannot be opened
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
