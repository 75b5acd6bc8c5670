"""The density of an embedding against that of a dense Gaussian."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.density import density
from knowledge_sheaves.embedding.noise import model_noise, relation_noise
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph

ROWS = [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a"), ("a", "s", "d"), ("d", "r", "b")]


def made(name: str) -> SheafEmbedding:
    model = SheafEmbedding(model_config(name, dim=4), KnowledgeGraph.from_triples(ROWS)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            generator = torch.Generator().manual_seed(parameter.numel())
            parameter.add_(torch.randn(parameter.shape, generator=generator).double())
    model.refresh()
    return model


@pytest.mark.parametrize("name", ["transe", "se", "rotate", "complex"])
def test_it_is_the_density_of_a_gaussian_off_the_sections(name: str) -> None:
    model = made(name)
    found, variance = density(model), model_noise(model)
    parts = model.knowledge_sheaf()
    sheaf, z = parts.on(model.graph.typing)
    delta, x = sheaf.coboundary().numpy(), model.cochain().numpy()
    b = np.zeros(len(delta)) if z is None else z.numpy()
    best = x + np.linalg.pinv(delta) @ (b - delta @ x)
    above = np.square(delta @ x - b).sum() - np.square(delta @ best - b).sum()
    values = np.linalg.eigvalsh(delta.T @ delta)
    values = values[values > 1e-10]
    wanted = np.log(values / (2 * np.pi * variance)).sum() / 2 - above / (2 * variance)
    assert found.log_density == pytest.approx(wanted, rel=1e-6)
    energies = model.energies().detach().numpy()
    assert found.log_potential == pytest.approx(-energies.sum() / (2 * variance))


def test_relations_have_their_own_potentials_and_noise() -> None:
    model = made("transe")
    found = {each.name: each for each in density(model).relations}
    energies = model.energies().detach().numpy()
    own = relation_noise(model)
    for edge, name in enumerate(("r", "s")):
        mine = energies[model.graph.triples[:, 1] == edge]
        assert found[name].facts == len(mine)
        assert found[name].log_potential == pytest.approx(-mine.mean() / 2 / model_noise(model))
        assert found[name].variance == pytest.approx(float(own[edge]))


def test_what_has_no_density_is_refused() -> None:
    model = made("transe")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    with pytest.raises(InputError, match="energy 0"):
        density(model)
    with pytest.raises(InputError, match="ValuedSheaf"):
        density(SheafEmbedding(model_config("toruse", dim=2), KnowledgeGraph.from_triples(ROWS)))


def test_too_many_eigenvalues_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge_sheaves.embedding.density.MOST_WORK", 1.0)
    found = density(made("rotate"))
    assert found.log_density is None
    assert "left out" in found.notes[0]
