"""RDF in five forms, against each other and against what the file says."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import rdflib
from hypothesis import given
from hypothesis import strategies as st

from knowledge_sheaves.graph.readers import Dataset, load

X = "http://x.org/"
TURTLE = """\
@prefix : <http://x.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
:julia a :Student, :Person, owl:NamedIndividual ; rdfs:label "Julia"@de, "Julia A."@en ;
  :likes :fargo ; :age 30 ; :motto "a \\"quoted\\" one"@en ; :knows [ :likes :fargo ] .
:sachin a :Person, owl:NamedIndividual ; rdfs:label "Sachin" , "S."@en ; :likes :fargo .
:fargo a :Film, owl:NamedIndividual ; rdfs:label "Fargo (Film)"@de, "Fargo-fr"@fr .
:Student rdfs:subClassOf :Person .
"""
FORMS = {"ttl": "turtle", "nt": "nt11", "nq": "nquads", "rdf": "xml", "jsonld": "json-ld"}


def whole(path: Path) -> Dataset:
    return load(path, sizes=(1, 0, 0))


def write(path: Path, graph: rdflib.Graph) -> Path:
    form = FORMS[path.name.split(".")[1]]
    if form == "nquads":
        data = rdflib.Dataset()
        for row in graph:
            data.graph(rdflib.URIRef("http://g")).add(row)
        graph = data
    text = graph.serialize(format=form, encoding="utf-8")
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(tmp_path: Path, form: str, packed: str) -> None:
    data = whole(write(tmp_path / f"x.{form}{packed}", rdflib.Graph().parse(data=TURTLE)))
    graph = data.train
    rows = {tuple(name.removeprefix(X) for name in row) for row in graph.decode(graph.triples)}
    (blank,) = (name for name in graph.entities if name.startswith("_:"))
    assert rows == {
        ("julia", "likes", "fargo"),
        ("sachin", "likes", "fargo"),
        ("julia", "knows", blank),
        (blank, "likes", "fargo"),
    }
    kinds = {
        name.removeprefix(X): {kind.removeprefix(X) for kind in graph.types_of(place)}
        for place, name in enumerate(graph.entities)
    }
    assert kinds.pop("julia") >= {"Student"}
    assert kinds == {"sachin": {"Person"}, "fargo": {"Film"}, blank: set()}
    persons = np.flatnonzero(graph.is_of_type(f"{X}Person"))
    assert {graph.entities[place].removeprefix(X) for place in persons} == {"julia", "sachin"}
    assert graph.labels is not None
    labels = {graph.entities[place].removeprefix(X): text for place, text in graph.labels.items()}
    assert labels == {"julia": "Julia A.", "sachin": "Sachin", "fargo": "Fargo (Film)"}
    assert data.notes == (
        "Taken as schema, not as facts: rdfs:subClassOf (1).",
        "2 literal values are kept for SPARQL over the facts: no model learns them.",
    )


def test_ids_follow_the_file_not_a_hash(tmp_path: Path) -> None:
    (tmp_path / "x.ttl").write_text("@prefix : <http://x/> .\n:z :r :y . :b :r :a . <c> :r [] .")
    names = list(whole(tmp_path / "x.ttl").train.entities)
    assert names == ["http://x/z", "http://x/y", "http://x/b", "http://x/a", "file:///c", "_:b1"]


def test_lines_as_the_standard_allows_them(tmp_path: Path) -> None:
    (tmp_path / "x.nt").write_text(
        "# a comment\n\n"
        "<http://x/a><http://x/r><http://x/b>.\n"
        "\t_:n.1 <http://x/r>   <http://x/caf\\u00E9> . # and one more\r\n"
        '<http://x/a> <http://www.w3.org/2000/01/rdf-schema#label> "caf\\u00e9 \\"A\\"\\n" .\n'
        '<http://x/a> <http://x/age> "3"^^<http://www.w3.org/2001/XMLSchema#int> .\n'
    )
    data = whole(tmp_path / "x.nt")
    assert data.train.decode(data.train.triples) == [
        ("http://x/a", "http://x/r", "http://x/b"),
        ("_:n.1", "http://x/r", "http://x/café"),
    ]
    assert data.train.labels == {0: 'café "A"\n'}
    assert len(data.notes) == 1


def test_a_taxonomy_without_types_is_a_graph(tmp_path: Path) -> None:
    (tmp_path / "x.ttl").write_text(
        "@prefix : <http://x/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
        ":cat a owl:Class . :mammal a owl:Class .\n"
        ":cat rdfs:subClassOf :mammal . :mammal rdfs:subClassOf :animal ."
    )
    data = whole(tmp_path / "x.ttl")
    assert data.train.num_triples == 2
    assert data.train.schema.relation_names == ("http://www.w3.org/2000/01/rdf-schema#subClassOf",)


def test_a_bad_literal_is_skipped_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "x.ttl").write_text(
        "@prefix : <http://x/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
        ':a :r :b ; :born "long ago"^^xsd:date .'
    )
    assert whole(tmp_path / "x.ttl").train.num_triples == 1
    assert caplog.text == ""


def test_a_folder_of_rdf_splits(tmp_path: Path) -> None:
    (tmp_path / "train.nt").write_text("<http://x/a> <http://x/r> <http://x/b> .\n")
    (tmp_path / "test.ttl").write_text("<http://x/b> <http://x/r> <http://x/a> .\n")
    data = load(tmp_path)
    assert data.valid is None
    assert data.test is not None
    assert data.test.triples.tolist() == [[1, 0, 0]]


LITERALS = st.builds(rdflib.Literal, st.text(st.characters(codec="utf-8")))
NODES = st.sampled_from([rdflib.URIRef(f"http://x/{name}") for name in "abé"])


@given(st.lists(st.tuples(NODES, NODES, NODES | LITERALS), min_size=1, max_size=8))
def test_ntriples_as_rdflib_writes_them(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[rdflib.URIRef, ...]]
) -> None:
    graph = rdflib.Graph()
    for row in rows:
        graph.add(row)  # type: ignore[arg-type]
    links = {tuple(map(str, row)) for row in graph if isinstance(row[2], rdflib.URIRef)}
    if links:
        data = whole(write(tmp_path_factory.mktemp("nt") / "x.nt", graph))
        assert set(data.train.decode(data.train.triples)) == links
        assert data.train.num_triples == len(links)


def test_relations_and_types_have_labels_in_the_language_that_is_wanted(tmp_path: Path) -> None:
    file = tmp_path / "films.ttl"
    file.write_text(
        "@prefix : <http://x/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        ':likes rdfs:label "likes"@en, "mag"@de-AT . :Film rdfs:label "film"@en, "Film"@de .\n'
        ':ann :likes :fargo ; rdfs:label "Ann" . :fargo a :Film ; rdfs:label "Fargo"@en .\n'
    )
    for lang, relation, kind in ((None, "likes", "film"), ("de", "mag", "Film")):
        graph = load(file, lang=lang).train
        assert [name.label for name in graph.schema.labelled_names] == [relation]
        assert graph.types_said(1) == [kind]
        assert [graph.name(place).label for place in range(2)] == ["Ann", "Fargo"]
