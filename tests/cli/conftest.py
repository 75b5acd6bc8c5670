"""A folder with a schema file and a model, as the examples of the help texts expect it."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from betae_cases import write_betae
from knowledge_sheaves.cli.app import app, run
from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.storage import ModelInfo
from knowledge_sheaves.evaluation.betae import TYPES
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Relation, Schema
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.training import TrainingConfig, train

Sheaves = Callable[..., tuple[int, str, str]]

FILMS = """\
types:
  - {name: Person, dim: 3}
  - {name: Film, dim: 2}
relations:
  - {name: friends, head: Person, tail: Person, dim: 1, symmetric: true}
  - {name: favorite movie, head: Person, tail: Film, functional: true}
"""


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    file = tmp_path / "films.yaml"
    file.write_text(FILMS, encoding="utf-8")
    return file


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """The benchmark's archive, in miniature, where `sheaves download` looks for it."""
    file = tmp_path / "data" / "KG_data.zip"
    file.parent.mkdir()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("NELL-betae/train.txt", "0\t0\t1\n")
    return file


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of UMLS after a few seconds of training, to be copied and not to be changed."""
    folder = tmp_path_factory.mktemp("trained") / "model"
    training = TrainingConfig(epochs=4, negatives=None, batch_size=256, threads=1)
    train(load("umls"), model_config("complex", dim=32), training, out=folder)
    return folder


@pytest.fixture
def model(trained: Path, tmp_path: Path) -> Path:
    """A model of UMLS of one's own."""
    return Path(shutil.copytree(trained, tmp_path / "model"))


@pytest.fixture(scope="session")
def written_queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Queries over UMLS in the layout of the BetaE benchmark, not to be changed."""
    folder = tmp_path_factory.mktemp("betae") / "queries"
    write_betae(folder, load("umls"), TYPES, 5)
    return folder


@pytest.fixture
def queries(written_queries: Path, tmp_path: Path) -> Path:
    """Queries of one's own."""
    return Path(shutil.copytree(written_queries, tmp_path / "queries"))


@pytest.fixture
def typed_model(tmp_path: Path) -> Path:
    """People, films, two of them with one label, and nothing to calibrate by."""
    schema = Schema(
        [EntityType("Person", 4), EntityType("Film", 6)],
        [Relation("likes", "Person", "Film"), Relation("knows", "Person", "Person")],
    )
    graph = KnowledgeGraph.from_triples(
        [("Ann", "likes", "Q1"), ("Ann", "knows", "Bob"), ("Bob", "likes", "Q2")],
        types={"Ann": "Person", "Bob": "Person", "Q1": "Film", "Q2": "Film", "Q3": "Film"},
        schema=schema,
        entities=["Q3"],
        labels={"Q1": "Fargo", "Q2": "Solaris", "Q3": "Solaris"},
    )
    model = SheafEmbedding(model_config("se", dim=6), graph)
    model.info = ModelInfo.of(Dataset(graph, name="films"))
    model.save(tmp_path / "films")
    return tmp_path / "films"


@pytest.fixture
def sheaves(capsys: pytest.CaptureFixture[str]) -> Sheaves:
    """Run a command as the terminal does; return exit code, output and errors."""

    def call(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            run(app, [str(word) for word in words])
        shown = capsys.readouterr()
        return int(stopped.value.code or 0), shown.out, shown.err

    return call
