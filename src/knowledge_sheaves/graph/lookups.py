"""Questions to the known triples: tails, heads, degrees, neighbours, one or many at a time."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import (
    BoolArray,
    Columns,
    IntArray,
    Width,
    as_triples,
    check_ids,
    columns_of,
    id_array,
    offsets_of,
    sort_columns,
)
from knowledge_sheaves.graph.index import SortedTriples
from knowledge_sheaves.graph.schema import Schema
from knowledge_sheaves.graph.vocabulary import Vocabulary

RelationLike: TypeAlias = int | str | npt.ArrayLike


class Neighbours(NamedTuple):
    """The edges at an entity; a self-loop is here twice, once in each direction."""

    relations: IntArray
    others: IntArray
    outgoing: BoolArray


class Lookups:
    """The part of a knowledge graph that answers what is known; each direction is indexed once."""

    schema: Schema
    entities: Vocabulary
    triples: IntArray

    @property
    def num_entities(self) -> int:
        """How many entities there are, those without triples included."""
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        """How many edges the schema has; a split relation counts once for each part."""
        return len(self.schema.relations)

    @property
    def id_dtype(self) -> Width:
        """The dtype of the triples: int32 unless the ids need more."""
        return np.int32 if max(self.num_entities, self.num_relations) < 2**31 else np.int64

    @cached_property
    def _from_heads(self) -> SortedTriples:
        return SortedTriples.index(self.triples, self.num_entities)

    @cached_property
    def _from_tails(self) -> SortedTriples:
        heads, relations, tails = columns_of(self.triples)
        sizes = (self.num_entities, self.num_relations, self.num_entities)
        rows = sort_columns((tails, relations, heads), sizes, self.id_dtype)
        return SortedTriples.index(rows, self.num_entities)

    def index(self) -> Self:
        """Build the lookups of both directions now rather than at the first question."""
        _ = self._from_heads, self._from_tails
        return self

    def tails(self, head: int, relation: int | str) -> IntArray:
        """Return the sorted tails of (head, relation)."""
        return self._lookup(self._from_heads, head, relation)

    def heads(self, relation: int | str, tail: int) -> IntArray:
        """Return the sorted heads of (relation, tail)."""
        return self._lookup(self._from_tails, tail, relation)

    def tails_many(
        self, heads: npt.ArrayLike, relations: RelationLike
    ) -> tuple[IntArray, IntArray]:
        """Return the tails of many (head, relation): all ids, and the offsets of each answer.

        >>> from knowledge_sheaves.graph import KnowledgeGraph
        >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("a", "r", "c")])
        >>> ids, offsets = graph.tails_many([0, 1], "r")
        >>> ids.tolist(), offsets.tolist()
        ([1, 2], [0, 2, 2])
        """
        return self._lookup_many(self._from_heads, heads, relations)

    def heads_many(
        self, relations: RelationLike, tails: npt.ArrayLike
    ) -> tuple[IntArray, IntArray]:
        """Return the heads of many (relation, tail): all ids, and the offsets of each answer."""
        return self._lookup_many(self._from_tails, tails, relations)

    def out_degree(self, heads: npt.ArrayLike, relations: RelationLike) -> IntArray:
        """Count the tails of many (head, relation)."""
        return self._count(self._from_heads, heads, relations)

    def in_degree(self, relations: RelationLike, tails: npt.ArrayLike) -> IntArray:
        """Count the heads of many (relation, tail)."""
        return self._count(self._from_tails, tails, relations)

    def neighbours(self, entity: int) -> Neighbours:
        """Return the relations and other ends of all edges at an entity, outgoing ones first.

        >>> from knowledge_sheaves.graph import KnowledgeGraph
        >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("c", "r", "a")])
        >>> graph.neighbours(0).others.tolist()
        [1, 2]
        """
        check_ids(np.array([entity]), self.num_entities, "Entity")
        slices = [
            (side, slice(side.offsets[entity], side.offsets[entity + 1]))
            for side in (self._from_heads, self._from_tails)
        ]
        relations = np.concatenate([side.relations[part] for side, part in slices])
        others = np.concatenate([side.others[part] for side, part in slices])
        outgoing = np.arange(len(others)) < slices[0][1].stop - slices[0][1].start
        return Neighbours(relations, others, outgoing)

    def contains(self, triples: npt.ArrayLike) -> BoolArray:
        """Tell which triples of ids are known.

        >>> from knowledge_sheaves.graph import KnowledgeGraph
        >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
        >>> graph.contains([[0, 0, 1], [1, 0, 0]]).tolist()
        [True, False]
        """
        heads, relations, tails = columns_of(as_triples(triples))
        self._check_ranges((heads, relations, tails))
        return self._from_heads.contains(heads, relations, tails)

    def _parts(self, relation: int | str) -> list[int]:
        if isinstance(relation, str):
            return [int(edge) for edge in self.schema.edges(relation)]
        check_ids(np.array([relation]), self.num_relations, "Relation")
        return [int(relation)]

    def _lookup(self, side: SortedTriples, entity: int, relation: int | str) -> IntArray:
        if not 0 <= entity < self.num_entities:
            check_ids(np.array([entity]), self.num_entities, "Entity")
        parts = [side.seconds(entity, part) for part in self._parts(relation)]
        return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))

    def _pairs(self, entities: npt.ArrayLike, edges: npt.ArrayLike) -> tuple[IntArray, IntArray]:
        firsts = id_array(entities, self.num_entities, "Entities")
        relations = np.broadcast_to(np.asarray(edges), firsts.shape)
        return firsts, id_array(relations, self.num_relations, "Relations")

    def _count(
        self, side: SortedTriples, entities: npt.ArrayLike, relations: RelationLike
    ) -> IntArray:
        if isinstance(relations, str):
            each = [self._count(side, entities, part) for part in self._parts(relations)]
            return np.asarray(np.sum(each, axis=0))
        low, high = side.slices(*self._pairs(entities, relations))
        return high - low

    def _lookup_many(
        self, side: SortedTriples, entities: npt.ArrayLike, relations: RelationLike
    ) -> tuple[IntArray, IntArray]:
        if not isinstance(relations, str):
            return side.seconds_many(*self._pairs(entities, relations))
        found = [self._lookup_many(side, entities, part) for part in self._parts(relations)]
        counts = [np.diff(offsets) for _, offsets in found]
        asked = np.concatenate([np.repeat(np.arange(len(count)), count) for count in counts])
        ids = np.concatenate([part for part, _ in found])
        return ids[np.lexsort((ids, asked))], offsets_of(np.sum(counts, axis=0))

    def _check_ranges(self, columns: Columns) -> None:
        if not len(columns[0]) == len(columns[1]) == len(columns[2]):
            raise InputError("Heads, relations and tails must be equally many.")
        check_ids(columns[0], self.num_entities, "Heads")
        check_ids(columns[1], self.num_relations, "Relations")
        check_ids(columns[2], self.num_entities, "Tails")
