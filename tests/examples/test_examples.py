"""The examples run, and what they claim holds."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from knowledge_sheaves.embedding import consistent
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_person_film_is_exactly_consistent() -> None:
    example = load("person_film")
    embedding = example.embed()
    assert embedding.energy() == 0
    assert consistent(embedding, tol=0)
    with pytest.raises(InputError, match=r"row 6: \(Primer, favorite movie, Fargo\)") as error:
        KnowledgeGraph.from_triples(
            [*example.FACTS, ("Primer", "favorite movie", "Fargo")],
            types=example.TYPES,
            schema=example.SCHEMA,
        )
    assert "Film" in str(error.value)


def test_one_reduction_finds_each_of_the_four_grandparents() -> None:
    example = load("maternal_grandfather")
    embedding = example.embed()
    assert consistent(embedding, tol=0)
    form = example.reduce_query(embedding)
    names = list(example.pedigree())
    for parent, side in (("female", "maternal"), ("male", "paternal")):
        for grandparent, word in (("female", "grandmother"), ("male", "grandfather")):
            energies = example.rank(embedding, form, parent, grandparent)
            assert names[int(energies.argmin())] == f"{side} {word}"
            assert float(energies.min()) == pytest.approx(0, abs=1e-6)
            assert (energies < 1e-3).sum() == 1


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_every_example_runs_as_a_program(name: str) -> None:
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) > 5
