"""Explanations add up to the answers they explain, and name what brute force would choose."""

from __future__ import annotations

import itertools
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from rdflib.plugins.sparql.results.jsonresults import JSONResult

import knowledge_sheaves
from knowledge_sheaves.embedding import CATALOGUE, SheafEmbedding, model_config
from knowledge_sheaves.embedding.noise import model_noise
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Relation, Schema
from knowledge_sheaves.plain import printable_lines
from knowledge_sheaves.query import Edge, Options, Pattern, Query, Wanted, answer
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.query.drawing import draw, plot
from knowledge_sheaves.query.explanation import Explanation
from knowledge_sheaves.query.language.short import to_sparql
from knowledge_sheaves.query.results import select_json, term
from query_cases import explain

CLOSED_FORM = [name for name in CATALOGUE if name != "toruse"]
# Every model as the paper extends it; with a prior, on the sphere and lifted as a whole.
EXTENSIONS = [
    *((name, "free", 0.0) for name in CLOSED_FORM),
    *((name, "free", 0.5) for name in ("transr", "mure", "complex")),
    *((name, "sphere", 0.0) for name in CLOSED_FORM if CATALOGUE[name].lifted),
    *((name, "composite", 0.0) for name in CLOSED_FORM if CATALOGUE[name].lifted),
    ("complex", "composite", 0.5),
]
NAMES = [f"e{i}" for i in range(6)]
FACTS = [("e0", "r0", "e1"), ("e1", "r1", "e2"), ("e3", "r2", "e4"), ("e0", "r1", "e2")]
EVERYONE = Wanted(top=len(NAMES))
SHAPES = {
    "2p": (Edge(0, 0, "?y"), Edge("?y", 1, "?x")),
    "backwards": (Edge("?y", 0, 1), Edge("?x", 1, "?y")),
    "ip": (Edge(0, 0, "?y"), Edge(3, 2, "?y"), Edge("?y", 1, "?x")),
    "cycle": (Edge(0, 0, "?y"), Edge("?y", 1, "?z"), Edge("?z", 2, "?x"), Edge("?y", 0, "?x")),
    "loop": (Edge("?y", 0, "?y"), Edge("?y", 1, "?x"), Edge("?x", 2, 4)),
    "2i": (Edge(0, 0, "?x"), Edge(3, 2, "?x")),
}


@cache
def make_model(name: str) -> SheafEmbedding:
    graph = KnowledgeGraph.from_triples(FACTS, entities=NAMES)
    block = CATALOGUE[name].block
    dim = {None: 3, 3: 6}.get(block, 4 if (block or 1) <= 4 else block or 4)
    model = SheafEmbedding(model_config(name, dim=dim), graph, seed=4).double()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.5 * noise)
    model.refresh()
    return model.requires_grad_(False)


@pytest.fixture(scope="module")
def complex_model() -> SheafEmbedding:
    return make_model("complex")


def ids(graph: KnowledgeGraph, edges: tuple[Edge, ...]) -> tuple[Edge, ...]:
    """The edges with ids for the numbers of names."""

    def of(term: int | str) -> int | str:
        return graph.entities.id(NAMES[term]) if isinstance(term, int) else term

    relations = graph.schema.relation_names
    return tuple(Edge(of(e.head), relations.index(f"r{e.relation}"), of(e.tail)) for e in edges)


def ask(model: SheafEmbedding, *patterns: Pattern) -> Query:
    made = [
        Pattern(
            ids(model.graph, p.edges), tuple(Pattern(ids(model.graph, i.edges)) for i in p.without)
        )
        for p in patterns
    ]
    return Query(("?x",), tuple(made))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("name", "lift", "strength"), EXTENSIONS)
def test_edge_energies_add_up_to_the_answers_energy(
    name: str, lift: str, strength: float, shape: str
) -> None:
    model = make_model(name)
    options = Options("harmonic", lift=lift, strength=strength, tau=1.0)  # type: ignore[arg-type]
    (found,) = answer(model, ask(model, Pattern(SHAPES[shape])), options, EVERYONE)
    assert len(found) == len(NAMES)
    for place in (0, 5):
        explanation = explain(model, found, place, options)
        assert explanation.energy == pytest.approx(float(found.energies[place]), abs=1e-6)
        assert explanation.entities["?x"] == found[place].names[0]
        costs = [
            float(cost) for cost in re.findall(r"(?<!\()energy (-?\d+\.\d{4})\b", draw(explanation))
        ]
        assert sum(costs) == pytest.approx(explanation.energy, abs=1e-3)  # nothing is left unsaid


@pytest.mark.parametrize("name", ["transe", "se", "rotate"])
def test_a_harmonic_witness_is_the_cheapest_entity(name: str) -> None:
    model = make_model(name)
    options = Options("harmonic", tau=1.0)
    (found,) = answer(model, ask(model, Pattern(SHAPES["2p"])), options, EVERYONE)
    explanation = explain(model, found, 2, options, runner_ups=5)
    (witness,) = explanation.witnesses
    entities = model.graph.entities
    costs = {}
    for candidate in NAMES:
        rows = [("e0", "r0", candidate), (candidate, "r1", found[2].names[0])]
        triples = [
            (entities.id(h), int(model.graph.schema.edges(r)[0]), entities.id(t))
            for h, r, t in rows
        ]
        costs[candidate] = float(model.energies(triples).sum())
    shown = (witness.best, *witness.others)
    assert [each.name for each in shown] == sorted(costs, key=costs.__getitem__)
    assert [each.energy for each in shown] == pytest.approx(sorted(costs.values()))
    assert explanation.entities["?y"] == witness.best.name


def test_spread_of_an_unknown_between_two_springs() -> None:
    model = make_model("transe")
    options = Options("harmonic", tau=1.0)
    (found,) = answer(model, ask(model, Pattern(SHAPES["2p"])), options)
    (witness,) = explain(model, found, 0, options).witnesses
    assert witness.spread == pytest.approx((model_noise(model) / 2) ** 0.5)
    triples = model.graph.triples
    assert model_noise(model) == pytest.approx(
        float(model.energies(triples).mean()) / model.config.dim
    )


@pytest.mark.parametrize("facts", ["remembered", "ignored"])
@pytest.mark.parametrize("shape", SHAPES)
def test_edge_probabilities_multiply_to_the_answers(
    complex_model: SheafEmbedding, shape: str, facts: str
) -> None:
    model, options = complex_model, Options("chaining", facts=facts, tau=1.0)
    without = (Pattern((Edge(4, 0, "?x"),)),)
    (found,) = answer(model, ask(model, Pattern(SHAPES[shape], without)), options, EVERYONE)
    assert found.probabilities is not None
    for place in (0, 3):
        explanation = explain(model, found, place, options)
        assert explanation.probability == pytest.approx(float(found.probabilities[place]))
        (against,) = explanation.against
        assert against.part.reasons[0].head == "e4"
        for reason in explanation.reasons:
            assert reason.known == ((reason.head, reason.relation, reason.tail) in FACTS)
            if facts == "remembered":
                assert (reason.probability == pytest.approx(1)) == reason.known


def test_chosen_witnesses_are_those_of_exhaustive_search(complex_model: SheafEmbedding) -> None:
    model, options = complex_model, Options("chaining", facts="ignored", tau=1.0)
    (found,) = answer(model, ask(model, Pattern(SHAPES["cycle"])), options, EVERYONE)
    for place in range(len(found)):
        explanation = explain(model, found, place, options, runner_ups=5)
        chosen = {w.variable: w.best.name for w in explanation.witnesses}
        best = max(
            itertools.product(NAMES, repeat=2),
            key=lambda pair: _chance(model, options, pair, found[place].names[0]),
        )
        assert (chosen["?y"], chosen["?z"]) == best
        runners = [other.probability for other in explanation.witnesses[0].others]
        assert runners == sorted(runners, key=lambda p: -(p or 0))


def _chance(model: SheafEmbedding, options: Options, pair: tuple[str, ...], target: str) -> float:
    """The probability with both unknowns in the place of variables, one edge at a time."""
    values = {"?y": pair[0], "?z": pair[1], "?x": target}
    chance = 1.0
    # Each edge points towards the target, so its tail is what is asked for.
    for edge in SHAPES["cycle"]:
        head = edge.head if isinstance(edge.head, str) else NAMES[edge.head]
        given = values.get(str(head), str(head))
        query = Query.from_triples([(given, f"r{edge.relation}", "?t")], "?t", model.graph)
        (found,) = answer(model, query, options, EVERYONE)
        assert found.probabilities is not None
        wanted = model.graph.entities.id(values[str(edge.tail)])
        chance *= float(found.probabilities[found.ids[:, 0] == wanted])
    return chance


def test_of_a_union_the_likelier_branch_is_shown(complex_model: SheafEmbedding) -> None:
    model, options = complex_model, Options("chaining", tau=1.0)
    known, unknown = Pattern((Edge(0, 0, "?x"),)), Pattern((Edge(3, 2, "?x"),))
    (found,) = answer(model, ask(model, unknown, known), options, EVERYONE)
    place = next(i for i, each in enumerate(found) if each.names == ("e1",))
    (reason,) = explain(model, found, place, options).reasons
    assert (reason.head, reason.known) == ("e0", True)


def test_types_decide_which_part_of_a_relation_is_meant() -> None:
    schema = Schema(
        [EntityType("Person", 4), EntityType("Film", 2), EntityType("Book", 2)],
        [
            Relation("likes", "Person", "Film"),
            Relation("likes", "Person", "Book"),
            Relation("knows", "Person", "Person"),
        ],
    )
    graph = KnowledgeGraph.from_triples(
        [("Ann", "knows", "Bob"), ("Bob", "likes", "Fargo"), ("Ann", "likes", "Emma")],
        types={"Ann": "Person", "Bob": "Person", "Fargo": "Film", "Emma": "Book"},
        schema=schema,
    )
    model = SheafEmbedding(model_config("se", dim=4), graph).requires_grad_(False)
    asker = Asker(model, Options("harmonic", tau=1.0))
    found = asker.answer("Ann knows ?y . ?y likes ?x", explain=True)
    assert {each.names[0] for each in found} == {"Fargo", "Emma"}
    for place, explanation in enumerate(found.explanation):
        assert explanation.energy == pytest.approx(float(found.energies[place]), rel=1e-4)
        assert [w.best.name in ("Ann", "Bob") for w in explanation.witnesses] == [True]
    assert [each.names for each in asker.answer("Ann likes ?x", type="Book")] == [("Emma",)]
    with pytest.raises(InputError, match="Buch"):
        asker.answer("Ann likes ?x", type="Buch")


@pytest.mark.parametrize("name", ["transe", "complex"])
@pytest.mark.parametrize("solver", ["harmonic", "chaining"])
def test_several_targets_are_explained_together(solver: str, name: str) -> None:
    model = make_model(name)
    asker = Asker(model, Options(solver, tau=1.0))
    found = asker.answer("SELECT ?y ?x { :e0 :r0 ?y . ?y :r1 ?x }", top=9, explain=True)
    for place, explanation in enumerate(found.explanation):
        assert tuple(explanation.entities[v] for v in ("?y", "?x")) == found[place].names
        assert explanation.witnesses == ()
        if solver == "harmonic":
            assert explanation.energy == pytest.approx(float(found.energies[place]), abs=1e-6)
        else:
            assert explanation.probability == pytest.approx(found[place].probability)


def test_negations_of_every_kind_are_explained(
    complex_model: SheafEmbedding, tmp_path: Path
) -> None:
    """At an unknown, with unknowns of its own, and one that has nothing to do with the rest."""
    asker = Asker(complex_model, Options("chaining", tau=1.0))
    parts = ["?y :r1 :e3", ":e4 :r0 ?z . ?z :r1 ?y . ?x :r2 ?z", ":e0 :r2 :e5", "?a :r2 :e0"]
    denied = " ".join(f"FILTER NOT EXISTS {{ {part} }}" for part in parts)
    found = asker.answer(f"SELECT ?x {{ :e0 :r0 ?y . ?y :r1 ?x {denied} }}", top=3, explain=True)
    assert found.probabilities is not None
    for place, explanation in enumerate(found.explanation):
        assert explanation.probability == pytest.approx(float(found.probabilities[place]))
        assert [len(each.part.reasons) for each in explanation.against] == [1, 3, 1, 1]
        free = explanation.against[1].part
        assert free.entities["?y"] == explanation.entities["?y"]
        assert len(free.witnesses) == 1
        drawn = draw(explanation)
        assert drawn.count("not:") == 4
        assert drawn.count("energy") == 2 + 1 + 3 + 1 + 1
    plot(found.explanation[0], tmp_path / "why.svg")
    assert (tmp_path / "why.svg").stat().st_size


@pytest.fixture
def explained(complex_model: SheafEmbedding) -> Explanation:
    asker = Asker(complex_model, Options("chaining", tau=1.0))
    text = "SELECT ?x { :e0 :r0/:r1 ?x . ?x :r2 ?y . ?y :r0 ?x FILTER NOT EXISTS { :e3 :r2 ?x } }"
    explanation = asker.answer(text, top=1, explain=True).explanation[0]
    assert isinstance(explanation, Explanation)
    return explanation


def test_a_drawing_has_every_edge_once_with_its_cost(explained: Explanation) -> None:
    drawn = draw(explained)
    lines = drawn.splitlines()
    assert lines[0] == f"?x = {explained.entities['?x']}"
    edges = [line for line in lines if "energy" in line and "may also be" not in line]
    assert len(edges) == 5
    for reason in explained.reasons:
        (line,) = (line for line in edges if f"energy {reason.energy:.4f}" in line)
        assert f" {reason.relation} " in line
        assert ("known" in line) == reason.known
    assert sum("─ not:" in line for line in lines) == 1
    assert sum(line.endswith("↑") or " ↑ " in line for line in lines) == 1
    assert "? = e1" in drawn
    assert "?.1" not in drawn


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_picture_is_written(explained: Explanation, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"why.{suffix}"
    plot(explained, file)
    assert file.read_bytes()[:5] == (b"<?xml" if suffix == "svg" else b"\x89PNG\r")
    with pytest.raises(InputError, match=r"why\.txt: pictures are written as \.svg"):
        plot(explained, tmp_path / "why.txt")
    with pytest.raises(SheafError, match="cannot be written"):
        plot(explained, file / "why.svg")


def test_a_picture_takes_the_place_of_another_whole(explained: Explanation, tmp_path: Path) -> None:
    (tmp_path / "kept.svg").write_text("the old one")
    (tmp_path / "why.svg").hardlink_to(tmp_path / "kept.svg")
    plot(explained, tmp_path / "why.svg")
    assert (tmp_path / "kept.svg").read_text() == "the old one", "it was written over"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.svg", "why.svg"]


def test_names_do_not_act_where_they_are_drawn(tmp_path: Path) -> None:
    red, back, odd = "\x1b[31mred\n", "$\\badmacro{$ \u202e", "\x07r"
    graph = KnowledgeGraph.from_triples([(red, odd, back), (back, odd, "c"), (red, odd, "d")])
    model = SheafEmbedding(model_config("complex", dim=4), graph)
    for solver in ("chaining", "harmonic"):
        asker = Asker(model, Options(solver, tau=1.0))
        (why, *_) = asker.answer("?x where ?x \x07r ?y . ?y \x07r ?z", 1, explain=True).explanation
        drawn = draw(why)
        assert printable_lines(drawn) == drawn
        assert r"\x07r" in drawn
        plot(why, tmp_path / "why.svg")
        picture = (tmp_path / "why.svg").read_text(encoding="utf-8")
        assert printable_lines(picture) == picture


def test_standard_readers_read_our_results(complex_model: SheafEmbedding) -> None:
    found = Asker(complex_model, Options(tau=1.0)).answer("e0 r0 ?x", top=3)
    document = json.loads(json.dumps(select_json(("?x",), found)))
    assert document["head"]["vars"] == ["x"]
    read = [{str(v): term for v, term in row.items()} for row in JSONResult(document).bindings]
    assert [str(row["x"]) for row in read] == [each.names[0] for each in found]
    assert [row["rank"].toPython() for row in read] == [1, 2, 3]
    assert [row["energy"].toPython() for row in read] == found.energies.tolist()
    assert read[0]["known"].toPython() is True
    assert found.probabilities is not None
    chances = [row["probability"].toPython() for row in read]
    assert chances == pytest.approx(found.probabilities.tolist())


def test_a_variable_keeps_its_name(complex_model: SheafEmbedding) -> None:
    found = Asker(complex_model, Options(tau=1.0)).answer("e0 r0 ?rank", top=1)
    (binding,) = select_json(("?rank",), found)["results"]["bindings"]
    assert binding["rank"] == term(found[0].names[0])
    assert term("_:b0") == {"type": "bnode", "value": "b0"}
    assert term("urn:isbn:1")["type"] == "uri"


def test_ask_by_fact_and_by_prediction(complex_model: SheafEmbedding) -> None:
    asker = Asker(complex_model, Options(tau=0.01))
    known = asker.decide("ASK { :e0 :r0 :e1 }")
    assert (known.holds, known.known) == (True, True)
    first = asker.answer("e5 r0 ?x", top=6)
    assert first.probabilities is not None
    for place in (0, 5):
        sure = float(first.probabilities[place]) >= 0.5
        verdict = asker.decide(f"e5 r0 {first[place].names[0]}")
        assert (verdict.holds, verdict.known) == (sure, False)
        assert verdict.probability == pytest.approx(float(first.probabilities[place]))
        assert str(verdict).startswith("yes: predicted" if sure else "no: predicted")
    assert not asker.decide("ASK { VALUES ?x { } :e0 :r0 ?x }").holds
    with pytest.raises(InputError, match="use decide"):
        asker.answer("ASK { :e0 :r0 :e1 }")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "The query is empty"),
        ("Ann knows", "A statement has a head, a relation and a tail, unlike 'Ann knows'"),
        ("Ann knows ?x . Bob ?x", "unlike 'Bob ?x'"),
        ("Anne knows ?x", "No entity has the name or label 'Anne'; did you mean 'Ann'?"),
        ("Ann kows ?x", "There is no relation 'kows'; did you mean 'knows'?"),
        ("Ann really knows ?x", "No entity has the name or label 'Ann really'."),
        ("Ann really nows ?x", "There is no relation 'really nows'"),
        ("somebody really nows ?x", "has no names of the graph in three places"),
        ("big Ann knows Bob likes Bob", "can be read in several ways"),
    ],
)
def test_a_short_form_that_says_nothing_is_one_sentence(text: str, sentence: str) -> None:
    rows = [("Ann", "knows", "Bob"), ("big Ann", "knows Bob likes", "Bob"), ("Ann", "likes", "Bob")]
    rows += [("big Ann", "knows", "Bob likes Bob")]
    with pytest.raises(InputError) as error:
        to_sparql(text, KnowledgeGraph.from_triples(rows))
    assert sentence in str(error.value)


def test_the_short_form_asks_for_the_last_variable_or_the_one_named() -> None:
    graph = KnowledgeGraph.from_triples([("a b", "is in", "c")], labels={"c": "the C"})
    assert to_sparql("a b is in ?y . ?y is in ?x .", graph).startswith("SELECT ?x {")
    assert to_sparql("?y where a b is in ?y\n?y is in ?x", graph).startswith("SELECT ?y {")
    assert to_sparql('"a b" is in the C', graph) == "ASK { <a b> <is in> :c }"


def test_a_saved_model_answers(complex_model: SheafEmbedding, tmp_path: Path) -> None:
    model = SheafEmbedding(model_config("transe", dim=4), complex_model.graph)
    model.save(tmp_path / "model")
    asker = knowledge_sheaves.load(tmp_path / "model")
    found = asker.answer("e0 r0 ?x", top=2, solver="harmonic")
    assert found.to_polars().columns[:2] == ["rank", "x"]
    assert np.array_equal(found.to_pandas()["rank"], [1, 2])
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        _ = knowledge_sheaves.lode


def test_only_answers_that_are_there_are_explained(complex_model: SheafEmbedding) -> None:
    (found,) = answer(complex_model, ask(complex_model, Pattern(SHAPES["2i"])), Options(tau=1.0))
    assert len(Asker(complex_model, Options(tau=1.0)).explain(found, 7)) == len(found) == 6
