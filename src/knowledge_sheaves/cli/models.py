"""The model that a command works with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from knowledge_sheaves.embedding import SheafEmbedding
    from knowledge_sheaves.processes import Processes

Folder = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a trained model.")]


def load_model(folder: Path, processes: Processes | None = None) -> SheafEmbedding:
    """Read a model from its folder, spread over processes where there are any."""
    from knowledge_sheaves.embedding import SheafEmbedding

    if processes is not None:
        from knowledge_sheaves.embedding.shard_folder import load_shards

        return load_shards(folder, processes)
    return SheafEmbedding.load(folder)
