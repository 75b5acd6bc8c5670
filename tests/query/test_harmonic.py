"""Harmonic answers against brute force: dense least squares over the unknowns, for every entity."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_sheaves.embedding import CATALOGUE, SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Relation, Schema
from knowledge_sheaves.query import Options, Query, Wanted, answer, scores
from knowledge_sheaves.query.pattern import Edge, Pattern, Term
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph
from knowledge_sheaves.query.solvers.harmonic.priors import type_prior
from knowledge_sheaves.query.types import readings
from query_cases import explain, target_energies

CLOSED_FORM = [name for name in CATALOGUE if name != "toruse"]
ENTITIES, RELATIONS = 5, 3
LIFTS = ("free", "composite")


def make_model(name: str, reciprocal: bool, sections: int = 1, **options: object) -> SheafEmbedding:
    schema = Schema.single([f"r{i}" for i in range(RELATIONS)])
    rows = np.array([(0, 0, 1), (1, 1, 2), (3, 2, 4)])
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=schema, num_entities=ENTITIES)
    block = CATALOGUE[name].block
    dim = 3 if block is None else (4 if block <= 4 else block)
    dim = 6 if block == 3 else dim
    config = model_config(name, dim=dim, reciprocal=reciprocal, sections=sections, **options)
    model = SheafEmbedding(config, graph, seed=4).double()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.5 * noise)
    model.refresh()
    return model.requires_grad_(False)


def people_and_films() -> KnowledgeGraph:
    """Two types of different width."""
    schema = Schema(
        [EntityType("Person", 4), EntityType("Film", 2)],
        [
            Relation("friends", "Person", "Person"),
            Relation("likes", "Person", "Film"),
            Relation("by", "Film", "Person"),
        ],
    )
    rows = np.array([(0, 0, 1), (1, 1, 3), (2, 1, 4), (3, 2, 0)])
    return KnowledgeGraph.from_arrays(*rows.T, schema=schema, entity_types=[0, 0, 0, 1, 1])


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    """A connected pattern with up to six vertices: cycles, parallel edges, self-loops and all."""
    variables = [f"?{i}" for i in range(draw(st.integers(1, 4)))]
    relation = st.integers(0, RELATIONS - 1)
    edges = []
    for place, variable in enumerate(variables):
        others = st.sampled_from(variables[:place]) if place else st.integers(0, ENTITIES - 1)
        pair = [draw(others), variable]
        edges.append(_edge(draw, pair, relation))
    term = st.one_of(st.sampled_from(variables), st.integers(0, ENTITIES - 1))
    for _ in range(draw(st.integers(0, 3))):
        pair = [draw(st.sampled_from(variables)), draw(term)]
        edges.append(_edge(draw, pair, relation))
    return Pattern(tuple(edges))


def _edge(draw: st.DrawFn, pair: list[object], relation: st.SearchStrategy[int]) -> Edge:
    head, tail = draw(st.permutations(pair))
    return Edge(head, draw(relation), tail)


def batch_of(model: SheafEmbedding, pattern: Pattern, target: str) -> QueryGraph:
    parts = [readings(pattern, model.graph)[0]]
    return QueryGraph.of(model, [pattern], parts, target)


def residual_rows(
    model: SheafEmbedding, batch: QueryGraph, values: dict[int, torch.Tensor], unknown: list[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The residuals of all edges as A y + b in the unknowns' coordinates, from single maps."""
    dims = {v: model.n_blocks * model.widths[batch.types[v]] for v in range(len(batch.types))}
    start = dict(zip(unknown, np.cumsum([0, *(dims[v] for v in unknown)]), strict=False))
    total = sum(dims[v] for v in unknown)
    rows, right = [], []
    for place in range(batch.graph.num_edges):
        edge = int(batch.edges[0, place])
        row = None
        b = None
        for end, vertex, sign in (
            ("head", int(batch.graph.heads[place]), 1.0),
            ("tail", int(batch.graph.tails[place]), -1.0),
        ):
            map_ = sign * model.maps.map(end, edge).dense()
            if row is None:
                row, b = (
                    torch.zeros(map_.shape[0], total).double(),
                    torch.zeros(map_.shape[0]).double(),
                )
            if vertex in unknown:
                row[:, start[vertex] : start[vertex] + dims[vertex]] += map_
            else:
                b = b + map_ @ values[vertex]
        z = model.translation(torch.tensor([edge]))
        assert row is not None
        rows.append(row)
        right.append(b if z is None else b + z.flatten())
    return torch.cat(rows), torch.cat(right)


def brute_force(model: SheafEmbedding, batch: QueryGraph, target: str) -> torch.Tensor:
    """For every entity in the target's place, the minimum over the unknowns by least squares."""
    vertex = batch.vertex(target)
    unknown = [batch.vertex(v) for v in batch.variables if v != target]
    known = {slot: model.entities.vector(int(e)) for slot, e in enumerate(batch.entities[0])}
    out = []
    for entity in range(ENTITIES):
        values = {**known, vertex: model.entities.vector(entity)}
        a, b = residual_rows(model, batch, values, unknown)
        if a.shape[1]:
            y = torch.linalg.lstsq(a, -b.unsqueeze(1), driver="gelsd").solution.squeeze(1)
            energy = (a @ y + b).square().sum()
        else:
            energy = b.square().sum()
        for tail in batch.graph.tails:
            if model.config.lifted and int(tail) in values:
                energy = energy + model.radius**2 - values[int(tail)].square().sum()
        if model.biases is not None:
            ends = [*batch.graph.heads, *batch.graph.tails]
            energy = energy - sum(model.biases[entity, 0] for v in ends if v == vertex)
        out.append(energy)
    return torch.stack(out)


@pytest.mark.parametrize("reciprocal", [True, False])
@pytest.mark.parametrize(
    ("name", "options"), [*((name, {}) for name in CLOSED_FORM), ("complex", {"biases": True})]
)
@settings(max_examples=12)
@given(pattern=patterns())
def test_harmonic_is_the_least_energy(
    name: str, options: dict[str, object], reciprocal: bool, pattern: Pattern
) -> None:
    model = make_model(name, reciprocal, **options)
    target = pattern.variables[-1]
    batch = batch_of(model, pattern, target)
    expected = brute_force(model, batch, target)
    found = target_energies(model, batch, target)[0]
    scale = 1 + expected.abs().max()
    assert ((found - expected).abs() < 1e-6 * scale).all()


def on_the_sphere(
    model: SheafEmbedding, batch: QueryGraph, target: str, strength: float
) -> torch.Tensor:
    """Σ −2⟨F x_h, x_t⟩ + λ (y − μ)ᵀ Σ⁻¹ (y − μ), minimised with one dense solve per entity."""
    vertex, types = batch.vertex(target), batch.types
    unknown = [batch.vertex(v) for v in batch.variables if v != target]
    priors = {v: type_prior(model, types[v], strength) for v in unknown}
    dims = [model.n_blocks * model.widths[types[v]] for v in unknown]
    expected = []
    known = {slot: model.entities.vector(int(e)) for slot, e in enumerate(batch.entities[0])}
    for entity in model.entities_of_type(types[vertex]).tolist():
        values = {**known, vertex: model.entities.vector(entity)}

        def energy(y: torch.Tensor, values: dict[int, torch.Tensor] = values) -> torch.Tensor:
            places = {**values, **dict(zip(unknown, y.split(dims), strict=True))}
            total = torch.zeros(()).double()
            for place in range(batch.graph.num_edges):
                map_ = model.maps.map("head", int(batch.edges[0, place])).dense()
                head, tail = int(batch.graph.heads[place]), int(batch.graph.tails[place])
                total = total - 2 * (map_ @ places[head]) @ places[tail]
            for v in unknown:
                gap = places[v] - priors[v].mean.flatten()
                total = total + gap @ priors[v].precision.dense() @ gap
            return total

        start = torch.zeros(sum(dims)).double()
        if unknown:
            hessian = torch.autograd.functional.hessian(energy, start)
            slope = torch.autograd.functional.jacobian(energy, start)
            assert torch.linalg.eigvalsh(hessian).min() > 0
            start = start - torch.linalg.solve(hessian, slope)
        expected.append(energy(start))
    return torch.stack(expected)


@pytest.mark.parametrize("name", [n for n, c in CATALOGUE.items() if c.lifted])
@settings(max_examples=12)
@given(pattern=patterns())
def test_on_the_sphere_it_is_the_minimum_of_a_dense_quadratic(name: str, pattern: Pattern) -> None:
    model = make_model(name, reciprocal=True)
    target = pattern.variables[-1]
    batch = batch_of(model, pattern, target)
    strength = 64.0  # large enough to be definite for all of these
    expected = on_the_sphere(model, batch, target, strength)
    found = target_energies(model, batch, target, lift="sphere", strength=strength)[0]
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("reciprocal", [True, False])
@pytest.mark.parametrize("relations", [(1,), (0, 1), (1, 2), (2, 1)])
def test_types_of_different_width_stand_on_the_sphere(
    relations: tuple[int, ...], reciprocal: bool
) -> None:
    config = model_config("rescal", reciprocal=reciprocal, init=0.5)
    model = SheafEmbedding(config, people_and_films(), seed=1).double().requires_grad_(False)
    names = [3 if relations[0] == 2 else 0, *("?y",) * (len(relations) - 1), "?x"]
    ends = zip(names, relations, names[1:], strict=False)
    pattern = Pattern(tuple(Edge(head, relation, tail) for head, relation, tail in ends))
    batch = batch_of(model, pattern, "?x")
    found = target_energies(model, batch, "?x", lift="sphere", strength=64.0)[0]
    torch.testing.assert_close(found, on_the_sphere(model, batch, "?x", 64.0))
    if len(relations) > 1:
        options = Options("harmonic", tau=1.0)
        (joint,) = answer(model, Query(("?y", "?x"), (pattern,)), options, Wanted(top=6))
        for place, each in enumerate(joint):
            reasons = explain(model, joint, place, options)
            assert reasons.energy == pytest.approx(each.energy, abs=1e-9)


@pytest.mark.parametrize("name", [n for n, c in CATALOGUE.items() if c.lifted])
@given(pattern=patterns())
@settings(max_examples=15, deadline=None)
def test_a_composite_relation_is_lifted_as_a_whole(name: str, pattern: Pattern) -> None:
    """What other known entities leave as it is, ⟨x, S x⟩, ranks nothing; all else is as before."""
    model = make_model(name, reciprocal=True)
    target = pattern.variables[0]

    def moved(term: Term, shift: int) -> Term:
        return (term + shift) % ENTITIES if isinstance(term, int) else term

    def left_out(shift: int) -> torch.Tensor:
        edges = [
            Edge(moved(edge.head, shift), edge.relation, moved(edge.tail, shift))
            for edge in pattern.edges
        ]
        batch = batch_of(model, Pattern(tuple(edges)), target)
        free, whole = (target_energies(model, batch, target, lift)[0] for lift in LIFTS)
        return free - whole

    first, second = left_out(0), left_out(1)
    tolerance = 1e-8 * (1 + float(first.abs().max()))
    torch.testing.assert_close(first, second, atol=tolerance, rtol=0)


def test_a_single_edge_has_nothing_to_lift_twice() -> None:
    model = make_model("complex", reciprocal=True)
    batch = batch_of(model, Pattern((Edge(0, 1, "?x"),)), "?x")
    free, whole = (target_energies(model, batch, "?x", lift) for lift in LIFTS)
    torch.testing.assert_close(whole, free)


def test_two_hops_of_a_composite_are_one_bilinear_relation() -> None:
    """−2⟨G (I + GᵀG)⁻¹ F x_h, x⟩, by hand."""
    model = make_model("complex", reciprocal=True)
    pattern = Pattern((Edge(0, 0, "?y"), Edge("?y", 1, "?x")))
    found = target_energies(model, batch_of(model, pattern, "?x"), "?x", "composite")[0]
    f, g = (model.maps.map("head", relation).dense() for relation in (0, 1))
    x = model.entities.tables[0]
    middle = torch.linalg.inv(torch.eye(len(f)).double() + g.T @ g) @ f @ x[0]
    expected = -2 * x @ g @ middle
    torch.testing.assert_close(found - found[0], expected - expected[0])


def test_a_weak_prior_is_raised_until_there_is_a_minimum() -> None:
    model = make_model("complex", reciprocal=True)
    loop = Pattern((Edge(0, 0, "?y"), Edge("?y", 1, "?y"), Edge("?y", 2, "?x")))
    batch = batch_of(model, loop, "?x")
    values = target_energies(model, batch, "?x", lift="sphere", strength=1e-6)
    assert values.isfinite().all()


def test_two_hops_have_half_the_energy_of_their_composition() -> None:
    """For rotations, 2p is ‖R₂R₁ s − x‖² / 2, and 3p a third."""
    model = make_model("rotate", reciprocal=False)
    chain = [Edge(0, 0, "?a"), Edge("?a", 1, "?b"), Edge("?b", 2, "?c")]
    x = torch.stack([model.entities.vector(e) for e in range(ENTITIES)])
    moved = x[0]
    for length in (1, 2, 3):
        moved = model.maps.map("head", length - 1) @ moved
        pattern = Pattern(tuple(chain[:length]))
        target = pattern.variables[-1]
        found = target_energies(model, batch_of(model, pattern, target), target)[0]
        torch.testing.assert_close(found, (moved - x).square().sum(1) / length)


def test_two_branches_rank_by_the_distance_to_their_mean() -> None:
    model = make_model("transe", reciprocal=False)
    pattern = Pattern((Edge(0, 0, "?x"), Edge(1, 1, "?x")))
    found = target_energies(model, batch_of(model, pattern, "?x"), "?x")[0]
    x = torch.stack([model.entities.vector(e) for e in range(ENTITIES)])
    z = model.translation(torch.arange(2)).flatten(1)
    a, b = x[0] + z[0], x[1] + z[1]
    expected = 2 * ((a + b) / 2 - x).square().sum(1) + (a - b).square().sum() / 2
    torch.testing.assert_close(found, expected)


def test_sections_are_solved_together() -> None:
    model = make_model("translational", reciprocal=False, sections=2)
    pattern = Pattern((Edge(0, 0, "?y"), Edge("?y", 1, "?x")))
    batch = batch_of(model, pattern, "?x")
    found = target_energies(model, batch, "?x")[0]
    f1, f2 = (model.maps.map("head", e).dense() for e in (0, 1))
    g1, g2 = (model.maps.map("tail", e).dense() for e in (0, 1))
    z = model.translation(torch.arange(2)).flatten(1, 2)
    for entity in range(ENTITIES):
        a = torch.cat([-g1, f2])
        b = torch.cat(
            [f1 @ model.entities.vector(0) + z[0], z[1] - g2 @ model.entities.vector(entity)]
        )
        y = torch.linalg.lstsq(a, -b).solution
        torch.testing.assert_close(found[entity], (a @ y + b).square().sum())


def test_batches_and_types_of_different_width() -> None:
    graph = people_and_films()
    model = SheafEmbedding(model_config("se"), graph, seed=1).double().requires_grad_(False)
    patterns_ = [Pattern((Edge(e, 0, "?y"), Edge("?y", 1, "?x"))) for e in (0, 1, 2)]
    parts = [readings(p, graph)[0] for p in patterns_]
    batch = QueryGraph.of(model, patterns_, parts, "?x")
    assert target_energies(model, batch, "?x").shape == (3, 2)
    for row, pattern in enumerate(patterns_):
        alone = target_energies(model, QueryGraph.of(model, [pattern], parts[:1], "?x"), "?x")
        torch.testing.assert_close(target_energies(model, batch, "?x")[row], alone[0])
    with pytest.raises(
        InputError, match=r"'friends' goes from Person to Person, but .* of type Film"
    ):
        readings(Pattern((Edge(3, 0, "?x"),)), graph)


@pytest.mark.parametrize("name", ["transe", "rotate", "pairre", "mure", "se"])
def test_a_prior_is_added_for_every_query_also_when_relations_return(name: str) -> None:
    """Dense: the unknown is where F₁ a + z₁, F₂⁻¹ x and its prior pull it to."""
    model, strength = make_model(name, reciprocal=False), 0.7
    prior = type_prior(model, 0, strength)
    precision, mean = prior.precision.dense(), prior.mean
    everyone = model.entities.of_type(0).flatten(1, 2)

    def expected(source: int, first: int, second: int) -> torch.Tensor:
        f1, f2 = model.maps.map("head", first).dense(), model.maps.map("head", second).dense()
        g1, g2 = model.maps.map("tail", first).dense(), model.maps.map("tail", second).dense()
        z = model.translations
        z1, z2 = (0, 0) if z is None else (z[first][:, None], z[second][:, None])
        energies = []
        for x in everyone:
            start, end = f1 @ everyone[source] + z1, g2 @ x - z2
            system = g1.T @ g1 + f2.T @ f2 + precision
            y = torch.linalg.solve(system, g1.T @ start + f2.T @ end + precision @ mean)
            away = y - mean
            pull = (away * (precision @ away)).sum()
            energies.append((start - g1 @ y).square().sum() + (f2 @ y - end).square().sum() + pull)
        return torch.stack(energies)

    asked = [(0, 0, 1), (1, 0, 1), (2, 0, 1), (0, 1, 1), (3, 2, 1), (4, 0, 1), (4, 1, 0)]
    for rows in (asked[:1], asked[:2], asked, asked[::-1]):
        found = [
            Query(("?x",), (Pattern((Edge(s, first, "?y"), Edge("?y", second, "?x"))),))
            for s, first, second in rows
        ]
        values = scores(model, found, Options("harmonic", strength=strength), chances=False)[0]
        less = torch.stack([expected(*row) for row in rows])
        if model.biases is not None:
            less = less - model.biases[:, -1]
        torch.testing.assert_close(values, less)
