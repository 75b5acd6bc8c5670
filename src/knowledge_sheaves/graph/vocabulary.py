"""Names and ids, both ways, with suggestions for a name that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice

import numpy as np
import numpy.typing as npt
import polars as pl

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import IntArray, check_ids

# Comparing strings is slow: a misspelt name must not cost a minute in a graph of millions.
MOST_COMPARED = 50_000
MOST_SUGGESTED = 3
AT_ONCE = 1 << 16
"""How many names of a series are strings of Python at a time."""


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

    Without names, n things are called "0" to "n - 1" and no name is stored. Names that come in a
    polars series stay there: millions of strings of Python would take gigabytes.

    >>> films = Vocabulary(["Fargo", "Primer"])
    >>> films.id("Primer"), films[0], len(films)
    (1, 'Fargo', 2)
    >>> Vocabulary.implicit(1_000_000).id("17")
    17
    """

    def __init__(self, names: Iterable[str] | pl.Series, *, kind: str = "entity") -> None:
        self.kind = kind
        self._names: tuple[str, ...] | pl.Series | None
        if isinstance(names, pl.Series):
            self._names = names
            self._refuse_twice(names)
        else:
            self._names = tuple(names)
            self._refuse_bad_names(self._names)
        self._size = len(self._names)

    @classmethod
    def implicit(cls, size: int, *, kind: str = "entity") -> Vocabulary:
        """Return a vocabulary whose names are the ids written out.

        >>> list(Vocabulary.implicit(3))
        ['0', '1', '2']
        """
        vocabulary = cls((), kind=kind)
        vocabulary._names, vocabulary._size = None, size
        return vocabulary

    def _refuse_twice(self, names: pl.Series) -> None:
        hashes = self._by_hash[0]
        again = np.flatnonzero(hashes[1:] == hashes[:-1])
        if len(again):  # two names with one hash, or one name twice
            _refuse_twice(names.to_list(), self.kind)

    def _refuse_bad_names(self, names: tuple[str, ...]) -> None:
        for place, name in enumerate(names):
            if not isinstance(name, str):
                raise InputError(
                    f"The {self.kind} name {name!r} at position {place} is not a string; "
                    "write it as one."
                )
        _refuse_twice(names, self.kind)

    @cached_property
    def _ids(self) -> dict[str, int]:
        assert not isinstance(self._names, pl.Series)
        return {name: place for place, name in enumerate(self._names or ())}

    @cached_property
    def _by_hash(self) -> tuple[npt.NDArray[np.uint64], IntArray]:
        """The hashes of a series in order, and whose they are."""
        assert isinstance(self._names, pl.Series)
        hashes = self._names.hash().to_numpy()
        order = np.argsort(hashes)
        return hashes[order], order.astype(np.int32 if len(order) < 2**31 else np.int64)

    def _look_up(self, names: Sequence[str]) -> IntArray:
        """The ids of names in a series, −1 where there is none."""
        assert isinstance(self._names, pl.Series)
        out = np.full(len(names), -1, np.int64)
        try:
            asked = pl.Series(names, dtype=pl.String)
        except (TypeError, UnicodeError, pl.exceptions.PolarsError):  # half of a surrogate pair
            found_alone = (out if len(names) == 1 else self._look_up([name]) for name in names)
            return np.concatenate([*found_alone, out[:0]])
        hashes, order = self._by_hash
        wanted = asked.hash().to_numpy()
        left, place = np.arange(len(out)), np.searchsorted(hashes, wanted)
        while len(left):  # a second round where two names have one hash
            inside = place < len(hashes)
            left, place = left[inside], place[inside]
            same = hashes[place] == wanted[left]
            left, place = left[same], place[same]
            found = (self._names.gather(order[place]) == asked.gather(left)).to_numpy()
            out[left[found]] = order[place[found]]
            left, place = left[~found], place[~found] + 1
        return out

    def get(self, name: str) -> int | None:
        """Return the id of a name, or None where it is unknown.

        >>> Vocabulary(["Fargo"]).get("Primer") is None
        True
        """
        if isinstance(self._names, pl.Series):
            found = int(self._look_up([name])[0]) if isinstance(name, str) else -1
            return found if found >= 0 else None
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
        return f"Unknown {self.kind} {name!r}" + (suggestion(str(name), self) or ".")

    def ids(self, names: Sequence[str]) -> IntArray:
        """Return the ids of many names; the error for an unknown one names its row, from 1.

        >>> Vocabulary(["Fargo", "Primer"]).ids(["Primer", "Primer"]).tolist()
        [1, 1]
        """
        if isinstance(self._names, pl.Series):
            found = self._look_up(names)
            if (found < 0).any():
                raise InputError(self._unknown_rows(names))
            return found
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
        if isinstance(self._names, pl.Series):
            return self._names.gather(places).to_list()
        return [self._names[place] for place in places.tolist()]

    def __getitem__(self, place: int) -> str:
        return self.names([place])[0]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        if isinstance(self._names, pl.Series):
            return self._in_parts(self._names)
        return map(str, range(self._size)) if self._names is None else iter(self._names)

    def _in_parts(self, names: pl.Series) -> Iterator[str]:
        for start in range(0, len(names), AT_ONCE):
            yield from names[start : start + AT_ONCE].to_list()

    def to_series(self) -> pl.Series:
        """All names in order; one that is no text, half of a surrogate pair, is refused by polars.

        >>> Vocabulary(["Fargo"]).to_series().to_list()
        ['Fargo']
        """
        if isinstance(self._names, pl.Series):
            return self._names
        return pl.Series(list(self), dtype=pl.String)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        if self is other or (self._names is None and other._names is None):
            return self._size == other._size
        if isinstance(self._names, pl.Series) and isinstance(other._names, pl.Series):
            return self._names.equals(other._names)
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(len(self))

    def __repr__(self) -> str:
        return f"Vocabulary({self._size} {self.kind} names)"


def _refuse_twice(names: Sequence[str], kind: str) -> None:
    if len(set(names)) != len(names):
        seen: set[str] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InputError(f"The {kind} name {twice!r} is given twice; names are distinct.")
