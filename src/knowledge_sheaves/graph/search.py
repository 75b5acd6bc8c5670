"""Names and labels found by a part of them, as one types."""

from __future__ import annotations

from typing import NamedTuple

from knowledge_sheaves.graph.knowledge import KnowledgeGraph


class Found(NamedTuple):
    """What a name belongs to: an entity with its type, a relation or a type."""

    name: str
    label: str | None
    kind: str
    type: str | None


class NameSearch:
    """Looks through the names and labels of a graph.

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Star Wars", "made by", "Lucas"), ("Fargo", "made by", "Coen")])
    >>> [found.name for found in NameSearch(graph).find("ar")]
    ['Fargo', 'Star Wars']
    >>> NameSearch(graph).find("w")[0]
    Found(name='Star Wars', label=None, kind='entity', type='entity')
    """

    def __init__(self, graph: KnowledgeGraph) -> None:
        schema = graph.schema
        kinds = [str(kind.name) for kind in schema.types]
        types = (kinds[kind] for kind in graph.entity_types.tolist())
        self._things = [
            *(
                Found(str(name), name.label, "entity", type)
                for name, type in zip(
                    map(graph.name, range(graph.num_entities)), types, strict=True
                )
            ),
            *(Found(str(name), name.label, "relation", None) for name in schema.labelled_names),
            *(Found(str(kind.name), kind.label, "type", None) for kind in schema.types),
        ]
        self._texts = [_folded(f"{found.label or ''}\n{found.name}") for found in self._things]

    def find(self, text: str, limit: int = 10, kind: str | None = None) -> list[Found]:
        """What has the text in its name or label: whole, at its start, at a word's, anywhere."""
        wanted = _folded(text)
        if not wanted:
            return []
        places = (place for place, held in enumerate(self._texts) if wanted in held)
        ranked = (
            (_rank(wanted, self._texts[place]), len(self._texts[place]), place)
            for place in places
            if kind is None or self._things[place].kind == kind
        )
        return [self._things[place] for *_, place in sorted(ranked)[:limit]]


def _folded(text: str) -> str:
    return text.casefold().replace("_", " ").strip(" ")


def _rank(wanted: str, held: str) -> int:
    lines = held.split("\n")
    if wanted in lines:
        return 0
    if any(line.startswith(wanted) for line in lines):
        return 1
    return 2 if f" {wanted}" in held else 3
