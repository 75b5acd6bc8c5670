"""`sheaves info`: what a model is, trained on what, how, and how good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from knowledge_sheaves.cli.models import Folder
from knowledge_sheaves.cli.output import AsJson, print_facts, print_json


def info(model: Folder, as_json: AsJson = False) -> None:
    """Show what a model is, what it was trained on and how, and how good it is.

    \b
    Example:
      sheaves info model/
    """
    from knowledge_sheaves.embedding.about import describe_folder

    described = describe_folder(model)
    if as_json:
        print_json(described)
        return
    for title, facts in described.items():
        if facts:
            print_facts(title.capitalize(), _flat(facts))


def _flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in facts.items():
        words = f"{prefix}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{words} ")
        elif isinstance(value, list):
            yield words, " ".join(map(str, value)) or None
        elif name == "peak_memory" and value is not None:
            yield words, f"{value / 2**20:,.0f} MB"
        else:
            yield words, value
