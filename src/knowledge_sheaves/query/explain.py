"""Why an answer is one: who stands for each unknown, and what every edge costs.

Both solvers explain themselves in one form. `harmonic` puts an unknown where the energy is least
and names the entities nearest to that place; `chaining` names the entities that it chose.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.answers import Answers
from knowledge_sheaves.query.options import Options, settle
from knowledge_sheaves.query.pattern import Edge, Pattern
from knowledge_sheaves.query.solvers.harmonic.witnesses import extended
from knowledge_sheaves.query.typing import typed_parts
from knowledge_sheaves.query.witnesses import Candidate, Found, Witness, chosen, make_solver, put

__all__ = ["Candidate", "Explainer", "Explanation", "Reason", "Witness"]

RUNNER_UPS = 3


@dataclass(frozen=True)
class Reason:
    """An edge of the query as the explanation reads it, with entities at both ends.

    ``energy`` is the solver's: for `harmonic` with unknowns where they are best, not at their
    witnesses. ``probability`` is that of the entities named; ``known`` tells a remembered fact.
    """

    edge: Edge
    head: str
    relation: str
    tail: str
    energy: float
    probability: float
    known: bool

    def __str__(self) -> str:
        said = "known" if self.known else f"predicted, {self.probability:.2f}"
        return f"{self.head} {self.relation} {self.tail} ({said})"


@dataclass(frozen=True)
class Explanation:
    """The reasons for one answer: of the branch of a union that speaks most for it.

    ``entities`` has the name that each variable stands for; ``against`` explains every negated
    part at its best, and ``probability`` is the product over edges, less what speaks against.
    ``target`` is where a drawing starts. ``lift`` is what the whole costs beyond its edges.
    """

    target: str
    solver: str
    entities: Mapping[str, str]
    reasons: tuple[Reason, ...]
    witnesses: tuple[Witness, ...]
    against: tuple[Explanation, ...]
    probability: float
    lift: float = 0.0

    @property
    def energy(self) -> float:
        """The energy of all edges together, with the pull of priors on the unknowns and the lift.

        For one pattern that `harmonic` answers, without negation, it is the answer's.
        """
        pulls = sum(witness.pull for witness in self.witnesses)
        return sum(reason.energy for reason in self.reasons) + pulls + self.lift

    def __str__(self) -> str:
        return "; ".join(self.sentences())

    def sentences(self) -> Iterator[str]:
        """One for every edge, and one for every negated part."""
        yield from map(str, self.reasons)
        for part in self.against:
            best = " and ".join(map(str, part.reasons))
            yield f"against it, with probability {part.probability:.2f}: {best}"

    def to_dict(self) -> dict[str, object]:
        """Everything by name, for programs."""
        return {
            "entities": {v: name for v, name in self.entities.items() if is_named(v)},
            "probability": self.probability,
            "edges": [
                {
                    "head": reason.head,
                    "relation": reason.relation,
                    "tail": reason.tail,
                    "energy": reason.energy,
                    "probability": reason.probability,
                    "known": reason.known,
                }
                for reason in self.reasons
            ],
            "unknowns": [witness.to_dict() for witness in self.witnesses],
            "against": [part.to_dict() for part in self.against],
            "lift": self.lift,
        }


def is_named(variable: str) -> bool:
    """Whether a user gave this name; the middle of a path ``a/b`` has one that nobody can write."""
    return not variable.startswith("?.")


class Explainer:
    """Explains answers of one model; ``options`` are those that they were found with.

    >>> from knowledge_sheaves.embedding import SheafEmbedding, model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> from knowledge_sheaves.query import Query
    >>> from knowledge_sheaves.query.solve import answer
    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "friends", "Sachin"), ("Sachin", "favorite movie", "Star Wars")])
    >>> query = Query.from_triples(
    ...     [("Julia", "friends", "?y"), ("?y", "favorite movie", "?x")], "?x", graph)
    >>> model, options = SheafEmbedding(model_config("complex", dim=4), graph), Options(tau=1.0)
    >>> print(Explainer(model, options).explain(answer(model, query, options)[0]))
    Julia friends Sachin (known); Sachin favorite movie Star Wars (known)
    """

    def __init__(
        self, model: SheafEmbedding, options: Options | None = None, runner_ups: int = RUNNER_UPS
    ) -> None:
        self.graph, self.options = model.graph, settle(model, options)
        self.runner_ups = runner_ups
        self.names = model.graph.schema.relation_names
        self.solver = make_solver(model, self.options)

    @torch.no_grad()
    def explain(self, answers: Answers, place: int = 0) -> Explanation:
        """Explain the answer at a place."""
        if not 0 <= place < len(answers):
            raise InputError(f"There are {len(answers)} answers, and none at place {place}.")
        self.solver.rows.limits = self.options.limits()  # those of every explanation
        targets = answers.query.targets
        given = dict(zip(targets, answers.ids[place].tolist(), strict=True))
        readings = [
            self._pattern(pattern, given, targets[-1], answers.solver)
            for pattern in answers.query.patterns
            if self._fits(pattern, given)
        ]
        return max(readings, key=lambda reading: reading.probability)

    def _fits(self, pattern: Pattern, given: Mapping[str, int]) -> bool:
        """Whether a branch allows this answer at all: its types, and what VALUES says."""
        if any(given.get(variable, entity) != entity for variable, entity in pattern.bindings):
            return False
        try:
            typed_parts(put(pattern, given), self.graph)
        except InputError:  # no reading of its relations has such types
            return False
        return True

    def _pattern(
        self,
        pattern: Pattern,
        given: Mapping[str, int],
        target: str,
        solver: str,
        outside: frozenset[str] = frozenset(),
    ) -> Explanation:
        """Explain a pattern with some variables given, seen from the target."""
        self.solver.rows.limits.check_time()
        found = self._found(pattern, given, target, solver, outside)
        reasons = tuple(
            self._reason(*each, found)
            for each in zip(pattern.edges, found.energies, found.probabilities, strict=True)
        )
        against = tuple(
            self._against(inner, found.entities, target, solver)
            for inner in pattern.without
            if self._fits(inner, found.entities)
        )
        chance = math.prod(reason.probability for reason in reasons) * found.possible
        for part in against:
            against_it = torch.tensor(part.probability, dtype=torch.float64)
            chance *= float(self.solver.deny(against_it.log()).exp())
        names = {v: self.graph.entities[entity] for v, entity in found.entities.items()}
        return Explanation(
            target, solver, names, reasons, found.witnesses, against, chance, found.lift
        )

    def _found(
        self,
        pattern: Pattern,
        given: Mapping[str, int],
        target: str,
        solver: str,
        outside: frozenset[str],
    ) -> Found:
        if solver == "chaining":
            return chosen(self.solver, pattern, given, target, self.runner_ups, outside)
        rows = self.solver.rows
        return extended(rows, pattern, given, target, self.options, self.runner_ups)

    def _against(
        self, inner: Pattern, found: Mapping[str, int], target: str, solver: str
    ) -> Explanation:
        """Explain a negated part at its best, seen from a variable that it shares."""
        shared = {v: entity for v, entity in found.items() if v in inner.variables}
        goal = target if target in shared else next(iter((*shared, *inner.variables, target)))
        return self._pattern(inner, shared, goal, solver, frozenset(shared) - {goal})

    def _reason(self, edge: Edge, energy: float, probability: float, found: Found) -> Reason:
        head, tail = (found.entities[t] if isinstance(t, str) else t for t in edge.terms)
        name, kinds = self.names[edge.relation], self.graph.entity_types
        (part,) = self.graph.schema.find_edges([name], kinds[[head]], kinds[[tail]])
        known = part >= 0 and bool(self.graph.contains(np.array([[head, part, tail]]))[0])
        shown = self.graph.entities[head], name, self.graph.entities[tail]
        return Reason(edge, *shown, energy, probability, known)
