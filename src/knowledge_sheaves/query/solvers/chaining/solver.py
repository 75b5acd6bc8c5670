"""The solver `chaining`: every unknown of a query is a real entity.

p_e(t | h) = min(1 − ε, n · softmax_t(−V_e(h, t)/τ)) for an edge that points towards the target,
with n the number of tails that are known (at least 1); a remembered fact has p = 1. Edges
that lead to unknowns may be colder than those that lead to the target, by a factor ``focus``. The
probability of an assignment is the product over its edges; an unknown counts as its best candidate,
or, with ``softness``, as all of them together (see `exists`; only where the query has no cycles,
and one target); a union is 1 − Π(1 − p); a negated branch is 1 − min(1, κp) with p its own, and
0 where that is certain.

With the objective ``energy`` it is the paper's own problem instead: the least sum of the edges'
energies over real entities, a union the least of its branches; no facts are remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.batches import batches
from knowledge_sheaves.query.explanation import Explanation
from knowledge_sheaves.query.pattern import Pattern, Query, Variable, slot_variable
from knowledge_sheaves.query.solvers.base import (
    IGNORED,
    NO_REASONS,
    Combinations,
    Fit,
    Hidden,
    Scores,
    Settings,
    Solver,
    bite,
    how_to_search,
    is_positive_with_unknowns,
    parameter,
    temperature,
)
from knowledge_sheaves.query.solvers.chaining.exists import BEST, Exists, either
from knowledge_sheaves.query.solvers.chaining.joint import best_combinations
from knowledge_sheaves.query.solvers.chaining.paths import best_of_paths
from knowledge_sheaves.query.solvers.chaining.plan import make_plan
from knowledge_sheaves.query.solvers.chaining.reasons import explain_pattern
from knowledge_sheaves.query.solvers.chaining.search import Search, Searcher
from knowledge_sheaves.query.solvers.rows import EnergyRows, Rows


@dataclass(frozen=True)
class ChainingSettings(Settings):
    """What `chaining` can be told, in the order in which calibration chooses it."""

    tau: float = temperature()
    softness: float = parameter(
        0.0,
        "How much all candidates of an unknown count beside the best: 0 not at all, 1 as a union.",
        low=0,
        high=1,
        fit=Fit((0.0, 0.25, 0.5, 1.0), is_positive_with_unknowns),
    )
    focus: float = parameter(
        1.0,
        "How many times colder edges are that lead to unknowns than those to the target.",
        above=0,
        fit=Fit((1.0, 1.4, 2.0), is_positive_with_unknowns),
    )
    kappa: float = bite()
    k: int = parameter(
        64,
        "How many candidates of each unknown are kept.",
        low=1,
        # As much MRR is given away for fewer candidates: they are what takes time.
        fit=Fit((16, 32, 64, 128, 256), lambda query: query.has_unknowns, slack=0.001),
    )
    facts: str = parameter(
        "remembered",
        "Whether what is known counts as certain.",
        choices=("remembered", IGNORED),
    )
    objective: str = parameter(
        "probability",
        "What is best: the most probable entities, or by the paper those of the least energy.",
        choices=("probability", "energy"),
    )
    search: str = how_to_search()


class Chaining(Solver):
    """Answers queries with the best candidates of each unknown.

    >>> from knowledge_sheaves.embedding import SheafEmbedding, model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "friends", "Sachin"), ("Sachin", "favorite movie", "Star Wars")])
    >>> query = Query.from_triples(
    ...     [("Julia", "friends", "?y"), ("?y", "favorite movie", "?x")], "?x", graph)
    >>> model = SheafEmbedding(model_config("complex", dim=4), graph)
    >>> best = Chaining.of(model, tau=1.0).log_probabilities([query]).argmax(1)
    >>> graph.entities.names(best.tolist())
    ['Star Wars']
    """

    name = "chaining"
    summary = "The paper's original problem: every unknown is a real entity, by calibrated edges."
    Settings = ChainingSettings

    @property
    def label(self) -> str:
        if self.by_energy:
            return f"{self.name} of least energy"
        return f"{self.name}, facts {self.settings.facts}"

    @property
    def by_energy(self) -> bool:
        return bool(self.settings.objective == "energy")

    @property
    def remembers(self) -> bool:
        """Whether known facts are certain."""
        return not self.by_energy and bool(self.settings.facts == "remembered")

    def refusal(self, query: Query) -> str | None:
        """All queries; but energies alone cannot say what must not hold, nor which of many."""
        if self.by_energy and query.is_negated:
            return "The least energy cannot say what must not hold: leave the objective as it is."
        if self.by_energy and len(query.targets) > 1 and len(query.patterns) > 1:
            return "Several targets of a union have no least energy: leave the objective as it is."
        return None

    _wanted = 0
    """How many combinations were asked for last: reasons look at as many candidates."""

    @cached_property
    def searcher(self) -> Searcher:
        """What all searches of this call share."""
        told = self.settings
        if self.by_energy:
            rows: Rows = EnergyRows(self.model, budget=self.budget)
            return Searcher(rows, self.facts, told.k, 1.0)
        rows = Rows(
            *(self.model, self.facts.graph),
            tau=told.tau,
            remembered=self.remembers,
            budget=self.budget,
        )
        return Searcher(rows, self.facts, told.k, told.kappa, Exists(told.softness), told.focus)

    # Scores.

    def scores(self, queries: Sequence[Query], chances: bool = True) -> Scores:
        logs = self.log_probabilities(queries)
        shown = logs.exp() if chances and not self.by_energy else None
        return Scores(0.0 - logs, shown)  # 0, not -0, for what is certain

    @torch.no_grad()
    def log_probabilities(self, queries: Sequence[Query]) -> Tensor:
        """log p of every entity as the target, (queries, entities); shapes may be mixed."""
        shape = len(queries), self.model.graph.num_entities
        out = self.searcher.rows.full(*shape, value=-torch.inf)
        for batch in batches(queries):
            self.check([queries[batch.queries[0]]])
            batch.check(self.model.graph)
            if len(batch.targets) > 1:
                raise InputError(
                    "Several targets have no single list of scores: ask for their combinations."
                )
            (target,) = batch.targets
            place = self.searcher.rows.ids
            ids = place(batch.entities), place(batch.relations)
            for part, search in self.searcher.searches(batch.shape, target, *ids):
                rows = batch.queries[part].tolist()
                if len(queries) == len(rows) == 1:  # its reasons will ask for the same
                    self._searches[_key(batch.shape, *ids, target, self.searcher)] = search
                for query, row in zip(rows, search.result(), strict=True):
                    out[query] = self._or(out[query], row)
        if self.remembers:
            rows, known = map(self.searcher.rows.ids, self.facts.certain(queries))
            out[rows, known[:, 0]] = 0.0  # the cut to k candidates may have lost what is certain
        return out

    def _or(self, one: Tensor, other: Tensor) -> Tensor:
        return torch.maximum(one, other) if self.by_energy else either(one, other)

    def best(
        self, queries: Sequence[Query], count: int, hidden: Sequence[Hidden]
    ) -> list[Combinations] | None:
        return best_of_paths(self, queries, count, hidden)

    # Several targets.

    @torch.no_grad()
    def combinations(
        self, queries: Sequence[Query], count: int, allowed: Tensor | None
    ) -> list[Combinations]:
        """The likeliest combinations of entities for queries of several targets.

        >>> from knowledge_sheaves.embedding import SheafEmbedding, model_config
        >>> from knowledge_sheaves.graph import KnowledgeGraph
        >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "c")])
        >>> query = Query.from_triples([("a", "r", "?y"), ("?y", "s", "?x")], ["?y", "?x"], graph)
        >>> model = SheafEmbedding(model_config("complex", dim=4), graph)
        >>> (found,) = Chaining.of(model, tau=1.0).combinations([query], 1, None)
        >>> graph.entities.names(found.ids[0].tolist())
        ['b', 'c']
        """
        self.check(queries)
        self._wanted = count
        known: list[list[list[int]]] = [[] for _ in queries]
        if self.remembers:
            rows, ids = map(self.searcher.rows.ids, self.facts.certain(queries))
            keep = slice(None) if allowed is None else allowed[ids].all(1)
            for row, each in zip(rows[keep].tolist(), ids[keep].tolist(), strict=True):
                known[row].append(each)
        found = best_combinations(self.searcher, queries, known, count, allowed)
        if self.by_energy:
            found = [each._replace(probabilities=None) for each in found]
        return found

    # Reasons.

    @torch.no_grad()
    def explain(self, query: Query, answer: Sequence[int]) -> Explanation:
        """The branch of a union that speaks most for an answer, with the chances of the others."""
        self.check([query])
        given = dict(zip(query.targets, map(int, answer), strict=True))
        found = [self._branch(pattern, query.targets, given) for pattern in query.patterns]
        branches = [branch for branch in found if branch is not None]
        if not branches:
            raise InputError(NO_REASONS)
        best = max(branches, key=self._speaks)
        others = tuple(each.branch_probability or 0.0 for each in branches if each is not best)
        return replace(best, alternatives=() if self.by_energy else others)

    def _speaks(self, branch: Explanation) -> float:
        return -branch.energy if self.by_energy else branch.branch_probability or 0.0

    def _branch(
        self, pattern: Pattern, targets: Sequence[Variable], given: dict[Variable, int]
    ) -> Explanation | None:
        self.budget.check_time()
        searcher = self.searcher
        if len(targets) > 1:  # as combinations are found: the best candidate alone counts
            searcher = replace(searcher, k=max(searcher.k, self._wanted), exists=BEST)
        search = self.search(pattern, targets[-1], searcher)
        return explain_pattern(self, search, pattern, targets[-1], given)

    def search(
        self,
        pattern: Pattern,
        target: Variable | None,
        searcher: Searcher,
        prior: Tensor | None = None,
    ) -> Search:
        """The search of one pattern: that which found the answers where it is still at hand."""
        entities, relations = (searcher.rows.ids([row]) for row in pattern.constants)
        slot = None if target is None else slot_variable(pattern.variables.index(target))
        key = _key(pattern.shape, entities, relations, slot, searcher)
        if prior is None and key in self._searches:
            return self._searches[key]
        plan = make_plan(pattern.shape, slot, entities.shape[1])
        search = Search(searcher, plan, entities, relations, prior)
        if prior is None:
            self._searches[key] = search
        return search

    @cached_property
    def _searches(self) -> dict[object, Search]:
        return {}


def _key(
    shape: Pattern, entities: Tensor, relations: Tensor, target: Variable | None, by: Searcher
) -> object:
    ids = tuple(entities[0].tolist()), tuple(relations[0].tolist())
    return shape, ids, target, by.k, by.exists.softness
