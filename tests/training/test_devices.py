"""Nothing is made on another device than the model's: on a device that refuses to be mixed.

There is no graphics card where the tests run. The device of `other_device` is written in Python;
it cannot be taken back once it is registered, so a process of its own runs the cases.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from knowledge_sheaves.embedding import model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.training import TrainingConfig, train

TESTS = Path(__file__).parents[1]


def test_steps_and_ranks_on_another_device_are_those_on_the_cpu() -> None:
    paths = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(TESTS / "device_cases.py")],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) > 50
    problems = [f"{name}: {problem}" for name, problem in found.items() if problem]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", ["cuda", "mps", "meta", "quantum", "cuda:99", "xpu"])
def test_a_device_that_torch_does_not_have_is_one_sentence(name: str) -> None:
    data = Dataset(KnowledgeGraph.from_triples([("a", "r", "b")]))
    with pytest.raises(InputError) as error:
        train(data, model_config("transe", dim=2), TrainingConfig(device=name))
    assert str(error.value) == f"The device '{name}' cannot be used: this PyTorch finds cpu here."
