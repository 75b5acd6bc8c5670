"""Files as they are opened: plain ones only, and through gzip within bounds."""

from __future__ import annotations

import gzip
import io
import stat
import zlib
from pathlib import Path
from typing import Any

from knowledge_sheaves.errors import InputError

DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)
FREE_BYTES = 16 << 20
MOST_UNFOLDED = 100
"""Times its size that a packed file may unfold to; text of graphs stays below 30."""
# What polars takes for packed whatever the file is called, and unfolds without a bound.
_PACKED_OTHERWISE = (b"\x28\xb5\x2f\xfd", b"x\x01", b"x\x9c", b"x\xda", b"\x1f\x8b")


def open_bytes(path: Path) -> io.BufferedReader:
    """Open a file for reading, through gzip where it begins as gzip does."""
    check_plain(path)
    try:
        file = path.open("rb")
        packed = file.peek(2)[:2] == b"\x1f\x8b"
        return io.BufferedReader(_Unfolded(file, path)) if packed else file
    except OSError as error:
        raise unreadable(path, error) from None


def check_plain(path: Path) -> None:
    """Refuse what is no file: who opens a pipe waits for its other end."""
    try:
        is_plain = stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError) as error:  # a name with a null in it is a ValueError
        raise unreadable(path, error) from None
    if not is_plain:
        raise InputError(f"{path}: this is no file but a folder, a pipe or a device.")


def read_bytes(path: Path) -> bytes:
    """Return what a file holds, unpacked."""
    try:
        with open_bytes(path) as file:
            return file.read()
    except DAMAGED as error:
        raise damaged(path, error) from None
    except OSError as error:
        raise unreadable(path, error) from None


def for_polars(path: Path) -> Path | bytes | None:
    """Return what polars may read: a plain file, or what was unpacked here, within bounds.

    None means that polars would unpack it once more: such a file is no text.
    """
    try:
        with open_bytes(path) as file:
            if begins_packed(file.peek(4)):
                return None
            return file.read() if isinstance(file.raw, _Unfolded) else path
    except DAMAGED as error:
        raise damaged(path, error) from None


def begins_packed(start: bytes) -> bool:
    """Whether polars would take this for packed, and unfold it."""
    return start.startswith(_PACKED_OTHERWISE)


class _Unfolded(io.RawIOBase):
    """The content of a gzip file, which stops where it unfolds to far more than text would."""

    def __init__(self, file: io.BufferedReader, path: Path) -> None:
        self._file, self._path, self._done = file, path, 0
        self._content = gzip.GzipFile(fileobj=file)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._content.read1(len(buffer))
        buffer[: len(piece)] = piece
        self._done += len(piece)
        if self._done > max(FREE_BYTES, MOST_UNFOLDED * self._file.tell()):
            raise InputError(
                f"{self._path}: the gzip file unfolds to more than {MOST_UNFOLDED} times its size, "
                "which no table or graph does; unpack it to see what it is."
            )
        return len(piece)

    def tell(self) -> int:
        return self._done

    def close(self) -> None:
        self._file.close()
        super().close()


def unreadable(path: Path, error: Exception) -> InputError:
    """Return the error for a file that the system does not give."""
    return InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}.")


def damaged(path: Path, error: Exception) -> InputError:
    """Return the error for a gzip file that breaks off or is not one."""
    return InputError(f"{path}: the gzip file is damaged ({error}); get it again.")


def located(path: Path, error: InputError) -> InputError:
    """Return an error that names the file, also where it began with the line.

    >>> located(Path("x.yaml"), InputError("line 3: not valid YAML."))
    InputError('x.yaml, line 3: not valid YAML.')
    """
    sentence = str(error)
    if sentence.startswith(str(path)):
        return error
    return InputError(f"{path}{', ' if sentence.startswith('line ') else ': '}{sentence}")
