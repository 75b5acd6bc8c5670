"""Batched solves with small positive semidefinite matrices, singular ones included.

LAPACK is called once per matrix, which costs more than the arithmetic when the matrices are tiny
and there are a million of them. Up to `UNROLLED` columns the factorisation is therefore written
out over the entries, each entry a vector over the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

UNROLLED = 6

Solver = Callable[[Tensor], Tensor]


def psd_solve(matrix: Tensor, rhs: Tensor, scale: Tensor | None = None) -> Tensor:
    """Solve ``matrix @ x = rhs`` for symmetric positive semidefinite matrices (..., n, n).

    Cholesky where a matrix is regular, its pseudoinverse where it is not, so that x has the
    smallest norm among the least-squares solutions. ``scale`` (...) is the size of the numbers
    that the matrix was computed from, if larger than its own: what is tiny beside it is rounding.
    Gradients flow through both.

    >>> psd_solve(torch.diag(torch.tensor([4.0, 0.0])), torch.tensor([[8.0], [0.0]])).T
    tensor([[2., 0.]])
    """
    if matrix.shape[-1] == 0:
        return rhs
    if scale is None:
        scale = diagonal_scale(matrix)
    solve, singular = _factorise(matrix, scale)
    if not bool(singular.any()):
        return solve(rhs)
    batch = common_shape(matrix.shape[:-2], rhs.shape[:-2])
    matrix, rhs = matrix.expand(*batch, -1, -1), rhs.expand(*batch, -1, -1)
    singular, scale = singular.expand(batch), scale.expand(batch)
    solution = torch.empty_like(rhs)
    solution[singular] = pseudoinverse(matrix[singular], scale[singular]) @ rhs[singular]
    if not bool(singular.all()):
        solve, _ = _factorise(matrix[~singular], scale[~singular])
        solution[~singular] = solve(rhs[~singular])
    return solution


def common_shape(*shapes: torch.Size) -> torch.Size:
    """What shapes broadcast to; torch takes as long to tell as a small product does.

    >>> common_shape(torch.Size([3, 1]), torch.Size([4]))
    torch.Size([3, 4])
    """
    first = shapes[0] if shapes else torch.Size()
    return first if all(s == first for s in shapes) else torch.broadcast_shapes(*shapes)


def diagonal_scale(matrix: Tensor) -> Tensor:
    """The largest diagonal entry: within a factor n of the norm for semidefinite matrices."""
    return torch.diagonal(matrix.detach(), dim1=-2, dim2=-1).amax(-1)


def pseudoinverse(matrix: Tensor, scale: Tensor | None = None) -> Tensor:
    """Pseudoinverse of symmetric positive semidefinite matrices.

    An eigenvalue with three quarters of its digits lost counts as zero: after a few eliminations
    rounding reaches that far.
    """
    tolerance = torch.finfo(matrix.dtype).eps ** 0.75
    atol = tolerance * (diagonal_scale(matrix) if scale is None else scale)
    return torch.linalg.pinv(matrix, hermitian=True, rtol=torch.zeros_like(atol), atol=atol)


def _factorise(matrix: Tensor, scale: Tensor) -> tuple[Solver, Tensor]:
    """A solver for the regular matrices of the batch, and which ones are not."""
    if matrix.shape[-1] <= UNROLLED:
        lower, pivots = _unrolled_ldl(matrix)
        smallest = torch.stack([p.detach() for p in pivots]).amin(0)
        return lambda rhs: _unrolled_solve(lower, pivots, rhs), _too_small(smallest, scale)
    factor, info = torch.linalg.cholesky_ex(matrix)
    smallest = torch.diagonal(factor.detach(), dim1=-2, dim2=-1).amin(-1).square()
    return lambda rhs: _cholesky_solve(factor, rhs), _too_small(smallest, scale) | (info != 0)


def _too_small(pivot: Tensor, scale: Tensor) -> Tensor:
    # Half of the digits lost. The pivots of a singular matrix are rounding divided by earlier
    # pivots, so this must lie well above rounding; eigenvalues then tell what is zero.
    return ~(pivot > torch.finfo(pivot.dtype).eps ** 0.5 * scale)  # true for NaN


def _cholesky_solve(factor: Tensor, rhs: Tensor) -> Tensor:
    batch = common_shape(factor.shape[:-2], rhs.shape[:-2])
    return torch.cholesky_solve(rhs.expand(*batch, -1, -1), factor.expand(*batch, -1, -1))


def _unrolled_solve(lower: list[list[Tensor]], pivots: list[Tensor], rhs: Tensor) -> Tensor:
    n = len(pivots)
    x = [rhs[..., i, :] for i in range(n)]
    for i in range(n):
        for j in range(i):
            x[i] = x[i] - lower[i][j].unsqueeze(-1) * x[j]
    x = [xi / pivot.unsqueeze(-1) for xi, pivot in zip(x, pivots, strict=True)]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            x[i] = x[i] - lower[j][i].unsqueeze(-1) * x[j]
    return torch.stack(torch.broadcast_tensors(*x), -2)


def _unrolled_ldl(matrix: Tensor) -> tuple[list[list[Tensor]], list[Tensor]]:
    """matrix = L D Lᵀ with unit lower L: returns L's rows (left of the diagonal) and D."""
    lower: list[list[Tensor]] = []
    pivots: list[Tensor] = []
    for i in range(matrix.shape[-1]):
        row: list[Tensor] = []
        scaled: list[Tensor] = []  # L_ij D_j, kept because both factors are needed later
        for j in range(i):
            value = matrix[..., i, j]
            for k in range(j):
                value = value - scaled[k] * lower[j][k]
            scaled.append(value)
            row.append(value / pivots[j])
        pivot = matrix[..., i, i]
        for k in range(i):
            pivot = pivot - scaled[k] * row[k]
        lower.append(row)
        pivots.append(pivot)
    return lower, pivots
