"""What a user can choose about answering questions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.known import ALL, TRAIN, check_known, known_graph
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.vocabulary import suggestion
from knowledge_sheaves.query.budget import MEMORY, Budget
from knowledge_sheaves.query.solvers import AUTO, find_solver, parameters, start
from knowledge_sheaves.query.solvers.base import Solver


@dataclass(frozen=True, init=False)
class Options:
    """How questions are answered: by which solver, at what cost, and what the solver is told.

    ``known`` says which facts count as known: "all" that the user gave, or those of "train" alone.
    Left open, questions know all, and what measures a model knows those of training.
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
    known: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __init__(
        self,
        solver: str = AUTO,
        *,
        memory_limit: int = MEMORY,
        time_limit: float = math.inf,
        known: str | None = None,
        **settings: Any,
    ) -> None:
        find_solver(solver)
        if known is not None:
            check_known(known)
        takes, given = parameters(), {}
        for name, value in settings.items():
            if name not in takes:
                near = suggestion(name, takes)
                raise InputError(f"No solver has a parameter {name!r}{near or '.'}")
            if value is not None:
                given[name] = takes[name].read(value)
        for name, value in (
            ("solver", solver),
            ("memory_limit", memory_limit),
            ("time_limit", time_limit),
            ("known", known),
            ("settings", given),
        ):
            object.__setattr__(self, name, value)

    def but(self, **changed: Any) -> Options:
        """The same options with some changed; None leaves open again what was given.

        >>> Options("chaining", k=16).but(solver="harmonic", tau=1.0)
        Options('harmonic', k=16, tau=1.0)
        """
        names = ("solver", "memory_limit", "time_limit", "known")
        return Options(**{n: getattr(self, n) for n in names} | dict(self.settings) | changed)

    def start(
        self, model: SheafEmbedding, budget: Budget | None = None, *, measures: bool = False
    ) -> Solver:
        """The solver for a call that begins now, unless its budget was begun already.

        It answers a question, or ``measures`` how well the model answers.
        """
        solver = start(model, self.solver, dict(self.settings), budget or self.budget())
        return solver.knowing(known_graph(model, self.known or (TRAIN if measures else ALL)))

    def budget(self) -> Budget:
        """The budget of a question that is asked now."""
        return Budget.start(self.memory_limit, self.time_limit)

    def __repr__(self) -> str:
        told = dict(self.settings) | ({"known": self.known} if self.known else {})
        given = "".join(f", {name}={value!r}" for name, value in told.items())
        return f"Options({self.solver!r}{given})"

    def __hash__(self) -> int:
        given = tuple(sorted(self.settings.items()))
        return hash((self.solver, self.memory_limit, self.time_limit, self.known, given))
