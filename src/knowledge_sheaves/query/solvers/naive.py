"""The solver `naive`: the paper's baseline, which adds up all that a query names."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from knowledge_sheaves.query.explanation import Explanation
from knowledge_sheaves.query.pattern import Query
from knowledge_sheaves.query.solvers.base import (
    Scores,
    Solver,
    condition_beyond,
    grounded,
    restrict,
)
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph, less_favour
from knowledge_sheaves.query.types import readings

WHOLE = "distance of the answer from the sum of all vectors"


class Naive(Solver):
    """‖Σ sources + Σ translations − x‖²: all sources and all relations of a query, added up.

    A relation that is read against its arrow, where it has no reciprocal, is subtracted.
    """

    name = "naive"
    summary = "The paper's baseline: adds up the vectors of all entities and relations named."

    def refusal(self, query: Query) -> str | None:
        config = self.model.config
        identity = config.head == "identity" and config.tail == "identity"
        pattern = query.patterns[0]
        beyond = condition_beyond(pattern, query.targets)
        if not identity or not config.translation or not config.energy.linear:
            return (
                f"The solver naive adds up translations, which {config.name!r} has not: "
                "use harmonic."
            )
        if len(query.targets) > 1:
            return "The solver naive ranks one target at a time: use harmonic or chaining."
        if len(query.patterns) > 1 or pattern.without:
            return "The solver naive answers conjunctions only: use harmonic or chaining."
        if len(self.model.graph.schema.types) > 1:
            return "The solver naive knows no types: use harmonic."
        if beyond is not None:
            return (
                f"The solver naive gives {beyond} no entity that could differ from another: use "
                "the solver chaining."
            )
        return None

    def scores(self, queries: Sequence[Query], chances: bool = True) -> Scores:
        self.check(queries)
        target = queries[0].targets[0]
        batch = self._graph(queries)
        table = self.model.pool(0, "tail").candidates.flat
        energies = self.model.everyone(0, torch.cdist(self._places(batch), table).square())
        energies = less_favour(self.model, batch, batch.vertex(target), energies)
        patterns = [query.patterns[0] for query in queries]
        return Scores(restrict(self.model, energies, patterns, target, self.false))

    def explain(self, query: Query, answer: Sequence[int]) -> Explanation:
        """No edge has an energy of its own, and unknowns have no place."""
        self.check([query])
        (target,), (entity,) = query.targets, answer
        batch = self._graph([query])
        table = self.model.pool(0, "tail").candidates.flat
        away = (self._places(batch) - table).square().sum(1)
        total = less_favour(self.model, batch, batch.vertex(target), away)[entity]
        entities = {target: int(entity)}
        reasons = tuple(
            self.reason(edge, entities, None, probability=None)
            for edge in grounded(query.patterns[0], query.targets).edges
        )
        return Explanation(
            target, self.name, self.named(entities), reasons, beyond={WHOLE: float(total)}
        )

    def _graph(self, queries: Sequence[Query]) -> QueryGraph:
        target = queries[0].targets[0]
        patterns = [grounded(query.patterns[0], query.targets) for query in queries]
        parts = [readings(pattern, self.model.graph)[0] for pattern in patterns]
        return QueryGraph.of(self.model, patterns, parts, target)

    def _places(self, batch: QueryGraph) -> Tensor:
        """Where the answer should be, (queries, d)."""
        vectors = self.model.entities.lookup(batch.entities.flatten()).flatten(1)
        place = vectors.unflatten(0, batch.entities.shape).sum(1)
        for edges, sign in zip(batch.edges.T, batch.signs, strict=True):
            z = self.model.translation(edges)
            assert z is not None, "refused without translations"
            place = place + sign * z.flatten(1)
        return place
