"""Names and labels found by a part of them, as one types."""

from __future__ import annotations

from typing import NamedTuple

from knowledge_sheaves.graph.knowledge import KnowledgeGraph
from knowledge_sheaves.graph.vocabulary import near_names


class Found(NamedTuple):
    """What a name belongs to: an entity with its types, a relation or a type."""

    name: str
    label: str | None
    kind: str
    types: tuple[str, ...] = ()


class NameSearch:
    """Looks through the names and labels of a graph.

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Star Wars", "made by", "Lucas"), ("Fargo", "made by", "Coen")])
    >>> [found.name for found in NameSearch(graph).find("ar")]
    ['Fargo', 'Star Wars']
    >>> NameSearch(graph).find("w")[0]
    Found(name='Star Wars', label=None, kind='entity', types=('entity',))
    """

    def __init__(self, graph: KnowledgeGraph) -> None:
        entities = (
            (graph.name(entity), tuple(map(str, graph.types_of(entity))))
            for entity in range(graph.num_entities)
        )
        self._things = [
            *(Found(str(name), name.label, "entity", types) for name, types in entities),
            *(Found(str(n), n.label, "relation") for n in graph.schema.labelled_names),
            *(Found(str(name), graph.type_label(name), "type") for name in graph.type_names),
        ]
        self._texts = [
            f"{_folded(found.label or '')}\n{_folded(found.name)}" for found in self._things
        ]

    def find(self, text: str, limit: int = 10, kind: str | None = None) -> list[Found]:
        """What has the text in its name or label: whole, at its start, at a word's, anywhere.

        Where nothing has it, what is nearest in spelling.
        """
        wanted = _folded(text)
        if not wanted:
            return []
        places = [p for p, held in enumerate(self._texts) if wanted in held and self._is(p, kind)]
        ranked = sorted((_rank(wanted, self._texts[p]), len(self._texts[p]), p) for p in places)
        found = [place for *_, place in ranked] or self._near(wanted, limit, kind)
        return [self._things[place] for place in found[:limit]]

    def _is(self, place: int, kind: str | None) -> bool:
        return kind is None or self._things[place].kind == kind

    def _near(self, wanted: str, limit: int, kind: str | None) -> list[int]:
        places: dict[str, list[int]] = {}
        for place, held in enumerate(self._texts):
            if self._is(place, kind):
                for line in held.split("\n"):
                    places.setdefault(line, []).append(place)
        near = near_names(wanted, places, limit)
        return list(dict.fromkeys(place for line in near for place in places[line]))


def _folded(text: str) -> str:
    return text.casefold().replace("_", " ").strip(" ")


def _rank(wanted: str, held: str) -> int:
    lines = held.split("\n")
    if wanted in lines:
        return 0
    if any(line.startswith(wanted) for line in lines):
        return 1
    return 2 if f" {wanted}" in held else 3
