"""Settings, descriptions of models and schemas, in YAML and JSON, and as --set gives them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import yaml

from fuzz.mutation import Dice, sometimes_spoiled, value, word
from knowledge_sheaves.embedding import CATALOGUE, SheafConfig
from knowledge_sheaves.graph import Schema
from knowledge_sheaves.training import TrainingConfig
from knowledge_sheaves.training.settings import make_settings

OPTIONS = ["model", *(f.name for f in fields(SheafConfig)), *TrainingConfig.names()]
TOKENS = tuple(
    b"&a|*a|<<: *a|!!int x|!!python/object:os.system|!!binary x|!!set|!!omap|2020-02-30|1:59:59|"
    b"- |: |{|}|[|]|?|'|\"|#|---|...|%YAML 9.9|!|@|`|1e-3|.nan|.inf|0x|0b|~|\t|\n".split(b"|")
)


def options(random: Dice) -> dict[str, object]:
    found: dict[str, object] = {}
    for _ in range(random.randrange(5)):
        name = random.choice(OPTIONS) if random.random() < 0.95 else word(random)
        usual = random.choice((1, 2, 0.5, "free", "softmax", True, None, "cpu", 64))
        found[name] = usual if random.random() < 0.7 else value(random)
    if random.random() < 0.5:
        found["model"] = random.choice((*CATALOGUE, "complx", word(random)))
    return found


def schema(random: Dice) -> dict[str, object]:
    types = [random.choice(("Person", {"name": "Film", "dim": 2}, value(random))) for _ in "abc"]
    relation: dict[str, object] = {"name": "likes", "head": "Person", "tail": "Film"}
    relations = [{**relation, random.choice((*relation, "symmetric", "x")): value(random)}]
    found: dict[str, object] = {"types": types, "relations": relations}
    if random.random() < 0.3:
        found[random.choice(("entities", "types", "relations", "x"))] = value(random)
    return found


def attack(seed: int, folder: Path) -> Callable[[], object]:
    random = Dice(f"settings {seed}")
    make = random.choice((options, options, schema))
    ending = random.choice((".yaml", ".yaml", ".yml", ".json"))
    data = make(random) if random.random() < 0.95 else value(random)
    if ending == ".json":
        text = json.dumps(data, default=str)
    else:
        text = yaml.safe_dump(data, allow_unicode=random.random() < 0.5)
    path = folder / f"x{ending}"
    path.write_bytes(sometimes_spoiled(text.encode("utf-8", "surrogatepass"), random, TOKENS))
    if make is schema:
        return lambda: Schema.load(path)
    readers: tuple[Callable[[], object], ...] = (
        lambda: make_settings(path, {}, None),
        lambda: make_settings(None, {}, [f"{random.choice(OPTIONS)}={word(random)}"]),
        lambda: SheafConfig.load(path),
        lambda: TrainingConfig.load(path),
    )
    return random.choice(readers)
