"""N-Triples and N-Quads, a line a statement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fuzz.mutation import Dice, sometimes_packed, sometimes_spoiled, word
from knowledge_sheaves.graph.readers import load

RELATIONS = (
    "http://x/r",
    "http://x/s",
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#type",
    "http://www.w3.org/2000/01/rdf-schema#subClassOf",
)
TOKENS = (b"<", b">", b" .\n", b"_:", b'"', b"@en", b"^^", b"\\u00e9", b"\\uDC00", b"\\x", b"#")


def node(random: Dice) -> str:
    how = random.random()
    return f"_:{word(random)}" if how < 0.15 else f"<http://x/{word(random)}>"


def literal(random: Dice) -> str:
    kind = random.choice(("", "", "@en", "@de-x", "^^<http://x/t>"))
    return f'"{word(random)}"{kind}'


def statement(random: Dice, quads: bool) -> str:
    relation = random.choice(RELATIONS) if random.random() < 0.9 else word(random)
    tail = literal(random) if random.random() < 0.3 else node(random)
    graph = f" {node(random)}" if quads and random.random() < 0.5 else ""
    gap = random.choice((" ", " ", "\t", "  ", ""))
    return f"{node(random)}{gap}<{relation}>{gap}{tail}{graph}{gap}."


def attack(seed: int, folder: Path) -> Callable[[], object]:
    random = Dice(f"ntriples {seed}")
    ending = random.choice((".nt", ".nq"))
    lines = [
        statement(random, ending == ".nq") if random.random() < 0.95 else f"# {word(random)}"
        for _ in range(random.choice((0, 1, 3, 20, 80)))
    ]
    content = random.choice(("\n", "\n", "\r\n")).join(lines).encode("utf-8", "surrogatepass")
    content, packing = sometimes_packed(sometimes_spoiled(content, random, TOKENS), random)
    path = folder / f"x{ending}{packing}"
    path.write_bytes(content)
    return lambda: load(path)
