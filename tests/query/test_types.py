"""Questions that types rule out, where all entities share one stalk, as they do by default."""

from __future__ import annotations

import time

import pytest

from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, model_config
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.graph.classes import Classes
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.ends import goes
from knowledge_sheaves.query import Options
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.query.full import Sparql
from knowledge_sheaves.query.language import read
from knowledge_sheaves.query.types import TypeClash, possible_types
from knowledge_sheaves.ranking import Predictor
from pace import slower

SHOP = "http://shop.example/"
CUSTOMER, CAMERA, LENS, PRODUCT = (f"{SHOP}{n}" for n in ("Customer", "Camera", "Lens", "Product"))
PEOPLE = [f"p{i}" for i in range(20)]
CAMERAS = [f"camera{i}" for i in range(5)]
LENSES = [f"lens{i}" for i in range(5)]
MAKERS = [f"maker{i}" for i in range(10)]
TYPES: dict[str, str | list[str]] = {
    **dict.fromkeys(PEOPLE, CUSTOMER),
    **dict.fromkeys(CAMERAS, CAMERA),
    **dict.fromkeys(LENSES, LENS),
    **dict.fromkeys(MAKERS, "Company"),
    "both": ["Company", CUSTOMER],
}
BOUGHT = [(person, "bought", camera) for person in PEOPLE for camera in CAMERAS]
MADE = [(product, "made_by", maker) for product in (*CAMERAS, *LENSES) for maker in MAKERS]


def shop(*more: tuple[str, str, str], says: Schema | None = None) -> KnowledgeGraph:
    """A shop whose schema speaks of `bought` only; the facts show what `made_by` joins."""
    rows = [*BOUGHT, *MADE, ("p0", "seldom", "maker0"), *more]
    bare = KnowledgeGraph.from_triples(rows, entities=[*TYPES, "nobody"], schema=says)
    parents = {CAMERA: PRODUCT, LENS: PRODUCT}
    heads, tails = {"bought": (CUSTOMER,)}, {"bought": (PRODUCT,)}
    names = list(bare.entities)
    return bare.shared(Classes.of(names, TYPES, subclass_of=parents, heads=heads, tails=tails))


BOUGHT_GOES, MADE_GOES = (
    "'bought' goes from Customer to Product, but",
    "'made_by' goes from Camera or Lens to Company, but",
)
IMPOSSIBLE = {
    "camera0 bought ?x": f"{BOUGHT_GOES} 'camera0' at its head is of type Camera.",
    "?x bought maker1": f"{BOUGHT_GOES} 'maker1' at its tail is of type Company.",
    "?x bought both": f"{BOUGHT_GOES} 'both' at its tail is of type Company and Customer.",
    "camera0 bought p1": (
        f"{BOUGHT_GOES} 'camera0' at its head is of type Camera and 'p1' at its tail is of type "
        "Customer."
    ),
    "p1 made_by ?x": f"{MADE_GOES} 'p1' at its head is of type Customer.",
    "SELECT ?x { VALUES ?x { :camera1 } ?x :bought ?y }": (
        f"{BOUGHT_GOES} ?x at its head must be of type Camera elsewhere."
    ),
}
POSSIBLE = [
    "p1 bought ?x",
    "?x bought lens1",  # of a subclass of what the schema says
    "nobody bought ?x",  # without a type
    "?x bought nobody",
    "both bought ?x",  # one of its types is enough
    "?x made_by both",
    "camera1 seldom ?x",  # of too few facts to tell
    "?x bought ?y . ?y made_by ?z",
    "?x bought ?x",  # it may be what has no type
]


@pytest.mark.parametrize("text", IMPOSSIBLE)
def test_what_types_rule_out_is_refused_with_the_types(text: str) -> None:
    with pytest.raises(TypeClash) as error:
        read(text, shop())
    assert str(error.value) == IMPOSSIBLE[text]


@pytest.mark.parametrize("text", POSSIBLE)
def test_what_types_leave_open_is_asked(text: str) -> None:
    assert read(text, shop()).query is not None


def test_what_a_fact_shows_is_possible() -> None:
    assert read("maker3 bought ?x", shop(("maker3", "bought", "camera0"))).query is not None


def test_what_follows_from_facts_is_possible() -> None:
    rows = [("maker3", "rented", "camera0")]
    names = ("bought", "made_by", "seldom", "rented")
    says = Schema.single(names).saying({"rented": {"subproperty_of": "bought"}})
    assert read("maker3 bought ?x", shop(*rows, says=says)).query is not None
    with pytest.raises(TypeClash):
        read("maker3 bought ?x", shop(*rows))


def test_impossible_alternatives_and_negations_are_left_out() -> None:
    text = "SELECT ?x { { :camera1 :bought ?x } UNION { :p1 :bought ?x } }"
    assert len(read(text, shop()).query.patterns) == 1  # type: ignore[union-attr]
    text = "SELECT ?x { :p1 :bought ?x FILTER NOT EXISTS { :camera1 :bought ?x } }"
    assert not read(text, shop()).query.patterns[0].without  # type: ignore[union-attr]


def test_many_types_are_counted() -> None:
    kinds = {name: [f"Kind {place}", "Thing"] for place, name in enumerate((*CAMERAS, *LENSES))}
    bare = KnowledgeGraph.from_triples(MADE)
    types = {**kinds, **dict.fromkeys(MAKERS, "Company")}
    graph = bare.shared(Classes.of(list(bare.entities), types))
    with pytest.raises(TypeClash, match="goes from one of 11 types to Company, but 'maker1'"):
        read("maker1 made_by ?x", graph)


def test_what_a_held_out_fact_shows_is_possible_where_it_counts_as_known() -> None:
    train = shop()
    model = SheafEmbedding(model_config("complex", dim=4), train)
    model.info = ModelInfo.of(
        Dataset(train, valid=train.with_triples([("p3", "made_by", "maker0")]))
    )
    assert Asker(model).read("p1 made_by ?x").query is not None
    assert Asker(model, Options(tau=1.0)).decide("ASK { :p3 :made_by :maker0 }").known
    with pytest.raises(TypeClash, match="at its head is of type Customer"):
        Asker(model, Options(known="train")).read("p1 made_by ?x")


def test_blocks_and_probabilities_know_what_held_out_facts_show() -> None:
    train = shop()
    model = SheafEmbedding(model_config("complex", dim=4), train)
    held_out = train.with_triples([("p3", "made_by", "maker0")])
    model.info = ModelInfo.of(Dataset(train, valid=held_out))
    engine = Sparql(Asker(model, Options(tau=1.0)))
    for text in (
        "SELECT ?y ?k { SERVICE ks:predict { :p3 :made_by ?y . ?y ks:known ?k "
        ". ks:answers ks:top 1 } }",
        "SELECT ?y ?k { VALUES ?x { :p3 } SERVICE ks:predict { ?x :made_by ?y . ?y ks:known ?k "
        ". ks:answers ks:top 1 } }",
    ):
        assert [tuple(row.values()) for row in engine.run(text).rows()] == [("maker0", True)]
    chance = "SELECT ?p { BIND(ks:probability(:p3, :made_by, :maker0) AS ?p) }"
    assert [row["?p"] for row in engine.run(chance).rows()] == [1.0]


def test_thousands_of_groups_of_types_cost_next_to_nothing() -> None:
    people = [f"p{i}" for i in range(4_000)]
    types = {name: [f"a{i % 80}", f"b{i // 80}"] for i, name in enumerate(people)}
    says = Schema.single(["near"]).saying({"near": {"symmetric": True}})
    rows = [(people[i], "near", people[i + 1]) for i in range(len(people) - 1)]
    bare = KnowledgeGraph.from_triples(rows, schema=says)
    graph = bare.shared(Classes.of(list(bare.entities), types))
    assert len(graph.possible["head"][0]) == 4_000
    pattern = read("p7 near ?y . ?y near ?x", graph).query.patterns[0]  # type: ignore[union-attr]
    start = time.process_time()
    for _ in range(200):
        possible_types(pattern, graph)
    assert time.process_time() - start < 0.5 * slower(), "it took 12 ms each"


@pytest.mark.parametrize("text", [t for t in IMPOSSIBLE if "{" not in t and "p1" not in t[1:]])
def test_predictions_refuse_it_in_the_same_words(text: str) -> None:
    head, relation, tail = (None if word == "?x" else word for word in text.split())
    model = SheafEmbedding(model_config("complex", dim=4), shop())
    with pytest.raises(InputError) as error:
        Predictor(model).predict(head, relation, tail)
    assert str(error.value) == IMPOSSIBLE[text]


def test_predictions_know_what_held_out_facts_show() -> None:
    train = shop()
    model = SheafEmbedding(model_config("complex", dim=4), train)
    held_out = train.with_triples([("p3", "made_by", "maker0")])
    model.info = ModelInfo.of(Dataset(train, valid=held_out))
    assert Predictor(model).predict("p3", "made_by")
    with pytest.raises(InputError, match="of type Customer"):
        Predictor(model, "train").predict("p3", "made_by")


def test_a_type_that_cannot_stand_there_is_refused() -> None:
    graph = shop()
    with pytest.raises(TypeClash, match=r"'bought' goes from Customer to Product, but \?x at its"):
        read("SELECT ?x { :p1 :bought ?x . ?x a :Company }", graph)
    for kind in (CAMERA, LENS):
        assert read(f"SELECT ?x {{ :p1 :bought ?x . ?x a <{kind}> }}", graph).query is not None


def test_rows_that_are_handed_in_may_be_of_other_types() -> None:
    text = "SELECT ?x { VALUES ?x { :camera1 } ?x a :Company . ?x :made_by ?y }"
    assert not len(Asker(SheafEmbedding(model_config("complex", dim=4), shop())).answer(text))


def test_who_may_be_anything_is_said_to_be() -> None:
    people = [f"p{i}" for i in range(60)]
    bare = KnowledgeGraph.from_triples([(p, "likes", f"x{i % 9}") for i, p in enumerate(people)])
    types = {**dict.fromkeys(people, "Person"), "x0": "Animal"}
    graph = bare.shared(Classes.of(list(bare.entities), types, heads={"likes": ("Person",)}))
    with pytest.raises(TypeClash, match="from Person to Animal, but 'x0'"):
        read("x0 likes ?x", graph)
    bare = bare.shared(Classes.of(list(bare.entities), types | {"x0": []}))
    assert goes(bare, "likes") == "from Person to anything"
