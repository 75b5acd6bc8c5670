"""Clients as people use them, and requests in the form in which other stores send them."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
from contextlib import closing

import httpx
import pyoxigraph
import pytest
import rdflib
from rdflib.plugins.stores.sparqlstore import SPARQLStore
from SPARQLWrapper import CSV, JSON, POST, POSTDIRECTLY, XML, SPARQLWrapper

from serve_cases import EX, Server

NAME = "urn:name:"
KNOWS = "SELECT ?x ?y { ?x <urn:name:knows> ?y } ORDER BY ?x"
FRIENDS = {("Ann", "Bob"), ("Bob", "Cy"), ("Cy", "Ann")}


def names(rows: object) -> set[tuple[str, ...]]:
    return {tuple(str(term).removeprefix(NAME) for term in row) for row in rows}  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["GET", "POST", "directly"])
def test_sparqlwrapper(server: Server, how: str) -> None:
    client = SPARQLWrapper(f"{server.address}sparql")
    client.setQuery(KNOWS)
    if how != "GET":
        client.setMethod(POST)
    if how == "directly":
        client.setRequestMethod(POSTDIRECTLY)
    client.setReturnFormat(JSON)
    rows = client.query().convert()["results"]["bindings"]
    assert names((row["x"]["value"], row["y"]["value"]) for row in rows) == FRIENDS
    client.setReturnFormat(XML)
    assert len(client.query().convert().getElementsByTagName("result")) == 3
    client.setReturnFormat(CSV)
    assert client.query().convert().startswith(b"x,y\r\n")


def test_rdflib_store(server: Server) -> None:
    graph = rdflib.Graph(SPARQLStore(f"{server.address}sparql"))
    assert names(graph.query(KNOWS)) == FRIENDS
    assert len(graph) == 17  # it asks with COUNT(*)
    subject = rdflib.URIRef(f"{EX}Coen")
    assert graph.value(subject, rdflib.RDFS.label) == rdflib.Literal("Joel Coen")
    assert (rdflib.URIRef(f"{NAME}Ann"), rdflib.URIRef(f"{NAME}knows"), None) in graph


def test_rdflib_service(server: Server) -> None:
    """It sends SELECT REDUCED * WHERE {…} VALUES (…) {…}."""
    mine = rdflib.Graph()
    likes = rdflib.URIRef("urn:mine:likes")
    for who in ("Ann", "Cy", "Stranger"):
        mine.add((rdflib.URIRef(NAME + who), likes, rdflib.Literal(who)))
    query = f"""SELECT ?name ?p {{ ?who <{likes}> ?name
        SERVICE <{server.address}predicted> {{
            ?who <urn:name:knows> <urn:name:Bob> . ?who <urn:knowledge-sheaves:probability> ?p }}
        }} ORDER BY DESC(?p)"""
    found = list(mine.query(query))
    assert [str(row[0]) for row in found] == ["Ann", "Cy"]
    assert float(found[0][1]) == 1 > float(found[1][1]) > 0


def test_oxigraph_service(server: Server) -> None:
    """It sends the whole pattern without bindings: then there are as many answers as --top says."""
    store = pyoxigraph.Store()
    node = pyoxigraph.NamedNode
    store.add(pyoxigraph.Quad(node(f"{NAME}Ann"), node("urn:mine:is"), node("urn:mine:me")))
    query = f"""SELECT ?x {{ ?me <urn:mine:is> <urn:mine:me>
        SERVICE <{server.address}predicted> {{ ?me <urn:name:knows> ?x }} }}"""
    found = {row["x"].value for row in store.query(query)}
    assert f"{NAME}Bob" in found
    assert len(found) == 5


def test_yasgui_first_query(client: httpx.Client) -> None:
    query = "SELECT * WHERE {\n  ?sub ?pred ?obj .\n} LIMIT 10"
    accept = "application/sparql-results+json,*/*;q=0.9"
    found = client.post("/sparql", data={"query": query}, headers={"accept": accept})
    assert sorted(found.json()["head"]["vars"]) == ["obj", "pred", "sub"]
    assert len(found.json()["results"]["bindings"]) == 10


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(server: Server) -> None:
    query = "query=SELECT ?y { :Ann :knows ?y }"
    done = subprocess.run(
        ["curl", "-s", "-f", f"{server.address}sparql", "--data-urlencode", query],
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout)["results"]["bindings"][0]["y"]["value"] == f"{NAME}Bob"


def raw(server: Server, text: str) -> httpx.Response:
    """Send bytes as they stand, and read the answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(text.replace("\n", "\r\n", text.split("\n\n")[0].count("\n") + 2).encode())
        found = b""
        while piece := line.recv(65536):
            found += piece
    head, _, body = found.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    if b"chunked" in head.lower():
        body = body.split(b"\r\n", 1)[1].rsplit(b"\r\n0\r\n", 1)[0]
    return httpx.Response(status, content=body)


def test_rdf4j_in_bytes(server: Server) -> None:
    """Fifteen bindings at a time as VALUES inside WHERE, with a column of its own."""
    rows = " ".join(
        f'("{number}" <{NAME}{name}>)' for number, name in enumerate(["Ann", "Bob", "Cy"] * 5)
    )
    query = (
        "SELECT ?y ?__rowIdx WHERE { ?x <urn:name:knows> ?y . "
        f"VALUES (?__rowIdx ?x) {{ {rows} }} }}"
    )
    body = str(httpx.QueryParams({"query": query, "infer": "true", "timeout": "30"}))
    found = raw(
        server,
        f"""POST /predicted HTTP/1.1
Host: 127.0.0.1:{server.port}
Accept: application/sparql-results+xml;q=0.8, text/tab-separated-values;q=0.8, \
application/sparql-results+json, text/csv;q=0.2
Content-Type: application/x-www-form-urlencoded; charset=utf-8
Content-Length: {len(body)}
Connection: close

{body}""",
    )
    assert found.status_code == 200, found.text
    rows_back = found.json()["results"]["bindings"]
    assert {int(row["__rowIdx"]["value"]) for row in rows_back} == set(range(15))
    first = {row["y"]["value"] for row in rows_back if row["__rowIdx"]["value"] == "0"}
    assert f"{NAME}Bob" in first


def test_jena_in_bytes(server: Server) -> None:
    """A long query is posted as a form."""
    rows = " ".join(f"( <{NAME}Ann> )" for _ in range(500))
    query = f"SELECT  *\nWHERE\n  {{ VALUES ( ?x ) {{ {rows} }}\n    ?x  <urn:name:knows>  ?y }}\n"
    body = str(httpx.QueryParams({"query": query}))
    found = raw(
        server,
        f"""POST /sparql HTTP/1.1
Host: 127.0.0.1:{server.port}
User-Agent: Apache-Jena-ARQ/5.2.0
Accept: application/sparql-results+json, application/sparql-results+xml;q=0.9, \
text/tab-separated-values;q=0.7, text/csv;q=0.5, application/json;q=0.2, */*;q=0.1
Content-Type: application/x-www-form-urlencoded
Content-Length: {len(body)}
Connection: close

{body}""",
    )
    assert found.status_code == 200, found.text
    assert len(found.json()["results"]["bindings"]) == 500


def test_javas_client_offers_http_2_and_goes_on_with_1_1(server: Server) -> None:
    """As Jena sends requests: every one on a line that stays open offers to change it."""
    offer = {
        "Connection": "Upgrade, HTTP2-Settings",
        "Upgrade": "h2c",
        "HTTP2-Settings": "AAEAAEAA",
    }
    form = offer | {"Content-Type": "application/x-www-form-urlencoded"}
    body = str(httpx.QueryParams({"query": KNOWS}))
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as line:
        for _ in range(2):
            for asked in [("POST", "/sparql", body, form), ("GET", f"/sparql?{body}", None, offer)]:
                line.request(*asked)
                found = line.getresponse()
                rows = json.loads(found.read())["results"]["bindings"]
                assert (found.status, len(rows)) == (200, 3)
