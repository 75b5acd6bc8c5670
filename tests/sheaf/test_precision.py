"""In float32 the extension is still the minimum, where the systems are ill-conditioned too."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from knowledge_sheaves.graph import Multigraph
from knowledge_sheaves.sheaf import (
    BlockMap,
    CellularSheaf,
    Prior,
    energy_form,
    harmonic_extension,
    schur_complement,
)

PATH = Multigraph.from_edges(3, [(0, 1), (1, 2)])


def single(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float32)


def exact_minima(sheaf: CellularSheaf, source: Tensor, targets: Tensor) -> Tensor:
    """The least energy of every 2p query of a batch by SVD of δ_U in float64."""
    head, tail = ([m.dense().double() for m in sheaf.maps[i : i + 2]] for i in (0, 2))
    unknown = torch.cat([tail[0], -head[1]], -2)
    right = torch.cat([head[0] @ source.double(), -tail[1] @ targets.double()], -2)
    u, s, _ = torch.linalg.svd(unknown, full_matrices=False)
    u = u * (s > 1e-12 * s[..., :1]).unsqueeze(-2)
    return (right - u @ (u.mT @ right)).square().sum((-2, -1))


def test_a_free_tail_that_hardly_counts_is_still_put_where_it_costs_nothing() -> None:
    edge = Multigraph.from_edges(2, [(0, 1)])
    tail = torch.diag(torch.tensor([1.0, 1e-3], dtype=torch.float32))
    sheaf = CellularSheaf.from_maps(edge, [2, 2], [torch.eye(2, dtype=torch.float32)], [tail])
    x = torch.tensor([1.0, 1.0], dtype=torch.float32)
    found = harmonic_extension(sheaf, {0: x})
    assert float(found.energy) < 1e-6
    torch.testing.assert_close(sheaf.stalk(found.cochain, 1), x / tail.diagonal())
    assert float(schur_complement(sheaf, [0])({0: x})) < 1e-6
    spread = found.covariance().dense().diagonal()
    torch.testing.assert_close(spread, torch.tensor([1.0, 1e6], dtype=torch.float32))


def test_no_random_path_is_off() -> None:
    """δ_U is square here, d_s = 2 d_r: now and then it is almost singular."""
    queries, d_s, d_r = 1000, 32, 16
    maps = [BlockMap(single(queries, 1, d_r, d_s, seed=s) / d_s**0.5) for s in range(4)]
    sheaf = CellularSheaf.from_maps(PATH, [d_s] * 3, maps[:2], maps[2:])
    source, target = single(queries, d_s, 1, seed=5), single(queries, d_s, 1, seed=6)
    expected = exact_minima(sheaf, source, target)
    form = schur_complement(sheaf, [0, 2])
    found = form({0: source, 2: target})
    assert float((found - expected).abs().max()) < 1e-3
    extended = harmonic_extension(sheaf, {0: source, 2: target})
    assert float((extended.energy - expected).abs().max()) < 1e-5


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.floats(0, 4), st.integers(0, 99))
def test_scaled_maps_have_the_minimum_of_double_precision(
    n: int, rows: int, cols: int, digits: float, seed: int
) -> None:
    scales = torch.logspace(0, -digits, cols, dtype=torch.float32)
    maps = [BlockMap(single(n, rows, cols, seed=seed + s) * scales) for s in range(4)]
    sheaf = CellularSheaf.from_maps(PATH, [n * cols] * 3, maps[:2], maps[2:])
    source, target = single(n * cols, 1, seed=seed + 5), single(n * cols, 1, seed=seed + 6)
    expected = float(exact_minima(sheaf, source, target))
    found = harmonic_extension(sheaf, {0: source, 2: target})
    assert abs(float(found.energy) - expected) < 1e-5 * (1 + expected)


def test_results_keep_the_number_type_of_the_maps() -> None:
    maps = [BlockMap(single(5, 2, 2, 2, seed=s)) for s in range(4)]
    sheaf = CellularSheaf.from_maps(PATH, [4] * 3, maps[:2], maps[2:])
    prior = Prior(single(4, 1, seed=9), BlockMap(torch.eye(2, dtype=torch.float32).expand(2, 2, 2)))
    form = energy_form(sheaf, single(5, 8, 1, seed=7)).add_priors({1: prior})
    ends = form.eliminate([1])
    one = ends.fix({0: single(5, 4, 1, seed=4)})
    induced = ends.factorise()
    results = [
        ends.constant,
        *ends.square.values(),
        *ends.linear.values(),
        *form.minimiser().values(),
        form.minimum(),
        form.covariance().blocks,
        one.evaluate(single(9, 4, seed=8)),
        one({2: single(5, 4, 1, seed=4)}),
        *(induced.head.blocks, induced.tail.blocks, induced.translation, induced.constant),
    ]
    assert {r.dtype for r in results} == {torch.float32}


@pytest.mark.parametrize("working", [torch.float32, torch.float64])
def test_the_arithmetic_may_be_chosen(working: torch.dtype) -> None:
    maps = [BlockMap(single(2, 2, 2, seed=s)) for s in range(4)]
    sheaf = CellularSheaf.from_maps(PATH, [4] * 3, maps[:2], maps[2:])
    form = energy_form(sheaf, working=working)
    assert form.constant.dtype is working
    assert form.eliminate([1]).constant.dtype is torch.float32


@pytest.mark.parametrize("n", [50, 2000])
def test_spectra_of_float32_sheaves_have_the_digits_of_double_precision(n: int) -> None:
    """A cycle of rotations that closes up, as far as the rounding of its maps allows."""
    cycle = Multigraph(n, np.arange(n), (np.arange(n) + 1) % n)
    turn = BlockMap.rotation(torch.tensor([2 * torch.pi / n], dtype=torch.float32))
    one = BlockMap(torch.eye(2, dtype=torch.float32)[None])
    sheaf = CellularSheaf.from_maps(cycle, [2] * n, [turn] * n, [one] * n)
    assert sheaf.global_sections().shape == (2 * n, 2)
    assert sheaf.first_cohomology_dimension() == 2
    gap = 2 - 2 * np.cos(2 * np.pi / n)
    assert sheaf.spectral_gap() == pytest.approx(gap, rel=1e-3 if n > 50 else 1e-5)


@given(st.integers(0, 10**6))
def test_the_gap_of_a_random_float32_sheaf_is_that_of_its_numbers(seed: int) -> None:
    maps = [single(3, 2, seed=seed + s) for s in range(4)]
    sheaf = CellularSheaf.from_maps(PATH, [2] * 3, maps[:2], maps[2:])
    exact = torch.linalg.svdvals(sheaf.coboundary().double()).square()
    smallest = float(exact[exact > 1e-9 * exact.max()].min())
    assert sheaf.spectral_gap() == pytest.approx(smallest, rel=1e-6)
    spectrum = sheaf.spectrum()
    assert spectrum.dtype is torch.float32
    x = single(6, seed=seed)
    double = CellularSheaf.from_maps(
        PATH, [2] * 3, [m.double() for m in maps[:2]], [m.double() for m in maps[2:]]
    )
    torch.testing.assert_close(
        sheaf.nearest_section(x).double(), double.nearest_section(x.double()), atol=1e-5, rtol=1e-5
    )
    torch.testing.assert_close(
        sheaf.diffuse(x, 0.5).double(), double.diffuse(x.double(), 0.5), atol=1e-5, rtol=1e-5
    )
