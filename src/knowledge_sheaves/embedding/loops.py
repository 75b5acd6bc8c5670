"""Entities do not relate to themselves, unless the data show that a relation may do so.

A relation with at least ``ENOUGH`` training facts and no loop among them is taken to be
irreflexive: nothing is an answer to a question about itself by it, in ranking as in answers. A
model with the option ``loops`` (`SheafConfig`) does without this rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.graph import BoolArray, IntArray, KnowledgeGraph

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.model import SheafEmbedding

ENOUGH = 20
"""Fewer facts do not show that a relation has no loops."""


def irreflexive(graph: KnowledgeGraph) -> BoolArray:
    """Which relations, by name, have facts enough and no loop among them.

    >>> around = [(f"s{n}", "next", f"s{n + 1}") for n in range(20)]
    >>> irreflexive(KnowledgeGraph.from_triples([*around, ("s0", "likes", "s0")])).tolist()
    [True, False]
    """
    heads, edges, tails = graph.triples.T
    names, count = graph.schema.edge_names, len(graph.schema.relation_names)
    facts = np.bincount(names[edges], minlength=count)
    loops = np.bincount(names[edges[heads == tails]], minlength=count)
    return (facts >= ENOUGH) & (loops == 0)


def is_barred(train: KnowledgeGraph, triples: IntArray) -> BoolArray:
    """Which triples training facts rule out, as loops or by types: no energy says how likely."""
    heads, edges, tails = triples.T
    barred = np.asarray(heads == tails)
    if barred.any():  # all facts are looked at for that
        barred &= irreflexive(train)[train.schema.edge_names[edges]]
    if train.classes is not None:
        groups = train.classes.groups[0]
        barred = barred | ~train.possible["head"][edges, groups[heads]]
        barred = barred | ~train.possible["tail"][edges, groups[tails]]
    return barred


def bar_loops(
    model: SheafEmbedding,
    scores: Tensor,
    edges: Tensor,
    known: Tensor,
    value: float = torch.inf,
    among: Tensor | None = None,
) -> Tensor:
    """Rule out the known entity itself, row by row, where its edge has an irreflexive relation.

    A model may be told that all relations may have loops (``loops`` of its configuration).

    ``scores`` (rows, entities), or of those ``among`` some, are changed in place; ``edges`` are
    those of the model.
    """
    if model.config.loops:
        return scores
    rows = _barred_edges(model)[edges].nonzero().squeeze(1)
    columns = known[rows]
    if among is not None and len(rows):
        columns = torch.searchsorted(among, columns).clamp(max=len(among) - 1)
        there = among[columns] == known[rows]
        rows, columns = rows[there], columns[there]
    if len(rows):
        scores[rows, columns] = value
    return scores


def bars_loops(model: SheafEmbedding, edge: int) -> bool:
    """Whether nothing is an answer about itself by an edge of the model."""
    return not model.config.loops and bool(_barred_edges(model)[edge])


def _barred_edges(model: SheafEmbedding) -> Tensor:
    return model.keep(("irreflexive", model.device), lambda: _of_edges(model))


def _of_edges(model: SheafEmbedding) -> Tensor:
    by_name = irreflexive(model.graph)[model.graph.schema.edge_names]
    both = np.tile(by_name, len(model.edge_types) // max(1, len(by_name)))
    return torch.from_numpy(both).to(model.device)
