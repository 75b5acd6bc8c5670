"""Full SPARQL: facts by Oxigraph, blocks by the sheaf, and nothing that reaches outside."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress

import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query import Asker, Budget, Options
from knowledge_sheaves.query.budget import OutOfBudget
from knowledge_sheaves.query.full import Sparql, is_full
from knowledge_sheaves.query.jsonl import Question, answer_questions

FACTS = [
    ("Ann", "knows", "Bob"),
    ("Ann", "knows", "Cy"),
    ("Bob", "likes", "Fargo"),
    ("Cy", "likes", "Star Wars"),
    ("_:b1", "likes", "Fargo"),
    ("http://example.org/Dee", "knows", "_:b1"),
]


def asker_of(facts: list[tuple[str, str, str]], **options: object) -> Asker:
    torch.manual_seed(0)
    graph = KnowledgeGraph.from_triples(facts, labels={"Cy": "Cyrus"})
    model = SheafEmbedding(model_config("complex", dim=8), graph)
    return Asker(model, Options(tau=1.0, **options))


@pytest.fixture(scope="module")
def sparql() -> Sparql:
    return Sparql(asker_of(FACTS))


def rows(sparql: Sparql, text: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in sparql.run(text).rows())


def test_names_of_every_kind_are_found_and_come_back(sparql: Sparql) -> None:
    text = "SELECT ?o { ?s :likes ?o }"
    assert rows(sparql, text) == [("Fargo",), ("Fargo",), ("Star Wars",)]
    for name in (":Star\\ Wars", "<Star Wars>", ":Star%20Wars", "<urn:name:Star%20Wars>"):
        assert rows(sparql, f"SELECT ?s {{ ?s :likes {name} }}") == [("Cy",)]
    prefixed = "PREFIX ex: <http://example.org/> SELECT ?o { ex:Dee :knows ?o }"
    assert rows(sparql, prefixed) == [("_:b1",)]
    based = "BASE <http://example.org/> SELECT ?o { <Dee> <urn:name:knows> ?o FILTER isBlank(?o) }"
    assert rows(sparql, based) == [("_:b1",)]
    assert rows(sparql, 'SELECT ?s { ?s rdfs:label "Cyrus" }') == [("Cy",)]


def test_signs_of_comparison_are_no_names(sparql: Sparql) -> None:
    text = "SELECT ?a { VALUES (?a ?b ?c) { (1 2 3) (3 2 1) } FILTER(?a <?b && ?c> ?b) }"
    assert rows(sparql, text) == [(1,)]
    assert rows(sparql, text.replace(" && ", "&&").replace("?a <", "?a<")) == [(1,)]


def test_a_block_is_asked_for_each_value_around_it(sparql: Sparql) -> None:
    text = """SELECT ?y ?x ?p { :Ann :knows ?y
        SERVICE ks:predict { ?y :likes ?x . ?x ks:probability ?p . ks:answers ks:top 2 } }"""
    by_hand = []
    for name in ("Bob", "Cy"):
        answers = sparql.asker.answer(f"SELECT ?x {{ :{name} :likes ?x }}", top=2)
        by_hand += [(name, answer.names[0], answer.probability) for answer in answers]
    assert rows(sparql, text) == sorted(by_hand)


def test_a_block_binds_what_the_model_says_of_an_answer(sparql: Sparql) -> None:
    text = """SELECT * { SERVICE ks:predict { :Ann :knows ?x ;  ks:answers ks:top 1 } }"""
    with pytest.raises(InputError, match="ks:answers"):
        sparql.run(text)
    text = """SELECT * { SERVICE ks:predict {
        :Ann :knows ?x . ?x ks:probability ?p ; ks:energy ?e ; ks:rank ?n ; ks:known ?k .
        ?x ks:reason ?r . ks:answers ks:top 2 ; ks:solver "chaining" } }"""
    answers = sparql.asker.answer("SELECT ?x { :Ann :knows ?x }", top=2, explain=True)
    by_hand = sorted(
        (a.names[0], a.probability, a.energy, a.rank, a.known, str(reason))
        for a, reason in zip(answers, answers.explanation or (), strict=True)
    )
    found = sparql.run(text).rows()
    names = ("?x", "?p", "?e", "?n", "?k", "?r")
    assert sorted(tuple(row[name] for name in names) for row in found) == by_hand


def test_blank_nodes_go_into_blocks_and_come_out(sparql: Sparql) -> None:
    text = """SELECT ?y ?x { <http://example.org/Dee> :knows ?y
        SERVICE ks:predict { ?y :likes ?x . ks:answers ks:top 1 } ?y :likes ?z }"""
    assert rows(sparql, text) == [("_:b1", "Fargo")]
    new = """SELECT ?x { SERVICE ks:predict { ?x :likes :Fargo . ks:answers ks:top 2 }
        ?x :likes :Fargo }"""
    assert rows(sparql, new) == [("Bob",), ("_:b1",)]


def test_new_answers_only(sparql: Sparql) -> None:
    text = """SELECT ?x { SERVICE ks:predict { :Ann :knows ?x . ks:answers ks:new true ;
        ks:top 3 } }"""
    answers = sparql.asker.answer("SELECT ?x { :Ann :knows ?x }", top=3, new=True)
    assert rows(sparql, text) == sorted((answer.names[0],) for answer in answers)


def test_a_block_without_targets_holds_or_not(sparql: Sparql) -> None:
    assert sparql.run("ASK { SERVICE ks:predict { :Ann :knows :Bob } }")
    assert not sparql.run("ASK { SERVICE ks:predict { :Bob :knows <Star Wars> } }")
    text = """SELECT ?p ?k { SERVICE ks:predict { :Bob :knows <Star Wars> .
        ks:answers ks:probability ?p ; ks:known ?k } }"""
    (row,) = sparql.run(text).rows()
    chance = sparql.asker.decide("ASK { :Bob :knows <Star Wars> }").probability
    assert row == {"?p": chance, "?k": False}


def test_literals_and_strangers_are_never_handed_to_a_model(sparql: Sparql) -> None:
    text = """SELECT ?y ?x { VALUES ?y { "Ann" <urn:stranger> :Bob 7 }
        SERVICE ks:predict { ?y :likes ?x . ks:answers ks:top 1 } }"""
    assert rows(sparql, text) == [("Bob", "Fargo")]


def test_the_function_scores_single_facts(sparql: Sparql) -> None:
    text = """SELECT ?x ?p { ?x :likes ?y BIND(ks:probability(:Ann, :knows, ?x) AS ?p)
        FILTER(ks:probability(?x, :likes, ?y) > 0.9) }"""
    found = dict(rows(sparql, text))
    assert found["Bob"] == found["Cy"] == 1.0
    chance = sparql.asker.decide("ASK { :Ann :knows <_:b1> }").probability
    assert found["_:b1"] == pytest.approx(chance)
    assert is_full(text)


BEHIND = (
    "OPTIONAL { ?x rdfs:label ?name }",
    "BIND(STR(?x) AS ?text)",
    "MINUS { ?x :likes :Nothing }",
    "FILTER(?p >= 0)",
    "FILTER EXISTS { ?x ?r ?z }",
)


@pytest.mark.parametrize("part", BEHIND)
def test_what_stands_behind_a_block_does_not_change_what_is_asked(
    sparql: Sparql, part: str
) -> None:
    """Its conditions hold for the block's answers, and none of them is a value to ask it for."""
    block = """SERVICE ks:predict { :Ann :knows ?x . ?x ks:probability ?p . ks:answers ks:top 2 }"""
    plain = rows(sparql, f"SELECT ?x ?p {{ {block} }}")
    assert rows(sparql, f"SELECT ?x ?p {{ {block} {part} }}") == plain
    around = f"SELECT ?x ?p {{ :Ann :knows ?y . {{ {block} }} {part} }}"
    assert rows(sparql, around) == sorted(plain * 2)


REFUSED = {
    "SELECT * { ?s ?p ?o\n SERVICE <http://localhost:9/> { ?s ?p ?o } }": "line 2, column 2",
    "SELECT * { SERVICE SILENT <file:///etc/passwd> { ?s ?p ?o } }": "column 12",
    "SELECT * { SERVICE ?where { ?s ?p ?o } }": "column 12",
    "PREFIX e: <http://localhost:9/> ASK { SERVICEe:x { ?s ?p ?o } }": "'SERVICEe' (line 1",
    "ASK { SERVICESILENT<http://localhost:9/> { ?s ?p ?o } }": "'SERVICESILENT' (line 1",
    "ASK { \\u0053ERVICE <http://localhost:9/> { ?s ?p ?o } }": "backslash (line 1, column 7)",
    "LOAD <file:///etc/passwd>": "LOAD (line 1, column 1)",
    "PREFIX a: <urn:a> INSERT DATA { a:a a:b a:c }": "INSERT (line 1, column 19)",
    "SELECT * FROM <file:///etc/passwd> { ?s ?p ?o }": "FROM at line 1, column 10",
    "SELECT * FROM NAMED <http://localhost:9/> { ?s ?p ?o }": "FROM at line 1, column 10",
    "SELECT * {\n ?s ?p }": "line 2, column",
    "SELECT * { ?s ?p ?o": "not closed",
    "ASK { ?s ?p <urn:a\\u003e> }": "line 1, column 13) is no IRI",
    "ASK { ?s ?p <urn:a\\UFFFFFFFF> }": "stands for no character",
    "ASK { ?s <urn:a>(1) ?o }": "This is not SPARQL",
    "ASK { FILTER(<urn:f>(1)) }": "custom function <urn:f>",
    "SELECT * { ?s x:p ?o }": "'x' (line 1, column 15) is not declared",
    "SELECT * { SERVICE ks:predict { ?s :knwos ?o } }": "did you mean 'knows'",
    "SELECT * { SERVICE ks:predict { ?s :knows ?o\n OPTIONAL { ?o :likes ?x } } }": "line 2, ",
    "SELECT * { SERVICE ks:predict { ?s :knows ?o . ?o ks:probabilty ?p } }": "column 51",
    "SELECT * { SERVICE ks:predict { ?s :knows ?o . ks:answers ks:top 0 } }": "from 1 to",
    "SELECT * { SERVICE ks:predict { ?s :knows ?o . SERVICE ks:predict { ?s :a ?o } } }": "within",
    "SELECT * { SERVICE ks:predict { ?s :knows ?o . { ?o ks:rank ?p } } }": "inner braces",
    "ASK " + "{" * 200 + "}" * 200: "nests more than 100",
    "ASK { FILTER(" + "!" * 200 + "true) }": "nests more than 100",
    "ASK { " + "?s ?p ?o . " * 200 + "}": "more than 100",
    "ASK { FILTER(" + "true || " * 3000 + "true) }": "more than 2,000",
    "ASK { ?s ?p '" + "x" * 1_000_000 + "' }": "more than 100,000",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:60])
def test_what_is_refused_is_refused_with_its_place(sparql: Sparql, text: str) -> None:
    with pytest.raises(InputError) as refusal:
        sparql.run(text)
    assert REFUSED[text] in str(refusal.value)


def test_no_query_opens_a_connection(sparql: Sparql) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        met: list[object] = []
        threading.Thread(target=lambda: _meet(listener, met), daemon=True).start()
        for text in (
            "ASK { SERVICE <http://127.0.0.1:PORT/> { ?s ?p ?o } }",
            "PREFIX e: <http://127.0.0.1:PORT/> ASK { SERVICEe:x { ?s ?p ?o } }",
            "PREFIX e: <http://127.0.0.1:PORT/> ASK { SERVICESILENTe:x { ?s ?p ?o } }",
            "PREFIX SERVICEe: <http://127.0.0.1:PORT/> ASK { ?s SERVICEe:x ?o }",
            "PREFIX e: <http://127.0.0.1:PORT/> ASK { FILTER(1 <2) SERVICE e:x { } FILTER(3> 2) }",
            "ASK { ?s ?p 'a' . 'b'SERVICE<http://127.0.0.1:PORT/> { ?s ?p ?o } }",
            "ASK FROM <http://127.0.0.1:PORT/> { ?s ?p ?o }",
            # What an escape stands for must not end the IRI that it stands in.
            "ASK { VALUES ?x { <urn:a\\u003e\\u007dSERVICE\\u003chttp://127.0.0.1:PORT/\\u003e\\u007b"
            "?s\\u0020?p\\u0020?o\\u007dVALUES\\u0020?y\\u007b\\u003curn:b> } }",
            "PREFIX e: <urn:> ASK { VALUES ?x { e:\\>\\}SERVICE\\<http\\:\\/\\/127.0.0.1\\:PORT\\/"
            "\\>\\{\\?s\\ \\?p\\ \\?o\\}VALUES\\ \\?y\\{\\<urn\\:b } }",
        ):
            with suppress(InputError):
                sparql.run(text.replace("PORT", str(port)))
            assert not met, text


def _meet(listener: socket.socket, met: list[object]) -> None:
    with suppress(OSError):
        while True:
            connection, who = listener.accept()
            met.append(who)
            connection.close()


def test_results_are_written_in_every_form(sparql: Sparql) -> None:
    found = sparql.run("SELECT ?o { :Bob :likes ?o }")
    document = json.loads(found.serialize("json"))
    assert document["results"]["bindings"] == [{"o": {"type": "uri", "value": "urn:name:Fargo"}}]
    assert found.serialize("csv") == b"o\r\nurn:name:Fargo\r\n"
    assert found.serialize("tsv") == b"?o\n<urn:name:Fargo>\n"
    assert b"<uri>urn:name:Fargo</uri>" in found.serialize("xml")
    graph = sparql.run(
        "CONSTRUCT { ?o :of ?s } { ?s :likes ?o . :Ann :knows ?s FILTER(?s != :Cy) }"
    )
    assert graph.serialize("nt") == b"<urn:name:Fargo> <urn:name:of> <urn:name:Bob> .\n"
    assert b"urn:name:of" in graph.serialize("ttl")
    assert json.loads(graph.serialize("jsonld"))[0]["@id"] == "urn:name:Fargo"
    assert sparql.run("ASK {}", "xml").data == sparql.run("ASK {}").serialize("xml")
    with pytest.raises(InputError, match="written as json"):
        found.serialize("ttl")


def test_a_result_keeps_to_its_limits(sparql: Sparql) -> None:
    product = "SELECT * { " + "".join(f"?a{i} ?b{i} ?c{i} . " for i in range(6)) + "}"
    with pytest.raises(OutOfBudget, match="memory limit"):
        sparql.run(product, budget=Budget(memory=100_000))
    with pytest.raises(OutOfBudget, match="time limit"):
        sparql.run(product, budget=Budget.start(1 << 30, 0.05))


def test_lines_of_questions_may_have_blocks(sparql: Sparql) -> None:
    asked = Question(1, "SELECT ?x { SERVICE ks:predict { :Ann :knows ?x } } LIMIT 1")
    (document,) = answer_questions(sparql.asker, [asked])
    assert document["head"]["vars"] == ["x"]
    assert len(document["results"]["bindings"]) == 1
