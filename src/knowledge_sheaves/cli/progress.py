"""How training goes: a bar that moves for a person, a line per epoch for a log file."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from knowledge_sheaves.training import Progress as Report


class Display:
    """Shows validation MRR, the best so far, loss, speed and time left; call it with reports."""

    def __init__(self, triples: int) -> None:
        self.console = Console(stderr=True)
        self.triples = triples
        self.mrr: float | None = None
        self.refit = False
        self._first: tuple[float, float] | None = None
        self._bar = Progress(
            TextColumn("{task.fields[epoch]}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[numbers]}"),
            console=self.console,
            expand=True,
            disable=not self.console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("", total=1.0, epoch="starting", numbers="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def __call__(self, report: Report) -> None:
        done = (report.epoch + report.step / max(report.steps, 1)) / report.epochs
        if report.refit and not self.refit:
            self.refit, self._first = True, None
        self.mrr = report.metrics.get("mrr", self.mrr)
        epoch = f"epoch {report.epoch + 1}/{report.epochs}"
        if report.refit:
            epoch = f"all facts, {epoch}"
        numbers = self._numbers(report, done)
        if self.console.is_terminal:
            self._bar.update(self._task, completed=done, epoch=epoch, numbers=numbers)
        elif report.metrics:
            self.console.print(f"{epoch}  {numbers}", highlight=False, soft_wrap=True)

    def _numbers(self, report: Report, done: float) -> str:
        words = []
        if self.mrr is not None and report.best is not None:
            words.append(f"validation MRR {self.mrr:.3f} (best {report.best:.3f})")
        words.append(f"loss {report.loss:.3f}")
        now = time.perf_counter()
        if self._first is None:
            self._first = (done, now)  # a resumed run does not start at 0
        before, since = self._first
        if done > before:
            speed = self.triples * report.epochs * (done - before) / (now - since)
            words.append(f"{_short(speed)} facts/s")
            words.append(f"{_clock((now - since) * (1 - done) / (done - before))} left")
        return "  ".join(words)


def _short(number: float) -> str:
    return f"{number:,.0f}" if number < 10_000 else f"{number / 1000:,.0f} k"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
    )
