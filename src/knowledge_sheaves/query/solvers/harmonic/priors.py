"""What is known of an unknown before any edge speaks of it: the Gaussian of its type's entities."""

from __future__ import annotations

import torch

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.sheaf import BlockMap, Prior

SHRINK = 0.1
"""How far a covariance is drawn towards its mean variance: small types have few entities."""


def type_prior(model: SheafEmbedding, kind: int, strength: float) -> Prior:
    """λ times the Gaussian of a type's entities: their mean, and their covariance by blocks."""
    own = model.keep(("prior", kind), lambda: _gaussian(model, kind))
    return Prior(own.mean, BlockMap(strength * own.precision.blocks))


def _gaussian(model: SheafEmbedding, kind: int) -> Prior:
    x = model.entities.of_type(kind).detach()
    count = max(1, len(model.entities_of_type(kind)))
    mean = model.total(x.sum(0)) / count
    centred = (x - mean).movedim(0, 2).flatten(2)  # blocks, width, entities × sections
    covariance = model.total(centred @ centred.mT) / (count * x.shape[-1])
    variance = covariance.diagonal(dim1=-2, dim2=-1).mean().clamp(min=1e-12)
    identity = torch.eye(*covariance.shape[-2:], dtype=x.dtype, device=x.device)
    shrunk = (1 - SHRINK) * covariance + SHRINK * variance * identity
    return Prior(mean.flatten(0, 1), BlockMap(torch.linalg.inv(shrunk)))
