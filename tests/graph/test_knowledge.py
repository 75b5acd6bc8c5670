"""Knowledge graphs: building, checking, and lookups against sets of triples."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_cases import knowledge_graphs
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Relation, Schema, Vocabulary
from knowledge_sheaves.graph.arrays import sort_columns

PAPER_SCHEMA = Schema(
    ["Person", "Film"],
    [Relation("friends", "Person", "Person"), Relation("favorite movie", "Person", "Film")],
)
PAPER_TYPES = {
    **dict.fromkeys(["Julia", "Sachin", "Anja"], "Person"),
    **dict.fromkeys(["Fargo", "Star Wars", "Primer"], "Film"),
}
PAPER_ROWS = [
    ("Julia", "favorite movie", "Fargo"),
    ("Sachin", "favorite movie", "Star Wars"),
    ("Anja", "favorite movie", "Primer"),
    ("Julia", "friends", "Sachin"),
    ("Sachin", "friends", "Anja"),
]

letters = st.sampled_from("abcd")
rows_of_names = st.lists(st.tuples(letters, st.sampled_from("rs"), letters), max_size=20)


def known(graph: KnowledgeGraph) -> set[tuple[int, int, int]]:
    return {(int(h), int(r), int(t)) for h, r, t in graph.triples}


def paper(rows: list[tuple[str, str, str]] = PAPER_ROWS) -> KnowledgeGraph:
    return KnowledgeGraph.from_triples(rows, types=PAPER_TYPES, schema=PAPER_SCHEMA)


def test_the_paper_example() -> None:
    graph = paper()
    assert (graph.num_entities, graph.num_triples, graph.num_relations) == (6, 5, 2)
    assert (
        graph.entities_of_type("Film").tolist()
        == graph.entities.ids(["Fargo", "Star Wars", "Primer"]).tolist()
    )
    assert graph.typing.target == PAPER_SCHEMA.graph
    assert repr(graph) == "KnowledgeGraph(6 entities of 2 types, 5 triples of 2 relations)"


def test_a_triple_that_breaks_the_schema_is_refused() -> None:
    sentence = (
        "1 triple does not fit the schema: row 6: (Primer, favorite movie, Fargo) goes from "
        "Film to Film, but 'favorite movie' goes from Person to Film."
    )
    bad = ("Primer", "favorite movie", "Fargo")
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        paper([*PAPER_ROWS, bad])
    with pytest.raises(InputError, match=re.escape("row 1: (Primer, favorite movie, Fargo)")):
        paper().with_triples([bad])
    graph = paper()
    ids = np.array([[0, 1, 1], [5, 1, 1]])
    with pytest.raises(InputError, match=re.escape("row 2: (Primer, favorite movie, Fargo)")):
        graph.with_triples(ids)


def test_ten_offenders_are_told_and_all_are_counted() -> None:
    with pytest.raises(InputError) as caught:
        paper(PAPER_ROWS + [("Primer", "friends", "Fargo")] * 13)
    text = str(caught.value)
    assert text.startswith("13 triples do not fit")
    assert text.count("(Primer, friends, Fargo)") == 10
    assert text.endswith("; and 3 more.")


@given(rows_of_names, st.lists(letters, unique=True))
def test_names_round_trip_in_order_of_first_appearance(
    rows: list[tuple[str, str, str]], first: list[str]
) -> None:
    graph = KnowledgeGraph.from_triples(iter(rows), entities=first)
    ends = [name for head, _, tail in rows for name in (head, tail)]
    assert list(graph.entities) == list(dict.fromkeys(first + ends))
    assert list(graph.schema.relation_names) == list(dict.fromkeys(r for _, r, _ in rows))
    assert set(graph.decode(graph.triples)) == set(rows)
    assert graph.duplicates == len(rows) - len(set(rows))
    assert graph.num_triples == len(set(rows))
    assert graph.decode(graph.encode(rows)) == rows
    assert np.array_equal(graph.with_triples(rows).triples, graph.triples)


@given(knowledge_graphs())
def test_triples_are_sorted_and_distinct(graph: KnowledgeGraph) -> None:
    rows = [tuple(row) for row in graph.triples.tolist()]
    assert rows == sorted(set(rows))
    assert graph.triples.dtype == np.int32


@given(knowledge_graphs())
def test_the_typing_is_a_morphism(graph: KnowledgeGraph) -> None:
    assert graph.typing.source == graph.graph
    assert graph.typing.edge_map.tolist() == graph.triples[:, 1].tolist()
    assert graph.typing.vertex_map.tolist() == graph.entity_types.tolist()


@given(knowledge_graphs())
def test_lookups_agree_with_sets(graph: KnowledgeGraph) -> None:
    facts = known(graph)
    edges = {edge: {edge} for edge in range(graph.num_relations)}
    asked: dict[int | str, set[int]] = {
        **edges,
        **{name: set(graph.schema.edges(name).tolist()) for name in graph.schema.relation_names},
    }
    everyone = list(range(graph.num_entities))
    for relation, parts in asked.items():
        tails = [sorted(t for h, r, t in facts if h == v and r in parts) for v in everyone]
        heads = [sorted(h for h, r, t in facts if t == v and r in parts) for v in everyone]
        assert [graph.tails(v, relation).tolist() for v in everyone] == tails
        assert [graph.heads(relation, v).tolist() for v in everyone] == heads
        for found, offsets, expected in (
            (*graph.tails_many(everyone, relation), tails),
            (*graph.heads_many(relation, everyone), heads),
        ):
            parted = [found[a:b].tolist() for a, b in pairwise(offsets)]
            assert parted == expected
        assert graph.out_degree(everyone, relation).tolist() == [len(part) for part in tails]
        assert graph.in_degree(relation, everyone).tolist() == [len(part) for part in heads]


@given(knowledge_graphs())
def test_contains_agrees_with_sets(graph: KnowledgeGraph) -> None:
    sizes = (graph.num_entities, graph.num_relations, graph.num_entities)
    every = np.indices(sizes).reshape(3, -1).T
    facts = known(graph)
    assert graph.contains(every).tolist() == [tuple(row) in facts for row in every.tolist()]
    assert graph.contains(every.astype(np.int8)).sum() == graph.num_triples
    assert graph.contains([]).tolist() == []


@given(knowledge_graphs())
def test_neighbours_are_all_edges_at_an_entity(graph: KnowledgeGraph) -> None:
    for v in range(graph.num_entities):
        found = graph.neighbours(v)
        edges = zip(found.relations, found.others, found.outgoing, strict=True)
        expected = [(r, t, True) for h, r, t in known(graph) if h == v]
        expected += [(r, h, False) for h, r, t in known(graph) if t == v]
        assert sorted((int(r), int(o), bool(d)) for r, o, d in edges) == sorted(expected)


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3)))
def test_ids_too_wide_for_one_key_sort_the_same(rows: list[tuple[int, int, int]]) -> None:
    columns = np.array(rows, int).reshape(-1, 3)
    parts = (columns[:, 0], columns[:, 1], columns[:, 2])
    wide = sort_columns(parts, (2**30, 2**10, 2**30), np.int32)
    assert np.array_equal(sort_columns(parts, (5, 5, 5), np.int32), wide)


def test_a_split_relation_is_asked_as_one() -> None:
    rows = [("a", "likes", "x"), ("a", "likes", "b"), ("b", "likes", "x"), ("x", "on", "y")]
    types = {"a": "P", "b": "P", "x": "F", "y": "F"}
    graph = KnowledgeGraph.from_triples(rows, types=types, min_pair_count=2)
    assert [(r.name, r.tail, r.shared) for r in graph.schema.relations] == [
        ("likes", "F", False),
        ("likes", "P", True),
        ("on", "F", True),
    ]
    assert graph.entities.names(graph.tails(0, "likes")) == ["x", "b"]
    with pytest.raises(InputError, match=r"'likes': P to F \(2\), P to P \(1\)"):
        KnowledgeGraph.from_triples(rows, types=types, strict=True)


def test_rare_types_merge_into_entity() -> None:
    rows = [("a", "r", "b"), ("a", "r", "c")]
    types = {"a": "A", "b": "B", "c": "B"}
    graph = KnowledgeGraph.from_triples(rows, types=types, min_type_count=2)
    assert [kind.name for kind in graph.schema.types] == ["entity", "B"]
    assert graph.entity_types.tolist() == [0, 1, 1]


def test_empty_graphs() -> None:
    nothing = KnowledgeGraph.from_triples([])
    assert (nothing.num_entities, nothing.num_triples, nothing.num_relations) == (0, 0, 0)
    assert [kind.name for kind in nothing.schema.types] == ["entity"]
    assert nothing.typing.source.num_vertices == 0
    assert nothing.decode(nothing.encode([])) == []
    from_arrays = KnowledgeGraph.from_arrays([], [], [], schema=Schema.single(["r"]))
    assert from_arrays.num_entities == 0
    no_facts = paper([])
    assert no_facts.schema == PAPER_SCHEMA


def test_isolated_entities_have_a_type_and_no_neighbours() -> None:
    graph = KnowledgeGraph.from_triples(
        PAPER_ROWS[:1], types=PAPER_TYPES, schema=PAPER_SCHEMA, entities=["Anja"]
    )
    assert graph.entities.id("Anja") == 0
    assert graph.entities_of_type(0).tolist() == graph.entities.ids(["Anja", "Julia"]).tolist()
    assert graph.neighbours(0).others.tolist() == []
    assert graph.tails(0, "friends").tolist() == []
    assert graph.graph.degrees().tolist() == [0, 1, 1]


def test_unknown_things_are_refused_by_name_and_row() -> None:
    graph = paper()
    with pytest.raises(InputError, match="Row 2: Unknown entity 'Frago'; did you mean 'Fargo'"):
        graph.encode([PAPER_ROWS[0], ("Julia", "favorite movie", "Frago")])
    with pytest.raises(InputError, match="Row 1: Unknown relation 'friend'; did you mean 'fr"):
        graph.encode([("Julia", "friend", "Anja")])
    with pytest.raises(InputError, match="Row 1: Unknown relation 'friend'"):
        paper([("Julia", "friend", "Anja")])
    with pytest.raises(InputError, match="Unknown relation 'friend'"):
        graph.tails(0, "friend")
    with pytest.raises(InputError, match="Unknown type 'Actor'"):
        graph.entities_of_type("Actor")
    with pytest.raises(InputError, match="Entity 'Julia': Unknown type 'Persn'"):
        KnowledgeGraph.from_triples(PAPER_ROWS, types={"Julia": "Persn"}, schema=PAPER_SCHEMA)
    with pytest.raises(InputError, match="Entity 'Julia': it has no type"):
        KnowledgeGraph.from_triples(PAPER_ROWS, schema=PAPER_SCHEMA)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", "r", "b"), ("a", "b")], r"Row 2: \('a', 'b'\) is not a head"),
        (["arb"], "Row 1: 'arb' is not a head"),
        ([("a", "r", 3)], "entity name 3 at position 1 is not a string"),
        ([("a", 5, "b")], "relation name 5 at position 0 is not a string"),
    ],
)
def test_bad_rows_are_refused(rows: list[tuple[str, str, str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        KnowledgeGraph.from_triples(rows)


def test_repeated_entities_are_refused() -> None:
    with pytest.raises(InputError, match="'a' is given twice"):
        KnowledgeGraph.from_triples([], entities=["a", "a"])


def test_ids_outside_the_graph_are_refused() -> None:
    graph = paper()
    for ask in (
        lambda: graph.tails(-1, 0),
        lambda: graph.tails(0, 2),
        lambda: graph.heads(0, 6),
        lambda: graph.tails_many([0, 6], 0),
        lambda: graph.heads_many([0, -1], [0, 0]),
        lambda: graph.neighbours(-1),
        lambda: graph.entities_of_type(2),
        lambda: graph.contains([[0, 0, 6]]),
        lambda: graph.decode([[0, 2, 0]]),
        lambda: graph.with_triples(np.array([[0, 2, 0]])),
    ):
        with pytest.raises(InputError, match="is not in range"):
            ask()
    with pytest.raises(InputError, match=r"shape \(n, 3\)"):
        graph.contains([[0, 0]])


def test_arrays_that_do_not_match_are_refused() -> None:
    schema = Schema.single(["r"])
    with pytest.raises(InputError, match="equally many"):
        KnowledgeGraph.from_arrays([0], [0], [0, 1], schema=schema)
    with pytest.raises(InputError, match="The schema has 2 types: give entity_types"):
        KnowledgeGraph.from_arrays([0], [0], [1], schema=PAPER_SCHEMA)
    with pytest.raises(InputError, match="2 entities and 1 types"):
        KnowledgeGraph.from_arrays([0], [0], [1], schema=schema, names="ab", entity_types=[0])


def test_arrays_with_names_types_and_sizes() -> None:
    named = KnowledgeGraph.from_arrays(
        [0], [1], [2], schema=PAPER_SCHEMA, names=["J", "S", "F"], entity_types=[0, 0, 1]
    )
    assert named.decode(named.triples) == [("J", "favorite movie", "F")]
    schema = Schema.single(["r"])
    sized = KnowledgeGraph.from_arrays([0], [0], [1], schema=schema, num_entities=9)
    assert sized.entities == Vocabulary.implicit(9)
    assert sized.index() is sized
    unsigned = np.array([0, 255], np.uint8)
    small = KnowledgeGraph.from_arrays(unsigned, unsigned // 255 * 0, unsigned, schema=schema)
    assert small.triples.tolist() == [[0, 0, 0], [255, 0, 255]]


def test_labels_follow_the_entities_into_splits() -> None:
    labels = {"a": "Alpha", "elsewhere": "Omega"}
    graph = KnowledgeGraph.from_triples([("b", "r", "a")], labels=labels)
    assert graph.labels == {1: "Alpha"}
    assert graph.with_triples([]).labels == {1: "Alpha"}
    assert paper().labels is None
