"""Data sets: one graph to learn from, others over the same entities to choose and to test by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import IntArray
from knowledge_sheaves.graph.knowledge import KnowledgeGraph

MANY_RELATIONS, FACTS_A_RELATION = 50, 2
"""With more relations than this, and fewer facts for each, the columns are not what they seem."""


@dataclass(frozen=True)
class Dataset:
    """A graph to train on, with validation and test triples where there are any.

    All three share entities, types and schema. ``source`` says where the data came from,
    ``notes`` what a careful reader of the results would want to know (one sentence each), ``drawn``
    that the split is ours: the user gave all of it as one. ``false`` are triples of ids that are
    known to be false, ``statements`` what the source says beside facts (`graph.statements`).

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
    false: IntArray = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    statements: pl.DataFrame | None = field(default=None, repr=False, compare=False)

    def with_false(self, rows: Sequence[tuple[str, str, str]]) -> Dataset:
        """The data set with triples, by name, that are known to be false.

        >>> data = Dataset(KnowledgeGraph.from_triples([("a", "r", "b")]))
        >>> data.with_false([("b", "r", "a")]).false.tolist()
        [[1, 0, 0]]
        >>> data.with_false([("a", "r", "b")])
        Traceback (most recent call last):
        knowledge_sheaves.errors.InputError: a r b is a fact of the train split and is said to be \
false: drop it from one of the two.
        """
        false = np.asarray(self.train.encode(list(rows)), dtype=np.int64).reshape(-1, 3)
        for name, graph in self.splits.items():
            both = graph.contains(false)
            if both.any():
                fact = " ".join(rows[int(both.argmax())])
                raise InputError(
                    f"{fact} is a fact of the {name} split and is said to be false: drop it from "
                    "one of the two."
                )
        return replace(self, false=np.unique(false, axis=0))

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
            self.train.with_triples(triples),
            name=self.name,
            source=self.source,
            notes=self.notes,
            false=self.false,
            statements=self.statements,
        )

    @property
    def doubt(self) -> str | None:
        """Why this can hardly be a graph of facts that was meant to be learned from, if so.

        >>> rows = [(f"id{n}", f"name {n}", "Gene") for n in range(60)]
        >>> Dataset(KnowledgeGraph.from_triples(rows)).doubt
        'There are 60 relations among 60 facts, and a relation is learned from many facts.'
        """
        relations = len(self.train.schema.relation_names)
        facts = sum(graph.num_triples for graph in self.splits.values())
        if relations < MANY_RELATIONS or facts >= FACTS_A_RELATION * relations:
            return None
        return (
            f"There are {relations:,} relations among {facts:,} facts, and a relation is learned "
            "from many facts."
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
        if (classes := self.train.classes) is not None:
            digest.update(json.dumps(classes.to_dict()).encode())
            digest.update(classes.pairs.astype("<i8").tobytes())
        for name, graph in self.splits.items():
            digest.update(f"{name} {graph.num_triples}".encode())
            digest.update(graph.triples.astype("<i8").tobytes())
        if len(self.false):
            digest.update(b"false" + self.false.astype("<i8").tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        counts = ", ".join(f"{graph.num_triples} {name}" for name, graph in self.splits.items())
        schema = self.train.schema
        return (
            f"Dataset({self.name!r}: {self.train.num_entities} entities of "
            f"{len(self.train.type_names)} "
            f"types, {len(schema.relation_names)} relations, triples: {counts})"
        )
