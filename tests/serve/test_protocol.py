"""The query operations of the SPARQL 1.1 Protocol, each against a server that runs."""

from __future__ import annotations

import gzip
import json
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest
import rdflib

KNOWS = "SELECT ?x { :Ann :knows ?x } LIMIT 1"
BOB = {"type": "uri", "value": "urn:name:Bob"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
DIRECT = {"content-type": "application/sparql-query"}

ANSWERED: dict[str, dict[str, Any]] = {
    "GET": {"method": "GET", "params": {"query": KNOWS}},
    "GET with what is not of the protocol": {
        "method": "GET",
        "params": {"query": KNOWS, "timeout": "10"},
    },
    "POST of a form": {"method": "POST", "data": {"query": KNOWS}},
    "POST of a form with a charset": {
        "method": "POST",
        "content": urlencode({"query": KNOWS}),
        "headers": {"content-type": FORM["content-type"] + "; charset=UTF-8"},
    },
    "POST directly": {"method": "POST", "content": KNOWS, "headers": DIRECT},
    "POST directly with a charset and a mark": {
        "method": "POST",
        "content": b"\xef\xbb\xbf" + KNOWS.encode(),
        "headers": {"content-type": "application/sparql-query;charset=utf-8"},
    },
    "blanks as plus signs": {"method": "GET", "url_query": "query=" + KNOWS.replace(" ", "+")},
    "blanks as per cents": {"method": "GET", "url_query": "query=" + quote(KNOWS)},
}

REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    "two queries": (400, {"method": "GET", "url_query": "query=ASK%7B%7D&query=ASK%7B%7D"}),
    "no query in a form": (400, {"method": "POST", "data": {"q": KNOWS}}),
    "an empty query": (400, {"method": "GET", "params": {"query": ""}}),
    "no SPARQL": (400, {"method": "GET", "params": {"query": "SELECT ?x {"}}),
    "a named graph that is none": (
        400,
        {"method": "GET", "params": {"query": KNOWS, "named-graph-uri": "file:///etc/passwd"}},
    ),
    "an update by GET": (400, {"method": "GET", "params": {"update": "CLEAR ALL"}}),
    "an update in a form": (400, {"method": "POST", "data": {"update": "CLEAR ALL"}}),
    "an update directly": (
        400,
        {
            "method": "POST",
            "content": "CLEAR ALL",
            "headers": {"content-type": "application/sparql-update"},
        },
    ),
    "another media type": (
        415,
        {"method": "POST", "content": KNOWS, "headers": {"content-type": "text/plain"}},
    ),
    "no media type": (415, {"method": "POST", "content": KNOWS}),
    "another charset": (
        415,
        {
            "method": "POST",
            "content": KNOWS.encode("utf-16"),
            "headers": {"content-type": "application/sparql-query; charset=utf-16"},
        },
    ),
    "no UTF-8 in a body": (400, {"method": "POST", "content": b"ASK { \xff }", "headers": DIRECT}),
    "no UTF-8 in an address": (400, {"method": "GET", "url_query": "query=ASK%20%FF"}),
    "a method of other protocols": (405, {"method": "PUT", "content": KNOWS, "headers": DIRECT}),
    "too many parameters": (400, {"method": "GET", "url_query": "&".join(["a=b"] * 101)}),
    "a graph that is not there": (
        400,
        {"method": "GET", "params": {"query": KNOWS, "default-graph-uri": "urn:g"}},
    ),
}


def send(client: httpx.Client, request: dict[str, Any], address: str = "/predicted") -> Any:
    """Send a request; ``url_query`` is put into the address as it stands."""
    rest = dict(request)
    if "url_query" in rest:
        address += "?" + rest.pop("url_query")
    return client.request(rest.pop("method"), address, **rest)


BOTH = pytest.mark.parametrize("address", ["/sparql", "/predicted"])


@BOTH
@pytest.mark.parametrize("case", ANSWERED)
def test_a_query_is_answered(client: httpx.Client, case: str, address: str) -> None:
    found = send(client, ANSWERED[case], address)
    assert found.status_code == 200, found.text
    assert found.headers["content-type"] == "application/sparql-results+json"
    assert found.json() == {"head": {"vars": ["x"]}, "results": {"bindings": [{"x": BOB}]}}


@BOTH
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_query_is_refused_with_a_sentence(
    client: httpx.Client, case: str, address: str
) -> None:
    status, request = REFUSED[case]
    found = send(client, request, address)
    assert found.status_code == status
    assert found.text.strip()
    assert "Traceback" not in found.text


@pytest.mark.parametrize(
    ("accept", "media", "text"),
    [
        ("application/sparql-results+xml", "application/sparql-results+xml", "<uri>urn:name:Bob"),
        ("text/csv", "text/csv; charset=utf-8", "x\r\nurn:name:Bob\r\n"),
        ("text/tab-separated-values", "text/tab-separated-values; charset=utf-8", "?x\n<urn:name:"),
        ("text/csv;q=0.3, application/xml;q=0.7", "application/sparql-results+xml", "<sparql"),
        ("text/html,application/xml;q=0.9,*/*;q=0.8", "text/html; charset=utf-8", "<table>"),
        ("*/*, text/html", "application/sparql-results+json", '"vars"'),
        ("image/png", "application/sparql-results+json", '"vars"'),
        ("text/*", "text/csv; charset=utf-8", "x\r\n"),
        (";;q=,,*", "application/sparql-results+json", '"vars"'),
    ],
)
def test_the_format_is_what_the_client_likes_best(
    client: httpx.Client, accept: str, media: str, text: str
) -> None:
    found = client.get("/predicted", params={"query": KNOWS}, headers={"accept": accept})
    assert (found.status_code, found.headers["content-type"]) == (200, media)
    assert text in found.text
    assert "Accept" in found.headers["vary"]


@pytest.mark.parametrize("name", ["output", "format"])
def test_a_format_may_be_named(client: httpx.Client, name: str) -> None:
    found = client.get("/predicted", params={"query": KNOWS, name: "csv"})
    assert found.headers["content-type"] == "text/csv; charset=utf-8"


@pytest.mark.parametrize(("accept", "said"), [("text/csv", "true"), ("text/html", "yes")])
def test_yes_and_no(client: httpx.Client, accept: str, said: str) -> None:
    query = {"query": "ASK { :Ann :knows :Bob }"}
    assert client.get("/predicted", params=query).json()["boolean"] is True
    assert said in client.get("/predicted", params=query, headers={"accept": accept}).text


def test_a_head_is_a_get_without_its_body(client: httpx.Client) -> None:
    query = {"query": KNOWS}
    one, two = client.get("/predicted", params=query), client.head("/predicted", params=query)
    assert two.status_code == 200
    assert two.content == b""
    assert two.headers["content-length"] == one.headers["content-length"]


def test_a_page_elsewhere_may_ask(client: httpx.Client) -> None:
    origin = {"origin": "https://yasgui.example"}
    found = client.get("/predicted", params={"query": KNOWS}, headers=origin)
    assert found.headers["access-control-allow-origin"] == "*"
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "x-a"}
    preflight = client.options("/predicted", headers=origin | asked)
    assert preflight.status_code == 200
    assert "POST" in preflight.headers["access-control-allow-methods"]


def test_what_is_long_comes_packed(client: httpx.Client) -> None:
    headers = {"accept-encoding": "gzip"}
    with client.stream("GET", "/predicted", headers=headers) as found:
        raw = b"".join(found.iter_raw())
    assert found.headers["content-encoding"] == "gzip"
    assert b"sd:Service" in gzip.decompress(raw)


@pytest.mark.parametrize(
    ("accept", "media", "text"),
    [
        ("", "text/turtle; charset=utf-8", "<urn:name:Ann> <urn:name:met> <urn:name:Bob> ."),
        ("application/n-triples", "application/n-triples; charset=utf-8", "<urn:name:Ann> <urn:"),
        ("application/ld+json, */*;q=0.1", "application/ld+json", '"@id":"urn:name:Ann"'),
        ("application/sparql-results+json", "text/turtle; charset=utf-8", "<urn:name:Ann>"),
        ("text/html", "text/html; charset=utf-8", "&lt;urn:name:Ann&gt;"),
    ],
)
def test_graphs_have_formats_of_their_own(
    client: httpx.Client, accept: str, media: str, text: str
) -> None:
    query = "CONSTRUCT { ?a :met ?b } { ?a :knows ?b FILTER(?a = :Ann) }"
    found = client.get("/sparql", params={"query": query}, headers={"accept": accept})
    assert (found.status_code, found.headers["content-type"]) == (200, media)
    assert text in found.text


@pytest.mark.parametrize("address", ["/predicted", "/films/predicted", "/sparql"])
def test_without_a_query_the_service_describes_itself(client: httpx.Client, address: str) -> None:
    found = client.get(address, headers={"accept": "text/html"})
    assert found.headers["content-type"] == "text/turtle; charset=utf-8"
    graph = rdflib.Graph().parse(data=found.text, format="turtle")
    sd = rdflib.Namespace("http://www.w3.org/ns/sparql-service-description#")
    void = rdflib.Namespace("http://rdfs.org/ns/void#")
    (service,) = graph.subjects(rdflib.RDF.type, sd.Service)
    assert str(service).endswith(address)
    assert graph.value(service, sd.endpoint) == service
    probability = rdflib.URIRef("urn:knowledge-sheaves:probability")
    assert (service, sd.propertyFeature, probability) in graph
    assert graph.value(service, sd.extensionFunction) == probability
    (data,) = graph.subjects(rdflib.RDF.type, void.Dataset)
    counts = {name: int(graph.value(data, void[name])) for name in ("triples", "entities")}
    assert counts == {"triples": 8, "entities": 7}
    parts = {
        str(graph.value(part, void.property)): int(graph.value(part, void.triples))
        for part in graph.objects(data, void.propertyPartition)
    }
    assert parts == {"urn:name:knows": 3, "urn:name:likes": 3, "urn:name:made%20by": 2}


def test_an_answer_can_be_asked_about(client: httpx.Client) -> None:
    film = "SELECT ?f { :Ann :likes ?f } LIMIT 1"
    row = client.get("/predicted", params={"query": film}).json()["results"]["bindings"][0]
    query = f"SELECT ?who {{ <{row['f']['value']}> :made%20by ?who }} LIMIT 1"
    found = client.get("/predicted", params={"query": query}).json()["results"]["bindings"]
    assert found == [{"who": {"type": "uri", "value": "http://example.org/Lucas"}}]


def test_an_unknown_name_is_an_error_of_a_prediction_and_no_fact(client: httpx.Client) -> None:
    query = {"query": "ASK { :Zoe :knows :Bob }"}
    assert client.get("/predicted", params=query).status_code == 400
    found = client.get("/sparql", params=query)
    assert found.json()["boolean"] is False
    assert found.headers["Sheaves-Notes"] == "No single thing in the model is called 'Zoe'."


@pytest.mark.parametrize("address", ["/sparql", "/predicted"])
def test_labels_are_names_at_both_addresses(client: httpx.Client, address: str) -> None:
    for name in ("<Joel Coen>", ":Joel%20Coen", "<urn:name:Joel%20Coen>"):
        query = {"query": f"ASK {{ :Fargo <made by> {name} }}"}
        found = client.get(address, params=query)
        assert found.json()["boolean"] is True
        assert "Sheaves-Notes" not in found.headers


def test_an_error_is_no_page_and_json_stays_json(client: httpx.Client) -> None:
    found = client.get("/predicted", params={"query": "SELECT ?x { :Anne :knows ?x }"})
    assert found.status_code == 400
    assert found.headers["content-type"] == "text/plain; charset=utf-8"
    assert "did you mean 'Ann'" in found.text
    with pytest.raises(json.JSONDecodeError):
        found.json()


def test_facts_and_predictions_meet(client: httpx.Client) -> None:
    query = """SELECT ?film ?p ?who { :Ann :knows ?friend
        SERVICE ks:predict { ?friend :likes ?film . ?film ks:probability ?p }
        ?film <made by> ?maker . ?maker rdfs:label ?who } ORDER BY DESC(?p)"""
    found = client.get("/sparql", params={"query": query, "output": "csv"})
    first, *rest = found.text.splitlines()[1:]
    assert first == "urn:name:Fargo,1,Joel Coen"
    assert len(rest) == 1


def test_a_pattern_may_ask_for_its_probability(client: httpx.Client) -> None:
    query = "SELECT ?x ?p { :Ann :knows ?x . ?x ks:probability ?p } ORDER BY DESC(?p) LIMIT 2"
    found = client.get("/predicted", params={"query": query, "output": "csv"}).text.splitlines()
    assert found[:2] == ["x,p", "urn:name:Bob,1"]
    assert 0 < float(found[2].split(",")[1]) < 1
