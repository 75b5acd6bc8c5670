"""The graph that a PyKEEN model was trained on, with the names that PyKEEN knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import torch
from pykeen.triples import CoreTriplesFactory, TriplesFactory
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation.matching import refuse_unknown
from knowledge_sheaves.graph import KnowledgeGraph, Schema

TRIPLES_FILE = "numeric_triples.tsv.gz"


@dataclass(frozen=True)
class Numbering:
    """PyKEEN's numbers as ours: its i-th entity is our ``entities[i]``, and so for relations."""

    entities: Tensor
    edges: Tensor

    @property
    def sizes(self) -> tuple[int, int]:
        """How many entities and relations PyKEEN has."""
        return len(self.entities), len(self.edges)

    @classmethod
    def by_name(cls, graph: KnowledgeGraph, factory: TriplesFactory) -> Numbering:
        """Numbers of the same names; a name that the graph lacks is refused."""
        names = _names(factory.num_entities, factory.entity_to_id)
        relations = _names(factory.real_num_relations, factory.relation_to_id)
        refuse_unknown("entities", names, graph.entities)
        refuse_unknown("relations", relations, graph.schema.relation_names)
        parts = {name: graph.schema.edges(name) for name in relations}
        for name, edges in parts.items():
            if len(edges) > 1:
                raise InputError(
                    f"The relation {name!r} connects several pairs of types, for which PyKEEN has "
                    "one number: train without types, or number the edges yourself (None)."
                )
        ids = [graph.entities.id(name) for name in names]
        return cls(torch.tensor(ids), torch.tensor([int(parts[name][0]) for name in relations]))


def graph_of(
    num_entities: int, num_relations: int, factory: CoreTriplesFactory | None
) -> KnowledgeGraph:
    """Training triples as a graph of one type, ids as in PyKEEN; without them, ids are names."""
    if factory is None:
        return _graph(num_entities, num_relations, torch.empty(0, 3, dtype=torch.long))
    sizes = (factory.num_entities, factory.real_num_relations)
    if sizes != (num_entities, num_relations):
        raise InputError(
            f"The triples have {sizes[0]} entities and {sizes[1]} relations, but the model has "
            f"{num_entities} and {num_relations}: give the triples that it was trained on."
        )
    if not isinstance(factory, TriplesFactory):
        return _graph(*sizes, factory.mapped_triples)
    return _graph(*sizes, factory.mapped_triples, factory.entity_to_id, factory.relation_to_id)


def graph_in(folder: Path, num_entities: int, num_relations: int) -> KnowledgeGraph:
    """The same from the text files in PyKEEN's folder ``training_triples``."""
    if not (folder / TRIPLES_FILE).is_file():
        return graph_of(num_entities, num_relations, None)
    triples = torch.from_numpy(_table(folder / TRIPLES_FILE).to_numpy().copy())
    names = [_labels(folder / f"{kind}_to_id.tsv.gz") for kind in ("entity", "relation")]
    return _graph(num_entities, num_relations, triples, *names)


def _table(path: Path) -> pl.DataFrame:
    try:
        return pl.read_csv(path, separator="\t", schema_overrides={"label": pl.String})
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split())}.") from None


def _labels(path: Path) -> dict[str, int]:
    if not path.is_file():
        return {}
    table = _table(path)
    return dict(zip(table["label"], table["id"], strict=True))


def _graph(
    num_entities: int,
    num_relations: int,
    triples: Tensor,
    entities: Mapping[str, int] | None = None,
    relations: Mapping[str, int] | None = None,
) -> KnowledgeGraph:
    return KnowledgeGraph.from_arrays(
        *triples.numpy().T,
        schema=Schema.single(_names(num_relations, relations)),
        names=_names(num_entities, entities) if entities else None,
        num_entities=num_entities,
    )


def _names(count: int, ids: Mapping[str, int] | None) -> list[str]:
    known = {place: name for name, place in (ids or {}).items()}
    return [known.get(place, str(place)) for place in range(count)]
