"""The options of commands that train: they and --set win over the file that --config names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="A YAML file of settings, name: value."),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="unstructured, transe, transh, mure, pairre, rotate, rote, refe, nage, ote, se, "
        "se-orthogonal, transr, translational, distmult, complex (or hole), quate, rescal, "
        "toruse; or a YAML file that describes a model.  [default: as the recipe says]",
    ),
]
Recipe = Annotated[
    str | None,
    typer.Option(
        metavar="quick|good|best",
        help="Choose what is not given by the graph's size and this machine's speed: quick for "
        "two minutes, good for twenty, best for --minutes.  [default: quick, without --model and "
        "--config]",
    ),
]
Minutes = Annotated[
    float | None, typer.Option(help="Stop after the epoch that comes nearest to so many minutes.")
]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Replace a model that is there, and take data that look wrong as they are."
    ),
]
Dim = Annotated[int | None, typer.Option(help="Numbers in an entity's vector.")]
Epochs = Annotated[int | None, typer.Option(help="Rounds over the training facts, at most.")]
Seed = Annotated[int | None, typer.Option(help="What chance starts from.  [default: 0]")]
Threads = Annotated[int | None, typer.Option(help="Processor cores to use.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda.  [default: cpu]")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Any other setting; may be given several times."
    ),
]
