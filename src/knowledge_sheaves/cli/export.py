"""`sheaves export`: the entity vectors for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import say


def export(
    model: Folder,
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    format: Annotated[
        Literal["parquet", "npy", "tsv"],
        typer.Option(help="parquet; npy for NumPy; tsv for the embedding projector."),
    ] = "parquet",
) -> None:
    """Write the vectors of all entities, with their names, types and labels.

    Parquet is one file, entities.parquet; NumPy and TSV are one file of vectors and one of names,
    row by row. Types of smaller dimension are filled up with zeros, block by block.

    \b
    Example:
      sheaves export model/ --format tsv --out projector/
    """
    from knowledge_sheaves.embedding.export import export_vectors

    done = export_vectors(load_model(model), out, format)
    files = " and ".join(map(str, done.files))
    say(f"Wrote {done.count:,} vectors of {done.width} numbers: {files}")
