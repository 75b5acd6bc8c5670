"""Every feature of a query, every kind of model, and what an answer must be in each cell.

A solver that is registered is held against all of it by that alone: what it answers must keep to
the conditions of the query, and its reasons must add up to its answers. Where `solver_oracles` has
its definition, its numbers are held against that as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Relation, Schema
from knowledge_sheaves.query import Answers, Edge, Options, Pattern, Query, Wanted, answer
from knowledge_sheaves.query.drawing import draw
from solver_oracles import ORACLES, allowed

A, B, C, D = range(4)
R, S = 0, 1
MODELS: dict[str, dict[str, object]] = {
    "translation": {"name": "transe", "dim": 3},
    "translation, one way": {"name": "transe", "dim": 3, "reciprocal": False},
    "translation, biases": {"name": "transe", "dim": 3, "biases": True},
    "lifted": {"name": "complex", "dim": 4},
    "lifted, biases": {"name": "complex", "dim": 4, "biases": True},
    "rotation, one way": {"name": "rotate", "dim": 4, "reciprocal": False},
    "dense, sections": {"name": "se", "dim": 3, "sections": 2},
    "by end": {"name": "rote", "dim": 4, "biases": "by-end"},
    "typed": {"name": "se", "dim": 3},
    "typed translation": {"name": "translational", "dim": 3},
}


@cache
def make_model(kind: str) -> SheafEmbedding:
    options = dict(MODELS[kind])
    types = [EntityType("P", 3), EntityType("Q", 3)] if "typed" in kind else [EntityType("P", 3)]
    parts = [(h.name, t.name) for h in types for t in types]
    schema = Schema(types, [Relation(r, h, t) for r in "rs" for h, t in parts])
    if len(types) == 1:
        schema = Schema.single("rs")
    facts = [("a", "r", "b"), ("b", "s", "c"), ("a", "s", "c"), ("d", "r", "d"), ("b", "r", "a")]
    kinds = dict(zip("abcd", "PQPQ", strict=True)) if len(types) > 1 else None
    graph = KnowledgeGraph.from_triples(facts, schema=schema, types=kinds, entities="abcd")
    config = model_config(str(options.pop("name")), **options)
    model = SheafEmbedding(config, graph).double()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.6 * torch.randn(parameter.shape, generator=generator).double())
    model.refresh()
    return model.requires_grad_(False)


def ask(*edges: Edge, **conditions: object) -> Query:
    return Query(("?x",), (Pattern(edges, **conditions),))  # type: ignore[arg-type]


TWO = (Edge(A, R, "?y"), Edge("?y", S, "?x"))
FEATURES: dict[str, Query] = {
    "one edge": ask(Edge(A, R, "?x")),
    "one edge backwards": ask(Edge("?x", R, B)),
    "a path": ask(*TWO),
    "a path backwards": ask(Edge("?y", S, C), Edge("?x", R, "?y")),
    "an intersection": ask(Edge(A, R, "?x"), Edge("?x", S, C)),
    "VALUES at the target": ask(*TWO, bindings=(("?x", C),)),
    "VALUES at an unknown": ask(*TWO, bindings=(("?y", B),)),
    "different from an entity": ask(*TWO, different=(("?x", C),)),
    "an unknown different from an entity": ask(*TWO, different=(("?y", B),)),
    "different from an unknown": ask(*TWO, different=(("?x", "?y"),)),
    "negation at the target": ask(*TWO, without=(Pattern((Edge(B, S, "?x"),)),)),
    "negation of a path": ask(*TWO, without=(Pattern((Edge(B, R, "?z"), Edge("?z", S, "?x"))),)),
    "negation at an unknown": ask(*TWO, without=(Pattern((Edge("?y", R, A),)),)),
    "negation between both": ask(*TWO, without=(Pattern((Edge("?x", R, "?y"),)),)),
    "negation within negation": ask(
        Edge(A, R, "?x"),
        without=(Pattern((Edge("?x", S, "?z"),), (Pattern((Edge("?x", R, B),)),)),),
    ),
    "negation of something else": ask(Edge(A, R, "?x"), without=(Pattern((Edge(C, S, D),)),)),
    "VALUES in a negation": ask(
        Edge(A, R, "?x"), without=(Pattern((Edge("?z", S, "?x"),), bindings=(("?z", B),)),)
    ),
    "a condition in a negation": ask(
        Edge(A, R, "?x"), without=(Pattern((Edge(B, S, "?x"),), different=(("?x", C),)),)
    ),
    "a union": Query(("?x",), (Pattern((Edge(A, R, "?x"),)), Pattern((Edge(B, S, "?x"),)))),
    "a union of other shapes": Query(("?x",), (Pattern(TWO), Pattern((Edge(D, R, "?x"),)))),
    "a union with conditions": Query(
        ("?x",),
        (
            Pattern((Edge(A, R, "?x"),), bindings=(("?x", B),)),
            Pattern((Edge(B, S, "?x"),), different=(("?x", C),)),
        ),
    ),
    "a union with negation": Query(
        ("?x",),
        (Pattern((Edge(A, R, "?x"),), (Pattern((Edge(D, R, "?x"),)),)), Pattern(TWO)),
    ),
    "a cycle": ask(Edge(A, R, "?y"), Edge("?y", S, "?z"), Edge("?z", R, "?x"), Edge("?y", R, "?x")),
    "parallel edges": ask(Edge(A, R, "?y"), Edge("?y", R, "?x"), Edge("?y", S, "?x")),
    "a loop at the target": ask(Edge("?x", R, "?x"), Edge(A, R, "?x")),
    "a loop at an unknown": ask(*TWO, Edge("?y", R, "?y")),
    "nothing known": ask(Edge("?x", R, "?y")),
    "nothing known, a ring": ask(Edge("?x", R, "?y"), Edge("?y", S, "?x")),
    "an edge of entities": ask(*TWO, Edge(A, S, C)),
    "parts that meet in an entity": ask(Edge(A, R, "?x"), Edge(A, S, "?y"), Edge("?y", R, "?z")),
    "two targets that meet in an entity": Query(
        ("?y", "?x"), (Pattern((Edge(A, R, "?x"), Edge("?y", S, A))),)
    ),
    "two targets": Query(("?y", "?x"), (Pattern(TWO),)),
    "two targets, nothing known": Query(("?y", "?x"), (Pattern((Edge("?x", R, "?y"),)),)),
    "two targets and an unknown": Query(
        ("?x", "?z"), (Pattern((Edge(A, R, "?y"), Edge("?y", S, "?x"), Edge("?y", R, "?z"))),)
    ),
    "two targets that differ": Query(("?y", "?x"), (Pattern(TWO, different=(("?x", "?y"),)),)),
    "two targets with negation": Query(
        ("?y", "?x"), (Pattern(TWO, (Pattern((Edge("?x", R, "?y"),)),)),)
    ),
    "two targets with VALUES": Query(("?y", "?x"), (Pattern(TWO, bindings=(("?y", B),)),)),
    "two targets of a union": Query(
        ("?y", "?x"), (Pattern(TWO), Pattern((Edge("?x", R, "?y"), Edge(D, R, "?y"))))
    ),
}
TOLD = {"tau": 0.7, "kappa": 2.5}


def answers_of(
    solver: str, told: dict[str, object], kind: str, feature: str, explain: bool = False
) -> tuple[Answers | None, str]:
    """All answers, or the sentence of a refusal."""
    options = Options(solver, **TOLD, **told)
    everyone, model = Wanted(top=1_000), make_model(kind)
    try:
        found = answer(model, FEATURES[feature], options, everyone, explain=1_000 * explain)
    except InputError as error:
        return None, str(error)
    return found[0], ""


def check_cell(solver: str, told: dict[str, object], kind: str, feature: str) -> bool:
    """Whether the solver takes a query; where it does, it is right, else it says why not."""
    found, refusal = answers_of(solver, told, kind, feature, explain=True)
    if found is None:
        assert refusal.endswith("."), refusal
        assert refusal.count("\n") == 0
        return False
    _keeps_to_conditions(found)
    _reasons_add_up(found)
    # Lifted answers have two more extensions, which `test_harmonic` and `test_joint` hold.
    lifted = make_model(kind).config.lifted and solver == "harmonic"
    by_the_letter = told == {"lift": "free"} and len(found.query.targets) == 1
    if solver in ORACLES and (by_the_letter or not lifted):
        _is_as_defined(found, ORACLES[solver], make_model(kind), {**TOLD, **told})
    return True


def _keeps_to_conditions(found: Answers) -> None:
    """In one pattern without unknowns at stake: nothing that the query rules out is an answer."""
    for row in found.ids.tolist():
        values = dict(zip(found.query.targets, row, strict=True))
        fits = False
        for pattern in found.query.patterns:
            about = Pattern(
                (),
                different=tuple(p for p in pattern.different if _known(p, values)),
                bindings=tuple(p for p in pattern.bindings if _known(p, values)),
            )
            fits = fits or allowed(about, values)
        assert fits


def _known(pair: tuple[object, object], values: dict[str, int]) -> bool:
    return all(not isinstance(term, str) or term in values for term in pair)


def _reasons_add_up(found: Answers) -> None:
    """Energy and probability of every answer, computed again from its reasons alone."""
    assert found.explanation is not None
    assert len(found.explanation) == len(found)
    positive = len(found.query.patterns) == 1 and not found.query.is_negated
    for each, reasons in zip(found, found.explanation, strict=True):
        assert reasons.solver == found.solver
        if each.probability is None:
            assert reasons.probability is None
            assert reasons.energy == pytest.approx(each.energy, abs=1e-6)
        else:
            assert reasons.probability == pytest.approx(each.probability, rel=1e-6, abs=1e-12)
            if reasons.share is not None and positive:
                assert reasons.energy == pytest.approx(each.energy, abs=1e-6)
        names = [reasons.entities[target] for target in found.query.targets]
        assert tuple(names) == each.names
        assert draw(reasons)
        assert reasons.to_dict()


def _is_as_defined(
    found: Answers, oracle: Callable[..., dict], model: SheafEmbedding, told: dict[str, object]
) -> None:
    expected = oracle(model, found.query, told)
    possible = {key for key, (energy, p) in expected.items() if math.isfinite(energy) and p != 0}
    shown = {tuple(row): each for row, each in zip(found.ids.tolist(), found, strict=True)}
    assert shown.keys() == possible
    for key, each in shown.items():
        energy, p = expected[key]
        assert each.energy == pytest.approx(energy, rel=1e-6, abs=1e-8)
        assert each.probability == (None if p is None else pytest.approx(p, rel=1e-6, abs=1e-12))
    order = [expected[tuple(row)][0] for row in found.ids.tolist()]
    assert np.all(np.diff(order) >= -1e-8)
