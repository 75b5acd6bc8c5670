"""`sheaves sum`: several trained models as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from knowledge_sheaves.cli.models import load_model
from knowledge_sheaves.cli.output import AsJson, print_json, print_table


def sum_(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="Folders of trained models.")
    ],
    out: Annotated[Path, typer.Option(help="The folder for their direct sum.")],
    as_json: AsJson = False,
) -> None:
    """Join models of one graph, trained from different seeds, into one: their direct sum.

    Its energies are the sums of theirs. Models that differ only in dim can be summed.

    \b
    Example:
      sheaves train umls --model complex --dim 32 --epochs 5 --seed 1 --out one/
      sheaves train umls --model complex --dim 32 --epochs 5 --seed 2 --out two/
      sheaves sum one/ two/ --out both/
    """
    from knowledge_sheaves.evaluation.trust import measure_trust
    from knowledge_sheaves.training import sum_models

    loaded = [load_model(folder) for folder in models]
    whole = sum_models(loaded)
    measure_trust(whole)
    whole.save(out)
    rows = [
        {
            "model": str(folder),
            "dimensions": model.config.dim,
            "parameters": f"{model.num_parameters:,}",
            "validation MRR": (model.info.metrics if model.info else {}).get("validation_mrr"),
        }
        for folder, model in zip([*models, out], [*loaded, whole], strict=True)
    ]
    if as_json:
        print_json(rows)
    else:
        print_table("Direct sum", rows, f"Saved in {out}.")
