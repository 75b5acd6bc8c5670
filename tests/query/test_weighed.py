"""Relations that count by how exactly they hold, against dense least squares."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.noise import relation_weights
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query import Options, Query, answer, scores
from knowledge_sheaves.query.answers import Wanted


def made(name: str, **options: object) -> SheafEmbedding:
    rng = np.random.default_rng(4)
    rows = [(f"e{rng.integers(8)}", f"r{i % 3}", f"e{rng.integers(8)}") for i in range(40)]
    config = model_config(name, dim=4, reciprocal=False, **options)
    model = SheafEmbedding(config, KnowledgeGraph.from_triples(rows)).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator).double())
    model.refresh()
    return model


def dense(model: SheafEmbedding, lifted: bool) -> torch.Tensor:
    """min over y of w_0 V(e0 r0 y) + w_1 V(y r1 x) for every x, by least squares."""
    weights = relation_weights(model).double()
    maps = [[model.maps.map(end, e).dense() for end in ("head", "tail")] for e in (0, 1)]
    z = model.translation(torch.arange(2))
    shifts = [
        torch.zeros(maps[e][0].shape[0]).double() if z is None else z[e].flatten() for e in (0, 1)
    ]
    vectors = [model.entities.vector(e).detach() for e in range(model.graph.num_entities)]
    known, roots = vectors[model.graph.entities.id("e0")], weights.sqrt()
    out = []
    for x in vectors:
        rows = torch.cat([roots[0] * maps[0][1], -roots[1] * maps[1][0]])
        right = torch.cat(
            [
                roots[0] * (maps[0][0] @ known + shifts[0]),
                roots[1] * (shifts[1] - maps[1][1] @ x),
            ]
        )
        y = torch.linalg.lstsq(rows, right, driver="gelsd").solution
        energy = (rows @ y - right).square().sum()
        if lifted:  # the target's lifted coordinate; the unknown's is best at 0
            energy = energy + weights[1] * (model.radius**2 - x.square().sum())
        out.append(energy)
    return torch.stack(out)


@pytest.mark.parametrize("name", ["transe", "se", "rotate", "translational"])
def test_weights_are_those_of_least_squares(name: str) -> None:
    model = made(name)
    query = Query.from_triples([("e0", "r0", "?y"), ("?y", "r1", "?x")], "?x", model.graph)
    with torch.no_grad():
        found = scores(model, [query], Options("harmonic", weigh="noise", tau=1.0)).energies[0]
        alike = scores(model, [query], Options("harmonic", tau=1.0)).energies[0]
        wanted = dense(model, False)
    assert torch.allclose(found, wanted, atol=1e-6)
    assert not torch.allclose(alike, wanted, atol=1e-3)


def test_a_lifted_model_is_weighed_by_temperature() -> None:
    model = made("complex", init=0.5)
    query = Query.from_triples([("e0", "r0", "?y"), ("?y", "r1", "?x")], "?x", model.graph)
    with torch.no_grad():
        options = Options("harmonic", weigh="noise", lift="free", tau=1.0)
        found = scores(model, [query], options).energies[0]
        assert torch.allclose(found, dense(model, True), atol=1e-6)


@pytest.mark.parametrize("name", ["se", "complex"])
@pytest.mark.parametrize("lift", ["composite", "free", "sphere"])
def test_reasons_are_made_of_the_weighed_energies(name: str, lift: str) -> None:
    model = made(name, **({"init": 0.5} if name == "complex" else {}))
    query = Query.from_triples([("e0", "r0", "?y"), ("?y", "r1", "?x")], "?x", model.graph)
    options = Options("harmonic", weigh="noise", lift=lift, strength=0.1, tau=1.0)
    (found,) = answer(model, query, options, Wanted(top=3), explain=3)
    for each, energy in zip(found.explanation, found.energies.tolist(), strict=True):
        assert each.energy == pytest.approx(energy, abs=1e-5)


def test_what_is_no_spring_is_refused() -> None:
    model = made("toruse")
    query = Query.from_triples([("e0", "r0", "?x")], "?x", model.graph)
    with pytest.raises(InputError, match="no springs"):
        scores(model, [query], Options("harmonic", weigh="noise", tau=1.0))
