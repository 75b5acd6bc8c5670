"""Types that shape no stalk: who has them, and what they rule out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Relation, Schema
from knowledge_sheaves.graph.classes import MOST_UNSEEN, Classes
from knowledge_sheaves.graph.readers import load

FACTS = round(2 / MOST_UNSEEN)
PEOPLE = [f"p{i}" for i in range(20)]
FILMS = [f"f{i}" for i in range(10)]
TYPES = {**dict.fromkeys(PEOPLE, "Person"), **{film: ["Film", "Work"] for film in FILMS}}


def likes(count: int = FACTS) -> list[tuple[str, str, str]]:
    pairs = [(person, film) for person in PEOPLE for film in FILMS]
    return [(person, "likes", film) for person, film in pairs[:count]]


def graph_of(
    rows: list[tuple[str, str, str]], types: dict[str, str | list[str]] | None = None
) -> KnowledgeGraph:
    bare = KnowledgeGraph.from_triples(rows, entities=[*PEOPLE, *FILMS, "x"])
    return bare.shared(Classes.of(list(bare.entities), types or TYPES))


def possible(graph: KnowledgeGraph, end: str, relation: int = 0) -> set[str]:
    assert graph.classes is not None
    allowed = graph.possible[end][relation][graph.classes.groups[0]]
    return set(graph.entities.names(np.flatnonzero(allowed)))


def test_what_no_fact_shows_is_ruled_out_but_for_entities_without_types() -> None:
    graph = graph_of(likes())
    assert possible(graph, "head") == {*PEOPLE, "x"}
    assert possible(graph, "tail") == {*FILMS, "x"}


def test_few_facts_rule_nothing_out() -> None:
    graph = graph_of(likes(5))
    assert possible(graph, "tail") == {*PEOPLE, *FILMS, "x"}


def test_a_relation_that_keeps_showing_new_types_rules_nothing_out() -> None:
    types = TYPES | {film: f"Kind {film}" for film in FILMS}
    rows = [(person, "likes", film) for person, film in zip(PEOPLE, FILMS, strict=False)]
    assert possible(graph_of(rows * 20, types), "tail") == {*PEOPLE, *FILMS, "x"}


def test_one_of_several_types_is_enough() -> None:
    graph = graph_of(likes(), TYPES | {"x": ["Work", "Idea"], "p0": ["Person", "Idea"]})
    assert possible(graph, "tail") == {*FILMS, "x"}


def test_what_a_schema_says_holds_whatever_the_facts_show() -> None:
    schema = Schema(["Person", "Film", "Idea"], [Relation("likes", "Person", "Film")])
    graph = KnowledgeGraph.from_triples(
        [("p0", "likes", "f0")],
        schema=schema,
        types={"p0": "Person", "f0": "Film", "f1": "Film", "x": "Idea"},
        entities=["p0", "f0", "f1", "x"],
    ).shared()
    assert possible(graph, "tail") == {"f0", "f1"}
    assert possible(graph, "head") == {"p0"}


def test_a_type_has_the_members_of_its_subclasses() -> None:
    more = {"Student": "Person", "Person": ["Agent"]}
    classes = Classes.of(["a", "b", "c"], {"a": "Student", "b": "Agent"}, subclass_of=more)
    assert classes.members("Agent").tolist() == [True, True, False]
    assert classes.members("Person").tolist() == [True, False, False]
    with pytest.raises(InputError, match="Unknown type 'Persona'; did you mean 'Person'"):
        classes.members("Persona")


def test_sharing_keeps_what_holds_for_all_parts() -> None:
    parts = [
        Relation("near", "City", "City", symmetric=True),
        Relation("near", "River", "River", symmetric=True, functional=True),
    ]
    shared = Schema(["City", "River"], parts).shared().relations[0]
    assert shared.symmetric
    assert not shared.functional


def test_stalks_by_type_are_a_choice(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("".join("\t".join(row) + "\n" for row in likes()))
    kinds = [f"{name}\tPerson\n" for name in PEOPLE] + [f"{name}\tFilm\n" for name in FILMS]
    (tmp_path / "types.tsv").write_text("".join(kinds))
    assert len(load(tmp_path).train.schema.types) == 1
    assert len(load(tmp_path, stalks="types").train.schema.types) == 2
    sized = Schema.from_dict(
        {
            "types": ["Person", {"name": "Film", "dim": 2}],
            "relations": [{"name": "likes", "head": "Person", "tail": "Film"}],
        }
    )
    assert len(load(tmp_path, schema=sized).train.schema.types) == 2
    with pytest.raises(InputError, match="stalks is one of shared, types, not 'some'"):
        load(tmp_path, stalks="some")
    with pytest.raises(InputError, match="min_pair_count is about maps by pairs of types"):
        load(tmp_path, min_pair_count=3)
