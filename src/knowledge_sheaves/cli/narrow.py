"""`sheaves narrow`: keep the vectors of a model in fewer bits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import AsJson, print_facts, print_json


def narrow(
    model: Folder,
    out: Annotated[Path, typer.Option(help="The folder of the narrower model.")],
    tables: Annotated[
        Literal["float32", "fp16", "int8"], typer.Option(help="What vectors are kept as.")
    ] = "fp16",
    as_json: AsJson = False,
) -> None:
    """Write a model whose vectors take fewer bits on disk, and measure what that costs.

    fp16 is half precision, int8 a byte for every number and a unit for every entity. The narrower
    model is used like any other; in memory its vectors are of single precision.

    \b
    Example:
      sheaves narrow model/ --tables int8 --out small/
    """
    from knowledge_sheaves.embedding.folder import WEIGHTS
    from knowledge_sheaves.embedding.storage import save
    from knowledge_sheaves.ranking.loss import sample_mrr

    whole = load_model(model)
    before, facts = sample_mrr(whole)
    save(whole, out, tables=tables)
    after, _ = sample_mrr(load_model(out))
    found = {
        "tables": tables,
        "bytes_before": (model / WEIGHTS).stat().st_size,
        "bytes_after": (out / WEIGHTS).stat().st_size,
        "measured_on": facts,
        "mrr_before": before,
        "mrr_after": after,
    }
    if as_json:
        print_json(found)
        return
    print_facts(str(out), ((name.replace("_", " "), value) for name, value in found.items()))
