"""Sheaves of groups, torsors and metric spaces; on vector spaces, the linear theory."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import GraphMorphism, Multigraph
from knowledge_sheaves.sheaf import (
    Euclidean,
    MetricSpace,
    Rotations,
    Torus,
    ValuedSheaf,
    harmonic_extension,
)
from knowledge_sheaves.sheaf.valued import torus_difference
from sheaf_cases import Case, sheaf_cases


@settings(max_examples=25)
@given(sheaf_cases(max_vertices=4, max_edges=5))
def test_vector_spaces_give_what_the_linear_code_gives(case: Case) -> None:
    linear, graph, b = case.sheaf, case.sheaf.graph, case.edge_cochain()
    edges = range(graph.num_edges)
    valued = ValuedSheaf(
        graph,
        [Euclidean(int(d)) for d in linear.vertex_dims],
        [Euclidean(int(d)) for d in linear.edge_dims],
        [lambda x, e=e: linear.head(e) @ x + linear.edge_stalk(b, e) for e in edges],
        [lambda x, e=e: linear.tail(e) @ x for e in edges],
    )
    x = case.vertex_cochain()
    points = [linear.stalk(x, v) for v in range(graph.num_vertices)]
    for e, found in enumerate(valued.coboundary(points)):
        torch.testing.assert_close(found, -linear.edge_stalk(linear.residuals(x, b), e))
    assert valued.is_section(points) == linear.is_section(x, b)
    morphism = GraphMorphism.identity(graph)
    torch.testing.assert_close(valued.pullback(morphism).energy(points), valued.energy(points))
    torch.testing.assert_close(
        valued.edge_energies(points, power=1), linear.edge_energies(x, b, power=1)
    )
    torch.testing.assert_close(
        valued.energy(points), linear.energy(x, b).to(valued.energy(points).dtype)
    )
    boundary = {0: points[0]}
    found, energy = valued.extend(boundary, restarts=1)
    expected = harmonic_extension(linear, boundary, b).energy
    assert float(energy) == pytest.approx(float(expected), abs=1e-5, rel=1e-5)
    assert torch.equal(found[0], points[0])


def test_on_the_torus_differences_wrap_around() -> None:
    a, b = torch.tensor([0.95, 0.2]), torch.tensor([0.05, 0.4])
    torch.testing.assert_close(torus_difference(a, b), torch.tensor([-0.1, -0.2]))
    assert float(Torus(2).distance(a, b)) == pytest.approx(0.05**0.5)


def test_restarts_find_the_better_valley_on_a_cycle_of_clocks() -> None:
    """Three clocks in a ring, each a third of a turn after the one before: no conflict."""
    ring = Multigraph.from_edges(3, [(0, 1), (1, 2), (2, 0)])
    clock = Torus(1)
    sheaf = ValuedSheaf(
        ring, [clock] * 3, [clock] * 3, [lambda x: x + 1 / 3] * 3, [lambda x: x] * 3
    )
    noon = torch.zeros(1, dtype=torch.float64)
    points, energy = sheaf.extend({0: noon}, restarts=8)
    assert float(energy) < 1e-9
    assert float(torus_difference(points[2], noon + 2 / 3).abs()) < 1e-4
    again, _ = sheaf.extend({0: noon}, restarts=8)
    assert all(torch.equal(points[v], again[v]) for v in points)


def test_rotations_meet_half_way() -> None:
    """The unknown between two rotations of a plane is the one at the mean angle."""

    def turn(angle: float) -> torch.Tensor:
        return Rotations(2).point(torch.tensor([angle], dtype=torch.float64))

    path = Multigraph.from_edges(3, [(0, 1), (1, 2)])
    group = Rotations(2)
    same = [lambda x: x] * 2
    sheaf = ValuedSheaf(path, [group] * 3, [group] * 2, same, same)
    points, energy = sheaf.extend({0: turn(0.2), 2: turn(1.0)})
    torch.testing.assert_close(points[1], turn(0.6), atol=1e-5, rtol=0)
    assert float(energy) == pytest.approx(
        2 * float(group.distance(turn(0.2), turn(0.6))) ** 2, abs=1e-8
    )


def test_a_metric_space_brings_its_distance() -> None:
    """On the circle with arc length, any point of the arc between two others will do.

    With squared distances it is the one half way.
    """

    def circle(angle: torch.Tensor) -> torch.Tensor:
        return torch.cat([angle.cos(), angle.sin()])

    def arc(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.atan2(a[0] * b[1] - a[1] * b[0], (a * b).sum()).abs()

    space = MetricSpace(1, arc, circle)
    path = Multigraph.from_edges(3, [(0, 1), (1, 2)])
    sheaf = ValuedSheaf(path, [space] * 3, [space] * 2, [lambda x: x] * 2, [lambda x: x] * 2)
    ends = {v: circle(torch.tensor([a], dtype=torch.float64)) for v, a in ((0, 0.0), (2, 1.5))}
    points, energy = sheaf.extend(ends)
    assert float(energy) == pytest.approx(1.5)
    assert 0 < float(torch.atan2(points[1][1], points[1][0])) < 1.5
    points, energy = sheaf.extend(ends, power=2)
    torch.testing.assert_close(
        points[1], circle(torch.tensor([0.75], dtype=torch.float64)), atol=1e-5, rtol=0
    )
    assert float(energy) == pytest.approx(2 * 0.75**2)
    assert math.isclose(float(sheaf.energy({**ends, 1: ends[0]})), 1.5)
    assert math.isclose(float(sheaf.energy({**ends, 1: ends[0]}, power=3)), 1.5**3)
    assert not sheaf.is_section({**ends, 1: ends[0]})
    with pytest.raises(InputError, match="MetricSpace for its stalk, whose points cannot"):
        sheaf.coboundary({**ends, 1: ends[0]})


def test_without_edges_there_is_no_energy() -> None:
    sheaf = ValuedSheaf(Multigraph.from_edges(1, []), [Euclidean(2)], [], [], [])
    points, energy = sheaf.extend({})
    assert energy == 0
    assert points[0].shape == (2,)


@pytest.mark.parametrize(("spaces", "maps"), [(1, 1), (2, 0)])
def test_counts_must_fit(spaces: int, maps: int) -> None:
    path = Multigraph.from_edges(2, [(0, 1)])
    with pytest.raises(InputError, match="as many spaces"):
        ValuedSheaf(
            path, [Euclidean(1)] * spaces, [Euclidean(1)], [lambda x: x] * maps, [lambda x: x]
        )
