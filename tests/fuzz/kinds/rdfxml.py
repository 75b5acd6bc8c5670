"""RDF/XML: entities, namespaces, types, parse types, and documents that are no XML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from fuzz.mutation import Dice, sometimes_packed, sometimes_spoiled, word
from knowledge_sheaves.graph.readers import load

HEAD = (
    "xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:x='http://x/' "
    "xmlns:rdfs='http://www.w3.org/2000/01/rdf-schema#'"
)
TOKENS = tuple(
    b"<rdf:RDF>|</rdf:RDF>|<rdf:li/>|rdf:about=''|rdf:ID='a'|rdf:nodeID='b'|xml:base='http://y/'|"
    b"xml:lang='en'|&e;|&#0;|&#xD800;|<!--|-->|<![CDATA[|]]>|<?x ?>|xmlns=''|rdf:aboutEach='x'|"
    b"rdf:bagID='a'|rdf:parseType='Literal'".split(b"|")
)
ENTITIES = ("'http://y/'", "'&e;'", "'&f;&f;'", "SYSTEM 'file:///etc/passwd'", "'<b>'", "'%p;'")


def node(random: Dice, depth: int) -> str:
    name = random.choice(("rdf:Description", "x:Person", "rdf:Bag", "x:T"))
    usual = random.random() < 0.9
    which = "rdf:about" if usual else random.choice(("rdf:ID", "rdf:nodeID", "rdf:resource"))
    said = f" {which}={quoteattr(word(random))}" if random.random() < 0.8 else ""
    inner = "".join(link(random, depth) for _ in range(random.randrange(3)))
    return f"<{name}{said}>{inner}</{name}>"


def link(random: Dice, depth: int) -> str:
    name = random.choice(("x:r", "x:s", "rdfs:label", "rdf:type", "rdf:li"))
    how = random.randrange(6)
    if how == 0:
        return f"<{name} rdf:resource={quoteattr(word(random))}/>"
    if how == 1:
        return f"<{name}>{escape(word(random))}{random.choice(('', '', '', '&e;'))}</{name}>"
    if how == 2:
        kind = random.choice(("Literal", "Resource", "Collection", "x"))
        return f"<{name} rdf:parseType='{kind}'>{node(random, depth + 1)}</{name}>"
    if how == 3 or depth > 4:
        return f"<{name} rdf:datatype='http://x/t' xml:lang='de'>{escape(word(random))}</{name}>"
    return f"<{name}>{node(random, depth + 1)}</{name}>"


def attack(seed: int, folder: Path) -> Callable[[], object]:
    random = Dice(f"rdfxml {seed}")
    kinds = ENTITIES if random.random() < 0.3 else ENTITIES[:1]
    names = "".join(f"<!ENTITY {name} {random.choice(kinds)}>" for name in "efg")
    start = f"<!DOCTYPE x [{names}]>" if random.random() < 0.8 else ""
    coding = random.choice((*[""] * 9, "<?xml version='1.0' encoding='latin-1'?>", "<?xml?>"))
    body = "".join(node(random, 0) for _ in range(random.choice((0, 1, 3, 10))))
    text = f"{coding}{start}<rdf:RDF {HEAD}>{body}</rdf:RDF>"
    content = sometimes_spoiled(text.encode("utf-8", "surrogatepass"), random, TOKENS)
    content, packing = sometimes_packed(content, random)
    path = folder / f"x{random.choice(('.rdf', '.owl', '.xml'))}{packing}"
    path.write_bytes(content)
    return lambda: load(path)
