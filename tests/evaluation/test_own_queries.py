"""A benchmark of one's own: questions drawn from the facts that a model never saw."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from knowledge_sheaves.cli.app import app
from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation.benchmark import benchmark
from knowledge_sheaves.evaluation.betae import TYPES
from knowledge_sheaves.evaluation.own_queries import OwnQueries
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.query.facts.symbolic import answers
from knowledge_sheaves.training import TrainingConfig, train


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("own") / "model"
    training = TrainingConfig(epochs=3, negatives=None, batch_size=256, threads=1)
    train(load("nations"), model_config("complex", dim=16), training, out=place)
    return place


@pytest.fixture(scope="module")
def model(folder: Path) -> SheafEmbedding:
    return SheafEmbedding.load(folder)


@pytest.mark.parametrize("name", ["1p", "2p", "2i", "pi", "2u", "2in"])
def test_hard_answers_need_a_held_out_fact(model: SheafEmbedding, name: str) -> None:
    source = OwnQueries(model, "test", 5)
    given, data = source.queries(name), source.data
    assert data.test is not None
    assert data.valid is not None
    before = data.train.with_triples(np.concatenate([data.train.triples, data.valid.triples]))
    whole = before.with_triples(np.concatenate([before.triples, data.test.triples]))
    easy, every = answers(before, given.queries), answers(whole, given.queries)
    for place in range(len(given)):
        hard = set(given.hard[place].tolist())
        assert hard
        assert hard == set(every[place].tolist()) - set(easy[place].tolist())
        assert set(given.easy[place].tolist()) == set(easy[place].tolist())


def test_all_types_are_drawn_and_ranked(model: SheafEmbedding) -> None:
    report = benchmark(model, OwnQueries(model, "test", 4))
    assert list(report.types) == list(TYPES)
    assert report.data == "nations"
    assert all(each.queries == 4 for each in report.types.values())
    again = benchmark(model, OwnQueries(model, "test", 4), types=["2p"])
    assert (again.types["2p"].ranks.ranks == report.types["2p"].ranks.ranks).all()
    other = benchmark(model, OwnQueries(model, "test", 4, seed=5), types=["2p"])
    assert other.types["2p"].ranks.ranks.tolist() != again.types["2p"].ranks.ranks.tolist()


def test_what_was_learned_is_found_and_what_was_not_is_not(model: SheafEmbedding) -> None:
    untrained = SheafEmbedding(model_config("complex", dim=16), model.graph, seed=1)
    untrained.info = ModelInfo.of(load("nations"))
    found = [
        benchmark(each, OwnQueries(each, "test", 40), types=["1p"]).types["1p"]
        for each in (model, untrained)
    ]
    learned, guessed = ((1 / each.ranks.ranks).mean() for each in found)
    assert learned > guessed + 0.1


def test_the_command_needs_no_folder_of_queries(folder: Path) -> None:
    words = ["benchmark", str(folder), "--from-graph", "--types", "1p,2in", "--sample", "3"]
    run = CliRunner().invoke(app, [*words, "--json"])
    assert run.exit_code == 0, run.output
    said = json.loads(run.stdout)
    assert list(said["types"]) == ["1p", "2in"]
    shown = CliRunner().invoke(app, words)
    assert "2in" in shown.stdout
    for wrong in (words[:2], [*words, "--queries", str(folder)]):
        run = CliRunner().invoke(app, wrong)
        assert isinstance(run.exception, InputError)
        assert "--from-graph" in str(run.exception)


def test_a_model_without_held_out_facts_says_so() -> None:
    graph = load("nations").train
    bare = SheafEmbedding(model_config("complex", dim=4), graph)
    bare.info = ModelInfo.of(Dataset(graph))
    with pytest.raises(InputError, match="no test facts in its folder to draw queries from"):
        benchmark(bare, OwnQueries(bare, "test", 3))
    with pytest.raises(InputError, match="no query type '9p'"):
        benchmark(bare, OwnQueries(bare, "test", 3), types=["9p"])
