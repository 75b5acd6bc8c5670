"""What a solver is: it says which queries it takes, scores all candidates, and explains an answer.

What a solver can be told is a dataclass of its own, whose fields are made by `parameter`: default,
range, one line of help, and whether calibration chooses it. Options, the command line, calibration,
reports and the docs read it from there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import cache
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.known import false_facts
from knowledge_sheaves.embedding.loops import irreflexive
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.embedding.numbers import check_weights
from knowledge_sheaves.embedding.scoring import rule_out
from knowledge_sheaves.embedding.search.kept import MODES, is_indexed
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.explanation import Explanation, Reason
from knowledge_sheaves.query.facts.certain import KnownFacts
from knowledge_sheaves.query.pattern import Edge, Entity, Pattern, Query, Variable
from knowledge_sheaves.ranking.temperature import TAU, UNTEMPERED
from knowledge_sheaves.ranking.temperature import temperature as temperature_of

QUERY_TAU = "query_tau"
"""A model keeps a temperature that was fitted on facts, and one that was fitted on queries."""
ENDS: tuple[End, End] = ("head", "tail")
IGNORED = "ignored"
"""What known facts are to a solver that does not count them as certain."""
RUNNER_UPS = 3
"""How many candidates of an unknown are named beside the best."""
NO_REASONS = "There are no reasons: the types or the query rule the answer out."


# What a solver can be told.


@dataclass(frozen=True)
class Fit:
    """How calibration chooses a value: those it tries, on the queries that it matters to.

    The first of the values that is as good as the best is taken, but for some ``slack``.
    """

    values: tuple[float, ...]
    matters: Callable[[Query], bool]
    slack: float = 0.0


@dataclass(frozen=True)
class Parameter:
    """One thing that a solver can be told; ``stored`` is what a calibrated model calls it."""

    help: str
    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    choices: tuple[str, ...] = ()
    fit: Fit | None = None
    stored: tuple[str, ...] = ()
    name: str = ""
    default: Any = None

    @property
    def range(self) -> str:
        """Which values it may have, in words."""
        if self.choices:
            return ", ".join(self.choices)
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        if self.above > -math.inf:
            return f"{kind} above {self.above:g}"
        if self.high < math.inf:
            return f"{kind} between {self.low:g} and {self.high:g}"
        return f"{kind}, at least {self.low:g}"

    def read(self, given: object) -> Any:
        """A value from what somebody wrote or stored; one outside the range is an error."""
        value = given
        if not self.choices:
            try:
                value = type(self.default)(given)
            except (TypeError, ValueError, OverflowError):
                value = math.nan
            if value != _number(given) or not self._within(value):
                raise InputError(f"{self.name} is {self.range}, not {given!r}.")
        elif given not in self.choices:
            raise InputError(f"{self.name} is one of {self.range}, not {given!r}.")
        return value

    def _within(self, value: float) -> bool:
        return math.isfinite(value) and self.low <= value <= self.high and value > self.above


def _number(given: object) -> float:
    try:
        return float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def parameter(default: Any, help: str, **about: Any) -> Any:
    """A field of a solver's settings."""
    return field(default=default, metadata={"about": Parameter(help, **about)})


def is_composed(query: Query) -> bool:
    """Whether a positive query has more than one edge: of one, any temperature ranks alike."""
    return not query.is_negated and sum(len(p.edges) for p in query.patterns) > 1


def is_positive_with_unknowns(query: Query) -> bool:
    return query.has_unknowns and not query.is_negated


def temperature() -> Any:
    """τ, which more than one solver takes; its values are times the temperature of facts."""
    return parameter(
        1.0,
        "The temperature that makes energies probabilities.",
        above=0,
        stored=(QUERY_TAU, TAU),
        fit=Fit((1.0, 0.125, 0.25, 0.5, 0.7, 1.4, 2.0, 4.0), is_composed),
    )


def bite() -> Any:
    """κ, which more than one solver takes."""
    return parameter(
        1.0,
        "How hard a negated part bites: 1 − min(1, κp) is left of an answer.",
        low=0,
        fit=Fit((1.0, 0.25, 0.5, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0), lambda query: query.is_negated),
    )


def how_to_search() -> Any:
    """How the best are found, where there is an index."""
    return parameter(
        "auto",
        "How the best are found: by all entities (full), by all codes (exact) or by lists (quick).",
        choices=MODES,
    )


@dataclass(frozen=True)
class Settings:
    """What a solver goes by; every field is a `parameter`."""

    def __post_init__(self) -> None:
        for name, about in self.parameters().items():
            object.__setattr__(self, name, about.read(getattr(self, name)))

    @classmethod
    @cache
    def parameters(cls) -> dict[str, Parameter]:
        """The parameters by name, in their order."""
        return {
            each.name: replace(each.metadata["about"], name=each.name, default=each.default)
            for each in fields(cls)
            if each.default is not MISSING
        }

    @classmethod
    def stored(cls, model: SheafEmbedding) -> dict[str, Any]:
        """What a model was calibrated to."""
        known = {} if model.info is None else model.info.calibration
        found: dict[str, Any] = {}
        for name, about in cls.parameters().items():
            if about.fit is not None:
                kept = [known[key] for key in about.stored or (name,) if key in known]
                found |= {name: kept[0]} if kept else {}
        return found


# What all solvers share.


class Scores(NamedTuple):
    """Energies (queries, entities), lower first, and probabilities where the solver has any."""

    energies: Tensor
    probabilities: Tensor | None = None


class Hidden(NamedTuple):
    """Entities that are no answers: those of a mask over all, and some by id."""

    mask: Tensor | None = None
    ids: Tensor | None = None


class Combinations(NamedTuple):
    """The best combinations of a query: ids (answers, targets), energies, and if none is missed."""

    ids: Tensor
    energies: Tensor
    exact: bool
    probabilities: Tensor | None = None
    notes: tuple[str, ...] = ()


S = TypeVar("S", bound="Solver")


class Solver(ABC):
    """One way to answer, for one call: a model, what to go by, what it may cost.

    A subclass has a ``name``, its ``Settings``, and a line in the registry (`solvers.SOLVERS`).
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    runner_ups = RUNNER_UPS
    Settings: ClassVar[type[Settings]] = Settings

    def __init__(
        self,
        model: SheafEmbedding,
        settings: Any = None,
        budget: Budget | None = None,
        tempered: bool = True,
    ) -> None:
        self.model = model
        self.settings: Any = self.Settings() if settings is None else settings
        self.budget = budget or Budget()
        self.tempered = tempered
        self.facts = KnownFacts(model.graph, self.budget)
        self.false = false_facts(model)

    @classmethod
    def of(cls: type[S], model: SheafEmbedding, budget: Budget | None = None, **given: Any) -> S:
        """The solver by what a model was calibrated to, but for what is given."""
        found, tempered = cls.Settings.stored(model) | given, True
        if TAU in cls.Settings.parameters() and TAU not in found:
            found[TAU], tempered = temperature_of(model)
        return cls(model, cls.Settings(**found), budget, tempered)

    def knowing(self: S, graph: KnowledgeGraph) -> S:
        """The solver, for which these facts are known instead of those of training."""
        self.facts = KnownFacts(graph, self.budget)
        return self

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the probabilities: without a temperature they are those of 1."""
        return () if self.tempered else (UNTEMPERED,)

    def remarks(self, query: Query) -> tuple[str, ...]:
        """What to know of the answers of a query that was scored, probabilities or not."""
        return ()

    @property
    def choices(self) -> dict[str, Any]:
        """What the answers depend on, by name."""
        return {"solver": self.name} | asdict(self.settings)

    @property
    def label(self) -> str:
        """What a row of a table calls it."""
        return self.name

    # The three questions.

    @abstractmethod
    def refusal(self, query: Query) -> str | None:
        """Why this solver does not take a query, in a sentence; None where it does."""

    @abstractmethod
    def scores(self, queries: Sequence[Query], chances: bool = True) -> Scores:
        """Scores of all entities for queries of one shape with one target.

        Who only ranks can do without probabilities (``chances``).
        """

    @abstractmethod
    def explain(self, query: Query, answer: Sequence[int]) -> Explanation:
        """Why entities, one for each target, answer a query."""

    def best(
        self, queries: Sequence[Query], count: int, hidden: Sequence[Hidden]
    ) -> list[Combinations] | None:
        """The best answers of queries with one target, where not all entities need be compared.

        ``hidden`` says of each query who is not to be shown. None: all must be, by `scores`.
        """
        return None

    def combinations(
        self, queries: Sequence[Query], count: int, allowed: Tensor | None
    ) -> list[Combinations]:
        """The best combinations of entities for queries of several targets.

        ``allowed`` (entities) says who may be part of one.
        """
        raise InputError(f"The solver {self.name} ranks one target at a time: use chaining.")

    def check(self, queries: Sequence[Query]) -> None:
        """Refuse what the solver does not take; queries of one shape stand or fall together.

        Of a model with weights that are no numbers nothing is taken: a candidate that they touch
        could vanish from what an unknown may be, and nobody would see it. Looked at once a model.
        """
        self.budget.check_time()
        if not is_indexed(self.model):  # that looked at them
            self.model.keep("sound weights", lambda: check_weights(self.model))
        why = self.refusal(queries[0])
        if why is not None:
            raise InputError(why)

    # Helpers.

    def reason(
        self,
        edge: Edge,
        entities: dict[Variable, int],
        energy: float | None,
        **more: Any,
    ) -> Reason:
        """An edge between the entities that stand at its ends, with what is known of it."""
        graph, relation = self.model.graph, edge.relation
        ends = [entities.get(t, t) if isinstance(t, Variable) else int(t) for t in edge.terms]
        # What stands for no entity keeps the name of its variable.
        head, tail = (e if isinstance(e, Variable) else graph.name(e) for e in ends)
        named = not any(isinstance(end, Variable) for end in ends)
        known = named and bool(self.facts.graph.by_name.contains([[ends[0], relation, ends[1]]])[0])
        name = graph.schema.labelled_names[relation]
        return Reason(edge, head, name, tail, energy, known=known, **more)

    def named(self, entities: dict[Variable, int]) -> dict[Variable, str]:
        """The names of what variables stand for."""
        return {v: self.model.graph.name(entity) for v, entity in entities.items()}


def restrict(
    model: SheafEmbedding,
    energies: Tensor,
    patterns: Sequence[Pattern],
    target: Variable,
    false: KnowledgeGraph | None = None,
) -> Tensor:
    """Leave only what types and VALUES allow, and what differs from an entity that it must.

    What an edge to a known entity would make a ``false`` fact is no answer either. Patterns are of
    one shape.
    """
    for edges in zip(*(pattern.edges for pattern in patterns), strict=True):
        ids = torch.tensor([int(edge.relation) for edge in edges], device=model.device)
        for end, term in zip(ENDS, edges[0].terms, strict=True):
            if term == target:
                energies = rule_out(model, end, ids, energies)
    for row, pattern in enumerate(patterns):
        entity = pattern.bound.get(target)
        if entity is not None:
            kept = energies[row, entity].clone()
            energies[row] = torch.inf
            energies[row, entity] = kept
        barred = _barred(model, pattern, target, false)
        if len(barred):
            energies[row, barred] = torch.inf
    return energies


def conditions(
    model: SheafEmbedding, pattern: Pattern, target: Variable, false: KnowledgeGraph | None
) -> Hidden:
    """Who is no answer by types, VALUES, what must differ, loops and what is known to be false.

    The same as `restrict`, for one pattern, without the energies of all entities.
    """
    mask: Tensor | None = None
    for edge in pattern.edges:
        for end, term in zip(ENDS, edge.terms, strict=True):
            possible = model.possible(end) if term == target else None
            if possible is not None:
                ids = torch.tensor([int(edge.relation)], device=model.device)
                barred = ~possible.entities(ids)[0]
                mask = barred if mask is None else mask | barred
    entity = pattern.bound.get(target)
    if entity is not None:
        others = torch.ones(model.graph.num_entities, dtype=torch.bool, device=model.device)
        others[entity] = False
        mask = others if mask is None else mask | others
    ids = torch.from_numpy(_barred(model, pattern, target, false)).to(model.device)
    return Hidden(mask, ids if len(ids) else None)


def _barred(
    model: SheafEmbedding, pattern: Pattern, target: Variable, false: KnowledgeGraph | None
) -> IntArray:
    """Entities that the target must differ from, or that would make a false fact or a loop."""
    pairs = [pair for pair in pattern.different if target in pair]
    others = [pair[0] if pair[1] == target else pair[1] for pair in pairs]
    different = np.array([int(o) for o in others if isinstance(o, Entity)], np.int64)
    parts = [different, _loops(model, pattern, target)]
    if false is not None:
        parts.append(_falsified(pattern, target, false))
    return np.concatenate(parts)


def _loops(model: SheafEmbedding, pattern: Pattern, target: Variable) -> IntArray:
    """The entities that the target would relate to itself by, where the data show no loops."""
    if model.config.loops:
        return np.zeros(0, np.int64)
    never = model.keep("irreflexive names", lambda: irreflexive(model.graph))
    if not any(never[edge.relation] and target in edge.terms for edge in pattern.edges):
        return np.zeros(0, np.int64)
    edges = grounded(pattern, [target]).edges
    ends = [edge.terms for edge in edges if never[edge.relation] and target in edge.terms]
    return np.array([int(t) for pair in ends for t in pair if isinstance(t, Entity)], np.int64)


def possible_entities(model: SheafEmbedding, pattern: Pattern, target: Variable) -> Tensor:
    """Which entities types and conditions allow as a target of a pattern: (entities)."""
    nothing = torch.zeros(1, model.graph.num_entities, device=model.device)
    return restrict(model, nothing, [pattern], target)[0].isfinite()


def _falsified(pattern: Pattern, target: Variable, false: KnowledgeGraph) -> IntArray:
    """The entities that would make some edge of a pattern a fact that is known to be false."""
    graph = false.by_name
    found: list[IntArray] = [np.zeros(0, np.int64)]
    for edge in grounded(pattern, [target]).edges:
        head, relation, tail = edge.head, int(edge.relation), edge.tail
        if head == target and tail == target:
            loops = graph.triples[graph.triples[:, 0] == graph.triples[:, 2]]
            found.append(loops[loops[:, 1] == relation, 0])
        elif head == target and isinstance(tail, Entity):
            found.append(graph.heads(relation, int(tail)))
        elif tail == target and isinstance(head, Entity):
            found.append(graph.tails(int(head), relation))
        elif isinstance(head, Entity) and isinstance(tail, Entity):
            row = [int(head), relation, int(tail)]
            found.append(np.arange(graph.num_entities * int(graph.contains([row])[0])))
    return np.concatenate(found).astype(np.int64)


def condition_beyond(pattern: Pattern, targets: Sequence[Variable]) -> Variable | None:
    """A variable other than the targets that must differ from something, or None.

    Of two terms that must differ, a target and an entity can be told apart in any ranking.
    """
    for pair in pattern.different:
        variables = [term for term in pair if isinstance(term, Variable)]
        beyond = [v for v in variables if v not in targets]
        if beyond:
            return beyond[0]
        if len(variables) == 2:
            return variables[1]
    return None


def grounded(pattern: Pattern, targets: Sequence[Variable]) -> Pattern:
    """The pattern with entities in the place of bound variables, but for the targets'.

    >>> pattern = Pattern((Edge("?x", 0, "?y"),), bindings=(("?y", 3),))
    >>> grounded(pattern, ["?x"]).edges, grounded(pattern, ["?x"]).bindings
    ((Edge(head='?x', relation=0, tail=3),), ())
    """
    bound = {v: Entity(e) for v, e in pattern.bound.items() if v not in targets}
    if not bound:
        return pattern
    kept = tuple(pair for pair in pattern.bindings if pair[0] not in bound)
    return replace(pattern, bindings=kept).substitute(bound.get)
