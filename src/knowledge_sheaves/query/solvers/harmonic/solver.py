"""The solver `harmonic`: one pattern by its energy, several by the probabilities of their branches.

The unknowns may be anywhere, and are where the energy is least. A negated part at the target leaves
1 − min(1, κp) of an answer, a union is 1 − Π(1 − p); their probabilities are those of energies at
the temperature, for a path of k edges divided by k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding.noise import relation_weights
from knowledge_sheaves.embedding.probability import EPSILON, probabilities
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.batches import canonical
from knowledge_sheaves.query.explanation import Against, Explanation, Share
from knowledge_sheaves.query.pattern import Pattern, Query, SchemaEdge, Variable
from knowledge_sheaves.query.solvers.base import (
    NO_REASONS,
    Combinations,
    Fit,
    Hidden,
    Scores,
    Settings,
    Solver,
    bite,
    condition_beyond,
    grounded,
    how_to_search,
    is_positive_with_unknowns,
    parameter,
    possible_entities,
    restrict,
    temperature,
)
from knowledge_sheaves.query.solvers.harmonic.best import best_answers
from knowledge_sheaves.query.solvers.harmonic.descent import Descent
from knowledge_sheaves.query.solvers.harmonic.extension import Extension, Least
from knowledge_sheaves.query.solvers.harmonic.forms import Springs
from knowledge_sheaves.query.solvers.harmonic.graph import QueryGraph, less_favour
from knowledge_sheaves.query.solvers.harmonic.joint import COMBINATIONS, Best, best_combinations
from knowledge_sheaves.query.solvers.harmonic.lifted import LIFTS, Lifted
from knowledge_sheaves.query.solvers.harmonic.reasons import extend, is_possible
from knowledge_sheaves.query.solvers.harmonic.torus import Windings
from knowledge_sheaves.query.solvers.rows import Rows
from knowledge_sheaves.query.types import readings

USE_CHAINING = "use the solver chaining"
INDIFFERENT = (
    "The unknowns can satisfy the query whatever the answer is, so its energies are all alike and "
    f"rounding ranks them: {USE_CHAINING}, or give the prior a strength."
)
EXTENSIONS: dict[str, type[Extension]] = {
    "springs": Springs,
    "lifted": Lifted,
    "torus": Windings,
    "descent": Descent,
}
"""How unknowns are found, by the name that an energy gives (`Energy.extension`)."""
STRENGTHS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


@dataclass(frozen=True)
class HarmonicSettings(Settings):
    """What `harmonic` can be told."""

    tau: float = temperature()
    kappa: float = bite()
    strength: float = parameter(
        0.0,
        "The weight λ of the Gaussian prior on unknowns; 0 is the paper.",
        low=0,
        fit=Fit(STRENGTHS, is_positive_with_unknowns),
    )
    weigh: str = parameter(
        "alike",
        "Whether all edges count alike, or by how exactly facts of their relation hold (noise).",
        choices=("alike", "noise"),
    )
    lift: str = parameter(
        "composite",
        "How lifted models are extended: by the letter, in the mean on the sphere, or as a whole.",
        choices=tuple(LIFTS),
    )
    search: str = how_to_search()


class Harmonic(Solver):
    """Harmonic extension over the graph of a query.

    >>> from knowledge_sheaves.embedding import SheafEmbedding, model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    >>> query = Query.from_triples([("a", "r", "?y"), ("?y", "r", "?x")], "?x", graph)
    >>> model = SheafEmbedding(model_config("transe", dim=4), graph)
    >>> Harmonic.of(model).scores([query]).energies.shape
    torch.Size([1, 3])
    """

    name = "harmonic"
    summary = "The paper's relaxation: unknowns may be anywhere, and are where the energy is least."
    Settings = HarmonicSettings

    @property
    def label(self) -> str:
        strength = self.settings.strength
        return f"{self.name}, λ = {strength:g}" if strength else self.name

    @cached_property
    def extension(self) -> Extension:
        """How unknowns are found, by the model's energy."""
        told, kind = self.settings, EXTENSIONS[self.model.config.energy.extension]
        found = kind.of(self.model, told.lift, told.strength, self.budget)
        if told.weigh == "noise":
            self._check_weighed()
            kept = self.model.keep("relation weights", lambda: relation_weights(self.model))
            found.weights = kept.to(self.model.radius)
        return found

    def _check_weighed(self) -> None:
        if not self.model.config.energy.linear:
            raise InputError(
                f"The edges of a {self.model.config.energy.name}-valued model are no springs that "
                "could be weighed: leave weigh as it is."
            )

    # Which queries.

    def refusal(self, query: Query) -> str | None:
        if self.model.is_spread and self.model.config.energy.extension == "descent":
            return (
                f"The energy of a {self.model.config.energy.name}-valued model is descended from "
                f"entities that other processes have: {USE_CHAINING}."
            )
        if len(query.targets) > 1:
            return self._joint_refusal(query)
        for pattern in query.patterns:
            for part in pattern.walk():
                beyond = condition_beyond(part, query.targets)
                if beyond is not None:
                    return (
                        f"The solver harmonic lets {beyond} be anywhere, so it cannot tell it from "
                        f"an entity that it must differ from: {USE_CHAINING}."
                    )
            name = _negated_unknown(pattern, query.targets[0])
            if name is not None:
                return (
                    f"The solver harmonic takes negation at the target only, and {name} is an "
                    f"unknown of the negated part: {USE_CHAINING}."
                )
        return None

    def _joint_refusal(self, query: Query) -> str | None:
        pattern = query.patterns[0]
        conditions = pattern.without or pattern.bindings or pattern.different
        if len(query.patterns) > 1 or conditions:
            return (
                "Several targets are ranked jointly by the solver harmonic for one conjunction "
                f"without negation, VALUES and !=: {USE_CHAINING}."
            )
        if self.model.is_spread:
            return f"Over several processes harmonic ranks one target at a time: {USE_CHAINING}."
        if self.extension.jointly is None:
            return (
                f"The energy of a {self.model.config.energy.name}-valued model is no quadratic "
                f"form: ask for one target, or {USE_CHAINING}."
            )
        return None

    # Scores.

    def scores(self, queries: Sequence[Query], chances: bool = True) -> Scores:
        """One pattern ranks by its energy, which needs no temperature."""
        self.check(queries)
        target, count = queries[0].targets[0], len(queries[0].patterns)
        branches = [[query.patterns[i] for query in queries] for i in range(count)]
        if count == 1 and not branches[0][0].without:
            energies = self.energies(branches[0], target)
            return Scores(energies, self._chances(branches[0], target) if chances else None)
        missed = [1 - self._chances(patterns, target) for patterns in branches]
        together = 1 - torch.stack(missed).prod(0)
        return Scores(-torch.log(together), together)

    def best(
        self, queries: Sequence[Query], count: int, hidden: Sequence[Hidden]
    ) -> list[Combinations] | None:
        self.check(queries)
        return best_answers(self, queries, count, hidden)

    def _chances(self, patterns: Sequence[Pattern], target: Variable) -> Tensor:
        """The probability of every entity under a pattern: its energy's, less what is negated."""
        counts = torch.from_numpy(self.counts(patterns, target)).to(self.model.device)
        tau = self.temperature(patterns[0])
        chances = probabilities(self.energies(patterns, target), counts, tau)
        for place in range(len(patterns[0].without)):
            inner = [pattern.without[place] for pattern in patterns]
            chances = chances * self._left(self._chances(inner, target))
        return chances

    def _left(self, denied: Tensor) -> Tensor:
        return 1 - (self.settings.kappa * denied).clamp(max=1 - EPSILON)

    def counts(self, patterns: Sequence[Pattern], target: Variable) -> np.ndarray:
        """How many answers the facts have, at least 1: those are to share."""
        asked = [Query((target,), (replace(p, without=()),)) for p in patterns]
        found = self.facts.answers(asked)
        return np.array([1 if each is None else max(1, len(each)) for each in found])

    def temperature(self, pattern: Pattern) -> float:
        """The temperature of a pattern: springs in a row give way more easily.

        Energies of a path of k edges are spread less, by 1/k.
        """
        length = len(pattern.variables) if self.extension.gives_way else 1
        return float(self.settings.tau) / max(1, length)

    def energies(self, patterns: Sequence[Pattern], target: Variable) -> Tensor:
        """The least energy of every entity as the target, infinite where types rule it out.

        One pattern's are kept: its probabilities and its reasons ask for them again.
        """
        if len(patterns) > 1:
            return self._all_readings(patterns, target)
        if patterns[0] not in self._found:
            self._found[patterns[0]] = self._all_readings(patterns, target)
        return self._found[patterns[0]].clone()

    @cached_property
    def _found(self) -> dict[Pattern, Tensor]:
        return {}

    def _all_readings(self, patterns: Sequence[Pattern], target: Variable) -> Tensor:
        """A relation of several parts has several readings: the best of them counts."""
        everyone = self.model.graph.num_entities
        ground = [grounded(pattern, [target]) for pattern in patterns]
        out: Tensor | None = None
        groups = self._by_types(ground)
        for members in groups.values():
            self.budget.check_time()
            rows, parts = zip(*members, strict=True)
            batch = QueryGraph.of(self.model, [ground[row] for row in rows], parts, target)
            values, indifferent = self.batch_energies(batch, target)
            if indifferent is not None:
                places = indifferent.nonzero().flatten().tolist()
                self._indifferent.update(_key(patterns[rows[place]]) for place in places)
            if values.shape == (len(patterns), everyone) and len(groups) == 1:
                out = values
                continue
            if out is None:
                out = values.new_full((len(patterns), everyone), torch.inf)
            columns = self.model.entities_of_type(batch.types[batch.vertex(target)])
            grid = (torch.tensor(rows, device=columns.device).unsqueeze(1), columns)
            out.index_put_(grid, torch.minimum(out[grid], values))
        assert out is not None, "every pattern has a reading"
        return restrict(self.model, out, patterns, target, self.false)

    def _by_types(
        self, patterns: Sequence[Pattern]
    ) -> dict[tuple[int, ...], list[tuple[int, tuple[SchemaEdge, ...]]]]:
        """Rows and readings of patterns by the types at all ends: those are solved together."""
        groups: dict[tuple[int, ...], list[tuple[int, tuple[SchemaEdge, ...]]]] = {}
        for row, pattern in enumerate(patterns):
            for parts in readings(pattern, self.model.graph):
                kinds = tuple(int(k) for part in parts for k in self.model.edge_types[part])
                groups.setdefault(kinds, []).append((row, parts))
        return groups

    def batch_energies(self, batch: QueryGraph, target: Variable) -> Least:
        """The least energy of every entity of the target's type: (queries, entities of it)."""
        found, vertex = self.extension.energies(batch, target), batch.vertex(target)
        energies = self.model.everyone(batch.types[vertex], found.energies)
        energies = less_favour(self.model, batch, vertex, energies)
        return found._replace(energies=energies)

    def remarks(self, query: Query) -> tuple[str, ...]:
        asked = [*query.patterns, *canonical(query).patterns]
        parts = {_key(part) for pattern in asked for part in pattern.walk()}
        return () if parts.isdisjoint(self._indifferent) else (INDIFFERENT,)

    def note_indifferent(self, pattern: Pattern) -> None:
        """Remember that a pattern is satisfied whatever its answer is."""
        self._indifferent.add(_key(pattern))

    @cached_property
    def _indifferent(self) -> set[object]:
        """The patterns that were found to be satisfied whatever their answer is."""
        return set()

    # Several targets.

    def combinations(
        self, queries: Sequence[Query], count: int, allowed: Tensor | None
    ) -> list[Combinations]:
        """The best combinations by energy, of all readings of a conjunction."""
        self.check(queries)
        return [self._combine(query, count, allowed) for query in queries]

    def _combine(self, query: Query, count: int, allowed: Tensor | None) -> Combinations:
        (pattern,), by = query.patterns, self.extension.jointly
        assert by is not None, "refused"
        fit = [possible_entities(self.model, pattern, target) for target in query.targets]
        fit = fit if allowed is None else [each & allowed for each in fit]
        parts: list[Best] = []
        for reading in readings(pattern, self.model.graph):
            batch = QueryGraph.of(self.model, [pattern], [reading], query.targets[-1])
            parts += best_combinations(by, batch, query.targets, count, fit)
        energies = torch.cat([part.energies for part in parts])
        ids = torch.cat([part.ids for part in parts])
        order = energies.argsort()
        # A combination that several readings allow counts once, by the best of them.
        first = {tuple(row): place for place, row in reversed(list(enumerate(ids[order].tolist())))}
        order = order[sorted(first.values())[:count]]
        self._indifferent.update(_key(pattern) for part in parts if part.indifferent)
        exact = all(part.exact for part in parts)
        note = "No combination was missed: all others have more energy."
        if not exact:
            note = f"Candidates were cut to the best of each target, {COMBINATIONS:,} combinations."
        return Combinations(ids[order], energies[order], exact, notes=(note,))

    # Reasons.

    def explain(self, query: Query, answer: Sequence[int]) -> Explanation:
        """The branch of a union that speaks most for an answer, with the chances of the others."""
        self.check([query])
        given = dict(zip(query.targets, map(int, answer), strict=True))
        fitting = [p for p in query.patterns if is_possible(p, given, self.model.graph)]
        found = [self._branch(pattern, given, query.targets) for pattern in fitting]
        if not found:
            raise InputError(NO_REASONS)
        best = max(found, key=lambda each: each.branch_probability or 0.0)
        others = tuple(each.branch_probability or 0.0 for each in found if each is not best)
        return replace(best, alternatives=others)

    def _branch(
        self, pattern: Pattern, given: dict[Variable, int], targets: Sequence[Variable]
    ) -> Explanation:
        self.budget.check_time()
        bare = grounded(replace(pattern, without=()), targets)
        found = extend(self, bare, given, targets[-1])
        if len(targets) > 1:  # combinations are ranked by energy alone
            return found
        against = tuple(
            self._against(inner, given, targets)
            for inner in pattern.without
            if is_possible(inner, given, self.model.graph)
        )
        return replace(found, against=against, share=self._share(pattern, targets[0]))

    def _against(
        self, inner: Pattern, given: dict[Variable, int], targets: Sequence[Variable]
    ) -> Against:
        part = self._branch(inner, given, targets)
        chance = torch.tensor(part.branch_probability, dtype=torch.float64)
        return Against(part, float(self._left(chance)))

    def _share(self, pattern: Pattern, target: Variable) -> Share:
        tau = self.temperature(pattern)
        energies = self.energies([pattern], target)[0]
        total = torch.logsumexp(-energies.double() / tau, 0)
        return Share(int(self.counts([pattern], target)[0]), tau, float(total))

    @cached_property
    def rows(self) -> Rows:
        """Probabilities of single edges, for the entities that stand for unknowns."""
        tau = self.settings.tau
        return Rows(self.model, self.facts.graph, tau=tau, remembered=True, budget=self.budget)


def _key(pattern: Pattern) -> object:
    """A pattern whatever its variables are called."""
    return pattern.shape, pattern.constants


def _negated_unknown(pattern: Pattern, target: Variable) -> Variable | None:
    """An unknown that a negated part shares with what is around it, or lacks the target."""
    for inner in pattern.without:
        shared = (set(pattern.variables) & set(inner.all_variables)) - {target}
        if shared:
            return min(shared)
        if target not in inner.variables:
            return target
        deeper = _negated_unknown(inner, target)
        if deeper is not None:
            return deeper
    return None
