"""Measure how far a model's answers can be trusted, on facts and on questions held out.

All of it comes from validation facts and from the model that never saw them; test facts stay
unseen, to tell whether what was measured holds (`evaluation.reliability`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.folder import TRUST
from knowledge_sheaves.embedding.storage import dataset_of, measured, save_metrics
from knowledge_sheaves.evaluation.betae import TypeQueries
from knowledge_sheaves.evaluation.queries import take, union
from knowledge_sheaves.evaluation.trials import DRAWN, sizes, trials
from knowledge_sheaves.graph import BoolArray, IntArray, KnowledgeGraph
from knowledge_sheaves.query.asking import queries_at_once, scores_of
from knowledge_sheaves.query.batches import by_shape, slices
from knowledge_sheaves.query.facts.symbolic import answers
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.query.pattern import Entity, Query, Term
from knowledge_sheaves.query.questions import (
    QUESTIONS,
    RISING,
    WEIGHTS,
    QuestionTrust,
    familiar,
    features,
    kinds,
    log_scores,
    signature,
    told,
)
from knowledge_sheaves.query.solvers.base import Scores
from knowledge_sheaves.ranking import rank_among
from knowledge_sheaves.ranking.logistic import Additive, bins, halves
from knowledge_sheaves.ranking.proposals import FIRST
from knowledge_sheaves.ranking.ranker import FloatArray, Lists, to_index
from knowledge_sheaves.ranking.trust import (
    FACTS,
    FEW,
    Record,
    Trust,
    measure_facts,
)

UNANSWERABLE = 40
"""Of how many questions one has no answer at all.

By the scores of others alone, the best of answers that are all absurd would lead by far.
"""
FIRST_COUNTS = 8.0
"""How often the first answer to a question counts in the fit: chosen on validation facts."""


class Examples(NamedTuple):
    """Answers: what their probabilities are made of, which are right, their places and kinds."""

    rows: FloatArray
    right: BoolArray
    places: IntArray
    kinds: Sequence[tuple[str, ...]]

    def where(self, chosen: BoolArray) -> Examples:
        """Some of them."""
        kinds = [kind for kind, mine in zip(self.kinds, chosen.tolist(), strict=True) if mine]
        return Examples(self.rows[chosen], self.right[chosen], self.places[chosen], kinds)


class Asked:
    """The first answers to questions, known ones left out: their scores, and which are right."""

    def __init__(self, trust: Trust | None) -> None:
        self.trust = trust
        self.scores: list[FloatArray] = []
        self.rows: list[FloatArray] = []
        self.right: list[Any] = []
        self.shapes: list[str] = []
        self.kinds: list[tuple[str, ...]] = []
        self.questions: list[int] = []
        self.places: list[Any] = []
        self.ranks: dict[str, list[int]] = {}
        self.asked: dict[str, int] = {}

    def add(
        self, found: Any, queries: Sequence[Query], graph: KnowledgeGraph, scores: Scores
    ) -> None:
        """Questions of one shape with all their scores; ``found`` are easy and hard answers."""
        energies, chances = scores
        assert chances is not None, "asked for"
        easy, hard = found
        known, shape = Lists.of(easy), signature(queries[0])
        ranks = rank_among(energies, Lists.of(hard), known).pessimistic
        self.ranks.setdefault(shape, []).extend(ranks.tolist())
        energies[to_index(known.rows, energies), to_index(known.ids, energies)] = torch.inf
        best = energies.topk(min(FIRST, energies.shape[1]), dim=1, largest=False)
        true = torch.zeros_like(energies, dtype=torch.bool)
        mine = Lists.of(hard)
        true[to_index(mine.rows, energies), to_index(mine.ids, energies)] = True
        there = best.values.isfinite()
        start = sum(self.asked.values())
        rows, places = np.nonzero(there.cpu().numpy())
        p = torch.where(there, chances.gather(1, best.indices), 0).double().cpu().numpy()
        several = there.sum(1).cpu().numpy() > 1
        second = np.where(several, p[:, :2][:, -1], p[:, 0])  # who stands alone is its own second
        relations = np.array([told(self.trust, graph.schema, query) for query in queries])
        ids = best.indices.cpu().numpy()[:, :, None]
        seen = np.stack([familiar(graph, *each) for each in zip(queries, ids, strict=True)])
        own = p[rows, places]
        ahead = (best.values[:, None] < best.values[:, :, None]).sum(2).cpu().numpy()[rows, places]
        self.scores.append(own)
        self.rows.append(
            features(
                *(log_scores(own), ahead, log_scores(second)[rows], relations[rows]),
                seen[rows, places],
            )
        )
        self.right.append(true.gather(1, best.indices)[there].cpu().numpy())
        self.shapes += [shape] * len(rows)
        mine_of = [kinds(query, graph.schema) for query in queries]
        self.kinds += [mine_of[row] for row in rows.tolist()]
        self.questions += (start + rows).tolist()
        self.places.append(places)
        self.asked[shape] = self.asked.get(shape, 0) + len(energies)

    @property
    def examples(self) -> Examples:
        """All of it, an answer each."""
        if not self.rows:
            empty = np.zeros(0, np.bool_)
            return Examples(np.zeros((0, WEIGHTS - 1)), empty, empty.astype(np.int64), [])
        rows, right, places = map(np.concatenate, (self.rows, self.right, self.places))
        return Examples(rows, right, places, self.kinds)


@torch.no_grad()
def ask(
    judge: SheafEmbedding,
    groups: Iterable[TypeQueries],
    facts: Trust | None,
    options: Options | None = None,
) -> Asked:
    """Ask drawn questions; what the solver refuses is left out.

    ``facts`` is what was measured of single facts, which says how well relations were learned.
    """
    solver = (options or Options()).start(judge, measures=True)
    out, size = Asked(facts), queries_at_once(judge, solver.budget)
    whole = dataset_of(judge).whole.train.closed
    for group in groups:
        for members in by_shape(group.queries).values():
            if solver.refusal(group.queries[members[0]]) is not None:
                continue
            for part in slices(len(members), size):
                places = np.array(members[part])
                queries = [group.queries[place] for place in places.tolist()]
                scores = scores_of(solver, queries)
                if scores.probabilities is not None:
                    hard = take(group.hard, places)
                    # What other held-out facts answer is true as well, and no answer here.
                    rest = answers(whole, queries).minus(hard)
                    found = union(take(group.easy, places), rest), hard
                    out.add(found, queries, judge.graph, scores)
    return out


def unanswerable(judge: SheafEmbedding, groups: Sequence[TypeQueries]) -> list[TypeQueries]:
    """Questions that no fact answers: some that were drawn, with the entities of others."""
    whole, found = dataset_of(judge).whole.train.closed, []
    for group in groups:
        most = -(-len(group) // UNANSWERABLE)
        # Some have answers after all.
        mixed = _with_others(group.queries, judge.graph)[:: max(1, UNANSWERABLE // 4)]
        true = answers(whole, mixed)
        absurd = np.flatnonzero(true.counts == 0)[:most]
        if len(absurd):
            none = take(true, absurd)
            kept = [mixed[place] for place in absurd.tolist()]
            found.append(TypeQueries(group.name, kept, none, none))
    return found


def _with_others(queries: Sequence[Query], graph: KnowledgeGraph) -> list[Query]:
    """Each question with the entities of another one, which are of the same types.

    What is ruled out by types is no answer at all, and nothing could be learned from it.
    """
    alike: dict[Any, list[Query]] = {}
    for query in queries:
        types = tuple(tuple(graph.types_of(entity)) for entity in _entities(query))
        alike.setdefault(types, []).append(query)
    return [
        _with_entities_of(query, mine[(place + len(mine) // 2) % len(mine)])
        for mine in alike.values()
        for place, query in enumerate(mine)
        if len(mine) > 1
    ]


def _with_entities_of(query: Query, other: Query) -> Query:
    places = dict(zip(_entities(query), _entities(other), strict=True))

    def new(term: Term) -> Term:
        return places.get(term, term) if isinstance(term, Entity) else term

    return query.map(new)


def _entities(query: Query) -> list[Entity]:
    parts = (part for pattern in query.patterns for part in pattern.walk())
    terms = (term for part in parts for edge in part.edges for term in edge.terms)
    return [term for term in terms if isinstance(term, Entity)]


Tell = Callable[[str, int, int], None]
"""Called with what is being measured, how many steps are done, and of how many."""


def _silent(what: str, done: int, of: int) -> None:
    pass


def measure_questions(
    judge: SheafEmbedding,
    facts: Trust | None,
    options: Options | None = None,
    tell: Tell = _silent,
) -> QuestionTrust | None:
    """Fit probabilities on questions drawn from validation facts; None where they are too few."""
    valid = dataset_of(judge).valid
    if valid is None or valid.num_triples < FEW:
        return None
    groups: list[TypeQueries] = []
    asked = ask(judge, _drawn(judge, groups, tell), facts, options)
    if not asked.rows:
        return None
    examples, half = asked.examples, halves(asked.questions)
    right = examples.right
    if not 0 < np.count_nonzero(right) < len(right):
        return None
    absurd = ask(judge, unanswerable(judge, groups), facts, options).examples
    fitted, shown = _fit(examples, absurd), np.full(len(right), right.mean())
    for mine in (half, ~half):
        if mine.any() and 0 < np.count_nonzero(right[~mine]) < np.count_nonzero(~mine):
            other = _fit(examples.where(~mine), absurd)
            shown[mine] = other(examples.rows[mine], examples.where(mine).kinds)
    shapes = np.array(asked.shapes)
    return QuestionTrust(
        (options or Options()).start(judge).choices,
        fitted,
        Record(len(half), tuple(bins(shown, right)), {"target": _sorted(asked.ranks.values())}),
        {
            name: Record(
                asked.asked[name],
                tuple(bins(shown[shapes == name], right[shapes == name], 5)),
                {"target": _sorted([asked.ranks[name]])},
            )
            for name in sorted(asked.asked)
        },
    )


def _drawn(judge: SheafEmbedding, groups: list[TypeQueries], tell: Tell) -> Iterator[TypeQueries]:
    """Questions type by type, each drawn when the one before has been asked."""
    asked = sizes(judge)
    for done, (name, count) in enumerate(asked.items(), start=1):
        tell(f"how far to trust answers to {name}", done, 1 + len(asked))
        for group in trials(judge, {name: count}):
            groups.append(group)
            yield group


def _fit(examples: Examples, absurd: Examples) -> Additive:
    """What is learned from questions, and from some without an answer."""
    rows, right, places = (
        np.concatenate(pair) for pair in zip(examples[:3], absurd[:3], strict=True)
    )
    times = np.where(places == 0, FIRST_COUNTS, 1.0)
    kinds = [*examples.kinds, *absurd.kinds]
    return Additive.fit(rows, right, kinds, FIRST + 1, RISING, times)  # of two questions at least


def _sorted(lists: Any) -> tuple[int, ...]:
    return tuple(sorted(rank for ranks in lists for rank in ranks))


def measure_trust(
    model: SheafEmbedding, *, questions: bool = True, tell: Tell = _silent
) -> dict[str, Any]:
    """Measure a model by the one that never saw its held-out facts, and let it keep the result.

    Nothing is kept of what too few facts were held out for.
    """
    judge, found = measured(model), dict[str, Any]()
    if model.info and judge.info:  # it is asked as the model is
        judge.info.calibration = dict(model.info.calibration)
    tell("how far to trust single facts", 0, 1 + len(DRAWN))
    facts = measure_facts(judge)
    if facts is not None:
        found[FACTS] = facts.to_dict()
    of_questions = measure_questions(judge, facts, tell=tell) if questions else None
    if of_questions is not None:
        found[QUESTIONS] = {of_questions.choices["solver"]: of_questions.to_dict()}
    if model.info is not None:
        model.info.trust = found
    return found


def keep_trust(
    model: SheafEmbedding, folder: Path, *, questions: bool = True, tell: Tell = _silent
) -> None:
    """Measure a model that lies in a folder, and write there what was found."""
    found = measure_trust(model, questions=questions, tell=tell)
    if found and model.info is not None:
        save_metrics(found, folder, model.info.generation, TRUST)
