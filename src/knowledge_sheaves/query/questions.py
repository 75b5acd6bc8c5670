"""How likely an answer to a question of several edges is right, by questions that were drawn.

The probability is fitted to what became of such answers on held-out facts. It knows the score that
the solver gave, how many new answers come before, the score of the second new answer (who leads by
far is right more often), how well missing facts of the question's relations are found, how often
the answer stands in known facts at the place that is asked for, and what became of other questions
of the same shape and with the same relations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logit

from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.graph.schema import Schema
from knowledge_sheaves.query.pattern import Edge, Query, Variable
from knowledge_sheaves.query.solvers.base import Solver
from knowledge_sheaves.ranking.logistic import Additive, Kinds
from knowledge_sheaves.ranking.ranker import FloatArray
from knowledge_sheaves.ranking.shares import AHEAD
from knowledge_sheaves.ranking.trust import (
    FEW,
    Record,
    Trust,
    least_weights,
    pieces,
    understood,
)

QUESTIONS = "questions"
SCORE = -30.0
"""The logarithm of a score that counts as none."""
TOLD = 2 * 2
"""How many numbers say how well relations are found: first and among ten, at the target or not."""
DOUBT = 10.0
"""As how many held-out facts of a relation those of all relations count."""
LEADS = 0.0, 1.0, 4.0
"""Between which logarithms a lead over the second counts by one weight."""
SURE = 0.01, 0.99
"""Between which shares facts are found: some of few never were, or always."""


def signature(query: Query) -> str:
    """What questions have in common that are calibrated together: branches, edges, unknowns."""
    parts = [part for pattern in query.patterns for part in pattern.walk()]
    edges = sum(len(part.edges) for part in parts)
    inner = {v for part in parts for v in part.variables} - set(query.targets)
    negated = sum(len(pattern.without) for pattern in query.patterns)
    return f"{len(query.patterns)} branch, {edges} edge, {len(inner)} unknown, {negated} not"


def kinds(query: Query, schema: Schema) -> tuple[str, ...]:
    """What a question has in common with others: its shape, each of its relations, all of them.

    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "c")])
    >>> query = Query.from_triples([("a", "r", "?y"), ("?y", "s", "?x")], "?x", graph)
    >>> for kind in kinds(query, graph.schema):
    ...     print(kind)
    1 branch, 2 edge, 1 unknown, 0 not
    r: tail
    s: tail, answer
    r: tail & s: tail, answer
    """
    edges = sorted(
        f"{schema.relation_names[edge.relation]}: {_side(edge, query) or 'both'}"
        + ", answer" * any(term in query.targets for term in edge.terms)
        for pattern in query.patterns
        for edge in pattern.edges
    )
    return (signature(query), *edges, *([" & ".join(edges)] if len(edges) > 1 else []))


def log_scores(scores: npt.ArrayLike) -> FloatArray:
    """Logarithms of scores, none below that of none."""
    found: FloatArray = np.log(np.maximum(np.asarray(scores, np.float64), np.exp(SCORE)))
    return found


def features(
    logs: FloatArray,
    ahead: npt.ArrayLike,
    second: npt.ArrayLike,
    told: npt.ArrayLike,
    familiar: npt.ArrayLike,
) -> FloatArray:
    """What the probability of answers is made of, a row each.

    Their scores, in pieces; their places; the score of the second new answer to the same question,
    in pieces, and how far they lead it; what is `told` of its relations; how `familiar` they are
    there.
    """
    place = -np.log1p(np.minimum(np.asarray(ahead), AHEAD))
    rival = np.broadcast_to(np.asarray(second), len(logs))
    leads = [np.clip(logs - rival, low, high) for low, high in pairwise(LEADS)]
    rest = np.broadcast_to(np.asarray(told), (len(logs), TOLD))
    return np.column_stack([pieces(logs), place, pieces(rival), *leads, rest, familiar])


RISING = least_weights(1)
"""The least weights of the first features: neither a better score nor a better place is worse."""
WEIGHTS = 1 + features(np.zeros(1), 0, 0.0, np.zeros(TOLD), np.zeros(1)).shape[1]
"""How many weights that takes: a common one, and one for each feature."""


def familiar(graph: KnowledgeGraph, query: Query, answers: IntArray) -> FloatArray:
    """How often answers stand in known facts where the question asks for them.

    The logarithm of 1 and the number of facts, the mean over the edges at the targets. ``answers``
    has a row for each and a column for each target.

    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("c", "r", "b"), ("b", "s", "c")])
    >>> query = Query.from_triples([("a", "r", "?x")], "?x", graph)
    >>> np.expm1(familiar(graph, query, np.array([[0], [1]]))).round(1).tolist()
    [0.0, 2.0]
    """
    facts, found = graph.closed.by_name, []
    ids = {target: answers[:, place] for place, target in enumerate(query.targets)}
    for edge in (edge for pattern in query.patterns for edge in pattern.edges):
        if edge.head in query.targets:
            found.append(facts.out_degree(ids[edge.head], int(edge.relation)))
        if edge.tail in query.targets:
            found.append(facts.in_degree(int(edge.relation), ids[edge.tail]))
    return np.mean([np.log1p(counts) for counts in found], axis=0)


def told(trust: Trust | None, schema: Schema, query: Query) -> FloatArray:
    """How well missing facts of a question's relations are found, as log-odds against all facts.

    First and among the first ten, the mean over the edges at the target and over the others. What
    is not known, or not there, is as all facts are: 0.
    """
    found = np.zeros((2, 2))
    if trust is not None:
        edges = [edge for pattern in query.patterns for edge in pattern.edges]
        for place, at_target in enumerate((True, False)):
            mine = [e for e in edges if at_target == any(t in query.targets for t in e.terms)]
            odds = [_odds(trust, schema.relation_names[e.relation], _side(e, query)) for e in mine]
            if odds:
                found[place] = np.mean(odds, axis=0)
    return found.ravel()


def _side(edge: Edge, query: Query) -> str | None:
    """Which end of an edge is looked for: the target, or else what is no entity; None for both."""
    wanted = [term in query.targets for term in edge.terms]
    if not any(wanted):
        wanted = [isinstance(term, Variable) for term in edge.terms]
    return None if wanted[0] == wanted[1] else "head" if wanted[0] else "tail"


def _odds(trust: Trust, relation: str, side: str | None) -> list[float]:
    own = trust.relations.get(relation, Record(0))
    count, out = own.size_of(side), []
    for first in (1, 10):
        usual = trust.overall.found(first, side)
        share = (own.found(first, side) * count + DOUBT * usual) / (count + DOUBT)
        out.append(float(logit(np.clip(share, *SURE)) - logit(np.clip(usual, *SURE))))
    return out


@dataclass(frozen=True)
class QuestionTrust:
    """From scores to probabilities, fitted on questions for one way to answer (``choices``)."""

    choices: Mapping[str, Any]
    fit: Additive
    overall: Record
    shapes: Mapping[str, Record]

    def __call__(self, rows: FloatArray, kinds: Kinds) -> FloatArray:
        """The probabilities of answers with these `features`, to questions of these `kinds`."""
        return self.fit(rows, kinds)

    def record(self, query: Query) -> Record | None:
        """What was measured of questions like this, where there were enough."""
        found = self.shapes.get(signature(query))
        return found if found is not None and found.count >= FEW else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "choices": dict(self.choices),
            "weights": list(self.fit.weights),
            "shifts": {kind: round(shift, 4) for kind, shift in self.fit.shifts.items()},
            "own": {kind: list(weights) for kind, weights in self.fit.own.items()},
            "all": self.overall.to_dict(),
            "shapes": {name: each.to_dict() for name, each in self.shapes.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> QuestionTrust:
        """From plain data; what does not fit is an error."""
        with understood():
            return cls(
                dict(data["choices"]),
                Additive(
                    tuple(map(float, data["weights"])),
                    {str(kind): float(shift) for kind, shift in data["shifts"].items()},
                    {str(kind): tuple(map(float, own)) for kind, own in data["own"].items()},
                ),
                Record.from_dict(data["all"]),
                {str(name): Record.from_dict(each) for name, each in data["shapes"].items()},
            )


def question_trust(solver: Solver) -> QuestionTrust | None:
    """What was measured of questions for this way to answer; None where it was another."""
    info = solver.model.info
    kept = {} if info is None else info.trust.get(QUESTIONS, {})
    if not kept or not are_current(kept) or solver.name not in kept:
        return None
    kept = kept[solver.name]
    found = solver.model.keep(("questions", id(kept)), lambda: QuestionTrust.from_dict(kept))
    return found if _meant(found.choices) == _meant(solver.choices) else None


def are_current(kept: Any) -> bool:
    """Whether what was measured of questions is of this version: others fitted something else."""
    return isinstance(kept, Mapping) and all(map(_is_current, kept.values()))


def _is_current(kept: Any) -> bool:
    if not isinstance(kept, Mapping) or not {"weights", "shifts", "own"} <= kept.keys():
        return False
    return isinstance(kept["weights"], list) and len(kept["weights"]) == WEIGHTS


def _meant(choices: Mapping[str, Any]) -> dict[str, Any]:
    """What scores depend on: not how the best of them are found."""
    return {name: choice for name, choice in choices.items() if name != "search"}
