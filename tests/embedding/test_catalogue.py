"""Every model of the catalogue against the definition of its energy in `sheaf/`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import CATALOGUE, SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Multigraph, Relation, Schema
from knowledge_sheaves.graph.multigraph import GraphMorphism

LINEAR = [name for name in CATALOGUE if name != "toruse"]


def small_graph(seed: int = 0, entities: int = 12, relations: int = 3) -> KnowledgeGraph:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, [entities, relations, entities], size=(40, 3))
    schema = Schema.single([f"r{i}" for i in range(relations)])
    return KnowledgeGraph.from_arrays(*rows.T, schema=schema, num_entities=entities)


def random_model(name: str, graph: KnowledgeGraph, **options: object) -> SheafEmbedding:
    """A model with numbers of ordinary size everywhere, biases included."""
    model = SheafEmbedding(model_config(name, **options), graph, seed=1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    model.refresh()
    return model


def options(name: str) -> dict[str, object]:
    block = CATALOGUE[name].block
    return {"dim": 6} if block is None else {"dim": 2 * block if block > 2 else 6}


def all_triples(graph: KnowledgeGraph) -> np.ndarray:
    n, r = graph.num_entities, graph.num_relations
    grid = np.meshgrid(np.arange(n), np.arange(r), np.arange(n), indexing="ij")
    return np.stack([g.ravel() for g in grid], 1)


@pytest.mark.parametrize("sections", [1, 2])
@pytest.mark.parametrize("name", LINEAR)
def test_energies_are_those_of_the_sheaf(name: str, sections: int) -> None:
    graph = small_graph()
    model = random_model(name, graph, sections=sections, **options(name))
    triples = all_triples(graph)
    sheaf, z = model.knowledge_sheaf().on(
        GraphMorphism(
            Multigraph(graph.num_entities, triples[:, 0], triples[:, 2]),
            graph.schema.graph,
            graph.entity_types,
            triples[:, 1],
        )
    )
    expected = sheaf.edge_energies(model.cochain(), z)
    left, right = model.ends(triples)
    size = left.square().sum((1, 2, 3)) + right.square().sum((1, 2, 3)) + model.radius**2
    with torch.no_grad():
        energies = model.energies(triples)
    assert ((energies - expected).abs() <= 1e-5 * size).all()


@pytest.mark.parametrize("reciprocal", [True, False])
@pytest.mark.parametrize(("norm", "power"), [(2, 2), (2, 1), (1, 1)])
@pytest.mark.parametrize("name", CATALOGUE)
def test_products_give_the_scores_of_the_triples(
    name: str, norm: float, power: float, reciprocal: bool
) -> None:
    if CATALOGUE[name].lifted and (norm, power) != (2, 2):
        pytest.skip("a lifted energy is a square")
    graph = small_graph()
    chosen = options(name) | {"norm": norm, "power": power, "reciprocal": reciprocal}
    model = random_model(name, graph, **chosen)
    n, r = graph.num_entities, graph.num_relations
    triples = torch.from_numpy(all_triples(graph))
    with torch.no_grad():
        expected = model.scores(triples).reshape(n, r, n)
        left, right = model.ends(triples)
        size = (left.square().sum((1, 2, 3)) + right.square().sum((1, 2, 3))).max() + 1
    # The root of a sum that should be 0 shows the root of the rounding.
    close = (1e-6 * size) ** 0.5 if (norm, power) == (2, 1) else 2e-5 * size
    heads, edges = torch.cartesian_prod(torch.arange(n), torch.arange(r)).T
    tails = model.score_tails(heads, edges).reshape(n, r, n)
    assert (tails - expected).abs().max() <= close
    by_head = model.score_heads(edges, heads).reshape(n, r, n)  # (tail, relation, every head)
    if reciprocal:
        backwards = triples.clone()
        backwards[:, 1] += r
        with torch.no_grad():
            expected_heads = model.scores(backwards).reshape(n, r, n)
    else:
        expected_heads = expected.permute(2, 1, 0)
    assert (by_head - expected_heads).abs().max() <= close
    pairs = torch.cartesian_prod(torch.arange(n), torch.arange(n)).T
    relations = model.score_relations(*pairs).reshape(n, n, r)
    expected_relations = expected.permute(0, 2, 1)
    if model.biases is not None:
        bias = model.biases.detach().squeeze(1)
        expected_relations = expected_relations + bias[:, None, None] + bias[None, :, None]
    if model.config.lifted:
        order = relations - relations.mean(-1, keepdim=True)
        with torch.no_grad():
            bilinear = -2 * (left * right).sum((1, 2, 3)).reshape(n, r, n).permute(0, 2, 1)
        assert (order - (bilinear - bilinear.mean(-1, keepdim=True))).abs().max() <= 2e-5 * size
    else:
        assert (relations - expected_relations).abs().max() <= close


@pytest.mark.parametrize("name", [n for n, c in CATALOGUE.items() if c.lifted])
def test_biases_favour_entities_of_lifted_models_too(name: str) -> None:
    graph = small_graph()
    plain = random_model(name, graph, **options(name))
    model = random_model(name, graph, biases=True, **options(name))
    model.load_state_dict(plain.state_dict(), strict=False)
    heads = torch.arange(12)
    found = model.score_tails(heads, heads % 3)
    favour = model.biases.detach().squeeze(1)
    expected = plain.score_tails(heads, heads % 3) - favour - favour[heads].unsqueeze(1)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert float(favour.std()) > 0.1
    with pytest.raises(InputError, match="use biases: true"):
        model_config(name, biases="by-end")


def test_clamped_and_biased_by_end_scores_are_the_same_for_triples_and_for_products() -> None:
    graph = small_graph()
    chosen = {"dim": 6, "norm": 2, "power": 1, "clamp": 0.8, "biases": "by-end"}
    model = random_model("transr", graph, reciprocal=False, **chosen)
    triples = torch.from_numpy(all_triples(graph))
    with torch.no_grad():
        scores = model.scores(triples)
        left, right = (end.flatten(1) for end in model.ends(triples))
        z = model.translation(triples[:, 1]).flatten(1)
        bias = model.biases[triples[:, 0], 0] + model.biases[triples[:, 2], 1]
    short = [v * (0.8 / v.norm(dim=1, keepdim=True)).clamp(max=1) for v in (left - z, right)]
    torch.testing.assert_close(scores, (short[0] + z - short[1]).norm(dim=1) - bias)
    heads, edges, tails = triples.T
    rows = torch.arange(len(triples))
    torch.testing.assert_close(model.score_tails(heads, edges)[rows, tails], scores)
    torch.testing.assert_close(model.score_heads(edges, tails)[rows, heads], scores)
    relations = model.score_relations(heads, tails)[rows, edges]
    torch.testing.assert_close(relations, scores + bias)


@pytest.mark.parametrize("name", [n for n, c in CATALOGUE.items() if c.lifted])
def test_lifted_models_rank_as_the_bilinear_score(name: str) -> None:
    graph = small_graph()
    model = random_model(name, graph, **options(name))
    heads, edges = torch.arange(12), torch.arange(12) % 3
    x = torch.stack([model.vector(e) for e in graph.entities])
    for backwards, scores in (
        (0, model.score_tails(heads, edges)),
        (3, model.score_heads(edges, heads)),
    ):
        with torch.no_grad():
            maps = torch.stack([model.maps.map("head", int(e) + backwards).dense() for e in edges])
        bilinear = torch.einsum("bij,bj,ni->bn", maps, x[heads], x)
        assert torch.equal(scores.argsort(1), (-bilinear).argsort(1))


def test_complex_is_the_score_of_complex_numbers() -> None:
    """Re⟨h, r, conj t⟩, computed with complex arithmetic."""
    graph = small_graph()
    model = random_model("complex", graph, dim=6)
    x = torch.view_as_complex(
        torch.stack([model.vector(e) for e in graph.entities]).reshape(12, 3, 2)
    )
    r = torch.view_as_complex(model.maps.parameters_of[0].detach())[:3]
    scores = model.score_tails(torch.arange(12), torch.zeros(12, dtype=torch.long))
    complex_scores = torch.einsum("bd,d,nd->bn", x, r[0], x.conj()).real
    gap = scores + 2 * complex_scores
    torch.testing.assert_close(
        gap - gap.mean(1, keepdim=True), torch.zeros(12, 12), atol=1e-4, rtol=0
    )


TYPED = Schema(
    [EntityType("Person", 8), EntityType("Film", 4), EntityType("City", 4)],
    [
        Relation("friends", "Person", "Person", symmetric=True),
        Relation("likes", "Person", "Film"),
        Relation("likes", "Person", "City"),
        Relation("set in", "Film", "City", functional=True),
        Relation("twin", "City", "City", dim=2),
        Relation("near", "City", "City", shared=True),
        Relation("near", "Film", "Film", shared=True),
    ],
)


def typed_graph(narrow: bool = True) -> KnowledgeGraph:
    types = [0] * 5 + [1] * 4 + [2] * 3
    rows = [(0, 0, 1), (1, 1, 6), (2, 2, 10), (5, 3, 9), (9, 4, 10), (9, 5, 11), (5, 6, 6)]
    relations = [r if narrow else replace(r, dim=None) for r in TYPED.relations]
    schema = Schema(TYPED.types, relations)
    return KnowledgeGraph.from_arrays(*np.array(rows).T, schema=schema, entity_types=types)


@pytest.mark.parametrize("name", ["se", "translational", "transr", "se-orthogonal", "rescal"])
def test_typed_models_follow_the_same_definition(name: str) -> None:
    graph = typed_graph(narrow=name != "rescal")  # a lifted relation is as wide as its tails
    model = random_model(name, graph)
    assert [tuple(t.shape) for t in model.entities.tables] == [(7, 4), (5, 8)]
    sheaf, z = model.knowledge_sheaf().on(graph.typing)
    assert sheaf.head(0).cols == 8 + model.config.lifted
    with torch.no_grad():
        energies = model.energies()
    torch.testing.assert_close(
        energies, sheaf.edge_energies(model.cochain(), z), rtol=1e-4, atol=1e-4
    )
    # Whom or what does entity 1 like? Films and cities are both scored, people are ruled out.
    scores = model.score_tails(torch.tensor([1, 1]), torch.tensor([1, 2]))
    torch.testing.assert_close(scores[0], scores[1])
    assert scores[0, :5].isinf().all()
    for tail in range(5, 12):
        edge = 1 if tail < 9 else 2
        with torch.no_grad():
            alone = model.energies([[1, edge, tail]])
        torch.testing.assert_close(scores[0, tail : tail + 1], alone, rtol=1e-4, atol=1e-4)
    relations = model.score_relations(torch.tensor([1]), torch.tensor([6]))
    assert relations.isfinite().nonzero()[:, 1].tolist() == [1]


def test_priors_of_the_schema_shape_the_maps() -> None:
    model = random_model("translational", typed_graph())
    assert torch.equal(model.maps.map("head", 0).blocks, model.maps.map("tail", 0).blocks)
    with torch.no_grad():  # a symmetric relation costs the same in both directions
        there, back = model.energies([[0, 0, 3], [3, 0, 0]])
    torch.testing.assert_close(there, back)
    tail = model.maps.map("tail", 3).dense().detach()
    torch.testing.assert_close(tail.T @ tail, torch.eye(4))  # injective
    assert model.maps.map("head", 4).rows == 2  # compressive
    assert torch.equal(model.maps.map("head", 5).blocks, model.maps.map("head", 6).blocks)  # shared


def test_a_projected_translation_needs_square_maps_in_every_relation() -> None:
    with pytest.raises(InputError, match="'likes' the dimension of its head"):
        SheafEmbedding(model_config("transr", dim=8, translation="projected"), liking(dim=2))
    model = random_model("transr", liking(dim=8), dim=8, translation="projected")
    assert model.score_tails(torch.tensor([0]), torch.tensor([0])).isfinite().sum() == 1


def liking(dim: int) -> KnowledgeGraph:
    types = [EntityType("Person", 8), EntityType("Film", 8)]
    schema = Schema(types, [Relation("likes", "Person", "Film", dim=dim)])
    rows = np.array([(0, 0, 1)])
    return KnowledgeGraph.from_arrays(*rows.T, schema=schema, entity_types=[0, 1])
