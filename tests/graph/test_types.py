"""The rules that leave each entity with one type."""

from __future__ import annotations

import pytest

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import Schema
from knowledge_sheaves.graph.type_rules import choose_types, fit_types

SUBCLASS_OF = {"Student": "Person", "Director": ["Artist"], "Artist": ["Person", "Thing"]}


@pytest.mark.parametrize(
    ("declared", "chosen"),
    [
        ("Film", "Film"),
        ([], "entity"),
        (["Person", "Student"], "Student"),
        (["Thing", "Person", "Director"], "Director"),
        (["Artist", "Student"], "Student"),  # neither is more specific: more frequent
        (["Director", "Student"], "Student"),
        (["Director", "Film"], "Director"),  # equally frequent: alphabetical
    ],
)
def test_one_type_is_chosen(declared: str | list[str], chosen: str) -> None:
    others = {"b": "Student", "c": "Student", "not in the graph": ["Film", "Film 2"]}
    found = choose_types("abc", {"a": declared, **others}, subclass_of=SUBCLASS_OF)
    assert found == [chosen, "Student", "Student"]


def test_the_most_frequent_type_counts_entities_of_the_graph() -> None:
    types = {"a": ["A", "B"], "b": "B", "c": "A", "d": "A"}
    assert choose_types("ab", types)[0] == "B"
    assert choose_types("abcd", types)[0] == "A"


def test_types_that_include_each_other_both_count() -> None:
    circle = {"A": "B", "B": "A"}
    assert choose_types("a", {"a": ["B", "A"]}, subclass_of=circle) == ["A"]


def test_a_choice_comes_first() -> None:
    types = {"a": ["Person", "Student"]}
    chosen = choose_types("ab", types, subclass_of=SUBCLASS_OF, choice={"a": "Person", "b": "Film"})
    assert chosen == ["Person", "Film"]


def test_rare_types_merge() -> None:
    types = {"a": "A", "b": "A", "c": "C"}
    assert choose_types("abcd", types, min_count=2) == ["A", "A", "entity", "entity"]


def test_types_fit_a_given_schema() -> None:
    schema = Schema(["Person", "Film", "Thing"], [])
    types = {"a": ["Director", "unheard of"], "b": ["Film"], "c": "Director"}
    found = fit_types("abc", schema, types, subclass_of=SUBCLASS_OF, choice={"c": "Thing"})
    assert found == ["Person", "Film", "Thing"]


def test_what_does_not_fit_is_refused() -> None:
    schema = Schema(["Person", "Film"], [])
    with pytest.raises(InputError, match=r"Entity 'a': Unknown type 'Flim'; did you mean 'Film'"):
        fit_types("a", schema, {"a": "Flim"})
    with pytest.raises(InputError, match=r"Entity 'a': Unknown type 'Flim'; did you mean 'Film'"):
        fit_types("a", schema, {"a": "Film"}, choice={"a": "Flim"})
    with pytest.raises(InputError, match=r"Entity 'b': it has no type; give it one of 'Person'"):
        fit_types("ab", schema, {"a": "Film"})


def test_entities_without_a_type_in_a_given_schema() -> None:
    assert fit_types("a", Schema(["thing"], [])) == ["thing"]
    assert fit_types("a", Schema(["Person", "entity"], [])) == ["entity"]
