"""The model that a command works with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from knowledge_sheaves.embedding import SheafEmbedding

Folder = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a trained model.")]


def load_model(folder: Path) -> SheafEmbedding:
    """Read a model from its folder."""
    from knowledge_sheaves.embedding import SheafEmbedding

    return SheafEmbedding.load(folder)
