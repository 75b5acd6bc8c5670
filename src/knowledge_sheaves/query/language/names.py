"""How SPARQL writes the names of a graph, and which entity or relation a written name means.

Names that are IRIs are written as IRIs: ``<http://example.org/Fargo>``, or ``ex:Fargo`` after
``PREFIX ex: <http://example.org/>``. Other names are written

* with the empty prefix, ``:Fargo``, unless the query declares a ``PREFIX :`` of its own. Odd
  characters have a backslash before them, ``:Star\\ Wars``, or are percent-encoded,
  ``:Star%20Wars``;
* in angle brackets, ``<Star Wars>``, where everything but ``<``, ``>`` and line breaks may stand
  (the first character is no blank and no ``=``);
* for entities also in quotes, ``"Star Wars"``: the entity with that name or else that label, of
  several the one that can stand in that place.

A name is looked up as it is written, then as a label, with percent-encoding undone where that name
does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote

from rdflib import RDF, Literal, URIRef
from rdflib.paths import InvPath, SequencePath

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.labels import label_of
from knowledge_sheaves.graph.names import End, Place, find_entity, read_relation
from knowledge_sheaves.query.pattern import RelationId

NAMESPACE = "urn:name:"
"""What the empty prefix stands for where a query does not declare it."""
PREFIXES = {
    "": NAMESPACE,
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
"""Prefixes that a query need not declare."""
TYPE, LABEL = f"{PREFIXES['rdf']}type", f"{PREFIXES['rdfs']}label"

# rdflib's grammar keeps some characters out of IRIs. In their stead it reads these from an
# unassigned plane of Unicode: one for one, so that places in the text stay what they are.
_SHIFT = 0xE1000
_NOTHING = chr(_SHIFT - 1)
_SHIFTED = re.compile(f"[{_NOTHING}{chr(_SHIFT)}-{chr(_SHIFT + 0xFFF)}]")


def hide(character: str) -> str:
    """Return what stands for a character that rdflib's grammar would not read."""
    return chr(_SHIFT + ord(character)) if ord(character) <= 0xFFF else character


def hide_escaped(character: str) -> str:
    """Do the same for a character with a backslash before it, keeping the length."""
    return _NOTHING + hide(character)


def plain(term: str) -> str:
    """Return the user's text of a parsed name or string.

    >>> plain(NAMESPACE + "Star" + hide(" ") + "Wars")
    'Star Wars'
    """
    text = _SHIFTED.sub(lambda m: "" if m[0] == _NOTHING else chr(ord(m[0]) - _SHIFT), str(term))
    return text.removeprefix(NAMESPACE)


def sparql_name(name: str) -> str:
    """Write a name so that a SPARQL query can use it.

    >>> sparql_name("Fargo"), sparql_name("Star Wars"), sparql_name("a > b")
    (':Fargo', '<Star Wars>', '<a%20%3E%20b>')
    """
    if re.fullmatch(r"\w[\w-]*", name, re.ASCII):
        return f":{name}"
    if re.fullmatch(r"[^\s=<>\\][^<>\\\r\n]*", name):
        return f"<{name}>"
    return f"<{quote(name, safe='')}>"


def entity_id(term: URIRef | Literal, graph: KnowledgeGraph, places: Sequence[Place] = ()) -> int:
    """Return the entity that a name, a label or an IRI of a query means, where it stands.

    >>> graph = KnowledgeGraph.from_triples([("Q1", "likes", "Q2")], labels={"Q2": "Star Wars"})
    >>> entity_id(URIRef(NAMESPACE + "Q1"), graph), entity_id(Literal("Star Wars"), graph)
    (0, 1)
    """
    text = plain(term)
    if isinstance(term, Literal) or text in graph.entities:
        return find_entity(graph, text, places)
    return find_entity(graph, unquote(text), places)


def places(path: object, end: End) -> list[Place]:
    """Where the head or the tail of a path stands: at the ends of which relations.

    >>> from rdflib import URIRef
    >>> places(~URIRef("urn:name:likes"), "head")
    [Place(relation='likes', end='tail')]
    """
    match path:
        case URIRef():
            return [Place(plain(path), end)]
        case InvPath():
            return places(path.arg, "tail" if end == "head" else "head")
        case SequencePath():
            return places(path.args[0 if end == "head" else -1], end)
    return []  # of alternatives any may be meant


def has_types(graph: KnowledgeGraph) -> bool:
    """Whether entities can be asked for by type: they have some, and no relation is called so."""
    return str(RDF.type) not in graph.schema.relation_names and (
        graph.classes is not None or len(graph.schema.types) > 1
    )


def type_name(term: URIRef, graph: KnowledgeGraph) -> str:
    """Return the type that a name or a label of a query means; an unknown one is refused.

    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")], types={"a": "Film of art"})
    >>> type_name(URIRef(NAMESPACE + "Film%20of%20art"), graph)
    'Film of art'
    """
    text = plain(term)
    name = text if text in graph.type_names else unquote(text)
    _ = graph.is_of_type(name)
    return name


def relation_of(term: URIRef, graph: KnowledgeGraph) -> tuple[RelationId, bool]:
    """Return the place of a relation among ``relation_names``, and whether it is read backwards.

    >>> graph = KnowledgeGraph.from_triples([("a", "favorite movie", "b")])
    >>> relation_of(URIRef(NAMESPACE + "favorite%20movie"), graph)
    (0, False)
    """
    text, names = plain(term), graph.schema.labelled_names
    known = (*names, *graph.schema.backwards)
    if text not in known and text not in map(label_of, known):
        text = unquote(text)
    if term == RDF.type and text not in names:
        raise InputError(
            "The graph has no relation 'a' (rdf:type): it keeps types apart from its relations, "
            "so leave it out; relations already say which types may stand at their ends."
        )
    name, backwards = read_relation(graph, text)
    return RelationId(names.index(name)), backwards
