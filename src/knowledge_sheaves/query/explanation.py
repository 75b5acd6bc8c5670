"""Why an answer is one: who stands for each unknown, what every edge costs, and what it adds up to.

All solvers explain themselves in this one form, and its numbers are those of the answer: `energy`
and `probability` compute the answer's score again from the reasons alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial

from knowledge_sheaves.embedding.probability import EPSILON
from knowledge_sheaves.graph.labels import Name, label_of, words
from knowledge_sheaves.notebook import reasons_html
from knowledge_sheaves.query.pattern import Edge, Variable

SEEN = 5e-5
"""An energy that four digits show."""
LIKELY = 0.5
"""From which probability on a prediction counts as yes."""


def likely(probability: float, digits: int) -> str:
    """A probability in so many digits; what is not certain is never called 1.

    >>> likely(0.123, 2), likely(0.998, 2), likely(0.998, 3)
    ('0.12', 'over 0.99', '0.998')
    """
    text = f"{probability:.{digits}g}"
    return f"over 0.{'9' * digits}" if float(text) >= 1 else text


@dataclass(frozen=True)
class Reason:
    """An edge of the query as the explanation reads it, with entities at both ends.

    ``energy`` is the solver's: for `harmonic` with unknowns where they are best, not at their
    witnesses; None where the solver gives single edges none. ``weight`` is what the edge counts for
    where a solver multiplies probabilities. ``probability`` is that of the entities named, by
    itself; ``known`` tells a known fact; ``backwards`` says that the edge was read against its
    relation, by the reciprocal relation where the model has one.
    """

    edge: Edge
    head: str
    relation: str
    tail: str
    energy: float | None
    probability: float | None
    known: bool
    weight: float | None = None
    backwards: bool = False

    def __str__(self) -> str:
        return f"{self.claim} ({self.said})"

    @property
    def claim(self) -> str:
        """What the edge says, in words."""
        return " ".join(map(words, (self.head, self.relation, self.tail)))

    @property
    def said(self) -> str:
        """Whether it is known, or how likely it is."""
        if self.known:
            return "known"
        if self.probability is None:
            return "predicted"
        return f"predicted with probability {likely(self.probability, 2)}"

    def to_dict(self) -> dict[str, object]:
        """Everything by name, for programs; labels stand beside names."""
        fields: dict[str, object] = {}
        for name, value in asdict(self).items():
            fields[name] = value
            if name in ("head", "relation", "tail"):
                fields[f"{name}_label"] = label_of(value)
        del fields["edge"]
        return fields


@dataclass(frozen=True)
class Candidate:
    """An entity that an unknown may be.

    `chaining` has a ``probability``: of the answer, if the unknown is this entity. `harmonic` has
    an ``energy``, again of the answer, and a ``distance`` from where the unknown is best.
    """

    name: str
    probability: float | None = None
    energy: float | None = None
    distance: float | None = None

    def to_dict(self) -> dict[str, object]:
        """What there is by name, for programs."""
        fields = {"name": self.name, "label": label_of(self.name)} | asdict(self)
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True)
class Witness:
    """The entity that stands for an unknown, and the next best.

    ``spread`` is the posterior deviation of a harmonic unknown in each of its dimensions, ``pull``
    the energy of the prior on it. ``together`` is how many times likelier all candidates of the
    unknown make the answer than this one alone.
    """

    variable: Variable
    best: Candidate
    others: tuple[Candidate, ...]
    spread: float | None = None
    pull: float = 0.0
    together: float = 1.0

    def to_dict(self) -> dict[str, object]:
        """Everything by name, for programs."""
        shown = [candidate.to_dict() for candidate in (self.best, *self.others)]
        return {
            "variable": self.variable,
            "candidates": shown,
            "spread": self.spread,
            "pull": self.pull,
            "together": self.together,
        }


@dataclass(frozen=True)
class Share:
    """How an energy becomes a probability: p = min(1 − ε, count · e^(−V/τ) / total).

    ``log_total`` is the logarithm of the sum of e^(−V/τ) over all entities.
    """

    count: int
    tau: float
    log_total: float

    def __call__(self, energy: float) -> float:
        return min(1 - EPSILON, self.count * math.exp(-energy / self.tau - self.log_total))


@dataclass(frozen=True)
class Against:
    """A part that must not hold, explained at its best, and what is left of the answer by it."""

    part: Explanation
    left: float


@dataclass(frozen=True)
class Explanation:
    """The reasons for one answer: of the branch of a union that speaks most for it.

    ``entities`` has the name that each variable stands for, ``target`` is where a drawing starts.
    ``beyond`` are energies that no single edge has, by name. ``share`` turns the energy into a
    probability where the solver goes by energies. ``alternatives`` are the probabilities of the
    other branches of a union. ``shown`` is what the score was calibrated to.
    """

    target: Variable
    solver: str
    entities: Mapping[Variable, str]
    reasons: tuple[Reason, ...]
    witnesses: tuple[Witness, ...] = ()
    against: tuple[Against, ...] = ()
    beyond: Mapping[str, float] = field(default_factory=dict)
    share: Share | None = None
    alternatives: tuple[float, ...] = ()
    shown: float | None = None

    @property
    def energy(self) -> float:
        """The energy of all edges together, of priors on the unknowns, and what lies beyond."""
        edges = sum(reason.energy for reason in self.reasons if reason.energy is not None)
        return edges + sum(w.pull for w in self.witnesses) + sum(self.beyond.values())

    @property
    def branch_probability(self) -> float | None:
        """The probability of this branch: its own, less what speaks against it."""
        if self.share is not None:
            chance = self.share(self.energy)
        elif all(reason.weight is not None for reason in self.reasons):
            chance = math.prod(reason.weight or 0.0 for reason in self.reasons)
            chance *= math.prod(witness.together for witness in self.witnesses)
        else:
            return None
        return chance * math.prod(each.left for each in self.against)

    @property
    def probability(self) -> float | None:
        """The probability of the answer: its score, or what that was calibrated to."""
        return self.score if self.shown is None else self.shown

    @property
    def score(self) -> float | None:
        """The score of the answer, computed from its reasons: 1 − Π(1 − p) over branches."""
        mine = self.branch_probability
        if mine is None:
            return None
        return 1 - (1 - mine) * math.prod(1 - other for other in self.alternatives)

    def __str__(self) -> str:
        return "; ".join(self.sentences())

    def sentences(self) -> Iterator[str]:
        """The reasons in words: one for every edge, and one for every part that must not hold."""
        yield from map(str, self.reasons)
        for each in self.against:
            denied = " and ".join(reason.claim for reason in each.part.reasons)
            chance = each.part.branch_probability
            how = "" if chance is None else f" (probability {chance:.2f})"
            likely = chance is not None and chance >= LIKELY
            yield f"{'against it: ' if likely else 'it is unlikely that '}{denied}{how}"

    def _repr_html_(self) -> str:
        # Drawings know explanations; the import waits until here so that these need not know them.
        from knowledge_sheaves.query.drawing import plot

        return reasons_html(self, partial(plot, self))

    def to_dict(self) -> dict[str, object]:
        """Everything by name, for programs."""
        named = {v: name for v, name in self.entities.items() if v.is_named}
        return {
            "entities": named,
            "labels": {v: name.label for v, name in named.items() if isinstance(name, Name)},
            "sentences": list(self.sentences()),
            "probability": self.probability,
            "score": self.score,
            "energy": self.energy,
            "edges": [reason.to_dict() for reason in self.reasons],
            "unknowns": [witness.to_dict() for witness in self.witnesses],
            "against": [each.part.to_dict() | {"left": each.left} for each in self.against],
            "beyond": dict(self.beyond),
            "alternatives": list(self.alternatives),
        }
