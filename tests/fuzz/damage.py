"""Seeded damage to files: flipped bytes, cuts, strangers, headers and documents that lie."""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIES: list[Any] = [
    *(None, True, -1, 0, 1, 2, 7, 10**6, 10**12, 10**30, 0.5, float("nan"), float("inf"), -1e308),
    *("", "x", "\x00", "\ud800", "a" * 200, [], [[]], {}, {"a": []}, [1, 2], ["x"], [[1, 2], "x"]),
    *("I64", "F32", "BF16", "U8", "train", "entities", "name", "../../etc/passwd", "4"),
]


def flip(data: bytes, chance: random.Random) -> bytes:
    """Change one to three bits."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 3])):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def lengthen(data: bytes, chance: random.Random) -> bytes:
    return data + chance.choice([b"\x00", b"\n", b"{}", data[:100], chance.randbytes(50)])


def replace(data: bytes, chance: random.Random) -> bytes:
    """Other content: nothing, noise, a mapping or a list, nested beyond all measure."""
    noise = chance.randbytes(chance.randrange(200))
    deep = b"[" * 100_000 + b"]" * 100_000
    return chance.choice(
        [b"", noise, b"{}", b"[]", b"null", b"9" * 5000, deep, struct.pack("<Q", 2**63)]
    )


def lie_in_json(data: bytes, chance: random.Random) -> bytes:
    """Change one value, or one key, of a JSON document."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return flip(data, chance)
    return json.dumps(_lie(document, chance)).encode()


def lie_in_header(data: bytes, chance: random.Random) -> bytes:
    """Change what the header of a safetensors file says, or how long it says it is."""
    if len(data) < 8 or len(data) < 8 + (length := struct.unpack("<Q", data[:8])[0]):
        return flip(data, chance)  # it was damaged before
    if chance.random() < 0.1:
        return struct.pack("<Q", chance.choice([0, 1, length - 1, length + 1, 2**62])) + data[8:]
    try:
        header = json.loads(data[8 : 8 + length])
    except ValueError:
        return flip(data, chance)
    text = json.dumps(_lie(header, chance)).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def _lie(document: Any, chance: random.Random) -> Any:
    """A copy with a lie at a random place."""
    if isinstance(document, dict) and document and chance.random() < 0.85:
        key = chance.choice(sorted(document))
        how = chance.random()
        if how < 0.08:
            return {k: v for k, v in document.items() if k != key}
        if how < 0.16:
            return {(k + "x" if k == key else k): v for k, v in document.items()}
        return document | {key: _lie(document[key], chance)}
    if isinstance(document, list) and document and chance.random() < 0.7:
        place = chance.randrange(len(document))
        return [*document[:place], _lie(document[place], chance), *document[place + 1 :]]
    if isinstance(document, int) and not isinstance(document, bool) and chance.random() < 0.5:
        return document + chance.choice([-8, -1, 1, 4, 10**9])
    return chance.choice(LIES)


def unusual(path: Path, chance: random.Random) -> None:
    """Something in the place of a file that is none."""
    path.unlink()
    kind = chance.choice(["nothing", "folder", "pipe", "loop", "device"])
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "device":
        path.symlink_to("/dev/zero")


Damage = Callable[[bytes, random.Random], bytes]
BLIND: list[Damage] = [flip, flip, cut, lengthen, replace]


def damage(path: Path, chance: random.Random) -> None:
    """Do something to a file; what it is like decides what lies are told."""
    lies = [lie_in_header] * 5 if path.suffix == ".safetensors" else [lie_in_json] * 5
    path.write_bytes(chance.choice([*BLIND, *lies])(path.read_bytes(), chance))
