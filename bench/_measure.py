"""What benchmarks share: how long a job takes, and how much memory the process has needed."""

from __future__ import annotations

import time
from collections.abc import Callable

from knowledge_sheaves.memory import peak_memory


def interleaved(jobs: dict[str, Callable[[], object]], rounds: int = 5) -> dict[str, float]:
    """The best time of each job, in turns: what else the machine does meets all alike."""
    for job in jobs.values():
        job()
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def peak_gib() -> float:
    """The most memory that this process has held so far."""
    return peak_memory() / 2**30
