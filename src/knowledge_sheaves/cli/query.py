"""`sheaves query`: answers to questions that no single fact answers, with the reasons for them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import (
    STYLE,
    AsJson,
    check_format,
    named,
    print_json,
    print_table,
    say,
    without_empty,
)
from knowledge_sheaves.cli.solvers import Known, Set, SolverName, make_options
from knowledge_sheaves.cli.together import Sharded, taking_part
from knowledge_sheaves.plain import json_text

if TYPE_CHECKING:
    from knowledge_sheaves.query.answers import Answers
    from knowledge_sheaves.query.asking import Asker
    from knowledge_sheaves.query.budget import Budget
    from knowledge_sheaves.query.language.sparql import ParsedQuery
    from knowledge_sheaves.ranking.words import Cover

EXPLAINED = 3
"""How many answers --explain draws: more would bury the table."""
ALL = 1_000_000
COVERED = 100
"""How many answers of a larger set --coverage shows, unless --top says more."""


def query(
    model: Folder,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUERY]",
            help="SPARQL, or the short form 'Ann knows ?y . ?y likes ?x'; - reads from stdin.",
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the query from a file.")
    ] = None,
    jsonl: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='Many queries, one {"id": …, "query": "SELECT …"} a line; so are the answers.',
        ),
    ] = None,
    solver: SolverName = "auto",
    told: Set = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="How many to show; 10, or what LIMIT says.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Draw the reasons for the best answers.")
    ] = False,
    as_json: AsJson = False,
    new: Annotated[bool, typer.Option("--new", help="Leave out what the facts answer.")] = False,
    known: Known = "all",
    coverage: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Show as many new answers as hold the missing one so often, such as 0.9.",
        ),
    ] = None,
    type: Annotated[str | None, typer.Option(help="Only entities of this type.")] = None,
    facts_only: Annotated[
        bool, typer.Option("--facts-only", help="Predict nothing: all of SPARQL over the facts.")
    ] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORM",
            help="table, csv, tsv, json or markdown; of full SPARQL also xml, of graphs ttl, nt, "
            "jsonld.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the reasons for the best answer: SVG, PNG or PDF."),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Give up after so long.", show_default=False),
    ] = None,
    memory_limit: Annotated[
        int, typer.Option(min=1, metavar="MB", help="Megabytes to use beside the model.")
    ] = 512,
    sharded: Sharded = False,
) -> None:
    """Answer a query by what is known and what the model predicts, the best answers first.

    The probability of an answer is calibrated on validation facts, and a line below says how far
    to trust it; the energy is what is left when all unknowns are chosen as well as they can be
    (for chaining it is -log of the score). --json prints the W3C's SPARQL results format with
    rank, energy and probability added. With --facts-only, or where the query has blocks
    SERVICE ks:predict { … }, it may be any SPARQL.

    \b
    Examples:
      sheaves query model/ 'SELECT ?x { :virus :causes/:affects ?x }' --top 5
      sheaves query model/ 'virus causes ?y . ?x treats ?y' --explain
      sheaves query model/ 'ASK { :virus :causes :neoplastic_process }'
      sheaves query model/ --facts-only 'SELECT (COUNT(*) AS ?n) { ?x :treats ?y }'
    """
    from knowledge_sheaves.cli.sparql import refuse_options, show_full
    from knowledge_sheaves.errors import InputError
    from knowledge_sheaves.query.asking import Asker
    from knowledge_sheaves.query.full import is_full

    source = _source(text, file, jsonl)
    full = source is not None and is_full(source, facts_only)
    options = make_options(
        *(solver, told),
        known=known,
        time_limit=math.inf if time_limit is None else time_limit,
        memory_limit=memory_limit << 20,
    )
    only_plain = {
        "--top": top is not None,
        "--explain": explain,
        "--new": new,
        "--type": type is not None,
        "--plot": plot is not None,
        "--coverage": coverage is not None,
    }
    with taking_part(sharded) as processes:
        if sharded and (explain or full or plot is not None):
            raise InputError(
                "Several processes answer patterns, without reasons and without the rest of "
                "SPARQL: leave out --sharded."
            )
        asker = Asker(load_model(model, processes), options)
        asker.wanted(1, type=type)  # a wrong type is a wrong option, whatever the query
        if source is not None and full:
            refuse_options([name for name, given in only_plain.items() if given])
            written = None if form in ("table", "markdown") else form
            show_full(asker, source, "json" if as_json else written, facts_only)
            return
        check_format(form or "table")
        if facts_only:
            raise InputError("--facts-only is for one query in full SPARQL.")
        if source is None:
            assert jsonl is not None
            _answer_many(asker, jsonl, top, new, type, explain)
            return
        budget = options.budget()
        asked = asker.read(source, budget)
        if asked.form == "ask":
            verdict = asker.decide(asked, budget=budget)
            print_json(verdict.to_dict()) if as_json else say(verdict)
            return
        drawn = EXPLAINED if explain else int(plot is not None)
        explained = ALL if explain and (as_json or not STYLE.get().is_table) else drawn
        result = Result.of(asker, asked, top, new, type, explained, budget, coverage)
        if as_json:
            print_json(result.to_json(explain))
        else:
            result.show(drawn * explain)
        if plot is not None:
            result.plot(plot)


@dataclass(frozen=True)
class Result:
    """A SELECT and its answers; None where nothing can be one."""

    asker: Asker
    asked: ParsedQuery
    answers: Answers | None
    cover: Cover | None = None

    @classmethod
    def of(
        cls,
        asker: Asker,
        asked: ParsedQuery,
        top: int | None,
        new: bool = False,
        type: str | None = None,
        explained: int = 0,
        budget: Budget | None = None,
        coverage: float | None = None,
    ) -> Result:
        """Answer one query, and explain the first of its answers."""
        from knowledge_sheaves.query.asking import count

        if asked.query is None:
            return cls(asker, asked, None)
        cover = None if coverage is None else asker.cover(asked.query, coverage)
        if cover is not None:  # the set is one of new answers; of a large one the first are shown
            new, top = True, top or min(cover.size or COVERED, COVERED)
        wanted = asker.wanted(count(top, asked.limit), new=new, type=type)
        (answers,) = asker.solve([asked.query], wanted, explain=explained, budget=budget)
        if cover is not None:
            every = len(answers) < wanted.top  # all that there are
            cover = cover.among(len(answers) if every else answers.possible)
        return cls(asker, asked, answers, cover)

    def to_json(self, explain: bool) -> dict[str, Any]:
        """The W3C's format, with the explanations behind it where they are wanted."""
        from knowledge_sheaves.query.jsonl import select_document

        document = select_document(self.asked, self.answers, explain)
        if self.answers is not None and self.answers.trust:
            document["trust"] = self.answers.trust
        if self.cover is not None:
            document["coverage"] = asdict(self.cover)
        return document

    def show(self, explained: int = EXPLAINED) -> None:
        """Print a table, and below it the reasons for some answers."""
        from knowledge_sheaves.graph.labels import words
        from knowledge_sheaves.query.drawing import draw

        answers = self.answers
        if answers is None or not len(answers):
            typer.echo("No answers.", err=STYLE.get().format in ("csv", "tsv"))
            return
        print_table("", without_empty(list(self._rows(answers))), self._note(answers))
        if not STYLE.get().is_table:  # the reasons are a column
            return
        for place, reason in enumerate((answers.explanation or ())[:explained]):
            answer = answers[place]
            title = f"{answer.rank}. {', '.join(map(words, answer.names))}, because"
            because = "\n".join(f"   - {sentence}" for sentence in reason.sentences())
            say(f"\n{title}\n{because}\n{draw(reason)}")

    def plot(self, path: Path) -> None:
        """Draw the reasons for the best answer."""
        from knowledge_sheaves.query.drawing import plot

        if self.answers is None or not self.answers.explanation:
            typer.echo("There is no answer to draw.", err=True)
            return
        plot(self.answers.explanation[0], path)
        say(f"Wrote {path}", err=True)

    def _rows(self, answers: Answers) -> Iterator[dict[str, Any]]:
        people = STYLE.get().is_table
        for place, answer in enumerate(answers):
            names = dict(zip(answers.query.targets, answer.names, strict=True))
            row: dict[str, Any] = {"" if people else "rank": answer.rank}
            for variable in self.asked.variables:
                row |= named(variable, names[variable])
            reasons = None if people or not answers.explanation else answers.explanation[place]
            yield row | {
                "energy": round(answer.energy, 6) + 0.0,  # no -0.0000 for what is certain
                "probability": answer.probability,
                "known": answer.known,
                "because": None if reasons is None else str(reasons),
            }

    def _note(self, answers: Answers) -> str:
        notes = " ".join([f"Solved by {answers.solver}.", *answers.notes])
        return "\n".join([notes, *filter(None, (answers.trust, self._covered(answers)))])

    def _covered(self, answers: Answers) -> str:
        if self.cover is None:
            return ""
        size = self.cover.size or 0
        more = f" {len(answers)} of them are shown: --top {size} shows all."
        return f"{self.cover}{more if len(answers) < size else ''}"


def _source(text: str | None, file: Path | None, jsonl: Path | None) -> str | None:
    """The text of the one query, or None where there is a file of many."""
    from knowledge_sheaves.errors import InputError

    if (text, file, jsonl).count(None) != 2:
        raise InputError("Give one of a QUERY (- for stdin), --file FILE and --jsonl FILE.")
    if file is not None:
        return _read(file)
    return sys.stdin.read() if text == "-" else text


def _read(file: Path) -> str:
    from knowledge_sheaves.errors import InputError

    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{file} is not text in UTF-8.") from None


# Many queries.


def _answer_many(
    asker: Asker, file: Path, top: int | None, new: bool, type: str | None, explain: bool
) -> None:
    """Print a line of JSON for every line; a query that cannot be answered says why in its line."""
    from rich.console import Console
    from rich.progress import Progress

    from knowledge_sheaves.query.jsonl import answer_questions, read_questions

    questions = read_questions(file)
    answered = answer_questions(asker, questions, top=top, new=new, type=type, explain=explain)
    failed = 0
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        for document in progress.track(answered, len(questions), description="Answering"):
            failed += "error" in document
            typer.echo(json_text(document))
    said = f"{len(questions):,} queries, {failed:,} of them not understood or not answered."
    typer.echo(said, err=True)
    if failed:
        raise typer.Exit(2)
