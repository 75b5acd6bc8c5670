"""Sheaves with values elsewhere as models: against `ValuedSheaf` and the linear model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import knowledge_sheaves as ks
from knowledge_sheaves.embedding import KnowledgeSheaf, SheafConfig, SheafEmbedding, model_config
from knowledge_sheaves.embedding.energies import ENERGIES, register
from knowledge_sheaves.embedding.energies.valued import Layers, Valued
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Relation, Schema
from knowledge_sheaves.query import Options, Query, scores
from knowledge_sheaves.sheaf import Euclidean, RelationMaps, TwoLayerMaps, ValuedSheaf

DIM, ENTITIES, RELATIONS = 3, 7, 2


class Linear(Layers):
    """Two layers without an activation between them."""

    name = space = "linear-layers"

    def maps(self, end: End, relations: int) -> RelationMaps:
        return TwoLayerMaps(relations, DIM, 4, DIM, activation=lambda x: x)


class Folds(RelationMaps):
    """x ↦ (|x_1 + s|, …): one of somebody's own, into a stalk of fewer dimensions."""

    def __init__(self, relations: int) -> None:
        super().__init__(relations)
        self.shift = torch.nn.Parameter(torch.randn(relations, DIM))

    def forward(self, x: Tensor, relation: Tensor) -> Tensor:
        return (x + self.shift[relation].to(x)).abs()[..., : DIM - 1]


class Folded(Valued):
    name = space = "folded"

    @property
    def stalk(self) -> Euclidean:
        return Euclidean(DIM)

    def maps(self, end: End, relations: int) -> RelationMaps:
        return Folds(relations)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(Linear)
    register(Folded)
    yield
    del ENERGIES["linear-layers"], ENERGIES["folded"]


def graph(symmetric: bool = False) -> KnowledgeGraph:
    rng = np.random.default_rng(5)
    rows = rng.integers(0, [ENTITIES, RELATIONS, ENTITIES], size=(14, 3))
    relations = [
        Relation("r0", "thing", "thing", symmetric=symmetric),
        Relation("r1", "thing", "thing"),
    ]
    schema = Schema(["thing"], relations)
    return KnowledgeGraph.from_arrays(*rows.T, schema=schema, num_entities=ENTITIES)


def made(space: str, known: KnowledgeGraph | None = None, **options: object) -> SheafEmbedding:
    config = model_config("unstructured", dim=DIM, space=space, **options)
    model = SheafEmbedding(config, known or graph(), seed=2).double()
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator).double())
    return model


def as_sheaf(model: SheafEmbedding) -> ValuedSheaf:
    """The same sheaf on the graph, by the mathematics room alone."""
    energy, edges = model.config.energy, model.graph.triples[:, 1].tolist()
    assert isinstance(energy, Valued)
    heads, tails = (model.networks[end] for end in ("head", "tail"))
    assert isinstance(heads, RelationMaps)
    assert isinstance(tails, RelationMaps)
    return ValuedSheaf(
        model.graph.graph,
        [energy.stalk] * ENTITIES,
        [energy.stalk] * len(edges),
        [heads[e] for e in edges],
        [tails[e] for e in edges],
    )


@pytest.mark.parametrize("reciprocal", [True, False, "tied"])
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("space", ["hyperbolic", "layers", "folded"])
def test_energies_are_those_of_the_valued_sheaf(
    space: str, power: float, reciprocal: object
) -> None:
    model = made(space, power=power, reciprocal=reciprocal)
    sheaf, energy = as_sheaf(model), model.config.energy
    assert isinstance(energy, Valued)
    with torch.no_grad():
        points = energy.stalk.point(model.entities.tables[0])
        found = model.energies()
        wanted = sheaf.edge_energies(list(points), power)
        assert torch.allclose(found, wanted)
        heads, edges, tails = torch.from_numpy(np.array(model.graph.triples, np.int64)).T
        by_tail = model.score_tails(heads, edges).gather(1, tails[:, None])[:, 0]
        by_head = model.score_heads(edges, tails).gather(1, heads[:, None])[:, 0]
        between = model.score_relations(heads, tails).gather(1, edges[:, None])[:, 0]
    assert torch.allclose(by_tail, wanted)
    assert torch.allclose(between, wanted)
    if reciprocal is not True:
        assert torch.allclose(by_head, wanted)


def test_a_symmetric_relation_has_one_map() -> None:
    model = made("hyperbolic", graph(symmetric=True), reciprocal=False)
    a, b = torch.cartesian_prod(torch.arange(ENTITIES), torch.arange(ENTITIES)).T
    with torch.no_grad():
        forth, back = (
            model.scores(torch.stack([x, torch.full_like(x, e), y], 1))
            for e, x, y in ((0, a, b), (0, b, a))
        )
        assert torch.allclose(forth, back)
        assert not torch.allclose(
            *(model.scores(torch.stack([x, torch.ones_like(x), y], 1)) for x, y in ((a, b), (b, a)))
        )


def linear_twin(model: SheafEmbedding) -> SheafEmbedding:
    """The linear model with the maps BA and the translations that are left."""
    heads, tails = (model.networks[end] for end in ("head", "tail"))
    assert isinstance(heads, TwoLayerMaps)
    assert isinstance(tails, TwoLayerMaps)
    names = [r.name for r in model.graph.schema.relations]
    maps = {n: (heads.linear(i).tolist(), tails.linear(i).tolist()) for i, n in enumerate(names)}
    z = {n: (heads.shift(i) - tails.shift(i)).tolist() for i, n in enumerate(names)}
    sheaf = KnowledgeSheaf.from_maps(model.graph.schema, {"thing": DIM}, maps, translations=z)
    vectors = {n: model.vector(n) for n in model.graph.entities}
    return SheafEmbedding.from_vectors(sheaf, model.graph, vectors)


def test_without_activations_it_is_the_linear_model() -> None:
    """Energies of triples, and what harmonic extension makes of questions."""
    model = made("linear-layers", reciprocal=False)
    twin = linear_twin(model)
    triples = np.indices((ENTITIES, RELATIONS, ENTITIES)).reshape(3, -1).T
    with torch.no_grad():
        found, wanted = (m.energies(triples).double() for m in (model, twin))
    assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-5)
    names, options = list(model.graph.entities), Options("harmonic", tau=1.0)
    asked = [
        [(names[0], "r0", "?y"), ("?y", "r1", "?x")],
        [(names[1], "r0", "?y"), ("?x", "r1", "?y"), (names[2], "r1", "?y")],
    ]
    for edges in asked:
        query = Query.from_triples(edges, "?x", model.graph)
        descended, exact = (scores(m, [query], options).energies for m in (model, twin))
        assert torch.allclose(descended, exact.double(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("space", ["hyperbolic", "layers"])
def test_unknowns_are_found_by_descent(space: str) -> None:
    """As low as the mathematics room's own descent, from many random starts."""
    model = made(space, reciprocal=False)
    energy, names = model.config.energy, list(model.graph.entities)
    assert isinstance(energy, Valued)
    query = Query.from_triples([(names[0], "r0", "?y"), ("?y", "r1", "?x")], "?x", model.graph)
    with torch.no_grad():
        found = scores(model, [query], Options("harmonic", tau=1.0)).energies[0]
    heads, tails = (model.networks[end] for end in ("head", "tail"))
    path = ks.graph.Multigraph.from_edges(3, [(0, 1), (1, 2)])
    sheaf = ValuedSheaf(
        *(path, [energy.stalk] * 3, [energy.stalk] * 2),
        *([heads[0], heads[1]], [tails[0], tails[1]]),  # type: ignore[index]
    )
    points = energy.stalk.point(model.entities.tables[0].detach())
    for answer in range(3):
        _, least = sheaf.extend({0: points[0], 2: points[answer]}, restarts=4, power=2)
        assert float(found[answer]) <= float(least) * 1.01 + 1e-4


@pytest.mark.parametrize("space", ["hyperbolic", "layers"])
def test_it_is_chosen_by_name_trained_saved_loaded_and_asked(space: str, tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(f"model: unstructured\nspace: {space}\ndim: 4\nbiases: true\n")
    assert SheafConfig.load(file).energy.name == space
    model = ks.train(graph(), str(file), epochs=15, out=tmp_path / "model", seed=1)
    start = SheafEmbedding(model.model.config, model.graph, 1)
    loaded = ks.load(tmp_path / "model")
    with torch.no_grad():
        rows = model.graph.triples
        assert torch.equal(loaded.model.scores(rows), model.model.scores(rows))
        fresh, learned = (
            (m.score_tails(*torch.tensor(rows[:, :2].astype(np.int64)).T)
             <= m.scores(rows)[:, None] + 1e-6).sum(1).float().mean()
            for m in (start, model.model)
        )  # fmt: skip
    assert learned < fresh  # facts rank higher than at the start
    one = model.graph.entities[int(rows[0, 0])]
    for solver in ("chaining", "harmonic"):
        question = f"{one} r0 ?y . ?y r1 ?x"
        answers = loaded.answer(question, top=2, solver=solver, explain=True)
        assert len(answers) == 2
        if solver == "harmonic":
            assert answers.explanation[0].energy == pytest.approx(answers[0].energy, abs=1e-3)


def test_what_it_cannot_do_is_refused() -> None:
    for options, reason in (
        ({"head": "free"}, "brings its own maps"),
        ({"translation": True}, "brings its own maps"),
        ({"norm": 1}, "its own distance"),
        ({"sections": 2}, "its own distance"),
    ):
        with pytest.raises(InputError, match=reason):
            model_config("unstructured", space="hyperbolic", **options)
    schema = Schema(["thing"], [Relation("r", "thing", "thing", functional=True)])
    known = KnowledgeGraph.from_triples(
        [("a", "r", "b")], schema=schema, types={"a": "thing", "b": "thing"}
    )
    with pytest.raises(InputError, match="marked functional"):
        SheafEmbedding(model_config("unstructured", space="layers"), known)


def test_what_is_kept_is_forgotten_when_a_new_network_changes() -> None:
    graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    model = SheafEmbedding(model_config("unstructured", dim=4, space="layers"), graph)
    assert model.keep("x", lambda: 1) == 1
    model.reset(1)
    assert model.keep("x", lambda: 2) == 2
    with torch.no_grad():
        next(model.networks.parameters()).add_(1.0)
    assert model.keep("x", lambda: 3) == 3
