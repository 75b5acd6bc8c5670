"""Block-diagonal linear maps: the one representation of every restriction map.

Identity, diagonal, rotation, orthogonal and dense maps are the same thing with other block sizes,
so a sum over coordinates, a rotation of planes and a full matrix share all their code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import torch
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.sheaf.linalg import psd_solve


def to_blocks(x: Tensor, n_blocks: int) -> Tensor:
    """View a cochain (dim,) or (..., dim, k) as blocks (..., n_blocks, width, k)."""
    x = x.unsqueeze(-1) if x.ndim == 1 else x
    return x.unflatten(-2, (n_blocks, -1))


def from_blocks(blocks: Tensor, like: Tensor) -> Tensor:
    """Undo `to_blocks`; a result of one column is a plain vector where ``like`` was one."""
    x = blocks.flatten(-3, -2)
    return x.squeeze(-1) if like.ndim == 1 and x.ndim == 2 else x


@dataclass(frozen=True, eq=False)
class BlockMap:
    """A linear map made of equal blocks along the diagonal, or a batch of such maps.

    ``blocks`` has shape (..., n_blocks, rows, cols): a map from n_blocks·cols to n_blocks·rows
    dimensions. Vectors are (dim,), and matrices or batches of them (..., dim, k).

    >>> quarter_turn = BlockMap.from_complex(torch.tensor([1j]))
    >>> quarter_turn @ torch.tensor([1.0, 2.0])
    tensor([-2.,  1.])
    >>> quarter_turn.gram().dense()
    tensor([[1., 0.],
            [0., 1.]])
    """

    blocks: Tensor
    is_identity: bool = False
    """Whether it is known to change nothing, so that products with it need not be computed."""

    def __post_init__(self) -> None:
        if self.blocks.ndim < 3:
            raise InputError(
                f"A BlockMap needs blocks of shape (..., n_blocks, rows, cols), not "
                f"{tuple(self.blocks.shape)}; use BlockMap.from_dense for a plain matrix."
            )

    @property
    def n_blocks(self) -> int:
        return self.blocks.shape[-3]

    @property
    def rows(self) -> int:
        """Dimension of the space the map goes to."""
        return self.n_blocks * self.blocks.shape[-2]

    @property
    def cols(self) -> int:
        """Dimension of the space the map comes from."""
        return self.n_blocks * self.blocks.shape[-1]

    @property
    def batch_shape(self) -> torch.Size:
        return self.blocks.shape[:-3]

    @property
    def adjoint(self) -> BlockMap:
        return BlockMap(self.blocks.mT)

    @overload
    def __matmul__(self, other: BlockMap) -> BlockMap: ...
    @overload
    def __matmul__(self, other: Tensor) -> Tensor: ...
    def __matmul__(self, other: BlockMap | Tensor) -> BlockMap | Tensor:
        if isinstance(other, BlockMap):
            self._check(other.rows, other.n_blocks)
            return BlockMap(self.blocks @ other.blocks)
        self._check(other.shape[-2] if other.ndim > 1 else other.shape[-1], self.n_blocks)
        return from_blocks(self.blocks @ to_blocks(other, self.n_blocks), other)

    def gram(self) -> BlockMap:
        """FᵀF, the map's own Laplacian."""
        return self.adjoint @ self

    def solve(self, rhs: Tensor) -> Tensor:
        """The least-squares solution of ``self @ x = rhs`` of smallest norm."""
        self._check_rows(rhs)
        right = to_blocks(rhs, self.n_blocks)
        if self.rows == self.cols:
            solution, info = torch.linalg.solve_ex(self.blocks, right)
            if not info.any() and solution.isfinite().all():
                return from_blocks(solution, rhs)
        return from_blocks(torch.linalg.pinv(self.blocks) @ right, rhs)

    def solve_gram(self, rhs: Tensor) -> Tensor:
        """The solution of ``FᵀF x = rhs`` (smallest norm where FᵀF is singular)."""
        return from_blocks(psd_solve(self.gram().blocks, to_blocks(rhs, self.n_blocks)), rhs)

    def dense(self) -> Tensor:
        """The map as one matrix (..., rows, cols)."""
        n, r, c = self.blocks.shape[-3:]
        out = self.blocks.new_zeros(*self.batch_shape, n, r, n, c)
        index = torch.arange(n, device=self.blocks.device)
        out[..., index, :, index, :] = self.blocks.movedim(-3, 0)
        return out.reshape(*self.batch_shape, n * r, n * c)

    def split(self, n_blocks: int) -> BlockMap:
        """The same map in another number of blocks, where its zeros allow that."""
        if n_blocks == self.n_blocks:
            return self
        dense = self.dense()
        r, c = self.rows // n_blocks, self.cols // n_blocks
        if n_blocks * r != self.rows or n_blocks * c != self.cols:
            raise InputError(
                f"A {self.rows} × {self.cols} map cannot be cut into {n_blocks} equal blocks."
            )
        tiles = dense.unflatten(-2, (n_blocks, r)).unflatten(-1, (n_blocks, c))
        result = BlockMap(torch.diagonal(tiles, dim1=-4, dim2=-2).movedim(-1, -3))
        if not torch.equal(result.dense(), dense):
            raise InputError(f"The map is not zero outside {n_blocks} diagonal blocks.")
        return result

    def __getitem__(self, index: Tensor | int) -> BlockMap:
        """Pick maps out of a batch."""
        return BlockMap(self.blocks[index])

    def to(self, dtype: torch.dtype) -> BlockMap:
        return BlockMap(self.blocks.to(dtype), self.is_identity)

    def _check(self, rows: int, n_blocks: int) -> None:
        if rows != self.cols or n_blocks != self.n_blocks:
            raise InputError(
                f"A map from {self.cols} dimensions in {self.n_blocks} blocks cannot act on "
                f"{rows} dimensions in {n_blocks} blocks."
            )

    def _check_rows(self, rhs: Tensor) -> None:
        rows = rhs.shape[-2] if rhs.ndim > 1 else rhs.shape[-1]
        if rows != self.rows:
            raise InputError(f"A map to {self.rows} dimensions cannot equal a {rows}-vector.")

    @classmethod
    def identity(cls, dim: int, n_blocks: int | None = None) -> BlockMap:
        """The identity, in blocks of size 1 unless told otherwise."""
        n = dim if n_blocks is None else n_blocks
        return cls(torch.eye(dim // n).expand(n, -1, -1), is_identity=True)

    @classmethod
    def diagonal(cls, scale: Tensor) -> BlockMap:
        """Scale every coordinate: blocks of size 1."""
        return cls(scale[..., None, None])

    @classmethod
    def from_complex(cls, z: Tensor) -> BlockMap:
        """Multiplication by complex numbers, as scaled rotations of planes (re, im).

        >>> BlockMap.from_complex(torch.tensor([3 + 4j])).dense()
        tensor([[ 3., -4.],
                [ 4.,  3.]])
        """
        return cls(torch.stack([z.real, -z.imag, z.imag, z.real], -1).unflatten(-1, (2, 2)))

    @classmethod
    def rotation(cls, angles: Tensor) -> BlockMap:
        """Rotate plane i by angle i."""
        return cls.from_complex(torch.polar(torch.ones_like(angles), angles))

    @classmethod
    def reflection(cls, angles: Tensor) -> BlockMap:
        """Reflect plane i across the line at half of angle i."""
        cos, sin = angles.cos(), angles.sin()
        return cls(torch.stack([cos, sin, sin, -cos], -1).unflatten(-1, (2, 2)))

    @classmethod
    def orthogonal(cls, blocks: Tensor) -> BlockMap:
        """The nearest maps with orthonormal rows or columns, whichever are fewer."""
        u, _, vt = torch.linalg.svd(blocks, full_matrices=False)
        return cls(u @ vt)

    @classmethod
    def from_dense(cls, matrix: Tensor, n_blocks: int = 1) -> BlockMap:
        """A plain matrix (..., rows, cols), which must be zero outside the blocks asked for."""
        return cls(matrix.unsqueeze(-3)).split(n_blocks)


def as_block_map(value: BlockMap | Tensor, n_blocks: int = 1) -> BlockMap:
    """Take a plain matrix for a map where a user gives one."""
    if isinstance(value, BlockMap):
        return value.split(n_blocks) if n_blocks != value.n_blocks else value
    return BlockMap.from_dense(value, n_blocks)
