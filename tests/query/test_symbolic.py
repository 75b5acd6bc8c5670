"""Symbolic answers against all assignments, one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from graph_cases import knowledge_graphs
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.facts.symbolic import _keys, answers
from knowledge_sheaves.query.pattern import Edge, Pattern, Query, Term

Assignment = dict[str, int]


def facts(graph: KnowledgeGraph) -> set[tuple[int, int, int]]:
    names = graph.schema.relation_names
    return {
        (int(h), names.index(graph.schema.relations[r].name), int(t)) for h, r, t in graph.triples
    }


def holds(pattern: Pattern, known: set[tuple[int, int, int]], size: int, given: Assignment) -> bool:
    return any(True for _ in solutions(pattern, known, size, given))


def solutions(
    pattern: Pattern, known: set[tuple[int, int, int]], size: int, given: Assignment
) -> list[Assignment]:
    named = (name for name, _ in pattern.bindings)
    own = [name for name in dict.fromkeys([*pattern.variables, *named]) if name not in given]
    found = []
    for values in product(range(size), repeat=len(own)):
        full = {**given, **dict(zip(own, values, strict=True))}

        def at(term: Term, full: Assignment = full) -> int:
            return full[term] if isinstance(term, str) else term

        if (
            all((at(e.head), e.relation, at(e.tail)) in known for e in pattern.edges)
            and all(at(a) != at(b) for a, b in pattern.different)
            and all(at(variable) == entity for variable, entity in pattern.bindings)
            and not any(holds(inner, known, size, full) for inner in pattern.without)
        ):
            found.append(full)
    return found


def brute_force(graph: KnowledgeGraph, query: Query) -> list[tuple[int, ...]]:
    known, size = facts(graph), graph.num_entities
    return sorted(
        {
            tuple(found[target] for target in query.targets)
            for pattern in query.patterns
            for found in solutions(pattern, known, size, {})
        }
    )


@st.composite
def connected_edges(draw: st.DrawFn, graph: KnowledgeGraph, targets: list[str]) -> list[Edge]:
    """Draw edges that hang together and reach every target; cycles and loops come by chance."""
    reached = draw(st.sampled_from([targets[:1], ["?c"]]))
    edges = []
    missing = [target for target in targets if target not in reached]
    for _ in range(draw(st.integers(max(1, len(missing)), 4))):
        others = st.sampled_from(["?a", "?b", "?c", 0, 0, graph.num_entities - 1])
        end = missing.pop() if missing else draw(others)
        near = draw(st.sampled_from(reached))
        ends = draw(st.permutations([near, end]))
        edges.append(Edge(ends[0], draw(relations(graph)), ends[1]))
        reached = list(dict.fromkeys([*reached, *([end] if isinstance(end, str) else [])]))
    return edges


def relations(graph: KnowledgeGraph) -> st.SearchStrategy[int]:
    return st.integers(0, len(graph.schema.relation_names) - 1)


def loose_edges(graph: KnowledgeGraph, names: str) -> st.SearchStrategy[list[Edge]]:
    variables = st.sampled_from([f"?{letter}" for letter in names])
    terms = st.one_of(variables, variables, st.integers(0, graph.num_entities - 1))
    return st.lists(st.builds(Edge, terms, relations(graph), terms), max_size=3)


@st.composite
def patterns(
    draw: st.DrawFn,
    graph: KnowledgeGraph,
    edges: st.SearchStrategy[list[Edge]],
    names: str = "abc",
    outer: frozenset[str] = frozenset(),
) -> Pattern:
    chosen = draw(edges)
    bound = outer | {term for edge in chosen for term in edge.terms if isinstance(term, str)}
    ends = st.sampled_from([0, *sorted(bound)])
    different = draw(st.lists(st.tuples(ends, ends), max_size=1))
    entities = st.integers(0, graph.num_entities - 1)
    named = st.tuples(st.sampled_from(sorted(bound)), entities) if bound else st.nothing()
    bindings = draw(st.one_of(st.just([]), st.lists(named, max_size=2)))
    inner: list[Pattern] = []
    if len(names) < 5:
        more = names + "zw"[len(names) - 3]
        inside = patterns(graph, loose_edges(graph, more), more, frozenset(bound))
        inner = draw(st.lists(inside, max_size=2))
    return Pattern(tuple(chosen), tuple(inner), tuple(different), tuple(bindings))


@st.composite
def questions(draw: st.DrawFn, targets: list[str]) -> tuple[KnowledgeGraph, list[Query]]:
    graph = draw(knowledge_graphs())
    pattern = patterns(graph, connected_edges(graph, targets))
    unions = st.lists(pattern, min_size=1, max_size=2)
    asked = draw(st.lists(unions, min_size=1, max_size=3))
    return graph, [Query(tuple(targets), tuple(union)) for union in asked]


@pytest.mark.parametrize("targets", [["?a"], ["?b", "?a"]])
@settings(max_examples=100)
@given(data=st.data())
def test_answers_are_those_of_all_assignments(targets: list[str], data: st.DataObject) -> None:
    graph, queries = data.draw(questions(targets))
    found = answers(graph, queries)
    for place, query in enumerate(queries):
        rows = found[place].reshape(-1, len(targets))
        assert list(map(tuple, rows.tolist())) == brute_force(graph, query)


@settings(max_examples=30)
@given(data=st.data())
def test_a_limit_on_rows_changes_no_answer(data: st.DataObject) -> None:
    graph, queries = data.draw(questions(["?a"]))
    whole = answers(graph, queries)
    try:
        split = answers(graph, queries, max_rows=data.draw(st.integers(1, 20)))
    except SheafError:
        reject()
    assert split.ids.tolist() == whole.ids.tolist()
    assert split.offsets.tolist() == whole.offsets.tolist()


@pytest.fixture
def friends() -> KnowledgeGraph:
    return KnowledgeGraph.from_triples(
        [("a", "knows", "b"), ("b", "knows", "c"), ("a", "knows", "c"), ("c", "likes", "c")]
    )


def ask(graph: KnowledgeGraph, rows: list[tuple[str, ...]], target: str = "?x") -> list[str]:
    return graph.entities.names(answers(graph, [Query.from_triples(rows, target, graph)])[0])


def test_what_must_not_hold_is_taken_away(friends: KnowledgeGraph) -> None:
    assert ask(friends, [("a", "knows", "?x")]) == ["b", "c"]
    assert ask(friends, [("a", "knows", "?x"), ("b", "knows", "?x", "not")]) == ["b"]
    assert ask(friends, [("?x", "likes", "?x")]) == ["c"]


def test_a_query_beyond_the_limit_is_named(friends: KnowledgeGraph) -> None:
    small = Query.from_triples([("b", "knows", "?x")], "?x", friends)
    large = Query.from_triples([("?y", "knows", "?x")], "?x", friends)
    with pytest.raises(SheafError, match=r"Query 1 needs more than 2 rows"):
        answers(friends, [small, large], max_rows=2)


def test_batches_refuse_what_they_cannot_answer(friends: KnowledgeGraph) -> None:
    one = Query(("?x",), (Pattern((Edge(0, 0, "?x"),)),))
    two = Query(("?x", "?y"), (Pattern((Edge("?y", 0, "?x"),)),))
    with pytest.raises(InputError, match="equally many targets"):
        answers(friends, [one, two])
    with pytest.raises(InputError, match="Entities of a query"):
        answers(friends, [Query(("?x",), (Pattern((Edge(9, 0, "?x"),)),))])
    with pytest.raises(InputError, match="Relations of a query"):
        answers(friends, [Query(("?x",), (Pattern((Edge(0, 9, "?x"),)),))])
    loose = Pattern((Edge(0, 0, "?x"),), different=(("?x", "?nowhere"),))
    with pytest.raises(InputError, match=r"speaks of \?nowhere, which occurs in no positive edge"):
        Query(("?x",), (loose,))


def test_no_queries_and_places_beyond_the_end(friends: KnowledgeGraph) -> None:
    assert len(answers(friends, [])) == 0
    found = answers(friends, [Query.from_triples([("a", "knows", "?x")], "?x", friends)])
    assert found[-1].tolist() == [1, 2]
    assert [part.tolist() for part in found] == [[1, 2]]
    assert found.counts.tolist() == [2]
    with pytest.raises(IndexError):
        found[1]


@given(seed=st.integers(0, 2**32 - 1), bits=st.integers(1, 40))
def test_keys_are_ordered_as_rows_are_however_many_bits_they_need(seed: int, bits: int) -> None:
    rng = np.random.default_rng(seed)
    few = rng.integers(0, 2**bits, size=(3, 4))
    rows = np.stack([rng.choice(values, size=30) for values in few], axis=1)
    keys = _keys(list(rows.T), [2**bits] * 3)
    by_key = rows[np.argsort(keys, kind="stable")].tolist()
    assert by_key == sorted(rows.tolist())
    assert len(np.unique(keys)) == len({tuple(row) for row in rows.tolist()})


def test_a_graph_is_merged_once() -> None:
    graph = KnowledgeGraph.from_triples(
        [("a", "r", "b"), ("b", "r", "b")], types={"a": "one", "b": "two"}
    )
    merged = graph.by_name
    assert merged.triples.tolist() == [[0, 0, 1], [1, 0, 1]]
    assert graph.by_name is merged
    assert merged.by_name is merged
