"""The hyperbolic ball as a stalk, with Möbius maps between balls.

In a ball of curvature −c the room grows exponentially with the distance from the centre, as the
number of nodes of a tree does with its depth. Formulas: Ungar's gyrovector spaces, as in Ganea,
Bécigneul and Hofmann, *Hyperbolic Neural Networks* (2018); a matrix at the head and an addition at
the tail are MuRP (Balažević, Allen and Hospedales, 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from knowledge_sheaves.sheaf.maps import RelationMaps

EDGE = 1e-12
"""Nearer to the rim than this, relative to the radius, rounding leaves the ball."""


@dataclass(frozen=True)
class HyperbolicBall:
    """The open ball of radius 1/√c in ℝ^dim with the Poincaré metric of curvature −c.

    >>> ball = HyperbolicBall(1)
    >>> a, b = torch.tensor([0.0]), torch.tensor([0.5])
    >>> ball.distance(a, b)                 # 2 artanh ½
    tensor(1.0986)
    >>> ball.add(b, b)                      # velocities add up like that
    tensor([0.8000])
    """

    dim: int
    curvature: float = 1.0
    power: float = 1

    def point(self, coordinates: Tensor) -> Tensor:
        """The exponential map at the centre: every vector of ℝ^dim is a point."""
        length = _length(self._root * coordinates)
        return self._inside(torch.tanh(length) / length * coordinates)

    def coordinates(self, point: Tensor) -> Tensor:
        """The logarithm at the centre: the inverse of `point`."""
        length = _length(self._root * point)
        return torch.atanh(length.clamp(max=1 - EDGE)) / length * point

    def random(self, generator: torch.Generator) -> Tensor:
        return torch.randn(self.dim, generator=generator, dtype=torch.float64)

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """a ⊕ b: the translation that takes the centre to a, applied to b."""
        c = self.curvature
        ab = (a * b).sum(-1, keepdim=True)
        aa, bb = (v.square().sum(-1, keepdim=True) for v in (a, b))
        top = (1 + 2 * c * ab + c * bb) * a + (1 - c * aa) * b
        return self._inside(top / (1 + 2 * c * ab + c * c * aa * bb))

    def difference(self, a: Tensor, b: Tensor) -> Tensor:
        """(−a) ⊕ b: where b is once a has been moved to the centre."""
        return self.add(-a, b)

    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        """2/√c arsinh √(c‖a − b‖² / ((1 − c‖a‖²)(1 − c‖b‖²))): exact for near points too."""
        c = self.curvature
        aa, bb = (1 - c * v.square().sum(-1) for v in (a, b))
        root = torch.linalg.vector_norm(b - a, dim=-1) * (c / (aa * bb)).sqrt()
        return 2 / self._root * torch.asinh(root)

    @property
    def _root(self) -> float:
        return float(self.curvature**0.5)

    def _inside(self, point: Tensor) -> Tensor:
        edge = (1 - EDGE**0.5 if point.dtype is torch.float32 else 1 - EDGE) / self._root
        length = torch.linalg.vector_norm(point, dim=-1, keepdim=True)
        return torch.where(length > edge, point * (edge / length.clamp(min=edge)), point)


class MoebiusMaps(RelationMaps):
    """x ↦ (M_r ⊗ x) ⊕ z_r: a matrix in the tangent space of the centre, then a translation.

    M ⊗ x = exp₀(M log₀ x). They begin as the identity and the zero translation.

    >>> maps = MoebiusMaps(3, HyperbolicBall(2), HyperbolicBall(2))
    >>> x = torch.tensor([[0.1, 0.2]])
    >>> bool(torch.allclose(maps(x, torch.tensor([2])), x))
    True
    """

    def __init__(self, relations: int, source: HyperbolicBall, target: HyperbolicBall) -> None:
        super().__init__(relations)
        self.source, self.target = source, target
        identity = torch.eye(target.dim, source.dim)
        self.matrix = nn.Parameter(identity.repeat(relations, 1, 1))
        self.translation = nn.Parameter(torch.zeros(relations, target.dim))

    def forward(self, x: Tensor, relation: Tensor) -> Tensor:
        tangent = self.source.coordinates(x)
        image = (self.matrix[relation].to(x) @ tangent.unsqueeze(-1)).squeeze(-1)
        shift = self.target.point(self.translation[relation].to(x))
        return self.target.add(self.target.point(image), shift)


def _length(vector: Tensor) -> Tensor:
    """The norm, kept away from 0: what is divided by it goes to 0 as fast."""
    return torch.linalg.vector_norm(vector, dim=-1, keepdim=True).clamp(min=1e-15)
