"""Sheaves of hyperbolic balls and of networks: their laws, and the linear model where it is one."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import GraphMorphism, Multigraph
from knowledge_sheaves.sheaf import (
    CellularSheaf,
    Euclidean,
    HyperbolicBall,
    MoebiusMaps,
    TwoLayerMaps,
    ValuedSheaf,
    harmonic_extension,
)

ball = st.builds(HyperbolicBall, st.integers(1, 4), st.sampled_from([0.25, 1.0, 4.0]))
seeds = st.integers(0, 10**6)


def points(space: HyperbolicBall, seed: int, count: int = 3) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [space.point(space.random(generator) / 2) for _ in range(count)]


@given(ball, seeds)
def test_the_ball_is_a_metric_space_that_its_translations_keep(
    space: HyperbolicBall, seed: int
) -> None:
    a, b, z = points(space, seed)
    # The textbook's other formula for the distance: 2/√c artanh(√c ‖(−a) ⊕ b‖).
    root = space.curvature**0.5
    expected = 2 / root * torch.atanh(root * space.difference(a, b).norm())
    torch.testing.assert_close(space.distance(a, b), expected)
    torch.testing.assert_close(space.distance(b, a), expected)
    assert space.distance(a, z) <= space.distance(a, b) + space.distance(b, z) + 1e-9
    torch.testing.assert_close(space.distance(space.add(z, a), space.add(z, b)), expected)
    torch.testing.assert_close(space.add(-a, space.add(a, b)), b)  # left cancellation
    torch.testing.assert_close(space.point(space.coordinates(a)), a)


def test_a_flat_ball_is_euclidean() -> None:
    flat = HyperbolicBall(3, curvature=1e-10)
    a, b, _ = (p.clamp(-1, 1) for p in points(flat, 1))
    torch.testing.assert_close(flat.distance(a, b), 2 * (a - b).norm(), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(flat.add(a, b), a + b, atol=1e-6, rtol=1e-6)


def test_the_middle_of_two_points_lies_on_their_geodesic() -> None:
    space = HyperbolicBall(2)
    path = Multigraph.from_edges(3, [(0, 1), (1, 2)])
    same = MoebiusMaps(1, space, space)[0]
    sheaf = ValuedSheaf(path, [space] * 3, [space] * 2, [same] * 2, [same] * 2)
    a, b, _ = points(space, 4)
    with torch.no_grad():
        total = float(space.distance(a, b))
    found, energy = sheaf.extend({0: a, 2: b})
    assert float(energy) == pytest.approx(total, rel=1e-5)
    found, energy = sheaf.extend({0: a, 2: b}, power=2)
    assert float(space.distance(a, found[1])) == pytest.approx(total / 2, rel=1e-5)
    assert float(energy) == pytest.approx(total**2 / 2, rel=1e-5)
    assert not sheaf.is_section(found)
    assert sheaf.is_section([a, a, a])


@given(seeds)
@settings(max_examples=20)
def test_pullbacks_share_the_parameters_of_a_relation(seed: int) -> None:
    """A schema of one type and two relations, pulled back to a graph of three entities."""
    torch.manual_seed(seed)
    space = HyperbolicBall(2)
    schema = Multigraph.from_edges(1, [(0, 0), (0, 0)])
    head, tail = MoebiusMaps(2, space, space), MoebiusMaps(2, space, space)
    for maps in (head, tail):
        torch.nn.init.normal_(maps.matrix, std=0.5)
        torch.nn.init.normal_(maps.translation, std=0.5)
    sheaf = ValuedSheaf(
        schema, [space], [space] * 2, [head[r] for r in range(2)], [tail[r] for r in range(2)]
    )
    graph = Multigraph.from_edges(3, [(0, 1), (1, 2), (2, 2)])
    relations = np.array([1, 1, 0])
    pulled = sheaf.pullback(GraphMorphism(graph, schema, np.zeros(3, np.int64), relations))
    x = points(space, seed)
    total = pulled.energy(x)
    total.backward()
    assert head.matrix.grad is not None
    batch = torch.from_numpy(relations)
    rows = [torch.stack([x[int(v)] for v in ends]) for ends in (graph.heads, graph.tails)]
    together = space.distance(head(rows[0], batch), tail(rows[1], batch))
    torch.testing.assert_close(pulled.edge_energies(x), together)
    torch.testing.assert_close(total, together.sum())
    differences = torch.stack(pulled.coboundary(x))
    torch.testing.assert_close(space.distance(torch.zeros(2), differences), together)


@given(seeds, st.integers(1, 3), st.integers(1, 4))
@settings(max_examples=20)
def test_two_layers_without_activation_are_the_linear_model(
    seed: int, dim: int, hidden: int
) -> None:
    torch.manual_seed(seed)
    graph = Multigraph.from_edges(3, [(0, 1), (1, 2), (1, 1)])
    ends = [TwoLayerMaps(3, dim, hidden, 2, activation=lambda x: x) for _ in range(2)]
    for maps in ends:
        torch.nn.init.normal_(maps.inner_shift)
        torch.nn.init.normal_(maps.outer_shift)
    head, tail = ends
    valued = ValuedSheaf(
        graph,
        [Euclidean(dim)] * 3,
        [Euclidean(2)] * 3,
        [head[r] for r in range(3)],
        [tail[r] for r in range(3)],
    )
    with torch.no_grad():
        linear = CellularSheaf.from_maps(
            graph,
            [dim] * 3,
            [head.linear(r) for r in range(3)],
            [tail.linear(r) for r in range(3)],
        )
        b = torch.cat([head.shift(r) - tail.shift(r) for r in range(3)])
    x = [torch.randn(dim) for _ in range(3)]
    torch.testing.assert_close(valued.edge_energies(x), linear.edge_energies(torch.cat(x), b))
    torch.testing.assert_close(torch.cat(valued.coboundary(x)), -linear.residuals(torch.cat(x), b))
    _, energy = valued.extend({0: x[0]}, restarts=1)
    expected = harmonic_extension(linear, {0: x[0]}, b).energy
    assert float(energy) == pytest.approx(float(expected), abs=1e-5, rel=1e-4)


def test_two_layers_learn_what_no_linear_map_can() -> None:
    """|x|: the map of a relation that cannot tell left from right."""
    torch.manual_seed(0)
    maps = TwoLayerMaps(1, 1, 8, 1, activation=torch.relu).double()
    x = torch.linspace(-1, 1, 32)[:, None]
    optimiser = torch.optim.Adam(maps.parameters(), lr=0.05)
    for _ in range(200):
        optimiser.zero_grad()
        loss = (maps(x, torch.zeros(32, dtype=torch.long)) - x.abs()).square().mean()
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 0.01  # the best linear map leaves 0.09


def test_a_relation_without_maps_is_refused() -> None:
    with pytest.raises(InputError, match="2 relations, none for 2"):
        TwoLayerMaps(2, 1, 1, 1)[2]
