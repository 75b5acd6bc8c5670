"""Scores of all entities, through the model's energy: see `energies` for how they are products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding.energies.base import Pool as Pool
from knowledge_sheaves.embedding.energies.base import Query as Query
from knowledge_sheaves.embedding.energies.base import favour
from knowledge_sheaves.embedding.loops import bar_loops
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.sheaf.monomials import Candidates

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.model import SheafEmbedding


def make_query(
    model: SheafEmbedding,
    target: End,
    edges: Tensor,
    known: Tensor,
    vectors: Tensor | None = None,
) -> Query:
    """Edges whose other end is known, ready to be compared with candidates.

    ``vectors`` are those of the known entities, where the caller has looked them up already.
    """
    return model.config.energy.query(model, target, edges, known, vectors)


def compare(
    model: SheafEmbedding, query: Query, pool: Pool, scale: float = 1.0, relative: bool = False
) -> Tensor:
    """``scale`` times the score of every query with every candidate: see `Energy.compare`."""
    return model.config.energy.compare(model, query, pool, scale, relative)


class Siblings:
    """The parts of every relation: edges with the same name that fit the same known end."""

    def __init__(
        self, names: list[object], edge_types: np.ndarray, target: End, device: torch.device
    ) -> None:
        known, open_ = edge_types.T if target == "tail" else edge_types.T[::-1]
        groups: dict[object, list[int]] = {}
        for edge, name in enumerate(names):
            groups.setdefault((name, known[edge]), []).append(edge)
        lists = [groups[name, known[edge]] for edge, name in enumerate(names)]

        def ids(values: Sequence[int] | np.ndarray) -> Tensor:
            return torch.tensor(values, dtype=torch.long, device=device)

        self.edges = ids([e for part in lists for e in part])
        self.offsets = ids([0, *np.cumsum([len(part) for part in lists])])
        self.types = ids(open_)

    def of(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        """(place in ``edges``, sibling) for every sibling of every edge."""
        start, counts = self.offsets[edges], self.offsets[edges + 1] - self.offsets[edges]
        rows = torch.arange(len(edges), device=edges.device).repeat_interleave(counts)
        within = torch.arange(len(rows), device=edges.device) - (counts.cumsum(0) - counts)[rows]
        return rows, self.edges[start[rows] + within]


class Possible:
    """Who may stand at the open end of an edge, by the types of the graph (`graph.classes`)."""

    def __init__(self, model: SheafEmbedding, target: End) -> None:
        graph, other = model.graph, "head" if target == "tail" else "tail"
        assert graph.classes is not None, "asked for only where there are types"
        # Behind the edges of the schema come their reciprocals, whose tails are heads.
        rows = np.concatenate([graph.possible[target], graph.possible[other]])
        self.groups = torch.from_numpy(rows[: len(model.edge_types)]).to(model.device)
        self.group_of = torch.from_numpy(graph.classes.groups[0]).to(model.device)

    def entities(self, edges: Tensor, among: Tensor | None = None) -> Tensor:
        """For every edge which entities may: (edges, entities), of all or among some."""
        groups = self.group_of if among is None else self.group_of[among]
        return self.groups[edges].index_select(1, groups)


def rule_out(
    model: SheafEmbedding,
    target: End,
    edges: Tensor,
    values: Tensor,
    worst: float = torch.inf,
    among: Tensor | None = None,
) -> Tensor:
    """The values (edges, entities), with the worst for those that types rule out at the open end.

    Values that no gradient goes through are changed in place.
    """
    possible = model.possible(target)
    if possible is None:
        return values
    impossible = ~possible.entities(edges, among)
    if values.requires_grad:
        return values.masked_fill(impossible, worst)
    return values.masked_fill_(impossible, worst)


def score_entities(
    model: SheafEmbedding, target: End, edges: Tensor, known: Tensor, among: Tensor | None = None
) -> Tensor:
    """Scores of all entities at the open end, or ``among`` some, infinite where types rule out.

    So is the known entity itself where the data show no loops (`loops`).
    """
    if len(model.graph.schema.types) == 1:
        query = make_query(model, target, edges, known)
        values = compare(model, query, _pool(model, 0, target, among))
        values = rule_out(model, target, edges, values, among=among)
        return bar_loops(model, values, edges, known, among=among)
    size = model.graph.num_entities if among is None else len(among)
    out = model.radius.new_full((len(edges), size), torch.inf)
    siblings = model.siblings(target)
    rows, parts = siblings.of(edges)
    kinds = siblings.types[parts]
    for kind in kinds.unique().tolist():
        mine = (kinds == kind).nonzero().squeeze(1)
        query = make_query(model, target, parts[mine], known[rows[mine]])
        some = None if among is None else _of_type(model, kind, among)
        ids = None if among is None or some is None else among[some]
        values = compare(model, query, _pool(model, kind, target, ids))
        columns = model.entities_of_type(kind) if some is None else some
        out[rows[mine].unsqueeze(1), columns] = values
    return bar_loops(model, out, edges, known, among=among)


def _of_type(model: SheafEmbedding, kind: int, among: Tensor) -> Tensor:
    """The places of some entities that are of a type."""
    kinds = torch.from_numpy(model.graph.entity_types.astype(np.int64)).to(among.device)
    return (kinds[among] == kind).nonzero().squeeze(1)


def _pool(model: SheafEmbedding, kind: int, target: End, some: Tensor | None) -> Pool:
    """All entities of a type, or some."""
    if some is None:
        return model.pool(kind, target)
    points = model.entities.lookup(some)[..., : model.widths[kind], :].detach()
    bias = favour(model, some, target)
    return Pool(
        Candidates(points.flatten(1, 2), model.n_blocks), None if bias is None else bias.detach()
    )


def score_relations(model: SheafEmbedding, heads: Tensor, tails: Tensor) -> Tensor:
    """Scores of all edges of the schema between pairs of entities: (pairs, edges)."""
    out = model.radius.new_full((len(heads), model.num_relations), torch.inf)
    kinds = torch.from_numpy(model.graph.entity_types.astype(np.int64)).to(model.device)
    pairs = torch.stack([kinds[heads], kinds[tails]], 1)
    types = torch.from_numpy(model.edge_types[: model.num_relations]).to(model.device)
    for pair in pairs.unique(dim=0):
        mine = (pairs == pair).all(1).nonzero().squeeze(1)
        edges = (types == pair).all(1).nonzero().squeeze(1)
        if len(edges):
            values = relation_scores(model, edges, heads[mine], tails[mine])
            out[mine.unsqueeze(1), edges] = values
    return out.masked_fill_(~_fitting(model, heads, tails), torch.inf)


def _fitting(model: SheafEmbedding, heads: Tensor, tails: Tensor) -> Tensor:
    """Which edges of the schema may join pairs of entities by their types: (pairs, edges)."""
    at_head, at_tail = model.possible("head"), model.possible("tail")
    count = model.num_relations
    if at_head is None or at_tail is None:
        return torch.ones(len(heads), count, dtype=torch.bool, device=model.device)
    head_groups, tail_groups = at_head.group_of[heads], at_tail.group_of[tails]
    return (at_head.groups[:count, head_groups] & at_tail.groups[:count, tail_groups]).T


def fits(model: SheafEmbedding, heads: Tensor, edges: Tensor, tails: Tensor) -> Tensor:
    """Whether the types of triples are such as their edges take at both ends."""
    at_head, at_tail = model.possible("head"), model.possible("tail")
    if at_head is None or at_tail is None:
        kinds = torch.from_numpy(model.graph.entity_types.astype(np.int64)).to(model.device)
        ends = torch.from_numpy(model.edge_types).to(model.device)[edges]
        return (kinds[heads] == ends[..., 0]) & (kinds[tails] == ends[..., 1])
    heads, tails = at_head.group_of[heads], at_tail.group_of[tails]
    return at_head.groups[edges, heads] & at_tail.groups[edges, tails]


def relation_scores(model: SheafEmbedding, edges: Tensor, heads: Tensor, tails: Tensor) -> Tensor:
    """The scores of all pairs under all edges, without biases: see `Energy.relations`."""
    return model.config.energy.relations(model, edges, heads, tails)
