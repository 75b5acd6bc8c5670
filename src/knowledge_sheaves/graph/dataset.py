"""Data sets: one graph to learn from, others over the same entities to choose and to test by."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from knowledge_sheaves.graph.knowledge import KnowledgeGraph


@dataclass(frozen=True)
class Dataset:
    """A graph to train on, with validation and test triples where there are any.

    All three share entities, types and schema. ``source`` says where the data came from,
    ``notes`` what a careful reader of the results would want to know (one sentence each), ``drawn``
    that the split is ours: the user gave all of it as one.

    >>> data = Dataset(KnowledgeGraph.from_triples([("a", "r", "b")]), name="tiny")
    >>> data
    Dataset('tiny': 2 entities of 1 types, 1 relations, triples: 1 train)
    """

    train: KnowledgeGraph
    valid: KnowledgeGraph | None = None
    test: KnowledgeGraph | None = None
    name: str = "data"
    source: str = "given in Python"
    notes: tuple[str, ...] = ()
    drawn: bool = False

    @property
    def splits(self) -> dict[str, KnowledgeGraph]:
        """The graphs that are there, by the name of their split."""
        named = {"train": self.train, "valid": self.valid, "test": self.test}
        return {name: graph for name, graph in named.items() if graph is not None}

    @property
    def whole(self) -> Dataset:
        """The data set with all of its facts to train on.

        >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
        >>> Dataset(graph, test=graph.with_triples([("b", "r", "a")])).whole
        Dataset('data': 2 entities of 1 types, 1 relations, triples: 2 train)
        """
        triples = np.concatenate([graph.triples for graph in self.splits.values()])
        return Dataset(
            self.train.with_triples(triples), name=self.name, source=self.source, notes=self.notes
        )

    @cached_property
    def hash(self) -> str:
        """A SHA-256 of the content: names, types, schema and triples, not of the files' form.

        >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
        >>> Dataset(graph, name="one").hash == Dataset(graph, name="other").hash
        True
        """
        digest = hashlib.sha256()
        names = [list(self.train.entities), self.train.schema.to_dict()]
        digest.update(json.dumps(names).encode())
        digest.update(self.train.entity_types.astype("<i8").tobytes())
        for name, graph in self.splits.items():
            digest.update(f"{name} {graph.num_triples}".encode())
            digest.update(graph.triples.astype("<i8").tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        counts = ", ".join(f"{graph.num_triples} {name}" for name, graph in self.splits.items())
        schema = self.train.schema
        return (
            f"Dataset({self.name!r}: {self.train.num_entities} entities of {len(schema.types)} "
            f"types, {len(schema.relation_names)} relations, triples: {counts})"
        )
