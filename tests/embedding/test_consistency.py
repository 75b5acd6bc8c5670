"""Consistency against the dense sheaf of the whole model, block structure forgotten."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding import consistency as module
from knowledge_sheaves.embedding.consistency import Consistency, consistency
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Relation, Schema

MODELS = ["transe", "rotate", "se", "pairre", "complex", "rescal", "translational", "transh"]


def random_graph(seed: int = 0) -> KnowledgeGraph:
    """Nine entities, one of them alone, with loops and parallel triples."""
    rng = np.random.default_rng(seed)
    rows = np.unique(rng.integers(0, [8, 3, 8], (20, 3)), axis=0)
    return KnowledgeGraph.from_arrays(
        *rows.T, schema=Schema.single(["r", "s", "t"]), entity_types=[0] * 9
    )


def random_model(name: str, graph: KnowledgeGraph, **options: object) -> SheafEmbedding:
    model = SheafEmbedding(model_config(name, **{"dim": 6, **options}), graph)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    model.refresh()
    return model


def dense(model: SheafEmbedding) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """δ, x and b of the whole model, in float64."""
    sheaf, z = model.knowledge_sheaf().on(model.graph.typing)
    x = model.cochain().double().reshape(int(sheaf.vertex_offsets[-1]), -1)
    b = torch.zeros(int(sheaf.edge_offsets[-1]), x.shape[1], dtype=torch.float64)
    return sheaf.coboundary().double(), x, b if z is None else z.double().reshape(b.shape)


def check(found: Consistency, model: SheafEmbedding) -> None:
    delta, x, b = dense(model)
    values = torch.linalg.eigvalsh(delta.T @ delta)
    zeros = int((values <= 1e-9 * values.max()).sum())
    energy = float((delta @ x - b).square().sum())
    assert found.energy == pytest.approx(energy, rel=1e-5)
    assert found.energy == pytest.approx(float(model.energies().detach().sum()), rel=1e-4)
    assert (found.h0, found.h1) == (zeros, delta.shape[0] - len(values) + zeros)
    assert len(found.spectrum) > 1
    np.testing.assert_allclose(
        found.spectrum, values[zeros : zeros + len(found.spectrum)], rtol=1e-4
    )
    assert found.gap == pytest.approx(float(values[zeros]), rel=1e-3)
    assert found.largest == pytest.approx(float(values[-1]), rel=1e-5)
    assert found.mean_eigenvalue == pytest.approx(float(values.mean()), rel=1e-5)
    last = found.flow[-1]
    step = torch.linalg.pinv(delta, rtol=1e-6) @ (b - delta @ x)
    least = float((delta @ (x + step) - b).square().sum())
    assert last.time is None
    assert last.energy * found.triples == pytest.approx(least, rel=1e-3, abs=1e-4)
    assert last.moved == pytest.approx(float(step.norm() / x.norm()), rel=1e-3)
    assert last.kept == pytest.approx(float((x + step).norm() / x.norm()), rel=1e-3, abs=1e-5)
    # Diffusion only lowers the energy; what has come to rest differs by rounding alone.
    energies = np.array([each.energy for each in found.flow])
    assert (np.diff(energies) <= 1e-9 * energies[0]).all()
    for step_ in found.flow[1:-1]:
        heat = torch.linalg.matrix_exp(-step_.time * (delta.T @ delta))
        there = (x + step) + heat @ (x - (x + step))
        left = float((delta @ there - b).square().sum())
        assert step_.energy * found.triples == pytest.approx(left, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_blocks_together_are_the_whole(name: str) -> None:
    model = random_model(name, random_graph())
    check(consistency(model, 8), model)


@pytest.mark.parametrize("name", ["se", "translational"])
def test_types_and_sections(name: str) -> None:
    schema = Schema(
        [EntityType("A", 6), EntityType("B", 3)],
        [Relation("r", "A", "B", dim=4), Relation("s", "A", "A"), Relation("r", "B", "B")],
    )
    rows = np.array([(0, 0, 3), (1, 0, 4), (0, 1, 1), (1, 1, 2), (2, 1, 2), (3, 2, 4)])
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=schema, entity_types=[0, 0, 0, 1, 1])
    model = random_model(name, graph, sections=2)
    found = consistency(model, 5)
    check(found, model)
    assert {d.name for d in found.relations} == {"r (A → B)", "s (A → A)", "r (B → B)"}


def test_sparse_solvers_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model("se", random_graph())
    whole = consistency(model, 8)
    monkeypatch.setattr(module, "DENSE_LIMIT", 0)
    sparse = consistency(model, 8)
    assert (sparse.h0, sparse.h1) == (whole.h0, whole.h1)
    np.testing.assert_allclose(sparse.spectrum, whole.spectrum, rtol=1e-4)
    wanted = [whole.flow[0], whole.flow[2], whole.flow[-1]]
    for step, other in zip(sparse.flow, wanted, strict=True):
        assert step.time == pytest.approx(other.time)
        assert step.energy == pytest.approx(other.energy, rel=1e-3, abs=1e-4)
    np.testing.assert_allclose(
        [d.after for d in sparse.relations], [d.after for d in whole.relations], rtol=1e-4
    )
    assert any("smallest eigenvalues only" in note for note in sparse.notes)
    monkeypatch.setattr(module, "SPARSE_LIMIT", 0)
    large = consistency(model, 8)
    assert (large.h0, large.h1, large.gap, large.spectrum) == (None, None, None, [])
    assert large.largest == pytest.approx(whole.largest)
    assert [step.time for step in large.flow] == [step.time for step in sparse.flow[:2]]
    assert any("No spectrum" in note for note in large.notes)


def test_discord_is_where_it_was_put() -> None:
    """A consistent TransE in which one fact is made wrong, and one relation noisy."""
    names = [f"e{i}" for i in range(12)]
    rows = [(names[i], "next", names[i + 1]) for i in range(11)]
    rows += [(names[i], "far", names[i + 3]) for i in range(9)] + [("e0", "wrong", "e5")]
    graph = KnowledgeGraph.from_triples(rows)
    model = SheafEmbedding(model_config("transe", dim=2, reciprocal=False), graph)
    with torch.no_grad():
        for i in range(12):
            table, row = (model.entities.table_of, model.entities.row_of)
            place = graph.entities.id(f"e{i}")
            model.entities.tables[int(table[place])][int(row[place])] = torch.tensor([i, 0.0])
        for name, z in (("next", 1.0), ("far", 3.2), ("wrong", 0.0)):
            edge = [r.name for r in graph.schema.relations].index(name)
            model.translations[edge] = torch.tensor([z, 0.0])
    found = consistency(model)
    energy = {d.name: d.energy for d in found.relations}
    assert energy == pytest.approx({"next": 0.0, "far": 0.04, "wrong": 25.0}, abs=1e-5)
    assert found.relations[0].name == "wrong"
    assert {d.name for d in found.regions[:2]} == {"e0", "e5"}
    assert sum(d.share for d in found.relations) == pytest.approx(1.0)
    assert sum(d.triples for d in found.regions) == 2 * found.triples
    assert sum(d.excess for d in found.relations) == pytest.approx(0.0, abs=1e-4)


def test_what_has_no_linear_sheaf_or_no_triples_is_refused() -> None:
    with pytest.raises(InputError, match="torus"):
        consistency(random_model("toruse", random_graph()))
    empty = KnowledgeGraph.from_arrays([], [], [], schema=Schema.single(["r"]), entity_types=[0])
    with pytest.raises(InputError, match="no triples"):
        consistency(SheafEmbedding(model_config("transe", dim=2), empty))
