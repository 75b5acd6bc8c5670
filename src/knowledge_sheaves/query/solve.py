"""Solvers by name: every one takes queries and a model, and returns answers in one form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.answers import Answers, alike, by_shape, top
from knowledge_sheaves.query.budget import Limits
from knowledge_sheaves.query.facts.symbolic import answers as symbolic_answers
from knowledge_sheaves.query.options import SOLVERS as SOLVERS
from knowledge_sheaves.query.options import Options as Options
from knowledge_sheaves.query.options import Settled as Settled
from knowledge_sheaves.query.options import Wanted as Wanted
from knowledge_sheaves.query.options import settle as settle
from knowledge_sheaves.query.pattern import Query
from knowledge_sheaves.query.solvers.chaining.rows import slices
from knowledge_sheaves.query.solvers.chaining.solver import Chaining
from knowledge_sheaves.query.solvers.harmonic.forms import QueryBatch
from knowledge_sheaves.query.solvers.harmonic.joint import (
    COMBINATIONS,
    Combinations,
    best_combinations,
)
from knowledge_sheaves.query.solvers.harmonic.solver import harmonic_scores
from knowledge_sheaves.query.solvers.naive import naive_energies
from knowledge_sheaves.query.temperature import QUERY_TAU as QUERY_TAU
from knowledge_sheaves.query.typing import typed_parts

ROWS_A_QUERY = 8
"""How many numbers for every entity answering one query takes, with what lies between."""
MOST_KNOWN = 1_000
"""Among how many combinations that are known already new ones are looked for."""


@torch.no_grad()
def answer(
    model: SheafEmbedding,
    queries: Query | Sequence[Query],
    options: Options | None = None,
    wanted: Wanted | None = None,
) -> list[Answers]:
    """Answer queries, those of one shape together; the list has one entry per query.

    Several targets are ranked jointly: see `Chaining.combinations`, and `joint` for `harmonic`.
    """
    options, wanted = settle(model, options), wanted or Wanted()
    limits = options.limits()
    asked = [queries] if isinstance(queries, Query) else list(queries)
    out: list[Answers | None] = [None] * len(asked)
    number = next(model.entities.parameters()).dtype.itemsize
    together = limits.fit(ROWS_A_QUERY * number * model.graph.num_entities)
    for members in by_shape(asked).values():
        for part in slices(len(members), together):
            limits.check_time()
            group = [asked[i] for i in members[part]]
            find = _answer_group if len(group[0].targets) == 1 else _answer_jointly
            found = find(model, group, options, wanted, limits)
            for place, each in zip(members[part], found, strict=True):
                out[place] = each
    return [found for found in out if found is not None]


def _answer_group(
    model: SheafEmbedding,
    queries: list[Query],
    options: Settled,
    wanted: Wanted,
    limits: Limits,
) -> list[Answers]:
    energies, chances = scores(model, queries, options, limits=limits)
    known = symbolic_answers(model.graph, queries)
    _exclude(energies, model, wanted, known)
    values, ids = top(energies, wanted.top)
    notes = (*model.config.notes, *(options.notes if chances is not None else ()))
    results = []
    for row, query in enumerate(queries):
        finite = values[row].isfinite()
        chosen = ids[row][finite]
        facts = np.asarray(known[row])
        results.append(
            Answers(
                query,
                model.graph,
                options.solver,
                chosen.unsqueeze(1),
                values[row][finite],
                None if chances is None else chances[row][chosen],
                torch.from_numpy(np.isin(chosen.numpy(), facts)),
                notes,
            )
        )
    return results


def scores(
    model: SheafEmbedding,
    queries: Sequence[Query],
    options: Options,
    chances: bool = True,
    limits: Limits | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Energies (queries, entities) of queries of one shape, lower first, and probabilities.

    Energies are those of the solver where it has one pattern to minimise, and −log p where
    probabilities of several branches were combined. Who only ranks can do without ``chances``.
    """
    options = settle(model, options)
    limits = limits or options.limits()
    if len(queries[0].targets) > 1:
        raise InputError("Several targets have no single list of scores: use answer.")
    queries = alike(queries)
    if options.solver == "naive":
        limits.check_time()
        return naive_energies(model, queries), None
    if options.solver == "harmonic":
        return harmonic_scores(model, queries, options, limits, chances)
    logs = chaining_solver(model, options, limits).log_probabilities(queries)
    # 0, not -0, for what is certain.
    return 0.0 - logs, logs.exp() if chances else None


def chaining_solver(model: SheafEmbedding, options: Settled, limits: Limits) -> Chaining:
    """Chaining as the options have it, in the time that is left."""
    return Chaining(
        model,
        k=options.k,
        facts=options.facts,
        kappa=options.kappa,
        softness=options.softness,
        focus=options.focus,
        tau=options.tau,
        memory_limit=limits.memory,
        time_limit=limits.seconds,
    )


def _excluded(model: SheafEmbedding, wanted: Wanted) -> Tensor:
    """Which entities were not asked for."""
    columns = torch.zeros(model.graph.num_entities, dtype=torch.bool)
    if wanted.allow is not None:
        columns[:] = True
        columns[sorted(wanted.allow)] = False
    if wanted.deny:
        columns[sorted(wanted.deny)] = True
    if wanted.kind is not None:
        columns |= torch.from_numpy(model.graph.entity_types != wanted.kind)
    return columns


def _exclude(
    energies: Tensor, model: SheafEmbedding, wanted: Wanted, known: Iterable[np.ndarray]
) -> None:
    """Answers that were not asked for."""
    energies[:, _excluded(model, wanted)] = torch.inf
    if wanted.only_new:
        for row, facts in enumerate(known):
            energies[row, torch.from_numpy(np.asarray(facts, dtype=np.int64))] = torch.inf


# Several targets.


def _answer_jointly(
    model: SheafEmbedding,
    queries: list[Query],
    options: Settled,
    wanted: Wanted,
    limits: Limits,
) -> list[Answers]:
    """Combinations of entities: filters hold for each of them."""
    known = symbolic_answers(model.graph, queries)
    count = wanted.top
    if wanted.only_new:
        count += min(MOST_KNOWN, int(known.counts.max(initial=0)))
    allowed = ~_excluded(model, wanted)
    if options.solver == "chaining":
        solver = chaining_solver(model, options, limits)
        found = solver.combinations(queries, count, None if allowed.all() else allowed)
    else:
        found = [_extend_jointly(model, q, options, count, allowed, limits) for q in queries]
    return [
        _joint_answers(model, query, options, wanted, found[row], known[row])
        for row, query in enumerate(queries)
    ]


def _extend_jointly(
    model: SheafEmbedding,
    query: Query,
    options: Settled,
    count: int,
    allowed: Tensor,
    limits: Limits,
) -> Combinations:
    """The best combinations by harmonic energy, of all readings of a conjunction."""
    pattern = query.patterns[0]
    conditions = pattern.without or pattern.bindings or pattern.different
    if options.solver != "harmonic" or len(query.patterns) > 1 or conditions:
        raise InputError(
            "Several targets are ranked jointly by the solver harmonic for one conjunction without "
            "negation, VALUES and !=: use the solver chaining."
        )
    parts = []
    for reading in typed_parts(pattern, model.graph):
        batch = QueryBatch.of(model, [pattern], [reading], query.targets[-1])
        parts += best_combinations(
            model, batch, query.targets, count, options.lift, options.strength, allowed, limits
        )
    energies = torch.cat([part.energies for part in parts])
    order = energies.argsort()[:count]
    ids = torch.cat([part.ids for part in parts])[order]
    return Combinations(ids, energies[order], all(part.exact for part in parts))


def _joint_answers(
    model: SheafEmbedding,
    query: Query,
    options: Settled,
    wanted: Wanted,
    found: Combinations,
    facts: np.ndarray,
) -> Answers:
    held = set(map(tuple, facts.tolist()))
    known = torch.tensor([tuple(row) in held for row in found.ids.tolist()], dtype=torch.bool)
    keep = (~known if wanted.only_new else torch.ones_like(known)).nonzero().squeeze(1)
    keep = keep[: wanted.top]
    energies = found.energies[keep]
    chained = options.solver == "chaining"
    notes = [*model.config.notes, *(options.notes if chained else ())]
    notes += _joint_notes(query, found, chained)
    chances = torch.exp(-energies) if chained else None
    return Answers(
        query,
        model.graph,
        options.solver,
        found.ids[keep],
        energies,
        chances,
        known[keep],
        tuple(notes),
    )


def _joint_notes(query: Query, found: Combinations, chained: bool) -> list[str]:
    """Whether combinations may have been missed, where that is not the same for all queries."""
    if chained and (len(query.patterns) == 1 or found.exact):
        return []
    if chained:
        return ["Candidates were cut to the best combinations of each alternative."]
    if found.exact:
        return ["No combination was missed: all others have more energy."]
    return [f"Candidates were cut to the best of each target, {COMBINATIONS:,} combinations."]
