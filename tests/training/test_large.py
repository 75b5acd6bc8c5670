"""What training costs must not grow with the entities that no triple of a batch speaks of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.ranking import rank_triples
from knowledge_sheaves.training import Progress, TrainingConfig, train, trainer
from knowledge_sheaves.training.batches import Batches
from knowledge_sheaves.training.objective import Objective
from knowledge_sheaves.training.optimisers import OPTIMISERS

MANY = 200_000
# These look at, or change, the rows that they are told and no others.
BY_ROW = {"embedding", "index_add_", "index_copy_", "index", "index_select", "detach", "view"}
BY_ROW |= {"embedding_backward", "embedding_sparse_backward", "select", "slice", "alias"}


class LargeOperations(TorchDispatchMode):
    """Notes every operation on something as long as the table of entities."""

    def __init__(self) -> None:
        super().__init__()
        self.met: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        for each in tree_leaves((args, kwargs or {}, out)):
            dense = isinstance(each, torch.Tensor) and not each.is_sparse
            if dense and each.numel() >= MANY and name not in BY_ROW:
                self.met.add(name)
        return out


@pytest.mark.parametrize("name", ["complex", "mure", "rotate"])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_a_step_touches_nothing_of_the_size_of_the_entities(name: str, optimiser: str) -> None:
    rows = np.random.default_rng(0).integers(0, [MANY, 3, MANY], size=(1000, 3))
    schema = Schema.single(["r", "s", "t"])
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=schema, num_entities=MANY)
    model = SheafEmbedding(model_config(name, dim=4), graph)
    told = {"optimiser": optimiser, "weigh_negatives": name == "complex"}
    config = TrainingConfig(batch_size=64, negatives=32, n3=0.01, **told)
    batches, objective = Batches(model, graph, config), Objective(model, graph, config)
    steps = OPTIMISERS[optimiser]([p for p in model.parameters() if p.numel()], lr=0.1)
    batch = next(batches.epoch(0))
    with LargeOperations() as large:
        steps.zero_grad(set_to_none=True)
        objective(batch).backward()
        steps.step()
    assert not large.met
    assert "triples" not in vars(batches), "no list of all triples, forwards and backwards"


def test_triples_are_taken_as_from_a_list_of_all() -> None:
    graph = load("nations").train
    model = SheafEmbedding(model_config("complex", dim=4), graph)
    batches = Batches(model, graph, TrainingConfig())
    forwards = torch.from_numpy(graph.triples).long()
    backwards = forwards.flip(1) + torch.tensor([0, model.num_relations, 0])
    assert torch.equal(batches.triples, torch.cat([forwards, backwards]))
    assert len(batches) == -(-2 * len(forwards) // 1024)


# Validation among some.


@pytest.mark.parametrize("kind", ["one type", "types"])
def test_ranks_among_some_count_those_alone(kind: str) -> None:
    rng = np.random.default_rng(1)
    facts = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in rng.integers(0, [60, 2, 60], (200, 3))]
    types = {f"e{i}": f"kind {i % 2}" for i in range(60)} if kind == "types" else None
    graph = KnowledgeGraph.from_triples(facts, types=types)
    model = SheafEmbedding(model_config("mure", dim=4), graph)
    torch.nn.init.normal_(model.biases)
    some, rows = rng.choice(60, 20), graph.triples[:40]
    among = np.concatenate([some, rows[:, 0], rows[:, 2]])
    found = rank_triples(model, rows, [graph], "both", among=among)
    others = np.setdiff1d(np.arange(60), among)
    scores = {
        "tail": model.score_tails(*torch.from_numpy(rows[:, [0, 1]].astype(np.int64)).unbind(1)),
        "head": model.score_heads(*torch.from_numpy(rows[:, [1, 2]].astype(np.int64)).unbind(1)),
    }
    for side, column in (("tail", 2), ("head", 0)):
        for place, (head, edge, tail) in enumerate(rows.tolist()):
            name = graph.schema.relations[edge].name
            known = graph.tails(head, name) if side == "tail" else graph.heads(name, tail)
            left = scores[side][place].clone()
            left[np.union1d(others, np.setdiff1d(known, rows[place, column]))] = torch.inf
            true = left[rows[place, column]]
            rank = 1 + int((left < true - 1e-5).sum())
            assert found.sides[side].optimistic[place] == rank  # type: ignore[index]
    whole = rank_triples(model, rows, [graph], "both", among=np.arange(60)).sides["both"]
    assert (whole.realistic == rank_triples(model, rows, [graph]).sides["both"].realistic).all()


def test_validation_among_some_says_so() -> None:
    data = load("nations")
    settings = TrainingConfig(epochs=1, validation_candidates=3)
    model = train(data, model_config("complex", dim=4), settings)
    assert model.info is not None
    assert model.info.metrics["validation_candidates"] == 3
    assert trainer.drawn_candidates(TrainingConfig(), 999_999) is None
    assert trainer.drawn_candidates(TrainingConfig(), 5_000_000) == 100_000


# The best model so far.


def test_the_best_model_in_a_file_is_the_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = load("nations")
    outcomes = []
    for size in (1 << 30, 0):
        monkeypatch.setattr(trainer, "MAPPED", size)
        model = run(data, tmp_path / f"model {size}", epochs=3)
        outcomes.append(model.entities.tables[0].clone())
    assert torch.equal(*outcomes)
    stopped = tmp_path / "stopped"
    with pytest.raises(RuntimeError, match="stop"):
        run(data, stopped, epochs=3, stop_after=2)
    model = run(data, stopped, epochs=3, resume=True)
    assert torch.equal(model.entities.tables[0], outcomes[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model 0",
        "model 1073741824",
        "stopped",
    ]


def run(
    data: Dataset, out: Path, epochs: int, stop_after: int = 0, resume: bool = False
) -> SheafEmbedding:
    def stop(progress: Progress) -> None:
        if stop_after and progress.epoch == stop_after and progress.metrics == {}:
            raise RuntimeError("stop")

    config = TrainingConfig(epochs=epochs, batch_size=256, optimiser="rowwise-adagrad")
    model = model_config("complex", dim=4)
    return train(data, model, config, out=out, on_progress=stop, resume=resume)
