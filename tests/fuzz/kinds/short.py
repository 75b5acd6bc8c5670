"""The short form of queries: names of several words, signs that mean something, and noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fuzz.asking import FILMS, MODELS, PEOPLE, ask, asker, odd_facts
from fuzz.mutation import Dice, spoiled, word

TOKENS = tuple(
    b'?x|?y|?|?x where |not |. | . |\n|"|""|knows|likes|{|}|SELECT|ASK|#|\\|,|Ann|/|^|*'.split(b"|")
)


def name(random: Dice, names: Sequence[str]) -> str:
    found = random.choice(names)
    if random.random() < random.nastiness:
        found = word(random)
    return f'"{found}"' if random.random() < 0.4 else found


def statement(random: Dice) -> str:
    relation, tails = random.choice(
        (("knows", PEOPLE), ("favorite movie", FILMS), ("not likes", FILMS))
    )
    ends = [random.choice(("?x", "?y", name(random, names))) for names in (PEOPLE, tails)]
    if random.random() < random.nastiness:
        relation = word(random)
    if random.random() < 0.1:
        ends.reverse()
    return f"{'not ' * (random.random() < 0.15)}{ends[0]} {relation} {ends[1]}"


def question(random: Dice) -> str:
    count = random.choice((1, 1, 2, 3, 5))
    parts = random.choice((" . ", "\n", " .\n")).join(statement(random) for _ in range(count))
    text = f"{random.choice(('', '', '', '?x where ', '?y WHERE '))}{parts}"
    if random.random() < 0.4:
        content = spoiled(text.encode("utf-8", "surrogatepass"), random, TOKENS)
        text = content.decode("utf-8", "replace")
    return text


def attack(seed: int, folder: Path) -> Callable[[], object]:
    random = Dice(f"short {seed}")
    text = question(random)
    (folder / "x.txt").write_bytes(text.encode("utf-8", "surrogatepass"))
    asked = asker(random.choice(MODELS), odd_facts())
    solver = random.choice(("auto", "chaining", "harmonic"))
    top, new = random.choice((None, 1, 1000)), random.random() < 0.2
    explain = random.random() < 0.3
    return lambda: ask(asked, text, solver, top, new, explain)
