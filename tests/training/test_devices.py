"""Nothing is made on another device than the model's: on a device that refuses to be mixed.

There is no graphics card where the tests run. The device of `other_device` is written in Python;
it cannot be taken back once it is registered, so a process of its own runs the cases.
"""

from __future__ import annotations

import pytest

from device_run import problems
from knowledge_sheaves.embedding import model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.training import TrainingConfig, train


@pytest.mark.slow
def test_steps_and_ranks_on_another_device_are_those_on_the_cpu() -> None:
    assert not problems("training", at_least=50)


@pytest.mark.parametrize("name", ["cuda", "mps", "meta", "quantum", "cuda:99", "xpu"])
def test_a_device_that_torch_does_not_have_is_one_sentence(name: str) -> None:
    data = Dataset(KnowledgeGraph.from_triples([("a", "r", "b")]))
    with pytest.raises(InputError) as error:
        train(data, model_config("transe", dim=2), TrainingConfig(device=name))
    assert str(error.value) == f"The device '{name}' cannot be used: this PyTorch finds cpu here."
