"""Results that others have published on the benchmark, from `published.toml` beside this file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from knowledge_sheaves.evaluation.betae import GROUPS, TYPES


@dataclass(frozen=True)
class PublishedRow:
    """One system on one data set: MRR × 100 (and Hits@10 × 100 where known) by query type.

    ``answers`` says which were ranked, ``means`` holds the means as they were printed.
    """

    name: str
    data: str
    split: str
    answers: str
    source: str
    mrr: Mapping[str, float]
    hits_at_10: Mapping[str, float]
    means: Mapping[str, float]
    parameters: int | None

    def mean(self, group: str) -> float | None:
        """The mean of the "positive" or the "negative" types: as printed, or else computed."""
        return self.means[group] if group in self.means else mean_of(self.mrr, group)

    def to_dict(self) -> dict[str, Any]:
        """Return plain dictionaries and numbers."""
        return {
            "name": self.name,
            "data": self.data,
            "split": self.split,
            "answers": self.answers,
            "source": self.source,
            "mrr": dict(self.mrr),
            "hits_at_10": dict(self.hits_at_10),
            "means": {group: self.mean(group) for group in GROUPS},
            "parameters": self.parameters,
        }


def mean_of(mrr: Mapping[str, float], group: str) -> float | None:
    """The mean over the types of a group, None where one is missing."""
    values = [mrr[name] for name in GROUPS[group] if name in mrr]
    return sum(values) / len(values) if len(values) == len(GROUPS[group]) else None


def query_set(hash: str, size: tuple[int, int], counts: Mapping[str, int]) -> str:
    """The set to which queries belong, by name; "" for queries of which nothing is published.

    ``size`` is entities and relations, ``counts`` how many queries there are of each type.

    >>> query_set("", (14_505, 474), dict.fromkeys(["2p", "2i"], 5_000))
    ''
    """
    for name, known in _document()["data"].items():
        others = {counts.get(kind) for kind in TYPES if kind != "1p"}
        alike = list(size) == known.get("size") and others == {known["others"]}
        if hash in known["hashes"] or alike:
            return str(name)
    return ""


def published_rows(data: str, answers: str = "hard") -> list[PublishedRow]:
    """The rows on a set of queries.

    >>> [row.name for row in published_rows("NELL-995")][-1]
    'QTO'
    """
    return [row for row in all_rows() if row.data == data and row.answers == answers]


@cache
def all_rows() -> tuple[PublishedRow, ...]:
    """All rows of the file, in its order."""
    document = _document()
    return tuple(_row(row, document["sources"]) for row in document["row"])


def _row(row: dict[str, Any], sources: dict[str, str]) -> PublishedRow:
    types = row["types"].split()
    return PublishedRow(
        name=row["name"],
        data=row["data"],
        split=row.get("split", "test"),
        answers=row.get("answers", "hard"),
        source=sources[row["source"]],
        mrr=dict(zip(types, row["mrr"], strict=True)),
        hits_at_10=dict(zip(types, row["hits_at_10"], strict=True)) if "hits_at_10" in row else {},
        means=row.get("means", {}),
        parameters=row.get("parameters"),
    )


@cache
def _document() -> dict[str, Any]:
    text = files("knowledge_sheaves.evaluation").joinpath("published.toml").read_text("utf-8")
    return tomllib.loads(text)
