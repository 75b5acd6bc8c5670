"""Checkpoints: everything a run needs to go on as if it had not been interrupted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.folder import UNFIT
from knowledge_sheaves.embedding.storage import tensors_written
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import writing
from knowledge_sheaves.training.optimisers import RowOptimiser

KNOWN: dict[str, type | tuple[type, ...]] = {
    "epoch": int,
    "stale": int,
    "curve": list,
    "seconds": (int, float),
    "settings": dict,
}
"""What a run must know to go on, and of which kind."""
MANIFEST = "checkpoint.json"
"""What a checkpoint of several processes, which is a folder, says of itself."""


def checkpoint_beside(folder: Path) -> Path:
    """Where a run keeps its checkpoint: its folder is replaced as a whole when it is saved.

    >>> checkpoint_beside(Path("model")).name
    'model.checkpoint.safetensors'
    """
    return folder.with_name(f"{folder.name}.checkpoint.safetensors")


def shards_beside(folder: Path) -> Path:
    """Where a run on several processes keeps its checkpoint, a folder.

    >>> shards_beside(Path("model")).name
    'model.checkpoint'
    """
    return folder.with_name(f"{folder.name}.checkpoint")


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
    # What is in memory already is written from there: no second copy of the tables.
    tensors = {
        k: v.detach().cpu().contiguous() for k, v in _tensors(model, optimiser, others).items()
    }
    said = {"facts": json.dumps(facts | {"sealed": True})}
    with writing(path) as beside, tensors_written():
        save_file(tensors, beside, metadata=said | {"sha256": _digest(said, tensors)})


def mapped_copy(model: SheafEmbedding, path: Path) -> SheafEmbedding:
    """A copy of a model whose weights are in a file, and mapped from there into memory."""
    weights = {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
    with writing(path) as beside, tensors_written():
        save_file(weights, beside)
    copied = type(model)(model.config, model.graph, None)
    copied.load_state_dict(load_file(path), assign=True)
    copied.info = model.info
    return copied


def room_needed(
    model: nn.Module, optimiser: RowOptimiser, others: Mapping[str, nn.Module | None]
) -> int:
    """The bytes that a run takes on disk: a checkpoint, and the next one beside it."""
    tensors = _tensors(model, optimiser, others).values()
    return 2 * sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _tensors(
    model: nn.Module, optimiser: RowOptimiser, others: Mapping[str, nn.Module | None]
) -> dict[str, Tensor]:
    tensors = {
        f"{part}/{k}": v
        for part, each in {"model": model, **others}.items()
        if each is not None
        for k, v in each.state_dict().items()
    }
    return tensors | {f"optimiser/{k}": v for k, v in optimiser_state(optimiser).items()}


def asked_settings(path: Path) -> dict[str, Any]:
    """All settings of the run that a checkpoint is of, by name; none where it does not tell.

    >>> asked_settings(Path("no such checkpoint"))
    {}
    """
    try:
        if path.is_dir():
            told = json.loads((path / MANIFEST).read_bytes())["facts"]
        else:
            with safe_open(path, framework="pt") as file:
                told = json.loads((file.metadata() or {})["facts"])
        return dict(told["asked"])
    except (OSError, SafetensorError, *UNFIT):  # what is wrong with it is said when it is loaded
        return {}


def load_checkpoint(
    path: Path, model: nn.Module, optimiser: RowOptimiser
) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]]:
    """Bring a model and an optimiser back; returns the facts and the weights of other states."""
    try:
        if not path.is_file():  # a pipe would never come to its end
            raise OSError("it is not an ordinary file")
        with safe_open(path, framework="pt") as file:
            said = dict(file.metadata() or {})
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        facts = json.loads(said["facts"])
    except (OSError, SafetensorError, *UNFIT) as error:
        raise InputError(
            f"The checkpoint {path} cannot be read ({error}): delete it to start afresh."
        ) from None
    told = facts if isinstance(facts, dict) else {}
    # Version 0.1 did not seal its checkpoints, and did not say in them that it did.
    unsealed = said.keys() == {"facts"} and "sealed" not in told
    if not unsealed and said.pop("sha256", None) != _digest(said, tensors):
        raise InputError(
            f"The checkpoint {path} was changed after it was written (its checksum is wrong): "
            "delete it to start afresh."
        )
    check_known(told, path)
    parts: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        part, _, name = key.partition("/")
        parts.setdefault(part, {})[name] = value
    with fitting(path):
        model.load_state_dict(parts.pop("model"))
        state = parts.pop("optimiser")
        with torch.no_grad():
            for name, value in optimiser_state(optimiser).items():
                value.copy_(state[name])
    return facts, parts


def check_known(facts: object, path: Path) -> dict[str, Any]:
    """What a checkpoint says of its run, if that is all that a run must know."""
    told = facts if isinstance(facts, dict) else {}
    if not all(isinstance(told.get(name), kind) for name, kind in KNOWN.items()):
        raise InputError(f"The checkpoint {path} is not one of ours: delete it to start afresh.")
    return told


@contextmanager
def fitting(path: Path) -> Iterator[None]:
    """Say of weights that do not fit where they are put that they are of another run."""
    try:
        yield
    except UNFIT:
        raise InputError(
            f"The checkpoint {path} belongs to another model or other data: delete it to start "
            f"afresh, or use the settings it was made with."
        ) from None


def _digest(said: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    """A checksum of all that a checkpoint holds."""
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def optimiser_state(optimiser: RowOptimiser) -> dict[str, Tensor]:
    """What an optimiser keeps, by the number of the parameter and a name."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    return {
        f"{number}/{name}": value
        for number, parameter in enumerate(parameters)
        for name, value in optimiser.state[parameter].items()
    }
