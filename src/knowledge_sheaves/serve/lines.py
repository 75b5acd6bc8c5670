"""Lines to clients: HTTP by a parser that is quick, with bounds on what comes before a question."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 10.0
"""How long a client may take to send the head of a request."""
LONGEST_HEAD = 256 << 10
"""Bytes of a request's first line and headers: queries may stand in the address."""

_END = re.compile(rb"\n\r?\n")
_UPGRADE = re.compile(rb"\nupgrade[ \t]*:", re.IGNORECASE)


class Patience:
    """Clients must come to the point: a head that does not end in time ends the line."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    cycle: Any
    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)  # type: ignore[misc]
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop waiting once a request has begun, begin again where only a part of one is there."""
        super().data_received(data)  # type: ignore[misc]
        if self._busy:
            self._forget()
        else:
            self._wait()

    def on_response_complete(self) -> None:
        """The usual waiting for another request is uvicorn's."""
        self._forget()
        super().on_response_complete()  # type: ignore[misc]

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._forget()
        super().connection_lost(exc)  # type: ignore[misc]

    @property
    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        if self._due is None:
            self._due = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _forget(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None


class Careful(Patience, H11Protocol):  # type: ignore[misc]
    """HTTP by h11, which reads what is posted with an offer to change the protocol."""


class Punctual(Patience, HttpToolsProtocol):  # type: ignore[misc]
    """HTTP by httptools, which is quicker than h11 by a third of a server's work for a request.

    It takes what follows an offer to change to HTTP/2 for the new protocol, and so loses what is
    posted with one, as Java's clients do: such a line goes on by h11. Nor does it bound what is no
    body. So a head is looked through before it is read, and what else comes is measured.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._inside = False
        self._head = bytearray()
        self._taken = 0  # what is no body, as far as it was not looked through

    def data_received(self, data: bytes) -> None:
        """Look through the head of a request before it is read."""
        if not self._inside and not self._busy:
            self._unset_keepalive_if_required()
            self._head += data
            end = _END.search(self._head, max(0, len(self._head) - len(data) - 3))
            if (end.end() if end else len(self._head)) > LONGEST_HEAD:
                self._refuse()
                return
            if end is None:
                self._wait()
                return
            data, self._head = bytes(self._head), bytearray()
            if _UPGRADE.search(data, 0, end.end()):
                self._hand_over(data)
                return
        else:
            self._taken += len(data)
        super().data_received(data)
        if self._taken > LONGEST_HEAD and not self.transport.is_closing():
            self._refuse()

    def on_message_begin(self) -> None:
        """A head begins."""
        self._inside, self._taken = True, 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        """A piece of the body: that is bounded elsewhere."""
        self._taken -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of a request was read."""
        self._inside = False
        super().on_message_complete()

    def _refuse(self) -> None:
        self._head.clear()
        if self._busy:  # an answer may be on its way
            self.transport.close()
        else:
            self.send_400_response("The head of the request is too long.")

    def _hand_over(self, data: bytes) -> None:
        self._forget()
        self.connections.discard(self)
        other = Careful(self.config, self.server_state, self.app_state, self.loop)
        self.transport.set_protocol(other)
        other.connection_made(self.transport)
        other.data_received(data)
