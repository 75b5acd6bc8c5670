"""What a user can choose about answering questions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.vocabulary import suggestion
from knowledge_sheaves.query.budget import MEMORY, Budget
from knowledge_sheaves.query.solvers import AUTO, find_solver, parameters, start
from knowledge_sheaves.query.solvers.base import Solver


@dataclass(frozen=True, init=False)
class Options:
    """How questions are answered: by which solver, at what cost, and what the solver is told.

    ``memory_limit`` is in bytes beyond the model, ``time_limit`` in seconds for each call. All else
    is a parameter of a solver (``sheaves solvers`` lists them); what is not given, or None, is as
    the model was calibrated, or else the parameter's default.

    >>> Options("chaining", k=16).settings
    {'k': 16}
    >>> Options(kapa=2.0)
    Traceback (most recent call last):
    knowledge_sheaves.errors.InputError: No solver has a parameter 'kapa'; did you mean 'kappa'?
    """

    solver: str
    memory_limit: int
    time_limit: float
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __init__(
        self,
        solver: str = AUTO,
        *,
        memory_limit: int = MEMORY,
        time_limit: float = math.inf,
        **settings: Any,
    ) -> None:
        find_solver(solver)
        known, given = parameters(), {}
        for name, value in settings.items():
            if name not in known:
                near = suggestion(name, known)
                raise InputError(f"No solver has a parameter {name!r}{near or '.'}")
            if value is not None:
                given[name] = known[name].read(value)
        for name, value in (
            ("solver", solver),
            ("memory_limit", memory_limit),
            ("time_limit", time_limit),
            ("settings", given),
        ):
            object.__setattr__(self, name, value)

    def but(self, **changed: Any) -> Options:
        """The same options with some changed; None leaves open again what was given.

        >>> Options("chaining", k=16).but(solver="harmonic", tau=1.0)
        Options('harmonic', k=16, tau=1.0)
        """
        rest = {"memory_limit": self.memory_limit, "time_limit": self.time_limit}
        return Options(**{"solver": self.solver} | rest | dict(self.settings) | changed)

    def start(self, model: SheafEmbedding, budget: Budget | None = None) -> Solver:
        """The solver for a call that begins now, unless its budget was begun already."""
        return start(model, self.solver, dict(self.settings), budget or self.budget())

    def budget(self) -> Budget:
        """The budget of a question that is asked now."""
        return Budget.start(self.memory_limit, self.time_limit)

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        return f"Options({self.solver!r}{given})"

    def __hash__(self) -> int:
        given = tuple(sorted(self.settings.items()))
        return hash((self.solver, self.memory_limit, self.time_limit, given))
