"""Checkpoints: everything a run needs to go on as if it had not been interrupted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import writing
from knowledge_sheaves.training.optimisers import RowOptimiser


def checkpoint_beside(folder: Path) -> Path:
    """Where a run keeps its checkpoint: its folder is replaced as a whole when it is saved.

    >>> checkpoint_beside(Path("model")).name
    'model.checkpoint.safetensors'
    """
    return folder.with_name(f"{folder.name}.checkpoint.safetensors")


def save_checkpoint(
    path: Path,
    model: nn.Module,
    optimiser: RowOptimiser,
    others: Mapping[str, nn.Module | None],
    facts: dict[str, Any],
) -> None:
    """Write weights, optimiser state and plain facts, beside and then renamed.

    ``others`` are further states of the model, such as the best so far.
    """
    tensors = {
        f"{part}/{k}": v
        for part, each in {"model": model, **others}.items()
        if each is not None
        for k, v in each.state_dict().items()
    }
    tensors |= {f"optimiser/{k}": v for k, v in _optimiser_state(optimiser).items()}
    tensors = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}
    with writing(path) as beside:
        save_file(tensors, beside, metadata={"facts": json.dumps(facts)})


def load_checkpoint(
    path: Path, model: nn.Module, optimiser: RowOptimiser
) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]]:
    """Bring a model and an optimiser back; returns the facts and the weights of other states."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})["facts"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise InputError(
            f"The checkpoint {path} cannot be read ({error}): delete it to start afresh."
        ) from None
    parts: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        part, _, name = key.partition("/")
        parts.setdefault(part, {})[name] = value
    try:
        model.load_state_dict(parts.pop("model"))
        state = parts.pop("optimiser")
        with torch.no_grad():
            for name, value in _optimiser_state(optimiser).items():
                value.copy_(state[name])
    except (RuntimeError, KeyError):
        raise InputError(
            f"The checkpoint {path} belongs to another model or other data: delete it to start "
            f"afresh, or use the settings it was made with."
        ) from None
    return facts, parts


def _optimiser_state(optimiser: RowOptimiser) -> dict[str, Tensor]:
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    return {
        f"{number}/{name}": value
        for number, parameter in enumerate(parameters)
        for name, value in optimiser.state[parameter].items()
    }
