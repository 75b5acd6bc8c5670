"""Many questions at once: a line of JSON for each, and so are the answers.

A line is ``{"id": …, "query": "SELECT …"}``; its answer has the same ``id`` and, beside it, the
W3C's results format, or an ``error`` in one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.query.answers import Answers, Wanted
from knowledge_sheaves.query.asking import Asker, count
from knowledge_sheaves.query.full import Sparql, is_full
from knowledge_sheaves.query.language.sparql import ParsedQuery
from knowledge_sheaves.query.pattern import Query
from knowledge_sheaves.query.results import select_json

AT_ONCE = 256
"""How many questions are looked at together: more would keep the first answers waiting."""


@dataclass(frozen=True)
class Question:
    """A line: the text of a query, and the id that its answer goes by.

    A line that is none has an ``error``: one bad line does not end a run.
    """

    id: object
    text: str
    error: str | None = None


def read_questions(file: str | Path) -> list[Question]:
    """Read a JSONL file; a line without an id goes by its number."""
    found = []
    # JSON may hold other ends of lines within a text.
    for number, line in enumerate(_content(Path(file)).split(b"\n"), 1):
        if line.strip():
            question = _question(line, number)
            said = f"{file}, line {number}: a line is a JSON object such as "
            bad = Question(number, "", said + '{"id": 1, "query": "SELECT ..."}.')
            found.append(question or bad)
    return found


def _question(line: bytes, number: int) -> Question | None:
    """The question in a line, None where it has none, or an id that JSON could not give back."""
    try:
        row = json.loads(line.decode("utf-8-sig"))
        text, name = row["query"], row.get("id", number)
        json.dumps(name, allow_nan=False)
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None
    return Question(name, text) if isinstance(text, str) else None


def answer_questions(
    asker: Asker,
    questions: Sequence[Question],
    *,
    top: int | None = None,
    new: bool = False,
    type: str | None = None,
    explain: bool = False,
) -> Iterator[dict[str, Any]]:
    """Give one document for each question, in their order; those of one shape are solved together.

    >>> from knowledge_sheaves.embedding import SheafEmbedding, model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("Ann", "knows", "Bob"), ("Bob", "likes", "Fargo")])
    >>> asker = Asker(SheafEmbedding(model_config("complex", dim=4), graph))
    >>> asked = [Question("a", "ASK { :Ann :knows :Bob }"), Question("b", "Ann likes")]
    >>> [sorted(each) for each in answer_questions(asker, asked)]
    [['boolean', 'head', 'id', 'known', 'probability'], ['error', 'id']]
    """
    asker.wanted(1, type=type)  # a wrong type is a wrong option, whatever the questions
    for start in range(0, len(questions), AT_ONCE):
        some = questions[start : start + AT_ONCE]
        documents = _Batch(asker, top, new, type, explain).documents(some)
        for question, document in zip(some, documents, strict=True):
            yield {"id": question.id, **document}


def select_document(
    asked: ParsedQuery, answers: Answers | None, explain: bool = False
) -> dict[str, Any]:
    """The W3C's format, with the explanations behind it where they are wanted."""
    document = select_json(asked.variables, answers)
    if explain and answers is not None:
        reasons = answers.explanation or ()
        document["explanations"] = [reason.to_dict() for reason in reasons]
    return document


@dataclass(frozen=True)
class _Batch:
    asker: Asker
    top: int | None
    new: bool
    type: str | None
    explain: bool

    def documents(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [{}] * len(questions)
        waiting: dict[Wanted, list[tuple[int, ParsedQuery, Query]]] = {}
        for place, question in enumerate(questions):
            if question.error is not None:
                found[place] = {"error": question.error}
                continue
            try:
                if is_full(question.text):
                    found[place] = json.loads(Sparql(self.asker).run(question.text, "json").data)
                    continue
                budget = self.asker.options.budget()
                asked = self.asker.read(question.text, budget)
                if asked.form == "ask":
                    found[place] = self.asker.decide(asked, budget=budget).to_dict()
                elif asked.query is None:
                    found[place] = select_document(asked, None)
                else:
                    shown = count(self.top, asked.limit)
                    wanted = self.asker.wanted(shown, new=self.new, type=self.type)
                    waiting.setdefault(wanted, []).append((place, asked, asked.query))
            except SheafError as error:
                found[place] = {"error": str(error)}
        for wanted, members in waiting.items():
            solved = self._solve([query for *_, query in members], wanted)
            for (place, asked, _), answers in zip(members, solved, strict=True):
                found[place] = (
                    {"error": answers}
                    if isinstance(answers, str)
                    else select_document(asked, answers, self.explain)
                )
        return found

    def _solve(self, queries: list[Query], wanted: Wanted) -> list[Answers | str]:
        """All at once; where one of them cannot be solved, each alone, with its error."""
        try:
            return list(self.asker.solve(queries, wanted, explain=wanted.top * self.explain))
        except SheafError as error:
            if len(queries) == 1:
                return [str(error)]
            return [answers for query in queries for answers in self._solve([query], wanted)]


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from None
