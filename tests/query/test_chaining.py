"""Chaining against exhaustive search over all assignments, and against itself without the cut."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chaining_cases import CHOICES, TAU, Exhaustive, answers_by_search, chaining, models, patterns
from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.graph import KnowledgeGraph, Relation, Schema
from knowledge_sheaves.graph.readers import load
from knowledge_sheaves.query import Budget, Edge, Pattern, Query
from knowledge_sheaves.query.facts import certain
from knowledge_sheaves.query.solvers.chaining.solver import Chaining
from knowledge_sheaves.training import TrainingConfig, train


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
    """Whatever the focus, the softness, the cut to k candidates and the number of branches."""
    size, focus = model.graph.num_entities, data.draw(st.sampled_from([1.0, 2.0]))
    softness, k = data.draw(st.sampled_from([0.0, 0.5, 1.0])), data.draw(st.integers(1, size))
    branches = data.draw(st.lists(patterns(size), min_size=1, max_size=2))
    query = Query(("?x",), tuple(branches))
    facts = "remembered" if remembered else "ignored"
    told = {"k": k, "facts": facts, "kappa": kappa, "focus": focus, "softness": softness}
    solver = Chaining.of(model, tau=TAU, **told)
    values = solver.log_probabilities([query])[0]
    for answer in {int(values.argmax()), data.draw(st.integers(0, size - 1))}:
        if values[answer] == -torch.inf:
            continue
        found = solver.explain(query, [answer])
        assert found.probability == pytest.approx(float(values[answer].exp()), abs=1e-9)
        for reason in found.reasons:
            ids = (model.graph.entities.id(name) for name in (reason.head, reason.tail))
            head, tail = ids
            row = [[head, int(reason.edge.relation), tail]]
            assert reason.known == bool(model.graph.contains(row)[0])
            if reason.known and remembered:
                assert reason.weight == pytest.approx(1)
        for against in found.against:
            chance = against.part.branch_probability
            denied = 0.0 if chance == 1.0 and remembered else 1 - min(1.0, kappa * chance)
            assert against.left == pytest.approx(denied, abs=1e-9)


@given(st.data(), models())
@settings(max_examples=40)
def test_batches_and_memory_change_nothing(data: st.DataObject, model: SheafEmbedding) -> None:
    """Rows are shared within a batch and computed in parts, which is no one's business."""
    size, softness = model.graph.num_entities, data.draw(st.sampled_from([0.0, 0.5]))
    drawn = data.draw(st.lists(patterns(size), min_size=2, max_size=3))
    queries = [Query(("?x",), (pattern,)) for pattern in drawn * 2]
    together = Chaining.of(model, k=size, softness=softness, tau=TAU).log_probabilities(queries)
    tight = Chaining.of(model, Budget(memory=20_000), k=size, softness=softness, tau=TAU)
    for query, row in zip(queries, together, strict=True):
        alone = tight.log_probabilities([query])
        np.testing.assert_allclose(alone[0], row, atol=1e-9)


def test_no_cut_lets_known_facts_through_a_negation() -> None:
    """What lies behind a hub is known, even if fewer candidates are kept than it has neighbours."""
    ways = [("hub", "r", f"y{i}") for i in range(8)] + [(f"y{i}", "s", f"x{i}") for i in range(8)]
    graph = KnowledgeGraph.from_triples([*ways, ("a", "t", "x0"), ("x0", "t", "free")])
    model = SheafEmbedding(model_config("complex", dim=4), graph, seed=3)

    def edges(*rows: tuple[str, str, str]) -> tuple[Edge, ...]:
        return Query.from_triples(list(rows), rows[-1][2], graph).patterns[0].edges

    def ask(positive: tuple[Edge, ...], negated: tuple[Edge, ...]) -> torch.Tensor:
        query = Query(("?x",), (Pattern(positive, (Pattern(negated),)),))
        return chaining(model, [query], k=1, tau=1.0, kappa=0.5)[0]

    found = ask(edges(("a", "t", "?x")), edges(("hub", "r", "?y"), ("?y", "s", "?x")))
    behind = [graph.entities.id(f"x{i}") for i in range(8)]
    assert found[behind].tolist() == [0.0] * 8
    assert int((found > 0).sum()) == graph.num_entities - 8
    path = edges(("a", "t", "?u"), ("?u", "t", "?x"))  # known to lead over x0 to free
    found = ask(path, edges(("hub", "r", "?y"), ("?y", "s", "?u")))
    assert 0 < found[graph.entities.id("free")] < 1
    relation = edges(("y7", "s", "?x"))[0].relation
    anyone = (*edges(("hub", "r", "?v")), Edge("?v", relation, behind[7]))
    found = ask(edges(("a", "t", "?x")), anyone)
    assert found.tolist() == [0.0] * graph.num_entities
    apart = (*edges(("hub", "r", "?y"), ("?y", "s", "?x")), *edges(("a", "t", "?w")))
    assert ask(edges(("a", "t", "?x")), apart)[behind].tolist() == [0.0] * 8
    elsewhere = (*apart[:2], *edges(("free", "t", "?w")))
    assert (ask(edges(("a", "t", "?x")), elsewhere)[behind] > 0).any()  # free has no such fact


def test_more_ways_than_can_be_listed_are_left_to_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ways = [(f"x{i}", "r", "hub") for i in range(9)] + [("hub", "s", f"z{i}") for i in range(9)]
    graph = KnowledgeGraph.from_triples([*ways, ("b", "t", "x0")])
    model = SheafEmbedding(model_config("complex", dim=4), graph)
    target, path = (
        Query.from_triples(rows, "?x", graph).patterns[0].edges
        for rows in ([("b", "t", "?x")], [("?x", "r", "?y"), ("?y", "s", "?z")])
    )
    denied = Query(("?x",), (Pattern(target, (Pattern(path),)),))
    behind = torch.tensor([name.startswith("x") for name in graph.entities.names(range(20))])
    listed = chaining(model, [denied] * 3, k=1, tau=1.0, kappa=0.5)
    assert (listed[:, behind] == 0).all()
    monkeypatch.setattr(certain, "MOST_DENIED", 10)
    searched = chaining(model, [denied] * 3, k=1, tau=1.0, kappa=0.5)
    assert torch.equal(searched[:, ~behind], listed[:, ~behind])
    assert (searched[:, ~behind] > 0).all()


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
    full = Chaining.of(umls, k=umls.graph.num_entities, facts=facts).log_probabilities(queries)
    cut = Chaining.of(umls, k=32, facts=facts).log_probabilities(queries)
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
    cold = Chaining.of(umls, facts="ignored", tau=0.05, k=8, softness=softness)
    values = cold.log_probabilities([query])[0]
    assert values.isfinite().all()
    assert values.min() < -104  # where float32 has no probability any more
    assert len(values.unique()) > 100


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": 0}, "k is a whole number, at least 1, not 0"),
        ({"facts": "forgotten"}, "facts is one of remembered, ignored, not 'forgotten'"),
        ({"kappa": -1.0}, "kappa"),
        ({"softness": 2.0}, "softness is a number between 0 and 1"),
        ({"focus": 0.0}, "focus is a number above 0"),
        ({"tau": 0.0}, "tau is a number above 0"),
        ({"tau": float("nan")}, "tau is a number above 0"),
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
        chaining(model, [query], Budget(deadline=0.0), tau=1.0)
    ring = (Edge("?x", 0, "?u"), Edge("?u", 0, "?v"), Edge("?v", 0, "?x"))
    with pytest.raises(InputError, match="memory limit"):
        chaining(model, [Query(("?x",), (Pattern(ring),))], Budget(memory=100), tau=1.0)


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
    solver = Chaining.of(model, k=size, facts=facts, kappa=kappa, tau=TAU)
    (found,) = solver.combinations([query], count, None)
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
    solver = Chaining.of(umls, k=16)
    together = solver.combinations(queries, 6, None)
    for query, found in zip(queries, together, strict=True):
        (alone,) = solver.combinations([query], 6, None)
        torch.testing.assert_close(alone.energies, found.energies)
