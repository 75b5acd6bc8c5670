"""Ask a model in words: SPARQL, the short form, or a query made in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.answers import Answers
from knowledge_sheaves.query.explain import Explainer, Explanation
from knowledge_sheaves.query.facts.symbolic import answers as symbolic_answers
from knowledge_sheaves.query.language.short import is_sparql, to_sparql
from knowledge_sheaves.query.language.sparql import ParsedQuery, parse_sparql
from knowledge_sheaves.query.pattern import Query
from knowledge_sheaves.query.solve import Options, Wanted
from knowledge_sheaves.query.solve import answer as solve

TOP = 10
LIKELY = 0.5
"""From which probability on a prediction counts as yes."""


@dataclass(frozen=True)
class Verdict:
    """The answer to an ASK: ``known`` from the facts, or else the best prediction's probability."""

    holds: bool
    known: bool
    probability: float | None

    def __str__(self) -> str:
        word = "yes" if self.holds else "no"
        if self.known:
            return f"{word}: the facts hold it"
        if self.probability is None:
            return f"{word}: the facts do not hold it, and the model has no probabilities"
        return f"{word}: predicted with probability {self.probability:.3g}"

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

    def read(self, text: str) -> ParsedQuery:
        """Read a query in SPARQL or in the short form."""
        return parse_sparql(text if is_sparql(text) else to_sparql(text, self.graph), self.graph)

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
        ``explain`` the answers have a tuple of explanations, one for each.
        """
        parsed = self.read(query) if isinstance(query, str) else None
        asked = query if parsed is None else parsed.query
        if parsed is not None and parsed.form == "ask":
            raise InputError("This asks whether something holds: use decide, or write SELECT.")
        if asked is None:
            raise InputError(
                "The query has no answers, whatever the facts: its VALUES rule all out."
            )
        assert isinstance(asked, Query)
        options = self._options(solver)
        wanted = self.wanted(count(top, parsed.limit if parsed else None), new=new, type=type)
        (found,) = self.solve([asked], wanted, options)
        if explain:
            return replace(found, explanation=self.explain(found, options=options))
        return found

    def decide(self, query: str | ParsedQuery, *, solver: str | None = None) -> Verdict:
        """Whether something holds: by the facts, or by a prediction that is likelier than not."""
        parsed = self.read(query) if isinstance(query, str) else query
        if parsed.query is None:
            return Verdict(False, False, 0.0)
        if len(symbolic_answers(self.graph, [parsed.query])[0]):
            return Verdict(True, True, None)
        (best,) = self.solve([parsed.query], Wanted(top=1), self._options(solver))
        if best.probabilities is None:
            return Verdict(False, False, None)
        chance = float(best.probabilities[0]) if len(best) else 0.0
        return Verdict(chance >= LIKELY, False, chance)

    def wanted(self, top: int, *, new: bool = False, type: str | None = None) -> Wanted:
        """Which answers to show, with the type by name."""
        kind = None if type is None else self.graph.schema.type_id(type)
        return Wanted(top=top, kind=kind, only_new=new)

    @torch.no_grad()
    def solve(
        self, queries: Sequence[Query], wanted: Wanted, options: Options | None = None
    ) -> list[Answers]:
        """The answers of many queries, those of one shape solved together."""
        return solve(self.model, queries, options or self.options, wanted)

    def explain(
        self, answers: Answers, count: int | None = None, *, options: Options | None = None
    ) -> tuple[Explanation, ...]:
        """Explain the first answers, or all."""
        shown = len(answers) if count is None else min(count, len(answers))
        if not shown:
            return ()
        explainer = Explainer(self.model, options or self.options)
        return tuple(explainer.explain(answers, place) for place in range(shown))

    def _options(self, solver: str | None) -> Options:
        return self.options if solver is None else replace(self.options, solver=solver)


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
