"""The first new answers of a query, shown or not: how far the best leads, and who comes before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding.search.top import top
from knowledge_sheaves.graph import IntArray
from knowledge_sheaves.query.solvers.base import Combinations
from knowledge_sheaves.ranking.shares import AHEAD


class First(NamedTuple):
    """The energies and scores of the first new answers."""

    energies: Tensor
    scores: Tensor

    @classmethod
    def of(cls, found: Combinations, new: Tensor) -> First:
        """Those among answers that were found."""
        p = torch.zeros(len(new)) if found.probabilities is None else found.probabilities.cpu()
        return cls(found.energies.cpu()[new][:AHEAD], p[new][:AHEAD])

    @property
    def second(self) -> float:
        """The score of the second.

        Who stands alone, because nobody else was asked for or looked for, does not lead by far: it
        is its own second.
        """
        return float(self.scores[:2][-1]) if len(self.scores) else 0.0


def first_of_all(energies: Tensor, chances: Tensor, facts: IntArray | None) -> First:
    """Those of one query among all entities."""
    new = energies.clone()
    if facts is not None:
        new[torch.from_numpy(np.asarray(facts, np.int64).ravel()).to(new.device)] = torch.inf
    values, ids = top(new.unsqueeze(0), AHEAD)
    there = values[0].isfinite()
    return First(values[0][there].cpu(), chances[ids[0][there]].cpu())


def is_known(found: Combinations, facts: IntArray | None) -> Tensor:
    """Which answers the facts hold."""
    if facts is None:
        return torch.zeros(len(found.ids), dtype=torch.bool)
    held = set(map(tuple, facts.reshape(-1, found.ids.shape[1]).tolist()))
    return torch.tensor([tuple(row) in held for row in found.ids.tolist()], dtype=torch.bool)
