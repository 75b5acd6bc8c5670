"""What remembered facts make certain, whatever the cut to the best candidates leaves of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.pattern import Query
from knowledge_sheaves.query.symbolic import answers


def certain(graph: KnowledgeGraph, queries: Sequence[Query]) -> tuple[Tensor, Tensor]:
    """What remembered facts make certain: rows of queries, and of the entities of their targets.

    A pattern without negation holds with probability 1 where all of its edges are facts, and so
    does a union with such a pattern.

    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "c")])
    >>> query = Query.from_triples([("a", "r", "?y"), ("?y", "s", "?x")], "?x", graph)
    >>> certain(graph, [query])
    (tensor([0]), tensor([[2]]))
    """
    positive = [tuple(p for p in query.patterns if not p.without) for query in queries]
    places = [place for place, patterns in enumerate(positive) if patterns]
    found = answers(graph, [Query(queries[i].targets, positive[i]) for i in places])
    rows = torch.tensor(places, dtype=torch.long).repeat_interleave(torch.from_numpy(found.counts))
    width = len(queries[0].targets) if queries else 1
    return rows, torch.from_numpy(found.ids.astype(np.int64)).reshape(-1, width)
