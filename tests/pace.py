"""How fast this machine is just now: limits of time are those of one that does nothing else.

Machines that share their processors with others are, for minutes or hours, several times as slow
as they were. What is too slow by more than that is found all the same.
"""

from __future__ import annotations

import time

STEPS = 100_000
SECONDS = 0.01
"""Processor time that so many steps take on a machine of the speed that limits were set on."""


def slower() -> float:
    """How many times as long as usual work takes: 1 where it is no slower, 8 at the most."""
    start, total = time.process_time(), 0
    for number in range(STEPS):
        total += number * number
    return min(8.0, max(1.0, (time.process_time() - start) / SECONDS))
