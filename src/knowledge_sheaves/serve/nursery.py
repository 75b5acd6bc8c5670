"""Processes that are copies of one another: a worker is made in milliseconds and shares memory.

The server starts one process that imports what is needed and does nothing else. A copy of it reads
the models, and copies of that one are the workers. So a worker that was stopped costs little to
replace, and so do models that were replaced on disk. Those who are copied run one thread and do no
work of their own, which is what makes copies safe. Each ends when the line to the server is closed,
and the reader of models ends its workers with it.

    python -m knowledge_sheaves.serve.nursery DESCRIPTOR
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from knowledge_sheaves.serve.frames import receive, send

if TYPE_CHECKING:
    from knowledge_sheaves.serve.work import Desk

FORK, END = b"f", b"e"


def main() -> None:
    """Import what workers need, then make a reader of models whenever the server says so."""
    # Whoever stops the server stops it alone: it lets running queries finish.
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    import torch

    from knowledge_sheaves.serve.work import warm_up

    torch.set_num_threads(1)  # other threads would not be in the copies
    warm_up()
    Nursery(socket.socket(fileno=int(sys.argv[1])), _tend).run()


def _tend(line: socket.socket) -> None:
    """Read the models that the server names, then make workers."""
    from knowledge_sheaves.errors import SheafError

    settings = receive(line)
    if settings is None:
        return
    try:
        desk = _desk(settings[1].decode())
    except SheafError as error:
        send(line, {"error": str(error)})
        return
    gc.freeze()
    send(line, {"ready": True})
    Nursery(line, desk.work).run()


def _desk(settings: str) -> Desk:
    from knowledge_sheaves.serve.settings import Settings
    from knowledge_sheaves.serve.work import Desk

    desk = Desk.open(Settings.from_json(settings))
    desk.warm()
    return desk


class Nursery:
    """Makes copies of this process and ends them; ``life`` is what a copy does on its line."""

    def __init__(self, line: socket.socket, life: Callable[[socket.socket], None]) -> None:
        self.line, self.life = line, life
        self.children: set[int] = set()

    def run(self) -> None:
        """Until the server goes."""
        while True:
            order, given, *_ = socket.recv_fds(self.line, 1, 1)
            self._reap()
            if order == FORK:
                self._fork(given[0])
            elif order == END:
                frame = receive(self.line)
                if frame is not None:
                    self._end(frame[0]["pid"])
            else:
                for pid in list(self.children):
                    self._end(pid)
                return

    def _fork(self, descriptor: int) -> None:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                self.line.close()
                self.life(socket.socket(fileno=descriptor))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(descriptor)
        self.children.add(pid)
        send(self.line, {"pid": pid})

    def _end(self, pid: int) -> None:
        # The number of a process is not given to another before its parent has looked at its end.
        if pid in self.children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                self.children.discard(pid)


if __name__ == "__main__":
    main()
