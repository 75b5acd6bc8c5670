"""Global sections, spectra and heat flow of a sheaf: dense for small sheaves, sparse for large.

All of it is computed in double precision. What a sheaf's maps are rounded to decides only what
counts as zero: maps in float32 that should close up do so to seven digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
import torch
from torch import Tensor

if TYPE_CHECKING:
    from knowledge_sheaves.sheaf.cellular import CellularSheaf

DENSE_LIMIT = 1500
"""Vertex dimensions up to which a dense decomposition is quicker than sparse iterations."""


def rounding(dtype: torch.dtype) -> float:
    """What counts as zero beside δ's largest singular value, for maps of a number type."""
    return max(1e-9, 16 * torch.finfo(dtype).eps)


def global_sections(sheaf: CellularSheaf, tol: float | None) -> Tensor:
    """An orthonormal basis of ker δ; ``tol`` is relative to δ's largest singular value."""
    size = int(sheaf.vertex_offsets[-1])
    tol = rounding(sheaf.zeros().dtype) if tol is None else tol
    if size <= DENSE_LIMIT:
        _, values, vt = torch.linalg.svd(sheaf.coboundary().double(), full_matrices=True)
        rank = int((values > tol * values.max()).sum()) if len(values) else 0
        return vt[rank:].mT.to(sheaf.zeros())
    return _like(sheaf, _sparse_kernel(sheaf.laplacian_sparse(), tol))


def _sparse_kernel(laplacian: sp.csr_array, tol: float) -> np.ndarray:
    """Block inverse iteration: the kernel grows by 1/shift where everything else shrinks.

    Unlike Lanczos it does not mind that the eigenvalue 0 has a large multiplicity.
    """
    size = laplacian.shape[0]
    scale = float(abs(laplacian).sum(axis=0).max()) or 1.0
    shift = 1e-10 * scale
    solve = spla.splu((laplacian + shift * sp.eye_array(size)).tocsc()).solve
    rng = np.random.default_rng(0)
    width = min(size, 32)
    while True:
        basis = rng.standard_normal((size, width))
        for _ in range(3):
            basis = np.linalg.qr(solve(basis))[0]
        values, vectors = np.linalg.eigh(basis.T @ (laplacian @ basis))
        # Eigenvalues of L are squares, so their rounding floor is far above tol².
        kernel = values <= max(tol**2, 1e-11) * scale
        if not kernel.all() or width == size:
            return np.asarray(basis @ vectors[:, kernel])
        width = min(size, 2 * width)


def nearest_section(sheaf: CellularSheaf, x: Tensor, translation: Tensor | None) -> Tensor:
    """x plus the smallest step that removes as much of the residual as any step can."""
    b = None if translation is None else translation.double()
    rho = sheaf.to(torch.float64).residuals(x.double(), b)
    if int(sheaf.vertex_offsets[-1]) <= DENSE_LIMIT:
        step = (
            torch.linalg.pinv(sheaf.coboundary().double(), rtol=rounding(sheaf.zeros().dtype)) @ rho
        )
        return x + step.to(x)
    delta = sheaf.coboundary_sparse()
    columns = rho.detach().reshape(delta.shape[0], -1).numpy()
    steps = [
        spla.lsmr(delta, column, atol=1e-12, btol=1e-12, maxiter=10 * delta.shape[1])[0]
        for column in columns.T
    ]
    return x + _like(sheaf, np.stack(steps, 1)).reshape(x.shape)


def spectrum(sheaf: CellularSheaf, count: int | None) -> Tensor:
    """The smallest eigenvalues of L, ascending."""
    return _smallest_eigenvalues(sheaf, count).to(sheaf.zeros())


def _smallest_eigenvalues(sheaf: CellularSheaf, count: int | None) -> Tensor:
    size = int(sheaf.vertex_offsets[-1])
    if count is None or size <= DENSE_LIMIT:
        delta = sheaf.coboundary().double()
        return torch.linalg.eigvalsh(delta.mT @ delta)[..., :count].clamp(min=0)
    laplacian = sheaf.laplacian_sparse()
    scale = float(abs(laplacian).sum(axis=0).max()) or 1.0
    start = np.random.default_rng(0).standard_normal(size)
    values = spla.eigsh(
        laplacian, k=count, sigma=-1e-6 * scale, v0=start, return_eigenvectors=False
    )
    return torch.from_numpy(np.sort(values).clip(min=0))


def spectral_gap(sheaf: CellularSheaf, tol: float | None) -> float:
    """The smallest nonzero eigenvalue: how stiffly the sheaf pulls cochains to sections."""
    size, zeros = int(sheaf.vertex_offsets[-1]), sheaf.global_sections(tol).shape[1]
    if zeros == size:
        return float("inf")
    return float(_smallest_eigenvalues(sheaf, zeros + 1)[zeros])


def diffuse(sheaf: CellularSheaf, x: Tensor, time: float, translation: Tensor | None) -> Tensor:
    """exp(−tL) applied to the distance from where the flow ends."""
    limit = nearest_section(sheaf, x, translation)
    if int(sheaf.vertex_offsets[-1]) <= DENSE_LIMIT:
        delta = sheaf.coboundary().double()
        heat = torch.linalg.matrix_exp(-time * (delta.mT @ delta))
        return limit + (heat @ (x - limit).double()).to(x)
    away = (x - limit).detach().double().numpy()
    flow = spla.expm_multiply(-time * sheaf.laplacian_sparse(), away)
    return limit + _like(sheaf, flow)


def _like(sheaf: CellularSheaf, array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(sheaf.zeros())
