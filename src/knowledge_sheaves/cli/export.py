"""`sheaves export`: the entity vectors for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import say

if TYPE_CHECKING:
    import polars as pl

    from knowledge_sheaves.embedding import SheafEmbedding


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
    import numpy as np
    import polars as pl
    import torch

    loaded = load_model(model)
    about = _about(loaded)
    everyone = torch.arange(loaded.graph.num_entities)
    vectors = loaded.entities.lookup(everyone).detach().flatten(1).numpy()
    out.mkdir(parents=True, exist_ok=True)
    if format == "parquet":
        column = pl.Series("vector", vectors, dtype=pl.Array(pl.Float32, vectors.shape[1]))
        written = [out / "entities.parquet"]
        about.with_columns(column).write_parquet(written[0])
    elif format == "npy":
        written = [out / "vectors.npy", out / "entities.tsv"]
        np.save(written[0], vectors)
        about.write_csv(written[1], separator="\t")
    else:
        written = [out / "vectors.tsv", out / "metadata.tsv"]
        columns = [str(place) for place in range(vectors.shape[1])]
        pl.from_numpy(vectors, columns).write_csv(
            written[0], separator="\t", include_header=False, float_precision=6
        )
        # The projector knows no quotes: a line is an entity, whatever its name.
        flat = about.with_columns(pl.all().str.replace_all(r"[\t\r\n]+", " "))
        flat.write_csv(written[1], separator="\t", quote_style="never")
    size = f"{vectors.shape[0]:,} vectors of {vectors.shape[1]} numbers"
    say(f"Wrote {size}: {' and '.join(map(str, written))}")


def _about(model: SheafEmbedding) -> pl.DataFrame:
    import polars as pl

    graph = model.graph
    labels = graph.labels or {}
    types = [kind.name for kind in graph.schema.types]
    return pl.DataFrame(
        {
            "name": list(graph.entities),
            "type": [types[kind] for kind in graph.entity_types.tolist()],
            "label": [labels.get(place, "") for place in range(graph.num_entities)],
        },
        schema={"name": pl.String, "type": pl.String, "label": pl.String},
    )
