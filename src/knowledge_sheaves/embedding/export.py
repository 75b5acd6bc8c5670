"""The vectors of all entities for other programs."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeAlias, get_args

import numpy as np
import torch

from knowledge_sheaves.embedding.model import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import writing

if TYPE_CHECKING:
    import polars as pl

Format: TypeAlias = Literal["parquet", "npy", "tsv"]


@dataclass(frozen=True)
class Exported:
    """The files that were written, how many vectors they have, and of how many numbers."""

    files: tuple[Path, ...]
    count: int
    width: int


@torch.no_grad()
def entity_frame(model: SheafEmbedding) -> pl.DataFrame:
    """Name, type, label and vector of every entity, one a row.

    Types of smaller dimension are filled up with zeros, block by block.

    >>> from knowledge_sheaves.embedding import model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("Ann", "knows", "Bob")])
    >>> entity_frame(SheafEmbedding(model_config("transe", dim=4), graph))["name"].to_list()
    ['Ann', 'Bob']
    """
    import polars as pl

    graph = model.graph
    labels = graph.labels or {}
    vectors = model.entities.lookup(torch.arange(graph.num_entities)).flatten(1).cpu().numpy()
    return pl.DataFrame(
        {
            "name": list(graph.entities),
            "type": [", ".join(graph.types_of(place)) for place in range(graph.num_entities)],
            "label": [labels.get(place, "") for place in range(graph.num_entities)],
            "vector": vectors,
        },
        schema={
            "name": pl.String,
            "type": pl.String,
            "label": pl.String,
            "vector": pl.Array(pl.Float32, vectors.shape[1]),
        },
    )


def export_vectors(
    model: SheafEmbedding, folder: str | Path, format: Format = "parquet"
) -> Exported:
    """Write the vectors of all entities, with their names, types and labels.

    Parquet is one file, entities.parquet; ``npy`` for NumPy and ``tsv`` for the embedding projector
    are one file of vectors and one of names, row by row.
    """
    import polars as pl

    if format not in get_args(Format):
        raise InputError(f"Vectors are written as {', '.join(get_args(Format))}, not {format!r}.")
    folder = Path(folder)
    frame = entity_frame(model)
    about, vectors = frame.drop("vector"), frame["vector"].to_numpy()
    if format == "parquet":
        written = [folder / "entities.parquet"]
        with _writing(written) as (file,):
            frame.write_parquet(file)
    elif format == "npy":
        written = [folder / "vectors.npy", folder / "entities.tsv"]
        with _writing(written) as (first, second):
            # np.save hands a real file to C, which says nothing of a write that failed.
            header = np.lib.format.header_data_from_array_1_0(vectors)
            np.lib.format.write_array_header_1_0(first, header)
            first.write(np.ascontiguousarray(vectors).data)
            about.write_csv(second, separator="\t")
    else:
        written = [folder / "vectors.tsv", folder / "metadata.tsv"]
        columns = [str(place) for place in range(vectors.shape[1])]
        # The projector knows no quotes: a line is an entity, whatever its name.
        flat = about.with_columns(pl.all().str.replace_all(r"[\t\r\n]+", " "))
        with _writing(written) as (first, second):
            pl.from_numpy(vectors, columns).write_csv(
                first, separator="\t", include_header=False, float_precision=6
            )
            flat.write_csv(second, separator="\t", quote_style="never")
    return Exported(tuple(written), *vectors.shape)


@contextmanager
def _writing(paths: Sequence[Path]) -> Iterator[list[BinaryIO]]:
    """Files to write to; what a failed write leaves of them does not take their places."""
    from polars.exceptions import PolarsError

    with ExitStack() as stack:
        names = [stack.enter_context(writing(path)) for path in paths]
        try:
            yield [stack.enter_context(name.open("wb")) for name in names]
        except PolarsError as error:  # it wraps what the system says
            said = str(error).split("error: ")[-1].split(" (os error")[0]
            raise OSError(errno.EIO, said) from error
