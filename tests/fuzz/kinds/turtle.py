"""Turtle: prefixes, lists, blank nodes, literals, and their escapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fuzz.mutation import Dice, sometimes_packed, sometimes_spoiled, word
from knowledge_sheaves.graph.readers import load

TOKENS = tuple(
    b'@prefix|@base|a|:|;|,|.|[|]|(|)|<|>|"|\'\'\'|"""|^^|@en|_:|true|1e9|PREFIX|BASE|{|}|=>|!|^'
    b"|<file:///etc/passwd>|\\u00e9|\\uD800|\\UFFFFFFFF|%".split(b"|")
)


def term(random: Dice, depth: int = 0) -> str:
    how = random.randrange(12 if depth < 4 else 8)
    if how < 5:
        return f":{random.choice('abcdef')}"
    if how == 5:
        return f"<http://x/{word(random)}>"
    if how == 6:
        quote = random.choice(('"', "'", '"""', "'''"))
        kind = random.choice(("", "@en", "^^:t", "^^<http://www.w3.org/2001/XMLSchema#date>"))
        return f"{quote}{word(random)}{quote}{kind}"
    if how == 7:
        return random.choice(("1", "-1.5", "1e9", "true", "_:b", "_:" + word(random), "a"))
    if how < 10:
        return f"[ {links(random, depth + 1)} ]"
    return f"( {' '.join(term(random, depth + 1) for _ in range(random.randrange(4)))} )"


def links(random: Dice, depth: int) -> str:
    return " ; ".join(
        f"{random.choice((':r', ':s', 'a', 'rdfs:label', '<http://x/q>'))} {term(random, depth)}"
        for _ in range(random.randrange(1, 3))
    )


def attack(seed: int, folder: Path) -> Callable[[], object]:
    random = Dice(f"turtle {seed}")
    text = "@prefix : <http://x/> .\n@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
    for _ in range(random.choice((0, 1, 4, 12))):
        text += f"{term(random)} {links(random, 0)} .\n"
    content = sometimes_spoiled(text.encode("utf-8", "surrogatepass"), random, TOKENS)
    content, packing = sometimes_packed(content, random)
    path = folder / f"x{random.choice(('.ttl', '.turtle'))}{packing}"
    path.write_bytes(content)
    return lambda: load(path)
