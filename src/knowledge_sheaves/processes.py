"""Processes that work on one thing together: who takes part, what they agree on, who is lost.

They are started by torchrun and speak through gloo. Where nobody started several, there is one, and
all of this holds for it too.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import HashStore, PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from knowledge_sheaves.errors import InputError, OutputError, SheafError
from knowledge_sheaves.plain import printable

T = TypeVar("T")
START: Final = 300.0
"""Seconds in which all processes must have come."""
PATIENCE: Final = 1800.0
"""Seconds that processes wait for each other afterwards: one may write a file of many gigabytes."""
LAST: Final = 5.0
"""Seconds that a process which is ended has for its last word."""
SAID: Final = "sheaves/said"
SIGNS = ("gloo", "connection", "connect(", "socket", "timed out", "timeout", "store", "peer")
"""What an error of torch says that comes from a process that is gone."""


class LostError(SheafError):
    """A process of several is gone, and the others cannot go on."""


def started_by_torchrun() -> int:
    """How many processes torchrun started this one among; 1 where it did not.

    >>> started_by_torchrun()
    1
    """
    return int(os.environ.get("WORLD_SIZE", 1))


class Processes:
    """This process among those that work together.

    >>> with Processes.started() as processes:
    ...     processes.count, processes.rank, processes.first, processes.mean(3.0)
    (1, 0, True, 3.0)
    """

    def __init__(self, rank: int, count: int) -> None:
        self.rank, self.count = rank, count
        self.store: Store | None = None
        self.advice: Callable[[], str] = lambda: "Start it again."

    @classmethod
    @contextmanager
    def started(cls, patience: float = START) -> Iterator[Processes]:
        """Meet the others; errors inside the block are said once, whoever meets them."""
        processes = cls(int(os.environ.get("RANK", 0)), started_by_torchrun())
        try:
            with processes._said_once(), processes._watched():
                processes.store = processes._meet(patience)
                dist.init_process_group(
                    "gloo",
                    store=PrefixStore("sheaves/group", processes.store),
                    rank=processes.rank,
                    world_size=processes.count,
                    timeout=timedelta(seconds=PATIENCE),
                )
                yield processes
                dist.barrier()  # nobody leaves while others still ask
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()

    @property
    def first(self) -> bool:
        """Whether this is the one that prints and that writes what all have in common."""
        return self.rank == 0

    def own(self, rows: int) -> tuple[int, int]:
        """Which of the rows of a table are this process's: the first, and the one after the last.

        >>> [Processes(rank, 3).own(8) for rank in range(3)]
        [(0, 3), (3, 6), (6, 8)]
        """
        block = -(-rows // self.count)
        return min(rows, self.rank * block), min(rows, (self.rank + 1) * block)

    def _meet(self, patience: float) -> Store:
        """Wait until all processes have come; returns what they keep notes in."""
        if self.count == 1:
            return HashStore()
        start = time.monotonic()
        store = self.store = _store(patience)
        if store is None:
            raise LostError(
                f"Process {self.rank} of {self.count} found nobody to work with in {patience:.0f} "
                f"seconds: does the first machine ({os.environ.get('MASTER_ADDR')}) run, and can "
                "it be reached?"
            )
        store.set(f"sheaves/here/{self.rank}", "")
        missing = list(range(self.count))
        while missing := [one for one in missing if not store.check([f"sheaves/here/{one}"])]:
            if time.monotonic() - start > patience:
                raise LostError(
                    f"Of {self.count} processes {len(missing)} did not start in {patience:.0f} "
                    f"seconds (numbers from 0: {', '.join(map(str, missing))}): start all of them "
                    "again."
                )
            time.sleep(0.05)
        return store

    # What all processes find out together: each must ask, and in the same order.

    def total(self, values: Tensor, how: Any = dist.ReduceOp.SUM) -> Tensor:
        """The sum of tensors of one shape over all processes, in the place of this one's."""
        if self.count > 1 and values.numel():
            dist.all_reduce(values, how)
        return values

    def largest(self, values: Tensor) -> Tensor:
        """The largest of each number over all processes."""
        return self.total(values, dist.ReduceOp.MAX)

    def mean(self, value: float) -> float:
        """The mean of a number over all processes."""
        return float(self.total(torch.tensor(value, dtype=torch.float64))) / self.count

    def gather(self, thing: Any) -> list[Any]:
        """What every process has, in their order: small things."""
        found: list[Any] = [None] * self.count
        dist.all_gather_object(found, thing)
        return found

    def from_first(self, thing: Any) -> Any:
        """What the first process has."""
        found = [thing]
        dist.broadcast_object_list(found, src=0)
        return found[0]

    @contextmanager
    def together(self) -> Iterator[None]:
        """Do something that may fail; where it fails for one, it fails for all, for that reason.

        Inside the block nobody waits for anybody.
        """
        problem: SheafError | None = None
        try:
            yield
        except SheafError as error:
            problem = error
        except OSError as error:
            problem = OutputError(f"Process {self.rank} cannot write: {error.strerror or error}.")
        mine = None if problem is None else (isinstance(problem, InputError), str(problem))
        found = [each for each in self.gather(mine) if each is not None]
        if found:
            given, said = found[0]
            raise (InputError if given else OutputError)(said) from problem

    def led(
        self, lead: Callable[[Callable[[Path], list[T]]], None], write: Callable[[Path], T]
    ) -> None:
        """Let the first process prepare a place, all write there, and the first finish it.

        ``lead`` calls what it is given with the place, and gets what ``write`` returned to each.
        """
        shared = False

        def share(place: Path) -> list[T]:
            nonlocal shared
            shared = True
            return self._each(write, self.from_first(place))

        with self.together():
            if not self.first:
                place = self.from_first(None)
                if place is not None:
                    self._each(write, place)
                return
            try:
                lead(share)
            finally:
                if not shared:  # it failed before; the others wait for the place
                    self.from_first(None)

    def _each(self, write: Callable[[Path], T], place: Path) -> list[T]:
        with self.together():
            written = write(place)
        return self.gather(written)

    # What goes wrong.

    @contextmanager
    def _said_once(self) -> Iterator[None]:
        try:
            yield
        except SheafError as error:
            self._leave_if_said(error)
            raise
        except RuntimeError as error:
            if self.count == 1 or not _is_loss(error):
                raise
            lost = LostError(f"One of the {self.count} processes was lost. {self.advice()}")
            self._leave_if_said(lost)
            raise lost from error

    def _leave_if_said(self, error: SheafError) -> None:
        """End this process without a word where another one has said what is wrong."""
        if not claim(self.store):
            raise SystemExit(error.exit_code) from error

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Say what happened when torchrun ends this process, even while it waits for others.

        Python's own handlers would wait until the wait in gloo is over.
        """
        if self.count == 1 or threading.current_thread() is not threading.main_thread():
            yield
            return
        told, tell = os.pipe()
        os.set_blocking(tell, False)
        before = signal.set_wakeup_fd(tell)
        kinds = (signal.SIGTERM, signal.SIGINT)
        old = [signal.signal(kind, lambda *_: None) for kind in kinds]
        threading.Thread(target=self._end, args=(told,), daemon=True).start()
        try:
            yield
        finally:
            for kind, handler in zip(kinds, old, strict=True):
                signal.signal(kind, handler)
            signal.set_wakeup_fd(before)
            os.close(tell)

    def _end(self, told: int) -> None:
        signals = os.read(told, 1)
        if not signals:
            return
        time.sleep(0.2)  # whoever knows more may speak first
        if claim(_store(LAST)):  # not that of the process, which may be waiting in it
            what = f"The run of {self.count} processes was ended, or one of them was lost."
            print(
                f"sheaves: {printable(f'{what} {self.advice()}')}", file=sys.__stderr__, flush=True
            )
        os._exit(128 + signals[0])


def claim(store: Store | None) -> bool:
    """Whether nobody has said yet what is wrong; whoever asks first is to say it."""
    with suppress(RuntimeError):
        return store is None or int(store.add(SAID, 1)) == 1
    return True  # where the store was lost too, twice is better than never


def _store(patience: float) -> Store | None:
    """A line of one's own to what the processes keep notes in: another thread may be using it."""
    with suppress(RuntimeError, ValueError):
        store, _, _ = next(iter(rendezvous("env://", timeout=timedelta(seconds=patience))))
        return store
    return None


def _is_loss(error: RuntimeError) -> bool:
    """Whether an error of torch means that another process is gone."""
    said = str(error).lower()
    return isinstance(error, dist.DistError) or any(sign in said for sign in SIGNS)
