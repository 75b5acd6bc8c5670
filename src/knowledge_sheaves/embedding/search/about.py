"""What an index says of itself; whoever reads it needs no torch."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from knowledge_sheaves.embedding.folder import GENERATION, NEAREST, read_file, read_json
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import is_sealed

FORMAT = 2
ABOUT = "about.json"
NUMBERS = ("entities", "lists", "seconds")
SINGLE, SEVERAL = "1p", "2p"
"""Shapes of questions: of one edge; of more, as two in a row are."""
MEASURED = ("reach", "recall_at_10", "queries")
"""What is known of every shape; ``reach`` is how many entities a quick search reads."""
AGAIN = "build it again with sheaves index"


def about_index(folder: Path, generation: str | None) -> dict[str, Any] | None:
    """What the index in a model's folder says of itself; None where there is none."""
    path = folder / NEAREST / ABOUT
    if not path.exists():
        return None
    about = read_file(path, read_json)
    if not isinstance(about, dict) or not is_sealed(about):
        raise InputError(f"{path} was changed or cut short after it was written: {AGAIN}.")
    if about.get("format") != FORMAT or not _is_whole(about):
        raise InputError(f"{path} is of another version of knowledge-sheaves: {AGAIN}.")
    if about.get(GENERATION) != generation:
        raise InputError(
            f"{folder / NEAREST} is the index of another model than the one in {folder} (their "
            f"generations differ): {AGAIN}, or remove it."
        )
    return about


def _is_whole(about: dict[str, Any]) -> bool:
    """Whether it says what this version writes."""
    types, hashes = about.get("types"), about.get("sha256")
    if not isinstance(types, dict) or not isinstance(hashes, dict):
        return False
    return all(
        isinstance(said, dict)
        and isinstance(said.get("monomials"), str)
        and _are_numbers(said, NUMBERS)
        and _are_measured(said.get("shapes"), said["entities"])
        for said in types.values()
    )


def _are_measured(shapes: object, size: int) -> bool:
    return (
        isinstance(shapes, dict)
        and SINGLE in shapes
        and all(
            isinstance(said, dict) and _are_numbers(said, MEASURED) and 0 < said["reach"] <= size
            for said in shapes.values()
        )
    )


def _are_numbers(said: dict[str, Any], names: Iterable[str]) -> bool:
    return all(isinstance(said.get(name), int | float) for name in names)
