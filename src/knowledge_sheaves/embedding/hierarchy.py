"""Classes with coordinates of their own: the stalk of an entity is a direct sum over its ancestors.

All entities share some coordinates, and every class that a relation is about adds its own, once,
however many ways lead up to it. An entity has those of all its classes and their ancestors. A
relation is about the classes that its heads (tails) have in common; its map sees their coordinates
and acts on whatever else an entity has as zero: (F | 0). So a relation of a parent acts on all
children, by one map.

In memory all entities have one wide stalk with zeros where a class is not theirs, and maps have
zeros where a class is not what the relation is about: products stay products. `unfold` gives the
sheaf in which every entity has the stalk that is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding.knowledge import KnowledgeSheaf
from knowledge_sheaves.embedding.maps import MapSpec, Seen
from knowledge_sheaves.embedding.priors import inverse_pairs
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import (
    DEFAULT_TYPE,
    BoolArray,
    GraphMorphism,
    IntArray,
    KnowledgeGraph,
    Relation,
    Schema,
)
from knowledge_sheaves.sheaf import BlockMap, CellularSheaf

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.model import SheafEmbedding


def check_hierarchy(graph: KnowledgeGraph) -> None:
    """Refuse what cannot be where classes have coordinates of their own."""
    _ = graph.ancestry  # refuses where there are no classes
    for relation in graph.schema.relations:
        if relation.functional or relation.inverse_functional:
            said = "functional" if relation.functional else "inverse_functional"
            raise InputError(
                f"The relation {relation.name!r} is said to be {said}, which needs a map that "
                "forgets nothing, and one that sees some classes forgets the others: drop it, or "
                "leave out type_dim."
            )


def own_columns(model: SheafEmbedding) -> tuple[IntArray, BoolArray]:
    """The group of every entity, and which coordinates of a block groups have."""
    ancestry = model.graph.ancestry
    return ancestry.group_of, _columns(model, ancestry.members)


def seen_by(model: SheafEmbedding, heads: Sequence[MapSpec], tails: Sequence[MapSpec]) -> Seen:
    """What the maps of every edge see, those of relations read backwards included."""
    relations = model.graph.schema.relations
    about = {end: rows.copy() for end, rows in model.graph.ancestry.ends.items()}
    for edge, relation in enumerate(relations):
        if relation.symmetric or relation.antisymmetric:  # it has one map, or one and its transpose
            about["head"][edge] &= about["tail"][edge]
            about["tail"][edge] = about["head"][edge]
    for edge, inverse in inverse_pairs(relations):
        for end, other in (("head", "tail"), ("tail", "head")):
            about[end][edge] &= about[other][inverse]
            about[other][inverse] = about[end][edge]
    at_head, at_tail = (torch.from_numpy(_columns(model, about[end])) for end in ("head", "tail"))
    if model.config.reciprocal:
        at_head, at_tail = torch.cat([at_head, at_tail]), torch.cat([at_tail, at_head])
    rows = max((spec.size[0] for spec in (*heads, *tails)), default=1)
    everything = torch.ones(len(at_head), rows, dtype=torch.bool)
    if model.config.energy.on_sphere:  # the tail map is the identity, and the head map says it all
        return Seen(torch.stack([at_head, everything]), torch.stack([at_tail, everything]))
    return Seen(torch.stack([at_head, at_tail]), torch.stack([everything, everything]))


def _columns(model: SheafEmbedding, classes: BoolArray) -> BoolArray:
    """The coordinates of a block from the classes: the shared ones, then those of every class."""
    assert model.config.type_dim is not None, "asked for only then"
    each = model.config.type_dim // model.n_blocks
    shared = np.ones((len(classes), model.shared_width), bool)
    return np.concatenate([shared, classes.repeat(each, axis=1)], axis=1)


@dataclass(frozen=True, eq=False)
class Layout:
    """The blocks of a model's sheaf, with a type for every stalk that occurs.

    ``typing`` sends the graph's facts, in their order, to ``schema``; ``columns`` are the
    coordinates of a block that entities of a type have, in the table; maps and moves are lists by
    edge of the schema, (n_blocks, rows, …).
    """

    schema: Schema
    typing: GraphMorphism
    columns: list[Tensor]
    heads: list[Tensor]
    tails: list[Tensor]
    moves: list[Tensor] | None


@torch.no_grad()
def layout(model: SheafEmbedding) -> Layout:
    """The blocks of the relations read forwards; zeros that stand for nothing are left out."""
    schema, typing, relations = _typed(model)
    if model.config.type_dim:
        columns = [row.nonzero().squeeze(1) for row in model.entities.own]
    else:
        columns = [torch.arange(width, device=model.device) for width in model.widths]
    heads, tails, moves = [], [], []
    z = model.translation(torch.from_numpy(relations).to(model.device))
    for edge, relation in enumerate(relations.tolist()):
        head, tail = int(schema.graph.heads[edge]), int(schema.graph.tails[edge])
        rows = _rows(model, relation, columns[tail])
        heads.append(model.maps.map("head", relation).blocks[:, rows][:, :, columns[head]])
        tails.append(model.maps.map("tail", relation).blocks[:, rows][:, :, columns[tail]])
        if z is not None:
            moves.append(z[edge][:, rows])
    return Layout(schema, typing, columns, heads, tails, None if z is None else moves)


@dataclass(frozen=True, eq=False)
class Unfolded:
    """A sheaf with a type for every set of classes that occurs, and the entities' own vectors.

    A relation has an edge for every pair of types that a fact shows, all with maps cut from its
    one pair. ``typing`` sends the facts of the model, in their order, to the sheaf's schema.
    """

    sheaf: KnowledgeSheaf
    typing: GraphMorphism
    cochain: Tensor


@torch.no_grad()
def unfold(model: SheafEmbedding) -> Unfolded:
    """The sheaf of a model whose classes have coordinates of their own, without the zeros.

    >>> from knowledge_sheaves.embedding import SheafEmbedding, model_config
    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "likes", "Fargo")], types={"Julia": "Person", "Fargo": "Film"}).shared()
    >>> model = SheafEmbedding(model_config("se", dim=4, type_dim=2), graph)
    >>> unfold(model).sheaf.sheaf.vertex_dims, model.widths
    (array([6, 6]), [8])
    """
    parts, energy = layout(model), model.config.energy
    heads = [energy.lift_map(BlockMap(blocks), "head") for blocks in parts.heads]
    tails = [energy.lift_map(BlockMap(blocks), "tail") for blocks in parts.tails]
    dims = [model.n_blocks * len(columns) + energy.on_sphere for columns in parts.columns]
    sheaf = CellularSheaf.from_maps(parts.schema.graph, dims, heads, tails)
    z = None
    if parts.moves is not None:
        z = _one_column(torch.cat([move.flatten(0, 1) for move in parts.moves]))
    x = [
        energy.lift(model, _own_vector(model, entity, parts.columns[kind]))
        for entity, kind in enumerate(parts.typing.vertex_map.tolist())
    ]
    return Unfolded(KnowledgeSheaf(parts.schema, sheaf, z), parts.typing, torch.cat(x))


def _typed(model: SheafEmbedding) -> tuple[Schema, GraphMorphism, IntArray]:
    """The schema with a type for every group of entities, and the relation of every edge."""
    graph = model.graph
    if not model.config.type_dim:
        return graph.schema, graph.typing, np.arange(model.num_relations)
    ancestry, names = graph.ancestry, graph.schema.relation_names
    named = ([ancestry.names[c] for c in np.flatnonzero(row)] for row in ancestry.members)
    types = [" + ".join(classes) or DEFAULT_TYPE for classes in named]
    heads, edges, tails = graph.triples.T
    group = ancestry.group_of
    pairs = np.stack([edges, group[heads], group[tails]], axis=1)
    kinds, edge = np.unique(pairs, axis=0, return_inverse=True)
    relations = [Relation(names[r], types[h], types[t], shared=True) for r, h, t in kinds.tolist()]
    schema = Schema(types, relations)
    typing = GraphMorphism(graph.graph, schema.graph, group, edge.reshape(-1))
    return schema, typing, kinds[:, 0].astype(np.int64)


def _rows(model: SheafEmbedding, relation: int, columns: Tensor) -> Tensor:
    """Which coordinates the stalk of an edge has: what the relation uses and, lifted, the tail."""
    height = model.maps.map("head", relation).blocks.shape[1]
    if model.maps.see_all:
        return torch.arange(height, device=model.device)
    used = model.maps.rows_seen[0, relation, :height].clone()
    if model.config.energy.on_sphere:
        used[columns] = True
    return used.nonzero().squeeze(1)


def _own_vector(model: SheafEmbedding, entity: int, columns: Tensor) -> Tensor:
    x = model.entities.vector(entity).reshape(model.n_blocks, -1, model.config.sections)
    return _one_column(x[:, columns].flatten(0, 1))


def _one_column(x: Tensor) -> Tensor:
    return x.squeeze(-1) if x.shape[-1] == 1 else x
