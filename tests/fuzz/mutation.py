"""What the generators of all kinds share: nasty words, and ways to spoil what was right."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from random import Random

WORDS = (
    *(
        "a",
        "b",
        "r",
        "Fargo",
        "né",
        "名",
        "𝒳",
        "a b",
        " ",
        "",
        "0",
        "1",
        "-1",
        "007",
        "1e-3",
        "NaN",
    ),
    *("inf", "null", "true", "None", "#", "##", "_:b1", "http://x/a", "<http://x/a>", "a:b", "@"),
    *("\\", "\\u", "\\uD800", "\\UFFFFFFFF", "\\U00110000", "\\n", '"', "'", '""', "\"'", ";", ","),
    *(
        "\t",
        "\r",
        "\x00",
        "\x01",
        "\x1b[31m",
        "\x7f",
        "\x85",
        "\u2028",
        "\u202e",
        "\ufeff",
        "\uffff",
    ),
    *(
        "$\\badmacro{$",
        "<script>",
        "&a;",
        "%s",
        "{}",
        "{0}",
        "../x",
        "~nouser",
        "C:\\x",
        "9" * 5000,
    ),
    *(
        "9" * 30,
        str(2**63),
        str(2**64),
        "1" + "0" * 400,
        "a" * 300,
        "((((",
        "]]]]",
        "}{",
        "*a",
        "&a",
    ),
)


class Dice(Random):
    """Chance of one input: how nasty it is differs, so that some get far and some stop at once."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.nastiness = self.choice((0.0, 0.0, 0.01, 0.03, 0.3))


def word(random: Dice) -> str:
    """A name, more often a usual one."""
    return random.choice(WORDS) if random.random() < random.nastiness else random.choice("abcdefr")


def spoiled(content: bytes, random: Random, tokens: Sequence[bytes] = ()) -> bytes:
    """Change some places: bits, cuts, repetitions, tokens of the language in the wrong place."""
    data = bytearray(content)
    words = [*tokens, *(text.encode("utf-8", "replace") for text in WORDS)]
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        place, other = (random.randrange(len(data) + 1) for _ in range(2))
        first, last = min(place, other), max(place, other)
        how = random.randrange(8)
        if how == 0 and data:
            data[place % len(data)] ^= 1 << random.randrange(8)
        elif how == 1:
            del data[first : min(last, first + random.choice((1, 4, 64)))]
        elif how == 2:
            data[place:place] = data[first : first + 256] * random.choice((1, 2, 30))
        elif how == 3:
            del data[place:]
        elif how == 4:
            data[place:place] = bytes(random.randrange(256) for _ in range(random.choice((1, 4))))
        else:
            data[place:place] = random.choice(words)
    return bytes(data)


def sometimes_spoiled(content: bytes, random: Random, tokens: Sequence[bytes] = ()) -> bytes:
    """Leave half of them as they were made: a grammar with nasty words goes deeper than noise."""
    return content if random.random() < 0.5 else spoiled(content, random, tokens)


def sometimes_packed(content: bytes, random: Random) -> tuple[bytes, str]:
    """Return the content of a file, and the ending that its packing has."""
    if random.random() > 0.1:
        return content, ""
    packed = gzip.compress(content, mtime=0)
    return (spoiled(packed, random) if random.random() < 0.5 else packed), ".gz"


def value(random: Dice, depth: int = 0) -> object:
    """Plain data of any shape, as JSON or YAML could hold them."""
    kinds: list[Callable[[], object]] = [
        lambda: word(random),
        lambda: random.choice((0, 1, -1, 3, 2**31, 2**63, 10**30, 10**400)),
        lambda: random.choice((0.0, 1.5, -2.0, 1e300, float("nan"), float("inf"))),
        lambda: random.choice((None, True, False)),
    ]
    if depth < 3:
        kinds += [
            lambda: [value(random, depth + 1) for _ in range(random.randrange(4))],
            lambda: {word(random): value(random, depth + 1) for _ in range(random.randrange(4))},
        ]
    return random.choice(kinds)()
