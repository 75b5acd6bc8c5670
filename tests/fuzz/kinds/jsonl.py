"""Files of questions: a bad line is an error in its place, and never the end of the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from fuzz.asking import MODELS, asker, facts, odd_facts
from fuzz.child import is_sentence
from fuzz.kinds import short, sparql
from fuzz.mutation import Dice, sometimes_spoiled, value, word
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.plain import json_text
from knowledge_sheaves.query import Asker
from knowledge_sheaves.query.jsonl import answer_questions, read_questions

MOST = 8
"""Spoiling repeats lines, and a file costs in proportion to them."""
TOKENS = tuple(b'{|}|"|:|,|[|]|\\u0000|\\ud800|\n|\r|null|NaN|1e999|"id"|"query"|\\'.split(b"|"))


def question(random: Dice, odd: bool) -> object:
    if random.random() < random.nastiness:
        return value(random)
    text = short.question(random) if odd else sparql.positive(random, facts(typed=False))
    row: dict[str, object] = {"query": text}
    if random.random() < 0.5:
        row["id"] = value(random)
    if random.random() < random.nastiness:
        row[random.choice(("query", "id", word(random)))] = value(random)
    return row


def attack(seed: int, folder: Path) -> Callable[[], object]:
    random = Dice(f"jsonl {seed}")
    odd = random.random() < 0.5
    rows = [question(random, odd) for _ in range(random.choice((0, 1, 2, 5)))]
    # Half of them as JSON allows: line ends of Unicode within a text do not end a line.
    lines = [json.dumps(row, ensure_ascii=random.random() < 0.5) for row in rows]
    text = "\n".join(lines) + random.choice(("", "\n", "\n\n"))
    path = folder / "x.jsonl"
    path.write_bytes(sometimes_spoiled(text.encode("utf-8", "surrogatepass"), random, TOKENS))
    asked = asker(random.choice(MODELS), odd_facts() if odd else facts(typed=False))
    asked = Asker(asked.model, asked.options.but(time_limit=0.15))
    explain, new = random.random() < 0.3, random.random() < 0.2
    return lambda: answer(asked, path, explain, new)


def answer(asked: Asker, path: Path, explain: bool, new: bool) -> None:
    questions = read_questions(path)[:MOST]
    found = list(answer_questions(asked, questions, explain=explain, new=new))
    assert [each["id"] for each in found] == [each.id for each in questions]
    for document in found:
        # What is written can be read again by anybody: NaN is no JSON.
        json.loads(json_text(document), parse_constant=_refuse)
        assert "error" not in document or is_sentence(document["error"]), document["error"]
    for document in found:
        if "error" in document:  # so that it is counted
            raise InputError(document["error"])


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")
