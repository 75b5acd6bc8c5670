"""Text files line by line: gzip, UTF-8, quotes; an error names the file and the line."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.files import DAMAGED, damaged, open_bytes

START_BYTES = 1 << 16


def text_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file with their ends; a bad byte is an error with its line."""
    try:
        with open_bytes(path) as file:
            for number, line in enumerate(file, 1):
                try:
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(
                        f"{path}, line {number}: the byte 0x{line[error.start]:02x} is not UTF-8; "
                        "save the file as UTF-8."
                    ) from None
    except DAMAGED as error:
        raise damaged(path, error) from None


def first_lines(path: Path, comment: str | None, most: int) -> list[str]:
    """Return some lines from the start, without blank ones and comments, to guess from."""
    try:
        with open_bytes(path) as file:
            start = file.read(START_BYTES)
    except DAMAGED as error:
        raise damaged(path, error) from None
    lines = start.decode("utf-8-sig", errors="replace").split("\n")
    if len(start) == START_BYTES and len(lines) > 1:
        del lines[-1]
    lines = [line.rstrip("\r") for line in lines if not (comment and line.startswith(comment))]
    return [line for line in lines if line.strip()][:most]


def split_start(lines: Sequence[str], delimiter: str, quoted: bool) -> list[list[str]]:
    """Return the fields of the first records, whatever is wrong with them.

    >>> split_start(['"a,b",c'], ",", quoted=True)
    [['a,b', 'c']]
    """
    if not quoted:
        return [line.split(delimiter) for line in lines]
    # csv takes a lone carriage return for the end of a line that goes on, which is an error.
    tidy = (line.replace("\r", "") + "\n" for line in lines)
    return list(csv.reader(tidy, delimiter=delimiter))


def split_lines(
    path: Path, delimiter: str, quoted: bool, comment: str | None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of each record with the line where it starts."""
    lines = text_lines(path)
    if comment:
        # Emptied, not dropped: the numbers of the other lines stay right.
        lines = ("\n" if line.startswith(comment) else line for line in lines)
    if not quoted:
        for number, line in enumerate(lines, 1):
            yield number, line.rstrip("\r\n").split(delimiter)
        return
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    start = 1
    try:
        for fields in reader:
            yield start, fields
            start = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path}, line {start}: the quotes do not match ({error}); "
            "close them, or read the file as unquoted."
        ) from None
