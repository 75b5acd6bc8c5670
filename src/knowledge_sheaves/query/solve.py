"""Solvers by name: every one takes queries and a model, and returns answers in one form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.probability import EPSILON, probabilities
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.answers import Answers, alike, by_shape, top
from knowledge_sheaves.query.chaining import Chaining
from knowledge_sheaves.query.harmonic import Lift, QueryBatch, target_energies
from knowledge_sheaves.query.joint import COMBINATIONS, Combinations, best_combinations
from knowledge_sheaves.query.pattern import Pattern, Query
from knowledge_sheaves.query.symbolic import answers as symbolic_answers
from knowledge_sheaves.query.typing import typed_parts

SOLVERS = ("auto", "harmonic", "naive", "chaining")
CALIBRATED = ("strength", "kappa", "k", "tau")
QUERY_TAU = "query_tau"
"""A temperature fitted on queries; that of predictions, "tau", is fitted on facts."""


@dataclass(frozen=True)
class Options:
    """How queries are solved.

    ``strength`` λ of the prior on unknowns, ``lift`` how lifted models are extended, ``kappa`` how
    hard a negated branch bites, ``k`` how many candidates of an unknown chaining keeps, ``facts``
    whether it remembers the known ones. What is None is as the model was calibrated: see `settle`.
    """

    solver: str = "auto"
    lift: Lift = "sphere"
    strength: float | None = None
    kappa: float | None = None
    k: int | None = None
    facts: str = "remembered"
    tau: float | None = None
    memory_limit: int = 1 << 29
    time_limit: float = math.inf

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise InputError(
                f"There is no solver {self.solver!r}: choose one of {', '.join(SOLVERS)}."
            )


@dataclass(frozen=True)
class Settled(Options):
    """Options that leave nothing open, and the defaults of a model without calibration."""

    strength: float = 0.0
    kappa: float = 1.0
    k: int = 64
    tau: float = 1.0


def settle(model: SheafEmbedding, options: Options | None = None) -> Settled:
    """Fill in what options leave open, by the model's calibration where it has one.

    >>> from knowledge_sheaves.embedding import ModelInfo, model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
    >>> model = SheafEmbedding(model_config("transe", dim=2), graph)
    >>> model.info = ModelInfo(calibration={"tau": 0.5, "kappa": 6.0})
    >>> options = settle(model, Options(kappa=2.0))
    >>> options.tau, options.kappa, options.k
    (0.5, 2.0, 64)
    """
    known = {} if model.info is None else model.info.calibration
    found: dict[str, Any] = {name: known[name] for name in CALIBRATED if name in known}
    if QUERY_TAU in known:
        found["tau"] = known[QUERY_TAU]
    given = {name: value for name, value in vars(options or Options()).items() if value is not None}
    return Settled(**found | given)


@dataclass(frozen=True)
class Wanted:
    """Which answers to show."""

    top: int = 10
    allow: frozenset[int] | None = None
    deny: frozenset[int] = frozenset()
    kind: int | None = None
    only_new: bool = False


@torch.no_grad()
def answer(
    model: SheafEmbedding,
    queries: Query | Sequence[Query],
    options: Options | None = None,
    wanted: Wanted | None = None,
) -> list[Answers]:
    """Answer queries, those of one shape together; the list has one entry per query."""
    options, wanted = settle(model, options), wanted or Wanted()
    asked = [queries] if isinstance(queries, Query) else list(queries)
    out: list[Answers | None] = [None] * len(asked)
    rows = max(1, options.memory_limit // (8 * 4 * model.graph.num_entities))
    for members in by_shape(asked).values():
        for start in range(0, len(members), rows):
            chunk = members[start : start + rows]
            group = [asked[i] for i in chunk]
            for place, found in zip(
                chunk, _answer_group(model, group, options, wanted), strict=True
            ):
                out[place] = found
    return [found for found in out if found is not None]


def _answer_group(
    model: SheafEmbedding, queries: list[Query], options: Settled, wanted: Wanted
) -> list[Answers]:
    solver = choose(model, queries[0], options)
    if len(queries[0].targets) > 1:
        return [_answer_jointly(model, query, solver, options, wanted) for query in queries]
    energies, chances = scores(model, queries, replace(options, solver=solver))
    known = symbolic_answers(model.graph, queries)
    _exclude(energies, model, wanted, known)
    values, ids = top(energies, wanted.top)
    results = []
    for row, query in enumerate(queries):
        finite = values[row].isfinite()
        chosen = ids[row][finite]
        facts = np.asarray(known[row])
        results.append(
            Answers(
                query,
                model.graph,
                solver,
                chosen.unsqueeze(1),
                values[row][finite],
                None if chances is None else chances[row][chosen],
                torch.from_numpy(np.isin(chosen.numpy(), facts)),
                tuple(model.config.notes),
            )
        )
    return results


def _answer_jointly(
    model: SheafEmbedding, query: Query, solver: str, options: Settled, wanted: Wanted
) -> Answers:
    """Several targets: combinations of entities, by harmonic energy."""
    pattern = query.patterns[0]
    if solver != "harmonic" or len(query.patterns) > 1 or pattern.without or pattern.bindings:
        raise InputError(
            "Several targets are ranked jointly by the solver harmonic, for conjunctions without "
            "negation: ask for one target, or for one conjunction."
        )
    found: list[Combinations] = []
    for parts in typed_parts(pattern, model.graph):
        batch = QueryBatch.of(model, [pattern], [parts], query.targets[-1])
        found += best_combinations(
            model, batch, query.targets, wanted.top, options.lift, options.strength
        )
    energies = torch.cat([part.energies for part in found])
    order = energies.argsort()[: wanted.top]
    ids = torch.cat([part.ids for part in found])[order]
    facts = {tuple(row) for row in np.asarray(symbolic_answers(model.graph, [query])[0]).tolist()}
    known = torch.tensor([tuple(row) in facts for row in ids.tolist()], dtype=torch.bool)
    exact = all(part.exact for part in found)
    note = (
        "No combination was missed: all others have more energy."
        if exact
        else f"Candidates were cut to the best of each target, {COMBINATIONS:,} combinations."
    )
    notes = (*model.config.notes, note)
    return Answers(query, model.graph, solver, ids, energies[order], None, known, notes)


def choose(model: SheafEmbedding, query: Query, options: Options) -> str:
    """The solver that `auto` stands for: chaining, unless there is more than one target."""
    if options.solver != "auto":
        return options.solver
    return "chaining" if len(query.targets) == 1 else "harmonic"


def scores(
    model: SheafEmbedding, queries: Sequence[Query], options: Options, chances: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Energies (queries, entities) of queries of one shape, lower first, and probabilities.

    Energies are those of the solver where it has one pattern to minimise, and −log p where
    probabilities of several branches were combined. Who only ranks can do without ``chances``.
    """
    options = settle(model, options)
    if len(queries[0].targets) > 1:
        raise InputError("Several targets have no single list of scores: use answer.")
    if options.solver == "harmonic":
        _refuse_negated_unknowns(queries[0])
    queries = alike(queries)
    if options.solver == "chaining":
        solver = Chaining(
            model,
            k=options.k,
            facts=options.facts,
            kappa=options.kappa,
            tau=options.tau,
            memory_limit=options.memory_limit,
            time_limit=options.time_limit,
        )
        logs = solver.log_probabilities(queries)
        return -logs, logs.exp()
    if options.solver == "naive":
        return _naive(model, queries), None
    first = queries[0].patterns
    if not chances and len(first) == 1 and not first[0].without:
        patterns = [query.patterns[0] for query in queries]
        return pattern_energies(model, patterns, queries[0].targets[0], options), None
    return _harmonic(model, queries, options)


# Harmonic: one pattern by its energy, several by the probabilities of their branches.


def _harmonic(
    model: SheafEmbedding, queries: Sequence[Query], options: Settled
) -> tuple[Tensor, Tensor]:
    target, count = queries[0].targets[0], len(queries[0].patterns)
    branches = [[query.patterns[i] for query in queries] for i in range(count)]
    chances, energies = [], []
    for patterns in branches:
        values = pattern_energies(model, patterns, target, options)
        energies.append(values)
        chances.append(_chances(model, patterns, values, target, options))
    if count == 1 and not branches[0][0].without:
        return energies[0], chances[0]
    together = 1 - torch.stack([1 - p for p in chances]).prod(0)
    return -torch.log(together), together


def _chances(
    model: SheafEmbedding,
    patterns: Sequence[Pattern],
    values: Tensor,
    target: str,
    options: Settled,
) -> Tensor:
    """The probability of every entity under a pattern: its energy's, less what is negated."""
    positive = [Pattern(p.edges, (), p.different, p.bindings) for p in patterns]
    counts = symbolic_answers(model.graph, [Query((target,), (p,)) for p in positive]).counts
    tau = options.tau * stiffness(model, patterns[0])
    chances = probabilities(values, torch.from_numpy(np.asarray(counts)), tau)
    for place in range(len(patterns[0].without)):
        inner = [p.without[place] for p in patterns]
        energies = pattern_energies(model, inner, target, options)
        denied = _chances(model, inner, energies, target, options)
        chances = chances * (1 - (options.kappa * denied).clamp(max=1 - EPSILON))
    return chances


def _refuse_negated_unknowns(query: Query) -> None:
    (target,) = query.targets
    for pattern in query.patterns:
        for inner in pattern.without:
            shared = (set(pattern.variables) & set(inner.variables)) - {target}
            if shared or target not in inner.variables:
                name = min(shared) if shared else target
                raise InputError(
                    f"The solver harmonic takes negation at the target only, and {name} is an "
                    f"unknown of the negated part: use the solver chaining."
                )


def stiffness(model: SheafEmbedding, pattern: Pattern) -> float:
    """How much of an edge's stiffness a pattern has at its target: 1/k for a path of k edges.

    Springs in a row give way more easily; their energies are spread less, and so is their
    temperature. On the sphere energies are not springs.
    """
    if model.config.lifted:
        return 1.0
    longest = max(1, len(pattern.variables))
    return 1.0 / longest


def pattern_energies(
    model: SheafEmbedding, patterns: Sequence[Pattern], target: str, options: Settled
) -> Tensor:
    """The least energy of every entity as the target, infinite where types rule it out."""
    out: Tensor | None = None
    readings: dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]] = {}
    for row, pattern in enumerate(patterns):
        for parts in typed_parts(pattern, model.graph):
            kinds = tuple(int(k) for part in parts for k in model.edge_types[part])
            readings.setdefault(kinds, []).append((row, parts))
    for members in readings.values():
        batch = QueryBatch.of(
            model, [patterns[row] for row, _ in members], [parts for _, parts in members], target
        )
        values = target_energies(model, batch, target, options.lift, options.strength)
        columns = model.entities_of_type(batch.types[batch.vertex(target)])
        if values.shape == (len(patterns), model.graph.num_entities) and len(readings) == 1:
            out = values
        else:  # a relation of several parts: the best reading counts
            if out is None:
                out = torch.full((len(patterns), model.graph.num_entities), torch.inf)
            grid = (torch.tensor([row for row, _ in members]).unsqueeze(1), columns)
            out.index_put_(grid, torch.minimum(out[grid], values))
    assert out is not None, "every pattern has a reading"
    _bind(out, patterns, target)
    return out


def _bind(energies: Tensor, patterns: Sequence[Pattern], target: str) -> None:
    """Leave only what VALUES allows, and drop what must differ from an entity."""
    for row, pattern in enumerate(patterns):
        for variable, entity in pattern.bindings:
            if variable == target:
                kept = energies[row, entity].clone()
                energies[row] = torch.inf
                energies[row, entity] = kept
        for pair in pattern.different:
            if target in pair:
                other = pair[0] if pair[1] == target else pair[1]
                if isinstance(other, int):
                    energies[row, other] = torch.inf


def _exclude(
    energies: Tensor, model: SheafEmbedding, wanted: Wanted, known: Iterable[np.ndarray]
) -> None:
    """Answers that were not asked for."""
    columns = torch.zeros(energies.shape[1], dtype=torch.bool)
    if wanted.allow is not None:
        columns[:] = True
        columns[sorted(wanted.allow)] = False
    if wanted.deny:
        columns[sorted(wanted.deny)] = True
    if wanted.kind is not None:
        columns |= torch.from_numpy(model.graph.entity_types != wanted.kind)
    energies[:, columns] = torch.inf
    if wanted.only_new:
        for row, facts in enumerate(known):
            energies[row, torch.from_numpy(np.asarray(facts, dtype=np.int64))] = torch.inf


# Naive: the paper's baseline.


def _naive(model: SheafEmbedding, queries: Sequence[Query]) -> Tensor:
    """‖Σ sources + Σ translations − x‖²: all sources and all relations of a query, added up."""
    config = model.config
    identity = config.head == "identity" and config.tail == "identity"
    if not identity or not config.translation or config.space != "vector":
        raise InputError(
            f"The solver naive adds up translations, which {config.name!r} has not: use harmonic."
        )
    patterns = [query.patterns[0] for query in queries]
    if len(queries[0].patterns) > 1 or patterns[0].without:
        raise InputError("The solver naive answers conjunctions only: use harmonic or chaining.")
    if len(model.graph.schema.types) > 1:
        raise InputError("The solver naive knows no types: use harmonic.")
    parts = [typed_parts(pattern, model.graph)[0] for pattern in patterns]
    batch = QueryBatch.of(model, patterns, parts, queries[0].targets[0])
    place = (
        model.entities.lookup(batch.entities.flatten())
        .flatten(1)
        .unflatten(0, (len(queries), -1))
        .sum(1)
    )
    for edges in batch.edges.T:
        z = model.translation(edges)
        assert z is not None
        place = place + z.flatten(1)
    table = model.pool(0, "tail").candidates.flat
    return torch.cdist(place, table).square()
