"""The JSON interface, and what a fuzzer that knows its description makes of it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import (  # type: ignore[attr-defined]
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
)

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.serve import interface
from knowledge_sheaves.serve.settings import Settings
from serve_cases import EX, FACTS, TYPES, Server

SETTINGS = Settings({})

OPERATIONS = ("card", "schema", "search", "entity", "answers", "explanation", "fact", "drawing")
CHECKS = [content_type_conformance, not_a_server_error, response_schema_conformance]
CASES, ALL_CASES = 30, 1000


def get(client: httpx.Client, address: str, **parameters: object) -> dict[str, object]:
    found = client.get(f"/api/{address}", params=parameters)  # type: ignore[arg-type]
    assert found.status_code == 200, found.text
    return found.json()  # type: ignore[no-any-return]


def post(client: httpx.Client, address: str, **body: object) -> dict[str, object]:
    found = client.post(f"/api/{address}", json=body)
    assert found.status_code == 200, found.text
    return found.json()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("fa", ["Fargo"]),
        ("joel", [f"{EX}Coen"]),
        ("COEN", [f"{EX}Coen"]),
        ("wars", ["Star Wars"]),
        ("made", ["made by"]),
        ("zzz", []),
    ],
)
def test_names_and_labels_are_found_as_one_types(
    client: httpx.Client, text: str, names: list[str]
) -> None:
    found = get(client, "search", text=text)["found"]
    assert [each["name"] for each in found] == names  # type: ignore[attr-defined]


def test_what_is_whole_comes_before_what_is_a_part(client: httpx.Client) -> None:
    found = get(client, "search", text="film", kind="type")["found"]
    assert found == [{"name": "film", "label": None, "kind": "type", "types": []}]
    assert len(get(client, "search", text="a", limit=2)["found"]) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [f"{EX}Coen", "Joel Coen"])
def test_an_entity_has_its_facts_and_what_is_likely(client: httpx.Client, name: str) -> None:
    found = get(client, "entity", name=name, top=3)
    assert (found["name"], found["label"]) == (f"{EX}Coen", "Joel Coen")
    assert found["types"] == ["person"]
    assert found["facts"] == [{"head": "Fargo", "relation": "made by", "tail": f"{EX}Coen"}]
    (likely,) = found["likely"]  # type: ignore[misc]
    assert (likely["head"], likely["tail"]) == ("Star Wars", f"{EX}Coen")  # type: ignore[index]
    assert 0 < likely["probability"] < 1  # type: ignore[index]


def test_answers_are_those_of_the_library(client: httpx.Client, model_folder: object) -> None:
    from knowledge_sheaves.query.asking import load

    query = "Ann knows ?y . ?y likes ?x"
    mine = load(str(model_folder)).answer(query, top=2, explain=True)
    found = post(client, "answers", query=query, top=2, explain=True)
    assert found["variables"] == ["x"]
    answers: list[dict[str, object]] = found["answers"]  # type: ignore[assignment]
    assert [each["values"]["x"]["name"] for each in answers] == [  # type: ignore[index]
        answer.names[0] for answer in mine
    ]
    assert [each["probability"] for each in answers] == [a.probability for a in mine]
    assert [each["known"] for each in answers] == [a.known for a in mine]
    assert mine.explanation is not None
    assert len(found["explanations"]) == 2  # type: ignore[arg-type]
    reasons = post(client, "explanation", query=query, answer=["Fargo"])
    assert reasons["text"] == str(mine.explanation[0])
    assert reasons["explanation"] == found["explanations"][0]  # type: ignore[index]


@pytest.mark.parametrize("solver", ["chaining", "harmonic"])
def test_the_reasons_have_the_numbers_of_the_answer(client: httpx.Client, solver: str) -> None:
    query = {"query": "Ann likes ?x", "solver": solver}
    found: Any = post(client, "answers", **query, new=True, explain=True)
    (answer,) = found["answers"]
    assert answer["values"]["x"]["name"] == "Fargo"
    reasons: Any = post(client, "explanation", **query, answer=["Fargo"])["explanation"]
    assert reasons == found["explanations"][0]
    assert reasons["probability"] == answer["probability"]
    if solver == "chaining":
        claim: Any = post(client, "fact", head="Ann", relation="likes", tail="Fargo")["fact"]
        assert claim["probability"] == pytest.approx(answer["probability"])
        page: Any = get(client, "entity", name="Ann", top=20)
        (likely,) = [each for each in page["likely"] if each["tail"] == "Fargo"]
        assert likely["probability"] == pytest.approx(answer["probability"])


def test_yes_or_no(client: httpx.Client) -> None:
    found = post(client, "answers", query="ASK { :Ann :knows :Bob }")
    assert found["verdict"] == {"holds": True, "known": True, "probability": None}


def test_the_schema_and_the_card(client: httpx.Client) -> None:
    found = get(client, "schema")
    assert {each["name"]: each["entities"] for each in found["types"]} == {  # type: ignore[attr-defined]
        "person": 5,
        "film": 2,
    }
    assert sum(each["facts"] for each in found["relations"]) == 8  # type: ignore[attr-defined]
    assert get(client, "card")["model"]["dim"] == 8  # type: ignore[index]


@pytest.mark.parametrize("asked", ["head", "tail"])
def test_a_fact_has_paths_between_its_ends(client: httpx.Client, asked: str) -> None:
    found = post(client, "fact", head="Ann", relation="likes", tail="Fargo", asked=asked)
    claim: dict[str, object] = found["fact"]  # type: ignore[assignment]
    assert (claim["head"], claim["tail"], claim["known"]) == ("Ann", "Fargo", False)
    asked_for = "?x likes Fargo" if asked == "head" else "Ann likes ?x"
    answer = "Ann" if asked == "head" else "Fargo"
    reasons = post(client, "explanation", query=asked_for, answer=[answer])["explanation"]
    assert claim["probability"] == reasons["edges"][0]["probability"]  # type: ignore[index]
    assert (found["facts"], found["others"]) == (3, 3)
    groups: list[dict[str, object]] = found["groups"]  # type: ignore[assignment]
    steps = [[(s["relation"], s["forwards"]) for s in g["steps"]] for g in groups]  # type: ignore[attr-defined]
    assert steps == [
        [("knows", False), ("likes", True)],
        [("knows", True), ("likes", True)],
    ]
    (path,) = groups[1]["paths"]  # type: ignore[misc]
    assert [(e["head"], e["relation"], e["tail"]) for e in path] == [
        ("Ann", "knows", "Bob"),
        ("Bob", "likes", "Fargo"),
    ]
    assert all(edge["known"] and edge["energy"] is not None for edge in path)


def test_a_question_as_a_drawing(client: httpx.Client) -> None:
    query = """SELECT ?x { :Ann :knows/:knows ?y . ?y :likes ?x . ?x a :film
               FILTER NOT EXISTS { :Ann :likes ?x } } LIMIT 3"""
    found = post(client, "drawing", query=query)
    nodes: list[dict[str, object]] = found["nodes"]  # type: ignore[assignment]
    named = [each["variable"] or each["name"] for each in nodes]
    assert {
        (named[each["head"]], each["relation"], named[each["tail"]], each["negated"])
        for each in found["edges"]  # type: ignore[attr-defined]
    } == {
        ("Ann", "knows", "?step1", False),
        ("?step1", "knows", "?y", False),
        ("?y", "likes", "?x", False),
        ("Ann", "likes", "?x", True),
    }
    assert (found["targets"], found["limit"]) == (["?x"], 3)
    assert {named[n]: each["types"] for n, each in enumerate(nodes)} == {
        "Ann": ["person"],
        "?step1": [],
        "?y": [],
        "?x": ["film"],
    }


def test_types_that_shape_no_stalk_are_told_as_well() -> None:
    graph = KnowledgeGraph.from_triples(FACTS, types=TYPES).shared()
    asker = Asker(SheafEmbedding(model_config("complex", dim=8), graph))
    page = said(interface.entity(asker, SETTINGS, {"name": "Fargo", "top": 1}))
    assert page["types"] == ["film"]
    assert {fact["relation"] for fact in page["facts"]} == {"likes", "made by"}
    found = said(interface.search(asker, SETTINGS, {"text": "Fargo", "limit": 1, "kind": None}))
    assert found["found"][0]["types"] == ["film"]
    schema = said(interface.schema(asker, SETTINGS, {}))
    assert {kind["name"]: kind["entities"] for kind in schema["types"]} == {"person": 5, "film": 2}
    ends = {each["name"]: (each["heads"], each["tails"]) for each in schema["relations"]}
    assert ends["likes"] == (["person"], ["film"])


def said(reply: tuple[dict[str, Any], bytes]) -> Any:
    return json.loads(reply[1])


@pytest.mark.parametrize(
    ("address", "body", "sentence"),
    [
        ("fact", {"head": "Ann", "relation": "likes", "tail": "Bob"}, "rule the answer out"),
        ("fact", {"head": "Ann", "relation": "like", "tail": "Bob"}, "did you mean 'likes'"),
        ("drawing", {"query": "ASK { :Ann :knows :Bob }"}, "variable after SELECT"),
        ("drawing", {"query": "SELECT ?x { :Ann :knows|:likes ?x }"}, "union"),
        ("drawing", {"query": "SELECT ?x { :Ann :knows ?x FILTER(?x != :Bob) }"}, "FILTER"),
        ("explanation", {"query": "Ann likes ?x", "answer": ["Bob"]}, "rule the answer out"),
        (
            "explanation",
            {"query": "Ann likes ?x", "answer": ["Bob"], "solver": "harmonic"},
            "rule the answer out",
        ),
        ("answers", {"query": "Ann knows Bobby"}, "did you mean 'Bob'"),
        ("answers", {"query": "Ann knows ?x", "solver": "magic"}, "magic"),
        ("answers", {"query": "Ann knows ?x", "type": "fish"}, "fish"),
        ("explanation", {"query": "Ann knows ?x", "answer": ["Zoe"]}, "Zoe"),
        ("explanation", {"query": "Ann knows ?x", "answer": ["Bob", "Cy"]}, "1 names"),
        ("explanation", {"query": "ASK { :Ann :knows :Bob }", "answer": ["Bob"]}, "SELECT"),
    ],
)
def test_what_is_wrong_is_said_in_json(
    client: httpx.Client, address: str, body: dict[str, object], sentence: str
) -> None:
    found = client.post(f"/api/{address}", json=body)
    assert found.status_code == 400
    assert sentence in found.json()["error"]


def test_a_body_has_bounds(client: httpx.Client) -> None:
    found = client.post("/api/answers", json={"query": "a" * (2 << 20)})
    assert found.status_code in (400, 413)
    assert client.post("/api/answers", json={"query": "a", "surprise": 1}).status_code == 422


def fuzz(server: Server, operation: str, cases: int) -> None:
    """Try what the description of an operation allows, and what it does not."""
    described = schemathesis.openapi.from_url(f"{server.address}openapi.json")
    (found,) = [
        each.ok()
        for each in described.get_all_operations()
        if each.ok().path == f"/api/{operation}"
    ]

    @given(case=found.as_strategy())
    @settings(max_examples=cases, deadline=None, suppress_health_check=list(HealthCheck))
    def tried(case: schemathesis.Case) -> None:
        answer = case.call(base_url=server.address.rstrip("/"))
        assert answer.status_code not in (500, 501, 502), answer.text
        if answer.status_code not in (503, 504):
            case.validate_response(answer, checks=CHECKS)

    tried()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_fuzzer_finds_no_fault(server: Server, operation: str) -> None:
    fuzz(server, operation, CASES)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_fuzzer_finds_no_fault_in_thousands(server: Server, operation: str) -> None:
    fuzz(server, operation, ALL_CASES)


@pytest.mark.parametrize(
    ("method", "address", "body", "status", "sentence"),
    [
        ("GET", "/nope", None, 404, "GET /nope: Not Found"),
        ("DELETE", "/api/card", None, 405, "Method Not Allowed"),
        ("POST", "/api/answers", {"query": "Ann knows ?x", "surprise": 1}, 422, "surprise"),
        ("POST", "/api/answers", {"query": "Ann knows ?x", "top": 0}, 422, "top"),
        ("GET", "/api/search", None, 422, "text"),
    ],
)
def test_what_is_wrong_with_a_request_has_the_same_form(
    client: httpx.Client, method: str, address: str, body: object, status: int, sentence: str
) -> None:
    found = client.request(method, address, json=body)
    assert found.status_code == status
    assert found.json().keys() == {"error"}
    assert sentence in found.json()["error"]
