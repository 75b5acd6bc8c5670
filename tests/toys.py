"""An energy and a loss of somebody's own: what CONTRIBUTING says is all there is to it."""

from __future__ import annotations

from torch import Tensor

from knowledge_sheaves.embedding.energies import Energy
from knowledge_sheaves.training.losses import TripleLoss


class Blunt(Energy):
    """Σ log(1 + ρ²): coordinates that are far off count little more than others."""

    name = space = "blunt"

    def measure(self, residual: Tensor) -> Tensor:
        return residual.square().log1p().sum(-1)


class SmoothMargin(TripleLoss):
    """log(1 + exp(V + γ − Ṽ)): a margin without a kink."""

    name = "smooth-margin"

    def __call__(self, scores: Tensor, corrupted: Tensor) -> Tensor:
        gap = scores + self.config.margin - corrupted
        return gap.exp().log1p().mean()
