"""JSON-LD opens no connection and no file but its own, wherever a context is named."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.readers import load

CONTEXT = {"@context": {"knows": {"@id": "http://secret.org/knows", "@type": "@id"}}}
FACT = {"@id": "http://x.org/a", "knows": "http://x.org/b"}
INLINE = {"r": {"@id": "http://x.org/r", "@type": "@id"}, "T": "http://x.org/T"}

# Every place where a context can be given by its address.
PLACES: dict[str, Any] = {
    "context": lambda address: {"@context": address, **FACT},
    "list": lambda address: {"@context": [INLINE, None, address], **FACT},
    "list in a list": lambda address: {"@context": [[[address]]], **FACT},
    "context of a context": lambda address: {"@context": {"@context": address}, **FACT},
    "import": lambda address: {"@context": {"@version": 1.1, "@import": address}, **FACT},
    "node": lambda address: [{"@id": "http://x.org/c"}, {"@context": address, **FACT}],
    "nested node": lambda address: {
        "@context": INLINE,
        "@id": "http://x.org/c",
        "r": {"@context": address, **FACT},
    },
    "graph": lambda address: {"@graph": [{"@context": [address], **FACT}]},
    "scope of a property": lambda address: {
        "@context": {"r": {"@id": "http://x.org/r", "@context": address}},
        "@id": "http://x.org/c",
        "r": FACT,
    },
    "scope of a type": lambda address: {
        "@context": {"T": {"@id": "http://x.org/T", "@context": [address]}},
        "@type": "T",
        **FACT,
    },
    "import in a scope": lambda address: {
        "@context": {"r": {"@id": "http://x.org/r", "@context": {"@import": address}}},
        "@id": "http://x.org/c",
        "r": FACT,
    },
}


class Server(ThreadingHTTPServer):
    asked = 0


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked += 1
        body = json.dumps(CONTEXT).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/ld+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def refuse(folder: Path, document: object) -> None:
    (folder / "x.jsonld").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"x\.jsonld: the context .* lies elsewhere.*in place"):
        load(folder / "x.jsonld")


@pytest.mark.parametrize("place", PLACES)
def test_no_connection_is_opened(
    tmp_path: Path, server: Server, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    refuse(tmp_path, PLACES[place](f"http://127.0.0.1:{server.server_port}/context.jsonld"))
    assert server.asked == 0


@pytest.mark.parametrize("place", PLACES)
def test_no_other_file_is_read(tmp_path: Path, place: str) -> None:
    secret = tmp_path / "secret.jsonld"
    secret.write_text(json.dumps(CONTEXT))
    for address in (secret.as_uri(), str(secret), "secret.jsonld", "x.jsonld"):
        refuse(tmp_path, PLACES[place](address))


@pytest.mark.parametrize("place", PLACES)
def test_an_empty_address_hides_no_other(tmp_path: Path, place: str) -> None:
    secret = tmp_path / "secret.jsonld"
    secret.write_text(json.dumps(CONTEXT))
    refuse(tmp_path, PLACES[place](""))  # to rdflib it is the folder of the file
    for pair in (["", str(secret)], [str(secret), ""]):
        refuse(tmp_path, [PLACES[place](address) for address in pair])


def test_a_context_that_stands_in_the_file_is_read(tmp_path: Path) -> None:
    scoped = {"@vocab": "http://y.org/", "@base": "http://z.org/"}
    document = {
        "@context": [None, INLINE, {"q": {"@id": "http://x.org/q", "@context": scoped}}],
        "@id": "http://x.org/a",
        "r": "http://x.org/@context",
        "q": {"@id": "b", "p": {"@id": "c"}},
    }
    (tmp_path / "x.jsonld").write_text(json.dumps(document), encoding="utf-8-sig")
    graph = load(tmp_path / "x.jsonld", sizes=(1, 0, 0)).train
    assert graph.decode(graph.triples) == [
        ("http://x.org/a", "http://x.org/r", "http://x.org/@context"),
        ("http://x.org/a", "http://x.org/q", "http://z.org/b"),
        ("http://z.org/b", "http://y.org/p", "http://z.org/c"),
    ]


def test_rdf_xml_reads_no_other_file_either(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("http://secret.org/")
    entity = f"<!ENTITY secret SYSTEM '{(tmp_path / 'secret').as_uri()}'>"
    (tmp_path / "x.rdf").write_text(
        f"<!DOCTYPE x [{entity}]><rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' "
        "xmlns:x='http://x.org/'><rdf:Description rdf:about='http://x.org/a'>"
        "<x:r rdf:resource='http://x.org/b'/><x:says>&secret;</x:says>"
        "<rdfs:label xmlns:rdfs='http://www.w3.org/2000/01/rdf-schema#'>&secret;</rdfs:label>"
        "</rdf:Description></rdf:RDF>"
    )
    data = load(tmp_path / "x.rdf", sizes=(1, 0, 0))
    assert data.train.labels in (None, {}, {0: ""})
