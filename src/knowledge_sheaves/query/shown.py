"""The probabilities that answers are shown with, and how far to trust them.

A question of one edge asks for triples, and a triple has one probability, whichever way it is
asked for (`ranking.trust`). An answer of a larger question is shown with what became of such scores
on questions that were drawn from held-out facts. Neither ever changes the order of answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.known import false_facts
from knowledge_sheaves.embedding.loops import irreflexive
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import IntArray
from knowledge_sheaves.graph.labels import quoted
from knowledge_sheaves.query.answers import Answers
from knowledge_sheaves.query.explanation import Against, Explanation, Reason
from knowledge_sheaves.query.pattern import Edge, Query, Variable
from knowledge_sheaves.query.questions import (
    familiar,
    features,
    kinds,
    log_scores,
    question_trust,
    told,
)
from knowledge_sheaves.query.solvers.base import IGNORED, Solver, grounded
from knowledge_sheaves.ranking.ranker import FloatArray
from knowledge_sheaves.ranking.temperature import TAU, temperature
from knowledge_sheaves.ranking.trust import (
    UNLEARNED,
    UNMEASURED,
    triple_probabilities,
    trust_of,
)
from knowledge_sheaves.ranking.words import (
    Cover,
    cover_relation,
    said_of_questions,
    said_of_relation,
    said_of_second,
)


def only_edge(query: Query) -> Edge | None:
    """The edge of a question that asks for triples and nothing else, with entities or targets."""
    if len(query.patterns) != 1 or query.patterns[0].without:
        return None
    edges = grounded(query.patterns[0], query.targets).edges
    if len(edges) != 1:
        return None
    variables = [term for term in edges[0].terms if isinstance(term, Variable)]
    return edges[0] if all(variable in query.targets for variable in variables) else None


def as_shown(solver: Solver, answers: Answers) -> Answers:
    """The answers with the probabilities that they are shown with; their order stays."""
    if answers.probabilities is None or not len(answers):
        return answers
    raw, edge = answers.probabilities, only_edge(answers.query)
    measured = True
    if edge is not None:
        triples, measured = (
            _triples(solver.model, answers, edge),
            trust_of(solver.model) is not None,
        )
        found = triple_probabilities(solver.model, triples, _told(solver))
        p = torch.from_numpy(found).to(raw.dtype)
    else:
        fitted, p = question_trust(solver), raw
        measured = fitted is not None
        if fitted is not None:
            rows = _features(solver.model, answers, raw)
            found = fitted(rows, [kinds(answers.query, solver.model.graph.schema)] * len(rows))
            p = torch.from_numpy(found).to(raw.dtype)
    certain = raw >= 1  # remembered facts alone are, and what they answer
    if answers.known is not None and solver.choices.get("facts") != IGNORED:
        certain = certain | answers.known
    p = torch.where(certain, 1.0, p.clamp(max=1 - 1e-4))
    notes = () if measured or solver.notes else (UNMEASURED,)
    shown = replace(answers, probabilities=p, scores=raw, notes=(*answers.notes, *notes))
    return replace(shown, trust=_sentence(solver, shown)) if measured else shown


def _features(model: SheafEmbedding, answers: Answers, raw: Tensor) -> FloatArray:
    ahead = np.arange(len(raw)) if answers.ahead is None else answers.ahead.numpy()
    logs, second = log_scores(raw.double().numpy()), log_scores(answers.second)
    relations = told(trust_of(model), model.graph.schema, answers.query)
    there = familiar(model.graph, answers.query, answers.ids.numpy())
    return features(logs, ahead, second, relations, there)


def _sentence(solver: Solver, answers: Answers) -> str:
    """How far to trust the best of the answers that is no known fact."""
    assert answers.probabilities is not None, "asked for only where there are some"
    new = answers.probabilities[answers.probabilities < 1]
    best = float(new[0]) if len(new) else None
    edge, trust = only_edge(answers.query), trust_of(solver.model)
    if edge is not None and trust is not None:
        name, side = solver.model.graph.schema.labelled_names[edge.relation], _side(edge)
        told = [said_of_relation(trust, name, best, side)]
        if best is not None and answers.has_known and side is not None:
            told.append(said_of_second(solver.facts.graph, name, side))
        return " ".join(filter(None, told))
    fitted = question_trust(solver)
    assert fitted is not None, "measured"
    told = [said_of_questions(fitted.record(answers.query), best)]
    told += [
        said_of_relation(trust, name, None)
        for name in _relations(solver.model, answers.query)
        if trust is not None
        and (record := trust.record(name)) is not None
        and record.found() < UNLEARNED
    ]
    return " ".join(told)


def _side(edge: Edge) -> str | None:
    """Which end a question of one edge asks for; None where it asks for both."""
    asked = [isinstance(term, Variable) for term in edge.terms]
    return None if all(asked) else "head" if asked[0] else "tail"


def _relations(model: SheafEmbedding, query: Query) -> list[str]:
    parts = [part for pattern in query.patterns for part in pattern.walk()]
    places = {int(edge.relation) for part in parts for edge in part.edges}
    return [model.graph.schema.labelled_names[place] for place in sorted(places)]


def cover(solver: Solver, query: Query, coverage: float) -> Cover:
    """How many first new answers of a question hold the missing one so often."""
    if not 0 < coverage < 1:
        raise InputError(f"A coverage is a share between 0 and 1, such as 0.9, not {coverage!r}.")
    edge, trust = only_edge(query), trust_of(solver.model)
    if edge is not None and trust is not None:
        name = solver.model.graph.schema.labelled_names[edge.relation]
        return cover_relation(trust, name, coverage, _side(edge))
    fitted = None if edge is not None else question_trust(solver)
    record = None if fitted is None else fitted.record(query)
    if record is None:
        return Cover(coverage, None, "")
    return Cover(coverage, record.size(coverage), f"{record.count:,} questions like this")


def fact_chances(
    solver: Solver, head: int, relation: int, tails: Sequence[int], scores: Tensor
) -> list[float]:
    """The probabilities of facts that were asked for with others, with what a solver scored them.

    What is certain stays so, and what cannot be.
    """
    ends = np.full(len(tails), head), np.asarray(tails, np.int64)
    triples = _of_types(solver.model, ends[0], relation, ends[1])
    own = triple_probabilities(solver.model, triples, _told(solver)).tolist()
    pairs = zip(scores.tolist(), own, strict=True)
    return [raw if raw >= 1 or raw <= 0 else p for raw, p in pairs]


def _told(solver: Solver) -> float | None:
    """The temperature that somebody asked for, where it is not the model's own."""
    told = getattr(solver.settings, TAU, None)
    own = solver.Settings.stored(solver.model).get(TAU, temperature(solver.model).value)
    return None if told == own else told


def _triples(model: SheafEmbedding, answers: Answers, edge: Edge) -> IntArray:
    """The triples that answers of one edge are: head, edge of the schema, tail."""
    columns = {v: answers.ids[:, i].numpy() for i, v in enumerate(answers.query.targets)}
    heads, tails = (
        columns[term] if isinstance(term, Variable) else np.full(len(answers), int(term))
        for term in edge.terms
    )
    return _of_types(model, heads, int(edge.relation), tails)


def _of_types(model: SheafEmbedding, heads: IntArray, relation: int, tails: IntArray) -> IntArray:
    schema, kinds = model.graph.schema, model.graph.entity_types
    names = [schema.relation_names[relation]] * len(heads)
    return np.stack([heads, schema.find_edges(names, kinds[heads], kinds[tails]), tails], 1)


def ruled_out(model: SheafEmbedding, query: Query) -> str | None:
    """Why something that was asked cannot be, where one of its facts is known not to be."""
    if len(query.patterns) != 1:
        return None
    false = false_facts(model)
    for edge in grounded(query.patterns[0], ()).edges:
        if any(isinstance(term, Variable) for term in edge.terms):
            continue
        head, relation, tail = int(edge.head), int(edge.relation), int(edge.tail)
        if false is not None and false.by_name.contains([[head, relation, tail]])[0]:
            return "it is known to be false"
        if head == tail and not model.config.loops and irreflexive(model.graph)[relation]:
            name = model.graph.schema.labelled_names[relation]
            return f"no known fact relates something to itself by {quoted(name)}"
    return None


# Reasons.


def as_shown_reasons(
    solver: Solver, answers: Answers, reasons: Sequence[Explanation]
) -> list[Explanation]:
    """The reasons of the first answers; those of a solver's own answers stay as they are."""
    if answers.scores is None or answers.probabilities is None:
        return list(reasons)
    shown = answers.probabilities[: len(reasons)].tolist()
    return [_with_own(solver, *each) for each in zip(reasons, shown, strict=True)]


def _with_own(solver: Solver, explanation: Explanation, shown: float | None) -> Explanation:
    """Reasons with the probability that each triple has by itself, and that of the answer."""
    parts = tuple(Against(_with_own(solver, a.part, None), a.left) for a in explanation.against)
    reasons = tuple(_own(solver, reason) for reason in explanation.reasons)
    return replace(explanation, reasons=reasons, against=parts, shown=shown)


def _own(solver: Solver, reason: Reason) -> Reason:
    graph = solver.model.graph
    if reason.probability is None or reason.head not in graph.entities:
        return reason
    if reason.known and reason.probability >= 1:
        return reason
    ends = (np.array([graph.entities.id(name)]) for name in (reason.head, reason.tail))
    head, tail = ends
    triple = _of_types(solver.model, head, int(reason.edge.relation), tail)
    return replace(reason, probability=float(triple_probabilities(solver.model, triple)[0]))
