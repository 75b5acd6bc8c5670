"""Training that keeps what it frees learns what it learns otherwise."""

from __future__ import annotations

import pytest
import torch

from knowledge_sheaves.embedding import model_config
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.training import TrainingConfig, train
from knowledge_sheaves.training import trainer as module


def test_a_training_with_large_batches_keeps_what_it_frees(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = []
    real = module.keeping_freed
    monkeypatch.setattr(module, "keeping_freed", lambda: entered.append(1) or real())
    graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a")])
    found = [
        train(Dataset(graph), model_config("transe", dim=8), TrainingConfig(epochs=2, batch_size=n))
        for n in (1 << 20, 8)
    ]
    assert len(entered) == 1
    for large, small in zip(*(model.parameters() for model in found), strict=True):
        assert torch.equal(large, small)
