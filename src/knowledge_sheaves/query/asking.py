"""Ask a model: in SPARQL, in the short form, or with a query made in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.beside import has_values
from knowledge_sheaves.embedding.known import ALL, known_graph
from knowledge_sheaves.embedding.numbers import are_moderate, check_scores
from knowledge_sheaves.embedding.search.top import top
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.graph.arrays import BoolArray
from knowledge_sheaves.graph.names import UnknownRelation
from knowledge_sheaves.query.answers import Answers, Wanted
from knowledge_sheaves.query.batches import alike, by_shape, slices
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.explanation import LIKELY, Explanation, likely
from knowledge_sheaves.query.first import First, first_of_all, is_known
from knowledge_sheaves.query.language import read
from knowledge_sheaves.query.language.sparql import ParsedQuery
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.query.pattern import Query, Variable
from knowledge_sheaves.query.questions import question_trust
from knowledge_sheaves.query.shown import as_shown, as_shown_reasons, cover, only_edge, ruled_out
from knowledge_sheaves.query.solvers.base import Combinations, Hidden, Scores, Solver
from knowledge_sheaves.ranking.shares import AHEAD
from knowledge_sheaves.ranking.words import Cover

TOP = 10
ROWS_A_QUERY = 8
"""How many numbers for every entity answering one query takes, with what lies between."""
MOST_COMBINATIONS = 10_000
"""How many combinations of several targets are looked for at the most."""
MOST_KNOWN = 1_000
"""Among how many combinations that are known already new ones are looked for."""
UNTOLD = "The facts hold too many ways to answer this to tell which answers are known."


@torch.no_grad()
def answer(
    model: SheafEmbedding,
    queries: Query | Sequence[Query],
    options: Options | None = None,
    wanted: Wanted | None = None,
    *,
    explain: int = 0,
    budget: Budget | None = None,
) -> list[Answers]:
    """Answer queries, those of one shape together; the list has one entry per query.

    Several targets are ranked jointly. The first ``explain`` answers of each query come with their
    reasons. All numbers are those of the solver; an `Asker` shows calibrated probabilities.
    """
    solver = (options or Options()).start(model, budget)
    asked = [queries] if isinstance(queries, Query) else list(queries)

    def finish(each: Answers) -> Answers:
        return _explained(solver, each, explain) if explain else each

    return _solve(solver, asked, wanted or Wanted(), finish)


def _solve(
    solver: Solver, asked: Sequence[Query], wanted: Wanted, finish: Callable[[Answers], Answers]
) -> list[Answers]:
    """The answers of queries, each finished while what its group was solved by is at hand."""
    out: list[Answers | None] = [None] * len(asked)
    for members in by_shape(asked).values():
        for part in slices(len(members), queries_at_once(solver.model, solver.budget)):
            found = _answer_group(solver, [asked[i] for i in members[part]], wanted)
            for place, each in zip(members[part], found, strict=True):
                out[place] = finish(each)
    return [found for found in out if found is not None]


def queries_at_once(model: SheafEmbedding, budget: Budget) -> int:
    """How many queries are answered together: a few numbers for every entity and query."""
    number = model.radius.dtype.itemsize
    return budget.fit(ROWS_A_QUERY * number * model.graph.num_entities)


def _answer_group(solver: Solver, queries: list[Query], wanted: Wanted) -> list[Answers]:
    solver.check(queries)
    if not wanted.top:  # LIMIT 0
        return [_no_answers(solver, query) for query in queries]
    facts = zip(queries, solver.facts.answers(queries), strict=True)
    known = [_of_types(solver.model, query, each) for query, each in facts]
    if wanted.only_new and any(facts is None for facts in known):
        raise InputError(f"{UNTOLD[:-1]}: ask for all answers, or raise the memory limit.")
    if len(queries[0].targets) > 1:
        return _answer_jointly(solver, queries, wanted, known)
    hidden = [_hidden(solver.model, wanted, *each) for each in zip(queries, known, strict=True)]
    # Only what is calibrated must know of new answers that are not wanted.
    calibrated = only_edge(queries[0]) is None and question_trust(solver) is not None
    first: list[First | None] = [None] * len(queries)
    best = solver.best(queries, max(wanted.top, AHEAD) if calibrated else wanted.top, hidden)
    if best is not None:
        if calibrated:
            first = _first_by_index(solver, queries, wanted, known, best)
        rows = zip(queries, best, known, first, strict=True)
        return [_answers(solver, *each).take(slice(wanted.top)) for each in rows]
    energies, chances = scores_of(solver, queries)
    if calibrated and chances is not None:
        first = [first_of_all(*each) for each in zip(energies, chances, known, strict=True)]
    _exclude(energies, solver.model, wanted, known)
    values, ids = top(energies, wanted.top)
    possible = energies.isfinite().sum(1).tolist()
    results = []
    for row, query in enumerate(queries):
        finite = values[row].isfinite()
        entities = ids[row][finite]
        p = None if chances is None else chances[row][entities]
        found = Combinations(entities.unsqueeze(1), values[row][finite], True, p)
        answers = _answers(solver, query, found, known[row], first[row])
        results.append(replace(answers, possible=possible[row]))
    return results


def _first_by_index(
    solver: Solver,
    queries: Sequence[Query],
    wanted: Wanted,
    known: Sequence[IntArray | None],
    best: Sequence[Combinations],
) -> list[First | None]:
    """The first new answers, found once more where filters or known ones may stand before them."""
    seen = [is_known(each, facts) for each, facts in zip(best, known, strict=True)]
    if not wanted.selects and all((~each).sum() > 1 for each in seen):
        return [None] * len(queries)
    new = Wanted(top=AHEAD, only_new=True)
    hidden = [_hidden(solver.model, new, *each) for each in zip(queries, known, strict=True)]
    found = solver.best(queries, AHEAD, hidden)
    assert found is not None, "it was found a moment ago"
    every = torch.ones(AHEAD, dtype=torch.bool)
    return [First.of(each, every[: len(each.ids)]) for each in found]


def _no_answers(solver: Solver, query: Query) -> Answers:
    ids = torch.zeros(0, len(query.targets), dtype=torch.long)
    return Answers(query, solver.model.graph, solver.name, ids, torch.zeros(0))


def _answer_jointly(
    solver: Solver, queries: list[Query], wanted: Wanted, known: Sequence[IntArray | None]
) -> list[Answers]:
    """Combinations of entities: filters hold for each of them."""
    count = min(wanted.top, MOST_COMBINATIONS)
    if wanted.only_new:
        count += min(MOST_KNOWN, max(0 if facts is None else len(facts) for facts in known))
    if solver.false is not None:
        count += min(MOST_KNOWN, solver.false.num_triples)
    allowed = ~_excluded(solver.model, wanted)
    found = solver.combinations(queries, count, None if allowed.all() else allowed)
    results = []
    for query, each, facts in zip(queries, found, known, strict=True):
        answers = _answers(solver, query, each, facts)
        keep = torch.ones(len(answers), dtype=torch.bool)
        if wanted.only_new and answers.known is not None:
            keep = ~answers.known
        if solver.false is not None:
            keep &= torch.from_numpy(~_falsified(query, answers.ids, solver.false))
        if count < wanted.top:
            cut = f"Of several targets at most {MOST_COMBINATIONS:,} combinations are looked for."
            answers = replace(answers, notes=(*answers.notes, cut))
        results.append(answers.take(keep.nonzero().squeeze(1)[: wanted.top]))
    return results


def _falsified(query: Query, ids: Tensor, false: KnowledgeGraph) -> BoolArray:
    """Which combinations make some edge of a conjunction a fact that is known to be false."""
    columns = dict(zip(query.targets, ids.T.numpy(), strict=True))
    out = np.zeros(len(ids), bool)
    if len(query.patterns) > 1:  # of a union another branch may hold; its solver knows
        return out
    for edge in query.patterns[0].edges:
        ends = [
            columns.get(term) if isinstance(term, Variable) else np.full(len(ids), int(term))
            for term in edge.terms
        ]
        if ends[0] is not None and ends[1] is not None:
            rows = np.stack([ends[0], np.full(len(ids), int(edge.relation)), ends[1]], 1)
            out |= false.by_name.contains(rows)
    return out


def _answers(
    solver: Solver,
    query: Query,
    found: Combinations,
    facts: IntArray | None,
    first: First | None = None,
) -> Answers:
    """Answers that were found; without ``first`` new ones are counted among them."""
    notes = [*solver.model.config.notes, *found.notes, *solver.remarks(query)]
    if found.probabilities is not None:
        notes += solver.notes
    if facts is None:
        notes.append(UNTOLD)
    p = None if found.probabilities is None else found.probabilities.cpu()
    known, energies = is_known(found, facts), found.energies.cpu()
    first = first or First.of(found, ~known)
    return Answers(
        *(query, solver.model.graph, solver.name, found.ids.cpu(), energies),
        *(p, None if facts is None else known, tuple(notes)),
        has_known=facts is not None and len(facts) > 0,
        ahead=(first.energies < energies[:, None]).sum(1),
        second=first.second,
    )


def _explained(solver: Solver, answers: Answers, count: int) -> Answers:
    return replace(answers, explanation=_reasons(solver, answers, count))


def _reasons(solver: Solver, answers: Answers, count: int) -> tuple[Explanation, ...]:
    found = [solver.explain(answers.query, ids) for ids in answers.ids[:count].tolist()]
    return tuple(as_shown_reasons(solver, answers, found))


def _of_types(model: SheafEmbedding, query: Query, facts: IntArray | None) -> IntArray | None:
    """What the facts answer, as far as it has the types that are asked for."""
    for _, kind in query.types:
        facts = None if facts is None else facts[model.graph.is_of_type(kind)[facts].reshape(-1)]
    return facts


def scores_of(solver: Solver, queries: Sequence[Query], chances: bool = True) -> Scores:
    """Scores of queries of one shape by a solver that has been started."""
    if len(queries[0].targets) > 1:
        raise InputError("Several targets have no single list of scores: use answer.")
    found = solver.scores(alike(queries), chances)
    if not are_moderate(solver.model):
        check_scores(solver.model, found.energies.amin(-1))  # a minimum is NaN if one value is
    for row, query in enumerate(queries):
        for _, kind in query.types:
            others = torch.from_numpy(~solver.model.graph.is_of_type(kind))
            found.energies[row, others.to(found.energies.device)] = torch.inf
            if found.probabilities is not None:
                found.probabilities[row, others.to(found.probabilities.device)] = 0.0
    return found


@torch.no_grad()
def scores(
    model: SheafEmbedding,
    queries: Sequence[Query],
    options: Options | None = None,
    chances: bool = True,
) -> Scores:
    """Energies (queries, entities) of queries of one shape, lower first, and probabilities.

    Energies are those of the solver where it has one pattern to minimise, and −log p where
    probabilities of several branches were combined. Who only ranks can do without ``chances``.
    This is what benchmarks rank by: known are the facts of training, unless the options say more.
    """
    return scores_of((options or Options()).start(model, measures=True), queries, chances)


def _hidden(model: SheafEmbedding, wanted: Wanted, query: Query, known: IntArray | None) -> Hidden:
    """Who is not to be shown as an answer of a query."""
    mask: Tensor | None = None
    ids = sorted(wanted.deny)
    if wanted.allow is not None or wanted.kind is not None:
        mask = _excluded(model, wanted)
    for _, kind in query.types:
        others = torch.from_numpy(~model.graph.is_of_type(kind)).to(model.device)
        mask = others if mask is None else mask | others
    if wanted.only_new and known is not None:
        ids += np.asarray(known, dtype=np.int64).ravel().tolist()
    return Hidden(mask, torch.tensor(ids, device=model.device) if ids else None)


def _excluded(model: SheafEmbedding, wanted: Wanted) -> Tensor:
    """Which entities were not asked for."""
    columns = torch.zeros(model.graph.num_entities, dtype=torch.bool, device=model.device)
    if wanted.allow is not None:
        columns[:] = True
        columns[sorted(wanted.allow)] = False
    if wanted.deny:
        columns[sorted(wanted.deny)] = True
    if wanted.kind is not None:
        columns |= torch.from_numpy(~model.graph.is_of_type(wanted.kind)).to(model.device)
    return columns


def _exclude(
    energies: Tensor, model: SheafEmbedding, wanted: Wanted, known: Sequence[IntArray | None]
) -> None:
    """Answers that were not asked for."""
    if wanted.selects:
        energies[:, _excluded(model, wanted)] = torch.inf
    if wanted.only_new:
        for row, facts in enumerate(known):
            if facts is not None:
                ids = torch.from_numpy(np.asarray(facts, dtype=np.int64))
                energies[row, ids.to(energies.device)] = torch.inf


@dataclass(frozen=True)
class Verdict:
    """The answer to an ASK: ``known`` from the facts, or else the best prediction's probability.

    ``reason`` says why it cannot be, where something that is known rules it out.
    """

    holds: bool
    known: bool
    probability: float | None
    reason: str | None = None

    def __str__(self) -> str:
        word = "yes" if self.holds else "no"
        if self.known:
            return f"{word}: the facts hold it"
        if self.probability is None:
            return f"{word}: the facts do not hold it, and the solver has no probabilities"
        if self.reason is not None:
            return f"{word}: {self.reason}"
        return f"{word}: predicted with probability {likely(self.probability, 3)}"

    def to_dict(self) -> dict[str, object]:
        """The verdict as the W3C's format has it, with the reason added."""
        return {
            "head": {},
            "boolean": self.holds,
            "known": self.known,
            "probability": self.probability,
        }


class Asker:
    """A model that can be asked; ``options`` are the defaults of its questions.

    >>> from knowledge_sheaves.embedding import model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("Ann", "knows", "Bob"), ("Bob", "likes", "Fargo")])
    >>> model = Asker(SheafEmbedding(model_config("complex", dim=4), graph), Options(tau=1.0))
    >>> model.answer("SELECT ?x { :Ann :knows/:likes ?x }", top=1).to_polars()["x"].to_list()
    ['Fargo']
    >>> found = model.answer("Ann knows ?y . ?y likes ?x", top=2, explain=True)
    >>> print(found.explanation[0])
    Ann knows Bob (known); Bob likes Fargo (known)
    >>> print(model.decide("ASK { :Ann :knows :Bob }"))
    yes: the facts hold it
    """

    def __init__(self, model: SheafEmbedding, options: Options | None = None) -> None:
        self.model, self.graph = model, model.graph
        self.options = options or Options()

    @classmethod
    def load(cls, folder: str | Path) -> Asker:
        """Read a model from its folder."""
        return cls(SheafEmbedding.load(folder))

    @property
    def typed(self) -> KnowledgeGraph:
        """The graph by whose types questions are read: what was given has been seen there."""
        if self.graph.classes is None:
            return self.graph
        return known_graph(self.model, self.options.known or ALL)

    def read(self, text: str, budget: Budget | None = None) -> ParsedQuery:
        """Read a query in SPARQL or in the short form."""
        try:
            return read(text, self.typed, budget)
        except UnknownRelation as error:
            if not has_values(self.model, error.relation):
                raise
            raise InputError(
                f"{error.relation!r} gives values and no entities, so there is nothing to predict: "
                "ask for what the facts say with --facts-only, in Python with model.sparql(...)."
            ) from None

    def answer(
        self,
        query: str | Query,
        top: int | None = None,
        *,
        solver: str | None = None,
        new: bool = False,
        type: str | None = None,
        explain: bool = False,
    ) -> Answers:
        """The best answers, ``top`` of them, or as many as LIMIT says, or ten.

        ``new`` leaves out what the facts answer already, ``type`` all entities of other types. With
        ``explain`` the answers have a tuple of explanations, one for each. Reading, answering and
        explaining share one budget of time.
        """
        options = self._options(solver)
        budget = options.budget()
        parsed = self.read(query, budget) if isinstance(query, str) else None
        asked = query if parsed is None else parsed.query
        if parsed is not None and parsed.form == "ask":
            raise InputError("This asks whether something holds: use decide, or write SELECT.")
        if asked is None:
            raise InputError(
                "The query has no answers, whatever the facts: its VALUES rule all out."
            )
        assert isinstance(asked, Query)
        shown = count(top, parsed.limit if parsed else None)
        wanted = self.wanted(shown, new=new, type=type)
        return self.solve([asked], wanted, options, explain=shown * explain, budget=budget)[0]

    def decide(
        self,
        query: str | ParsedQuery,
        *,
        solver: str | None = None,
        budget: Budget | None = None,
    ) -> Verdict:
        """Whether something holds: by the facts, or by a prediction that is likelier than not."""
        options = self._options(solver)
        budget = budget or options.budget()
        parsed = self.read(query, budget) if isinstance(query, str) else query
        if parsed.query is None:
            return Verdict(False, False, 0.0)
        (best,) = self.solve([parsed.query], Wanted(top=1), options, budget=budget)
        if best.has_known:
            return Verdict(True, True, None)
        if not len(best):
            return Verdict(False, False, 0.0, ruled_out(self.model, parsed.query))
        if best.probabilities is None:
            return Verdict(False, False, None)
        chance = float(best.probabilities[0])
        return Verdict(chance >= LIKELY, False, chance)

    def wanted(self, top: int, *, new: bool = False, type: str | None = None) -> Wanted:
        """Which answers to show, with the type by name."""
        if type is not None:
            _ = self.graph.is_of_type(type)  # refuses an unknown one before anything is solved
        return Wanted(top=top, kind=type, only_new=new)

    @torch.no_grad()
    def solve(
        self,
        queries: Sequence[Query],
        wanted: Wanted,
        options: Options | None = None,
        *,
        explain: int = 0,
        budget: Budget | None = None,
    ) -> list[Answers]:
        """The answers of many queries, with probabilities as they are shown (`query.shown`).

        Those of one shape are solved together.
        """
        solver = (options or self.options).start(self.model, budget)

        def finish(each: Answers) -> Answers:
            told = as_shown(solver, each)
            return _explained(solver, told, explain) if explain else told

        return _solve(solver, queries, wanted, finish)

    def cover(self, query: Query, coverage: float) -> Cover:
        """How many first new answers hold the missing one so often, by what was held out."""
        return cover(self.options.start(self.model), query, coverage)

    @torch.no_grad()
    def explain(
        self, answers: Answers, count: int | None = None, *, options: Options | None = None
    ) -> tuple[Explanation, ...]:
        """Explain the first answers, or all, in one search."""
        solver = (options or self.options).but(solver=answers.solver).start(self.model)
        return _reasons(solver, answers, len(answers) if count is None else count)

    def _options(self, solver: str | None) -> Options:
        return self.options if solver is None else self.options.but(solver=solver)


def count(top: int | None, limit: int | None) -> int:
    """How many answers to show: what is asked for, at most as many as LIMIT says, or ten.

    >>> count(None, None), count(None, 50), count(5, 50)
    (10, 50, 5)
    """
    if top is None:
        return TOP if limit is None else limit
    return top if limit is None else min(top, limit)


def load(folder: str | Path) -> Asker:
    """Read a model from its folder, ready to be asked."""
    return Asker.load(folder)
