"""What every request passes: the token, the bounds of a body, the log and the counts."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import time
from collections.abc import Set
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge_sheaves.serve.metrics import Metrics
from knowledge_sheaves.serve.protocol import BadRequest
from knowledge_sheaves.serve.settings import MOST_BYTES

BODY_SECONDS = 10.0
"""How long a client may take to send what it asks."""
OPEN = frozenset(["/health", "/ready"])

log = logging.getLogger("knowledge_sheaves.serve")


def bounded(receive: Receive) -> Receive:
    """The same request, with a body within bounds of size and time."""
    taken, whole = 0, False

    async def piece() -> Message:
        nonlocal taken, whole
        if whole:  # what may still come is that the client leaves
            return await receive()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                message = await receive()
        except TimeoutError:
            raise BadRequest("The request took too long to arrive.", status=408) from None
        taken += len(message.get("body", b""))
        if taken > MOST_BYTES:
            raise BadRequest(f"A request has at most {MOST_BYTES:,} bytes.", status=413)
        whole = not message.get("more_body", False)
        return message

    return piece


class Gate:
    """Lets requests through that have the token, and notes what became of each.

    ``addresses`` are counted one by one, whatever else is asked for together.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str | None,
        metrics: Metrics,
        log_queries: bool,
        addresses: Set[str],
    ) -> None:
        self.app, self.token, self.metrics = app, token, metrics
        self.log_queries, self.addresses = log_queries, addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, seen = time.monotonic(), {"status": 500, "bytes": 0}

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen["status"] = message["status"]
            elif message["type"] == "http.response.body":
                seen["bytes"] += len(message.get("body", b""))
            await send(message)

        scope.setdefault("state", {})
        try:
            if self.token is None or scope["path"] in OPEN or self._has_token(scope):
                await self.app(scope, bounded(receive), noted)
            else:
                refusal = PlainTextResponse("A token is needed: Authorization: Bearer TOKEN\n", 401)
                # A header each: browsers that meet both in one do not ask for the password.
                refusal.headers.append("WWW-Authenticate", 'Basic realm="sheaves"')
                refusal.headers.append("WWW-Authenticate", "Bearer")
                await refusal(scope, receive, noted)
        finally:
            self._note(scope, seen, time.monotonic() - started)

    def _has_token(self, scope: Scope) -> bool:
        """As Bearer, or as the password of Basic, which is all that many clients can send."""
        assert self.token is not None
        kind, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        if kind.lower() == "basic":
            try:
                given = base64.b64decode(given, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return False
        elif kind.lower() != "bearer":
            return False
        return hmac.compare_digest(given.strip().encode(), self.token.encode())

    def _note(self, scope: Scope, seen: dict[str, int], seconds: float) -> None:
        route = scope["path"] if scope["path"] in self.addresses else "other"
        self.metrics.requests.labels(route, str(seen["status"])).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        query = scope["state"].get("query")
        fields: dict[str, Any] = {
            "method": scope["method"],
            "route": route,
            **seen,
            "ms": round(1000 * seconds, 2),
        }
        if query is not None:
            fields["characters"] = len(query)
            if self.log_queries:
                fields["query"] = query
        log.info("request", extra={"fields": fields})
