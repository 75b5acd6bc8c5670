"""Harmonic answers: one pattern by its energy, several by the probabilities of their branches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.probability import EPSILON, probabilities
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.budget import Limits
from knowledge_sheaves.query.facts.symbolic import answers as symbolic_answers
from knowledge_sheaves.query.options import Settled
from knowledge_sheaves.query.pattern import Pattern, Query
from knowledge_sheaves.query.solvers.harmonic.forms import QueryBatch, target_energies
from knowledge_sheaves.query.typing import typed_parts


def harmonic_scores(
    model: SheafEmbedding,
    queries: Sequence[Query],
    options: Settled,
    limits: Limits,
    chances: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Energies (queries, entities) and probabilities of queries of one shape.

    One pattern ranks by its energy and needs no temperature; without one it has no probabilities.
    """
    _refuse_negated_unknowns(queries[0])
    target, count = queries[0].targets[0], len(queries[0].patterns)
    branches = [[query.patterns[i] for query in queries] for i in range(count)]
    if count == 1 and not branches[0][0].without:
        energies = pattern_energies(model, branches[0], target, options, limits)
        if not chances or not options.tempered:
            return energies, None
        return energies, _chances(model, branches[0], energies, target, options, limits)
    misses = []
    for patterns in branches:
        energies = pattern_energies(model, patterns, target, options, limits)
        misses.append(1 - _chances(model, patterns, energies, target, options, limits))
    together = 1 - torch.stack(misses).prod(0)
    return -torch.log(together), together


def _chances(
    model: SheafEmbedding,
    patterns: Sequence[Pattern],
    values: Tensor,
    target: str,
    options: Settled,
    limits: Limits,
) -> Tensor:
    """The probability of every entity under a pattern: its energy's, less what is negated."""
    positive = [Pattern(p.edges, (), p.different, p.bindings) for p in patterns]
    counts = symbolic_answers(model.graph, [Query((target,), (p,)) for p in positive]).counts
    tau = options.tau * stiffness(model, patterns[0])
    chances = probabilities(values, torch.from_numpy(np.asarray(counts)), tau)
    for place in range(len(patterns[0].without)):
        inner = [p.without[place] for p in patterns]
        energies = pattern_energies(model, inner, target, options, limits)
        denied = _chances(model, inner, energies, target, options, limits)
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
    model: SheafEmbedding,
    patterns: Sequence[Pattern],
    target: str,
    options: Settled,
    limits: Limits,
) -> Tensor:
    """The least energy of every entity as the target, infinite where types rule it out."""
    out: Tensor | None = None
    readings: dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]] = {}
    for row, pattern in enumerate(patterns):
        for parts in typed_parts(pattern, model.graph):
            kinds = tuple(int(k) for part in parts for k in model.edge_types[part])
            readings.setdefault(kinds, []).append((row, parts))
    for members in readings.values():
        limits.check_time()
        batch = QueryBatch.of(
            model, [patterns[row] for row, _ in members], [parts for _, parts in members], target
        )
        values = target_energies(model, batch, target, options.lift, options.strength, limits)
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
