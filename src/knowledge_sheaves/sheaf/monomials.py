"""Evaluate quadratic forms at many points with one matrix product.

⟨x, S x⟩ is linear in the monomials x_i x_j of x, so the forms of a whole batch of queries at all
entities are one product of (forms × monomials) with (monomials × entities). How many monomials are
needed depends on S: none where S is zero, ‖x‖² alone where it is a multiple of the identity, one
square per block where it is so in every block, and all products within a block in general.

The entities that a query knows are in what is linear; S comes from its relations alone. So few S
are met often, and ⟨x, S x⟩ of those is kept.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.sheaf.blocks import to_blocks
from knowledge_sheaves.sheaf.recurring import Recurring, rows_by_content

WIDEST_EXPANDED_BLOCK = 64
"""Wider blocks have too many monomials: there the points are multiplied by S instead."""
AT_ONCE = 64
"""How many ⟨x, S x⟩ of all points are held beside a result."""


class Monomials(IntEnum):
    """Which monomials a form needs, from the narrowest to the most general."""

    NONE = 0
    NORM = 1
    BLOCKS = 2
    PRODUCTS = 3


class Forms(NamedTuple):
    """Forms that are linear in points and their monomials: weights · monomials + 2 ℓ · x + c."""

    linear: Tensor
    weights: Tensor | None
    kind: Monomials
    constant: Tensor | None


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
        self.flat = self.blocks.flatten(1)
        self._kept: dict[Monomials, Tensor] = {}
        self.squares = Recurring(most=self.flat.shape[1])  # no more than the points themselves

    def __len__(self) -> int:
        return len(self.flat)

    @property
    def sections(self) -> int:
        return self.blocks.shape[-1]

    def monomials(self, kind: Monomials) -> Tensor:
        """The monomials of every point, (n, width): computed once, then kept."""
        if kind not in self._kept:
            self._kept[kind] = self._expand(kind)
        return self._kept[kind]

    def _expand(self, kind: Monomials) -> Tensor:
        if kind is Monomials.NONE:
            return self.flat[:, :0]
        if kind is Monomials.NORM:
            return self.flat.square().sum(-1, keepdim=True)
        if kind is Monomials.BLOCKS:
            return self.blocks.square().sum((-2, -1))
        i, j = _pairs(self.blocks)
        if self.sections == 1:
            return (self.blocks[:, :, i] * self.blocks[:, :, j]).flatten(1)
        # Sections are summed by the product, so that they never stand beside each other.
        return (self.blocks @ self.blocks.mT)[:, :, i, j].flatten(1)

    def evaluate(
        self, square: Tensor, linear: Tensor, constant: Tensor, kind: Monomials | None = None
    ) -> Tensor:
        """⟨x, S x⟩ + 2⟨ℓ, x⟩ + c for S (..., n_blocks, w, w): (..., n).

        ``kind`` says what is known of S; without it, S is looked at.
        """
        batch = constant.shape
        square = square.reshape(-1, *square.shape[-3:])
        linear = linear.reshape(len(square), -1)
        constant = constant.reshape(-1)
        kind = needed_monomials(square) if kind is None else kind
        tracked = any(t.requires_grad for t in (square, linear, constant, self.flat))
        if kind > Monomials.NORM and not (tracked and torch.is_grad_enabled()):
            values = self._recurring(square, linear, constant, kind)
        else:
            values = self._all(square, linear, constant, kind)
        return values.reshape(*batch, len(self))

    def _recurring(
        self, square: Tensor, linear: Tensor, constant: Tensor, kind: Monomials
    ) -> Tensor:
        """Every S once, or as it was kept."""
        rows = rows_by_content(square)
        again = self.squares.meet(rows)
        if not again:
            return self._all(square, linear, constant, kind)
        values = self.product(linear, None, kind, constant)
        fresh = []
        for key, places in rows.items():
            known = self.squares.get(key)
            if known is None:
                fresh.append(key)
            else:
                _add(values, places, known)
        for start in range(0, len(fresh), AT_ONCE):
            some = fresh[start : start + AT_ONCE]
            found = self._square(square[[rows[key][0] for key in some]], kind)
            for key, value in zip(some, found, strict=True):
                _add(values, rows[key], value)
                if key in again:
                    self.squares.keep(key, value.clone())  # not a view of them all
        return values

    def forms(
        self, square: Tensor, linear: Tensor, constant: Tensor, kind: Monomials | None = None
    ) -> Forms | None:
        """What `evaluate` takes as rows of one product; None where blocks are too wide for that."""
        square = square.reshape(-1, *square.shape[-3:])
        kind = needed_monomials(square) if kind is None else kind
        if _is_wide(square, kind):
            return None
        rows = linear.reshape(len(square), -1)
        return Forms(rows, form_weights(square, kind), kind, constant.reshape(-1))

    def take(self, rows: Tensor) -> Candidates:
        """Some of the points."""
        return Candidates(self.blocks[rows].flatten(1, 2), self.blocks.shape[1])

    def _all(self, square: Tensor, linear: Tensor, constant: Tensor, kind: Monomials) -> Tensor:
        if _is_wide(square, kind):
            squares = self._square(square, kind) + constant.unsqueeze(-1)
            return torch.addmm(squares, linear, self.flat.T, alpha=2)
        return self.product(linear, form_weights(square, kind), kind, constant)

    def _square(self, square: Tensor, kind: Monomials) -> Tensor:
        """⟨x, S x⟩ of every form at every point: (forms, n)."""
        if not _is_wide(square, kind):
            return form_weights(square, kind) @ self.monomials(kind).T
        rows = []
        for s in square:  # one projection of all points per form, never (forms, points, dim)
            image = torch.einsum("nij,pnjk->pnik", s, self.blocks)
            rows.append((image * self.blocks).sum((-3, -2, -1)))
        return torch.stack(rows)

    def product(
        self, linear: Tensor, weights: Tensor | None, kind: Monomials, constant: Tensor | None
    ) -> Tensor:
        """weights · monomials + 2 ℓ · x + c, for forms that are rows already: (forms, n)."""
        if constant is None:
            values = (2 * linear) @ self.flat.T
        else:
            values = torch.addmm(constant.unsqueeze(-1), linear, self.flat.T, alpha=2.0)
        if weights is None or kind is Monomials.NONE:
            return values
        monomials = self.monomials(kind)
        if torch.is_grad_enabled() and (values.requires_grad or monomials.requires_grad):
            return torch.addmm(values, weights, monomials.T)
        return values.addmm_(weights, monomials.T)  # in place: the result is the largest tensor


def needed_monomials(square: Tensor) -> Monomials:
    """The narrowest monomials that evaluate forms S (forms, n_blocks, w, w) up to rounding."""
    if square.requires_grad:  # a gradient needs the entries that happen to be zero as well
        return Monomials.PRODUCTS
    if not square.any():
        return Monomials.NONE
    isotropic = square.diagonal(dim1=-2, dim2=-1).mean(-1)
    identity = torch.eye(square.shape[-1], dtype=square.dtype, device=square.device)
    if not _same(square, isotropic[..., None, None] * identity):
        return Monomials.PRODUCTS
    common = isotropic.mean(-1, keepdim=True)
    return Monomials.NORM if _same(isotropic, common) else Monomials.BLOCKS


def form_weights(square: Tensor, kind: Monomials) -> Tensor:
    """The coefficients of the monomials in forms S (forms, n_blocks, w, w): (forms, width)."""
    if kind is Monomials.NONE:
        return square.new_zeros(len(square), 0)
    if kind is Monomials.PRODUCTS:
        i, j = _pairs(square)
        return (square[..., i, j] * (2 - (i == j).to(square.dtype))).flatten(1)
    isotropic = square.diagonal(dim1=-2, dim2=-1).mean(-1)
    return isotropic.mean(-1, keepdim=True) if kind is Monomials.NORM else isotropic


def _is_wide(square: Tensor, kind: Monomials) -> bool:
    return kind is Monomials.PRODUCTS and square.shape[-1] > WIDEST_EXPANDED_BLOCK


def _add(values: Tensor, rows: list[int], what: Tensor) -> None:
    for row in rows:  # in place, and never a copy of several
        values[row] += what


def _pairs(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """The pairs of coordinates within a block (…, width, columns), each once."""
    width = blocks.shape[-2]
    i, j = torch.triu_indices(width, width, device=blocks.device)
    return i, j


def _same(a: Tensor, b: Tensor) -> bool:
    """Equal up to the rounding of the sums that made them."""
    error, size = (a - b).abs().flatten(1).amax(1), a.abs().flatten(1).amax(1)
    return bool((error <= 16 * torch.finfo(a.dtype).eps * size).all())
