"""The file of a model's weights: how it is written, and how a model gets its weights from one."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import safetensors.torch
from safetensors import safe_open

from knowledge_sheaves.embedding.config import SheafConfig
from knowledge_sheaves.embedding.folder import CONFIG, WEIGHTS
from knowledge_sheaves.embedding.narrow import PLAIN, narrowed, widened
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.model import SheafEmbedding


def write_weights(
    model: SheafEmbedding, path: Path, header: dict[str, str], tables: str = PLAIN
) -> None:
    """Write the weights of a model that is here, its tables in so many bits (`narrow`)."""
    weights = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
    safetensors.torch.save_file(narrowed(weights, tables), path, metadata=header)


def check_size(path: Path, choices: SheafConfig, graph: KnowledgeGraph) -> None:
    """Refuse sizes that the file does not bear out before memory is taken for them."""
    with safe_open(path, framework="np") as file:
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    held = sum(math.prod(shape) for shape in shapes)
    counts = np.bincount(graph.entity_types, minlength=len(graph.schema.types)).tolist()
    dims = [kind.dim or choices.dim for kind in graph.schema.types]
    needed = sum(map(mul, counts, dims)) * choices.sections
    if needed > held:
        raise InputError(
            f"the weights do not fit the configuration: {graph.num_entities:,} entities need "
            f"{needed:,} numbers, and there are {held:,}; take {CONFIG} and {WEIGHTS} from the "
            "same model."
        )


def fill_weights(model: SheafEmbedding, path: Path) -> None:
    weights = widened(safetensors.torch.load_file(path))
    check_shapes(
        {name: list(t.shape) for name, t in model.state_dict().items()},
        {name: list(t.shape) for name, t in weights.items()},
    )
    model.to(next(iter(weights.values())).dtype)
    # Tables stay where they are mapped from: what nobody looks at is not read. What is mapped
    # cannot be replaced on Windows.
    model.load_state_dict(weights, assign=os.name != "nt")


def check_shapes(shapes: Mapping[str, list[int]], found: Mapping[str, list[int]]) -> None:
    """Refuse weights that a model with tensors of these shapes does not have."""
    for name in sorted(shapes.keys() | found.keys()):
        if shapes.get(name) != found.get(name):
            raise InputError(
                f"the weights do not fit the configuration: {name!r} should have the shape "
                f"{shapes.get(name, 'of nothing')}, not {found.get(name, 'of nothing')}; take "
                f"{CONFIG} and {WEIGHTS} from the same model."
            )
