"""The solver `chaining`: every unknown of a query is a real entity.

p_e(t | h) = min(1 − ε, n · softmax_t(−V_e(h, t)/τ)) for an edge that points towards the target,
with n the number of tails that training knows (at least 1); a remembered fact has p = 1. Edges
that lead to unknowns may be colder than those that lead to the target, by a factor ``focus``. The
probability of an assignment is the product over its edges; an unknown counts as its best candidate,
or, with ``softness``, as all of them together (see `exists`; only where the query has no cycles,
and one target); a union is 1 − Π(1 − p); a negated branch is 1 − min(1, κp) with p its own, and
0 where that is certain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.probability import EPSILON
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import check_ids
from knowledge_sheaves.query.batches import Batch, batches
from knowledge_sheaves.query.budget import MEMORY, Limits
from knowledge_sheaves.query.facts.certain import certain
from knowledge_sheaves.query.pattern import Query
from knowledge_sheaves.query.solvers.chaining.exists import Exists
from knowledge_sheaves.query.solvers.chaining.explain import Explanation, explain
from knowledge_sheaves.query.solvers.chaining.joint import best_combinations
from knowledge_sheaves.query.solvers.chaining.plan import make_plan, template
from knowledge_sheaves.query.solvers.chaining.rows import Rows, either
from knowledge_sheaves.query.solvers.chaining.search import Search, Solver
from knowledge_sheaves.query.solvers.harmonic.joint import Combinations
from knowledge_sheaves.query.temperature import fitted_temperature

FACTS = ("remembered", "ignored")


class Chaining:
    """Answers queries with the best ``k`` candidates of each unknown.

    Without ``tau`` the temperature is the one that was fitted when the model was trained.
    ``time_limit`` is in seconds, for each call; ``memory_limit`` in bytes beyond the model.

    >>> from knowledge_sheaves.embedding import model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "friends", "Sachin"), ("Sachin", "favorite movie", "Star Wars")])
    >>> query = Query.from_triples(
    ...     [("Julia", "friends", "?y"), ("?y", "favorite movie", "?x")], "?x", graph)
    >>> model = SheafEmbedding(model_config("complex", dim=4), graph)
    >>> best = Chaining(model, tau=1.0).log_probabilities([query]).argmax(1)
    >>> graph.entities.names(best.tolist())
    ['Star Wars']
    """

    def __init__(
        self,
        model: SheafEmbedding,
        *,
        k: int = 64,
        facts: str = "remembered",
        kappa: float = 1.0,
        softness: float = 0.0,
        focus: float = 1.0,
        tau: float | None = None,
        epsilon: float = EPSILON,
        memory_limit: int = MEMORY,
        time_limit: float = math.inf,
    ) -> None:
        if k < 1:
            raise InputError(f"Each unknown needs at least one candidate, not k = {k}.")
        if facts not in FACTS:
            raise InputError(f"Facts are {' or '.join(FACTS)}, not {facts!r}.")
        if not kappa >= 0:
            raise InputError(f"The weight kappa of a negated branch is at least 0, not {kappa}.")
        self.model, self.k, self.kappa, self.epsilon = model, k, kappa, epsilon
        if not focus > 0:
            raise InputError(f"The focus on unknowns is a positive number, not {focus}.")
        self.exists, self.focus = Exists(softness), focus
        self.facts, self.tau = facts, _temperature(model) if tau is None else tau
        self.memory_limit, self.time_limit = memory_limit, time_limit

    def solver(self) -> Solver:
        """What one call works with: its time starts now."""
        limits = Limits.start(self.memory_limit, self.time_limit)
        rows = Rows(
            self.model,
            tau=self.tau,
            remembered=self.facts == "remembered",
            limits=limits,
            epsilon=self.epsilon,
        )
        return Solver(rows, self.k, self.kappa, self.exists, self.focus)

    @torch.no_grad()
    def log_probabilities(self, queries: Sequence[Query]) -> Tensor:
        """log p of every entity as the target, (queries, entities); shapes may be mixed."""
        solver = self.solver()
        shape = len(queries), self.model.graph.num_entities
        out = torch.full(shape, -torch.inf, dtype=solver.rows.dtype)
        for batch in batches(queries):
            target = single_target(batch)
            batch.check(self.model.graph)
            ids = torch.from_numpy(batch.entities), torch.from_numpy(batch.relations)
            values = solver.solve(template(batch.shape), target, *ids)
            for query, row in zip(batch.queries.tolist(), values, strict=True):
                out[query] = either(out[query], row)
        if self.facts == "remembered":
            rows, known = certain(self.model.graph, queries)
            out[rows, known[:, 0]] = 0.0  # the cut to k candidates may have lost what is certain
        return out

    @torch.no_grad()
    def combinations(
        self, queries: Sequence[Query], count: int, allowed: Tensor | None = None
    ) -> list[Combinations]:
        """The ``count`` likeliest combinations of entities for queries of several targets.

        >>> from knowledge_sheaves.embedding import model_config
        >>> from knowledge_sheaves.graph import KnowledgeGraph
        >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "c")])
        >>> query = Query.from_triples([("a", "r", "?y"), ("?y", "s", "?x")], ["?y", "?x"], graph)
        >>> model = SheafEmbedding(model_config("complex", dim=4), graph)
        >>> (found,) = Chaining(model, tau=1.0).combinations([query], 1)
        >>> graph.entities.names(found.ids[0].tolist())
        ['b', 'c']
        """
        known: list[list[list[int]]] = [[] for _ in queries]
        if self.facts == "remembered":
            rows, ids = certain(self.model.graph, queries)
            keep = slice(None) if allowed is None else allowed[ids].all(1)
            for row, each in zip(rows[keep].tolist(), ids[keep].tolist(), strict=True):
                known[row].append(each)
        return best_combinations(self.solver(), queries, known, count, allowed)

    @torch.no_grad()
    def explain(self, query: Query, answer: int, runner_ups: int = 3) -> Explanation:
        """Why an entity answers a query: the best assignment, with the candidates of the search.

        >>> from knowledge_sheaves.embedding import model_config
        >>> from knowledge_sheaves.graph import KnowledgeGraph
        >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "c")])
        >>> query = Query.from_triples([("a", "r", "?y"), ("?y", "s", "?x")], "?x", graph)
        >>> model = SheafEmbedding(model_config("complex", dim=4), graph)
        >>> found = Chaining(model, tau=1.0).explain(query, graph.entities.id("c"))
        >>> graph.entities.names([found.assignment["?y"]])
        ['b']
        """
        check_ids(np.array([answer]), self.model.graph.num_entities, "The answer")
        solver = self.solver()
        reasons = []
        for place, pattern in enumerate(query.patterns):
            batch = batches([Query(query.targets, (pattern,))])[0]
            target = single_target(batch)
            batch.check(self.model.graph)
            ids = torch.from_numpy(batch.entities), torch.from_numpy(batch.relations)
            plan = make_plan(template(batch.shape), target, batch.entities.shape[1])
            search = Search(solver, plan, *ids)
            reasons.append(explain(search, pattern, place, {query.targets[0]: answer}, runner_ups))
        return max(reasons, key=lambda reason: reason.log_probability)


def single_target(batch: Batch) -> str:
    """The target as the template of the batch's shape calls it."""
    if len(batch.targets) > 1:
        raise InputError(
            "Several targets have no single list of probabilities: ask for their combinations."
        )
    return f"?{batch.targets[0]}"


def _temperature(model: SheafEmbedding) -> float:
    tau = fitted_temperature(model)
    if tau is None:
        raise InputError(
            "The model has no temperature, so its energies are no probabilities: train it with "
            "validation data, or give tau."
        )
    return tau
