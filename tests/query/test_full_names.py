"""Names over the facts mean what they mean in a plain pattern: labels too, and nothing silently."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.query import Asker, Options
from knowledge_sheaves.query.full import Sparql, is_full
from knowledge_sheaves.serve.predicting import with_block

FACTS = [
    ("C:1", "CtD", "D:1"),
    ("C:2", "CtD", "D:1"),
    ("C:2", "CtD", "D:2"),
    ("C:1", "CpD", "D:2"),
    ("C:1", "CcSE", "S:1"),
    ("P:1", "bought", "C:1"),
]
KINDS = {"C": "Drug", "D": "Disease", "S": "Effect", "P": "Person"}
LABELS = {
    "C:1": "Salbutamol",
    "C:2": "Montelukast",
    "D:1": "asthma",
    "D:2": "fever",
    "S:1": "fever",
    "P:1": "Customer 12",
}
RELATIONS = {"CtD": "treats", "CpD": "palliates", "CcSE": "can cause"}


def made() -> Sparql:
    torch.manual_seed(0)
    types = {name: KINDS[name[0]] for fact in FACTS for name in (fact[0], fact[2])}
    graph = KnowledgeGraph.from_triples(
        FACTS, types=types, labels=LABELS, relation_labels=RELATIONS
    )
    model = SheafEmbedding(model_config("complex", dim=8), graph)
    return Sparql(Asker(model, Options(tau=1.0)))


@pytest.fixture(scope="module")
def sparql() -> Sparql:
    return made()


def rows(sparql: Sparql, text: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in sparql.run(text).rows()), key=str)


BY_LABEL = {
    "?x :treats ?y ; FILTER(true) ?x <can cause> :fever": "?x :CtD ?y . ?x :CcSE <S:1>",
    "?x :bought ?z ; { ?z :treats ?y }": "?x :bought ?z { ?z :CtD ?y }",
    "?x :bought ?z ; BIND(:treats AS ?r) ?z ?r ?y": "?x :bought ?z BIND(:CtD AS ?r) ?z ?r ?y",
    "?x (<can cause>) :fever": "?x :CcSE <S:1>",
    ":fever ^(<can cause>) ?x": "<S:1> ^:CcSE ?x",
    "?x (:bought/(<can cause>)) :fever": "?x :bought/:CcSE <S:1>",
    "VALUES (?y ?x) { (<Customer 12> :Salbutamol) } ?y :bought ?x": (
        "VALUES (?y ?x) { (<P:1> <C:1>) } ?y :bought ?x"
    ),
    "?x :treats :asthma": "?x :CtD <D:1>",
    "?x a :Drug ; :treats <asthma> , :fever .": "?x a :Drug ; :CtD <D:1> , <D:2> .",
    "?x :can\\ cause :fever": "?x :CcSE <S:1>",
    "?x <can cause> :fever": "?x :CcSE <S:1>",
    "?x <urn:name:treats> <urn:name:asthma>": "?x :CtD <D:1>",
    ":fever ^:can%20cause ?x": "<S:1> ^:CcSE ?x",
    ":Salbutamol :treats/^:treats ?x": "<C:1> :CtD/^:CtD ?x",
    "?x (:treats|<can cause>)+ ?y": "?x (:CtD|:CcSE)+ ?y",
    "<Customer 12> :bought ?x": "<P:1> :bought ?x",
    "<Customer 12> :bought/(<can cause>|:treats) ?x": "<P:1> :bought/(:CcSE|:CtD) ?x",
    "<Customer 12> :bought [ :treats ?x ]": "<P:1> :bought [ :CtD ?x ]",
    "?y :bought ?x FILTER(?y = <Customer 12>)": "?y :bought ?x FILTER(?y = <P:1>)",
    "VALUES ?y { <Customer 12> } ?y :bought ?x": "VALUES ?y { <P:1> } ?y :bought ?x",
    "?x ?r :asthma FILTER(?r IN (:treats, :bought))": "?x ?r <D:1> FILTER(?r = :CtD)",
    "?x ?r ?y FILTER NOT EXISTS { ?x :treats :fever }": (
        "?x ?r ?y FILTER NOT EXISTS { ?x :CtD <D:2> }"
    ),
    "{ SELECT ?x (IF(true, :asthma, 1) AS ?y) { ?x :treats ?z } }": (
        "{ SELECT ?x (<D:1> AS ?y) { ?x :CtD ?z } }"
    ),
    "?x :bought ?z BIND(ks:probability(?z, :palliates, :asthma) AS ?y)": (
        "?x :bought ?z BIND(ks:probability(?z, :CpD, <D:1>) AS ?y)"
    ),
    "?x :CpD ?z BIND(ks:probability(:Salbutamol, <can cause>, :fever) AS ?y)": (
        "?x :CpD ?z BIND(ks:probability(<C:1>, :CcSE, <S:1>) AS ?y)"
    ),
}


@pytest.mark.parametrize("pattern", BY_LABEL)
def test_a_label_is_a_name(sparql: Sparql, pattern: str) -> None:
    text = "SELECT * { %s }"
    expected = sparql.run(text % BY_LABEL[pattern])
    assert expected
    found = sparql.run(text % pattern)
    assert sorted(map(str, found.rows())) == sorted(map(str, expected.rows()))
    assert not found.notes


def test_every_form_and_blocks_take_labels(sparql: Sparql) -> None:
    assert sparql.run("ASK { :Salbutamol :treats :asthma }", facts_only=True)
    assert rows(sparql, "SELECT (COUNT(*) AS ?n) { ?x :treats :asthma }") == [(2,)]
    assert sparql.run("DESCRIBE :asthma")
    built = sparql.run("CONSTRUCT { ?x :cures ?y ; :treats ?y } WHERE { ?x :treats ?y }")
    assert {str(triple[1]) for triple in built} == {"<urn:name:cures>", "<urn:name:CtD>"}
    text = """SELECT ?x ?y { ?x :treats :asthma
        SERVICE ks:predict { ?x :palliates ?y . ks:answers ks:top 1 } }"""
    assert rows(sparql, text) == rows(sparql, text.replace(":treats", ":CtD"))
    assert len(rows(sparql, text)) == 2


UNKNOWN = {
    "SELECT * { ?x (:treats|<can cose>) ?y }": "did you mean 'can cause' (CcSE)?",
    "DESCRIBE :Salbutamol :astma": "did you mean 'asthma' (D:1)?",
    "SELECT * { ?x :treets :asthma }": "no relation 'treets'; did you mean 'treats' (CtD)?",
    "SELECT * { ?x :price ?p }": "There is no relation 'price'",
    "SELECT * { ?x :treats|:cures ?p }": "There is no relation 'cures'",
    "SELECT * { ?x :asthma ?p }": "There is no relation 'asthma'",
    "SELECT * { ?x :CtD :nonsense }": "No entity has the name or label 'nonsense'.",
    "SELECT * { <Customer 13> :bought ?y }": "did you mean 'Customer 12' (P:1)?",
    "SELECT * { ?x :treats :astma }": "did you mean 'asthma' (D:1)?",
    "SELECT * { ?x a :Drog }": "Unknown type 'Drog'; did you mean 'Drug'?",
    "SELECT * { ?x ?p :fever }": "2 entities have the label 'fever'",
    "DESCRIBE :astma": "did you mean 'asthma' (D:1)?",
    "SELECT * { GRAPH :g { ?s ?p ?o } }": "The model has no graph 'g'.",
    "SELECT * { ?x ?r ?y FILTER(ks:probability(?x, :treets, ?y) > 0) }": "no relation 'treets'",
}


@pytest.mark.parametrize("text", UNKNOWN)
def test_what_nobody_is_called_is_refused(sparql: Sparql, text: str) -> None:
    with pytest.raises(InputError) as refusal:
        sparql.run(text, facts_only="ks:" not in text)
    assert UNKNOWN[text] in str(refusal.value)


def test_elsewhere_it_is_no_fact_and_a_note_says_so(sparql: Sparql) -> None:
    found = sparql.run("ASK { ?x :treets :asthma }")
    assert not found
    assert found.notes == ("No single thing in the model is called 'treets'.",)


def test_programs_may_ask_for_names_that_are_not_there(sparql: Sparql) -> None:
    """A whole IRI, and a row of VALUES, may come from another store: a note says so."""
    found = sparql.run("SELECT * { <urn:name:Nobody> :treats ?y }", facts_only=True)
    assert not found
    assert found.notes == ("No single thing in the model is called 'Nobody'.",)
    rows_of = "SELECT * { VALUES ?x { :Nobody :Salbutamol } ?x :treats ?y }"
    found = sparql.run(rows_of, facts_only=True)
    assert rows(sparql, "SELECT ?y { VALUES ?x { :Nobody <C:1> } ?x :treats ?y }") == [("D:1",)]
    assert found.notes == ("No single thing in the model is called 'Nobody'.",)
    many = " ".join(f":N{number}" for number in range(2_000))
    (note,) = sparql.run(f"ASK {{ VALUES ?x {{ {many} }} ?x :treats ?y }}").notes
    assert note.endswith("'N4' and 1,995 more.")
    assert not sparql.run("SELECT * { <http://example.org/x> ?p ?o }").notes
    built = "CONSTRUCT { ?x :is :here } WHERE { ?x :treats ?y }"
    assert not sparql.run(built, facts_only=True).notes


def test_names_beside_the_facts_are_known(tmp_path: Path) -> None:
    """Properties of literals and graphs are neither relations nor entities."""
    file = tmp_path / "graph.nq"
    name = "http://www.w3.org/2000/01/rdf-schema#label"
    file.write_text(
        "<urn:name:a> <urn:name:r> <urn:name:b> <urn:name:g> .\n"
        '<urn:name:a> <urn:name:price> "5" .\n'
        f'<urn:name:b> <{name}> "price" .\n',
        encoding="utf-8",
    )
    data = load(file)
    model = SheafEmbedding(model_config("complex", dim=4), data.train)
    model.info = ModelInfo.of(data)
    sparql = Sparql(Asker(model))
    for text in ("?x :price ?p", "GRAPH :g { ?s ?p ?o }", "?x :r <price>"):
        found = sparql.run(f"ASK {{ {text} }}", facts_only=True)
        assert found
        assert not found.notes


def test_a_name_of_an_entity_goes_before_labels() -> None:
    graph = KnowledgeGraph.from_triples([("a", "r", "b")], labels={"a": "b"})
    model = SheafEmbedding(model_config("complex", dim=4), graph)
    assert Sparql(Asker(model)).run("ASK { ?x :r :b }")


def test_a_label_has_its_signs_in_comparisons_too(sparql: Sparql) -> None:
    text = "SELECT ?a { VALUES (?a ?b ?c) { (1 2 3) (3 2 1) } FILTER(?a <?b && ?c> ?b) }"
    assert rows(sparql, text) == [(1,)]


def test_a_block_with_too_much_around_it_names_the_cure(
    sparql: Sparql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowledge_sheaves.query.full.predictions.MOST_BINDINGS", 1)
    text = """SELECT ?x ?n { SERVICE ks:predict { ?x :treats :asthma . ks:answers ks:top 2 }
        %s }"""
    with pytest.raises(InputError, match=r"OPTIONAL \{ … \}"):
        sparql.run(text % "?x :CtD ?n")
    found = rows(sparql, text % "OPTIONAL { ?x :CtD ?n }")
    assert [str(name) for _, name in found] == ["D:1", "D:1", "D:2"]


def test_a_probability_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = "SELECT ?p { ?x :palliates ?y BIND(ks:probability(?x, :treats, :asthma) AS ?p) }"
        assert rows(made(), text)


def test_relative_iris_are_what_the_base_makes_of_them(sparql: Sparql) -> None:
    text = "BASE <http://ex/> SELECT ?x { ?x <urn:name:treats> <asthma> }"
    assert rows(sparql, text) == []
    assert len(rows(sparql, text.replace("<asthma>", ":asthma"))) == 2


@pytest.mark.parametrize("facts_only", [True, False])
def test_labels_may_hold_words_and_quotes_of_sparql(facts_only: bool) -> None:
    labels = {"a": "Customer Service", "b": "Alzheimer's disease"}
    graph = KnowledgeGraph.from_triples([("a", "has", "b")], labels=labels)
    engine = Sparql(Asker(SheafEmbedding(model_config("complex", dim=4), graph), Options(tau=1.0)))
    for text in (
        "SELECT ?y { ?y :has ?z FILTER(?y = <Customer Service>) }",
        "SELECT ?y { ?y :has ?z FILTER(?z IN (<Alzheimer's disease>, <Alzheimer's>)) }",
    ):
        assert not is_full(text)
        found = engine.run(text, facts_only=facts_only)
        assert [row["?y"] for row in found.rows()] == ["a"]
    asked = """SELECT ?z { ?y ?p ?z FILTER(?z = <Alzheimer's disease>)
        SERVICE ks:predict { ?y :has ?x } FILTER(?x != 'q') }"""
    assert is_full(asked)
    with pytest.raises(InputError, match="the facts only"):
        engine.run(asked, facts_only=True)
    assert not is_full("SELECT ?x { :a (<customer service>|:bought) ?x }")


@pytest.mark.parametrize(
    "pattern", ["?x :treats ?y FILTER(?y = <Nobody Here>)", "VALUES (?y) { (<Nobody Here>) }"]
)
def test_a_name_of_several_words_that_nobody_has_is_noted(sparql: Sparql, pattern: str) -> None:
    found = sparql.run(f"SELECT ?x {{ ?x :bought ?z . {pattern} ?x :treats ?y }}")
    assert list(found.rows()) == []
    assert found.notes == ("No single thing in the model is called 'Nobody Here'.",)


def test_long_names_are_cut_in_notes(sparql: Sparql) -> None:
    (note,) = sparql.run(f"ASK {{ ?x ?p :{'a' * 5_000} }}").notes
    assert len(note) < 200


def test_comparisons_without_blanks_are_no_names(sparql: Sparql) -> None:
    frame = "SELECT ?a { VALUES (?a ?b) { (1 9) (6 9) (1 2) } %s }"
    for condition in (
        "FILTER(?a<5&&?b>3)",
        "FILTER((?a<5)&&(?b>3))",
        "FILTER(IF(?a<5&&?b>3, true, false))",
        "{ SELECT ?a ?b (?a<5&&?b>3 AS ?c) { VALUES (?a ?b) { (1 9) (6 9) } } } FILTER(?c)",
    ):
        assert rows(sparql, frame % condition) == [(1,)], condition


def test_where_an_entity_stands_its_label_goes_before_a_type_of_that_name() -> None:
    facts = [("P1", "likes", "F1"), ("P1", "likes", "F2")]
    types = {"P1": "Person", "F1": "Film", "F2": "Film"}
    graph = KnowledgeGraph.from_triples(facts, types=types, labels={"F1": "Film"})
    engine = Sparql(Asker(SheafEmbedding(model_config("complex", dim=4), graph), Options(tau=1.0)))
    assert rows(engine, "SELECT ?x { ?x :likes :Film }") == [("P1",)]
    assert len(rows(engine, "SELECT ?x { ?x a :Film }")) == 2


def test_a_label_of_a_blank_node_is_said_to_be_one(tmp_path: Path) -> None:
    file = tmp_path / "blank.nt"
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    file.write_text(f'<urn:name:a> <urn:name:r> _:bb .\n_:bb {label} "Box" .\n')
    data = load(file)
    model = SheafEmbedding(model_config("complex", dim=4), data.train)
    model.info = ModelInfo.of(data)
    engine = Sparql(Asker(model, Options(tau=1.0)))
    assert engine.run("ASK { ?x :r :Box }").notes == (
        "No single thing in the model is called 'Box'.",
    )
    with pytest.raises(InputError, match="'Box' is a blank node"):
        engine.run("ASK { ?x :r :Box }", facts_only=True)


def test_types_of_literals_in_lists_are_no_entities(sparql: Sparql) -> None:
    assert not sparql.run('ASK { ?x :treats ( "5"^^:int ) }', facts_only=True)


@pytest.mark.parametrize("name", [":a%FF", "<urn:name:a%FF>", "<a%FF b>"])
def test_what_is_no_text_is_nobodys_name(sparql: Sparql, name: str) -> None:
    found = sparql.run(f"ASK {{ {name} ?p ?o }}")
    assert not found
    assert "a%FF" in found.notes[0]


def test_a_block_without_braces_is_refused(sparql: Sparql) -> None:
    with pytest.raises(InputError, match="in braces"):
        sparql.run("SELECT * { SERVICE ks:predict ?x :palliates ?z . }")


def test_what_types_rule_out_has_probability_0_from_both_ends(sparql: Sparql) -> None:
    graph = sparql.asker.graph
    shared = Sparql(Asker(SheafEmbedding(model_config("complex", dim=4), graph), Options(tau=1.0)))
    for fact in ("<P:1>, :CtD, <D:1>", "<C:1>, :CtD, <P:1>"):
        text = f"SELECT ?p {{ BIND(ks:probability({fact}) AS ?p) }}"
        assert rows(shared, text) == [(0.0,)], fact


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Sparql:
    file = tmp_path_factory.mktemp("priced") / "shop.ttl"
    file.write_text(
        "@prefix s: <http://s/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        's:price rdfs:label "price"@en , "Preis"@de .\n'
        's:p s:bought s:x , s:y . s:q s:bought s:x . s:x s:price 5 ; rdfs:label "Lens" .\n'
        's:y s:price 7 . s:x s:year "2020" .\n',
        encoding="utf-8",
    )
    data = load(file)
    model = SheafEmbedding(model_config("complex", dim=4), data.train)
    model.info = ModelInfo.of(data)
    return Sparql(Asker(model, Options(tau=1.0)))


@pytest.mark.parametrize("name", ["<price>", ":Preis", "<http://s/price>"])
def test_labels_of_what_gives_values_are_names(priced: Sparql, name: str) -> None:
    found = priced.run(f"SELECT ?p {{ <Lens> {name} ?p }}", facts_only=True)
    assert [row["?p"] for row in found.rows()] == [5]
    assert not found.notes


def test_labels_of_answers_are_looked_up_after_the_block(
    priced: Sparql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowledge_sheaves.query.full.predictions.MOST_BINDINGS", 0)
    block = "SERVICE ks:predict { <http://s/q> <http://s/bought> ?x . ks:answers ks:top 5 }"
    with pytest.raises(InputError, match="asked"):
        priced.run(f"SELECT * {{ {block} ?x <http://s/year> ?y }}")
    monkeypatch.setattr("knowledge_sheaves.query.full.predictions.MOST_BINDINGS", 1)
    found = priced.run(f"SELECT ?l {{ {block} ?x rdfs:label ?l }}")
    assert [row["?l"] for row in found.rows()] == ["Lens"]


@pytest.mark.parametrize("told", ["?x rdfs:label ?l", "?x <http://s/year> ?l", "?x <price> ?l"])
def test_values_stay_out_of_what_is_predicted(priced: Sparql, told: str) -> None:
    text = f"SELECT ?x ?l {{ <http://s/q> <http://s/bought> ?x . {told} }}"
    written = with_block(text, priced.facts, 5)
    assert written.partition("SERVICE")[2].count("?l") == 1
    found = {row["?x"]: row["?l"] for row in priced.run(written).rows()}
    assert found["http://s/x"] in ("Lens", "2020", 5)


LABELLED = "SERVICE ks:predict { ?x :palliates ?y . ks:answers ks:top 1 } ?x rdfs:label ?l"


@pytest.mark.parametrize(
    "text",
    [
        f"{{ {LABELLED} FILTER(?l = 'Montelukast') }}",
        f"{{ VALUES ?l {{ 'Montelukast' }} {LABELLED} }}",
        f"{{ {LABELLED} . ?z rdfs:label ?l . ?z :treats ?d }}",
    ],
)
def test_a_label_that_says_who_is_meant_is_handed_in(sparql: Sparql, text: str) -> None:
    assert "Montelukast" in {str(row[0]) for row in rows(sparql, f"SELECT ?l {text}")}


@pytest.mark.parametrize("verb", ["?p", "a", "rdf:type"])
def test_a_type_is_asked_of_the_sheaf_and_labels_are_not(sparql: Sparql, verb: str) -> None:
    text = f"SELECT ?x ?l {{ ?x {verb} :Drug . ?x :treats :asthma . ?x rdfs:label ?l }}"
    block, _, rest = with_block(text, sparql.facts, 3).partition("SERVICE")[2].partition("}")
    assert ":Drug" in block.replace("urn:name", "")
    assert "?l" not in block
    assert "?l" in rest


def test_a_name_in_a_template_is_whatever_is_wanted() -> None:
    schema = Schema.single(["bought"]).saying({"boughtBy": {"inverse_of": "bought"}})
    graph = KnowledgeGraph.from_triples([("Ann", "bought", "Lens")], schema=schema)
    engine = Sparql(Asker(SheafEmbedding(model_config("complex", dim=4), graph), Options(tau=1.0)))
    text = "CONSTRUCT { ?x :boughtBy ?y } WHERE { ?y :bought ?x }"
    found = engine.run(text, facts_only=True)
    assert [str(triple[1]) for triple in found] == ["<urn:name:boughtBy>"]
    assert not found.notes


@pytest.mark.parametrize(
    "pattern",
    [
        "?x :treats ?y BIND(<<( ?x <urn:name:CtD> ?y )>> AS ?t)",
        "?x :treats ?y OPTIONAL { ?x <http://p> (true (1 <http://b>)) }",
    ],
)
def test_iris_stand_in_lists_and_quoted_triples(sparql: Sparql, pattern: str) -> None:
    assert len(rows(sparql, f"SELECT ?x ?y {{ {pattern} }}")) == 3


def test_a_base_may_have_any_scheme(sparql: Sparql) -> None:
    assert rows(sparql, "BASE <urn:name:> SELECT ?x { ?x <treats> ?y }") == []
