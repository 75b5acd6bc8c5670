"""Settings of a model and its training: from a file, from options, from name=value; the last wins.

A settings file is one flat list, name: value. ``model`` names an entry of the catalogue or a YAML
file that describes a model; every other name is an option of the model or of the training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from knowledge_sheaves.embedding import CATALOGUE, SheafConfig, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.plain_data import parse_yaml, read_plain_data
from knowledge_sheaves.graph.vocabulary import suggestion
from knowledge_sheaves.training.config import TrainingConfig

DEFAULT_MODEL = "complex"


def make_settings(
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
    assignments: Sequence[str] | None = None,
) -> tuple[SheafConfig, TrainingConfig]:
    """Return the model and the training that the user asks for.

    >>> model, training = make_settings(None, {"model": "rotate", "dim": 64}, ["epochs=3"])
    >>> model.name, model.dim, training.epochs
    ('rotate', 64, 3)
    """
    return configs(checked_settings(file, options, assignments))


def checked_settings(
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
    assignments: Sequence[str] | None = None,
    *,
    whole: bool = True,
) -> dict[str, Any]:
    """What the user says, by name, held against what can be said.

    A settings file is ``whole`` unless a recipe is to add to it: without a name it has the usual
    model.
    """
    given = given_settings(file, options, assignments)
    if file is not None and whole:
        given = {"model": DEFAULT_MODEL} | given
    try:
        configs(given)
    except InputError as error:
        if file is None:
            raise
        raise InputError(f"With the settings of {file}: {error}") from None
    return given


def given_settings(
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
    assignments: Sequence[str] | None = None,
) -> dict[str, Any]:
    """What the user says, by name: nothing that is left to the defaults.

    >>> given_settings(None, {"dim": 64, "epochs": None}, ["dim=32", "batch-size=256"])
    {'dim': 32, 'batch_size': 256}
    """
    given = {} if file is None else _read(file)
    given |= {name: value for name, value in (options or {}).items() if value is not None}
    return given | dict(_assignment(text) for text in assignments or ())


def as_settings(model: SheafConfig, training: TrainingConfig) -> dict[str, Any]:
    """Settings as a settings file has them: what differs from the defaults.

    >>> as_settings(model_config("rotate", dim=64), TrainingConfig(epochs=3))
    {'model': 'rotate', 'dim': 64, 'epochs': 3}
    """
    known = CATALOGUE.get(model.name)
    start = {} if known is None else {"model": model.name}
    base = (known or SheafConfig()).to_dict()
    usual = TrainingConfig().to_dict()
    differs = {name: value for name, value in model.to_dict().items() if value != base[name]}
    trained = {name: value for name, value in training.to_dict().items() if value != usual[name]}
    return start | differs | trained


def configs(given: Mapping[str, Any]) -> tuple[SheafConfig, TrainingConfig]:
    """The model and the training of settings by name; what is not given is as by default.

    >>> configs({"negatives": None})[1].negatives is None
    True
    """
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
    data = read_plain_data(path)
    if not isinstance(data, dict):
        raise InputError(f"{path} must be a list of settings, one name: value a line.")
    return data


def _assignment(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"--set takes name=value, such as --set n3=0.05, not {text!r}.")
    try:
        return name.strip().replace("-", "_"), parse_yaml(value)
    except InputError:
        raise InputError(f"--set {text}: the value cannot be read; write it in quotes.") from None
