"""RDFS and OWL are schema: what is taken, what is left out, and that none of it is a fact."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.readers import Dataset, load

X = "http://x/"
HEADER = """\
@prefix : <http://x/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
"""
FACTS = """\
:ann a :Student ; :likes :fargo ; :child :bob ; :married :cy ; :owns :car .
:bob a :Person ; :parent :ann ; :likes :fargo ; :older :cy ; :adores :fargo .
:cy a :Person ; :married :ann . :fargo a :Film . :car a :Thing .
"""
SCHEMA = """\
:likes a owl:ObjectProperty ; rdfs:domain :Person ; rdfs:range :Film, owl:Thing .
:parent owl:inverseOf :child . :adores rdfs:subPropertyOf :likes, :unused .
:married a owl:SymmetricProperty . :owns a owl:InverseFunctionalProperty .
:older a owl:AsymmetricProperty, owl:FunctionalProperty .
:Student rdfs:subClassOf :Person, [ a owl:Restriction ; owl:onProperty :likes ] .
:Film owl:disjointWith :Person . :unused rdfs:domain :Person .
"""


def read(tmp_path: Path, text: str, **options: str) -> Dataset:
    (tmp_path / "x.ttl").write_text(HEADER + text)
    return load(tmp_path / "x.ttl", sizes=(1, 0, 0), **options)


@pytest.fixture
def graph(tmp_path: Path) -> KnowledgeGraph:
    return read(tmp_path, FACTS + SCHEMA).train


def test_no_statement_about_the_schema_is_a_fact(graph: KnowledgeGraph) -> None:
    names = {name.removeprefix(X) for name in graph.schema.relation_names}
    assert names == {"likes", "child", "parent", "married", "owns", "older", "adores"}
    entities = {name.removeprefix(X) for name in graph.entities}
    assert entities == {"ann", "bob", "cy", "fargo", "car"}


def test_relations_are_what_the_file_says(graph: KnowledgeGraph) -> None:
    by_name = {each.name.removeprefix(X): each for each in graph.schema.relations}
    assert by_name["married"].symmetric
    assert by_name["owns"].inverse_functional
    assert by_name["older"].antisymmetric
    assert by_name["older"].functional
    assert by_name["parent"].inverse_of == f"{X}child"
    assert by_name["adores"].subproperty_of == f"{X}likes"
    assert by_name["likes"].inverse_of is None


def test_types_are_what_the_file_says(graph: KnowledgeGraph) -> None:
    assert graph.classes is not None
    assert graph.classes.said.heads[f"{X}likes"] == (f"{X}Person",)
    assert graph.classes.said.tails[f"{X}likes"] == (f"{X}Film",)
    persons = graph.entities.names(graph.is_of_type(f"{X}Person").nonzero()[0])
    assert {name.removeprefix(X) for name in persons} == {"ann", "bob", "cy"}


def test_a_note_says_what_was_taken_and_what_was_left_out(tmp_path: Path) -> None:
    taken, left = read(tmp_path, FACTS + SCHEMA).notes
    assert taken.startswith("Taken as schema, not as facts: rdfs:domain (2), rdfs:range (2), ")
    for each in ("owl:inverseOf (1)", "owl:AsymmetricProperty (1)", "rdfs:subPropertyOf (2)"):
        assert each in taken
    assert left == "Left out, as no facts: owl:disjointWith (1), owl:onProperty (1)."


def test_what_a_file_says_of_relations_can_be_left_out(tmp_path: Path) -> None:
    graph = read(tmp_path, FACTS + SCHEMA, schema="none").train
    assert not any(each.symmetric or each.inverse_of for each in graph.schema.relations)


def test_the_same_as_is_a_fact(tmp_path: Path) -> None:
    graph = read(tmp_path, FACTS + ":ann owl:sameAs :anna .").train
    assert "http://www.w3.org/2002/07/owl#sameAs" in graph.schema.relation_names
