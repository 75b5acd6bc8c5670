"""`sheaves ask`: a prompt for questions, with completion of names."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import say
from knowledge_sheaves.cli.solvers import Known

if TYPE_CHECKING:
    from knowledge_sheaves.graph import KnowledgeGraph
    from knowledge_sheaves.query.asking import Asker

PROMPT, MORE = "sheaves> ", "     ... "
DELIMITERS = ' \t\n{}()|/^<>"'
HELP = """\
Ask in SPARQL, ended by its closing brace or an empty line:
  SELECT ?x { :virus :causes/:affects ?x }
or in the short form, with statements divided by dots:
  virus causes ?y . ?x treats ?y . not antibiotic treats ?x
which asks for the variable mentioned last; begin with "?y where" to ask for another.
Names are completed with the Tab key.
  :solver auto                           how to find answers; `sheaves solvers` lists the ways
  :set facts=ignored                     tell the solver something
  :explain on|off                        draw the reasons for the best answer
  :new on|off                            leave out what the facts answer
  :top 10                                how many answers
  :help   :quit"""


def ask(model: Folder, known: Known = "all") -> None:
    """Open a prompt for questions about a model, with completion of names by the Tab key.

    Questions are written in SPARQL or in the short form; :help tells more. They may be piped in,
    a question a line.

    \b
    Example:
      sheaves ask model/
    """
    from knowledge_sheaves.query.asking import Asker
    from knowledge_sheaves.query.options import Options

    prompt = Prompt(Asker(load_model(model), Options(known=known)))
    if sys.stdin.isatty():
        complete_names(prompt.asker.graph)
        typer.echo("Ask in SPARQL or say 'Ann knows ?x'; :help tells more, :quit ends.")
    prompt.run()


class Prompt:
    """What the user has chosen, and the questions one after another."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.explained, self.new, self.top = 0, False, 10

    def run(self) -> None:
        """Answer until the input ends; an error is a sentence, and the next question follows."""
        from knowledge_sheaves.errors import SheafError

        for text in questions():
            try:
                if text in (":quit", ":q", ":exit", "quit", "exit"):
                    return
                told = text.startswith(":") or text == "help"
                self.command(text) if told else self.answer(text)
            except SheafError as error:
                say(f"{error}", err=True)

    def answer(self, text: str) -> None:
        """Answer one question."""
        from knowledge_sheaves.cli.query import Result
        from knowledge_sheaves.cli.sparql import show_full
        from knowledge_sheaves.query.full import is_full

        if is_full(text):
            show_full(self.asker, text, None)
            return
        budget = self.asker.options.budget()
        asked = self.asker.read(text, budget)
        if asked.form == "ask":
            say(self.asker.decide(asked, budget=budget))
            return
        top = None if asked.limit is not None else self.top
        Result.of(self.asker, asked, top, self.new, None, self.explained, budget).show()

    def command(self, text: str) -> None:
        """Obey a line that starts with a colon."""
        from knowledge_sheaves.errors import InputError

        word, _, value = text.partition(" ")
        value = value.strip()
        match word:
            case ":help" | "help":
                typer.echo(HELP)
            case ":solver":
                self.asker.options = self.asker.options.but(solver=value)
            case ":set" if "=" in value:
                name, _, told = value.partition("=")
                self.asker.options = self.asker.options.but(**{name.strip(): told.strip()})
            case ":explain" if value in ("on", "off"):
                self.explained = int(value == "on")
            case ":new" if value in ("on", "off"):
                self.new = value == "on"
            case ":top" if value.isdecimal() and int(value):
                self.top = int(value)
            case _:
                raise InputError(f"{text!r} is no command here: :help lists them.")


def questions() -> Iterator[str]:
    """Read questions and commands; SPARQL goes on until its braces close or a line is empty."""
    from knowledge_sheaves.query.language.short import is_sparql

    lines: list[str] = []
    while True:
        try:
            line = _line(MORE if lines else PROMPT)
        except EOFError:
            break
        except KeyboardInterrupt:  # as in a shell: forget the line, stay
            typer.echo("")
            lines = []
            continue
        if line.strip():
            lines.append(line)
        text = "\n".join(lines).strip()
        closed = text.count("}") >= max(text.count("{"), 1)
        if text and (not line.strip() or not is_sparql(text) or closed):
            yield text
            lines = []
    if lines:
        yield "\n".join(lines).strip()


def _line(prompt: str) -> str:
    # Without a terminal nobody reads a prompt.
    return input(prompt if sys.stdin.isatty() else "")


def complete_names(graph: KnowledgeGraph) -> None:
    """Let the Tab key complete names where the terminal can."""
    try:
        import readline
    except ImportError:  # Windows has none; the prompt works without
        return
    readline.set_completer_delims(DELIMITERS)
    readline.set_completer(Completer(graph).complete)
    readline.parse_and_bind("tab: complete")


class Completer:
    """Finds the names that begin as a word does.

    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> completer = Completer(KnowledgeGraph.from_triples([("Ann", "knows", "Anton")]))
    >>> [completer.complete(":An", place) for place in range(3)]
    [':Ann', ':Anton', None]
    """

    def __init__(self, graph: KnowledgeGraph) -> None:
        from knowledge_sheaves.graph.labels import said

        relations = graph.schema.labelled_names
        names = {*graph.entities, *relations, *(graph.labels or {}).values(), *map(said, relations)}
        self.names = sorted(map(str, names))

    def complete(self, text: str, place: int) -> str | None:
        """Return the match at a place, or None behind the last, as readline asks."""
        mark = ":" if text.startswith(":") else ""
        start = text.removeprefix(mark)
        at = bisect_left(self.names, start) + place
        if at < len(self.names) and self.names[at].startswith(start):
            return mark + self.names[at]
        return None
