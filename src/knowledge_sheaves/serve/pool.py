"""Workers: one query at a time each, stopped at a deadline and replaced; the rest waits or goes.

A query inside Rust or C cannot be interrupted, only its process can be ended. So every query runs
in a process of its own kind, and none of them has anything in common with another: each has its
own line to the server, and ending one is felt by nobody else.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.serve.frames import Head, packed, received
from knowledge_sheaves.serve.metrics import Metrics
from knowledge_sheaves.serve.nursery import END, FORK
from knowledge_sheaves.serve.settings import Settings

GRACE = 1.0
"""Seconds after its time limit in which a query may end itself, with a sentence."""
WATCH = 1.0
"""Seconds between two looks at the folders of the models."""

log = logging.getLogger("knowledge_sheaves.serve")
Reader = asyncio.StreamReader
Said = tuple[Head, bytes]
Gone = Callable[[], Awaitable[bool]]


class Unanswered(Exception):
    """No answer came; ``status`` is what the client is told, ``retry`` when to ask again."""

    def __init__(self, text: str, status: int, retry: int | None = None) -> None:
        super().__init__(text)
        self.status, self.retry = status, retry


@dataclass(eq=False)
class Worker:
    """A process that answers, and the line to it."""

    brood: Brood
    pid: int
    line: Line

    async def ask(self, head: Head, body: bytes) -> tuple[Head, bytes]:
        """Hand in a job and wait for what comes back."""
        self.line.writer.write(packed(head, body))
        await self.line.writer.drain()
        return await received(self.line.reader)


Stamps = dict[str, tuple[int, int] | None]


def stamps(models: Mapping[str, Path]) -> Stamps:
    """What changes when the folder of a model is replaced."""
    found: Stamps = {}
    for name, folder in models.items():
        found[name] = None
        with suppress(OSError):
            seen = folder.stat()
            found[name] = (seen.st_ino, seen.st_mtime_ns)
    return found


class Line:
    """The line to a process of which copies are made."""

    def __init__(self, sock: socket.socket, reader: Reader, writer: asyncio.StreamWriter) -> None:
        self.socket, self.reader, self.writer = sock, reader, writer
        self.turn = asyncio.Lock()

    @classmethod
    async def of(cls, sock: socket.socket) -> Line:
        """The line at the end of a socket."""
        return cls(sock, *await asyncio.open_connection(sock=sock))

    async def fork(self) -> tuple[int, Line]:
        """Have a copy made; its number, and the line to it."""
        ours, theirs = socket.socketpair()
        with theirs:
            async with self.turn:
                socket.send_fds(self.socket, [FORK], [theirs.fileno()])
                said, _ = await received(self.reader)
        return said["pid"], await Line.of(ours)


async def start_nursery() -> Line:
    """Start the process that all others are copies of."""
    ours, theirs = socket.socketpair()
    with theirs:
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "knowledge_sheaves.serve.nursery", str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            stdin=asyncio.subprocess.DEVNULL,
        )
    return await Line.of(ours)


class Brood:
    """The models as they were when they were read, and the workers that have them."""

    def __init__(self, line: Line, seen: Stamps) -> None:
        self.line, self.seen = line, seen
        self.workers: set[Worker] = set()

    @classmethod
    async def start(cls, nursery: Line, settings: Settings) -> Brood:
        """Have the models read; what is wrong with them is an `InputError`."""
        seen = stamps(settings.models)
        _, line = await nursery.fork()
        line.writer.write(packed({}, settings.to_json().encode()))
        try:
            said, _ = await received(line.reader)
        except asyncio.IncompleteReadError:
            said = {"error": "The process that reads the models ended without a word."}
        if "error" in said:
            line.writer.close()
            raise InputError(said["error"])
        return cls(line, seen)

    async def hatch(self) -> Worker:
        """Make a worker."""
        worker = Worker(self, *await self.line.fork())
        self.workers.add(worker)
        return worker

    def end(self, worker: Worker) -> None:
        """End a worker, whatever it does."""
        self.workers.discard(worker)
        worker.line.writer.close()
        if not self.line.writer.is_closing():
            self.line.writer.write(END + packed({"pid": worker.pid}))

    def close(self) -> None:
        """End all of it."""
        self.line.writer.close()


class Pool:
    """Takes jobs as long as there is room, and hands each to a worker that is free."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        # The last to have worked is asked first: what it needs is still in its core's cache.
        self._idle: asyncio.LifoQueue[Worker] = asyncio.LifoQueue()
        self._inside = 0
        self._brood: Brood | None = None
        self._nursery: Line | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._renewing = asyncio.Lock()

    @property
    def ready(self) -> bool:
        """Whether there are workers."""
        return self._brood is not None and bool(self._brood.workers)

    @property
    def generation(self) -> Brood | None:
        """The models that answer now; another object whenever they were read again."""
        return self._brood

    async def start(self) -> None:
        """Read the models and make the workers; from now on folders that change are read again."""
        await self._renew()
        self._spawn(self._watch())

    async def ask(self, head: Head, body: bytes = b"", gone: Gone | None = None) -> Said:
        """What a worker says to a job; ``gone`` tells whether nobody waits for it any more."""
        if self._inside >= self.settings.workers + self.settings.queue:
            raise Unanswered("All workers are busy and the queue is full.", 503, self._retry)
        self._inside += 1
        self.metrics.waiting.set(self._inside)
        try:
            waits = self._idle.empty()
            worker = await self._free()
            if waits and gone is not None and await gone():
                self._release(worker)
                raise Unanswered("The client left.", 499)
            return await self._asked(worker, head, body)
        finally:
            self._inside -= 1
            self.metrics.waiting.set(self._inside)

    def close(self) -> None:
        """End all workers."""
        for task in self._tasks:
            task.cancel()
        for line in (self._brood.line if self._brood else None, self._nursery):
            if line is not None:
                line.writer.close()

    @property
    def _retry(self) -> int:
        return max(1, round(self.settings.time_limit / 10))

    async def _free(self) -> Worker:
        try:
            async with asyncio.timeout(self.settings.time_limit):
                return await self._idle.get()
        except TimeoutError:
            raise Unanswered(
                "No worker was free within the time limit.", 503, self._retry
            ) from None

    async def _asked(self, worker: Worker, head: Head, body: bytes) -> tuple[Head, bytes]:
        started = time.monotonic()
        try:
            async with asyncio.timeout(self.settings.time_limit + GRACE):
                answered = await worker.ask(head, body)
        except TimeoutError:
            self._lose(worker, "deadline")
            raise Unanswered(
                f"The query took longer than {self.settings.time_limit:g} seconds, and was ended.",
                504,
            ) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            self._lose(worker, "died")
            raise Unanswered(
                "The query ended its worker; most likely it needed more memory than its limit.",
                503,
            ) from None
        except BaseException:
            self._lose(worker, "left")  # what it still says would be taken for another's answer
            raise
        self.metrics.work.observe(time.monotonic() - started)
        self._release(worker)
        return answered

    def _release(self, worker: Worker) -> None:
        brood = worker.brood
        if brood is self._brood:
            self._idle.put_nowait(worker)
            return
        brood.end(worker)
        if not brood.workers:
            brood.close()

    def _lose(self, worker: Worker, why: str) -> None:
        self.metrics.lost.labels(why).inc()
        log.warning("worker ended", extra={"fields": {"pid": worker.pid, "why": why}})
        worker.brood.end(worker)
        if worker.brood is self._brood:
            self._spawn(self._replace(worker.brood))
        elif not worker.brood.workers:
            worker.brood.close()

    async def _replace(self, brood: Brood) -> None:
        try:
            worker = await brood.hatch()
        except (OSError, asyncio.IncompleteReadError):
            if brood is self._brood:  # what the workers are copies of is gone
                await self._try_to_renew()
            return
        self._release(worker)

    async def _renew(self) -> None:
        """Read the models anew; requests go to the old ones until the new ones stand ready."""
        async with self._renewing:
            brood = await Brood.start(await self._root(), self.settings)
            workers = [await brood.hatch() for _ in range(self.settings.workers)]
            old, self._brood = self._brood, brood
            if old is not None:
                while not self._idle.empty():
                    self._release(self._idle.get_nowait())
            for worker in workers:
                self._idle.put_nowait(worker)
            self.metrics.generations.inc()

    async def _root(self) -> Line:
        if self._nursery is None or self._nursery.reader.at_eof():
            self._nursery = await start_nursery()
        return self._nursery

    async def _try_to_renew(self) -> bool:
        try:
            await self._renew()
        except (InputError, OSError, asyncio.IncompleteReadError) as error:
            log.error("models not read", extra={"fields": {"error": str(error)}})
            return False
        log.info("models read")
        return True

    async def _watch(self) -> None:
        """Take up what was replaced on disk, once it lies still."""
        before = self._brood.seen if self._brood else {}
        tried = before
        while True:
            await asyncio.sleep(WATCH)
            now = stamps(self.settings.models)
            still, before = now == before, now
            if still and now != tried and all(now.values()):
                tried = now
                await self._try_to_renew()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
