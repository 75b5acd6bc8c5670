"""JSON-LD: contexts of every kind, keywords in the wrong place, other people's addresses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from fuzz.mutation import Dice, sometimes_packed, sometimes_spoiled, value, word
from knowledge_sheaves.graph.readers import load

KEYWORDS = (
    *("@id", "@type", "@value", "@language", "@graph", "@list", "@set", "@reverse", "@index"),
    *("@base", "@vocab", "@container", "@nest", "@none", "@json", "@version", "@included"),
    *("@prefix", "@propagate", "@protected", "@direction", "@import", "@context"),
)
ADDRESSES = ("http://127.0.0.1:9/x", "/etc/passwd", "file:///etc/passwd", "x.jsonld", "")
PARTS = (b"@context", b"@import", b"@type", b"{", b"}", b"[", b"]", b":", b",", b"null", b"NaN")


def context(random: Dice, depth: int = 0) -> object:
    how = random.randrange(30)
    if how == 0:
        return random.choice(ADDRESSES)
    if how == 1 and depth < 3:
        return [context(random, depth + 1) for _ in range(random.randrange(3))]
    if how == 2:
        return value(random)
    found: dict[str, object] = {"r": {"@id": "http://x/r", "@type": "@id"}, "s": "http://x/s"}
    for _ in range(random.choice((0, 0, 1, 3))):
        key = random.choice((*KEYWORDS, *"rst"))
        found[key] = random.choice(
            (word(random), {"@id": word(random), random.choice(KEYWORDS): value(random)})
        )
        if depth < 3 and random.random() < 0.2:
            found[word(random)] = {"@id": "http://x/t", "@context": context(random, depth + 1)}
    return found


def node(random: Dice, depth: int = 0) -> object:
    if random.random() < 0.1 or depth > 4:
        return value(random)
    found: dict[str, object] = {"@id": f"http://x/{word(random)}"}
    for _ in range(random.randrange(1, 4)):
        key = random.choice(
            (*("r", "s", "http://x/q", "http://x/p") * 4, word(random), *KEYWORDS[:9])
        )
        how = random.randrange(3)
        if how == 0:
            found[key] = f"http://x/{word(random)}"
        elif how == 1:
            found[key] = node(random, depth + 1)
        else:
            found[key] = [node(random, depth + 1) for _ in range(random.randrange(3))]
    if random.random() < 0.1:
        found["@context"] = context(random)
    return found


def attack(seed: int, folder: Path) -> Callable[[], object]:
    random = Dice(f"jsonld {seed}")
    document: object = [node(random) for _ in range(random.randrange(4))]
    if random.random() < 0.7:
        document = {"@context": context(random), "@graph": document}
    content = json.dumps(document).encode()
    content, packing = sometimes_packed(sometimes_spoiled(content, random, PARTS), random)
    path = folder / f"x.jsonld{packing}"
    path.write_bytes(content)
    return lambda: load(path)
