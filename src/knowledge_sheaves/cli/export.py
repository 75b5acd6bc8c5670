"""`sheaves export`: the entity vectors for other programs."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import typer

from knowledge_sheaves.cli.models import Folder, load_model

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
    if format == "parquet":
        column = pl.Series("vector", vectors, dtype=pl.Array(pl.Float32, vectors.shape[1]))
        written = [out / "entities.parquet"]
        with _writing(written) as (file,):
            about.with_columns(column).write_parquet(file)
    elif format == "npy":
        written = [out / "vectors.npy", out / "entities.tsv"]
        with _writing(written) as (first, second):
            # np.save hands a real file to C, which says nothing of a write that failed.
            np.lib.format.write_array_header_1_0(
                first, np.lib.format.header_data_from_array_1_0(vectors)
            )
            first.write(np.ascontiguousarray(vectors).data)
            about.write_csv(second, separator="\t")
    else:
        written = [out / "vectors.tsv", out / "metadata.tsv"]
        columns = [str(place) for place in range(vectors.shape[1])]
        # The projector knows no quotes: a line is an entity, whatever its name.
        flat = about.with_columns(pl.all().str.replace_all(r"[\t\r\n]+", " "))
        with _writing(written) as (first, second):
            pl.from_numpy(vectors, columns).write_csv(
                first, separator="\t", include_header=False, float_precision=6
            )
            flat.write_csv(second, separator="\t", quote_style="never")
    size = f"{vectors.shape[0]:,} vectors of {vectors.shape[1]} numbers"
    typer.echo(f"Wrote {size}: {' and '.join(map(str, written))}")


@contextmanager
def _writing(paths: Sequence[Path]) -> Iterator[list[BinaryIO]]:
    """Files to write to; what a failed write leaves of them does not take their places."""
    from polars.exceptions import PolarsError

    from knowledge_sheaves.files import writing

    with ExitStack() as stack:
        names = [stack.enter_context(writing(path)) for path in paths]
        try:
            yield [stack.enter_context(name.open("wb")) for name in names]
        except PolarsError as error:  # it wraps what the system says
            said = str(error).split("error: ")[-1].split(" (os error")[0]
            raise OSError(errno.EIO, said) from error


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
