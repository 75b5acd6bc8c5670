"""Restriction maps with parameters: one module for all relations, a map for each of them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from knowledge_sheaves.errors import InputError

Activation = Callable[[Tensor], Tensor]


class RelationMaps(nn.Module):
    """A differentiable map for every relation, its parameters side by side.

    A subclass has parameters whose first axis is the relation, and a ``forward(x, relation)`` for
    points (..., dim) and relations (...). ``maps[r]`` is the map of one relation, to be given to a
    `ValuedSheaf`, and stays tied to the parameters.
    """

    def __init__(self, relations: int) -> None:
        super().__init__()
        self.relations = relations

    def __len__(self) -> int:
        return self.relations

    def __getitem__(self, relation: int) -> Callable[[Tensor], Tensor]:
        if not 0 <= relation < self.relations:
            raise InputError(f"There are maps for {self.relations} relations, none for {relation}.")
        return lambda x: self(x, torch.as_tensor(relation).expand(x.shape[:-1]))


class TwoLayerMaps(RelationMaps):
    """x ↦ B_r σ(A_r x + c_r) + z_r: a small network at an end of every relation.

    With the identity for σ it is the linear model again, with the map BA and the translation
    Bc + z.

    >>> maps = TwoLayerMaps(2, source=3, hidden=4, target=1, activation=lambda x: x)
    >>> maps.linear(0).shape, maps.shift(0).shape
    (torch.Size([1, 3]), torch.Size([1]))
    """

    def __init__(
        self,
        relations: int,
        source: int,
        hidden: int,
        target: int,
        activation: Activation = torch.tanh,
    ) -> None:
        super().__init__(relations)
        self.activation = activation
        self.inner = nn.Parameter(torch.randn(relations, hidden, source) / source**0.5)
        self.outer = nn.Parameter(torch.randn(relations, target, hidden) / hidden**0.5)
        self.inner_shift = nn.Parameter(torch.zeros(relations, hidden))
        self.outer_shift = nn.Parameter(torch.zeros(relations, target))

    def forward(self, x: Tensor, relation: Tensor) -> Tensor:
        inner, outer = self.inner[relation].to(x), self.outer[relation].to(x)
        first = (inner @ x.unsqueeze(-1)).squeeze(-1) + self.inner_shift[relation].to(x)
        second = (outer @ self.activation(first).unsqueeze(-1)).squeeze(-1)
        return second + self.outer_shift[relation].to(x)

    def linear(self, relation: int) -> Tensor:
        """BA: the map of a relation where the activation is the identity."""
        return self.outer[relation] @ self.inner[relation]

    def shift(self, relation: int) -> Tensor:
        """Bc + z: the translation of a relation where the activation is the identity."""
        return self.outer[relation] @ self.inner_shift[relation] + self.outer_shift[relation]
