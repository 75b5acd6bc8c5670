"""The vectors of all entities for other programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
import torch

from knowledge_sheaves.embedding.model import SheafEmbedding
from knowledge_sheaves.errors import InputError

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
    types = [kind.name for kind in graph.schema.types]
    vectors = model.entities.lookup(torch.arange(graph.num_entities)).flatten(1).cpu().numpy()
    return pl.DataFrame(
        {
            "name": list(graph.entities),
            "type": [types[kind] for kind in graph.entity_types.tolist()],
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
    folder.mkdir(parents=True, exist_ok=True)
    frame = entity_frame(model)
    about, vectors = frame.drop("vector"), frame["vector"].to_numpy()
    if format == "parquet":
        written = [folder / "entities.parquet"]
        frame.write_parquet(written[0])
    elif format == "npy":
        written = [folder / "vectors.npy", folder / "entities.tsv"]
        np.save(written[0], vectors)
        about.write_csv(written[1], separator="\t")
    else:
        written = [folder / "vectors.tsv", folder / "metadata.tsv"]
        columns = [str(place) for place in range(vectors.shape[1])]
        pl.from_numpy(vectors, columns).write_csv(
            written[0], separator="\t", include_header=False, float_precision=6
        )
        # The projector knows no quotes: a line is an entity, whatever its name.
        flat = about.with_columns(pl.all().str.replace_all(r"[\t\r\n]+", " "))
        flat.write_csv(written[1], separator="\t", quote_style="never")
    return Exported(tuple(written), *vectors.shape)
