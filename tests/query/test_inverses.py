"""A relation that is declared to be the inverse of another and has no facts of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.graph.names import find_relation
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.query import Asker, Options
from knowledge_sheaves.query.full import Sparql
from knowledge_sheaves.query.language import read
from knowledge_sheaves.query.pattern import Query
from knowledge_sheaves.ranking import Predictor

SAID = """
@prefix ex: <http://shop.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
ex:boughtBy {0} ; rdfs:label "was bought by"@en , "wurde gekauft von"@de .
ex:bought rdfs:label "bought"@en {1} .
ex:Ann ex:bought ex:Camera ; rdfs:label "Ann" . ex:Bob ex:bought ex:Lens .
ex:Camera rdfs:label "Camera" . ex:Ann ex:knows ex:Bob .
"""
BOTH_WAYS = [
    ("owl:inverseOf ex:bought", ""),
    ("a owl:ObjectProperty", "; owl:inverseOf ex:boughtBy"),
]


@pytest.fixture(params=BOTH_WAYS)
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> KnowledgeGraph:
    (tmp_path / "shop.ttl").write_text(SAID.format(*request.param))
    return load(tmp_path / "shop.ttl").train


def pattern(text: str, graph: KnowledgeGraph) -> object:
    query = read(text, graph).query
    assert query is not None
    return query.patterns


FORWARDS = "SELECT ?x { ?x <http://shop.example/bought> <http://shop.example/Camera> }"
BACKWARDS = [
    '"Camera" "was bought by" ?x',
    "Camera was bought by ?x",
    "SELECT ?x { <Camera> <was bought by> ?x }",
    "SELECT ?x { ?x ^<was bought by> <Camera> }",
    "PREFIX ex: <http://shop.example/> SELECT ?x { ex:Camera ex:boughtBy ?x }",
]


@pytest.mark.parametrize("text", BACKWARDS)
def test_an_inverse_without_facts_is_the_relation_turned_around(
    text: str, graph: KnowledgeGraph
) -> None:
    assert pattern(text, graph) == pattern(FORWARDS, graph)


def test_paths_and_negations_may_hold_it(graph: KnowledgeGraph) -> None:
    frame = "PREFIX ex: <http://shop.example/> SELECT ?x {{ ?x ex:knows ?y . {} }}"
    turned = frame.format("FILTER NOT EXISTS { ex:Camera ex:boughtBy/ex:knows ?x }")
    as_is = frame.format("FILTER NOT EXISTS { ex:Camera ^ex:bought/ex:knows ?x }")
    assert pattern(turned, graph) == pattern(as_is, graph)


def test_the_model_folder_keeps_it(graph: KnowledgeGraph, tmp_path: Path) -> None:
    SheafEmbedding(model_config("complex", dim=4), graph).save(tmp_path / "model")
    asker = Asker(SheafEmbedding.load(tmp_path / "model"), Options(tau=1.0))
    found = asker.answer("Camera was bought by ?x", top=1)
    assert found.to_polars()["x label"].to_list() == ["Ann"]
    assert found.known is not None
    assert bool(found.known[0])


def test_entities_of_one_label_are_told_apart_by_the_end_where_they_stand() -> None:
    schema = Schema.single(["bought", "likes"]).saying({"boughtBy": {"inverse_of": "bought"}})
    rows = [("a", "bought", "b"), ("c", "likes", "a")]
    labels = {"b": "Lens", "c": "Lens"}
    graph = KnowledgeGraph.from_triples(rows, schema=schema, labels=labels)
    assert pattern("Lens boughtBy ?x", graph) == pattern("b boughtBy ?x", graph)


def test_where_it_cannot_be_turned_around_the_error_says_what_to_ask(graph: KnowledgeGraph) -> None:
    sentence = (
        r"^'was bought by' \(http://shop.example/boughtBy\) is the inverse of 'bought' "
        r"\(http://shop.example/bought\) and has no facts of its own: ask for 'bought' with the "
        r"two ends exchanged\.$"
    )
    with pytest.raises(InputError, match=sentence):
        find_relation(graph, "was bought by")
    with pytest.raises(InputError, match=sentence):
        Query.from_triples([("Camera", "was bought by", "?x")], "?x", graph)


def test_near_misses_name_it(graph: KnowledgeGraph) -> None:
    with pytest.raises(InputError, match="did you mean 'was bought by'"):
        read("?x 'was bougt by' ?y", graph)


def test_an_inverse_with_facts_stays_a_relation() -> None:
    says = {"boughtBy": {"inverse_of": "bought"}}
    schema = Schema.single(["bought", "boughtBy"]).saying(says)
    assert not schema.backwards
    assert schema.relations[1].inverse_of == "bought"


TWO = {"boughtBy": {"inverse_of": "bought"}, "soldTo": {"inverse_of": "bought"}}
ONE_OF_TWO = {"likes": {"inverse_of": "likedBy"}, "loves": {"inverse_of": "likedBy"}}


def test_a_relation_may_have_several_such_inverses() -> None:
    schema = Schema.single(["bought"]).saying(TWO).labelled({"soldTo": "sold to"}, {})
    graph = KnowledgeGraph.from_triples([("Ann", "bought", "Lens")], schema=schema)
    for name in ("boughtBy", "soldTo", "'sold to'"):
        assert pattern(f"Lens {name} ?x", graph) == pattern("?x bought Lens", graph)
    again = Schema.from_dict(schema.to_dict())
    assert again == schema
    assert again.backwards == {"boughtBy": ("bought",), "soldTo": ("bought",)}
    assert [name.label for name in again.backwards] == [None, "sold to"]


def test_an_inverse_of_several_relations_is_refused_with_their_names() -> None:
    schema = Schema.single(["likes", "loves"]).saying(ONE_OF_TWO)
    rows = [("Ann", "likes", "Lens"), ("Ann", "loves", "Bob")]
    graph = KnowledgeGraph.from_triples(rows, schema=schema)
    with pytest.raises(InputError, match=r"inverse of 2 relations.*'likes', 'loves'"):
        read("Lens likedBy ?x", graph)


@pytest.mark.parametrize("given", [3, [["a"]], [["a", 1]], [""], ["bought"]])
def test_what_is_no_name_of_an_inverse_is_refused(given: object) -> None:
    relation = {"name": "bought", "head": "t", "tail": "t", "backwards": given}
    with pytest.raises(InputError, match="backwards"):
        Schema.from_dict({"types": ["t"], "relations": [relation]})


def test_a_probability_of_an_inverse_says_what_to_ask(graph: KnowledgeGraph) -> None:
    asker = Asker(SheafEmbedding(model_config("complex", dim=4), graph), Options(tau=1.0))
    text = "SELECT ?p { BIND(ks:probability(:Camera, <was bought by>, :Ann) AS ?p) }"
    with pytest.raises(InputError, match="with the two ends exchanged"):
        Sparql(asker).run(text)


def test_predictions_read_it_backwards(graph: KnowledgeGraph) -> None:
    predictor = Predictor(SheafEmbedding(model_config("complex", dim=4), graph))
    known = [each.label for each in predictor.predict("Camera", "was bought by") if each.known]
    assert known == ["Ann"]
    assert [e.name for e in predictor.predict(relation="was bought by", tail="Ann") if e.known] == [
        "http://shop.example/Camera"
    ]


@pytest.mark.parametrize("name", ["<was bought by>", "<http://shop.example/boughtBy>"])
def test_over_the_facts_it_is_said_what_to_ask(graph: KnowledgeGraph, name: str) -> None:
    engine = Sparql(Asker(SheafEmbedding(model_config("complex", dim=4), graph), Options(tau=1.0)))
    text = f"SELECT ?x {{ <Camera> {name} ?x }}"
    found = engine.run(text)
    assert list(found.rows()) == []
    assert "with the two ends exchanged" in found.notes[0]
    if name.startswith("<http"):  # as programs write it
        assert engine.run(text, facts_only=True).notes == found.notes
    else:
        with pytest.raises(InputError, match="with the two ends exchanged"):
            engine.run(text, facts_only=True)
