"""Schemas: entity types as vertices, relations as edges between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import IntArray
from knowledge_sheaves.graph.labels import Name, find_type
from knowledge_sheaves.graph.multigraph import Multigraph
from knowledge_sheaves.graph.vocabulary import Vocabulary, suggestion
from knowledge_sheaves.notebook import table

DEFAULT_TYPE = "entity"
FLAGS = ("symmetric", "functional", "inverse_functional", "antisymmetric")
OTHERS = ("inverse_of", "subproperty_of")
"""What is said of a relation, and by what other relation."""


@dataclass(frozen=True)
class EntityType:
    """A type of entities; ``dim`` is the stalk dimension wanted, None leaves it to the model.

    ``label`` is what people call it, where that is not its name.

    >>> EntityType("Person", dim=3)
    EntityType(name='Person', dim=3)
    """

    name: str
    dim: int | None = None
    label: str | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_fields(self, names=("name",), flags=())

    @property
    def said(self) -> str:
        """What people call it."""
        return self.label or self.name


@dataclass(frozen=True)
class Relation:
    """One edge of a schema: a relation between a head type and a tail type.

    A relation of the user that is seen between several type pairs is several edges with one name.
    The parts marked ``shared`` use one pair of restriction maps together (parameter tying), so
    rare pairs need no maps of their own. ``symmetric`` ties the tail map to the head map;
    ``functional`` says that a head has at most one tail; ``dim`` is the dimension of the edge
    stalk, smaller than those of its types for a compressive relation; ``label`` is what people
    call it, where that is not its name. ``inverse_functional`` says that a tail has at most one
    head, ``antisymmetric`` that it never holds in both directions; ``inverse_of`` names the
    relation that holds backwards wherever it does, ``subproperty_of`` one that holds as well.
    ``backwards`` are names for the relation read from tail to head, which have no facts of their
    own, each with what people call it, or None.

    >>> Relation("favorite movie", "Person", "Film", functional=True).head
    'Person'
    """

    name: str
    head: str
    tail: str
    shared: bool = False
    symmetric: bool = False
    functional: bool = False
    dim: int | None = None
    label: str | None = field(default=None, repr=False, compare=False)
    inverse_functional: bool = field(default=False, repr=False)
    antisymmetric: bool = field(default=False, repr=False)
    inverse_of: str | None = field(default=None, repr=False)
    subproperty_of: str | None = field(default=None, repr=False)
    backwards: tuple[tuple[str, str | None], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        given = [name for name in OTHERS if getattr(self, name) is not None]
        _check_fields(self, names=("name", "head", "tail", *given), flags=("shared", *FLAGS))
        for name in given:
            if getattr(self, name) == self.name:
                raise InputError(f"The relation {self.name!r} cannot be {name} itself: drop it.")
        object.__setattr__(self, "backwards", tuple(_turned(self.name, self.backwards)))
        if self.symmetric and self.antisymmetric:
            raise InputError(
                f"The relation {self.name!r} is marked symmetric and antisymmetric; then it never "
                "holds between two: drop one."
            )
        if self.symmetric and self.head != self.tail:
            raise InputError(
                f"The relation {self.name!r} is marked symmetric but goes from {self.head!r} to "
                f"{self.tail!r}; a symmetric relation has one type at both ends."
            )


def _check_fields(value: EntityType | Relation, names: Iterable[str], flags: Iterable[str]) -> None:
    for name in names:
        given = getattr(value, name)
        if not isinstance(given, str) or not given:
            raise InputError(
                f"The {name} {given!r} must be a name; write it in quotes if it looks like "
                "a number, a date or a yes/no."
            )
    for name in flags:
        if not isinstance(getattr(value, name), bool):
            raise InputError(f"{name} must be true or false, not {getattr(value, name)!r}.")
    if value.label is not None and not isinstance(value.label, str):
        raise InputError(f"The label of {value.name!r} must be a text, not {value.label!r}.")
    dim = value.dim
    if dim is not None and (isinstance(dim, bool) or not isinstance(dim, int) or dim < 1):
        raise InputError(f"The dim of {value.name!r} must be a positive whole number, not {dim!r}.")


def _turned(relation: str, given: Any) -> Iterator[tuple[str, str | None]]:
    """The names of a relation read backwards, each with its label, from what a file may hold."""
    listed = given if isinstance(given, (list, tuple)) else [given]
    for each in listed:
        pair = tuple(each) if isinstance(each, (list, tuple)) else (each, None)
        name, label = pair if len(pair) == 2 else (None, None)
        if not isinstance(name, str) or not name or not (label is None or isinstance(label, str)):
            raise InputError(
                f"What {relation!r} is called backwards must be a name, or a pair of a name and a "
                f"label, not {each!r}."
            )
        if name == relation:
            raise InputError(f"The relation {relation!r} cannot be backwards itself: drop it.")
        yield name, label


@dataclass(frozen=True, init=False)
class Schema:
    """The types and relations that a knowledge graph may use: a directed multigraph.

    >>> schema = Schema(["Person", "Film"], [Relation("favorite movie", "Person", "Film")])
    >>> schema.graph.num_vertices, schema.graph.num_edges
    (2, 1)
    """

    types: tuple[EntityType, ...]
    relations: tuple[Relation, ...]

    def __init__(self, types: Sequence[EntityType | str], relations: Sequence[Relation]) -> None:
        kinds = tuple(kind if isinstance(kind, EntityType) else EntityType(kind) for kind in types)
        object.__setattr__(self, "types", kinds)
        object.__setattr__(self, "relations", tuple(relations))
        names = self.type_names
        seen: set[tuple[str, str, str]] = set()
        for relation in self.relations:
            for kind_name in (relation.head, relation.tail):
                if kind_name not in names:
                    raise InputError(f"Relation {relation.name!r}: {names.unknown(kind_name)}")
            key = (relation.name, relation.head, relation.tail)
            if key in seen:
                raise InputError(
                    f"The relation {relation.name!r} from {relation.head!r} to {relation.tail!r} "
                    "is given twice; drop one."
                )
            seen.add(key)
        self._check_others(seen)

    def _check_others(self, parts: Collection[tuple[str, str, str]]) -> None:
        """Refuse what is said by relations that there are not, or not between those types."""
        known = {name for name, _, _ in parts}
        for each in self.relations:
            ends = {"inverse_of": (each.tail, each.head), "subproperty_of": (each.head, each.tail)}
            for said, (head, tail) in ends.items():
                other = getattr(each, said)
                if other is not None and (other, head, tail) not in parts:
                    where = f"from {head!r} to {tail!r}" if other in known else "in the schema"
                    raise InputError(
                        f"The relation {each.name!r} is {said} {other!r}, which is no relation "
                        f"{where}{suggestion(other, known - {other}) or '.'}"
                    )

    @cached_property
    def _relation_names(self) -> Vocabulary:
        return Vocabulary(dict.fromkeys(r.name for r in self.relations), kind="relation")

    @cached_property
    def type_names(self) -> Vocabulary:
        """The names of the types, in order."""
        return Vocabulary([kind.name for kind in self.types], kind="type")

    @property
    def relation_names(self) -> tuple[str, ...]:
        """The distinct names that users know, in order of first appearance."""
        return tuple(self._relation_names)

    @cached_property
    def labelled_names(self) -> tuple[Name, ...]:
        """The same, each with its label."""
        labels = {r.name: r.label for r in reversed(self.relations)}
        return tuple(Name(name, labels[name]) for name in self._relation_names)

    def labelled(self, relations: Mapping[str, str], types: Mapping[str, str]) -> Schema:
        """The schema with what people call its relations and types.

        >>> schema = Schema.single(["P57"]).labelled({"P57": "director"}, {})
        >>> schema.labelled_names[0].label
        'director'
        """

        def told(relation: Relation) -> Relation:
            turned = tuple((name, relations.get(name, own)) for name, own in relation.backwards)
            label = relations.get(relation.name, relation.label)
            return replace(relation, label=label, backwards=turned)

        kinds = [replace(kind, label=types.get(kind.name, kind.label)) for kind in self.types]
        return Schema(kinds, list(map(told, self.relations)))

    @cached_property
    def backwards(self) -> dict[Name, tuple[str, ...]]:
        """The names for relations read from tail to head, and which relations each stands for.

        >>> says = {"boughtBy": {"inverse_of": "bought"}}
        >>> Schema.single(["bought"]).saying(says).backwards
        {'boughtBy': ('bought',)}
        """
        found: dict[Name, dict[str, None]] = {}
        for relation in self.relations:
            for name, label in relation.backwards:
                found.setdefault(Name(name, label), {})[relation.name] = None
        return {name: tuple(relations) for name, relations in found.items()}

    @cached_property
    def graph(self) -> Multigraph:
        """The multigraph with types as vertices and relations as edges."""
        heads = [self.type_names.id(relation.head) for relation in self.relations]
        tails = [self.type_names.id(relation.tail) for relation in self.relations]
        return Multigraph(len(self.types), np.array(heads, int), np.array(tails, int))

    def type_id(self, name: str) -> int:
        """Return the vertex of a type, by its name or else its label.

        >>> Schema(["Person", "Film"], []).type_id("Film")
        1
        """
        place = self.type_names.get(name)
        if place is not None:
            return place
        return self.type_names.id(find_type(name, [Name(k.name, k.label) for k in self.types]))

    @cached_property
    def edge_names(self) -> IntArray:
        """For each edge the place of its name among the relation names.

        >>> Schema.single(["likes", "knows"]).edge_names.tolist()
        [0, 1]
        """
        return self._relation_names.ids([relation.name for relation in self.relations])

    def edges(self, name: str) -> IntArray:
        """Return the edges that are parts of the relation with this name.

        >>> Schema.single(["likes", "knows"]).edges("knows").tolist()
        [1]
        """
        return np.flatnonzero(self.edge_names == self._relation_names.id(name))

    @property
    def is_sized(self) -> bool:
        """Whether a type or a relation has a dimension of its own."""
        dims = [kind.dim for kind in self.types] + [relation.dim for relation in self.relations]
        return any(dim is not None for dim in dims)

    def ends(self, end: str) -> dict[str, tuple[str, ...]]:
        """Return by relation name the types that may stand at one end.

        >>> Schema(["Person", "Film"], [Relation("likes", "Person", "Film")]).ends("tail")
        {'likes': ('Film',)}
        """
        found: dict[str, dict[str, None]] = {}
        for relation in self.relations:
            found.setdefault(relation.name, {})[getattr(relation, end)] = None
        return {name: tuple(kinds) for name, kinds in found.items()}

    def shared(self) -> Schema:
        """Return the schema with one type, and what holds for all parts of a relation.

        >>> parts = [Relation("near", kind, kind, symmetric=True) for kind in ("City", "River")]
        >>> Schema(["City", "River"], parts).shared().relations[0].symmetric
        True
        """

        def merged(name: str) -> Relation:
            parts = [self.relations[edge] for edge in self.edges(name)]
            return Relation(
                *(name, DEFAULT_TYPE, DEFAULT_TYPE),
                symmetric=all(part.symmetric for part in parts),
                functional=all(part.functional for part in parts),
                inverse_functional=all(part.inverse_functional for part in parts),
                antisymmetric=all(part.antisymmetric for part in parts),
                inverse_of=parts[0].inverse_of,
                subproperty_of=parts[0].subproperty_of,
                label=parts[0].label,
                backwards=parts[0].backwards,
            )

        return Schema([DEFAULT_TYPE], [merged(name) for name in self.relation_names])

    def saying(self, says: Mapping[str, Mapping[str, Any]]) -> Schema:
        """Return the schema with more said of its relations; what is of no relation here is not.

        An inverse that is no relation here becomes the name of the other one read backwards.

        >>> Schema.single(["r", "s"]).saying({"r": {"inverse_of": "s"}}).relations[0].inverse_of
        's'
        """
        known = set(self.relation_names)
        turned = _without_facts(says, known)

        def told(relation: Relation) -> Relation:
            said = says.get(relation.name, {})
            fitting = {key: value for key, value in said.items() if value is True or value in known}
            if relation.name in turned:
                fitting["backwards"] = turned[relation.name]
            return replace(relation, **fitting)

        return Schema(self.types, [told(relation) for relation in self.relations])

    def find_edges(self, names: Sequence[str], heads: IntArray, tails: IntArray) -> IntArray:
        """Return the edge for each (relation name, head type, tail type); -1 where none fits.

        >>> Schema.single(["likes"]).find_edges(["likes"], np.array([0]), np.array([0])).tolist()
        [0]
        """
        wanted = self._relation_names.ids(names)
        width = max(len(self.types), 1)

        def keys(relations: IntArray, ends: tuple[IntArray, IntArray]) -> IntArray:
            return (relations * width + ends[0]) * width + ends[1]

        mine = keys(self.edge_names, (self.graph.heads, self.graph.tails))
        order = np.argsort(mine)
        asked = keys(wanted, (heads, tails))
        if not len(mine):
            return np.full(len(asked), -1)
        place = np.minimum(np.searchsorted(mine, asked, sorter=order), len(mine) - 1)
        found = order[place]
        return np.where(mine[found] == asked, found, -1)

    @classmethod
    def single(cls, relation_names: Iterable[str], type: str = DEFAULT_TYPE) -> Schema:
        """Return the schema with one type, the paper's default.

        >>> Schema.single(["likes"]).relations
        (Relation(name='likes', head='entity', tail='entity', shared=False, symmetric=False, \
functional=False, dim=None),)
        """
        return cls([type], [Relation(name, type, type) for name in relation_names])

    @classmethod
    def from_typed_triples(
        cls,
        rows: Iterable[tuple[str, str, str]],
        *,
        types: Iterable[str] = (),
        min_pair_count: int = 1,
        strict: bool = False,
    ) -> Schema:
        """Infer the schema from (head type, relation, tail type) of each triple.

        A relation is split into one edge per type pair: a knowledge graph needs an edge for each
        to map to. So pairs seen fewer than ``min_pair_count`` times *merge* by being marked
        ``shared``: their edges stay, and have one pair of restriction maps together. With
        ``strict`` a relation between several pairs is an error instead.

        >>> rows = [("Person", "likes", "Film"), ("Person", "likes", "Person")]
        >>> [(r.name, r.tail) for r in Schema.from_typed_triples(rows).relations]
        [('likes', 'Film'), ('likes', 'Person')]
        """
        return cls.from_pair_counts(
            Counter(rows), types=types, min_pair_count=min_pair_count, strict=strict
        )

    @classmethod
    def from_pair_counts(
        cls,
        counts: Mapping[tuple[str, str, str], int],
        *,
        types: Iterable[str] = (),
        min_pair_count: int = 1,
        strict: bool = False,
    ) -> Schema:
        """Do the same from how often each (head type, relation, tail type) occurs.

        >>> Schema.from_pair_counts({("Person", "likes", "Film"): 7}).relation_names
        ('likes',)
        """
        parts: dict[str, list[tuple[str, str, int]]] = {}
        for (head, name, tail), count in counts.items():
            parts.setdefault(name, []).append((head, tail, count))
        if strict:
            _refuse_split_relations(parts)
        relations = [
            Relation(name, head, tail, shared=count < min_pair_count)
            for name, pairs in parts.items()
            for head, tail, count in pairs
        ]
        used = (end for relation in relations for end in (relation.head, relation.tail))
        return cls(list(dict.fromkeys([*types, *used])), relations)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts, as in the schema file.

        >>> Schema(["Person", EntityType("Film", 2)], []).to_dict()
        {'types': ['Person', {'name': 'Film', 'dim': 2}], 'relations': []}
        """
        return {
            "types": [
                kind.name if kind.dim is None and not kind.label else _to_dict(kind)
                for kind in self.types
            ],
            "relations": [_to_dict(relation) for relation in self.relations],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """Read what `to_dict` writes.

        >>> Schema.from_dict({"types": ["Film"], "relations": []}).types
        (EntityType(name='Film', dim=None),)
        """
        # Files know schemas; the import waits until here so that schemas need not know files.
        from knowledge_sheaves.graph.schema_file import parse_schema

        return parse_schema(data)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema file, YAML or JSON by its extension; its form is in `schema_file`."""
        from knowledge_sheaves.graph.schema_file import load_schema

        return load_schema(Path(path))

    def save(self, path: str | Path) -> None:
        """Write a schema file, YAML or JSON by its extension."""
        from knowledge_sheaves.graph.schema_file import save_schema

        save_schema(self, Path(path))

    def _repr_html_(self) -> str:
        parts: dict[str, Sequence[EntityType | Relation]]
        parts = {"types": self.types, "relations": self.relations}
        # What is usual goes without saying.
        rows = {
            title: [{name: said or None for name, said in asdict(each).items()} for each in part]
            for title, part in parts.items()
        }
        return "".join(table(part, title) for title, part in rows.items())


def _without_facts(
    says: Mapping[str, Mapping[str, Any]], known: Collection[str]
) -> dict[str, list[str]]:
    """By relation its inverses, of which nothing else is known."""
    found: dict[str, list[str]] = {}
    for name, said in says.items():
        other = said.get("inverse_of")
        if other is not None and (name in known) != (other in known):
            one, unknown = (name, other) if name in known else (other, name)
            found.setdefault(one, []).append(unknown)
    return found


def _refuse_split_relations(parts: Mapping[str, Sequence[tuple[str, str, int]]]) -> None:
    split = {name: pairs for name, pairs in parts.items() if len(pairs) > 1}
    if split:
        listed = "; ".join(
            f"{name!r}: " + ", ".join(f"{head} to {tail} ({count})" for head, tail, count in pairs)
            for name, pairs in split.items()
        )
        raise InputError(
            f"Strict schema: {len(split)} of {len(parts)} relations are seen between several type "
            f"pairs (with counts): {listed}."
        )


def _to_dict(value: EntityType | Relation) -> dict[str, Any]:
    everything = ((field, getattr(value, field.name)) for field in fields(value))
    return {field.name: given for field, given in everything if given != field.default}
