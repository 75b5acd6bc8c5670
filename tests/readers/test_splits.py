"""Splits of one graph: nothing lost, nothing twice, and what leaks is named."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graph_cases import knowledge_graphs
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.splits import leaks, split

SIZES = st.sampled_from([(0.8, 0.1, 0.1), (0.5, 0.25, 0.25), (0.6, 0, 0.4), (0.1, 0.9, 0)])


@given(knowledge_graphs(), SIZES, st.integers(0, 9))
def test_a_split_is_a_partition_that_keeps_every_name_in_train(
    graph: KnowledgeGraph, sizes: tuple[float, float, float], seed: int
) -> None:
    data = split(graph, sizes, seed)
    parts = np.concatenate([part.triples for part in data.splits.values()])
    assert sorted(parts.tolist()) == sorted(graph.triples.tolist())
    assert set(data.train.triples[:, 1]) == set(graph.triples[:, 1])
    assert set(data.train.triples[:, ::2].flat) == set(graph.triples[:, ::2].flat)
    assert all(part.num_triples for part in data.splits.values()) or not graph.num_triples
    unwanted = [name for name, size in zip(("valid", "test"), sizes[1:], strict=True) if not size]
    assert not set(unwanted) & set(data.splits)
    again = split(graph, sizes, seed)
    assert again.hash == data.hash


def test_the_sizes_are_kept_where_the_graph_allows_it() -> None:
    rows = [(str(head), "r", str(tail)) for head in range(30) for tail in range(30)]
    data = split(KnowledgeGraph.from_triples(rows), (0.7, 0.2, 0.1), seed=3)
    assert [part.num_triples for part in data.splits.values()] == [630, 180, 90]
    assert split(data.train, seed=1).hash != split(data.train, seed=2).hash


def test_a_chain_cannot_be_split_as_wanted() -> None:
    graph = KnowledgeGraph.from_triples([(str(n), "r", str(n + 1)) for n in range(100)])
    data = split(graph, (0.2, 0.4, 0.4))
    aside = graph.num_triples - data.train.num_triples
    assert 30 < aside < 50  # a path of 100 edges has edge covers of 51
    assert data.notes[0].startswith(f"Only {aside} of the 80 triples wanted for valid and test")


def brute_force(rows: list[tuple[str, str, str]]) -> set[tuple[str, str, str, int]]:
    pairs: dict[str, set[tuple[str, str]]] = {}
    for head, relation, tail in rows:
        pairs.setdefault(relation, set()).add((head, tail))
    found = set()
    names = list(pairs)
    for place, one in enumerate(names):
        for two in names[place:]:
            backward = {(tail, head) for head, tail in pairs[two] if head != tail}
            kinds = {"symmetric" if one == two else "inverse": backward}
            if one != two:
                kinds["duplicate"] = pairs[two]
            for kind, others in kinds.items():
                shared = len(pairs[one] & others)
                if shared >= 2 and shared / min(len(pairs[one]), len(pairs[two])) >= 0.5:
                    found.add((kind, one, two, shared))
    return found


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from("rst"), st.sampled_from("abcd")),
        min_size=1,
        max_size=40,
    )
)
def test_leaks_equal_their_definition(rows: list[tuple[str, str, str]]) -> None:
    found = leaks(KnowledgeGraph.from_triples(rows), min_share=0.5, min_shared=2)
    assert {(leak.kind, leak.first, leak.second, leak.shared) for leak in found} == brute_force(
        rows
    )


def test_leaks_are_noted_by_name() -> None:
    pairs = [(f"p{n}", f"c{n}") for n in range(12)]
    rows = [(a, "parent", b) for a, b in pairs] + [(b, "child", a) for a, b in pairs]
    rows += [(a, "near", b) for a, b in pairs] + [(b, "near", a) for a, b in pairs]
    (note,) = split(KnowledgeGraph.from_triples(rows)).notes
    assert "symmetric 'near' (100% of the pairs, 24 shared)" in note
    assert "inverse 'parent' and 'child' (100% of the pairs, 12 shared)" in note
    assert "duplicate 'parent' and 'near' (100% of the pairs, 12 shared)" in note
    assert not split(KnowledgeGraph.from_triples(rows), (1, 0, 0)).notes
