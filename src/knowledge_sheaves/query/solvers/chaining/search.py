"""One batch of patterns of one shape: candidates for every unknown, and what they imply.

Messages run towards the target, from each unknown through its best candidates: dynamic programming,
exact on trees up to that cut. With cycles the same messages only propose candidates, and tables
over them are maximised exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from knowledge_sheaves.query.batches import slices
from knowledge_sheaves.query.facts.certain import KnownFacts
from knowledge_sheaves.query.pattern import Pattern, Term, Variable
from knowledge_sheaves.query.solvers.arrows import Arrow
from knowledge_sheaves.query.solvers.chaining.cycles import exact
from knowledge_sheaves.query.solvers.chaining.exists import BEST, Exists, gather
from knowledge_sheaves.query.solvers.chaining.plan import (
    Apart,
    Equal,
    Factor,
    Negation,
    Plan,
    make_plan,
)
from knowledge_sheaves.query.solvers.rows import Rows

# How many candidates each entity behind an unknown proposes.
PROPOSALS = 4
# What an entity counts less as a candidate, as a logarithm, where the next relation knows it not.
INACTIVE = math.log(0.1)
# A candidate so much less likely than the best, as a logarithm, need not be followed any further.
FAINT = math.log(1e-3)


@dataclass(frozen=True, eq=False)
class Part:
    """Rows (rows, entities) for some queries and some of their candidates.

    log p = ``logits`` + ``offsets``; ``index`` (queries, candidates) says which row is whose.
    """

    queries: slice
    candidates: slice
    logits: Tensor
    offsets: Tensor
    index: Tensor

    def at(self, entities: Tensor) -> Tensor:
        """log p of some entities (queries, n) of every query: (queries, candidates, n)."""
        rows = self.index.unsqueeze(-1)
        return self.logits[rows, entities.unsqueeze(1)] + self.offsets[rows]


@dataclass(frozen=True)
class Searcher:
    """What all searches share.

    Rows, known facts, the cut k, how hard a negated branch bites, what makes an unknown exist, and
    how many times colder edges that lead to unknowns are than those that lead to the target.
    """

    rows: Rows
    facts: KnownFacts
    k: int
    kappa: float
    exists: Exists = BEST
    focus: float = 1.0

    def solve(
        self,
        pattern: Pattern,
        target: Variable | None,
        entities: Tensor,
        relations: Tensor,
        prior: Tensor | None = None,
    ) -> Tensor:
        """log p of every entity as the target, (batch, entities); one column without a target.

        ``pattern`` has slots for ids. ``prior`` is what is known of the target elsewhere: it helps
        to propose candidates and does not count otherwise.
        """
        found = self.searches(pattern, target, entities, relations, prior)
        return torch.cat([search.result() for _, search in found])

    def searches(
        self,
        pattern: Pattern,
        target: Variable | None,
        entities: Tensor,
        relations: Tensor,
        prior: Tensor | None = None,
    ) -> Iterator[tuple[slice, Search]]:
        """The same for some queries of the batch at a time, as many as memory allows."""
        plan = make_plan(pattern, target, entities.shape[1])
        for part in slices(len(entities), self._queries_at_once(plan)):
            some = None if prior is None else prior[part]
            yield part, Search(self, plan, entities[part], relations[part], some)

    def _queries_at_once(self, plan: Plan) -> int:
        """A few vectors over all entities for every variable; with cycles, rows of candidates."""
        rows = 3 + 2 * len(plan.distance)
        if not plan.is_forest:
            rows += self.k * sum(goal == plan.target for _, goal in plan.links)
        bytes_a_query = rows * self.rows.size * self.rows.dtype.itemsize
        return self.rows.budget.fit(2 * bytes_a_query)

    def deny(self, log_p: Tensor) -> Tensor:
        """log(1 − min(1, κp)); what facts make certain is denied whatever κ is."""
        denied = torch.log1p(-(self.kappa * log_p.exp()).clamp(max=1.0))
        return denied.masked_fill_(log_p >= 0, -torch.inf) if self.rows.remembered else denied


class Search:
    """Beliefs about the variables of a batch.

    ``own`` is what a variable's own factors say of every entity (batch, entities), ``arrived`` the
    messages from variables farther out, ``candidates`` the ids (batch, k) of each unknown,
    ``evidence`` what each negation of one variable was proposed with; ``constant`` (batch) is from
    factors without variables, ``elsewhere`` from unknowns that nothing connects with the target.
    """

    def __init__(
        self,
        searcher: Searcher,
        plan: Plan,
        entities: Tensor,
        relations: Tensor,
        prior: Tensor | None = None,
    ) -> None:
        self.searcher, self.rows, self.plan = searcher, searcher.rows, plan
        self.entities, self.relations, self.prior = entities, relations, prior
        self.batch = self.rows.places(len(entities))
        self.own: dict[Variable, Tensor] = {}
        self.arrived: dict[Variable, Tensor] = {}
        self.candidates: dict[Variable, Tensor] = {}
        self.informed: set[Variable] = set()
        self.evidence: dict[int, Tensor | None] = {}
        self.constant = self.rows.full(len(entities))
        for factor in plan.scalars:
            self.constant = self.constant + self.constant_of(factor)
        self.elsewhere = torch.zeros_like(self.constant)
        for variable, factors in plan.unary.items():
            for factor in factors:
                if not isinstance(factor, Negation):
                    self._weigh(variable, self._known(factor))
                    if not isinstance(factor, Apart):
                        self.informed.add(variable)
        self._propose()

    def result(self) -> Tensor:
        """log p of every entity as the target."""
        target = self.plan.target
        if not self.plan.is_forest:
            return exact(self)
        if target is None:
            return (self.constant + self.elsewhere).unsqueeze(1)
        return self.belief(target) + (self.constant + self.elsewhere).unsqueeze(1)

    # Values of single factors.

    def values(self, factor: Factor, queries: Tensor, given: Tensor) -> Tensor:
        """log-values (n, entities) of a factor at its goal; ``given`` (n, …) are its sources."""
        if isinstance(factor, Arrow):
            relations = self.relations[queries, factor.relation]
            return self.rows.log_p(given[:, 0], relations, factor.inverse, self.focus(factor))
        if isinstance(factor, Negation):
            entities = torch.cat([self.entities[queries], given], 1)
            return self._denied(factor, entities, self.relations[queries])
        values = self.rows.full(len(given), self.rows.size)
        if isinstance(factor, Apart):
            return values.scatter_(1, given, -torch.inf)
        return values.fill_(-torch.inf).scatter_(1, given, 0.0)

    def focus(self, arrow: Arrow) -> float:
        """How much colder an edge is than those that lead to the target."""
        unknown = isinstance(arrow.goal, Variable) and arrow.goal != self.plan.target
        return self.searcher.focus if unknown else 1.0

    def column(self, slot: Term) -> Tensor:
        """The entities (batch) in a slot."""
        assert not isinstance(slot, Variable), "a variable has no column"
        return self.entities[:, slot]

    def _known(self, factor: Arrow | Apart | Equal) -> Tensor:
        """The values of a factor whose source is a known entity, over all of its goal."""
        # Only of terms that must differ is the order no one's choice.
        slot = factor.goal if isinstance(factor.source, Variable) else factor.source
        given = self.column(slot).unsqueeze(1)
        parts = [
            self.values(factor, self.batch[part], given[part])
            for part in slices(len(given), self.rows.at_once)
        ]
        return torch.cat(parts)

    def constant_of(self, factor: Factor) -> Tensor:
        """The values (batch) of a factor that joins no variables."""
        if isinstance(factor, Negation):
            return self._denied(factor, self.entities, self.relations).squeeze(1)
        source, goal = self.column(factor.source), self.column(factor.goal)
        parts = []
        for part in slices(len(source), self.rows.at_once):
            values = self.values(factor, self.batch[part], source[part].unsqueeze(1))
            parts.append(values.gather(1, goal[part].unsqueeze(1)).squeeze(1))
        return torch.cat(parts)

    def _denied(
        self, factor: Negation, entities: Tensor, relations: Tensor, prior: Tensor | None = None
    ) -> Tensor:
        """log-values (n, entities) of a negated branch; one column where it has no goal."""
        pattern, goal = factor.pattern, factor.goal
        inner = self.searcher.solve(pattern, goal, entities, relations, prior)
        unknown = [variable for variable in pattern.variables if variable != goal]
        if self.rows.remembered and unknown and self.searcher.k < self.rows.size:
            self.rows.budget.check_time()
            known = self.searcher.facts.certain_goals(pattern, goal, entities, relations)
            inner[tuple(map(self.rows.ids, known))] = 0.0
        return self.searcher.deny(inner)

    def denied_given(self, factor: Negation, given: Tensor, prior: Tensor | None) -> Tensor:
        """The same for given values (batch, …) of the variables that it knows."""
        entities = torch.cat([self.entities, given], 1)
        return self._denied(factor, entities, self.relations, prior)

    # Beliefs.

    def _weigh(self, variable: Variable, values: Tensor) -> None:
        """Let one more factor weigh the entities that a variable may be."""
        self.own[variable] = self.own[variable] + values if variable in self.own else values

    def belief(self, variable: Variable) -> Tensor:
        own, arrived = self.own.get(variable), self.arrived.get(variable)
        if own is None and arrived is None:
            return self.rows.full(len(self.entities), self.rows.size)
        if own is None or arrived is None:
            return own if arrived is None else arrived  # type: ignore[return-value]
        return own + arrived

    def _evidence(
        self, variable: Variable, asking: frozenset[Variable] = frozenset()
    ) -> Tensor | None:
        """What is known of a variable so far, from nearer the target where nothing else is."""
        if variable in self.informed:
            return self.belief(variable)
        return self._hint(variable, asking)

    def _hint(self, variable: Variable, asking: frozenset[Variable] = frozenset()) -> Tensor | None:
        """What is known nearer to the target, carried backwards over the links to a variable."""
        if variable == self.plan.target:
            return self.prior
        total: Tensor | None = None
        for evidence, arrows in self._behind(variable, asking):
            if evidence is not None:
                weights, ids = evidence.topk(min(self.searcher.k, self.rows.size))
                message = self._message(arrows, ids, weights)
                total = message if total is None else total + message
        return total

    def _behind(
        self, variable: Variable, asking: frozenset[Variable] = frozenset()
    ) -> list[tuple[Tensor | None, list[Factor]]]:
        """What is known of the variables nearer to the target, and the arrows back from them."""
        found: list[tuple[Tensor | None, list[Factor]]] = []
        for goal, factors in self.plan.out(variable):
            arrows: list[Factor] = [f.reversed() for f in factors if isinstance(f, Arrow)]
            # Variables equally far from the target may point at each other in a ring.
            if arrows and goal not in asking:
                found.append((self._evidence(goal, asking | {variable}), arrows))
        return found

    def _propose(self) -> None:
        """Choose candidates of all unknowns, and let each send its messages."""
        waiting = sorted(self.plan.unknowns, key=self.plan.distance.__getitem__, reverse=True)
        while waiting:
            ready = [v for v in waiting if not set(self.plan.sources(v)) & set(waiting)]
            # The others may learn from those that know something.
            variable = next((v for v in ready if v in self.informed), ready[0])
            waiting.remove(variable)
            self._close(variable)
            ids = self.candidates[variable] = self._choose(variable)
            weights = self.belief(variable).gather(1, ids)
            links = list(self.plan.out(variable))
            if not links:
                self.elsewhere = self.elsewhere + self.searcher.exists(weights.unsqueeze(-1))[:, 0]
            for goal, factors in links:
                message = self._message(factors, ids, weights)
                if goal in self.arrived:
                    message = self.arrived[goal] + message
                self.arrived[goal] = message
                self.informed.add(goal)
        if self.plan.target is not None:
            self._close(self.plan.target)

    def _close(self, variable: Variable) -> None:
        """Take in the factors that are evaluated best when much is known: loops and negations."""
        for arrow in self.plan.loops.get(variable, []):
            self._weigh(variable, self._loop(variable, arrow))
            self.informed.add(variable)
        for factor in self.plan.unary.get(variable, []):
            if isinstance(factor, Negation):
                evidence = self.evidence[self.plan.negations.index(factor)] = self._evidence(
                    variable
                )
                denied = self._denied(factor, self.entities, self.relations, evidence)
                self._weigh(variable, denied)

    def _loop(self, variable: Variable, arrow: Arrow) -> Tensor:
        """log p_e(h | h) of facts and the best candidates so far, or of all where none are."""
        evidence = self._evidence(variable)
        if evidence is None:
            ids = self.rows.places(self.rows.size).expand(len(self.entities), -1)
        else:
            ids = evidence.topk(min(self.searcher.k, self.rows.size)).indices
        values = self.rows.full(len(ids), self.rows.size, value=-torch.inf)
        for part in self.parts([arrow], ids):
            mine = ids[part.queries, part.candidates]
            found = part.logits[part.index, mine] + part.offsets[part.index]
            values[part.queries] = values[part.queries].scatter(1, mine, found)
        if self.rows.remembered:
            queries, known = self.rows.loops(self.relations[:, arrow.relation])
            values[queries, known] = 0.0
        return values

    def _choose(self, variable: Variable) -> Tensor:
        """The candidates of an unknown: some by what comes before it, some by what lies behind.

        The best entities behind it each propose their own, so that no one answer takes all places.
        """
        k = min(self.searcher.k, self.rows.size)
        belief = self.belief(variable)
        order = belief + self._activity(variable)
        behind = [(e, arrows) for e, arrows in self._behind(variable) if e is not None]
        places = k // 2 if variable in self.informed else k
        each = places // (len(behind) * PROPOSALS) if behind and k < self.rows.size else 0
        if each:
            for evidence, arrows in behind:
                ids = self._proposals(arrows, evidence.topk(each).indices, belief)
                order = order.scatter(1, ids, torch.inf)
        return order.topk(k).indices

    def _proposals(self, arrows: list[Factor], ids: Tensor, belief: Tensor) -> Tensor:
        """The best partners of each entity over reversed arrows, (batch, entities · PROPOSALS)."""
        out = ids.new_empty(*ids.shape, PROPOSALS)
        for part in self.parts(arrows, ids):
            values = part.logits[part.index].add_(belief[part.queries].unsqueeze(1))
            out[part.queries, part.candidates] = values.topk(PROPOSALS).indices
        return out.flatten(1)

    def _activity(self, variable: Variable) -> Tensor | float:
        """Less for entities without a fact of the relations that are asked for next."""
        total: Tensor | float = 0.0
        for _, factors in self.plan.out(variable):
            for factor in factors:
                if isinstance(factor, Arrow):
                    relations = self.relations[:, factor.relation]
                    total = total + INACTIVE * self.rows.inactive(relations, factor.inverse)
        return total

    # Links.

    def _message(self, factors: list[Factor], ids: Tensor, weights: Tensor) -> Tensor:
        """That some candidate exists, by weight + log-value: log p (batch, entities)."""
        out = self.rows.full(len(ids), self.rows.size, value=-torch.inf)
        queries, places = self.followed(weights).nonzero(as_tuple=True)
        index, asking, sources = self._distinct(factors, queries, ids[queries, places])
        for some in slices(len(asking), self._at_once(factors)):
            logits, offsets = self._sum(factors, asking[some], sources[some])
            mine = ((index >= some.start) & (index < some.stop)).nonzero().squeeze(1)
            rows, asked = index[mine] - some.start, queries[mine]
            weight = weights[asked, places[mine]] + offsets[rows]
            gather(out, logits, asked, rows, weight, self.searcher.exists)
        return self.searcher.exists.close(out)

    def followed(self, weights: Tensor) -> Tensor:
        """Which candidates (batch, k) count: none that are faint beside the best."""
        least = weights.amax(1, keepdim=True) + FAINT
        return weights >= (least if weights.shape[1] < self.rows.size else -torch.inf)

    def parts(self, factors: list[Factor], ids: Tensor) -> Iterator[Part]:
        """Rows of a link from candidates ids (batch, k), a part that fits in memory at a time.

        Queries that ask for the same entity and relations share a row.
        """
        queries, candidates = ids.shape
        at_once = self._at_once(factors)
        for some in slices(queries, at_once // candidates):
            for few in slices(candidates, at_once):
                given = ids[some, few]
                of = self.batch[some].unsqueeze(1).expand_as(given).flatten()
                index, asking, sources = self._distinct(factors, of, given.flatten())
                rows = self._sum(factors, asking, sources)
                yield Part(some, few, *rows, index.reshape(given.shape))

    def _at_once(self, factors: list[Factor]) -> int:
        return max(1, self.rows.at_once // len(factors))

    def _distinct(
        self, factors: list[Factor], queries: Tensor, ids: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Which row each candidate of a query needs, and the query and source of each row."""
        columns = [ids]
        columns += [self.relations[queries, f.relation] for f in factors if isinstance(f, Arrow)]
        if any(isinstance(factor, Negation) for factor in factors):
            columns.append(queries)
        keys, index = torch.stack(columns, 1).unique(dim=0, return_inverse=True)
        if len(keys) == len(ids):  # no row is shared, so their order may be that of the candidates
            return self.rows.places(len(ids)), queries, ids.unsqueeze(1)
        example = index.new_empty(len(keys))
        example[index] = self.rows.places(len(ids))
        return index, queries[example], ids[example].unsqueeze(1)

    def _sum(
        self, factors: list[Factor], queries: Tensor, sources: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Logits and offsets of a link's rows."""
        first = factors[0]
        if len(factors) == 1 and isinstance(first, Arrow):
            relations = self.relations[queries, first.relation]
            return self.rows.score(sources[:, 0], relations, first.inverse, self.focus(first))
        total = self.values(first, queries, sources)
        for factor in factors[1:]:
            total += self.values(factor, queries, sources)
        return total, total.new_zeros(len(total))
