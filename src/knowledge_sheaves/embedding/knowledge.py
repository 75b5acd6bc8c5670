"""Knowledge sheaves: cellular sheaves on a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import GraphMorphism, Schema
from knowledge_sheaves.sheaf import BlockMap, CellularSheaf

Matrix = Sequence[Sequence[float]] | Tensor | BlockMap


@dataclass(frozen=True, eq=False)
class KnowledgeSheaf:
    """A cellular sheaf on a schema: a stalk for each type, a pair of maps for each relation.

    ``translation`` z is a 1-cochain on the schema (None: no relation translates).

    >>> schema = Schema.from_dict({
    ...     "types": ["Person", "Film"],
    ...     "relations": [{"name": "likes", "head": "Person", "tail": "Film"}]})
    >>> sheaf = KnowledgeSheaf.from_maps(
    ...     schema, {"Person": 2, "Film": 1}, {"likes": ([[1, 0]], [[1]])})
    >>> sheaf.sheaf.vertex_dims, sheaf.sheaf.edge_dims
    (array([2, 1]), array([1]))
    """

    schema: Schema
    sheaf: CellularSheaf
    translation: Tensor | None = None

    @classmethod
    def from_maps(
        cls,
        schema: Schema,
        dims: Mapping[str, int],
        maps: Mapping[str, tuple[Matrix, Matrix]],
        translations: Mapping[str, Sequence[float] | Tensor] | None = None,
    ) -> KnowledgeSheaf:
        """A sheaf from plain matrices (head map, tail map) by the names of the relations."""
        relations = [relation.name for relation in schema.relations]
        check_names("stalk dimension", dims, [t.name for t in schema.types])
        check_names("pair of maps", maps, relations)
        heads, tails = ([_matrix(maps[name][end]) for name in relations] for end in (0, 1))
        vertex_dims = [dims[t.name] for t in schema.types]
        sheaf = CellularSheaf.from_maps(schema.graph, vertex_dims, heads, tails)
        if not translations:
            return cls(schema, sheaf)
        parts = [
            torch.as_tensor(translations.get(name, [0.0] * int(dim)), dtype=sheaf.zeros().dtype)
            for name, dim in zip(relations, sheaf.edge_dims, strict=True)
        ]
        return cls(schema, sheaf, torch.cat(parts))

    def on(self, typing: GraphMorphism) -> tuple[CellularSheaf, Tensor | None]:
        """The sheaf and its translation, pulled back to a graph over the schema."""
        z = self.translation
        pulled = None if z is None else self.sheaf.pullback_edges(z, typing)
        return self.sheaf.pullback(typing), pulled


def _matrix(value: Matrix) -> Tensor | BlockMap:
    if isinstance(value, Tensor | BlockMap):
        return value
    return torch.tensor(value, dtype=torch.get_default_dtype())


def check_names(what: str, given: Mapping[str, object], wanted: Sequence[str]) -> None:
    """Refuse a mapping that leaves out a wanted name or has one too many."""
    known = set(wanted)
    missing = [name for name in dict.fromkeys(wanted) if name not in given]
    extra = [name for name in given if name not in known]
    if missing:
        raise InputError(f"There is no {what} for {', '.join(map(repr, missing[:5]))}.")
    if extra:
        raise InputError(f"A {what} was given for {', '.join(map(repr, extra[:5]))}: no such name.")
