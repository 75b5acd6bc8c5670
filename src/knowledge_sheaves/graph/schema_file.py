"""Schema files in YAML or JSON; an error names the file, the line and the place.

types:
  - Person
  - {name: Film, dim: 2}
relations:
  - {name: friends, head: Person, tail: Person, symmetric: true}
  - {name: favorite movie, head: Person, tail: Film, label: likes best}
entities:            # optional: the type to use for an entity that has several, or none
  Fargo: Film
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import yaml

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import write_text
from knowledge_sheaves.graph.plain_data import read_plain_data, read_small_text
from knowledge_sheaves.graph.schema import EntityType, Relation, Schema
from knowledge_sheaves.graph.vocabulary import suggestion

SECTIONS = ("types", "relations", "entities")
Place = tuple[str | int, ...]
Read = TypeVar("Read")
Part = TypeVar("Part", EntityType, Relation)


class _PlacedError(InputError):
    """An error that knows where in the file's data it arose."""

    def __init__(self, sentence: str, place: Place) -> None:
        super().__init__(sentence)
        self.place = place


def parse_schema(data: object) -> Schema:
    """Build a schema from the data of a schema file."""
    sections = _sections(data)
    types = [
        EntityType(item) if isinstance(item, str) else _part(EntityType, item, ("types", place))
        for place, item in enumerate(_list(sections, "types"))
    ]
    relations = [
        _part(Relation, item, ("relations", place))
        for place, item in enumerate(_list(sections, "relations"))
    ]
    _parse_choices(sections, {kind.name for kind in types})
    return Schema(types, relations)


def _sections(data: object) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise InputError("A schema is a mapping with 'types' and 'relations'.")
    for key in data:
        if key not in SECTIONS:
            raise _PlacedError(f"Unknown section {key!r}; use {', '.join(SECTIONS)}.", (key,))
    return data


def _list(sections: Mapping[str, Any], name: str) -> list[Any]:
    items = sections.get(name)
    if items is None and name == "relations":
        return []
    if not isinstance(items, list):
        raise _PlacedError(f"A schema needs a list under {name!r}.", (name,) * (name in sections))
    return items


def _part(kind: type[Part], item: object, place: Place) -> Part:
    where = f"{place[0]}[{place[1]}]"
    if not isinstance(item, Mapping):
        raise _PlacedError(f"{where}: {item!r} must be a mapping with a name.", place)
    known = [field.name for field in fields(kind)]
    needed = [name for name in known if name in ("name", "head", "tail")]
    for key in item:
        if key not in known:
            hint = suggestion(str(key), known) or f"; use {', '.join(known)}."
            raise _PlacedError(f"{where}: unknown key {key!r}{hint}", place)
    for key in needed:
        if key not in item:
            raise _PlacedError(f"{where}: {key!r} is missing; add it.", place)
    try:
        return kind(**item)
    except InputError as error:
        raise _PlacedError(f"{where}: {error}", place) from None


def _parse_choices(sections: Mapping[str, Any], types: set[str]) -> dict[str, str]:
    choices = sections.get("entities") or {}
    if not isinstance(choices, Mapping):
        raise _PlacedError("'entities' must map entity names to types.", ("entities",))
    for name, kind in choices.items():
        if not isinstance(name, str) or kind not in types:
            problem = (
                f"the type {kind!r} of {name!r} is not among the types"
                if isinstance(name, str)
                else f"the entity name {name!r} must be a string; write it in quotes"
            )
            hint = suggestion(str(kind), types) if isinstance(name, str) else ""
            raise _PlacedError(f"entities: {problem}{hint or '.'}", ("entities", name))
    return dict(choices)


def load_schema(path: Path) -> Schema:
    """Read the schema of a schema file."""
    return _read(path, parse_schema)


def load_type_choices(path: str | Path) -> dict[str, str]:
    """Read the section ``entities`` of a schema file: which type to use for an entity.

    Pass it as ``type_choice`` to `KnowledgeGraph.from_triples`.
    """

    def parse(data: object) -> dict[str, str]:
        names = {kind.name for kind in parse_schema(data).types}
        return _parse_choices(_sections(data), names)

    return _read(Path(path), parse)


def save_schema(schema: Schema, path: Path) -> None:
    """Write a schema file."""
    data = schema.to_dict()
    if _is_json(path):
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    else:
        text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, default_flow_style=None)
    write_text(path, text)


def _is_json(path: Path) -> bool:
    if path.suffix.lower() not in (".json", ".yaml", ".yml"):
        raise InputError(f"{path}: a schema file ends in .yaml, .yml or .json.")
    return path.suffix.lower() == ".json"


def _read(path: Path, parse: Callable[[object], Read]) -> Read:
    _is_json(path)  # refuses another ending
    data = read_plain_data(path)
    try:
        return parse(data)
    except _PlacedError as error:
        line = _line_of(read_small_text(path), error.place)
        raise InputError(f"{path}{line}: {error}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _line_of(text: str, place: Place) -> str:
    """Find the line of a place; JSON is read as YAML too, which it nearly always is."""
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError:
        return ""
    line = node.start_mark.line
    for step in place:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            line = node.start_mark.line
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(step):
                    node, line = value, key.start_mark.line
                    break
    return f", line {line + 1}"
