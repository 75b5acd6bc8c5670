"""Weights and scores that are no numbers: refused when saved, named where somebody meets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.model import SheafEmbedding


def not_numbers(weights: Mapping[str, Tensor]) -> str | None:
    """Say which weights are not all finite, or None where they are.

    >>> import torch
    >>> not_numbers({"maps": torch.zeros(3), "entities": torch.tensor([1.0, torch.nan])})
    "1 of the 2 numbers of 'entities' is NaN or infinite"
    """
    for name, tensor in weights.items():
        if bool(tensor.sum().isfinite()):  # one pass; a sum of numbers may still be too large
            continue
        wrong = tensor.numel() - int(tensor.isfinite().sum())
        if wrong:
            verb = "is" if wrong == 1 else "are"
            return f"{wrong:,} of the {tensor.numel():,} numbers of {name!r} {verb} NaN or infinite"
    return None


def are_moderate(model: SheafEmbedding) -> bool:
    """Whether no score can be too large for a number: looked at once, and not at every score.

    An energy is of the fourth degree in the weights at most, a map and a vector squared.
    """
    kept: bool = model.keep("moderate weights", lambda: _are_moderate(model))
    return kept


def _are_moderate(model: SheafEmbedding) -> bool:
    most = torch.finfo(torch.float32).max ** 0.2
    return all(float(weights.norm()) < most for weights in model.parameters())  # not so for NaN


def check_weights(model: SheafEmbedding) -> None:
    """Refuse a model whose weights are not all numbers, before it is measured or saved."""
    problem = not_numbers(model.state_dict())
    if problem:
        raise InputError(
            f"The model's weights are damaged ({problem}): train it again, with a smaller "
            "learning_rate if that is where it comes from, or restore it from a copy."
        )


def check_scores(model: SheafEmbedding, scores: Tensor) -> None:
    """Refuse scores among which is NaN, and say which weights they come from.

    Infinite ones are sound: they stand where the schema rules an entity out.
    """
    if bool(scores.isnan().any()):
        check_weights(model)
        raise InputError(
            "A score of the model is not a number, although its weights are: they are too large; "
            "train again with a smaller learning_rate."
        )
