"""What a question may cost: bytes beyond the model, and seconds, from its text to its last reason.

One budget is made when a question is asked, and whatever works on it, reading, facts, solvers,
explanations, keeps to the same one.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from knowledge_sheaves.errors import InputError, SheafError

MEMORY = 1 << 29


class OutOfBudget(SheafError):
    """A question would cost more than it may."""


@dataclass(frozen=True)
class Budget:
    """How many bytes a question may use beyond the model, and until when it may run.

    >>> Budget(memory=1000).fit(300)
    3
    """

    memory: int = MEMORY
    deadline: float = math.inf

    @classmethod
    def start(cls, memory: int, seconds: float) -> Budget:
        """The budget of a question that is asked now."""
        return cls(memory, time.monotonic() + seconds)

    @property
    def seconds(self) -> float:
        """The time that is left."""
        return self.deadline - time.monotonic()

    def check_time(self) -> None:
        """Called between parts of the work, none of which takes long."""
        if self.seconds < 0:
            raise OutOfBudget(
                "The query took longer than its time limit: raise the limit, or keep fewer "
                "candidates of each unknown."
            )

    def fit(self, size: int) -> int:
        """How many things of so many bytes fit at once; none is an error."""
        if size > self.memory:
            raise InputError(
                f"One query needs about {size:,} bytes beyond the model, and its memory limit is "
                f"{self.memory:,}: raise the limit."
            )
        return self.memory // max(1, size)
