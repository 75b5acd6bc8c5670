"""Folders that are replaced as a whole: a reader, or a kill, meets the old one or the new one.

The new folder is written beside the old one and takes its place with a rename. No system renames
over a full folder, so the old one steps aside for a moment; whoever comes then reads it there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Read = TypeVar("Read")


@contextmanager
def replacing(folder: Path, own: Collection[str]) -> Iterator[Path]:
    """Give an empty folder to write to, and put it in the place of ``folder`` at the end.

    What the old folder holds besides the files in ``own`` is kept. After an error inside the block
    the old folder is still there, untouched.
    """
    folder = folder.resolve()
    new, aside = _beside(folder, "new"), _beside(folder, "old")
    if not folder.exists() and aside.exists():
        aside.rename(folder)  # a save was killed between its two renames
    for leftover in (new, aside):
        shutil.rmtree(leftover, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        yield new
        if folder.exists():
            _keep_companions(folder, new, own)
        _flush(new)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    if folder.exists():
        folder.rename(aside)
    new.rename(folder)
    _flush_one(folder.parent)
    shutil.rmtree(aside, ignore_errors=True)


def reading(folder: Path, read: Callable[[Path], Read]) -> Read:
    """Read a folder that may be replaced meanwhile: what fails because of that is tried again."""
    while True:
        place = _present(folder.resolve())
        before = _identity(place)
        try:
            return read(folder if place == folder.resolve() else place)
        except (OSError, ValueError):
            if _identity(_present(folder.resolve())) == before:
                raise


def _beside(folder: Path, what: str) -> Path:
    return folder.with_name(f".{folder.name}.{what}")


def _present(folder: Path) -> Path:
    aside = _beside(folder, "old")
    return aside if not folder.exists() and aside.exists() else folder


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _keep_companions(old: Path, new: Path, own: Collection[str]) -> None:
    for item in old.iterdir():
        if item.name in own:
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


def _flush(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_file():
            _flush_one(path)
    _flush_one(folder)


def _flush_one(path: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
