"""Types over shared maps: they rule out, they cost nothing, and they come back from a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.evaluation import evaluate
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.classes import Classes
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.splits import split
from knowledge_sheaves.query import Options, Query, answer
from knowledge_sheaves.query.asking import Asker, Wanted, scores
from knowledge_sheaves.query.full.store import FactStore
from knowledge_sheaves.ranking import Predictor, RankMetrics, rank_triples
from knowledge_sheaves.training import TrainingConfig, train

SIZE = 40


def planted() -> tuple[Dataset, dict[str, str]]:
    """Two kinds of entities on circles, each in four types at random: `near` within a kind, `makes`
    from one to the other."""
    random = np.random.default_rng(0)
    rows = []
    for kind in "pf":
        for i in range(SIZE):
            rows += [(f"{kind}{i}", "near", f"{kind}{(i + step) % SIZE}") for step in (1, 2, 3)]
    for i in range(SIZE):
        rows += [(f"p{i}", "makes", f"f{(i + step) % SIZE}") for step in (0, 5, 7)]
    graph = KnowledgeGraph.from_triples(rows)
    types = {name: f"{name[0]}{random.integers(4)}" for name in graph.entities}
    return split(graph, (0.9, 0.05, 0.05)), types


def typed(data: Dataset, types: dict[str, str], shared: bool) -> Dataset:
    """The data with types that share maps, or with a stalk for each of them."""

    def rows(graph: KnowledgeGraph) -> list[tuple[str, str, str]]:
        return graph.decode(graph.triples)

    everything = [row for graph in data.splits.values() for row in rows(graph)]
    names = list(data.train.entities)
    graph = KnowledgeGraph.from_triples(everything, types=types, entities=names)
    if shared:
        graph = data.train.shared(Classes.of(names, types))
    parts = {name: graph.with_triples(rows(each)) for name, each in data.splits.items()}
    return Dataset(**parts)


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    data, _ = planted()
    kinds = {name: "Person" if name[0] == "p" else "Film" for name in data.train.entities}
    return data.train.shared(Classes.of(list(data.train.entities), kinds))


@pytest.fixture(scope="module")
def model(graph: KnowledgeGraph) -> SheafEmbedding:
    return SheafEmbedding(model_config("transe", dim=8), graph, seed=1)


def test_types_do_not_hurt() -> None:
    data, types = planted()
    how = TrainingConfig(epochs=12, batch_size=128, learning_rate=0.2, seed=1)
    config = model_config("complex", dim=16)
    cases = {
        "none": data,
        "shared": typed(data, types, shared=True),
        "stalks": typed(data, types, shared=False),
    }
    found = {name: evaluate(train(each, config, how), each).mrr for name, each in cases.items()}
    assert found["shared"] >= found["none"] - 0.005
    assert found["shared"] > found["stalks"]


def test_candidates_that_types_rule_out_are_infinite_at_both_ends(model: SheafEmbedding) -> None:
    makes = torch.tensor([model.graph.schema.relation_names.index("makes")])
    films = torch.from_numpy(model.graph.is_of_type("Film"))
    tails = model.score_tails(torch.tensor([0]), makes)[0]
    heads = model.score_heads(makes, films.nonzero()[0])[0]
    assert torch.equal(tails.isfinite(), films)
    assert torch.equal(heads.isfinite(), ~films)


def test_an_untrained_model_is_no_better_than_chance(graph: KnowledgeGraph) -> None:
    found = [
        RankMetrics.of(
            rank_triples(
                SheafEmbedding(model_config("complex", dim=8), graph, seed=seed),
                graph.triples,
                [graph],
            ).sides["both"]
        ).amri
        for seed in range(4)
    ]
    assert abs(float(np.mean(found))) < 0.1


@pytest.mark.parametrize("solver", ["harmonic", "chaining", "naive"])
def test_solvers_rule_out_too(model: SheafEmbedding, solver: str) -> None:
    query = Query.from_triples([("p0", "near", "?y"), ("?y", "makes", "?x")], "?x", model.graph)
    told = {"facts": "ignored"} if solver == "chaining" else {}
    options = Options(solver=solver, tau=1.0, **told)
    energies, _ = scores(model, [query], options)
    films = torch.from_numpy(model.graph.is_of_type("Film"))
    assert not energies[0, ~films].isfinite().any()
    assert energies[0, films].isfinite().all()


@pytest.mark.parametrize("solver", ["harmonic", "chaining"])
def test_so_they_do_for_several_targets(model: SheafEmbedding, solver: str) -> None:
    rows = [("p0", "near", "?y"), ("?y", "makes", "?x")]
    query = Query.from_triples(rows, ["?y", "?x"], model.graph)
    (found,) = answer(model, query, Options(solver=solver, tau=1.0), Wanted(top=50))
    films = model.graph.is_of_type("Film")
    assert len(found)
    assert films[found.ids[:, 1].numpy()].all()
    assert not films[found.ids[:, 0].numpy()].any()


def test_a_folder_brings_types_back(model: SheafEmbedding, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    again = SheafEmbedding.load(tmp_path / "model")
    assert again.graph.classes == model.graph.classes
    asked = torch.tensor([0, 1]), torch.tensor([0, 1])
    assert torch.equal(again.score_tails(*asked), model.score_tails(*asked))


def test_relations_that_types_rule_out_are_not_proposed(model: SheafEmbedding) -> None:
    found = Predictor(model).predict(head="f0", tail="f1")
    assert [each.name for each in found] == ["near"]
    assert {each.type for each in Predictor(model).predict("p0", "makes")} == {"Film"}


def test_types_are_asked_for(model: SheafEmbedding) -> None:
    found = FactStore.of(model.graph).store.query("SELECT ?x { ?x a <urn:name:Film> }")
    assert sum(1 for _ in found) == SIZE


@pytest.mark.parametrize("solver", ["harmonic", "chaining"])
def test_answers_have_the_type_that_is_asked_for(model: SheafEmbedding, solver: str) -> None:
    asker = Asker(model, Options(solver=solver, tau=1.0))
    text = "SELECT ?x { :p0 :near ?x . ?x a :%s }"
    people = asker.answer(text % "Person", top=5)
    assert len(people) == 5
    assert people.known is not None
    assert people.known.any()
    films = asker.answer(text % "Film", top=5)
    assert model.graph.is_of_type("Film")[films.ids[:, 0].numpy()].all()
    assert not films.has_known
    assert str(asker.decide("ASK { :p0 :near ?x . ?x a :Person }")) == "yes: the facts hold it"
    assert not asker.decide("ASK { :p0 :near ?x . ?x a :Film }").holds
