"""Soft unknowns, of which all candidates count, against the definition and against unions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from chaining_cases import TAU, Exhaustive, chaining, models
from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.query import Edge, Pattern, Query


def some_of(values: Sequence[float], softness: float) -> float:
    """That one of several holds, by the definition."""
    if not softness:
        return max(values)
    with np.errstate(divide="ignore"):  # what is certain has no chance to miss
        misses = np.log1p(-(np.array(values) ** (1 / softness)))
    return float(-np.expm1(misses.sum())) ** softness


@given(models(), st.booleans(), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.integers(0, 99))
@settings(max_examples=60)
def test_all_candidates_count_where_unknowns_are_soft(
    model: SheafEmbedding, remembered: bool, softness: float, seed: int
) -> None:
    everyone, kappa, focus = range(model.graph.num_entities), 1.5, 1 + seed % 3
    tables = Exhaustive(model, remembered, kappa).tables
    cold = Exhaustive(model, remembered, kappa, TAU / focus).tables
    rng = np.random.default_rng(seed)
    a, b = rng.integers(len(everyone), size=2).tolist()
    r, s, t = rng.integers(2, size=3).tolist()

    def p(relation: int, head: int, unknown: bool = False) -> list[float]:
        """Of every tail; edges that lead to unknowns are colder."""
        return (cold if unknown else tables)[0][relation][head].tolist()

    def via(before: Sequence[float], relation: int, unknown: bool = False) -> list[float]:
        """That something before has a relation to each entity."""
        rows = np.array([p(relation, y, unknown) for y in everyone])
        return [some_of(column, softness) for column in (np.array(before)[:, None] * rows).T]

    def both(one: Sequence[float], other: Sequence[float]) -> list[float]:
        return [p * q for p, q in zip(one, other, strict=True)]

    def deny(values: Sequence[float]) -> list[float]:
        return [1 - min(1.0, kappa * value) for value in values]

    first, aside = p(r, a, unknown=True), Edge(b, t, "?x")
    second = via(first, s)
    start, middle, end = Edge(a, r, "?u"), Edge("?u", s, "?v"), Edge("?u", s, "?x")
    cases = {
        Pattern((start, end)): second,
        Pattern((start, middle, Edge("?v", t, "?x"))): via(via(first, s, unknown=True), t),
        Pattern((start, end, aside)): both(second, p(t, b)),
        Pattern((start, Edge(b, t, "?u"), end)): via(both(first, p(t, b, unknown=True)), s),
        # What is shared with a negated branch is its target.
        Pattern((start, end), (Pattern((Edge(b, t, "?u"),)),)): via(both(first, deny(p(t, b))), s),
        Pattern((aside,), (Pattern((start, end)),)): both(p(t, b), deny(second)),
    }
    facts = "remembered" if remembered else "ignored"
    found = chaining(
        model,
        [Query(("?x",), (pattern,)) for pattern in cases],
        **{"k": len(everyone), "facts": facts, "kappa": kappa},
        **{"softness": softness, "focus": focus, "tau": TAU},
    )
    np.testing.assert_allclose(found, list(cases.values()), atol=1e-9)


@given(models(), st.booleans(), st.integers(0, 99))
@settings(max_examples=30)
def test_a_soft_unknown_is_the_union_over_all_it_could_be(
    model: SheafEmbedding, remembered: bool, seed: int
) -> None:
    size = model.graph.num_entities
    a, r, s = np.random.default_rng(seed).integers((size, 2, 2)).tolist()
    path = (Edge(a, r, "?u"), Edge("?u", s, "?x"))
    each = tuple(Pattern(path, bindings=(("?u", entity),)) for entity in range(size))
    one, union = Query(("?x",), (Pattern(path),)), Query(("?x",), each)
    facts = "remembered" if remembered else "ignored"
    found = chaining(model, [one, union], k=size, facts=facts, softness=1.0, tau=TAU)
    np.testing.assert_allclose(found[0], found[1], atol=1e-9)
