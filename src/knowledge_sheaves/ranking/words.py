"""What was measured, in a sentence that stands under answers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.labels import words
from knowledge_sheaves.ranking.trust import FEW, UNLEARNED, Record, Trust


def in_ten(share: float) -> str:
    """A share as people count it.

    >>> in_ten(0.42), in_ten(0.034), in_ten(0.001), in_ten(0.99)
    ('4 in 10', '3 in 100', 'fewer than 1 in 100', 'nearly all')
    """
    if share >= 0.95:
        return "nearly all"
    if share >= 0.095:
        return f"{round(10 * share)} in 10"
    return f"{round(100 * share)} in 100" if share >= 0.005 else "fewer than 1 in 100"


def said_of_relation(
    trust: Trust, relation: str, probability: float | None, side: str | None = None
) -> str:
    """How far to trust answers to a relation, the best new one of which has this probability.

    ``side`` is the end that was asked for, tail or head.
    """
    name, record = words(relation), trust.record(relation)
    if record is None:
        held = trust.relations.get(relation, Record(0)).count
        told = _right(trust.overall, probability, "all answers")
        few = f"Too few facts of `{name}` were held out to tell more ({held} of {FEW})"
        return f"{few}: {told}." if told else f"{few}."
    share = record.found(side=side)
    found = f"{round(100 * share)} of 100 missing facts of `{name}` are found among the first ten"
    if share < UNLEARNED:
        return f"`{name}` could not be learned: {found}."
    told = _right(record, probability, f"answers to `{name}`")
    return f"{_upper(told)}; {found}." if told else f"{found}."


ENOUGH = 20
"""Among fewer facts a relation may have one answer for each by chance."""


def said_of_second(graph: KnowledgeGraph, relation: str, side: str) -> str:
    """A word of doubt about a second answer, where no known fact is one; empty elsewhere.

    ``side`` is the end that was asked for, tail or head.

    >>> facts = [(f"city {n}", "lies in", f"land {n % 3}") for n in range(30)]
    >>> graph = KnowledgeGraph.from_triples(facts)
    >>> print(said_of_second(graph, "lies in", "tail"))
    In all 30 known facts `lies in` has one tail for each head: a second one is unlikely.
    >>> said_of_second(graph, "lies in", "head")
    ''
    """
    mine = graph.triples[np.isin(graph.triples[:, 1], graph.schema.edges(relation))]
    other = "head" if side == "tail" else "tail"
    given = mine[:, 0 if side == "tail" else 2]
    if len(mine) < ENOUGH or len(np.unique(given)) < len(mine):
        return ""
    name = words(graph.schema.labelled_names[graph.schema.relation_names.index(relation)])
    return (
        f"In all {len(mine):,} known facts `{name}` has one {side} for each {other}: a second one "
        "is unlikely."
    )


def said_of_questions(record: Record | None, probability: float | None) -> str:
    """How far to trust answers to a larger question, from what was measured of such questions."""
    if record is None:
        return "Too few questions like this one could be drawn to tell how far to trust this."
    found = f"{round(100 * record.found())} of 100 missing answers are found among the first ten"
    told = _right(record, probability, "answers to questions like this")
    return f"{_upper(told)}; {found}." if told else f"{found}."


def _right(record: Record, probability: float | None, what: str) -> str:
    share = None if probability is None else record.right(probability)
    return "" if share is None else f"of {what} at this probability {in_ten(share)} were right"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class Cover:
    """How many first new answers hold the missing one as often as was asked for."""

    coverage: float
    size: int | None
    measured_on: str
    all: bool = False

    def among(self, possible: int | None) -> Cover:
        """The set where so many answers are possible: it may take all of them.

        >>> print(Cover(0.9, 500, "40 held-out facts of `treats`").among(120))
        It takes all 120 possible new answers to hold the missing one 9 times in 10, as measured \
on 40 held-out facts of `treats`.
        """
        if self.size is None or not possible or self.size < possible:
            return self
        return replace(self, size=possible, all=True)

    def __str__(self) -> str:
        often = self.coverage < 0.95
        share = in_ten(self.coverage) if often else f"{100 * self.coverage:.4g} in 100"
        share = share.replace(" in ", " times in ")
        if self.size is None:
            return f"Too little was held out to say which answers hold the missing one {share}."
        if self.all:
            takes = f"It takes all {self.size:,} possible new answers to hold the missing one"
            return f"{takes} {share}, as measured on {self.measured_on}."
        return (
            f"The first {self.size:,} new answers hold the missing one {share}, "
            f"as measured on {self.measured_on}."
        )


def cover_relation(trust: Trust, relation: str, coverage: float, side: str | None) -> Cover:
    """The set for one relation, or for all where too little of it was held out."""
    record, name = trust.record(relation), words(relation)
    size = None if record is None else record.size(coverage, side)
    if record is not None and size is not None:
        return Cover(coverage, size, f"{record.count:,} held-out facts of `{name}`")
    whole = trust.overall
    counted = f"{whole.count:,} held-out facts of all relations"
    return Cover(coverage, whole.size(coverage, side), counted)
