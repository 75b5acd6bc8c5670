"""The mathematics: cellular sheaves, block maps, the Laplacian and harmonic extension."""

from __future__ import annotations

from knowledge_sheaves.sheaf.blocks import BlockMap
from knowledge_sheaves.sheaf.cellular import CellularSheaf
from knowledge_sheaves.sheaf.gaussian import Gaussian, log_density, log_potentials
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
from knowledge_sheaves.sheaf.regions import Ball, HalfSpace, Probability
from knowledge_sheaves.sheaf.valued import (
    Euclidean,
    MetricSpace,
    Rotations,
    Space,
    Torus,
    ValuedSheaf,
)

__all__ = [
    "Ball",
    "BlockMap",
    "Candidates",
    "CellularSheaf",
    "Euclidean",
    "Extension",
    "Gaussian",
    "HalfSpace",
    "HyperbolicBall",
    "InducedMaps",
    "MetricSpace",
    "MoebiusMaps",
    "Prior",
    "Probability",
    "QuadraticForm",
    "RelationMaps",
    "Rotations",
    "Space",
    "Torus",
    "TwoLayerMaps",
    "ValuedSheaf",
    "energy_form",
    "harmonic_extension",
    "log_density",
    "log_potentials",
    "schur_complement",
]
