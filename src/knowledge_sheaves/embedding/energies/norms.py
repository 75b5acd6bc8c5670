"""Scores in other norms than the Euclidean one, and of projections cut to a length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from knowledge_sheaves.embedding.energies.base import Energy
from knowledge_sheaves.embedding.energies.square import euclidean

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.config import SheafConfig


class Norm(Energy):
    """‖ρ‖_norm^power, with F_h x_h and F_t x_t no longer than ``clamp``."""

    name = "norm"

    @classmethod
    def claims(cls, config: SheafConfig) -> bool:
        return super().claims(config) and not euclidean(config)

    @property
    def notes(self) -> list[str]:
        found, config = [], self.config
        if config.norm != 2:
            found.append(
                f"Scores use the norm of order {config.norm:g}; harmonic extension minimises the "
                "squared Euclidean norm."
            )
        if config.clamp is not None:
            found.append(
                f"Scores clamp projected entities to length {config.clamp:g}; harmonic extension "
                "does not."
            )
        return found

    def shorten(self, vectors: Tensor) -> Tensor:
        longest = self.config.clamp
        if longest is None:
            return vectors
        flat = vectors.flatten(1)
        lengths = torch.linalg.vector_norm(flat, self.config.norm, dim=1, keepdim=True)
        return (flat * (longest / lengths.clamp(min=longest))).reshape(vectors.shape)

    def distances(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.cdist(a, b, p=self.config.norm) ** self.config.power
