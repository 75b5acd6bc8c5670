"""An index by which questions are answered: how much of it to read is measured by their shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.search.about import SEVERAL
from knowledge_sheaves.embedding.search.building import LEAST, RECALL, Report
from knowledge_sheaves.embedding.search.finders import Asked
from knowledge_sheaves.embedding.search.kept import EDGES
from knowledge_sheaves.embedding.search.kept import index as build
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.query.pattern import Edge, Entity, Pattern, RelationId, SchemaEdge, Variable
from knowledge_sheaves.query.solvers.harmonic.best import asked_by
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph
from knowledge_sheaves.query.solvers.harmonic.solver import Harmonic

UNKNOWN, TARGET = Variable("?y"), Variable("?x")
TRIES = 8
"""Of so many facts for every question some have an end where another edge begins."""


def index(
    model: SheafEmbedding,
    *,
    recall: float = RECALL,
    least: int = LEAST,
    seed: int = 0,
    report: Report = lambda said: None,
) -> dict[str, Any]:
    """Build the index of a model that was loaded from a folder, and keep it there.

    Returns what was measured, by type: of questions of one edge, and of two in a row. The best
    answers of those are in more lists, so more must be read to meet as many.
    """
    questions = {**EDGES, SEVERAL: paths}
    told = {"recall": recall, "least": least, "seed": seed}
    return build(model, questions=questions, report=report, **told)  # type: ignore[arg-type]


@torch.no_grad()
def paths(model: SheafEmbedding, kind: int, count: int, seed: int) -> Sequence[Asked]:
    """Questions of two edges in a row that known facts answer, as `harmonic` asks them."""
    solver = Options("harmonic").start(model)
    assert isinstance(solver, Harmonic)
    candidates, names = model.pool(kind, "tail").candidates, model.graph.schema.edge_names
    asked = []
    for head, *edges in islice(walks(model, kind, TRIES * count, seed), count):
        first, second = (RelationId(int(names[edge])) for edge in edges)
        pattern = Pattern((Edge(Entity(head), first, UNKNOWN), Edge(UNKNOWN, second, TARGET)))
        parts = [[SchemaEdge(edge) for edge in edges]]
        batch = QueryGraph.of(model, [pattern], parts, TARGET)
        found = asked_by(solver, pattern, batch, TARGET, candidates)
        asked += [] if found is None else [found]
    return asked


def walks(
    model: SheafEmbedding, kind: int, tries: int, seed: int
) -> Iterator[tuple[int, int, int]]:
    """An entity and two edges to one of a type, by chance: a fact, and one that goes on from it."""
    triples, chance = model.graph.triples, np.random.default_rng(seed)
    ends, heads = np.asarray(model.edge_types)[:, 1], triples[:, 0]
    drawn = triples[chance.integers(0, len(triples), tries if len(triples) else 0)]
    starts, stops = (np.searchsorted(heads, drawn[:, 2], side) for side in ("left", "right"))
    for (head, edge, _), start, stop in zip(drawn.tolist(), starts, stops, strict=True):
        away = triples[start:stop, 1]
        away = away[ends[away] == kind]
        if len(away):
            yield head, edge, int(chance.choice(away))
