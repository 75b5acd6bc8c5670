"""Ways to answer: every solver is a file, or a folder, and a line of the registry."""

from __future__ import annotations

from typing import Any

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.vocabulary import suggestion
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.solvers.base import Parameter, Solver
from knowledge_sheaves.query.solvers.chaining import Chaining
from knowledge_sheaves.query.solvers.harmonic import Harmonic
from knowledge_sheaves.query.solvers.naive import Naive

AUTO = "auto"
SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        Chaining,  # the first is what auto stands for: it answers every query
        Harmonic,
        Naive,
    )
}


def find_solver(name: str) -> type[Solver]:
    """The solver with this name; ``auto`` is the first of them.

    >>> find_solver("auto").name
    'chaining'
    """
    if name == AUTO:
        return next(iter(SOLVERS.values()))
    if name not in SOLVERS:
        known = [AUTO, *SOLVERS]
        near = suggestion(name, known)
        raise InputError(f"There is no solver {name!r}{near or ':'} choose {', '.join(known)}.")
    return SOLVERS[name]


def parameters() -> dict[str, Parameter]:
    """All that solvers can be told, by name; what several take has one meaning.

    >>> parameters()["k"].default
    64
    """
    found: dict[str, Parameter] = {}
    for solver in SOLVERS.values():
        for name, about in solver.Settings.parameters().items():
            found.setdefault(name, about)
    return found


def start(
    model: SheafEmbedding, name: str, given: dict[str, Any], budget: Budget | None = None
) -> Solver:
    """A solver for one call; of what is given it goes by what it takes."""
    solver = find_solver(name)
    mine = {key: given[key] for key in solver.Settings.parameters() if key in given}
    return solver.of(model, budget, **mine)
