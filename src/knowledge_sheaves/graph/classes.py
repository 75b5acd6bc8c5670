"""Types of entities that shape no stalk: who is what, and what may stand at a relation's ends.

An entity may have several types, one or none. They serve to rule out candidates, to filter and to
ask, while all entities live in one stalk and every relation has one pair of maps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import BoolArray, IntArray, check_ids
from knowledge_sheaves.graph.labels import Name, find_type
from knowledge_sheaves.graph.type_rules import Hierarchy, SubclassOf, TypesOf, declared_types
from knowledge_sheaves.graph.vocabulary import Vocabulary

MOST_UNSEEN = 0.02
"""A relation rules types out where a new fact brings an unseen one at most this often."""

Ends: TypeAlias = Mapping[str, tuple[str, ...]]
Table: TypeAlias = Any
"""A sparse matrix, of which scipy has no types."""


@dataclass(frozen=True)
class Said:
    """What is said about types beside who has them.

    ``subclass_of`` gives a type its more general ones; ``heads`` and ``tails`` give a relation
    the types of which one is at that end; ``labels`` are what people call types.
    """

    subclass_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    heads: Ends = field(default_factory=dict)
    tails: Ends = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts."""
        parts = {"subclass_of": self.subclass_of, "heads": self.heads, "tails": self.tails}
        lists = {
            name: {key: list(values) for key, values in part.items()}
            for name, part in parts.items()
        }
        return {**lists, "labels": dict(self.labels)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Said:
        """Read what `to_dict` writes."""
        lists = {
            name: {str(key): tuple(map(str, values)) for key, values in part.items()}
            for name, part in data.items()
            if name != "labels"
        }
        return cls(**lists, labels={str(k): str(v) for k, v in data.get("labels", {}).items()})

    @property
    def named(self) -> Iterable[str]:
        """All types that are spoken of."""
        yield from (kind for each in self.subclass_of.items() for kind in (each[0], *each[1]))
        yield from (kind for ends in (self.heads, self.tails) for e in ends.values() for kind in e)


class Classes:
    """Which entities have which types.

    ``pairs`` is an (n, 2) array of entity and type, sorted, each once.

    >>> classes = Classes.of(["Julia", "Fargo"], {"Julia": ["Student"]},
    ...                      subclass_of={"Student": "Person"})
    >>> classes.own(0), classes.members("Person").tolist()
    (['Student'], [True, False])
    """

    def __init__(
        self,
        names: Iterable[str],
        pairs: npt.ArrayLike,
        num_entities: int,
        said: Said | None = None,
    ) -> None:
        self.said = said or Said()
        self.names = Vocabulary(dict.fromkeys((*names, *self.said.named)), kind="type")
        rows = np.asarray(pairs, np.int64).reshape(-1, 2)
        check_ids(rows[:, 0], num_entities, "Entities with types")
        check_ids(rows[:, 1], len(self.names), "Types of entities")
        self.pairs: IntArray = np.unique(rows, axis=0)
        self.num_entities = num_entities

    @classmethod
    def of(
        cls,
        entities: Sequence[str],
        types: TypesOf,
        *,
        subclass_of: SubclassOf | None = None,
        heads: Ends | None = None,
        tails: Ends | None = None,
        min_count: int = 1,
        labels: Mapping[str, str] | None = None,
    ) -> Classes:
        """Return the types of entities by name; types of fewer entities than that are left out."""
        own = declared_types(entities, types)
        names = Vocabulary(dict.fromkeys(kind for kinds in own for kind in kinds), kind="type")
        rows = [(place, names.id(kind)) for place, kinds in enumerate(own) for kind in kinds]
        pairs = np.array(rows, np.int64).reshape(-1, 2)
        often = np.bincount(pairs[:, 1], minlength=len(names)) >= min_count
        place = np.cumsum(often) - 1
        pairs = pairs[often[pairs[:, 1]]]
        pairs[:, 1] = place[pairs[:, 1]]
        known = [name for name, kept in zip(names, often.tolist(), strict=True) if kept]
        more = {
            child: (given,) if isinstance(given, str) else tuple(given)
            for child, given in (subclass_of or {}).items()
        }
        said = Said(more, heads or {}, tails or {})
        texts = labels or {}
        mine = {name: texts[name] for name in (*known, *said.named) if name in texts}
        return cls(known, pairs, len(entities), replace(said, labels=mine))

    def own(self, entity: int) -> list[str]:
        """Return the types that an entity was given, by name."""
        low, high = np.searchsorted(self.pairs[:, 0], [entity, entity + 1])
        return self.names.names(self.pairs[low:high, 1])

    def label(self, name: str) -> str:
        """Return what people call a type."""
        return self.said.labels.get(name, name)

    def members(self, name: str) -> BoolArray:
        """Tell which entities are of a type or of one of its subclasses; an unknown one is refused.

        >>> Classes.of("ab", {"a": "X"}).members("Y")
        Traceback (most recent call last):
        knowledge_sheaves.errors.InputError: Unknown type 'Y'.
        """
        labels = self.said.labels
        known = name in self.names
        meant = name if known else find_type(name, (Name(n, labels.get(n)) for n in self.names))
        return np.asarray(self._fitting((meant,))[self.groups[0]])

    @cached_property
    def groups(self) -> tuple[IntArray, Table]:
        """For each entity its group, and the types of groups: a sparse (groups, types).

        A group has the same types. Few occur, however many entities there are.
        """
        kinds = np.ascontiguousarray(self.pairs[:, 1])
        starts = np.searchsorted(self.pairs[:, 0], np.arange(self.num_entities + 1)).tolist()
        ids: dict[bytes, int] = {}
        group = np.zeros(self.num_entities, np.int64)
        for entity in range(self.num_entities):
            own = kinds[starts[entity] : starts[entity + 1]].tobytes()
            group[entity] = ids.setdefault(own, len(ids))
        types = [np.frombuffer(own, np.int64) for own in ids]
        rows = np.repeat(np.arange(len(ids)), [len(own) for own in types])
        columns = np.concatenate(types) if types else rows
        shape = (len(ids), len(self.names))
        return group, sparse.csr_array((np.ones(len(rows), np.int64), (rows, columns)), shape)

    def possible(
        self, end: str, relations: IntArray, entities: IntArray, names: Sequence[str]
    ) -> BoolArray:
        """Tell which groups may stand at one end of each relation: (relations, groups).

        ``relations`` and ``entities`` are those of known facts. A type may where a fact shows it
        there, or where it is said; an entity without types may everywhere. Of a relation whose
        facts keep showing types that no other fact does nothing is ruled out: `MOST_UNSEEN`.
        """
        group, table = self.groups
        size = (len(names), table.shape[0])
        ones = np.ones(len(relations), np.int64)
        counts = sparse.csr_array((ones, (relations, group[entities])), size)
        seen = counts @ table
        found = ((seen > 0).astype(np.int64) @ table.T).toarray() > 0
        # Leave each fact out: how often would its own entity have been ruled out by the others?
        bare = table.sum(1) == 0
        alone = (((seen > 1).astype(np.int64) @ table.T).toarray() == 0) & ~bare
        misses = np.asarray((counts * alone).sum(1)).ravel()
        unsure = (misses + 1) / (counts.sum(1) + 1) > MOST_UNSEEN
        found |= bare | unsure[:, None]
        for name, wanted in (self.said.heads if end == "head" else self.said.tails).items():
            if name in names:
                place = names.index(name)
                shown = counts[[place]].toarray()[0] > 0
                found[place] = shown | bare | self._fitting(wanted)
        return np.asarray(found)

    def with_ancestors(self, name: str) -> set[str]:
        """Return a type and all that are more general, by name."""
        return self._hierarchy.with_ancestors([name])

    def _fitting(self, wanted: Sequence[str]) -> BoolArray:
        """Which groups have one of the types, or a subclass of one."""
        kinds = [not self.with_ancestors(name).isdisjoint(wanted) for name in self.names]
        return np.asarray(self.groups[1] @ np.array(kinds, np.int64) > 0)

    @cached_property
    def _hierarchy(self) -> Hierarchy:
        return Hierarchy(self.said.subclass_of)

    def to_dict(self) -> dict[str, Any]:
        """Return the names and what is said, without the pairs."""
        return {"names": list(self.names), **self.said.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], pairs: IntArray, num_entities: int) -> Classes:
        """Read what `to_dict` writes, with the pairs."""
        try:
            said = {name: part for name, part in data.items() if name != "names"}
            return cls(map(str, data["names"]), pairs, num_entities, Said.from_dict(said))
        except (KeyError, TypeError, AttributeError, ValueError):
            raise InputError("the section 'classes' is not as it was saved.") from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Classes):
            return NotImplemented
        return (
            self.num_entities == other.num_entities
            and self.to_dict() == other.to_dict()
            and np.array_equal(self.pairs, other.pairs)
        )

    def __hash__(self) -> int:
        return hash((self.num_entities, len(self.names), len(self.pairs)))

    def __repr__(self) -> str:
        return f"Classes({len(self.names)} types of {self.num_entities} entities)"
