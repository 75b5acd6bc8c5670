"""Folders of the BetaE benchmark: triples of integer ids, pickled names, queries and answers.

Ids stay as they are in the files (with one entity type a relation's id is its edge's id too),
because queries and answers speak of ids. Relations come in pairs 2i and 2i + 1, inverses of each
other.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import IntArray
from knowledge_sheaves.graph.readers.layout import TextFormat
from knowledge_sheaves.graph.readers.pickles import read_plain_pickle
from knowledge_sheaves.graph.readers.raw import ENDS, Raw
from knowledge_sheaves.graph.readers.text import line_of_row, read_text

Structure: TypeAlias = tuple[Any, ...]
Answers: TypeAlias = dict[Structure, set[int]]

_P1, _P2 = ("e", ("r",)), ("e", ("r", "r"))
_N1, _N2 = ("e", ("r", "n")), ("e", ("r", "r", "n"))

#: The 14 query types; the unions in disjunctive normal form and, by De Morgan, with negations.
STRUCTURES: dict[str, Structure] = {
    "1p": _P1,
    "2p": _P2,
    "3p": ("e", ("r", "r", "r")),
    "2i": (_P1, _P1),
    "3i": (_P1, _P1, _P1),
    "ip": ((_P1, _P1), ("r",)),
    "pi": (_P2, _P1),
    "2in": (_P1, _N1),
    "3in": (_P1, _P1, _N1),
    "inp": ((_P1, _N1), ("r",)),
    "pin": (_P2, _N1),
    "pni": (_N2, _P1),
    "2u-DNF": (_P1, _P1, ("u",)),
    "up-DNF": ((_P1, _P1, ("u",)), ("r",)),
    "2u-DM": ((_N1, _N1), ("n",)),
    "up-DM": ((_N1, _N1), ("n", "r")),
}


def is_betae(folder: Path) -> bool:
    """Tell a folder of the benchmark by its pickled names."""
    return (folder / "id2ent.pkl").exists() and (folder / "id2rel.pkl").exists()


def read_betae(folder: Path) -> Raw:
    """Read the triples and the whole vocabularies, entities without triples included."""
    entities, relations = (_names(folder / f"{name}.pkl") for name in ("id2ent", "id2rel"))
    sizes = (len(entities), len(relations), len(entities))
    files = {split: folder / f"{split}.txt" for split in ("train", "valid", "test")}
    if not files["train"].exists():
        raise InputError(f"{folder}: there is no train.txt beside id2ent.pkl.")
    splits = {split: _ids(file, sizes) for split, file in files.items() if file.exists()}
    return Raw(entities, relations, splits)


def _names(path: Path) -> list[str]:
    data = read_plain_pickle(path)
    if not isinstance(data, dict) or set(data) != set(range(len(data))):
        raise InputError(f"{path}: expected a dict of names by the ids 0, 1, 2, ...")
    names = [data[place] for place in range(len(data))]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InputError(f"{path}: the names must be distinct strings.")
    return names


def _ids(path: Path, sizes: tuple[int, int, int]) -> IntArray:
    form = TextFormat(header=False)
    frame = read_text(path, ENDS, form)
    columns = []
    for name, size in zip(ENDS, sizes, strict=True):
        numbers = frame[name].cast(pl.Int64, strict=False)
        wrong = (numbers.is_null() | (numbers < 0) | (numbers >= size)).fill_null(True)
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            raise InputError(
                f"{path}, line {line_of_row(path, ENDS, form, row)}: the {name} "
                f"{frame[name][row]!r} is not an id from 0 to {size - 1}."
            )
        columns.append(numbers.to_numpy())
    return np.stack(columns, axis=1)


@dataclass(frozen=True)
class BetaEQueries:
    """Queries by structure, and the answers of each; None where there is no file of answers.

    Easy answers follow from the smaller graph, hard ones only from the larger. Training queries
    have one set of answers, which is called easy here.
    """

    queries: dict[Structure, set[Structure]]
    easy: Answers | None
    hard: Answers | None


def read_betae_queries(folder: str | Path, split: str) -> BetaEQueries:
    """Read the queries of a split with their answers, as they are in the files."""
    place = Path(folder)
    if split not in ("train", "valid", "test"):
        raise InputError(f"The splits are train, valid and test, not {split!r}.")
    path = place / f"{split}-queries.pkl"
    queries = _dict(path)
    known = set(STRUCTURES.values())
    for structure, asked in queries.items():
        if structure not in known or not isinstance(asked, set | list):
            raise InputError(f"{path}: {structure!r} is not a structure of the benchmark.")
        for query in asked:
            if not _fits(query, structure):
                raise InputError(f"{path}: {query!r} is not a query of the structure {structure}.")
    easy, hard = (place / f"{split}-{kind}-answers.pkl" for kind in ("easy", "hard"))
    if split == "train":
        easy = place / "train-answers.pkl"
    return BetaEQueries(
        {structure: set(asked) for structure, asked in queries.items()},
        _answers(easy) if easy.exists() else None,
        _answers(hard) if hard.exists() else None,
    )


# What stands in a query for the letters of its structure, apart from ids.
_SIGNS = {"n": -2, "u": -1}


def _fits(query: object, structure: object) -> bool:
    """Tell whether a query has ids and signs where its structure says so.

    >>> _fits((5, (1, -2)), ("e", ("r", "n"))), _fits((5, ("1",)), ("e", ("r",)))
    (True, False)
    """
    if isinstance(structure, tuple):
        if type(query) is not tuple or len(query) != len(structure):
            return False
        return all(map(_fits, query, structure))
    if type(query) is not int:
        return False
    return query == _SIGNS[structure] if structure in _SIGNS else 0 <= query < 1 << 62


def _answers(path: Path) -> Answers:
    answers, checked = _dict(path), set[int]()
    for query, found in answers.items():
        if id(found) in checked:  # many queries may share one set
            continue
        checked.add(id(found))
        if (
            type(found) is not set
            or not set(map(type, found)) <= {int}
            or min(found, default=0) < 0
        ):
            raise InputError(f"{path}: the answers of {query!r} are not a set of entities' ids.")
    return answers


def _dict(path: Path) -> dict[Any, Any]:
    data = read_plain_pickle(path)
    if not isinstance(data, dict):
        raise InputError(f"{path}: expected a dict, found a {type(data).__name__}.")
    return dict(data)
