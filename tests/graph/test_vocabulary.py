"""Names and ids round-trip, implicit names included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import Vocabulary


@given(st.lists(st.text(max_size=5), unique=True))
def test_names_round_trip(names: list[str]) -> None:
    vocabulary = Vocabulary(names)
    assert list(vocabulary) == vocabulary.names(np.arange(len(names))) == names
    assert vocabulary.ids(names).tolist() == list(range(len(names)))
    assert [vocabulary[vocabulary.id(name)] for name in names] == names
    assert vocabulary == Vocabulary(iter(names))


@given(st.integers(0, 30), st.text(max_size=3) | st.integers(-3, 40).map(str))
def test_implicit_names_are_written_numbers(size: int, name: str) -> None:
    written = [str(place) for place in range(size)]
    implicit, explicit = Vocabulary.implicit(size), Vocabulary(written)
    assert implicit == explicit
    assert hash(implicit) == hash(explicit)
    assert list(implicit) == implicit.names(range(size)) == written
    assert implicit.get(name) == explicit.get(name)
    assert (name in implicit) == (name in written)


def test_vocabularies_differ() -> None:
    assert Vocabulary(["a"]) != Vocabulary(["b"])
    assert Vocabulary(["a"]) != Vocabulary(["a", "b"])
    assert Vocabulary.implicit(2) != Vocabulary.implicit(3)
    assert Vocabulary(["a"]) != ["a"]
    assert 3 not in Vocabulary.implicit(5)
    assert repr(Vocabulary(["a"])) == "Vocabulary(1 entity names)"


def test_unknown_names_bring_suggestions_and_rows() -> None:
    films = Vocabulary(["Fargo", "Primer", "STAR WARS"], kind="film")
    with pytest.raises(InputError, match=r"^Unknown film 'star wras'; did you mean 'STAR WARS'\?$"):
        films.id("star wras")
    with pytest.raises(InputError, match=r"^Unknown film 'Alien'\.$"):
        films.id("Alien")
    with pytest.raises(InputError, match=r"^Row 2: Unknown film 'Frago'; .* \(2 rows have"):
        films.ids(["Fargo", "Frago", "Alien"])
    with pytest.raises(InputError, match=r"Unknown film '7': the names are the numbers 0 to 4\."):
        Vocabulary.implicit(5, kind="film").id("7")


def test_bad_names_and_ids_are_refused() -> None:
    with pytest.raises(InputError, match="'a' is given twice"):
        Vocabulary(["b", "a", "a"])
    with pytest.raises(InputError, match="name 3 at position 1 is not a string"):
        Vocabulary(["b", 3])  # type: ignore[list-item]
    with pytest.raises(InputError, match="the value -1 at position 0"):
        Vocabulary(["b"])[-1]
