"""Block operations equal the same operations on dense matrices."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.sheaf import BlockMap
from knowledge_sheaves.sheaf.linalg import UNROLLED, diagonal_scale, psd_solve

size = st.integers(1, 4)
batch = st.sampled_from([(), (2,), (2, 3)])


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@given(batch, size, size, size, size, st.integers(0, 10**6))
def test_products_equal_dense_products(
    shape: tuple[int, ...], n: int, r: int, c: int, k: int, seed: int
) -> None:
    f, g = BlockMap(normal(*shape, n, r, c, seed=seed)), BlockMap(normal(*shape, n, c, k, seed=1))
    assert (f.rows, f.cols, f.batch_shape) == (n * r, n * c, torch.Size(shape))
    torch.testing.assert_close((f @ g).dense(), f.dense() @ g.dense())
    torch.testing.assert_close(f.adjoint.dense(), f.dense().mT)
    torch.testing.assert_close(f.gram().dense(), f.dense().mT @ f.dense())
    x = normal(n * c, k, seed=2)
    torch.testing.assert_close(f @ x, f.dense() @ x)
    if not shape:
        torch.testing.assert_close(f @ x[:, 0], f.dense() @ x[:, 0])


@given(batch, size, size, size, st.integers(0, 10**6))
def test_solve_is_least_squares(shape: tuple[int, ...], n: int, r: int, c: int, seed: int) -> None:
    f, rhs = BlockMap(normal(*shape, n, r, c, seed=seed)), normal(*shape, n * r, 2, seed=3)
    torch.testing.assert_close(
        f.solve(rhs), torch.linalg.pinv(f.dense()) @ rhs, atol=1e-6, rtol=1e-6
    )
    singular = BlockMap(torch.zeros(n, r, r, dtype=torch.float64))
    torch.testing.assert_close(singular.solve(rhs), torch.zeros_like(rhs))


@given(batch, st.integers(1, UNROLLED + 3), st.integers(0, 9), st.integers(0, 10**6))
def test_psd_solve_equals_the_pseudoinverse(
    shape: tuple[int, ...], n: int, rank: int, seed: int
) -> None:
    check_psd_solve(normal(*shape, min(rank, n), n, seed=seed))


def check_psd_solve(factor: torch.Tensor) -> None:
    """Eliminating loses as many digits as a pivot is smaller than the matrix; none are pivoted."""
    matrix = factor.mT @ factor
    rhs = matrix @ normal(*matrix.shape[:-1], 2, seed=4)
    solution = psd_solve(matrix, rhs)
    expected = torch.linalg.pinv(matrix, hermitian=True, rtol=1e-12) @ rhs
    residual = matrix @ solution - rhs
    assert residual.abs().max() < 1e-8 * (1 + rhs.abs().max())
    worst = 1.0
    for k in range(1, factor.shape[-2] + 1):
        smallest = torch.linalg.svdvals(factor[..., :k])[..., -1].square()
        worst = max(worst, float((diagonal_scale(matrix) / smallest).max()))
    if worst < 1e7:  # beyond, rounding may pass for a pivot
        close = 1e-13 * worst
        torch.testing.assert_close(solution, expected, atol=close, rtol=close)


@pytest.mark.parametrize("first", [1e-3, 1e-4, 3e-5, 1e-6])
def test_psd_solve_with_a_small_first_pivot(first: float) -> None:
    """A well-conditioned singular matrix may have pivots as small as rounding: few such draws."""
    for seed in range(20):
        factor = normal(2, 3, seed=seed)
        factor[:, 0] *= first
        check_psd_solve(factor)


def test_psd_solve_mixes_regular_and_singular_systems() -> None:
    matrices = torch.stack([torch.eye(2), torch.tensor([[1.0, 1.0], [1.0, 1.0]])]).double()
    rhs = torch.tensor([[1.0], [1.0]]).double()
    expected = torch.tensor([[[1.0], [1.0]], [[0.5], [0.5]]]).double()
    torch.testing.assert_close(psd_solve(matrices, rhs), expected)
    torch.testing.assert_close(psd_solve(matrices[1:], rhs), expected[1:])


def test_scale_tells_rounding_from_rank() -> None:
    rounding = torch.full((1, 1), 1e-16, dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64)
    assert psd_solve(rounding, rounding) == 1
    assert psd_solve(rounding, rounding, scale=one.squeeze()) == 0


def test_constructors() -> None:
    angles = normal(2, 3)
    turn, flip = BlockMap.rotation(angles), BlockMap.reflection(angles)
    identity = BlockMap.identity(6, 3).to(torch.float64)
    for orthogonal in (turn, flip, BlockMap.orthogonal(normal(2, 3, 2, 2))):
        torch.testing.assert_close(orthogonal.gram().dense(), identity.dense().expand(2, 6, 6))
    torch.testing.assert_close(torch.linalg.det(turn.blocks), torch.ones(2, 3).double())
    torch.testing.assert_close(torch.linalg.det(flip.blocks), -torch.ones(2, 3).double())
    torch.testing.assert_close((turn @ turn).blocks, BlockMap.rotation(2 * angles).blocks)
    rows = BlockMap.orthogonal(normal(1, 2, 3))
    torch.testing.assert_close(rows.dense() @ rows.dense().T, torch.eye(2).double())
    scale = normal(4)
    torch.testing.assert_close(BlockMap.diagonal(scale).dense(), torch.diag(scale))
    assert torch.equal(BlockMap.identity(3).dense(), torch.eye(3))


@given(st.integers(0, 10**6))
def test_complex_numbers_are_two_by_two_blocks(seed: int) -> None:
    z, w = torch.view_as_complex(normal(2, 5, 2, seed=seed)).unbind(0)
    product = BlockMap.from_complex(z) @ BlockMap.from_complex(w)
    torch.testing.assert_close(product.blocks, BlockMap.from_complex(z * w).blocks)
    torch.testing.assert_close(
        BlockMap.from_complex(z).adjoint.blocks, BlockMap.from_complex(z.conj()).blocks
    )
    image = BlockMap.from_complex(z) @ torch.view_as_real(w).flatten()
    torch.testing.assert_close(image, torch.view_as_real(z * w).flatten())


def test_splitting_keeps_the_map() -> None:
    f = BlockMap(normal(4, 1, 2))
    assert f.split(2).blocks.shape == (2, 2, 4)
    assert torch.equal(f.split(2).dense(), f.dense())
    assert torch.equal(BlockMap.from_dense(f.dense(), 4).blocks, f.blocks)
    assert torch.equal(f[0:1].blocks, f.blocks[0:1])
    torch.testing.assert_close(
        f.adjoint.solve_gram(normal(4)), torch.linalg.pinv((f @ f.adjoint).dense()) @ normal(4)
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BlockMap(torch.eye(2)), "use BlockMap.from_dense"),
        (lambda: BlockMap(torch.eye(4)[None]).split(3), "cannot be cut into 3"),
        (lambda: BlockMap(torch.ones(1, 4, 4)).split(2), "not zero outside"),
        (lambda: BlockMap(torch.ones(1, 4, 4)) @ torch.ones(3), "cannot act on 3 dimensions"),
        (lambda: BlockMap.identity(4) @ BlockMap.identity(4, 2), "in 4 blocks cannot act on"),
        (lambda: BlockMap.identity(4).solve(torch.ones(3)), "cannot equal a 3-vector"),
    ],
)
def test_what_does_not_fit_is_refused(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()  # type: ignore[operator]
