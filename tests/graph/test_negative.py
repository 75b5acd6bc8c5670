"""Negative graphs against their definitions, triple by triple."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graph_cases import knowledge_graphs
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import (
    ClosedWorld,
    KnowledgeGraph,
    LocalClosedWorld,
    NegativeGraph,
    OpenWorld,
    Schema,
)

Triple = tuple[int, int, int]


def by_definition(world: NegativeGraph) -> set[Triple]:
    graph = world.graph
    ends, types = graph.schema.graph, graph.entity_types
    facts = {tuple(row) for row in graph.triples.tolist()}
    everyone = range(graph.num_entities)
    typed = {
        (h, r, t)
        for h, r, t in product(everyone, range(graph.num_relations), everyone)
        if types[h] == ends.heads[r] and types[t] == ends.tails[r]
    }
    if isinstance(world, OpenWorld):
        return set()
    if isinstance(world, LocalClosedWorld) and world.by == "tail":
        typed = {(h, r, t) for h, r, t in typed if any(f[:2] == (h, r) for f in facts)}
    elif isinstance(world, LocalClosedWorld):
        typed = {(h, r, t) for h, r, t in typed if any(f[1:] == (r, t) for f in facts)}
    return typed - facts


@st.composite
def worlds(draw: st.DrawFn) -> NegativeGraph:
    graph = draw(knowledge_graphs())
    by_head = LocalClosedWorld(graph, by="head")
    every = [ClosedWorld(graph), OpenWorld(graph), LocalClosedWorld(graph), by_head]
    return draw(st.sampled_from(every))


@given(worlds(), st.integers(1, 7))
def test_edges_are_those_of_the_definition(world: NegativeGraph, size: int) -> None:
    expected = by_definition(world)
    rows = [tuple(row) for row in world.edges().tolist()]
    assert len(rows) == len(set(rows)) == world.num_edges
    assert set(rows) == expected
    chunks = list(world.chunks(size))
    assert all(0 < len(chunk) <= size for chunk in chunks)
    assert [tuple(row) for chunk in chunks for row in chunk.tolist()] == rows
    assert sum(map(len, world)) == len(rows)


@given(worlds())
def test_contains_is_membership(world: NegativeGraph) -> None:
    graph = world.graph
    sizes = (graph.num_entities, graph.num_relations, graph.num_entities)
    every = np.indices(sizes).reshape(3, -1).T
    expected = by_definition(world)
    assert world.contains(every).tolist() == [tuple(row) in expected for row in every.tolist()]


@given(worlds(), st.integers(0, 2**32 - 1))
def test_samples_are_negative_and_repeatable(world: NegativeGraph, seed: int) -> None:
    assert world.sample(0, seed).shape == (0, 3)
    assume(world.num_edges > 0)
    drawn = world.sample(20, seed)
    assert drawn.shape == (20, 3)
    assert {tuple(row) for row in drawn.tolist()} <= by_definition(world)
    assert np.array_equal(drawn, world.sample(20, np.random.default_rng(seed)))


def test_samples_are_uniform() -> None:
    rows = [(a, "r", b) for a in "abc" for b in "abcd" if a + b not in ("aa", "bc")]
    rows += [("a", "s", "b")]
    world = LocalClosedWorld(KnowledgeGraph.from_triples(rows))
    expected = by_definition(world)
    counts = Counter(tuple(row) for row in world.sample(10_000, 0).tolist())
    assert set(counts) == expected
    mean = 10_000 / len(expected)
    assert max(abs(count - mean) for count in counts.values()) < 5 * mean**0.5


def test_a_nearly_complete_graph_is_sampled_from_its_list() -> None:
    every = np.indices((12, 1, 12)).reshape(3, -1).T
    graph = KnowledgeGraph.from_arrays(*every[1:].T, schema=Schema.single(["r"]), num_entities=12)
    assert ClosedWorld(graph).sample(3, 0).tolist() == [[0, 0, 0]] * 3
    complete = graph.with_triples(every)
    with pytest.raises(InputError, match="no negative triple to sample"):
        ClosedWorld(complete).sample(1)


def test_large_negative_graphs_are_counted_not_listed() -> None:
    graph = KnowledgeGraph.from_arrays(
        [0, 1], [0, 0], [5, 99_999], schema=Schema.single(["r", "s"]), num_entities=100_000
    )
    world = ClosedWorld(graph)
    assert world.num_edges == 2 * 10**10 - 2
    assert len(next(iter(world))) == 65_535
    assert not graph.contains(world.sample(1000, 0)).any()
    with pytest.raises(InputError, match=r"19999999998 triples, more than the limit"):
        world.edges(limit=10**9)


def test_other_corruptions_are_refused() -> None:
    with pytest.raises(InputError, match="by 'tail' or by 'head', not by 'relation'"):
        LocalClosedWorld(KnowledgeGraph.from_triples([]), by="relation")  # type: ignore[arg-type]
