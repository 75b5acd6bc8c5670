"""What an endpoint is and holds, in the W3C's words: a service description with VoID counts."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import numpy as np

from knowledge_sheaves.embedding.known import ALL, given_graph
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.query.full import KS
from knowledge_sheaves.query.full.blocks import OUTPUTS
from knowledge_sheaves.query.language.iris import iri_of

PREFIXES = f"""\
@prefix ks: <{KS}> .
@prefix sd: <http://www.w3.org/ns/sparql-service-description#> .
@prefix void: <http://rdfs.org/ns/void#> .
@prefix formats: <http://www.w3.org/ns/formats/> .
"""
RESULTS = tuple(f"SPARQL_Results_{name}" for name in ("JSON", "XML", "CSV", "TSV"))
GRAPHS = ("Turtle", "N-Triples", "JSON-LD")


def service_description(asker: Asker, address: str) -> str:
    """The description in Turtle; ``address`` is that of the endpoint."""
    formats = ", ".join(f"formats:{name}" for name in (*RESULTS, *GRAPHS))
    properties = ", ".join(f"ks:{name}" for name in OUTPUTS)
    return f"""{PREFIXES}
<{_safe(address)}> a sd:Service ;
  sd:endpoint <{_safe(address)}> ;
  sd:supportedLanguage sd:SPARQL11Query ;
  sd:resultFormat {formats} ;
  sd:propertyFeature {properties} ;
  sd:extensionFunction ks:probability ;
  sd:defaultDataset [ a sd:Dataset ; sd:defaultGraph [ a sd:Graph, void:Dataset ;
{"".join(_counts(asker))}  ] ] .
"""


def _counts(asker: Asker) -> Iterator[str]:
    graph = given_graph(asker.model, ALL)
    schema = graph.schema
    yield f"    void:triples {graph.num_triples} ;\n"
    yield f"    void:entities {graph.num_entities} ;\n"
    yield f"    void:classes {len(graph.type_names)} ;\n"
    yield f"    void:properties {len(schema.relation_names)} ;\n"
    for kind in graph.type_names:
        iri, size = _iri(kind), int(graph.is_of_type(kind).sum())
        yield f"    void:classPartition [ void:class {iri} ; void:entities {size} ] ;\n"
    edges = schema.edge_names[graph.triples[:, 1]]
    uses = np.bincount(edges, minlength=len(schema.relation_names))
    for name, size in zip(schema.relation_names, uses.tolist(), strict=True):
        iri = _iri(name)
        yield f"    void:propertyPartition [ void:property {iri} ; void:triples {size} ] ;\n"


def _iri(name: str) -> str:
    return f"<{_safe(iri_of(name))}>"


def _safe(iri: str) -> str:
    """Nothing that would end the IRI.

    >>> _safe("http://localhost/a>b")
    'http://localhost/a%3Eb'
    """
    return quote(iri, safe=":/?#[]@!$&'()*+,;=%~")
