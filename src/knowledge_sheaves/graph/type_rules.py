"""One type for each entity, from data that gives several, one or none.

The rules, in order: the type that the user's choice names; the only one; the most specific one
where subclasses are known; the most frequent one, ties in alphabetical order. An entity with none
gets the type ``entity``, and so do those whose type is rarer than a minimum count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.schema import DEFAULT_TYPE, Schema

TypesOf: TypeAlias = Mapping[str, str | Sequence[str]]
SubclassOf: TypeAlias = Mapping[str, str | Iterable[str]]


def choose_types(
    entities: Sequence[str],
    types: TypesOf | None = None,
    *,
    subclass_of: SubclassOf | None = None,
    choice: Mapping[str, str] | None = None,
    min_count: int = 1,
) -> list[str]:
    """Return one type name for each entity, by the rules above.

    >>> choose_types(["Julia", "Primer"], {"Julia": ["Person", "Student"]},
    ...              subclass_of={"Student": "Person"})
    ['Student', 'entity']
    """
    declared = declared_types(entities, types or {})
    chosen = _choose(entities, declared, Hierarchy(subclass_of or {}), choice or {})
    names = [name or DEFAULT_TYPE for name in chosen]
    counts = Counter(names)
    return [name if counts[name] >= min_count else DEFAULT_TYPE for name in names]


def fit_types(
    entities: Sequence[str],
    schema: Schema,
    types: TypesOf | None = None,
    *,
    subclass_of: SubclassOf | None = None,
    choice: Mapping[str, str] | None = None,
) -> list[str]:
    """Return one type of the schema for each entity; a type counts as all its superclasses too.

    Where the schema has one type only, entities without types take it.

    >>> schema = Schema(["Person", "Film"], [])
    >>> fit_types(["Julia"], schema, {"Julia": "Student"}, subclass_of={"Student": "Person"})
    ['Person']
    """
    known = {kind.name for kind in schema.types}
    hierarchy = Hierarchy(subclass_of or {})
    declared = declared_types(entities, types or {})
    fitting = {
        kinds: tuple(sorted(hierarchy.with_ancestors(kinds) & known)) for kinds in set(declared)
    }
    for name, kinds in zip(entities, declared, strict=True):
        if kinds and not fitting[kinds] and name not in (choice or {}):
            raise InputError(f"Entity {name!r}: {schema.type_names.unknown(kinds[0])}")
    chosen = _choose(entities, [fitting[kinds] for kinds in declared], hierarchy, choice or {})
    default = schema.types[0].name if len(known) == 1 else DEFAULT_TYPE
    names = [name or default for name in chosen]
    for entity, name in zip(entities, names, strict=True):
        if name not in known:
            what = (
                schema.type_names.unknown(name)
                if name != default
                else f"it has no type; give it one of {', '.join(map(repr, schema.type_names))}."
            )
            raise InputError(f"Entity {entity!r}: {what}")
    return names


def declared_types(entities: Sequence[str], types: TypesOf) -> list[tuple[str, ...]]:
    """Return the types that each entity is given, each once.

    >>> declared_types(["Julia", "Fargo"], {"Julia": "Person"})
    [('Person',), ()]
    """

    def kinds(name: str) -> tuple[str, ...]:
        given = types.get(name, ())
        return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))

    return [kinds(name) for name in entities]


def _choose(
    entities: Sequence[str],
    declared: Sequence[tuple[str, ...]],
    hierarchy: Hierarchy,
    choice: Mapping[str, str],
) -> list[str | None]:
    counts = Counter(kind for kinds in declared for kind in kinds)

    def best(kinds: tuple[str, ...]) -> str | None:
        specific = hierarchy.most_specific(kinds)
        return min(specific, key=lambda kind: (-counts[kind], kind), default=None)

    # Few distinct combinations occur, however many entities there are.
    best_of = {kinds: best(kinds) for kinds in set(declared)}
    return [
        choice.get(name, best_of[kinds]) for name, kinds in zip(entities, declared, strict=True)
    ]


class Hierarchy:
    """The ancestors of each type."""

    def __init__(self, subclass_of: SubclassOf) -> None:
        self._parents = {
            child: (parents,) if isinstance(parents, str) else tuple(parents)
            for child, parents in subclass_of.items()
        }
        self._ancestors: dict[str, frozenset[str]] = {}

    def ancestors(self, kind: str) -> frozenset[str]:
        if kind not in self._ancestors:
            found: set[str] = set()
            waiting = list(self._parents.get(kind, ()))
            while waiting:
                parent = waiting.pop()
                if parent not in found:
                    found.add(parent)
                    waiting.extend(self._parents.get(parent, ()))
            self._ancestors[kind] = frozenset(found)
        return self._ancestors[kind]

    def with_ancestors(self, kinds: Iterable[str]) -> set[str]:
        return {kind for own in kinds for kind in (own, *self.ancestors(own))}

    def most_specific(self, kinds: Sequence[str]) -> Sequence[str]:
        """Drop the types that have a subclass here; types that include each other both stay."""

        def has_subclass(kind: str) -> bool:
            return any(
                kind in self.ancestors(other) and other not in self.ancestors(kind)
                for other in kinds
            )

        return [kind for kind in kinds if not has_subclass(kind)]
