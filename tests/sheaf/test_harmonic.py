"""Harmonic extension and Schur complements against dense least squares, in float64."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import assume, given
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import Multigraph
from knowledge_sheaves.sheaf import (
    BlockMap,
    Candidates,
    CellularSheaf,
    Prior,
    energy_form,
    harmonic_extension,
    monomials,
    schur_complement,
)
from knowledge_sheaves.sheaf.monomials import Monomials, needed_monomials
from sheaf_cases import Case, attainable, columns, sheaf_cases

torch.manual_seed(0)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Case, list[int], list[int]]:
    """A sheaf and its vertices split into boundary and unknowns."""
    case = draw(sheaf_cases())
    vertices = range(case.sheaf.graph.num_vertices)
    boundary = sorted(draw(st.sets(st.sampled_from(vertices), max_size=len(vertices))))
    return case, boundary, [v for v in vertices if v not in boundary]


def make_priors(case: Case, unknown: list[int], k: int) -> dict[int, Prior]:
    sheaf = case.sheaf
    priors = {}
    for v in unknown:
        width = int(sheaf.vertex_dims[v]) // sheaf.n_blocks
        factor = case.normal(sheaf.n_blocks, width, width)
        precision = factor.mT @ factor + 0.1 * torch.eye(width, dtype=torch.float64)
        priors[v] = Prior(case.normal(int(sheaf.vertex_dims[v]), k), BlockMap(precision))
    return priors


def dense_minimum(
    case: Case,
    boundary: dict[int, Tensor],
    unknown: list[int],
    b: Tensor,
    priors: dict[int, Prior],
) -> Tensor:
    """min over the unknowns of ‖δy − b‖² + priors, as one stacked least-squares problem."""
    sheaf = case.sheaf
    delta = sheaf.coboundary()
    target = b.clone()
    for v, value in boundary.items():
        target = target - delta[:, columns(sheaf, [v])] @ value
    rows, right = [delta[:, columns(sheaf, unknown)]], [target]
    width = rows[0].shape[1]
    at = 0
    for v in unknown:
        dim = int(sheaf.vertex_dims[v])
        if v in priors:
            root = torch.linalg.cholesky(priors[v].precision.dense()).mT
            row = torch.zeros(dim, width, dtype=torch.float64)
            row[:, at : at + dim] = root
            rows.append(row)
            right.append(root @ priors[v].mean)
        at += dim
    matrix, right_side = torch.cat(rows), torch.cat(right)
    solution = torch.linalg.lstsq(matrix, right_side, driver="gelsd", rcond=1e-10).solution
    return (matrix @ solution - right_side).square().sum()


@given(problems(), st.booleans(), st.booleans(), st.sampled_from([1, 3]))
def test_schur_complement_is_the_minimum(
    problem: tuple[Case, list[int], list[int]], translated: bool, with_priors: bool, k: int
) -> None:
    case, boundary, unknown = problem
    sheaf = case.sheaf
    b = case.edge_cochain(k) if translated else torch.zeros_like(case.edge_cochain(k))
    priors = make_priors(case, unknown, k) if with_priors else {}
    values = {v: case.normal(int(sheaf.vertex_dims[v]), k) for v in boundary}
    expected = dense_minimum(case, values, unknown, b, priors)
    scale = float(1 + expected)
    form = schur_complement(sheaf, boundary, b if translated else None, priors, sections=k)
    assert form.vertices == tuple(boundary)
    assert abs(form(values) - expected) < 1e-8 * scale
    extension = harmonic_extension(sheaf, values, b, priors)
    assert abs(extension.energy - expected) < 1e-8 * scale
    if not priors:
        assert abs(sheaf.energy(extension.cochain, b) - expected) < 1e-8 * scale
    for v in boundary:
        assert torch.equal(sheaf.stalk(extension.cochain, v), values[v])


@given(problems(), st.booleans())
def test_extension_is_the_pseudoinverse_formula(
    problem: tuple[Case, list[int], list[int]], translated: bool
) -> None:
    case, boundary, unknown = problem
    sheaf = case.sheaf
    b = case.edge_cochain() if translated else torch.zeros_like(case.edge_cochain())
    values = {v: case.normal(int(sheaf.vertex_dims[v])) for v in boundary}
    laplacian, delta = sheaf.laplacian(), sheaf.coboundary()
    u, rest = columns(sheaf, unknown), columns(sheaf, boundary)
    luu = laplacian[u][:, u]
    y_b = torch.cat([values[v] for v in boundary]) if boundary else luu.new_zeros(0)
    right = (delta.T @ b)[u] - laplacian[u][:, rest] @ y_b
    eigenvalues = torch.linalg.eigvalsh(luu)
    cut = 1e-11 * (eigenvalues.max() if len(eigenvalues) else 1)
    clear = not ((eigenvalues > cut / 1e3) & (eigenvalues < cut * 1e5)).any()
    if clear:  # otherwise the rank itself is in doubt
        expected = torch.linalg.pinv(luu, hermitian=True, atol=float(cut), rtol=0) @ right
        found = harmonic_extension(sheaf, values, b).cochain
        assert found.ndim == 1
        torch.testing.assert_close(found.flatten()[u], expected, atol=1e-5, rtol=1e-5)


@given(problems())
def test_posterior_is_that_of_the_dense_precision(
    problem: tuple[Case, list[int], list[int]],
) -> None:
    case, boundary, unknown = problem
    sheaf = case.sheaf
    if not unknown:
        return
    priors = make_priors(case, unknown, 1)
    values = {v: case.normal(int(sheaf.vertex_dims[v])) for v in boundary}
    b = case.edge_cochain()
    u, rest = columns(sheaf, unknown), columns(sheaf, boundary)
    laplacian = sheaf.laplacian()
    lam = torch.block_diag(*(priors[v].precision.dense() for v in unknown))
    precision = laplacian[u][:, u] + lam
    means = torch.cat([priors[v].mean[:, 0] for v in unknown])
    y_b = torch.cat([values[v] for v in boundary]) if boundary else means.new_zeros(0)
    right = (sheaf.coboundary().T @ b)[u] - laplacian[u][:, rest] @ y_b + lam @ means
    extension = harmonic_extension(sheaf, values, b, priors)
    mean = torch.linalg.solve(precision, right)
    torch.testing.assert_close(extension.cochain.flatten()[u], mean, atol=1e-6, rtol=1e-6)
    # The covariance comes block by block, the vertices side by side within a block.
    covariance = torch.linalg.inv(precision) * 0.25
    found = extension.covariance(0.25).blocks
    starts = np.cumsum([0, *sheaf.vertex_dims[unknown]])
    for n in range(sheaf.n_blocks):
        index = []
        for v, start in zip(unknown, starts, strict=False):
            width = int(sheaf.vertex_dims[v]) // sheaf.n_blocks
            index.extend(range(start + n * width, start + (n + 1) * width))
        expected = covariance[index][:, index]
        torch.testing.assert_close(found[n], expected, atol=1e-6, rtol=1e-6)


@given(problems(), st.permutations(range(6)))
def test_elimination_order_does_not_matter(
    problem: tuple[Case, list[int], list[int]], order: list[int]
) -> None:
    case, boundary, unknown = problem
    values = {v: case.normal(int(case.sheaf.vertex_dims[v])) for v in boundary}
    form = energy_form(case.sheaf, case.edge_cochain())
    one_by_one = form
    for v in order:
        if v in unknown:
            one_by_one = one_by_one.eliminate([v])
    together = form.eliminate(unknown)(values)
    close = attainable(case.sheaf, unknown) * (1 + together)
    assert abs(one_by_one(values) - together) < close
    assert abs(form.fix(values).minimum() - together) < close


@given(problems(), st.sampled_from([1, 2]))
def test_candidates_are_evaluated_together(
    problem: tuple[Case, list[int], list[int]], k: int
) -> None:
    case, boundary, _ = problem
    if not boundary:
        return
    target, *sources = boundary
    sheaf = case.sheaf
    values = {v: case.normal(int(sheaf.vertex_dims[v]), k) for v in sources}
    form = schur_complement(sheaf, boundary, case.edge_cochain(k)).fix(values)
    points = case.normal(7, int(sheaf.vertex_dims[target]), k)
    expected = torch.stack([form({target: point}) for point in points])
    torch.testing.assert_close(form.evaluate(points), expected, atol=1e-8, rtol=1e-8)
    widest = monomials.WIDEST_EXPANDED_BLOCK
    monomials.WIDEST_EXPANDED_BLOCK = 0
    try:
        torch.testing.assert_close(form.evaluate(points), expected, atol=1e-8, rtol=1e-8)
    finally:
        monomials.WIDEST_EXPANDED_BLOCK = widest


@pytest.mark.parametrize("kind", ["scalar", "block", "general"])
def test_every_width_of_monomials_gives_the_same(kind: str) -> None:
    n, w, k, batch = 4, 3, 2, 5
    normal = torch.Generator().manual_seed(1)
    square = torch.randn(batch, n, w, w, generator=normal, dtype=torch.float64)
    square = square @ square.mT
    eye = torch.eye(w, dtype=torch.float64)
    if kind == "scalar":
        square = square[:, :1, :1, :1] * eye.expand(n, w, w)
    elif kind == "block":
        square = square[..., :1, :1] * eye
    linear = torch.randn(batch, n, w, k, generator=normal, dtype=torch.float64)
    constant = torch.randn(batch, generator=normal, dtype=torch.float64)
    points = torch.randn(6, n * w, k, generator=normal, dtype=torch.float64)
    blocks = points.reshape(6, n, w, k)
    expected = (
        torch.einsum("pnik,bnij,pnjk->bp", blocks, square, blocks)
        + 2 * torch.einsum("bnik,pnik->bp", linear, blocks)
        + constant[:, None]
    )
    candidates = Candidates(points, n)
    torch.testing.assert_close(candidates.evaluate(square, linear, constant), expected)
    narrowest = {"scalar": Monomials.NORM, "block": Monomials.BLOCKS, "general": Monomials.PRODUCTS}
    assert needed_monomials(square) is narrowest[kind]
    assert needed_monomials(0 * square) is Monomials.NONE
    zero = candidates.evaluate(0 * square, linear, constant)
    flat = 2 * linear.flatten(1) @ points.flatten(1).T + constant[:, None]
    torch.testing.assert_close(zero, flat)
    square.requires_grad_()
    torch.testing.assert_close(candidates.evaluate(square, linear, constant), expected)


@given(sheaf_cases(max_vertices=4, min_edges=1), st.booleans(), st.sampled_from([1, 2]))
def test_two_ends_factorise_into_an_edge(case: Case, translated: bool, k: int) -> None:
    sheaf = case.sheaf
    if sheaf.graph.num_vertices < 2:
        return
    b = case.edge_cochain(k) if translated else None
    form = schur_complement(sheaf, [0, 1], b, sections=k)
    head, tail, z, constant = form.factorise()
    x, y = case.normal(int(sheaf.vertex_dims[0]), k), case.normal(int(sheaf.vertex_dims[1]), k)
    expected = form({0: x, 1: y})
    found = (head @ x + z - tail @ y).square().sum() + constant
    assert abs(found - expected) < 1e-7 * (1 + expected)


def test_batches_equal_single_problems() -> None:
    """Maps, translations and boundary values of a batch of 2p queries at once."""
    path = Multigraph.from_edges(3, [(0, 1), (1, 2)])
    normal = torch.Generator().manual_seed(2)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=normal, dtype=torch.float64)

    heads = [BlockMap(draw(4, 3, 2, 2)) for _ in range(2)]
    tails = [BlockMap(draw(4, 3, 2, 2)) for _ in range(2)]
    tails[0].blocks[1] = 0  # one query of the batch is singular: nothing pulls at its unknown
    heads[1].blocks[1] = 0
    b, source, points = draw(4, 12, 1), draw(4, 6, 1), draw(9, 6)
    sheaf = CellularSheaf.from_maps(path, [6, 6, 6], heads, tails)
    scores = schur_complement(sheaf, [0, 2], b).fix({0: source}).evaluate(points)
    together = harmonic_extension(sheaf, {0: source, 2: draw(4, 6, 1)}, b)
    assert scores.shape == (4, 9)
    assert together.cochain.shape == (4, 18, 1)
    for i in range(4):
        single = CellularSheaf.from_maps(
            path, [6, 6, 6], [h[i] for h in heads], [t[i] for t in tails]
        )
        form = schur_complement(single, [0, 2], b[i]).fix({0: source[i]})
        torch.testing.assert_close(scores[i], form.evaluate(points))
        end = {0: source[i], 2: single.stalk(together.cochain[i], 2)}
        alone = harmonic_extension(single, end, b[i])
        torch.testing.assert_close(together.cochain[i], alone.cochain)
        torch.testing.assert_close(together.energy[i], alone.energy)


def test_gradients_with_respect_to_boundary_and_translation_also_when_singular() -> None:
    path = Multigraph.from_edges(4, [(0, 1), (1, 2), (1, 1)])
    maps = [torch.randn(2, 3, dtype=torch.float64) for _ in range(6)]
    sheaf = CellularSheaf.from_maps(path, [3, 3, 3, 3], maps[:3], maps[3:])  # vertex 3 is alone
    low_rank = maps[1][:1].expand(2, 3)
    singular = CellularSheaf.from_maps(path, [3] * 4, [low_rank] * 3, [low_rank] * 3)
    x, y = (torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    b = torch.randn(6, dtype=torch.float64, requires_grad=True)
    for each in (sheaf, singular):

        def energy(x: Tensor, y: Tensor, b: Tensor, each: CellularSheaf = each) -> Tensor:
            return schur_complement(each, [0, 2], b)({0: x, 2: y})

        def unknowns(x: Tensor, y: Tensor, b: Tensor, each: CellularSheaf = each) -> Tensor:
            return harmonic_extension(each, {0: x, 2: y}, b).cochain

        assert torch.autograd.gradcheck(energy, (x, y, b))
        assert torch.autograd.gradcheck(unknowns, (x, y, b))


def test_gradients_with_respect_to_regular_maps() -> None:
    path = Multigraph.from_edges(3, [(0, 1), (1, 2), (0, 2)])
    maps = [torch.randn(2, 2, 2, dtype=torch.float64, requires_grad=True) for _ in range(6)]
    b, x = torch.randn(12, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    points = torch.randn(3, 4, dtype=torch.float64)

    def scores(*maps: Tensor) -> Tensor:
        blocks = [BlockMap(m) for m in maps]
        sheaf = CellularSheaf.from_maps(path, [4, 4, 4], blocks[:3], blocks[3:])
        return schur_complement(sheaf, [0, 2], b).fix({0: x}).evaluate(points)

    assert torch.autograd.gradcheck(scores, tuple(maps))


def test_a_form_answers_for_other_sources_without_another_reduction() -> None:
    star = Multigraph.from_edges(4, [(0, 3), (1, 3), (3, 2)])
    maps = [torch.randn(2, 2, dtype=torch.float64) for _ in range(6)]
    sheaf = CellularSheaf.from_maps(star, [2] * 4, maps[:3], maps[3:])
    form = schur_complement(sheaf, [0, 1, 2])
    for _ in range(3):
        values = {v: torch.randn(2, dtype=torch.float64) for v in range(3)}
        direct = harmonic_extension(sheaf, values).energy
        assert form(values) == pytest.approx(float(direct))
        assert form.fix({0: values[0]}).fix({2: values[2], 1: values[1]}).constant == pytest.approx(
            float(direct)
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: schur_complement(s, [7]), "Boundary vertex 7"),
        (lambda s: schur_complement(s, [0])({}), "needs values for the vertices \\[0\\]"),
        (lambda s: energy_form(s).fix({0: torch.ones(3)}), "stalk of dimension 2"),
        (lambda s: energy_form(s).fix({9: torch.ones(2)}), "Vertex 9 is not among"),
        (lambda s: energy_form(s).evaluate(torch.ones(4, 2)), "a form on 1 vertices, not on 2"),
        (lambda s: schur_complement(s, [0]).evaluate(torch.ones(4, 2, 2)), "have 2 sections"),
        (lambda s: schur_complement(s, [0]).evaluate(torch.ones(4)), r"Candidates are \(n, dim\)"),
        (
            lambda s: schur_complement(
                s, [0], priors={0: Prior(torch.ones(2), BlockMap.identity(2, 1))}
            ),
            "vertex 0 is not one",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call: object, message: str) -> None:
    path = Multigraph.from_edges(2, [(0, 1)])
    sheaf = CellularSheaf.from_maps(path, [2, 2], [torch.eye(2)], [torch.eye(2)])
    with pytest.raises(InputError, match=message):
        call(sheaf)  # type: ignore[operator]


@given(st.integers(1, 4), st.integers(1, 8), st.booleans(), st.integers(0, 10**6))
def test_unknowns_that_can_satisfy_everything_leave_nothing_to_rank_by(
    half: int, rows: int, double: bool, seed: int
) -> None:
    """The unknown of a path has d_s numbers for twice d_r equations."""
    normal = torch.Generator().manual_seed(seed)
    dtype = torch.float64 if double else torch.float32
    dim, queries = 2 * half, 5
    maps = [
        BlockMap(torch.randn(queries, 1, rows, dim, generator=normal, dtype=dtype))
        for _ in range(4)
    ]
    path = Multigraph.from_edges(3, [(0, 1), (1, 2)])
    sheaf = CellularSheaf.from_maps(path, [dim] * 3, maps[:2], maps[2:])
    source = torch.randn(queries, dim, 1, generator=normal, dtype=dtype)
    held = torch.cat([maps[2].dense(), maps[1].dense()], -2).double()
    sizes = torch.linalg.svdvals(held)
    assume(bool((sizes[..., -1] > 1e-2 * sizes[..., 0]).all()))  # else the rank is in doubt
    form = energy_form(sheaf).fix({0: source})
    assert form.eliminate([1]).indifferent().tolist() == [2 * rows <= dim] * queries
    assert not form.indifferent().any()
    assert not form.eliminate([2]).indifferent().any()


def test_indifference_is_told_query_by_query_and_needs_all_vertices() -> None:
    edge = Multigraph.from_edges(3, [(0, 1)])
    tails = torch.stack([torch.zeros(2, 2), torch.eye(2)])
    sheaf = CellularSheaf.from_maps(edge, [2, 2, 2], [torch.eye(2).expand(2, 2, 2)], [tails])
    form = energy_form(sheaf)
    assert form.eliminate([2]).indifferent().tolist() == [False, False]
    assert form.eliminate([0]).indifferent().tolist() == [True, True]
    assert form.fix({0: torch.ones(2)}).indifferent().tolist() == [True, False]
    assert form.eliminate([0, 1]).indifferent().tolist() == [True, True]  # no edge holds it


def test_a_batch_without_known_values_is_still_a_batch() -> None:
    """Nothing is fixed and nothing translates: the constant is 0 for each of the forms."""
    path = Multigraph.from_edges(2, [(0, 1)])
    maps = [BlockMap(torch.randn(4, 2, 1, 1)) for _ in range(2)]
    form = energy_form(CellularSheaf.from_maps(path, [2, 2], maps[:1], maps[1:]))
    assert form.constant.shape == (4,)
    assert form.eliminate([0]).evaluate(torch.randn(7, 2)).shape == (4, 7)
