"""Cellular sheaves against their definition, in dense float64 linear algebra."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import GraphMorphism, Multigraph
from knowledge_sheaves.sheaf import BlockMap, CellularSheaf, sections
from sheaf_cases import Case, multigraphs, sheaf_cases

torch.manual_seed(0)


@given(sheaf_cases())
def test_laplacian_is_symmetric_and_semidefinite(case: Case) -> None:
    laplacian = case.sheaf.laplacian()
    delta = case.sheaf.coboundary()
    torch.testing.assert_close(laplacian, delta.T @ delta)
    torch.testing.assert_close(laplacian, laplacian.T)
    scale = 1 + laplacian.abs().max()
    assert torch.linalg.eigvalsh(laplacian).min() > -1e-12 * scale


@given(sheaf_cases(), st.sampled_from([(), (1,), (3,)]))
def test_energy_is_the_sum_over_edges(case: Case, k: tuple[int, ...]) -> None:
    sheaf, x, b = case.sheaf, case.vertex_cochain(*k), case.edge_cochain(*k)
    total = torch.zeros((), dtype=torch.float64)
    for e in range(sheaf.graph.num_edges):
        head = sheaf.head(e).dense() @ sheaf.stalk(x, int(sheaf.graph.heads[e]))
        tail = sheaf.tail(e).dense() @ sheaf.stalk(x, int(sheaf.graph.tails[e]))
        energy = (head + sheaf.edge_stalk(b, e) - tail).square().sum()
        torch.testing.assert_close(sheaf.edge_energies(x, b)[e], energy)
        total = total + energy
    torch.testing.assert_close(sheaf.energy(x, b), total)
    torch.testing.assert_close(sheaf.apply_coboundary(x), sheaf.coboundary() @ x)


@given(sheaf_cases())
def test_sparse_matrices_equal_the_dense_ones(case: Case) -> None:
    sheaf = case.sheaf
    np.testing.assert_allclose(sheaf.coboundary_sparse().toarray(), sheaf.coboundary().numpy())
    np.testing.assert_allclose(
        sheaf.laplacian_sparse().toarray(), sheaf.laplacian().numpy(), atol=1e-12
    )


@given(sheaf_cases())
def test_sections_span_the_kernel(case: Case) -> None:
    sheaf = case.sheaf
    basis = sheaf.global_sections()
    delta = sheaf.coboundary()
    rank = int(torch.linalg.matrix_rank(delta, rtol=1e-9)) if delta.numel() else 0
    assert basis.shape[1] == delta.shape[1] - rank
    assert sheaf.first_cohomology_dimension() == delta.shape[0] - rank
    torch.testing.assert_close(basis.T @ basis, torch.eye(basis.shape[1], dtype=torch.float64))
    assert all(sheaf.is_section(basis[:, i], tol=1e-7) for i in range(basis.shape[1]))


@given(sheaf_cases(min_edges=1))
def test_sparse_solvers_agree_with_dense_ones(case: Case) -> None:
    sheaf, x, b = case.sheaf, case.vertex_cochain(), case.edge_cochain()
    dense = (sheaf.global_sections(), sheaf.nearest_section(x, b), sheaf.diffuse(x, 0.3, b))
    gap = sheaf.spectral_gap()
    limit = sections.DENSE_LIMIT
    sections.DENSE_LIMIT = 0
    try:
        basis = sheaf.global_sections()
        assert basis.shape == dense[0].shape
        torch.testing.assert_close(basis @ basis.T, dense[0] @ dense[0].T, atol=1e-5, rtol=0)
        torch.testing.assert_close(sheaf.nearest_section(x, b), dense[1], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(sheaf.diffuse(x, 0.3, b), dense[2], atol=1e-5, rtol=1e-5)
    finally:
        sections.DENSE_LIMIT = limit
    values = torch.linalg.eigvalsh(sheaf.laplacian())
    torch.testing.assert_close(sheaf.spectrum(), values.clamp(min=0))
    kernel = dense[0].shape[1]
    assert gap == (float("inf") if kernel == len(values) else pytest.approx(float(values[kernel])))


@given(sheaf_cases())
def test_nearest_section_is_the_projection(case: Case) -> None:
    sheaf, x = case.sheaf, case.vertex_cochain()
    basis = sheaf.global_sections()
    torch.testing.assert_close(sheaf.nearest_section(x), basis @ (basis.T @ x), atol=1e-6, rtol=0)


@given(sheaf_cases())
def test_nearest_section_with_translation_leaves_the_least_energy(case: Case) -> None:
    sheaf, x, b = case.sheaf, case.vertex_cochain(2), case.edge_cochain(2)
    least = torch.linalg.lstsq(sheaf.coboundary(), b, driver="gelsd").solution
    found = sheaf.energy(sheaf.nearest_section(x, b), b)
    torch.testing.assert_close(found, sheaf.energy(least, b), atol=1e-8, rtol=1e-8)


@given(sheaf_cases(), st.floats(0, 3))
def test_heat_flow_solves_its_equation_and_loses_energy(case: Case, time: float) -> None:
    sheaf, x, b = case.sheaf, case.vertex_cochain(), case.edge_cochain()
    now, soon = sheaf.diffuse(x, time, b), sheaf.diffuse(x, time + 1e-6, b)
    rate = sheaf.coboundary().T @ sheaf.residuals(now, b)
    scale = float(1 + rate.abs().max()) * float(1 + sheaf.laplacian().abs().max())
    torch.testing.assert_close((soon - now) / 1e-6, rate, atol=1e-3 * scale, rtol=1e-3)
    assert sheaf.energy(now, b) <= sheaf.energy(x, b) + 1e-8 * scale


def test_a_large_sheaf_uses_the_sparse_solver() -> None:
    """A cycle of rotations that closes up: every start in the plane is a section."""
    n = 2000
    cycle = Multigraph(n, np.arange(n), (np.arange(n) + 1) % n)
    turn = BlockMap.rotation(torch.tensor([2 * torch.pi / n], dtype=torch.float64))
    one = BlockMap.identity(2, 1).to(torch.float64)
    sheaf = CellularSheaf.from_maps(cycle, [2] * n, [turn] * n, [one] * n)
    basis = sheaf.global_sections()
    assert basis.shape == (2 * n, 2)
    assert sheaf.is_section(basis, tol=1e-6)
    x = torch.randn(2 * n, 3, dtype=torch.float64)
    expected = basis @ (basis.T @ x)
    torch.testing.assert_close(sheaf.nearest_section(x), expected, atol=1e-5, rtol=0)
    assert sheaf.spectrum(3)[2] == pytest.approx(sheaf.spectral_gap(), rel=1e-6)
    cosine = np.cos(2 * np.pi / n)  # the Laplacian of a cycle has eigenvalues 2 − 2 cos
    assert sheaf.spectral_gap() == pytest.approx(2 - 2 * cosine, rel=1e-3)


@given(sheaf_cases(max_edges=4), st.sampled_from([1.0, 2.0, 3.0, float("inf")]))
def test_other_norms_follow_their_definition(case: Case, norm: float) -> None:
    sheaf, x = case.sheaf, case.vertex_cochain(2)
    scores = sheaf.edge_energies(x, norm=norm, power=1)
    for e in range(sheaf.graph.num_edges):
        rho = sheaf.edge_stalk(sheaf.residuals(x), e).flatten()
        torch.testing.assert_close(scores[e], torch.linalg.vector_norm(rho, norm))


@st.composite
def morphisms_into(draw: st.DrawFn, target: Multigraph, vertices: int = 5) -> GraphMorphism:
    """A random graph over a given one: vertices over vertices, edges over edges."""
    image = [draw(st.integers(0, target.num_vertices - 1)) for _ in range(vertices)]
    edges, edge_map = [], []
    if target.num_edges:
        for _ in range(draw(st.integers(0, 6))):
            e = draw(st.integers(0, target.num_edges - 1))
            heads = [v for v, w in enumerate(image) if w == target.heads[e]]
            tails = [v for v, w in enumerate(image) if w == target.tails[e]]
            if heads and tails:
                edges.append((draw(st.sampled_from(heads)), draw(st.sampled_from(tails))))
                edge_map.append(e)
    source = Multigraph.from_edges(vertices, edges)
    return GraphMorphism(source, target, np.array(image), np.array(edge_map, dtype=np.int64))


@given(sheaf_cases(), st.data())
def test_pullback_is_functorial_and_carries_sections(case: Case, data: st.DataObject) -> None:
    sheaf = case.sheaf
    g = data.draw(morphisms_into(sheaf.graph))
    f = data.draw(morphisms_into(g.source))
    one, two = sheaf.pullback(g @ f), sheaf.pullback(g).pullback(f)
    torch.testing.assert_close(one.coboundary(), two.coboundary())
    x, y = case.vertex_cochain(), case.edge_cochain()
    twice = sheaf.pullback(g).pullback_vertices(sheaf.pullback_vertices(x, g), f)
    torch.testing.assert_close(sheaf.pullback_vertices(x, g @ f), twice)
    twice = sheaf.pullback(g).pullback_edges(sheaf.pullback_edges(y, g), f)
    torch.testing.assert_close(sheaf.pullback_edges(y, g @ f), twice)
    # δ commutes with pullback, so sections go to sections.
    image = sheaf.pullback_edges(sheaf.apply_coboundary(x), g)
    pulled = sheaf.pullback_vertices(x, g)
    torch.testing.assert_close(sheaf.pullback(g).apply_coboundary(pulled), image)
    for section in sheaf.global_sections().T:
        assert sheaf.pullback(g).is_section(sheaf.pullback_vertices(section, g), tol=1e-6)
    identity = GraphMorphism.identity(sheaf.graph)
    torch.testing.assert_close(sheaf.pullback(identity).coboundary(), sheaf.coboundary())


@given(multigraphs(4, 6), st.data())
def test_translated_embeddings_exist_exactly_when_plain_ones_do(
    graph: Multigraph, data: st.DataObject
) -> None:
    """If ρ = 0 has a solution with z = F_t c_t − F_h c_h, shifting by c removes z, and back."""
    dims = [data.draw(st.integers(1, 3)) for _ in range(graph.num_vertices)]
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 10**6)))

    def map_(rows: int, cols: int) -> torch.Tensor:
        return torch.randn(rows, cols, generator=generator, dtype=torch.float64)

    heads = [map_(2, dims[h]) for h in graph.heads]
    tails = [map_(2, dims[t]) for t in graph.tails]
    sheaf = CellularSheaf.from_maps(graph, dims, heads, tails)
    shift = torch.randn(sum(dims), generator=generator, dtype=torch.float64)
    b = sheaf.apply_coboundary(shift)
    for section in [torch.zeros_like(shift), *sheaf.global_sections().T]:
        assert sheaf.is_section(section + shift, b, tol=1e-7)
        assert sheaf.is_section(section + shift - shift, tol=1e-7)
    # A translation outside the image of δ is consistent with no embedding at all.
    wrong = torch.randn(len(b), generator=generator, dtype=torch.float64)
    outside = wrong - sheaf.coboundary() @ (torch.linalg.pinv(sheaf.coboundary()) @ wrong)
    if outside.numel() and outside.abs().max() > 1e-6:
        best = sheaf.nearest_section(shift, b + outside)
        assert not sheaf.is_section(best, b + outside, tol=1e-7)
        torch.testing.assert_close(sheaf.energy(best, b + outside), outside.square().sum())


def test_batched_maps_give_batched_matrices() -> None:
    loop = Multigraph.from_edges(1, [(0, 0)])
    heads = torch.randn(5, 2, 3, dtype=torch.float64)
    tails = torch.randn(5, 2, 3, dtype=torch.float64)
    sheaf = CellularSheaf.from_maps(loop, [3], [heads], [tails])
    assert sheaf.batch_shape == (5,)
    torch.testing.assert_close(sheaf.coboundary(), tails - heads)
    x = torch.randn(5, 3, 2, dtype=torch.float64)
    torch.testing.assert_close(sheaf.apply_coboundary(x), (tails - heads) @ x)
    torch.testing.assert_close(sheaf.energy(x), ((tails - heads) @ x).square().sum((-2, -1)))
    with pytest.raises(InputError, match="no single sparse matrix"):
        sheaf.coboundary_sparse()


def test_a_graph_without_edges_has_only_sections() -> None:
    sheaf = CellularSheaf.from_maps(Multigraph.from_edges(2, []), [2, 3], [], [])
    assert sheaf.global_sections().shape == (5, 5)
    assert sheaf.first_cohomology_dimension() == 0
    assert sheaf.spectral_gap() == float("inf")
    assert sheaf.coboundary_sparse().shape == (0, 5)
    assert sheaf.energy(torch.ones(5)) == 0
    assert sheaf.is_section(torch.ones(5))


def test_gradients_reach_the_maps() -> None:
    path = Multigraph.from_edges(2, [(0, 1)])
    head = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    tail = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)

    def energy(*args: torch.Tensor) -> torch.Tensor:
        sheaf = CellularSheaf.from_maps(path, [2, 3], [args[0]], [args[1]])
        return sheaf.energy(args[2])

    assert torch.autograd.gradcheck(energy, (head, tail, x))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda g: CellularSheaf.from_maps(g, [2], [], []), "as many head maps and tail maps"),
        (
            lambda g: CellularSheaf.from_maps(g, [2], [torch.eye(2)], [torch.eye(2)]),
            "2 vertices needs as many stalk dimensions, not 1",
        ),
        (
            lambda g: CellularSheaf.from_maps(g, [2, 3], [torch.eye(2)], [torch.eye(2)]),
            r"Edge 0 needs a 2 × 3 tail map .* given a 2 × 2 one",
        ),
        (
            lambda g: CellularSheaf.from_maps(g, [2, 2], [torch.eye(2)], [torch.eye(2)]).energy(
                torch.ones(3)
            ),
            "has 4 coordinates",
        ),
        (
            lambda g: CellularSheaf.from_maps(g, [2, 2], [torch.eye(2)], [torch.eye(2)]).energy(
                torch.ones(4), torch.ones(2, 1)
            ),
            "give both their sections",
        ),
        (
            lambda g: CellularSheaf.from_maps(g, [2, 2], [torch.eye(2)], [torch.eye(2)]).pullback(
                GraphMorphism.identity(Multigraph.from_edges(1, []))
            ),
            "its own graph",
        ),
    ],
)
def test_what_does_not_fit_is_refused(build: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(Multigraph.from_edges(2, [(0, 1)]))  # type: ignore[operator]
