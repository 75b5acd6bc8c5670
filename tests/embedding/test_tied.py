"""Relations that are read backwards by their own maps: no others are learned for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import CATALOGUE, SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.query import Options, Query, scores
from knowledge_sheaves.training import TrainingConfig, train

NAMES = [f"e{i}" for i in range(9)]
RELATIONS = ("r", "s", "t")


def graph() -> KnowledgeGraph:
    rng = np.random.default_rng(3)
    rows = [(NAMES[rng.integers(9)], RELATIONS[i % 3], NAMES[rng.integers(9)]) for i in range(30)]
    return KnowledgeGraph.from_triples(rows)


def made(name: str, reciprocal: object, known: KnowledgeGraph | None = None) -> SheafEmbedding:
    block = CATALOGUE[name].block
    dim = {None: 4, 3: 6, 20: 20}.get(block, 8)
    config = model_config(name, dim=dim, reciprocal=reciprocal)
    model = SheafEmbedding(config, known or graph()).double()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn(parameter.shape, generator=generator).double())
    model.refresh()
    return model


def every_triple() -> torch.Tensor:
    return torch.from_numpy(np.indices((9, 3, 9)).reshape(3, -1).T.copy())


def backwards(triples: torch.Tensor) -> torch.Tensor:
    return triples.flip(1) + torch.tensor([0, len(RELATIONS), 0])


@pytest.mark.parametrize("name", [n for n, c in CATALOGUE.items() if not c.lifted])
def test_a_tied_reciprocal_has_the_energy_of_its_relation(name: str) -> None:
    tied, alone = made(name, "tied"), made(name, False)
    triples = every_triple()
    assert tied.num_parameters == alone.num_parameters
    with torch.no_grad():
        assert torch.allclose(tied.scores(triples), alone.scores(triples))
        assert torch.allclose(tied.scores(backwards(triples)), tied.scores(triples))
        edges, tails = torch.cartesian_prod(torch.arange(3), torch.arange(9)).T
        assert torch.allclose(tied.score_heads(edges, tails), alone.score_heads(edges, tails))


@pytest.mark.parametrize("name", [n for n, c in CATALOGUE.items() if c.lifted])
def test_a_lifted_one_is_the_transpose(name: str) -> None:
    """⟨Rᵀ x_t, x_h⟩ = ⟨R x_h, x_t⟩, and what is above the product is another energy."""
    model = made(name, "tied")
    triples = every_triple()
    assert model.num_parameters == made(name, False).num_parameters
    for edge in range(3):
        forth, back = (model.maps.map("head", e).dense() for e in (edge, edge + 3))
        assert torch.equal(back, forth.T)
    energy = model.config.energy
    with torch.no_grad():
        products = energy.similarity(model, *model.ends(triples))
        assert torch.allclose(products, energy.similarity(model, *model.ends(backwards(triples))))
        # So heads are ranked by the product.
        edges, tails = torch.cartesian_prod(torch.arange(3), torch.arange(9)).T
        found = model.score_heads(edges, tails)
    wanted = -2 * products.reshape(9, 3, 9).permute(1, 2, 0).reshape(27, 9)
    gaps = found - wanted
    assert torch.allclose(gaps, gaps[:, :1].expand_as(gaps))


@pytest.mark.parametrize("name", ["se", "transe", "translational", "rotate"])
@pytest.mark.parametrize("solver", ["harmonic", "chaining"])
def test_questions_read_against_an_arrow_are_those_of_the_one_sheaf(name: str, solver: str) -> None:
    """As a model without reciprocal relations answers them, whose sheaf is the only one."""
    known = graph()
    tied, alone = made(name, "tied", known), made(name, False, known)
    asked = [
        Query.from_triples([("?x", "r", "e1")], "?x", known),
        Query.from_triples([("e2", "r", "?y"), ("?x", "s", "?y")], "?x", known),
    ]
    options = Options(solver, tau=1.0)
    for query in asked:
        found, wanted = (scores(model, [query], options).energies for model in (tied, alone))
        assert torch.allclose(found, wanted, atol=1e-6)


def test_types_of_different_width_are_transposed_too() -> None:
    from knowledge_sheaves.graph.schema import EntityType, Relation, Schema

    schema = Schema([EntityType("a", dim=2), EntityType("b", dim=6)], [Relation("r", "a", "b")])
    known = KnowledgeGraph.from_triples(
        [("x", "r", "y"), ("z", "r", "w")],
        types={"x": "a", "z": "a", "y": "b", "w": "b"},
        schema=schema,
    )
    model = SheafEmbedding(
        model_config("rescal", dim=4, reciprocal="tied", init=0.5), known
    ).double()
    model.refresh()
    forth, back = (model.maps.map("head", e).dense() for e in (0, 1))
    assert torch.equal(back, forth.T)
    assert forth.shape == (6, 2)
    x, y = model.vector("x"), model.vector("y")
    ids = [known.entities.id(name) for name in ("y", "x")]
    wanted = (forth.T @ y).square().sum() + model.radius**2 - 2 * (forth @ x) @ y
    assert torch.allclose(model.energies([[ids[0], 1, ids[1]]])[0], wanted)


def test_it_is_trained_saved_and_loaded(tmp_path: Path) -> None:
    config = model_config("complex", dim=8, reciprocal="tied")
    model = train(Dataset(graph()), config, TrainingConfig(epochs=2), out=tmp_path / "model")
    loaded = SheafEmbedding.load(tmp_path / "model")
    assert loaded.config.reciprocal == "tied"
    rows = backwards(every_triple())
    with torch.no_grad():
        assert torch.equal(loaded.scores(rows), model.scores(rows))


def test_favour_by_end_is_refused() -> None:
    with pytest.raises(InputError, match="favoured by end"):
        model_config("mure", biases="by-end", reciprocal="tied")
