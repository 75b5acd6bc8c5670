"""Patterns of relations: how many tails a head has and how many heads a tail, and symmetry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.ranking.ranker import FloatArray

# The usual border between "one" and "many", on averages over training triples.
MANY = 1.5
PATTERNS = ("1-1", "1-n", "n-1", "n-n", "symmetric", "unseen")


@dataclass(frozen=True)
class RelationPattern:
    """What the training triples say of a relation with this name.

    A relation is ``symmetric`` where at least half of its triples between distinct entities are
    there the other way round; one without training triples is ``unseen``.

    >>> RelationPattern("married to", 4, tails_per_head=1.0, heads_per_tail=1.0, inverses=1.0).names
    ('1-1', 'symmetric')
    """

    name: str
    triples: int
    tails_per_head: float
    heads_per_tail: float
    inverses: float

    @property
    def names(self) -> tuple[str, ...]:
        """The patterns that the relation belongs to."""
        if not self.triples:
            return ("unseen",)
        heads = "n" if self.heads_per_tail >= MANY else "1"
        tails = "n" if self.tails_per_head >= MANY else "1"
        return (f"{heads}-{tails}", *(("symmetric",) if self.inverses >= 0.5 else ()))


def relation_patterns(train: KnowledgeGraph) -> tuple[RelationPattern, ...]:
    """Return the pattern of every relation, in the order of the schema's relation names.

    >>> graph = KnowledgeGraph.from_triples([("Ann", "has", "cat"), ("Ann", "has", "dog")])
    >>> relation_patterns(graph)[0].names
    ('1-n',)
    """
    schema = train.schema
    heads, edges, tails = (train.triples[:, place].astype(np.int64) for place in range(3))
    relations = schema.edge_names[edges]
    triples = np.bincount(relations, minlength=len(schema.relation_names))
    columns = (
        triples,
        _share(triples, _distinct(relations, heads, len(triples))),
        _share(triples, _distinct(relations, tails, len(triples))),
        _inverse_share(train, relations, len(triples)),
    )
    rows = zip(schema.relation_names, *(column.tolist() for column in columns), strict=True)
    return tuple(RelationPattern(*row) for row in rows)


def _distinct(relations: IntArray, ends: IntArray, size: int) -> IntArray:
    pairs = np.unique(np.stack((relations, ends)), axis=1)
    return np.bincount(pairs[0], minlength=size)


def _inverse_share(train: KnowledgeGraph, relations: IntArray, size: int) -> FloatArray:
    schema, types = train.schema, train.entity_types
    proper = train.triples[:, 0] != train.triples[:, 2]
    heads, tails = (train.triples[proper, place].astype(np.int64) for place in (0, 2))
    names = [schema.relation_names[place] for place in relations[proper].tolist()]
    backwards = schema.find_edges(names, types[tails], types[heads])
    turned = np.stack((tails, backwards, heads), axis=1)
    there = np.zeros(len(turned), np.bool_)
    there[backwards >= 0] = train.contains(turned[backwards >= 0])
    mine = relations[proper]
    return _share(np.bincount(mine[there], minlength=size), np.bincount(mine, minlength=size))


def _share(part: IntArray, whole: IntArray) -> FloatArray:
    return part / np.maximum(whole, 1)
