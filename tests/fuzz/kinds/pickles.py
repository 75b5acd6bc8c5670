"""Folders of the BetaE benchmark: pickles of other things, by other programs, and damaged."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from fuzz.mutation import Dice, spoiled, value, word
from knowledge_sheaves.graph.readers import STRUCTURES, load, read_betae_queries

OPCODES = tuple(bytes([code]) for code in b"(.0123FIJKLMNPQRSTUVXabcdeghijlopqrstu}])") + tuple(
    bytes([code]) for code in range(0x80, 0x99)
)
CALLS = (
    b"cos\nsystem\n",
    b"cbuiltins\neval\n",
    b"cbuiltins\nset\n",
    b"ccollections\ndefaultdict\n",
)


class Evil:
    """Runs when an ordinary unpickler reads it."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        import os

        return os.system, ("true",)


def filled(structure: object, random: Dice) -> object:
    if isinstance(structure, tuple):
        return tuple(filled(part, random) for part in structure)
    if structure == "e" or structure == "r":
        odd = random.random() < random.nastiness
        return random.choice((-1, 10**30, None, "0", 1.5, True)) if odd else random.randrange(2)
    return -2 if structure == "n" else -1


def queries(random: Dice) -> object:
    found: dict[object, object] = defaultdict(set)
    for name, structure in STRUCTURES.items():
        if random.random() < 0.4:
            asked = {filled(structure, random) for _ in range(random.randrange(4))}
            odd = random.random() < random.nastiness
            found[structure] = random.choice((None, name, 7, {7})) if odd else asked
    return found


def answers(random: Dice, asked: object) -> object:
    found: dict[object, object] = defaultdict(set)
    for several in asked.values() if isinstance(asked, dict) else ():
        for query in several if isinstance(several, set | list) else ():
            odd = (None, "x", {10**30}, {"a"}, {None: 1}, [0], {-1}, {7}, {1.5}, {True})
            usual = {random.randrange(3) for _ in range(random.randrange(3))}
            found[query] = random.choice(odd) if random.random() < random.nastiness else usual
    return found


def names(random: Dice, count: int) -> object:
    given = {number: f"n{number}" for number in range(count)}
    if random.random() < random.nastiness:
        given[random.choice((0, 5, -1))] = random.choice((None, 7, word(random), "n1"))
    return given if random.random() < 0.97 else value(random)


def written(data: object, random: Dice) -> bytes:
    if random.random() < 0.02:
        data = Evil()
    content = pickle.dumps(data, random.randrange(pickle.HIGHEST_PROTOCOL + 1))
    if random.random() < 0.1:
        return spoiled(content, random, OPCODES + CALLS)
    return content


def attack(seed: int, folder: Path) -> Callable[[], object]:
    random = Dice(f"pickles {seed}")
    asked = queries(random)
    data = {
        "id2ent.pkl": names(random, 3),
        "id2rel.pkl": names(random, 2),
        "test-queries.pkl": asked,
        "test-easy-answers.pkl": answers(random, asked),
        "test-hard-answers.pkl": answers(random, asked),
    }
    for name, content in data.items():
        (folder / name).write_bytes(written(content, random))
    rows = "".join(f"{random.randrange(3)}\t{random.randrange(2)}\t{random.choice('0012')}\n" * 3)
    (folder / "train.txt").write_text(rows)
    if random.random() < 0.3:
        return lambda: load(folder)
    return lambda: read_betae_queries(folder, "test")
