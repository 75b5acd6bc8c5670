"""What an index says of itself; whoever reads it needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from knowledge_sheaves.embedding.folder import GENERATION, NEAREST, read_file, read_json
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import is_sealed

FORMAT = 1
ABOUT = "about.json"
AGAIN = "build it again with sheaves index"


def about_index(folder: Path, generation: str | None) -> dict[str, Any] | None:
    """What the index in a model's folder says of itself; None where there is none."""
    path = folder / NEAREST / ABOUT
    if not path.exists():
        return None
    about = read_file(path, read_json)
    if not isinstance(about, dict) or not is_sealed(about):
        raise InputError(f"{path} was changed or cut short after it was written: {AGAIN}.")
    if about.get("format") != FORMAT:
        raise InputError(f"{path} is of another version of knowledge-sheaves: {AGAIN}.")
    if about.get(GENERATION) != generation:
        raise InputError(
            f"{folder / NEAREST} is the index of another model than the one in {folder} (their "
            f"generations differ): {AGAIN}, or remove it."
        )
    return about
