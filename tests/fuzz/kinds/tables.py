"""TSV and CSV: triples, types and labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fuzz.mutation import WORDS, Dice, sometimes_packed, sometimes_spoiled, word
from knowledge_sheaves.graph.readers import TextFormat, load

HEADERS = (["head", "relation", "tail"], ["subject", "predicate", "object", "since"], [])


def table(random: Dice, width: int, header: list[str]) -> tuple[bytes, str]:
    delimiter = random.choice("\t\t\t\t,,; |")
    quote = delimiter != "\t" or random.random() < 0.1
    end = random.choice(("\n", "\n", "\r\n", "\r"))

    def field() -> str:
        text = word(random)
        return '"' + text.replace('"', '""') + '"' if quote and random.random() < 0.3 else text

    rows = [header] if header and (len(header) > 3 or random.random() < 0.5) else []
    rows += [
        [field() for _ in range(width if random.random() < 0.995 else random.randrange(6))]
        for _ in range(random.choice((0, 1, 2, 5, 20, 60)))
    ]
    text = end.join(delimiter.join(row) for row in rows) + random.choice(("", end, end * 3))
    content = text.encode("utf-8", "surrogatepass")
    if random.random() < 0.1:
        content = b"\xef\xbb\xbf" + content
    return sometimes_spoiled(content, random, (delimiter.encode(), b'"')), delimiter


def attack(seed: int, folder: Path) -> Callable[[], object]:
    random = Dice(f"tables {seed}")
    header = random.choice(HEADERS)
    content, delimiter = table(random, len(header) or 3, header)
    content, packing = sometimes_packed(content, random)
    path = folder / f"triples{random.choice(('.tsv', '.txt', '.csv'))}{packing}"
    path.write_bytes(content)
    if random.random() < 0.3:
        (folder / "types.tsv").write_bytes(table(random, 2, ["entity", "type"])[0])
    if random.random() < 0.3:
        (folder / "labels.csv").write_bytes(table(random, 2, ["entity", "label"])[0])
    options = TextFormat(delimiter=delimiter if random.random() < 0.5 else None)
    if random.random() < 0.3:
        options = TextFormat(
            delimiter=random.choice((None, delimiter, "x")),
            header=random.choice((None, True, False)),
            columns=random.choice((None, (3, 2, 1), ("head", "relation", "tail"), (9, 1, 2))),
            quoted=random.choice((None, True, False)),
            comment=random.choice((None, "#", "%")),
        )
    types = random.choice((None, None, "none", "regex:(.)", f"regex:{random.choice(WORDS)[:9]}(a)"))
    if not str(types).isprintable():
        types = None
    return lambda: load(folder, text=options, types=types, min_pair_count=random.choice((1, 2)))
