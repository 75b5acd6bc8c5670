"""Sampled queries: hard, within the cap, of the shape asked for, the same for the same seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.graph import KnowledgeGraph, Relation, Schema
from knowledge_sheaves.graph.readers import STRUCTURES, load
from knowledge_sheaves.query.facts import sampler
from knowledge_sheaves.query.facts.sampler import sample_queries
from knowledge_sheaves.query.facts.symbolic import answers
from knowledge_sheaves.query.language.betae import smaller_and_larger, template
from knowledge_sheaves.query.pattern import Edge, Pattern, Query

Graphs = tuple[KnowledgeGraph, KnowledgeGraph]
NUM_RELATIONS = 6
INVERSES = np.arange(NUM_RELATIONS) ^ 1


@pytest.fixture(scope="module")
def graphs() -> Graphs:
    """A random graph with adjacent inverses, and the same with a third more."""
    rng = np.random.default_rng(0)
    heads, tails = rng.integers(0, 60, size=(2, 400))
    relations = 2 * rng.integers(0, NUM_RELATIONS // 2, size=400)
    schema = Schema.single([f"r{number}" for number in range(NUM_RELATIONS)])

    def both_ways(stop: int) -> KnowledgeGraph:
        there = heads[:stop], relations[:stop], tails[:stop]
        back = tails[:stop], relations[:stop] + 1, heads[:stop]
        columns = (np.concatenate(pair) for pair in zip(there, back, strict=True))
        return KnowledgeGraph.from_arrays(*columns, schema=schema, num_entities=60)

    return both_ways(300), both_ways(400)


TRIANGLE = Pattern(
    (Edge(0, 0, "?y"), Edge("?y", 1, "?x"), Edge("?x", 2, "?z"), Edge("?y", 3, "?z"))
)
OWN_SHAPES = {
    "triangle": Query(("?x",), (TRIANGLE,)),
    "two targets": Query(("?x", "?y"), (Pattern((Edge(0, 0, "?y"), Edge("?y", 1, "?x"))),)),
    "the same relation twice": Query(("?x",), (Pattern((Edge(0, 0, "?x"), Edge(1, 0, "?x"))),)),
    "different": Query(
        ("?x",),
        (Pattern((Edge(0, 0, "?y"), Edge("?y", 1, "?x")), different=(("?x", 1), ("?x", "?y"))),),
    ),
    "named": Query(("?x", "?y"), (Pattern((Edge("?y", 0, "?x"),), bindings=(("?y", 0),)),)),
    "nested": Query(
        ("?x",),
        (Pattern((Edge(0, 0, "?x"),), (Pattern((Edge("?x", 1, "?z"), Edge("?z", 2, 1))),)),),
    ),
}
SHAPES = {**{name: template(name) for name in [*STRUCTURES, "5p"]}, **OWN_SHAPES}


@pytest.mark.parametrize("name", SHAPES)
def test_queries_are_hard_capped_and_of_their_shape(graphs: Graphs, name: str) -> None:
    shape = SHAPES[name]
    drawn = sample_queries(*graphs, shape, 20, seed=1, max_answers=15, inverses=INVERSES)
    assert len(set(drawn.queries)) == 20
    before, after = (answers(graph, drawn.queries) for graph in graphs)
    for place, query in enumerate(drawn.queries):
        assert [p.shape for p in query.patterns] == [p.shape for p in shape.patterns]
        easy, everything = (set(map(str, found[place].tolist())) for found in (before, after))
        assert 1 <= len(everything - easy) <= 15
        assert set(map(str, drawn.easy[place].tolist())) == easy
        assert set(map(str, drawn.hard[place].tolist())) == everything - easy
        if any(pattern.without for pattern in shape.patterns):
            assert 1 <= len(easy - everything) <= 15


@pytest.mark.parametrize("name", ["2i", "3i", "2u", "up", "2in", "pi"])
def test_no_edge_is_asked_twice(graphs: Graphs, name: str) -> None:
    for query in sample_queries(*graphs, name, 50).queries:
        for pattern in query.patterns:
            assert len(set(pattern.edges)) == len(pattern.edges)
        assert len(set(query.patterns)) == len(query.patterns)


def test_no_relation_is_followed_by_its_inverse(graphs: Graphs) -> None:
    def turns_back(query: Query) -> bool:
        one, two, three = (edge.relation for edge in query.patterns[0].edges)
        return one ^ 1 == two or two ^ 1 == three

    free = sample_queries(*graphs, "3p", 100).queries
    assert any(map(turns_back, free))
    assert not any(map(turns_back, sample_queries(*graphs, "3p", 100, inverses=INVERSES).queries))


def test_equal_placeholders_are_drawn_equal(graphs: Graphs) -> None:
    for query in sample_queries(*graphs, OWN_SHAPES["the same relation twice"], 20).queries:
        first, second = query.patterns[0].edges
        assert first.relation == second.relation
        assert first.head != second.head
    for query in sample_queries(*graphs, "up", 20).queries:
        assert query.patterns[0].edges[1] == query.patterns[1].edges[1]


def test_a_seed_fixes_the_queries(graphs: Graphs) -> None:
    one, same, other = (sample_queries(*graphs, "2in", 10, seed).queries for seed in (3, 3, 4))
    assert one == same
    assert one != other


def test_relations_split_by_types_are_drawn_whole() -> None:
    schema = Schema(["a", "b"], [Relation("r", "a", "b"), Relation("r", "b", "a")])
    smaller = KnowledgeGraph.from_arrays([0], [0], [1], schema=schema, entity_types=[0, 1, 0])
    larger = smaller.with_triples(np.array([[0, 0, 1], [1, 1, 2]]))
    drawn = sample_queries(smaller, larger, "2p", 1)
    assert drawn.queries[0].patterns[0].edges == (Edge(0, 0, "?y1"), Edge("?y1", 0, "?x"))
    assert drawn.hard[0].tolist() == [2]


def test_what_cannot_be_drawn_is_an_error(graphs: Graphs) -> None:
    larger = graphs[1]
    with pytest.raises(SheafError, match="Only 0 of 1 queries were found"):
        sample_queries(larger, larger, "1p", 1)
    with pytest.raises(InputError, match="larger graph is empty"):
        sample_queries(larger, larger.with_triples(np.zeros((0, 3), int)), "1p", 1)
    with pytest.raises(InputError, match="an inverse, or -1, to each of the 6"):
        sample_queries(*graphs, "1p", 1, inverses=[1, 0])
    apart = Pattern((Edge(0, 0, "?x"),), (Pattern((Edge("?z", 1, "?w"),)),))
    with pytest.raises(InputError, match="hangs together"):
        sample_queries(*graphs, Query(("?x",), (apart,)), 1)


def test_none_are_drawn_where_none_are_asked(graphs: Graphs) -> None:
    drawn = sample_queries(*graphs, "1p", 0)
    assert drawn.queries == []
    assert len(drawn.easy) == len(drawn.hard) == 0


def test_negated_queries_of_a_real_graph(shared_data: Path) -> None:
    data = load(shared_data / "FB15k-237-betae")
    smaller, larger = smaller_and_larger(data, "valid")
    inverses = np.arange(smaller.num_relations) ^ 1
    drawn = sample_queries(smaller, larger, "pni", 20, inverses=inverses)
    assert drawn.hard.counts.min() >= 1
    assert drawn.easy.minus(answers(larger, drawn.queries)).counts.min() >= 1


@pytest.mark.parametrize("name", ["2p", "2u-DNF", "2in", "nested", "two targets"])
def test_that_draws_are_remembered_changes_nothing(
    graphs: Graphs, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    known = sample_queries(*graphs, SHAPES[name], 40, seed=3)
    monkeypatch.setattr(sampler, "MOST_DRAWN", 0)
    again = sample_queries(*graphs, SHAPES[name], 40, seed=3)
    assert known.queries == again.queries


def test_of_queries_that_are_alike_one_is_drawn_and_as_many_as_there_are(graphs: Graphs) -> None:
    def first_missing(query: Query, missing: np.ndarray) -> object:
        return int(missing[0])

    with pytest.raises(SheafError, match="of 2000 queries were found"):
        sample_queries(*graphs, "2i", 2_000, alike=first_missing)
    drawn = sample_queries(*graphs, "2i", 2_000, alike=first_missing, at_most=True)
    firsts = [int(missing[0]) for missing in drawn.hard]
    assert 10 < len(firsts) <= 60, "there are 60 entities"
    assert len(set(firsts)) == len(firsts)
