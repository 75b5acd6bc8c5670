"""Rows of calibrated probabilities: of all entities, as the other end of an edge at a known one.

A row is kept as logits −V/τ and one number to add to them, so that the largest tensors of a query
are read as few times as possible. Everything is a logarithm: products of small probabilities would
be zero long before their order stopped to matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.embedding.probability import EPSILON
from knowledge_sheaves.embedding.scoring import compare, make_query, score_entities
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import Schema
from knowledge_sheaves.query.budget import Limits
from knowledge_sheaves.query.solvers.chaining.exists import Exists

# As many numbers as stay in a core's cache between one pass over them and the next.
CACHED_NUMBERS = 1 << 18
# A matrix product gains nothing from more rows than this at once.
MOST_ROWS = 1024


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


def gather(
    out: Tensor, logits: Tensor, queries: Tensor, index: Tensor, weights: Tensor, exists: Exists
) -> None:
    """Add candidates to the sums of their queries, ``out`` (queries, entities).

    A candidate has a query, the ``index`` of its row of ``logits``, and a weight to add to that.
    """
    order = queries.argsort(stable=True)
    distinct, counts = queries[order].unique_consecutive(return_counts=True)
    together = max(1, CACHED_NUMBERS // logits.shape[1])
    for query, mine in zip(distinct.tolist(), order.split(counts.tolist()), strict=True):
        for group in mine.split(together):
            rows = logits[index[group]].add_(weights[group].unsqueeze(-1))
            out[query] = exists.add(out[query], exists.sum(rows.unsqueeze(0))[0])


class Rows:
    """The log-probabilities log p_e(· | h) of a model, with the facts it remembers."""

    def __init__(
        self,
        model: SheafEmbedding,
        *,
        tau: float,
        remembered: bool,
        limits: Limits,
        epsilon: float = EPSILON,
    ) -> None:
        if not tau > 0:
            raise InputError(f"A temperature is a positive number, not {tau!r}.")
        self.model, self.tau, self.remembered, self.limits = model, tau, remembered, limits
        self.highest = math.log1p(-epsilon)
        self.size = model.graph.num_entities
        self.dtype = next(model.entities.parameters()).dtype
        self.facts, self._edges = model.graph.by_name(), _edges_by_type(model.graph.schema)
        self._types = torch.from_numpy(model.graph.entity_types.astype(np.int64))

    @property
    def at_once(self) -> int:
        """How many rows fit into the memory limit, with what is computed from them."""
        bytes_a_row = 3 * self.size * self.dtype.itemsize
        return min(MOST_ROWS, self.limits.fit(2 * bytes_a_row))

    def score(
        self, entities: Tensor, relations: Tensor, inverse: bool, focus: float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Logits (rows, entities) and offsets (rows): log p is their sum.

        ``relations`` are places among the relation names; ``inverse`` asks for heads; the
        temperature is divided by ``focus``.
        """
        self.limits.check_time()
        logits = self._logits(entities, relations, inverse, self.tau / focus)
        counts, answers = self._known(entities, relations, inverse)
        offsets = torch.empty(len(logits), dtype=logits.dtype)
        for group in slices(len(logits), CACHED_NUMBERS // self.size):
            part = logits[group]
            top = part.amax(1, keepdim=True).clamp(min=torch.finfo(part.dtype).min)
            total = (part - top).exp_().sum(1)
            offsets[group] = counts[group].log() - total.log() - top.squeeze(1)
            # A row in which nothing is possible has no softmax; it stays impossible.
            offsets[group].masked_fill_(total == 0, 0.0)
            bounds = self.highest - offsets[group]
            for row in (top.squeeze(1) > bounds).nonzero().squeeze(1).tolist():
                part[row].clamp_(max=float(bounds[row]))
        if answers is not None:
            rows, ids = answers
            logits[rows, ids] = -offsets[rows]
        return logits, offsets

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
        out = torch.ones(len(distinct), self.size, dtype=self.dtype)
        heads, edges, tails = self.facts.triples.T
        for row, relation in enumerate(distinct.tolist()):
            out[row, torch.from_numpy((tails if inverse else heads)[edges == relation]).long()] = 0
        return out[place]

    def loops(self, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The entities that a fact of the relation joins with themselves: rows and entities."""
        triples = self.facts.triples
        heads, edges, _ = triples[triples[:, 0] == triples[:, 2]].T
        rows, places = np.nonzero(relations.numpy()[:, None] == edges)
        return torch.from_numpy(rows), torch.from_numpy(heads[places].astype(np.int64))

    def _logits(self, entities: Tensor, relations: Tensor, inverse: bool, tau: float) -> Tensor:
        model = self.model
        edges = self._edges[int(inverse), relations, self._types[entities]]
        fits = edges >= 0
        asked = edges.clamp(min=0) + (model.num_relations if self._reciprocal(inverse) else 0)
        end: End = "head" if inverse and not model.config.reciprocal else "tail"
        with torch.no_grad():
            if len(model.graph.schema.types) == 1:
                query = make_query(model, end, asked, entities)
                pool = model.pool(0, end)
                return compare(model, query, pool, scale=-1 / tau, relative=True)
            logits = score_entities(model, end, asked, entities).div_(-tau)
        logits[~fits] = -torch.inf
        return logits

    def _reciprocal(self, inverse: bool) -> bool:
        return inverse and self.model.config.reciprocal

    def _known(
        self, entities: Tensor, relations: Tensor, inverse: bool
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """How many answers training has, and as (row, entity) which, where they are remembered."""
        asked, by = entities.numpy(), relations.numpy()
        if not self.remembered:
            facts = self.facts
            n = facts.in_degree(by, asked) if inverse else facts.out_degree(asked, by)
            return torch.from_numpy(np.maximum(n, 1)).to(self.dtype), None
        many = self.facts.heads_many(by, asked) if inverse else self.facts.tails_many(asked, by)
        ids, n = many[0], np.diff(many[1])
        rows = torch.from_numpy(np.repeat(np.arange(len(n)), n))
        answers = rows, torch.from_numpy(ids.astype(np.int64))
        return torch.from_numpy(np.maximum(n, 1)).to(self.dtype), answers


def either(a: Tensor, b: Tensor) -> Tensor:
    """log(1 − (1 − p)(1 − q)) from log p and log q, exact also where both are tiny.

    >>> either(torch.tensor(0.5).log(), torch.tensor(0.5).log()).exp()
    tensor(0.7500)
    """
    return torch.logaddexp(a, b + torch.log1p(-a.exp()))


def slices(length: int, step: int) -> Iterator[slice]:
    """Cut a range into pieces of at most ``step``.

    >>> list(slices(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    step = max(1, step)
    return (slice(start, min(start + step, length)) for start in range(0, length, step))


def _edges_by_type(schema: Schema) -> Tensor:
    """An edge for (inverse, relation name, type of the known end), -1 where none fits.

    Any part that fits will do: scores cover all parts with the same name and known type.
    """
    edges = torch.full((2, len(schema.relation_names), len(schema.types)), -1)
    names = torch.from_numpy(schema.edge_names.astype(np.int64))
    ends = schema.graph
    for side, types in enumerate((ends.heads, ends.tails)):
        kinds = torch.from_numpy(np.asarray(types, dtype=np.int64))
        edges[side, names, kinds] = torch.arange(len(names))
    return edges
