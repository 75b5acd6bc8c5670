"""The density of a question's unknowns, against dense Gaussians."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.noise import model_noise
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query import Options, Query
from knowledge_sheaves.query.completions import completions
from knowledge_sheaves.sheaf import HalfSpace


def made(name: str) -> SheafEmbedding:
    rng = np.random.default_rng(0)
    rows = [(f"e{rng.integers(6)}", f"r{i % 2}", f"e{rng.integers(6)}") for i in range(20)]
    model = SheafEmbedding(model_config(name, dim=3), KnowledgeGraph.from_triples(rows)).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator).double())
    return model


def test_an_unknown_between_two_entities() -> None:
    """y of (e0 r0 y)(y r1 e1): precision (GᵀG + FᵀF) / σ², by dense matrices."""
    model = made("se")
    query = Query.from_triples([("e0", "r0", "?y"), ("?y", "r1", "?x")], "?x", model.graph)
    found = completions(model, query, {"?x": "e1"})
    maps = {(end, e): model.maps.map(end, e).dense() for end in ("head", "tail") for e in (0, 1)}  # type: ignore[arg-type]
    a, b = model.vector("e0"), model.vector("e1")
    rows = torch.cat([maps["tail", 0], -maps["head", 1]]).detach()
    right = torch.cat([maps["head", 0] @ a, -maps["tail", 1] @ b]).detach()
    precision, variance = rows.T @ rows, model_noise(model)
    mean = torch.linalg.solve(precision, rows.T @ right)
    covariance = variance * torch.linalg.inv(precision)
    assert torch.allclose(found.mean("?y"), mean)
    assert torch.allclose(found.covariance("?y"), covariance)
    normal = torch.distributions.MultivariateNormal(mean, covariance)
    point = mean + 0.3
    assert found.log_density({"?y": point}) == pytest.approx(float(normal.log_prob(point)))
    drawn = found.sample(20_000, seed=1)["?y"]
    assert torch.allclose(drawn.mean(0), mean, atol=0.05)
    normal_vector = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    inside = found.probability("?y", HalfSpace(normal_vector, float(mean[0]) + 0.5))
    wanted = 0.5 * (1 + math.erf(0.5 / math.sqrt(2 * float(covariance[0, 0]))))
    assert float(inside.value) == pytest.approx(wanted)


def test_what_has_no_density_is_refused() -> None:
    model = made("toruse")
    query = Query.from_triples([("e0", "r0", "?y"), ("?y", "r1", "?x")], "?x", model.graph)
    with pytest.raises(InputError, match="no Gaussian"):
        completions(model, query, {"?x": "e1"})
    with pytest.raises(InputError, match=r"Give the entity that \?x"):
        completions(model, query, {})
    linear = made("se")
    found = completions(linear, query, {"?x": "e1"}, Options("harmonic", strength=0.1))
    with pytest.raises(InputError, match="no unknown"):
        found.mean("?z")
