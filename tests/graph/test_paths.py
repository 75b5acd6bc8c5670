"""Paths between two entities, against a search by hand."""

from __future__ import annotations

import numpy as np
import pytest

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.paths import Step, evidence, paths_between


def by_hand(graph: KnowledgeGraph, head: int, tail: int) -> set[tuple[object, ...]]:
    rows = graph.triples.tolist()
    walks = [(h, Step(r, True), t, (h, r, t)) for h, r, t in rows]
    walks += [(t, Step(r, False), h, (h, r, t)) for h, r, t in rows]
    found: set[tuple[object, ...]] = {
        ((step,), (row,)) for a, step, b, row in walks if (a, b) == (head, tail)
    }
    for a, first, middle, row in walks:
        if a == head and middle not in (head, tail):
            found |= {
                ((first, second), (row, other))
                for b, second, c, other in walks
                if (b, c) == (middle, tail)
            }
    return found


@pytest.mark.parametrize("seed", range(5))
def test_all_paths_are_found(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in random.integers(0, [8, 3, 8], (30, 3))]
    graph = KnowledgeGraph.from_triples(rows)
    for head in range(graph.num_entities):
        for tail in range(graph.num_entities):
            groups = paths_between(graph, head, tail)
            found = {
                (group.steps, tuple(map(tuple, path)))
                for group in groups
                for path in group.triples.tolist()
            }
            assert found == by_hand(graph, head, tail)
            assert len({group.steps for group in groups}) == len(groups)


def test_what_goes_with_a_relation() -> None:
    born = [(f"p{i}", "born in", f"c{i}") for i in range(30)]
    lies = [(f"c{i}", "lies in", f"n{i % 3}") for i in range(30)]
    citizen = [(f"p{i}", "citizen of", f"n{i % 3}") for i in range(27)]
    graph = KnowledgeGraph.from_triples([*born, *lies, *citizen])
    found = evidence(graph, "citizen of", sample=10)
    names = graph.schema.relation_names
    steps = Step(names.index("born in"), True), Step(names.index("lies in"), True)
    assert found.facts == found.with_facts[steps] == 10
    assert found.others == 10
    assert steps not in found.with_others
    assert (Step(names.index("citizen of"), True),) not in found.with_facts
