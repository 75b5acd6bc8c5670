"""What tests of queries share."""

from __future__ import annotations

import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.query import Answers, Budget, Explanation, Options
from knowledge_sheaves.query.pattern import Variable
from knowledge_sheaves.query.solvers.harmonic import Harmonic
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph


@torch.no_grad()
def target_energies(
    model: SheafEmbedding,
    batch: QueryGraph,
    target: str,
    lift: str = "free",
    strength: float = 0.0,
    budget: Budget | None = None,
) -> Tensor:
    """The least energy of every entity as the target, by the letter unless told otherwise."""
    solver = Harmonic.of(model, budget, lift=lift, strength=strength)
    return solver.batch_energies(batch, Variable(target)).energies


def explain(
    model: SheafEmbedding,
    found: Answers,
    place: int = 0,
    options: Options | None = None,
    runner_ups: int = 3,
) -> Explanation:
    """The reasons for the answer at a place, by the solver that gave it."""
    solver = (options or Options()).but(solver=found.solver).start(model)
    solver.runner_ups = runner_ups
    return solver.explain(found.query, found.ids[place].tolist())
