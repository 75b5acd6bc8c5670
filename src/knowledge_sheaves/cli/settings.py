"""Settings of a model and its training: from a file, from options, from --set, the last one wins.

A settings file is one flat list, name: value. ``model`` names an entry of the catalogue or a YAML
file that describes a model; every other name is an option of the model or of the training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from knowledge_sheaves.embedding import SheafConfig
    from knowledge_sheaves.training import TrainingConfig

DEFAULT_MODEL = "complex"

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
        f"toruse; or a YAML file that describes a model.  [default: {DEFAULT_MODEL}]",
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


def make_settings(
    file: Path | None, options: Mapping[str, Any], assignments: Sequence[str] | None
) -> tuple[SheafConfig, TrainingConfig]:
    """Return the model and the training that the user asks for."""
    from knowledge_sheaves.errors import InputError

    given = {} if file is None else _read(file)
    given |= {name: value for name, value in options.items() if value is not None}
    given |= dict(_assignment(text) for text in assignments or ())
    try:
        return _configs(given)
    except InputError as error:
        if file is None:
            raise
        raise InputError(f"With the settings of {file}: {error}") from None


def _configs(given: Mapping[str, Any]) -> tuple[SheafConfig, TrainingConfig]:
    from knowledge_sheaves.embedding import SheafConfig, model_config
    from knowledge_sheaves.errors import InputError
    from knowledge_sheaves.graph.vocabulary import suggestion
    from knowledge_sheaves.training import TrainingConfig

    of_model = [f.name for f in fields(SheafConfig)]
    of_training = TrainingConfig.names()
    known = ["model", *of_model, *of_training]
    for name in given:
        if name not in known:
            near = suggestion(str(name), known) or f"; known are {', '.join(known)}."
            raise InputError(f"There is no setting {name!r}{near}")
    name = str(given.get("model", DEFAULT_MODEL))
    is_file = name.endswith((".yaml", ".yml", ".json"))
    base = SheafConfig.load(name) if is_file else model_config(name)
    model = base.with_options(**{key: given[key] for key in of_model if key in given})
    return model, TrainingConfig.from_dict({k: given[k] for k in of_training if k in given})


def _read(path: Path) -> dict[str, Any]:
    from knowledge_sheaves.errors import InputError
    from knowledge_sheaves.files import read_data

    data = read_data(path)
    if not isinstance(data, dict):
        raise InputError(f"{path} must be a list of settings, one name: value a line.")
    return data


def _assignment(text: str) -> tuple[str, Any]:
    import yaml

    from knowledge_sheaves.errors import InputError

    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"--set takes name=value, such as --set n3=0.05, not {text!r}.")
    try:
        return name.strip().replace("-", "_"), yaml.safe_load(value)
    except yaml.YAMLError:
        raise InputError(f"--set {text}: the value cannot be read; write it in quotes.") from None
