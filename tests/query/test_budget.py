"""One budget of time and memory for a question, from its text to its last reason."""

from __future__ import annotations

import time
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.query import Asker, Budget, Options, Query
from knowledge_sheaves.query.facts.symbolic import answers
from knowledge_sheaves.query.language import read
from knowledge_sheaves.query.solvers.harmonic import priors
from pace import slower

SECONDS = 10.0
"""Far more than any of these takes on a busy machine, and far less than they took."""
TEXTS = {
    "a name that never ends": "SELECT " + "a-" * 20_000,
    "line breaks": "\n" * 50_000 + "a r ?x",
    "line breaks in SPARQL": "SELECT ?x {" + "\n" * 50_000 + ":n0 :r ?x }",
    "words": " ".join(["word"] * 600),
    "many words": " ".join(["n0"] * 20_000),
    "objects": "SELECT ?x { :n0 :r " + " , ".join(["?x"] * 1_000) + " }",
    "braces": "SELECT ?x " + "{" * 1_900,
    "conditions": "SELECT ?x { :n0 :r ?x FILTER(" + " && ".join(["?x != :n1"] * 200) + ") }",
    "comments": "#\n" * 25_000 + "SELECT ?x { :n0 :r ?x }",
    "a string": "SELECT ?x { ?x :r '''" + "a" * 90_000,
    "a path": "SELECT ?x { :n0 " + "/".join([":r"] * 900) + " ?x }",
}


@pytest.fixture(scope="module")
def dense() -> SheafEmbedding:
    """A graph with so many facts that paths through it are millions."""
    rows = np.random.default_rng(0).integers(0, [300, 2, 300], size=(30_000, 3))
    names = [f"n{i}" for i in range(300)]
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=Schema.single(["r", "s"]), names=names)
    return SheafEmbedding(model_config("complex", dim=8, init=0.3), graph).requires_grad_(False)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_reading_is_linear(text: str, dense: SheafEmbedding) -> None:
    start = time.process_time()
    with suppress(InputError):
        read(text, dense.graph)
    assert time.process_time() - start < SECONDS / 2 * slower()


def test_facts_keep_to_the_memory(dense: SheafEmbedding) -> None:
    """A path of four steps with a negated part through the middle: 27 million ways a step."""
    steps = [("?a", "r", "?b"), ("?b", "s", "?c"), ("?c", "r", "?d"), ("?d", "s", "?e")]
    query = Query.from_triples(
        [*steps, ("?a", "s", "?e", "not")], ["?a", "?b", "?c", "?d", "?e"], dense.graph
    )
    limit = 64 << 20
    tracemalloc.start()
    try:
        with pytest.raises(SheafError, match="raise the memory limit"):
            answers(dense.graph, [query], budget=Budget(memory=limit))
        assert tracemalloc.get_traced_memory()[1] < 1.5 * limit
    finally:
        tracemalloc.stop()


def test_facts_keep_to_the_time(dense: SheafEmbedding) -> None:
    query = Query.from_triples([("?a", "r", "?b"), ("?b", "s", "?c")], "?c", dense.graph)
    with pytest.raises(SheafError, match="longer than its time limit"):
        answers(dense.graph, [query], budget=Budget(deadline=0.0))


def test_a_question_with_too_many_ways_is_answered_without_telling_what_is_known(
    dense: SheafEmbedding,
) -> None:
    asker = Asker(dense, Options("chaining", tau=1.0, k=4, memory_limit=3 << 20))
    text = "SELECT ?a ?c { ?a :r ?b . ?b :s ?c }"
    found = asker.answer(text, top=3)
    assert found.known is None
    assert any("too many ways" in note for note in found.notes)
    with pytest.raises(InputError, match="raise the memory limit"):
        asker.answer(text, top=3, new=True)


@pytest.mark.parametrize("solver", ["chaining", "harmonic"])
def test_a_limit_beyond_reason_keeps_to_the_time(dense: SheafEmbedding, solver: str) -> None:
    asker = Asker(dense, Options(solver, tau=1.0, time_limit=3.0))
    start = time.process_time()
    text = "SELECT ?a ?b ?c { ?a :r ?b . ?b :s ?c } LIMIT 1000000000"
    with suppress(SheafError):
        asker.answer(text)
    assert time.process_time() - start < SECONDS * slower()


@pytest.mark.parametrize("solver", ["chaining", "harmonic"])
def test_reasons_share_the_time_of_the_answers(dense: SheafEmbedding, solver: str) -> None:
    """All reasons together have what is left of the limit, not each of them the whole."""
    asker = Asker(dense, Options(solver, tau=1.0, time_limit=0.5))
    start = time.process_time()
    with suppress(SheafError):
        asker.answer("n0 r ?y . ?y s ?z . ?z r ?x", top=300, explain=True)
    assert time.process_time() - start < SECONDS / 2 * slower()


def test_what_a_model_always_gives_alike_is_computed_once(
    dense: SheafEmbedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    dense = SheafEmbedding(dense.config, dense.graph, seed=1).requires_grad_(False)
    made: list[int] = []
    gaussian = priors._gaussian
    monkeypatch.setattr(
        priors, "_gaussian", lambda model, kind: made.append(kind) or gaussian(model, kind)
    )
    asker = Asker(dense, Options("harmonic", strength=0.1, tau=1.0))
    first = asker.answer("n0 r ?y . ?y s ?x", explain=True)
    second = asker.answer("n1 r ?y . ?y s ?x", explain=True)
    assert made == [0]
    assert not first.ids.equal(second.ids)
    assert dense.graph.by_name is dense.graph.by_name
