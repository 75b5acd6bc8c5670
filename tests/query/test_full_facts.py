"""SPARQL 1.1 over facts, types, labels and literals: what rdflib gives on the same file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pytest
import rdflib
import torch

import full_cases
from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, model_config
from knowledge_sheaves.embedding.check import check_model
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.query import Asker, Options
from knowledge_sheaves.query.full import Sparql

GRAPHS, QUERIES = 3, 100


def sparql_of(file: Path) -> Sparql:
    torch.manual_seed(0)
    data = load(file)
    model = SheafEmbedding(model_config("complex", dim=4), data.train)
    model.info = ModelInfo.of(data)
    return Sparql(Asker(model))


@pytest.fixture(scope="module", params=range(GRAPHS))
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, rdflib.Graph, Sparql]:
    graph = full_cases.random_rdf(request.param)
    file = tmp_path_factory.mktemp("rdf") / "graph.nt"
    graph.serialize(file, format="nt", encoding="utf-8")
    return request.param, graph, sparql_of(file)


def test_the_store_holds_what_the_file_says(case: tuple[int, rdflib.Graph, Sparql]) -> None:
    _, graph, sparql = case
    everything = "SELECT ?s ?p ?o { ?s ?p ?o }"
    result = sparql.run(everything)
    assert full_cases.by_us(result) == full_cases.by_rdflib(everything, graph, result.variables)


@pytest.mark.parametrize("number", range(QUERIES))
def test_queries_give_what_rdflib_gives(
    case: tuple[int, rdflib.Graph, Sparql], number: int
) -> None:
    seed, graph, sparql = case
    text = full_cases.Writer(1000 * seed + number).text()
    result = sparql.run(text, facts_only=True)
    ours = full_cases.by_us(result)
    theirs = full_cases.by_rdflib(full_cases.for_rdflib(text), graph, result.variables)
    if full_cases.by_sets(text):
        assert isinstance(ours, Counter)
        assert isinstance(theirs, Counter)
        ours, theirs = set(ours), set(theirs)
    assert ours == theirs, text


def test_a_path_by_star_has_every_end_once(tmp_path: Path) -> None:
    sparql = written(tmp_path, "graph.nt", "<urn:a> <urn:r> <urn:b> .\n<urn:b> <urn:r> <urn:a> .\n")
    found = sparql.run("SELECT ?x { <urn:a> <urn:r>* ?x }")
    assert sorted(row["?x"] for row in found.rows()) == ["urn:a", "urn:b"]


def written(folder: Path, name: str, text: str) -> Sparql:
    (folder / name).write_text(text, encoding="utf-8")
    return sparql_of(folder / name)


QUADS = """
<urn:a> <urn:knows> <urn:b> <urn:g1> .
<urn:b> <urn:knows> <urn:c> .
<urn:a> <urn:born> "1990"^^<http://www.w3.org/2001/XMLSchema#gYear> <urn:g1> .
<urn:b> <urn:name> "B\\u00e9a \\"x\\"\\n"@fr-BE <urn:g2> .
<urn:c> <http://www.w3.org/2000/01/rdf-schema#label> "Cy"@en .
_:n <urn:knows> <urn:a> _:g .
"""


def test_names_of_graphs_languages_and_datatypes_are_kept(tmp_path: Path) -> None:
    sparql = written(tmp_path, "graph.nq", QUADS)

    def rows(text: str) -> list[tuple[object, ...]]:
        return sorted(tuple(row.values()) for row in sparql.run(text).rows())

    assert rows("SELECT ?g ?s { GRAPH ?g { ?s <urn:knows> ?o } FILTER isIRI(?g) }") == [
        ("urn:g1", "urn:a")
    ]
    assert rows("SELECT (COUNT(*) AS ?n) { ?s <urn:knows> ?o }") == [(3,)]
    assert rows("SELECT ?s FROM <urn:g1> { ?s <urn:knows> ?o }") == [("urn:a",)]
    assert rows("SELECT ?t (LANG(?t) AS ?l) { ?s <urn:name> ?t }") == [('Béa "x"\n', "fr-be")]
    assert rows("SELECT (DATATYPE(?t) AS ?d) { ?s <urn:born> ?t }") == [
        ("http://www.w3.org/2001/XMLSchema#gYear",)
    ]
    assert rows("SELECT ?l { <urn:c> rdfs:label ?l }") == [("Cy",)]
    block = "SELECT ?s ?x { GRAPH <urn:g1> { ?s <urn:born> ?y SERVICE ks:predict { "
    block += "?s <urn:knows> ?x . ks:answers ks:top 1 } } }"
    assert rows(block) == [("urn:a", "urn:b")]


def test_every_form_of_rdf_keeps_its_literals(tmp_path: Path) -> None:
    graph = full_cases.random_rdf(5)
    for form, name in (("turtle", "g.ttl"), ("xml", "g.rdf"), ("json-ld", "g.jsonld")):
        graph.serialize(tmp_path / name, format=form, encoding="utf-8")
        result = sparql_of(tmp_path / name).run("SELECT ?s ?p ?o { ?s ?p ?o }")
        theirs = full_cases.by_rdflib("SELECT * { ?s ?p ?o }", graph, result.variables)
        assert full_cases.by_us(result) == theirs


def test_statements_go_with_a_model_and_are_sealed(tmp_path: Path) -> None:
    sparql = written(tmp_path, "graph.nq", QUADS)
    place, other = tmp_path / "model", tmp_path / "other"
    sparql.asker.model.save(place)
    loaded = SheafEmbedding.load(place)
    loaded.save(other)
    text = "SELECT ?g ?s ?p ?o { { GRAPH ?g { ?s ?p ?o } } UNION { ?s ?p ?o } }"
    expected = full_cases.by_us(sparql.run(text))
    for model in (loaded, SheafEmbedding.load(other)):
        assert full_cases.by_us(Sparql(Asker(model)).run(text)) == expected
    assert [f.problem for f in check_model(place)] == [None] * 6
    file = place / "statements.parquet"
    file.write_bytes(file.read_bytes()[:-9] + b"123456789")
    assert any("statements.parquet was changed" in (f.problem or "") for f in check_model(place))
    with pytest.raises(InputError, match=r"statements\.parquet was changed"):
        Sparql(Asker(SheafEmbedding.load(place)))


def test_facts_of_test_are_no_facts_where_training_alone_is_known(tmp_path: Path) -> None:
    folder = tmp_path / "split"
    folder.mkdir()
    (folder / "train.nq").write_text(QUADS, encoding="utf-8")
    (folder / "test.nq").write_text("<urn:c> <urn:knows> <urn:a> <urn:g3> .\n", encoding="utf-8")
    model = sparql_of(folder).asker.model
    text = "ASK { { <urn:c> ?p <urn:a> } UNION { GRAPH ?g { <urn:c> ?p <urn:a> } } }"
    assert Sparql(Asker(model)).run(text)
    assert not Sparql(Asker(model, Options(known="train"))).run(text)


def test_the_index_of_a_large_model_is_kept_and_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowledge_sheaves.query.full.store.LARGE", 1)
    first = written(tmp_path, "graph.nq", QUADS)
    text = "SELECT ?s ?p ?o { ?s ?p ?o }"
    expected = full_cases.by_us(first.run(text))
    place = tmp_path / "model"
    first.asker.model.save(place)
    for _ in range(2):
        assert full_cases.by_us(Sparql.load(place).run(text)) == expected
    made = (place / "index" / "of.txt").read_text(encoding="utf-8")
    assert not any(finding.problem for finding in check_model(place))
    # Another model takes its place: the index goes with the old one.
    other = written(tmp_path, "other.nt", "<urn:x> <urn:r> <urn:y> .\n")
    other.asker.model.save(place)
    assert not (place / "index").exists()
    assert [tuple(row.values()) for row in Sparql.load(place).run(text).rows()] == [
        ("urn:x", "urn:r", "urn:y")
    ]
    assert (place / "index" / "of.txt").read_text(encoding="utf-8") != made


def test_odd_literals_are_kept_as_far_as_rdf_takes_them(tmp_path: Path) -> None:
    text = '<urn:a> <urn:r> <urn:b> .\n<urn:a> <urn:n> "x"@1-toolonglanguage .\n'
    text += '<urn:a> <urn:n> "y"^^<no-scheme> .\n'
    sparql = written(tmp_path, "graph.nt", text)
    found = [row["?o"] for row in sparql.run("SELECT ?o { <urn:a> <urn:n> ?o }").rows()]
    assert sorted(found) == ["x", "y"]


def test_a_file_of_statements_that_is_none_is_refused(tmp_path: Path) -> None:
    place, file = tmp_path / "model", tmp_path / "model" / "statements.parquet"
    for number, columns in enumerate(({"subject": ["a"]}, {"subject": [1], "predicate": ["r"]})):
        model = written(tmp_path, f"{number}.nq", QUADS).asker.model
        assert model.info is not None
        model.info.statements = pl.DataFrame(columns)
        model.save(place)
        with pytest.raises(InputError, match=f"{file.name} cannot be understood"):
            Sparql.load(place)
    file.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="was changed"):
        Sparql.load(place)
