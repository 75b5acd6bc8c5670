"""Names and ids, both ways, with suggestions for a name that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice

import numpy as np
import numpy.typing as npt

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import IntArray, check_ids

# Comparing strings is slow: a misspelt name must not cost a minute in a graph of millions.
MOST_COMPARED = 50_000
MOST_SUGGESTED = 3


def near_names(name: str, names: Iterable[str], most: int = MOST_SUGGESTED) -> list[str]:
    """The names that are nearest to one in spelling, the nearest first; capitals do not count.

    >>> near_names("Frago", ["Fargo", "Primer", "fargo"])
    ['Fargo', 'fargo']
    """
    folded, near_length = name.casefold(), max(2, len(name) // 4)
    similar = (other for other in names if abs(len(other) - len(name)) <= near_length)
    by_fold: dict[str, dict[str, None]] = {}
    for other in islice(similar, MOST_COMPARED):
        by_fold.setdefault(other.casefold(), {})[other] = None
    near = difflib.get_close_matches(folded, by_fold, n=most, cutoff=0.7)
    return [other for fold in near for other in by_fold[fold]]


def did_you_mean(choices: Sequence[str]) -> str:
    """Return "; did you mean ...?" for some choices, or "" where there are none."""
    return "; did you mean " + " or ".join(choices) + "?" if choices else ""


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean ...?" for the nearest names, or "" where none is near.

    >>> suggestion("Frago", ["Fargo", "Primer"])
    "; did you mean 'Fargo'?"
    """
    return did_you_mean([repr(other) for other in near_names(name, names)[:MOST_SUGGESTED]])


class Vocabulary:
    """Distinct names in a fixed order; the id of a name is its place.

    Without names, n things are called "0" to "n - 1" and no name is stored.

    >>> films = Vocabulary(["Fargo", "Primer"])
    >>> films.id("Primer"), films[0], len(films)
    (1, 'Fargo', 2)
    >>> Vocabulary.implicit(1_000_000).id("17")
    17
    """

    def __init__(self, names: Iterable[str], *, kind: str = "entity") -> None:
        self._names: tuple[str, ...] | None = tuple(names)
        self._size = len(self._names)
        self.kind = kind
        self._refuse_bad_names(self._names)

    @classmethod
    def implicit(cls, size: int, *, kind: str = "entity") -> Vocabulary:
        """Return a vocabulary whose names are the ids written out.

        >>> list(Vocabulary.implicit(3))
        ['0', '1', '2']
        """
        vocabulary = cls((), kind=kind)
        vocabulary._names, vocabulary._size = None, size
        return vocabulary

    def _refuse_bad_names(self, names: tuple[str, ...]) -> None:
        for place, name in enumerate(names):
            if not isinstance(name, str):
                raise InputError(
                    f"The {self.kind} name {name!r} at position {place} is not a string; "
                    "write it as one."
                )
        if len(set(names)) != len(names):
            seen: set[str] = set()
            twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise InputError(f"The {self.kind} name {twice!r} is given twice; names are distinct.")

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self._names or ())}

    def get(self, name: str) -> int | None:
        """Return the id of a name, or None where it is unknown.

        >>> Vocabulary(["Fargo"]).get("Primer") is None
        True
        """
        if self._names is not None:
            return self._ids.get(name)
        if isinstance(name, str) and name.isascii() and name.isdigit():
            place = int(name)
            if place < self._size and str(place) == name:
                return place
        return None

    def id(self, name: str) -> int:
        """Return the id of a name; an unknown one is an error that suggests others.

        >>> Vocabulary(["Fargo"]).id("Frago")
        Traceback (most recent call last):
        knowledge_sheaves.errors.InputError: Unknown entity 'Frago'; did you mean 'Fargo'?
        """
        place = self.get(name)
        if place is None:
            raise InputError(self.unknown(name))
        return place

    def unknown(self, name: str) -> str:
        """Return the sentence about a name that is not here."""
        if self._names is None:
            return f"Unknown {self.kind} {name!r}: the names are the numbers 0 to {self._size - 1}."
        return f"Unknown {self.kind} {name!r}" + (suggestion(str(name), self._names) or ".")

    def ids(self, names: Sequence[str]) -> IntArray:
        """Return the ids of many names; the error for an unknown one names its row, from 1.

        >>> Vocabulary(["Fargo", "Primer"]).ids(["Primer", "Primer"]).tolist()
        [1, 1]
        """
        lookup = self.id if self._names is None else self._ids.__getitem__
        try:
            return np.fromiter(map(lookup, names), np.int64, len(names))
        except (KeyError, InputError):
            raise InputError(self._unknown_rows(names)) from None

    def _unknown_rows(self, names: Sequence[str]) -> str:
        rows = [row for row, name in enumerate(names) if self.get(name) is None]
        more = f" ({len(rows)} rows have unknown ones.)" if len(rows) > 1 else ""
        return f"Row {rows[0] + 1}: {self.unknown(names[rows[0]])}{more}"

    def names(self, ids: npt.ArrayLike) -> list[str]:
        """Return the names of many ids.

        >>> Vocabulary(["Fargo", "Primer"]).names([1, 0])
        ['Primer', 'Fargo']
        """
        places = np.asarray(ids, np.int64).ravel()
        check_ids(places, self._size, f"Ids of the {self.kind} vocabulary")
        if self._names is None:
            return [str(place) for place in places.tolist()]
        return [self._names[place] for place in places.tolist()]

    def __getitem__(self, place: int) -> str:
        return self.names([place])[0]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self._size)) if self._names is None else iter(self._names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        if self is other or (self._names is None and other._names is None):
            return self._size == other._size
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(len(self))

    def __repr__(self) -> str:
        return f"Vocabulary({self._size} {self.kind} names)"
