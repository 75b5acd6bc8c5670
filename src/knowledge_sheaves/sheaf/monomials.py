"""Evaluate quadratic forms at many points with one matrix product.

⟨x, S x⟩ is linear in the monomials x_i x_j of x, so the forms of a whole batch of queries at all
entities are one product of (forms × monomials) with (monomials × entities). How many monomials are
needed depends on S: ‖x‖² alone where S is a multiple of the identity, one square per block where S
is so in every block, and all products within a block in general.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.sheaf.blocks import to_blocks

WIDEST_EXPANDED_BLOCK = 64
"""Wider blocks have too many monomials: there the points are multiplied by S instead."""


class Candidates:
    """Points (n, dim) or (n, dim, k) at which forms are evaluated, with their monomials kept.

    >>> points = Candidates(torch.tensor([[1.0, 2.0], [0.0, 3.0]]), n_blocks=2)
    >>> square, linear = torch.tensor([[[2.0]], [[1.0]]]), torch.zeros(2, 1, 1)
    >>> points.evaluate(square, linear, torch.tensor(0.5))
    tensor([6.5000, 9.5000])
    """

    def __init__(self, points: Tensor, n_blocks: int) -> None:
        if points.ndim not in (2, 3):
            raise InputError(
                f"Candidates are (n, dim) or (n, dim, k), not {tuple(points.shape)} in shape."
            )
        points = points.unsqueeze(-1) if points.ndim == 2 else points
        self.blocks = to_blocks(points, n_blocks)

    @property
    def sections(self) -> int:
        return self.blocks.shape[-1]

    @cached_property
    def flat(self) -> Tensor:
        return self.blocks.flatten(1)

    @cached_property
    def block_squares(self) -> Tensor:
        return self.blocks.square().sum((-2, -1))

    @cached_property
    def squared_norm(self) -> Tensor:
        return self.block_squares.sum(-1, keepdim=True)

    @cached_property
    def products(self) -> Tensor:
        i, j = self._pairs()
        return (self.blocks[:, :, i] * self.blocks[:, :, j]).sum(-1).flatten(1)

    def evaluate(self, square: Tensor, linear: Tensor, constant: Tensor) -> Tensor:
        """⟨x, S x⟩ + 2⟨ℓ, x⟩ + c for S (..., n_blocks, w, w): (..., n)."""
        batch = constant.shape
        square = square.reshape(-1, *square.shape[-3:])
        linear = linear.reshape(len(square), -1)
        values = self._quadratic(square, linear, constant.reshape(-1))
        return values.reshape(*batch, len(self.flat))

    def _quadratic(self, square: Tensor, linear: Tensor, constant: Tensor) -> Tensor:
        isotropic = square.diagonal(dim1=-2, dim2=-1).mean(-1)
        # A gradient with respect to S needs its entries, also where they happen to be zero.
        simple = not square.requires_grad
        if simple and _same(square, isotropic[..., None, None] * _eye_like(square)):
            common = isotropic.mean(-1, keepdim=True)
            if _same(isotropic, common):
                return self._product(linear, common, self.squared_norm, constant)
            return self._product(linear, isotropic, self.block_squares, constant)
        if square.shape[-1] > WIDEST_EXPANDED_BLOCK:
            return self._projected(square, linear, constant)
        i, j = self._pairs()
        weight = torch.where(i == j, 1.0, 2.0).to(square.dtype)
        return self._product(
            linear, (square[..., i, j] * weight).flatten(1), self.products, constant
        )

    def _product(
        self, linear: Tensor, weights: Tensor, monomials: Tensor, constant: Tensor
    ) -> Tensor:
        values = torch.addmm(constant.unsqueeze(-1), linear, self.flat.T, alpha=2.0)
        if torch.is_grad_enabled() and (values.requires_grad or monomials.requires_grad):
            return torch.addmm(values, weights, monomials.T)
        return values.addmm_(weights, monomials.T)  # in place: the result is the largest tensor

    def _projected(self, square: Tensor, linear: Tensor, constant: Tensor) -> Tensor:
        rows = []
        for s in square:  # one projection of all points per form, never (forms, points, dim)
            image = torch.einsum("nij,pnjk->pnik", s, self.blocks)
            rows.append((image * self.blocks).sum((-3, -2, -1)))
        return torch.addmm(torch.stack(rows) + constant.unsqueeze(-1), linear, self.flat.T, alpha=2)

    def _pairs(self) -> tuple[Tensor, Tensor]:
        width = self.blocks.shape[-2]
        i, j = torch.triu_indices(width, width, device=self.blocks.device)
        return i, j


def _eye_like(square: Tensor) -> Tensor:
    return torch.eye(square.shape[-1], dtype=square.dtype, device=square.device)


def _same(a: Tensor, b: Tensor) -> bool:
    """Equal up to the rounding of the sums that made them."""
    error, size = (a - b).abs().flatten(1).amax(1), a.abs().flatten(1).amax(1)
    return bool((error <= 16 * torch.finfo(a.dtype).eps * size).all())
