"""Run the server until it is told to stop."""

from __future__ import annotations

import json
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from knowledge_sheaves.errors import InputError, OutputError
from knowledge_sheaves.serve.app import make_app
from knowledge_sheaves.serve.lines import LONGEST_HEAD, Punctual
from knowledge_sheaves.serve.metrics import Metrics
from knowledge_sheaves.serve.pool import Pool
from knowledge_sheaves.serve.settings import Settings

KEEP_SECONDS = 60
"""How long a connection may lie idle between two requests: clients keep them for later."""
MOST_FILES = 65_536
BACKLOG = 2048
"""Connections that may wait to be taken."""


class JsonLines(logging.Formatter):
    """A line of JSON for each event."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, what happened, and its fields."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        said = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=True, default=str)


def listening(host: str, port: int) -> socket.socket:
    """A socket that is bound; what forbids it is one sentence."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With the protocol named, asyncio switches off the delay that lets small packets wait for
        # one another: an answer would take 40 ms longer.
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        raise OutputError(
            f"{host}, port {port}, cannot be listened on: {error.strerror or error}."
        ) from None
    return found


def address_of(sock: socket.socket) -> str:
    """The address as a browser takes it."""
    host, port = sock.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def run(
    settings: Settings,
    sock: socket.socket,
    *,
    token: str | None = None,
    log_queries: bool = False,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or Ctrl-C; queries that run by then are answered first."""
    if not hasattr(socket, "send_fds"):
        raise InputError("Serving needs a system that can copy processes: Linux or macOS.")
    import uvloop  # where it is not, processes cannot be copied either

    _raise_file_limit()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("knowledge_sheaves.serve", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
    logging.getLogger("knowledge_sheaves.serve").setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    uvloop.run(_serve(settings, sock, token, log_queries, on_ready))


def _raise_file_limit() -> None:
    """A connection is a file, and many systems allow a thousand unless they are asked."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


async def _serve(
    settings: Settings,
    sock: socket.socket,
    token: str | None,
    log_queries: bool,
    on_ready: Callable[[], None],
) -> None:
    # uvicorn raises the signal again that made it stop: by then it has been obeyed.
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: None)
    pool = Pool(settings, Metrics())
    try:
        await pool.start()
        config = uvicorn.Config(
            make_app(pool, token, log_queries),
            http=Punctual,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=LONGEST_HEAD,
            timeout_keep_alive=KEEP_SECONDS,
            timeout_graceful_shutdown=round(settings.time_limit) + 5,
            backlog=BACKLOG,
        )
        sock.listen(BACKLOG)  # who is told that it is ready may come before uvicorn listens
        on_ready()
        await uvicorn.Server(config).serve(sockets=[sock])
    finally:
        pool.close()
