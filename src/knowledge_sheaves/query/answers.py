"""What every solver returns: a score for every candidate of every query, best answers first."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.labels import label_of
from knowledge_sheaves.notebook import Framed, answers_html
from knowledge_sheaves.query.explanation import Explanation
from knowledge_sheaves.query.pattern import Query


@dataclass(frozen=True)
class Wanted:
    """Which answers to show."""

    top: int = 10
    allow: frozenset[int] | None = None
    deny: frozenset[int] = frozenset()
    kind: str | None = None
    only_new: bool = False

    @property
    def selects(self) -> bool:
        """Whether some entities may be no answer, whatever the query."""
        return self.allow is not None or bool(self.deny) or self.kind is not None


@dataclass(frozen=True)
class Answer:
    """One answer: names of the targets, how good it is, and whether the facts hold it already.

    ``labels`` are what people call the targets, None where the graph has no label.
    """

    names: tuple[str, ...]
    energy: float
    probability: float | None
    rank: int
    known: bool | None = None

    @property
    def labels(self) -> tuple[str | None, ...]:
        return tuple(map(label_of, self.names))


@dataclass(frozen=True, eq=False)
class Answers(Framed):
    """The best answers of one query, in order.

    ``ids`` is (answers, targets); ``energies`` and ``probabilities`` are (answers,). ``notes`` say
    what a careful reader should know: where candidates were cut, which facts were remembered.
    ``has_known`` is whether the facts have an answer at all, shown or not. ``scores`` are what the
    solver made of its edges, before it was calibrated to the ``probabilities`` that are shown;
    ``ahead`` counts the new answers before each, ``second`` is the score of the second new
    answer, shown or not; ``trust`` says in a sentence how far to trust it all. ``possible`` is how
    many answers there could be, of those that are wanted, None where they were not counted.
    """

    query: Query
    graph: KnowledgeGraph
    solver: str
    ids: Tensor
    energies: Tensor
    probabilities: Tensor | None = None
    known: Tensor | None = None
    notes: tuple[str, ...] = ()
    explanation: tuple[Explanation, ...] | None = field(default=None, repr=False)
    has_known: bool = False
    scores: Tensor | None = field(default=None, repr=False)
    ahead: Tensor | None = field(default=None, repr=False)
    second: float = field(default=0.0, repr=False)
    trust: str = field(default="", repr=False)
    possible: int | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place: int) -> Answer:
        names = tuple(map(self.graph.name, self.ids[place].tolist()))
        probability = None if self.probabilities is None else float(self.probabilities[place])
        known = None if self.known is None else bool(self.known[place])
        return Answer(names, float(self.energies[place]), probability, place + 1, known)

    def take(self, places: Tensor | slice) -> Answers:
        """Some of the answers, in their order."""
        return replace(
            self,
            ids=self.ids[places],
            energies=self.energies[places],
            probabilities=None if self.probabilities is None else self.probabilities[places],
            known=None if self.known is None else self.known[places],
            scores=None if self.scores is None else self.scores[places],
            ahead=None if self.ahead is None else self.ahead[places],
        )

    def __iter__(self) -> Iterator[Answer]:
        return (self[place] for place in range(len(self)))

    def _repr_html_(self) -> str:
        note = " ".join([f"Solved by {self.solver}.", *self.notes])
        return answers_html(self.query.targets, self, note, self.explanation)

    def columns(self) -> dict[str, list[Any]]:
        """A column per target, and one of labels where there are any; then what the model says."""
        taken = {target.removeprefix("?") for target in self.query.targets}
        columns: dict[str, list[Any]] = {free("rank", taken): list(range(1, len(self) + 1))}
        for place, target in enumerate(self.query.targets):
            names = list(map(self.graph.name, self.ids[:, place].tolist()))
            columns[target.removeprefix("?")] = list(map(str, names))
            if self.graph.labels:
                columns[f"{target.removeprefix('?')} label"] = [name.label for name in names]
        columns[free("energy", taken)] = self.energies.tolist()
        if self.probabilities is not None:
            columns[free("probability", taken)] = self.probabilities.tolist()
        if self.known is not None:
            columns[free("known", taken)] = self.known.tolist()
        return columns


def free(name: str, taken: Collection[str]) -> str:
    """What a column of ours is called beside a user's variables, which keep their names.

    >>> free("energy", ["x"]), free("energy", ["energy"])
    ('energy', '_energy')
    """
    while name in taken:
        name = f"_{name}"
    return name
