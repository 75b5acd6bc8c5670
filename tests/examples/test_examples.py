"""The examples run, and what they claim holds."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from knowledge_sheaves.embedding import consistent
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
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


@pytest.fixture(scope="module")
def families() -> ModuleType:
    example = load("maternal_grandfather")
    if example.family_folder() is None:
        pytest.skip("needs family/dl-family below KNOWLEDGE_SHEAVES_DATA")
    return example


def composed(facts: list[tuple[str, str, str]], first: str, second: str) -> set[tuple[str, str]]:
    """Who is second of first of whom, by looking at every pair of facts."""
    return {
        (a, d) for a, r, b in facts for c, s, d in facts if (r, s) == (first, second) and b == c
    }


def test_families_are_asked_only_what_hidden_parents_answer(families: ModuleType) -> None:
    facts, gender = families.read_families(families.family_folder())
    data = families.hide_parents(facts, gender)
    parts = {name: graph.decode(graph.triples) for name, graph in data.splits.items()}
    assert sorted(fact for part in parts.values() for fact in part) == sorted(set(facts))
    known = [*parts["train"], *parts["valid"]]
    names = data.train.entities
    for question, asked in families.questions_to_ask(data).items():
        found = {
            (names[query.patterns[0].edges[0].head], name)
            for query, ids in zip(asked.queries, asked.hard, strict=True)
            for name in names.names(ids.tolist())
        }
        path = families.QUESTIONS[question]
        assert found == composed(facts, *path) - composed(known, *path)


def test_families_are_answered_far_better_than_by_chance(families: ModuleType) -> None:
    data = families.hide_parents(*families.read_families(families.family_folder()))
    learned = families.learn(data, "complex")
    asked = families.questions_to_ask(data)
    guess = families.chance(data.train, "father")
    for solver in families.SOLVERS:
        ranks = [q.ranks(learned.model, learned.options[solver]) for q in asked.values()]
        assert families.measures(ranks)[0] > 50 * guess[0]


def test_families_are_learned_alike_twice(
    families: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(families, "EPOCHS", 3)
    data = families.hide_parents(*families.read_families(families.family_folder()))
    one, two = (families.learn(data, "complex") for _ in range(2))
    assert one.mrr == two.mrr
    assert all(map(torch.equal, one.model.parameters(), two.model.parameters()))


def test_without_the_families_one_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KNOWLEDGE_SHEAVES_DATA", raising=False)
    load("maternal_grandfather").main()
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "The second part needs family/dl-family below KNOWLEDGE_SHEAVES_DATA."


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_every_example_runs_as_a_program(name: str) -> None:
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) > 5
