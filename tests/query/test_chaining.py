"""Chaining against exhaustive search over all assignments, and against itself without the cut."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.embedding.probability import probabilities
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.graph import KnowledgeGraph, Relation, Schema
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.query import Edge, Pattern, Query
from knowledge_sheaves.query.chaining import Chaining
from knowledge_sheaves.query.pattern import Term
from knowledge_sheaves.training import TrainingConfig, train

TAU = 0.5


class Exhaustive:
    """The definition, one assignment at a time; one table p[inverse][relation][h, t] per edge."""

    def __init__(
        self, model: SheafEmbedding, remembered: bool, kappa: float, tau: float = TAU
    ) -> None:
        graph = model.graph
        self.size, self.kappa = graph.num_entities, kappa
        everyone = torch.arange(self.size)
        self.tables: list[list[Tensor]] = [[], []]
        for relation in range(len(graph.schema.relations)):
            same = torch.full((self.size,), relation)
            facts = torch.zeros(self.size, self.size, dtype=torch.bool)
            rows = graph.triples[graph.triples[:, 1] == relation]
            facts[rows[:, 0], rows[:, 2]] = True
            sides = (model.score_tails(everyone, same), model.score_heads(same, everyone))
            for side, (energies, known) in enumerate(zip(sides, (facts, facts.T), strict=True)):
                p = probabilities(energies, known.sum(1), tau)
                self.tables[side].append(torch.where(known, 1.0, p) if remembered else p)

    def p(self, edge: Edge, distance: dict[str, int], values: dict[str, int]) -> float:
        head, tail = (values[t] if isinstance(t, str) else t for t in edge.terms)
        far = [distance.get(t, 99) if isinstance(t, str) else 99 for t in edge.terms]
        if far[0] >= far[1]:
            return float(self.tables[0][edge.relation][head, tail])
        return float(self.tables[1][edge.relation][tail, head])

    def best(
        self,
        pattern: Pattern,
        target: str,
        values: dict[str, int],
        seen: Iterable[str] | None = None,
    ) -> float:
        """The largest probability over the variables that have no value yet.

        Edges see those of ``seen`` as known entities: all with a value, unless told otherwise.
        """
        distance = _distances(pattern, target, values if seen is None else seen)
        free = [v for v in pattern.variables if v not in values]
        best = 0.0
        for chosen in itertools.product(range(self.size), repeat=len(free)):
            here = values | dict(zip(free, chosen, strict=True))
            best = max(best, self._one(pattern, distance, here))
        return best

    def _one(self, pattern: Pattern, distance: dict[str, int], values: dict[str, int]) -> float:
        for a, b in pattern.different:
            if values.get(a, a) == values.get(b, b):  # type: ignore[arg-type]
                return 0.0
        if any(values[variable] != entity for variable, entity in pattern.bindings):
            return 0.0
        p = float(np.prod([self.p(edge, distance, values) for edge in pattern.edges]))
        for inner in pattern.without:
            shared = [v for v in inner.variables if v in pattern.variables]
            shared.sort(key=pattern.variables.index)
            nearest = min(shared, key=distance.__getitem__, default="?none")
            p *= 1 - min(1.0, self.kappa * self.best(inner, nearest, values))
        return p


def chaining(model: SheafEmbedding, queries: Sequence[Query], **options: Any) -> torch.Tensor:
    """The probability of every entity as the target, (queries, entities)."""
    return Chaining(model, **options).log_probabilities(queries).exp()


def _distances(pattern: Pattern, target: str, values: Iterable[str]) -> dict[str, int]:
    """Steps from the target through variables; those that are given count as known entities."""
    given = set(values) - {target}
    distance = {target: 0}
    starts = [target, *(v for v in pattern.variables if v not in given)]
    for start in starts:
        distance.setdefault(start, 10)
        front = [start]
        while front:
            here = front.pop(0)
            for edge in pattern.edges:
                for other in edge.terms if here in edge.terms else ():
                    if isinstance(other, str) and other not in given and other not in distance:
                        distance[other] = distance[here] + 1
                        front.append(other)
    return distance


def answers_by_search(
    model: SheafEmbedding, query: Query, remembered: bool, kappa: float
) -> list[float]:
    search = Exhaustive(model, remembered, kappa)
    target = query.targets[0]
    return [
        1 - float(np.prod([1 - search.best(p, target, {target: x}) for p in query.patterns]))
        for x in range(search.size)
    ]


@st.composite
def patterns(draw: st.DrawFn, size: int) -> Pattern:
    """Connected variables, the target first, with extra edges, loops, negation and conditions."""
    count = draw(st.integers(1, 3))
    names = ["?x", "?u", "?v"][:count]
    entity = st.integers(0, size - 1)
    relation = st.integers(0, 1)

    def edge(a: Term, b: Term) -> Edge:
        return Edge(*((a, draw(relation), b) if draw(st.booleans()) else (b, draw(relation), a)))

    edges = [edge(names[i], names[draw(st.integers(0, i - 1))]) for i in range(1, count)]
    anything = st.one_of(st.sampled_from(names), entity)
    for _ in range(draw(st.integers(0 if edges else 1, 3))):
        edges.append(edge(draw(st.sampled_from(names)), draw(anything)))
    without: list[Pattern] = []
    for _ in range(draw(st.integers(0, 2))):
        kind = draw(st.sampled_from(["edge", "path", "pair", "entities", "all", "nested"]))
        shared = draw(st.sampled_from(names))
        if kind == "edge":
            without.append(Pattern((edge(shared, draw(entity)),)))
        elif kind == "path":
            without.append(Pattern((edge(shared, "?w"), edge("?w", draw(anything)))))
        elif kind == "pair":
            without.append(Pattern((edge(shared, draw(st.sampled_from(names))),)))
        elif kind == "all":
            ring = zip(names, names[1:] + names[:1], strict=True)
            without.append(Pattern(tuple(edge(a, b) for a, b in ring)))
        elif kind == "nested":
            nested = Pattern((edge("?w", draw(st.sampled_from([shared, 0]))),))
            without.append(Pattern((edge(shared, "?w"),), (nested,)))
        else:
            without.append(Pattern((edge(draw(entity), draw(entity)),)))
    pair = st.tuples(st.sampled_from(names), anything).filter(lambda p: p[0] != p[1])
    different = draw(st.lists(pair, max_size=1))
    bindings = draw(st.lists(st.tuples(st.sampled_from(names), entity), max_size=1))
    edges = draw(st.permutations(edges))
    if not any("?x" in e.terms for e in edges):
        edges.append(edge("?x", draw(entity)))
    bound = tuple(bindings) if draw(st.integers(0, 4)) == 0 else ()
    return Pattern(tuple(edges), tuple(without), tuple(different), bound)


@st.composite
def models(draw: st.DrawFn) -> SheafEmbedding:
    """A model with random weights of a small random graph, in float64."""
    size = draw(st.integers(2, 4))
    entity = st.integers(0, size - 1)
    rows = draw(st.lists(st.tuples(entity, st.integers(0, 1), entity), max_size=6))
    columns = np.array(rows, int).reshape(-1, 3).T
    graph = KnowledgeGraph.from_arrays(*columns, schema=Schema.single("rs"), num_entities=size)
    config = model_config(draw(st.sampled_from(["complex", "rotate", "transe"])), dim=4)
    model = SheafEmbedding(config, graph).double()
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    model.refresh()
    return model


CHOICES = (models(), st.booleans(), st.sampled_from([0.5, 1.0, 3.0]))


@given(st.data(), *CHOICES)
@settings(max_examples=120)
def test_without_a_cut_it_is_exhaustive_search(
    data: st.DataObject, model: SheafEmbedding, remembered: bool, kappa: float
) -> None:
    size = model.graph.num_entities
    union = data.draw(st.lists(patterns(size), min_size=1, max_size=2))
    query = Query(("?x",), tuple(union))
    facts = "remembered" if remembered else "ignored"
    found = chaining(model, [query], k=size, facts=facts, kappa=kappa, tau=TAU)
    expected = answers_by_search(model, query, remembered, kappa)
    np.testing.assert_allclose(found[0], expected, atol=1e-9)


@given(st.data(), *CHOICES)
@settings(max_examples=60)
def test_reasons_multiply_to_the_probability(
    data: st.DataObject, model: SheafEmbedding, remembered: bool, kappa: float
) -> None:
    size, focus = model.graph.num_entities, data.draw(st.sampled_from([1.0, 2.0]))
    query = Query(("?x",), (data.draw(patterns(size)),))
    facts = "remembered" if remembered else "ignored"
    solver = Chaining(model, k=size, facts=facts, kappa=kappa, focus=focus, tau=TAU)
    values = solver.log_probabilities([query])[0]
    answer = int(values.argmax())
    if values[answer] == -torch.inf:
        return
    found = solver.explain(query, answer)
    assert found.log_probability == pytest.approx(float(values[answer]), abs=1e-9)
    product = np.prod([r.probability for r in found.reasons]) * np.prod(found.denied)
    assert np.log(product) == pytest.approx(found.log_probability, abs=1e-9)
    for reason in found.reasons:
        row = [[reason.head, reason.edge.relation, reason.tail]]
        assert reason.known == bool(model.graph.contains(row)[0])
        if reason.known and remembered:
            assert reason.probability == 1
    for variable, witnesses in found.witnesses.items():
        assert found.assignment[variable] in [w.entity for w in witnesses]
        assert witnesses[0].log_probability == pytest.approx(found.log_probability, abs=1e-9)


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


@given(st.data(), models())
@settings(max_examples=40)
def test_batches_and_memory_change_nothing(data: st.DataObject, model: SheafEmbedding) -> None:
    """Rows are shared within a batch and computed in parts, which is no one's business."""
    size, softness = model.graph.num_entities, data.draw(st.sampled_from([0.0, 0.5]))
    drawn = data.draw(st.lists(patterns(size), min_size=2, max_size=3))
    queries = [Query(("?x",), (pattern,)) for pattern in drawn * 2]
    together = Chaining(model, k=size, softness=softness, tau=TAU).log_probabilities(queries)
    tight = Chaining(model, k=size, softness=softness, tau=TAU, memory_limit=20_000)
    for query, row in zip(queries, together, strict=True):
        alone = tight.log_probabilities([query])
        np.testing.assert_allclose(alone[0], row, atol=1e-9)


def films() -> KnowledgeGraph:
    """Typed, with a relation between two pairs of types."""
    return KnowledgeGraph.from_triples(
        [
            ("Ann", "likes", "Fargo"),
            ("Bob", "likes", "Solaris"),
            ("Ann", "likes", "Bob"),
            ("Bob", "knows", "Cy"),
        ],
        types=dict.fromkeys(("Ann", "Bob", "Cy"), "Person") | {"Fargo": "Film", "Solaris": "Film"},
        schema=Schema(
            ["Person", "Film"],
            [
                Relation("likes", "Person", "Film"),
                Relation("likes", "Person", "Person"),
                Relation("knows", "Person", "Person"),
            ],
        ),
    )


@pytest.mark.parametrize("name", ["rotate", "se"])
def test_types_rule_entities_out(name: str) -> None:
    graph = films()
    model = SheafEmbedding(model_config(name, dim=4), graph)
    rows = [("Ann", "knows", "?y"), ("?y", "likes", "?x")]
    query = Query.from_triples(rows, "?x", graph)
    found = chaining(model, [query], tau=1.0)[0]
    assert (found > 0).all()  # persons and films both can be liked
    asked = Query.from_triples([("?x", "likes", "?y"), ("?y", "knows", "Cy")], "?x", graph)
    likers = chaining(model, [asked], tau=1.0)[0]
    possible = dict(zip(graph.entities.names(range(5)), (likers > 0).tolist(), strict=True))
    assert possible == {"Ann": True, "Bob": True, "Cy": True, "Fargo": False, "Solaris": False}
    assert likers[graph.entities.id("Ann")] == 1  # she likes Bob, who knows Cy
    clash = Query.from_triples([("Fargo", "knows", "?x")], "?x", graph)
    assert not chaining(model, [clash], tau=1.0).any()


def grounded(graph: KnowledgeGraph, count: int) -> Iterator[dict[str, Pattern]]:
    """Queries that walks over the graph answer, one of each shape."""
    generator = np.random.default_rng(0)

    def into(entity: int) -> tuple[int, int]:
        nearby = graph.neighbours(entity)
        place = generator.choice(np.flatnonzero(~nearby.outgoing))
        return int(nearby.others[place]), int(nearby.relations[place])

    while count:
        x = int(generator.integers(graph.num_entities))
        try:
            (v, last), (b, near) = into(x), into(x)
            (u, middle), (c, side) = into(v), into(v)
            a, first = into(u)
        except ValueError:  # nothing leads there
            continue
        count -= 1
        end, before = Edge("?v", last, "?x"), Edge(u, middle, "?v")
        beside, beyond = Edge(b, near, "?x"), Edge(c, side, "?v")
        path = (Edge(a, first, "?u"), Edge("?u", middle, "?v"), end)
        yield {
            "2p": Pattern((before, end)),
            "3p": Pattern(path),
            "pi": Pattern((before, end, beside)),
            "ip": Pattern((before, beyond, end)),
            "far": Pattern((*path, beside)),
            "inp": Pattern((before, end), (Pattern((beyond,)),)),
            "pin": Pattern((before, end), (Pattern((beside,)),)),
            "pni": Pattern((beside,), (Pattern((before, end)),)),
        }


@pytest.fixture(scope="session")
def umls(tmp_path_factory: pytest.TempPathFactory) -> SheafEmbedding:
    folder = tmp_path_factory.mktemp("umls") / "model"
    training = TrainingConfig(epochs=4, negatives=None, batch_size=256, threads=1)
    train(load("umls"), model_config("complex", dim=32), training, out=folder)
    return SheafEmbedding.load(folder)


@pytest.mark.parametrize("facts", ["remembered", "ignored"])
def test_the_cut_leaves_the_best_answers_alone(umls: SheafEmbedding, facts: str) -> None:
    queries = [
        Query(("?x",), (pattern,))
        for shapes in grounded(umls.graph, 40)
        for pattern in shapes.values()
    ]
    full = Chaining(umls, k=umls.graph.num_entities, facts=facts).log_probabilities(queries)
    cut = Chaining(umls, k=32, facts=facts).log_probabilities(queries)
    # Many answers are certain: one that is as good as another is no difference.
    shown, best = full.gather(1, cut.topk(10).indices), full.topk(10).values
    assert torch.isclose(shown, best, atol=1e-4).float().mean() >= 0.99


def test_an_inner_unknown_is_cut_by_what_is_behind_it(umls: SheafEmbedding) -> None:
    """With one candidate left, the constant at the target decides which."""
    graph = umls.graph
    head, relation, tail = (int(i) for i in graph.triples[0])
    wide = Pattern((Edge("?u", relation, "?x"),), (), (), (("?x", tail),))
    found = chaining(umls, [Query(("?x",), (wide,))], k=8)[0]
    assert found[tail] == 1
    assert found.count_nonzero() == 1
    assert graph.contains([[head, relation, tail]]).all()


@pytest.mark.parametrize("softness", [0.0, 0.5])
def test_unlikely_answers_keep_their_order(umls: SheafEmbedding, softness: float) -> None:
    path = [Edge(0, 0, "?0"), *(Edge(f"?{i}", 0, f"?{i + 1}") for i in range(12))]
    query = Query(("?12",), (Pattern(tuple(path)),))
    cold = Chaining(umls, facts="ignored", tau=0.05, k=8, softness=softness)
    values = cold.log_probabilities([query])[0]
    assert values.isfinite().all()
    assert values.min() < -104  # where float32 has no probability any more
    assert len(values.unique()) > 100


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": 0}, "at least one candidate"),
        ({"facts": "forgotten"}, "remembered or ignored"),
        ({"kappa": -1.0}, "kappa"),
        ({"softness": 2.0}, "Softness is between 0"),
        ({"focus": 0.0}, "focus on unknowns"),
        ({"tau": 0.0}, "temperature"),
        ({"tau": None}, "no temperature"),
    ],
)
def test_bad_options(options: dict[str, object], words: str) -> None:
    model = SheafEmbedding(model_config("transe", dim=4), films())
    query = Query(("?x",), (Pattern((Edge(0, 0, "?x"),)),))
    with pytest.raises(InputError, match=words):
        chaining(model, [query], **{"tau": 1.0, **options})


def test_limits_are_kept() -> None:
    model = SheafEmbedding(model_config("transe", dim=4), films())
    query = Query(("?x",), (Pattern((Edge(0, 0, "?x"),)),))
    with pytest.raises(SheafError, match="time limit"):
        chaining(model, [query], tau=1.0, time_limit=-1.0)
    ring = (Edge("?x", 0, "?u"), Edge("?u", 0, "?v"), Edge("?v", 0, "?x"))
    with pytest.raises(InputError, match="memory limit"):
        chaining(model, [Query(("?x",), (Pattern(ring),))], tau=1.0, memory_limit=100)


def test_several_targets_have_no_single_list() -> None:
    model = SheafEmbedding(model_config("transe", dim=4), films())
    query = Query(("?x", "?y"), (Pattern((Edge("?x", 0, "?y"),)),))
    with pytest.raises(InputError, match="ask for their combinations"):
        chaining(model, [query], tau=1.0)


def combinations_by_search(
    model: SheafEmbedding, query: Query, remembered: bool, kappa: float
) -> dict[tuple[int, ...], float]:
    """Every combination: edges point to the last target, the others are variables like any."""
    search = Exhaustive(model, remembered, kappa)
    found = {}
    for chosen in itertools.product(range(search.size), repeat=len(query.targets)):
        values = dict(zip(query.targets, chosen, strict=True))
        misses = [1 - search.best(p, query.targets[-1], values, seen=()) for p in query.patterns]
        found[chosen] = 1 - float(np.prod(misses))
    return found


@given(st.data(), *CHOICES)
@settings(max_examples=40)
def test_combinations_are_those_of_exhaustive_search(
    data: st.DataObject, model: SheafEmbedding, remembered: bool, kappa: float
) -> None:
    size = model.graph.num_entities
    union = data.draw(st.lists(patterns(size), min_size=1, max_size=2))
    shared = set(union[0].variables).intersection(*(p.variables for p in union))
    targets = tuple(data.draw(st.permutations(sorted(shared))))
    query = Query(targets, tuple(union))
    facts = "remembered" if remembered else "ignored"
    count = data.draw(st.sampled_from([1, 3, size ** len(targets)]))
    solver = Chaining(model, k=size, facts=facts, kappa=kappa, tau=TAU)
    (found,) = solver.combinations([query], count)
    expected = combinations_by_search(model, query, remembered, kappa)
    p = torch.exp(-found.energies).tolist()
    assert p == pytest.approx([expected[tuple(row)] for row in found.ids.tolist()], abs=1e-9)
    assert len(set(map(tuple, found.ids.tolist()))) == len(p)
    if found.exact:
        best = sorted(expected.values(), reverse=True)[: len(p)]
        assert p == pytest.approx(best, abs=1e-9)
        assert len(p) >= min(count, sum(value > 1e-9 for value in expected.values()))
    else:
        assert len(union) > 1
        assert count < size ** len(targets)


def test_combinations_of_a_batch_are_those_of_each_alone(umls: SheafEmbedding) -> None:
    shapes = list(grounded(umls.graph, 3))
    queries = [Query(("?v", "?x"), (each["pi"],)) for each in shapes]
    queries += [Query(("?v", "?x"), (each["pin"], each["ip"])) for each in shapes]
    solver = Chaining(umls, k=16)
    together = solver.combinations(queries, 6)
    for query, found in zip(queries, together, strict=True):
        (alone,) = solver.combinations([query], 6)
        torch.testing.assert_close(alone.energies, found.energies)
