"""How the server and its workers talk: a head in JSON and a body of bytes, their lengths first.

Nothing is pickled: a worker that went wrong cannot make the server run anything.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import Any

_LENGTHS = struct.Struct(">II")

Head = dict[str, Any]


def packed(head: Head, body: bytes = b"") -> bytes:
    """One frame.

    >>> packed({"a": 1}, b"xyz")[8:]
    b'{"a": 1}xyz'
    """
    text = json.dumps(head).encode()
    return _LENGTHS.pack(len(text), len(body)) + text + body


def send(sock: socket.socket, head: Head, body: bytes = b"") -> None:
    """Send a frame and wait until it is gone."""
    sock.sendall(packed(head, body))


def receive(sock: socket.socket) -> tuple[Head, bytes] | None:
    """The next frame; None at the end.

    >>> one, two = socket.socketpair()
    >>> send(one, {"a": 1}, b"xyz"); one.close()
    >>> receive(two), receive(two)
    (({'a': 1}, b'xyz'), None)
    >>> two.close()
    """
    lengths = _exactly(sock, _LENGTHS.size)
    if lengths is None:
        return None
    head, body = _LENGTHS.unpack(lengths)
    found = _exactly(sock, head + body)
    return None if found is None else (json.loads(found[:head]), found[head:])


def _exactly(sock: socket.socket, size: int) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        piece = sock.recv(min(size - len(found), 1 << 20))
        if not piece:
            return None
        found += piece
    return bytes(found)


async def received(reader: asyncio.StreamReader) -> tuple[Head, bytes]:
    """The next frame; at the end an `asyncio.IncompleteReadError`."""
    head, body = _LENGTHS.unpack(await reader.readexactly(_LENGTHS.size))
    found = await reader.readexactly(head + body)
    return json.loads(found[:head]), found[head:]
