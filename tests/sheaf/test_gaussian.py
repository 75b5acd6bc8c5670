"""The Gaussian view against dense densities, conditioned and marginalised by the textbook."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy import stats
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import Multigraph
from knowledge_sheaves.sheaf import (
    Ball,
    BlockMap,
    CellularSheaf,
    Gaussian,
    HalfSpace,
    energy_form,
    log_density,
    log_potentials,
)
from knowledge_sheaves.sheaf import gaussian as module
from knowledge_sheaves.sheaf.regions import sum_of_squares
from sheaf_cases import Case, columns, sheaf_cases

torch.manual_seed(0)
VARIANCE = 0.7


def dense_posterior(
    case: Case, known: dict[int, Tensor], unknown: list[int], b: Tensor
) -> tuple[np.ndarray, np.ndarray] | None:
    """Mean and covariance of the unknowns' coordinates, or None where they are not held."""
    sheaf = case.sheaf
    delta = sheaf.coboundary()
    u, rest = columns(sheaf, unknown), columns(sheaf, list(known))
    y = torch.cat([known[v][:, 0] for v in known]) if known else delta.new_zeros(0)
    precision = delta[:, u].T @ delta[:, u] / VARIANCE
    values = torch.linalg.eigvalsh(precision)
    if not len(values) or values[0] < 1e-4 * values[-1] or values[-1] < 1e-9:
        return None
    covariance = torch.linalg.inv(precision)
    mean = covariance @ (delta[:, u].T @ (b[:, 0] - delta[:, rest] @ y)) / VARIANCE
    return mean.numpy(), covariance.numpy()


@given(sheaf_cases(max_vertices=4, min_edges=2), st.integers(0, 3))
def test_densities_and_marginals_are_those_of_the_dense_gaussian(case: Case, count: int) -> None:
    sheaf = case.sheaf
    vertices = range(sheaf.graph.num_vertices)
    known = {v: case.normal(int(sheaf.vertex_dims[v]), 1) for v in vertices if v < count}
    unknown = [v for v in vertices if v not in known]
    b = case.edge_cochain(1)
    posterior = dense_posterior(case, known, unknown, b)
    view = Gaussian(energy_form(sheaf, b).fix(known), VARIANCE)
    values = {v: case.normal(int(sheaf.vertex_dims[v]), 1) for v in unknown}
    if posterior is None:
        return
    mean, covariance = posterior
    flat = np.concatenate([values[v][:, 0].numpy() for v in unknown])
    expected = stats.multivariate_normal(mean, covariance).logpdf(flat)
    assert float(view.log_density(values)) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    vertex = unknown[-1]
    place = slice(len(flat) - int(sheaf.vertex_dims[vertex]), None)
    own, spread = mean[place], covariance[place, place]
    np.testing.assert_allclose(view.mean[vertex][:, 0], own, atol=1e-6)
    np.testing.assert_allclose(view.covariance(vertex).dense(), spread, atol=1e-6)
    normal = case.normal(int(sheaf.vertex_dims[vertex]))
    half = view.probability(vertex, HalfSpace(normal, 0.3))
    n = normal.numpy()
    exact = stats.norm.cdf((0.3 - n @ own) / math.sqrt(n @ spread @ n))
    assert float(half.value) == pytest.approx(exact, abs=1e-7)


@settings(max_examples=30)
@given(st.integers(1, 6), st.floats(0, 1.5), st.floats(0, 2), st.floats(0.1, 4), st.integers(0, 99))
def test_the_series_for_a_ball_agrees_with_a_sample(
    n: int, spread: float, shift: float, share: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    weights, shifts = np.exp(spread * rng.standard_normal(n)), shift * rng.standard_normal(n)
    bound = share * float(weights.sum())
    value, error, how = sum_of_squares(weights, shifts, bound)
    assert how == "series"
    assert error < 1e-8
    drawn = (rng.standard_normal((40_000, n)) + shifts) ** 2 @ weights <= bound
    assert value == pytest.approx(float(drawn.mean()), abs=5 * 0.5 / math.sqrt(40_000))


@given(st.integers(1, 8), st.floats(0.1, 9), st.floats(0, 3), st.floats(0.2, 5))
def test_equal_weights_are_a_noncentral_chi_square(
    n: int, weight: float, shift: float, radius: float
) -> None:
    value, _, _ = sum_of_squares(np.full(n, weight), np.full(n, shift), radius)
    law = stats.ncx2(n, n * shift**2) if shift > 1e-6 else stats.chi2(n)
    assert value == pytest.approx(float(law.cdf(radius / weight)), abs=1e-7)


@pytest.mark.parametrize("scale", [1e6, 1e-6])
def test_uneven_weights_are_sampled_and_say_so(scale: float) -> None:
    value, error, how = sum_of_squares(np.array([1.0, scale]), np.zeros(2), max(1.0, scale))
    assert how == "sample"
    assert 0 < error < 0.002
    assert value == pytest.approx(float(stats.chi2(1).cdf(1.0)), abs=5 * error)


def star() -> tuple[CellularSheaf, dict[int, Tensor]]:
    """Two unknowns in blocks between three known vertices, two sections."""
    graph = Multigraph.from_edges(5, [(0, 3), (1, 3), (3, 4), (2, 4), (4, 4)])
    maps = [BlockMap(torch.randn(2, 2, 2)) for _ in range(10)]
    sheaf = CellularSheaf.from_maps(graph, [4] * 5, maps[:5], maps[5:])
    return sheaf, {v: torch.randn(4, 2) for v in range(3)}


def test_completions_have_the_mean_and_covariance_of_the_density() -> None:
    sheaf, known = star()
    view = Gaussian(energy_form(sheaf, sections=2).fix(known), VARIANCE)
    draws = view.sample(20_000, torch.Generator().manual_seed(0))
    assert draws[3].shape == (20_000, 4, 2)
    for vertex in (3, 4):
        torch.testing.assert_close(draws[vertex].mean(0), view.mean[vertex], atol=0.05, rtol=0)
        away = draws[vertex] - view.mean[vertex]
        found = torch.einsum("sik,sjk->ij", away, away) / (2 * 20_000)
        torch.testing.assert_close(found, view.covariance(vertex).dense(), atol=0.05, rtol=0.05)
    crossed = torch.einsum("sik,sjk->ij", draws[3] - view.mean[3], draws[4] - view.mean[4])
    joint = view.form.covariance(VARIANCE).blocks[:, :2, 2:]
    torch.testing.assert_close(
        crossed / (2 * 20_000), BlockMap(joint).dense(), atol=0.05, rtol=0.05
    )
    centre = view.mean[3] + 0.1
    ball = view.probability(3, Ball(centre, 1.2))
    inside = ((draws[3] - centre).square().sum((1, 2)).sqrt() <= 1.2).double().mean()
    assert ball.how == "series"
    assert float(ball.value) == pytest.approx(float(inside), abs=0.015)


def test_batches_of_forms_have_batches_of_probabilities() -> None:
    path = Multigraph.from_edges(2, [(0, 1)])
    tails = torch.randn(3, 1, 2, 2) + 2 * torch.eye(2)
    maps = [BlockMap(torch.randn(3, 1, 2, 2))], [BlockMap(tails)]
    sheaf = CellularSheaf.from_maps(path, [2, 2], *maps)
    view = Gaussian(energy_form(sheaf).fix({0: torch.ones(2)}))
    ball, half = Ball(torch.zeros(2), 1.0), HalfSpace(torch.ones(2), 0.0)
    assert view.log_density({1: torch.zeros(2)}).shape == (3,)
    assert view.sample(5)[1].shape == (5, 3, 2, 1)
    for i in range(3):
        alone = CellularSheaf.from_maps(path, [2, 2], [maps[0][0][i]], [maps[1][0][i]])
        one = Gaussian(energy_form(alone).fix({0: torch.ones(2)}))
        for region in (ball, half):
            together = view.probability(1, region).value
            torch.testing.assert_close(together[i], one.probability(1, region).value)


def test_a_free_unknown_has_no_density() -> None:
    edge = Multigraph.from_edges(2, [(0, 1)])
    sheaf = CellularSheaf.from_maps(edge, [2, 2], [torch.eye(2)], [torch.diag(torch.ones(2))])
    with pytest.raises(InputError, match="free in some direction"):
        Gaussian(energy_form(sheaf)).sample(1)
    with pytest.raises(InputError, match="Vertex 7"):
        Gaussian(energy_form(sheaf).fix({0: torch.ones(2)})).covariance(7)


@given(sheaf_cases(max_vertices=4), st.sampled_from([1, 2]))
def test_the_density_of_an_embedding_is_normalised_beside_its_sections(case: Case, k: int) -> None:
    sheaf, x, b = case.sheaf, case.vertex_cochain(k), case.edge_cochain(k)
    potentials = log_potentials(sheaf, x, b, VARIANCE)
    torch.testing.assert_close(potentials.sum(), -sheaf.energy(x, b) / (2 * VARIANCE))
    delta = sheaf.coboundary()
    u, s, vt = torch.linalg.svd(delta, full_matrices=False)
    kept = s > 1e-8 * (s.max() if len(s) else 1)
    if len(s) and bool((s[kept] < 1e-5 * s.max()).any()):
        return  # the rank itself is in doubt
    # Coordinates along the right singular vectors are independent: means (uᵀb)_i / s_i.
    found = (vt @ x)[kept]
    means = (u.T @ b)[kept] / s[kept, None]
    law = stats.norm(means.numpy(), (VARIANCE**0.5 / s[kept])[:, None].expand(-1, k).numpy())
    expected = float(law.logpdf(found.numpy()).sum())
    assert float(log_density(sheaf, x, b, VARIANCE)) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_determinants_of_large_sheaves_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sheaf, _ = star()
    monkeypatch.setattr(module, "LARGEST", 3)
    with pytest.raises(InputError, match="with 10 dimensions in a block is not computed"):
        log_density(sheaf, torch.zeros(20))


@given(sheaf_cases(max_vertices=4, min_edges=1), st.booleans())
def test_weights_weigh_edges_against_each_other(case: Case, batched: bool) -> None:
    sheaf, x, b = case.sheaf, case.vertex_cochain(1), case.edge_cochain(1)
    shape = (3, sheaf.graph.num_edges) if batched else (sheaf.graph.num_edges,)
    weights = case.normal(*shape).abs()
    form = energy_form(sheaf, b, weights=weights)
    values = {v: sheaf.stalk(x, v) for v in range(sheaf.graph.num_vertices)}
    expected = (weights * sheaf.edge_energies(x, b)).sum(-1)
    torch.testing.assert_close(form(values), expected)
