"""Array routines that lookups share: sort triples, search and gather many slices at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from knowledge_sheaves.errors import InputError

IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Width: TypeAlias = type[np.signedinteger[Any]]
Columns: TypeAlias = tuple[IntArray, IntArray, IntArray]


def id_array(values: npt.ArrayLike, size: int, what: str) -> IntArray:
    """Return ids as a flat int64 array, after a check that each lies in ``range(size)``."""
    array = flat_ids(values, what)
    check_ids(array, size, what)
    return array.astype(np.int64, copy=False)


def flat_ids(values: npt.ArrayLike, what: str) -> IntArray:
    """Return a flat array of int32 or int64; small and unsigned kinds would overflow later."""
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{what} must be a flat sequence of integers, not {array.dtype} of shape {array.shape}."
        )
    return _wide(array)


def _wide(array: IntArray) -> IntArray:
    return array if array.dtype in (np.int32, np.int64) else array.astype(np.int64)


def check_ids(array: IntArray, size: int, what: str) -> None:
    """Refuse ids outside ``range(size)``: numpy would read a negative one from the end."""
    if array.size and (int(array.min()) < 0 or int(array.max()) >= size):
        place = int(np.flatnonzero((array < 0) | (array >= size))[0])
        raise InputError(
            f"{what}: the value {array.flat[place]} at position {place} is not in range({size}): "
            f"ids count from 0 and there are {size}."
        )


def as_triples(triples: npt.ArrayLike) -> IntArray:
    """Return an (n, 3) integer array, also for no triples at all."""
    array = np.asarray(triples)
    if array.size == 0:
        return np.zeros((0, 3), np.int64)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        raise InputError(
            "Triples of ids must be integers of shape (n, 3), "
            f"not {array.dtype} of shape {array.shape}."
        )
    return _wide(array)


def columns_of(triples: IntArray) -> Columns:
    """Return the three columns as views."""
    return triples[:, 0], triples[:, 1], triples[:, 2]


def sort_columns(columns: Columns, sizes: Sequence[int], dtype: Width) -> IntArray:
    """Sort rows lexicographically and drop repeats; the result has contiguous columns.

    The three ids are packed into one int64, so that one plain sort does it all; only graphs whose
    ids need more than 63 bits together pay for a lexsort.
    """
    bits = [max(size - 1, 0).bit_length() for size in sizes]
    if sum(bits) > 63:
        return _lexsort_columns(columns, dtype)
    keys = columns[0].astype(np.int64)
    for column, width in zip(columns[1:], bits[1:], strict=True):
        keys <<= width
        keys |= column
    if (keys[1:] > keys[:-1]).all():  # facts of a model's folder are in order already
        rows = np.empty((len(keys), 3), dtype, order="F")
        for place, column in enumerate(columns):
            rows[:, place] = column
        return rows
    keys.sort()
    new = keys[1:] != keys[:-1]
    if not new.all():
        keys = keys[np.concatenate(([True], new))]
    rows = np.empty((len(keys), 3), dtype, order="F")
    rows[:, 2] = keys & ((1 << bits[2]) - 1)
    keys >>= bits[2]
    rows[:, 1] = keys & ((1 << bits[1]) - 1)
    keys >>= bits[1]
    rows[:, 0] = keys
    return rows


def _lexsort_columns(columns: Columns, dtype: Width) -> IntArray:
    order = np.lexsort(columns[::-1])
    rows = np.empty((len(order), 3), dtype, order="F")
    for place, column in enumerate(columns):
        rows[:, place] = column[order]
    new = np.ones(len(rows), np.bool_)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows if new.all() else np.asfortranarray(rows[new])


def offsets_of(counts: IntArray) -> IntArray:
    """Return where each group starts, and where the last one ends."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def bisect_slices(
    values: IntArray, starts: IntArray, stops: IntArray, needles: IntArray, *, right: bool = False
) -> IntArray:
    """`np.searchsorted` of each needle in its own sorted slice ``values[start:stop]``."""
    low, high = starts.copy(), stops.copy()
    while (still := low < high).any():
        middle = (low + high) >> 1
        # A finished search may point one past the end; its value is read but not used.
        at = values[np.minimum(middle, len(values) - 1)]
        up = still & ((at <= needles) if right else (at < needles))
        low = np.where(up, middle + 1, low)
        high = np.where(still & ~up, middle, high)
    return low


def gather_slices(values: IntArray, starts: IntArray, stops: IntArray) -> tuple[IntArray, IntArray]:
    """Concatenate the slices ``values[start:stop]``; also return the offsets of each."""
    counts = stops - starts
    offsets = offsets_of(counts)
    places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)
    return values[places], offsets
