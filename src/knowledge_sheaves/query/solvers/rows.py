"""Rows of calibrated probabilities: of all entities, as the other end of an edge at a known one.

A row is kept as logits −V/τ and one number to add to them, so that the largest tensors of a query
are read as few times as possible. Everything is a logarithm: products of small probabilities would
be zero long before their order stopped to matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.known import false_facts
from knowledge_sheaves.embedding.loops import bar_loops
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.embedding.probability import EPSILON
from knowledge_sheaves.embedding.scoring import compare, make_query, rule_out
from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.query.batches import slices
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.pattern import Pattern, Variable
from knowledge_sheaves.query.solvers.arrows import arrows

# As many numbers as stay in a core's cache between one pass over them and the next.
CACHED_NUMBERS = 1 << 18
HIGHEST = math.log1p(-EPSILON)
"""Only a remembered fact is certain."""
# A matrix product gains nothing from more rows than this at once.
MOST_ROWS = 1024


class Rows:
    """The log-probabilities log p_e(· | h) of a model, with the facts it remembers."""

    def __init__(
        self,
        model: SheafEmbedding,
        known: KnowledgeGraph | None = None,
        *,
        tau: float,
        remembered: bool,
        budget: Budget,
    ) -> None:
        self.model, self.tau, self.remembered, self.budget = model, tau, remembered, budget
        self.size = model.graph.num_entities
        self.dtype = model.radius.dtype
        self.facts = (known or model.graph).by_name
        false = false_facts(model)
        self.false = None if false is None else false.by_name
        self._edges, self._types = model.keep("edges by type", lambda: _edges_by_type(model))

    def full(self, *shape: int, value: float = 0.0) -> Tensor:
        """A tensor of one number, as rows are."""
        return torch.full(shape, value, dtype=self.dtype, device=self.model.device)

    def ids(self, given: Tensor | IntArray | Sequence[object]) -> Tensor:
        """Whole numbers where the model is."""
        plain = given if isinstance(given, Tensor) else torch.from_numpy(np.array(given, np.int64))
        return plain.to(self.model.device)

    def places(self, count: int) -> Tensor:
        """0, …, count − 1."""
        return torch.arange(count, device=self.model.device)

    @property
    def at_once(self) -> int:
        """How many rows fit into the memory limit, with what is computed from them."""
        bytes_a_row = 3 * self.size * self.dtype.itemsize
        return min(MOST_ROWS, self.budget.fit(2 * bytes_a_row))

    def score(
        self, entities: Tensor, relations: Tensor, inverse: bool, focus: float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Logits (rows, entities) and offsets (rows): log p is their sum.

        ``relations`` are places among the relation names; ``inverse`` asks for heads; the
        temperature is divided by ``focus``.
        """
        self.budget.check_time()
        logits = self._logits(entities, relations, inverse, self.tau / focus)
        counts, answers = self.known(entities, relations, inverse)
        offsets = logits.new_empty(len(logits))
        for group in slices(len(logits), CACHED_NUMBERS // self.size):
            part = logits[group]
            top = part.amax(1, keepdim=True).clamp(min=torch.finfo(part.dtype).min)
            total = (part - top).exp_().sum(1)
            offsets[group] = counts[group].log() - total.log() - top.squeeze(1)
            # A row in which nothing is possible has no softmax; it stays impossible.
            offsets[group].masked_fill_(total == 0, 0.0)
            bounds = HIGHEST - offsets[group]
            for row in (top.squeeze(1) > bounds).nonzero().squeeze(1).tolist():
                part[row].clamp_(max=float(bounds[row]))
        if answers is not None:
            rows, ids = answers
            logits[rows, ids] = -offsets[rows]
        self.drop_false(logits, entities, relations, inverse)
        return logits, offsets

    def drop_false(
        self,
        logits: Tensor,
        entities: Tensor,
        relations: Tensor,
        inverse: bool,
        among: Tensor | None = None,
    ) -> None:
        """What is known to be false is impossible; columns are all entities, or some, ascending."""
        if self.false is None:
            return
        _, rows, ids = self._ends(self.false, entities, relations, inverse)
        if among is not None:
            here = torch.isin(ids, among)
            rows, ids = rows[here], torch.searchsorted(among, ids[here])
        logits[rows, ids] = -torch.inf

    def most_false(self, entities: Tensor, relations: Tensor, inverse: bool) -> int:
        """How many other ends are known to be false, at most."""
        if self.false is None:
            return 0
        return int(self._ends(self.false, entities, relations, inverse)[0].max())

    def log_p(
        self, entities: Tensor, relations: Tensor, inverse: bool, focus: float = 1.0
    ) -> Tensor:
        """log p_e(· | h) of all entities, one row per pair."""
        logits, offsets = self.score(entities, relations, inverse, focus)
        return logits.add_(offsets.unsqueeze(1))

    def energy(self, source: int, relation: int, goal: int, inverse: bool) -> float:
        """The score of one edge, computed directly: infinite where no part of it fits the types."""
        ends = self.model.graph.entity_types[[goal, source] if inverse else [source, goal]]
        name = self.model.graph.schema.relation_names[relation]
        edge = int(self.model.graph.schema.find_edges([name], ends[:1], ends[1:])[0])
        if edge < 0:
            return math.inf
        if self._reciprocal(inverse):
            row = [source, edge + self.model.num_relations, goal]
        else:
            row = [goal, edge, source] if inverse else [source, edge, goal]
        return float(self.model.scores([row])[0])

    def inactive(self, relations: Tensor, inverse: bool) -> Tensor:
        """1 for entities that no fact of the relation leaves, 0 for others, one row each."""
        distinct, place = relations.unique(return_inverse=True)
        out = self.full(len(distinct), self.size, value=1.0)
        order, starts = self.facts.by_relation
        for row, relation in enumerate(distinct.tolist()):
            mine = self.facts.triples[order[starts[relation] : starts[relation + 1]]]
            out[row, self.ids(mine[:, 2 if inverse else 0])] = 0
        return out[place]

    def chances(
        self, pattern: Pattern, entities: Mapping[Variable, int], target: Variable
    ) -> list[float]:
        """p_e of every edge between the entities that stand at its ends, seen from the target."""
        found = []
        for arrow in arrows(pattern, target):
            source, goal = (
                entities[term] if isinstance(term, Variable) else int(term)
                for term in (arrow.source, arrow.goal)
            )
            asked = self.ids([source]), self.ids([int(arrow.relation)])
            found.append(float(self.log_p(*asked, arrow.inverse)[0, goal].exp()))
        return found

    def loops(self, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The entities that a fact of the relation joins with themselves: rows and entities."""
        triples = self.facts.triples
        heads, edges, _ = triples[triples[:, 0] == triples[:, 2]].T
        rows, places = np.nonzero(relations.cpu().numpy()[:, None] == edges)
        return self.ids(rows), self.ids(heads[places])

    def _logits(
        self, entities: Tensor, relations: Tensor, inverse: bool, tau: float, relative: bool = True
    ) -> Tensor:
        model = self.model
        end, asked, fits = self.edges(entities, relations, inverse)
        with torch.no_grad():
            if len(model.graph.schema.types) == 1 and not model.is_spread:
                query = make_query(model, end, asked, entities)
                pool = model.pool(0, end)
                logits = compare(model, query, pool, scale=-1 / tau, relative=relative)
                logits = rule_out(model, end, asked, logits, -torch.inf)
                return bar_loops(model, logits, asked, entities, -torch.inf)
            logits = model.score_everyone(end, asked, entities).div_(-tau)
        logits[~fits] = -torch.inf
        return logits

    def edges(
        self, entities: Tensor, relations: Tensor, inverse: bool
    ) -> tuple[End, Tensor, Tensor]:
        """Which end of which edges is asked for, and whether any edge fits the entity's type."""
        edges = self._edges[int(inverse), relations, self._types[entities]]
        reciprocal = self.model.num_relations if self._reciprocal(inverse) else 0
        end: End = "head" if inverse and not self.model.config.reciprocal else "tail"
        return end, edges.clamp(min=0) + reciprocal, edges >= 0

    def degrees(self, entities: Tensor, relations: Tensor, inverse: bool) -> Tensor:
        """How many facts of a relation leave each entity."""
        asked, by, facts = entities.cpu().numpy(), relations.cpu().numpy(), self.facts
        return self.ids(facts.in_degree(by, asked) if inverse else facts.out_degree(asked, by))

    def _reciprocal(self, inverse: bool) -> bool:
        return inverse and bool(self.model.config.reciprocal)

    def known(
        self, entities: Tensor, relations: Tensor, inverse: bool
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """How many answers are known, and as (row, entity) which, where they are remembered."""
        if not self.remembered:
            return self.degrees(entities, relations, inverse).clamp(min=1).to(self.dtype), None
        counts, rows, ids = self._ends(self.facts, entities, relations, inverse)
        return counts.clamp(min=1).to(self.dtype), (rows, ids)

    def _ends(
        self, graph: KnowledgeGraph, entities: Tensor, relations: Tensor, inverse: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """How many other ends a graph has for each row, and as rows and entities which."""
        asked, by = entities.cpu().numpy(), relations.cpu().numpy()
        found, offsets = graph.heads_many(by, asked) if inverse else graph.tails_many(asked, by)
        n = np.diff(offsets)
        return self.ids(n), self.ids(np.repeat(np.arange(len(n)), n)), self.ids(found)


class EnergyRows(Rows):
    """−V_e(h, ·) in the place of log-probabilities: the paper's own objective, without facts."""

    def __init__(self, model: SheafEmbedding, *, budget: Budget) -> None:
        super().__init__(model, tau=1.0, remembered=False, budget=budget)

    def score(
        self, entities: Tensor, relations: Tensor, inverse: bool, focus: float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """−V of all entities, whatever the focus, and nothing to add to it."""
        self.budget.check_time()
        logits = self._logits(entities, relations, inverse, 1.0, relative=False)
        self.drop_false(logits, entities, relations, inverse)
        return logits, logits.new_zeros(len(logits))


def _edges_by_type(model: SheafEmbedding) -> tuple[Tensor, Tensor]:
    """A schema edge for (inverse, relation, type of the known end), -1 where none fits; the types.

    Any part that fits will do: scores cover all parts with the same name and known type.
    """
    graph, schema = model.graph, model.graph.schema
    edges = torch.full((2, len(schema.relation_names), len(schema.types)), -1)
    names = torch.from_numpy(schema.edge_names.astype(np.int64))
    ends = schema.graph
    for side, types in enumerate((ends.heads, ends.tails)):
        kinds = torch.from_numpy(np.asarray(types, dtype=np.int64))
        edges[side, names, kinds] = torch.arange(len(names))
    types_of = torch.from_numpy(graph.entity_types.astype(np.int64))
    return edges.to(model.device), types_of.to(model.device)
