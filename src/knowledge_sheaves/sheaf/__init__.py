"""The mathematics: cellular sheaves, block maps, the Laplacian and harmonic extension."""

from __future__ import annotations

from knowledge_sheaves.sheaf.blocks import BlockMap
from knowledge_sheaves.sheaf.cellular import CellularSheaf
from knowledge_sheaves.sheaf.harmonic import (
    Extension,
    energy_form,
    harmonic_extension,
    schur_complement,
)
from knowledge_sheaves.sheaf.hyperbolic import HyperbolicBall, MoebiusMaps
from knowledge_sheaves.sheaf.maps import RelationMaps, TwoLayerMaps
from knowledge_sheaves.sheaf.monomials import Candidates
from knowledge_sheaves.sheaf.quadratic import InducedMaps, Prior, QuadraticForm
from knowledge_sheaves.sheaf.valued import (
    Euclidean,
    MetricSpace,
    Rotations,
    Space,
    Torus,
    ValuedSheaf,
)

__all__ = [
    "BlockMap",
    "Candidates",
    "CellularSheaf",
    "Euclidean",
    "Extension",
    "HyperbolicBall",
    "InducedMaps",
    "MetricSpace",
    "MoebiusMaps",
    "Prior",
    "QuadraticForm",
    "RelationMaps",
    "Rotations",
    "Space",
    "Torus",
    "TwoLayerMaps",
    "ValuedSheaf",
    "energy_form",
    "harmonic_extension",
    "schur_complement",
]
