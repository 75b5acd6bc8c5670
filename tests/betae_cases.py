"""Folders in the BetaE benchmark's layout, written from any data set with the sampler."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import STRUCTURES
from knowledge_sheaves.query.facts.sampler import sample_queries
from knowledge_sheaves.query.language.betae import smaller_and_larger
from knowledge_sheaves.query.pattern import Query

FORMS = {"2u": "2u-DNF", "up": "up-DNF"}


def write_betae(
    folder: Path, data: Dataset, types: Sequence[str], count: int, split: str = "test"
) -> None:
    """Write the triples, the names in an order of their own, and some queries of each type."""
    folder.mkdir(parents=True)
    order = np.random.default_rng(0).permutation(data.train.num_entities)
    new = np.argsort(order)  # the id in the folder of each entity
    names, relations = list(data.train.entities), data.train.schema.relation_names
    _write(folder / "id2ent.pkl", {place: names[old] for place, old in enumerate(order.tolist())})
    _write(folder / "id2rel.pkl", dict(enumerate(relations)))
    for name, graph in data.splits.items():
        rows = [f"{new[h]}\t{r}\t{new[t]}\n" for h, r, t in graph.triples.tolist()]
        (folder / f"{name}.txt").write_text("".join(rows))
    smaller, larger = smaller_and_larger(data, split)
    asked: dict[Any, set[Any]] = {}
    easy: dict[Any, set[int]] = {}
    hard: dict[Any, set[int]] = {}
    for name in types:
        structure = STRUCTURES[FORMS.get(name, name)]
        drawn = sample_queries(smaller, larger, name, count)
        for place, query in enumerate(drawn.queries):
            tuples = _fill(structure, query, new)
            asked.setdefault(structure, set()).add(tuples)
            easy[tuples] = set(new[drawn.easy[place]].tolist())
            hard[tuples] = set(new[drawn.hard[place]].tolist())
    _write(folder / f"{split}-queries.pkl", asked)
    _write(folder / f"{split}-easy-answers.pkl", easy)
    _write(folder / f"{split}-hard-answers.pkl", hard)


def _fill(structure: Any, query: Query, new: np.ndarray) -> Any:
    """The nested tuples of a query, whose constants come in the order of its type's structure."""
    walked = [inner for pattern in query.patterns for inner in pattern.walk()]
    entities = [int(new[e]) for pattern in walked for e in _entities(pattern)]
    relations = [edge.relation for pattern in walked for edge in pattern.edges]
    if structure == STRUCTURES["up-DNF"]:  # both alternatives end with the one relation behind
        relations = [relations[0], relations[2], relations[1]]
    if structure == STRUCTURES["inp"]:  # the negated edge stands between the others
        relations = [relations[0], relations[2], relations[1]]
    if structure == STRUCTURES["pni"]:  # what is negated stands first
        entities, relations = entities[::-1], [*relations[1:], relations[0]]
    feeds = {"e": iter(entities), "r": iter(relations), "u": iter([-1]), "n": iter([-2])}

    def fill(part: Any) -> Any:
        return next(feeds[part]) if isinstance(part, str) else tuple(map(fill, part))

    return fill(structure)


def _entities(pattern: Any) -> list[int]:
    return [edge.head for edge in pattern.edges if isinstance(edge.head, int)]


def _write(path: Path, data: object) -> None:
    path.write_bytes(pickle.dumps(data))
