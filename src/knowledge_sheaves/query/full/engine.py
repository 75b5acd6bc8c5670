"""A full SPARQL query, from its text to its result.

Blocks of predictions are answered one after another, each with what is bound around it, and become
tables; Oxigraph then answers the whole over the facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyoxigraph as ox

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.full.blocks import check_service, read_block
from knowledge_sheaves.query.full.context import context_of
from knowledge_sheaves.query.full.functions import Functions
from knowledge_sheaves.query.full.groups import Element, Groups
from knowledge_sheaves.query.full.meant import with_meant
from knowledge_sheaves.query.full.predictions import Row, answer_block, rows_handed
from knowledge_sheaves.query.full.results import Result, kind_of, write
from knowledge_sheaves.query.full.store import FactStore
from knowledge_sheaves.query.full.text import Text, asks_predictions, read_text
from knowledge_sheaves.query.language.short import is_sparql, to_sparql
from knowledge_sheaves.query.language.sparql_text import check_syntax
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.query.pattern import Variable

ROUNDS = 10
"""How often a query is run again because one probability decides which others are asked for."""
ENDLESS = (
    "The query asks for a probability that decides which others it asks for, and so on, more than "
    f"{ROUNDS} times: use blocks of predictions instead."
)
CHECKED = 256
"""After how many rows the time is looked at."""
_WHERE = re.compile(r"error at (\d+):(\d+): ?(.*)", re.DOTALL)


class Sparql:
    """A model that answers all of SPARQL, from its facts and, in blocks, from its predictions.

    >>> from knowledge_sheaves.embedding import SheafEmbedding, model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> from knowledge_sheaves.query import Options
    >>> graph = KnowledgeGraph.from_triples([("Ann", "knows", "Bob"), ("Bob", "likes", "Fargo")])
    >>> model = Asker(SheafEmbedding(model_config("complex", dim=4), graph), Options(tau=1.0))
    >>> sparql = Sparql(model)
    >>> list(sparql.run("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }").rows())
    [{'?n': 2}]
    >>> found = sparql.run('''SELECT ?x ?p { :Ann :knows ?y
    ...     SERVICE ks:predict { ?y :likes ?x . ?x ks:probability ?p . ks:answers ks:top 1 } }''')
    >>> list(found.rows())
    [{'?x': 'Fargo', '?p': 1.0}]
    """

    def __init__(self, asker: Asker, store: FactStore | None = None) -> None:
        self.asker = asker
        self.facts = store or FactStore.of_model(asker.model, asker.options.known)

    @classmethod
    def load(cls, folder: str | Path, options: Options | None = None) -> Sparql:
        """Read a model from its folder."""
        return cls(Asker(SheafEmbedding.load(folder), options))

    def run(
        self,
        text: str,
        form: str | None = None,
        *,
        facts_only: bool = False,
        budget: Budget | None = None,
        default_graphs: Sequence[str] = (),
        named_graphs: Sequence[str] = (),
    ) -> Result:
        """Answer a query in SPARQL or in the short form.

        ``form`` says how the result is written, which saves writing it twice. With ``facts_only``
        blocks of predictions are refused, and names that nobody has; else a note says so. The
        graphs are those of the SPARQL protocol: they replace what FROM says.
        """
        budget = budget or self.asker.options.budget()
        written = text if is_sparql(text) else to_sparql(text, self.asker.graph)
        read = read_text(written, self.facts)
        if facts_only and asks_predictions(written):
            raise InputError(
                "The query asks for predictions (SERVICE, or a word of ks:), and the facts only "
                "are wanted: leave one of the two out."
            )
        return _Run(self, read, budget, default_graphs, named_graphs).go(form, strict=facts_only)


class _Run:
    def __init__(
        self,
        sparql: Sparql,
        text: Text,
        budget: Budget,
        default_graphs: Sequence[str],
        named_graphs: Sequence[str],
    ) -> None:
        self.asker, self.facts, self.text, self.budget = sparql.asker, sparql.facts, text, budget
        self.groups = Groups(text)
        self.functions = Functions(sparql.asker, budget)
        self.tables: dict[Element, str] = {}
        self.notes: dict[str, None] = {}
        self.graphs: dict[str, Any] = {}
        if default_graphs or named_graphs:
            self.graphs = {
                "default_graph": [ox.NamedNode(iri) for iri in default_graphs],
                "named_graphs": [ox.NamedNode(iri) for iri in named_graphs],
            }

    def go(self, form: str | None, *, strict: bool) -> Result:
        """Answer the blocks, then the whole."""
        for block in self.groups.blocks:
            check_service(block, self.text)
        self._check_graphs()
        self._check_syntax()
        self.text, notes = with_meant(self.text, self.facts, self.budget, strict)
        self.notes |= dict.fromkeys(notes)
        for block in self.groups.blocks:
            self._answer(block)
        written = self._written(0, len(self.text.tokens))
        kind, data, form = self._ask(written or "", form)
        return Result(kind, data, form, tuple(self.notes))

    def _check_graphs(self) -> None:
        tokens = self.text.tokens
        for number, token in enumerate(tokens):
            if token.word != "FROM":
                continue
            named = number + 1 < len(tokens) and tokens[number + 1].word == "NAMED"
            iri = tokens[number + 1 + named].iri if number + 1 + named < len(tokens) else ""
            if iri and not self.facts.has_graph(iri):
                raise InputError(
                    f"FROM at {self.text.place(number)} names {iri!r}, and the model has no graph "
                    "of that name: no query reads a file or opens a connection."
                )

    def _check_syntax(self) -> None:
        """Let Oxigraph read the query without its blocks, over no facts at all."""
        whole = self._written(0, len(self.text.tokens), empty=True) or ""
        try:
            with _told():
                ox.Store().query(whole, custom_functions=self.functions.by_name())
        except NotSparql:
            check_syntax(self.text.source)  # which tells the place better
            raise

    def _answer(self, element: Element) -> None:
        """Answer a block for what is bound around it."""
        visible = self._visible(element)
        block = read_block(element, self.text, self.asker.typed, visible, self.budget)
        context = context_of(element, self.text, self._element)
        shared = [Variable(v) for v in block.asked.variables if v in context.variables]
        handed: tuple[Variable, ...] = ()
        rows: list[Row] = [{}]
        if shared:
            asked = (
                f"SELECT DISTINCT {' '.join(shared)} {self._from()} WHERE {{ {context.written} }}"
            )
            found = [tuple(row[v[1:]] for v in shared) for row in self._solutions(asked)]
            handed, rows = rows_handed(found, shared, self.asker)
        table, notes = answer_block(block, handed, rows, self.asker, self.budget)
        self.tables[element] = table.written()
        self.notes |= dict.fromkeys(notes)
        self.budget.check_time()

    def _visible(self, element: Element) -> set[str] | None:
        """The variables that the query speaks of outside a block, None for all of them."""
        tokens = self.text.tokens
        for number, token in enumerate(tokens):
            before = tokens[number - 1].word if number else ""
            # Behind a bracket it is that of COUNT(*), which counts rows of all variables.
            if token.word == "*" and before in ("SELECT", "DISTINCT", "REDUCED", "DESCRIBE", "("):
                return None
        outside = (0, element.first), (element.last, len(tokens))
        return {name for part in outside for name in self.text.variables(*part)}

    def _from(self) -> str:
        """What FROM says, for the questions that are asked on the way."""
        tokens, parts = self.text.tokens, []
        for number, token in enumerate(tokens):
            if token.word == "FROM":
                named = tokens[number + 1].word == "NAMED"
                parts.append(self.text.written(number, number + 2 + named))
        return " ".join(parts)

    def _element(self, element: Element) -> str | None:
        return self._written(element.first, element.last)

    def _written(self, first: int, last: int, *, empty: bool = False) -> str | None:
        """Tokens with tables in the place of blocks; None where a block has no answers yet."""
        pieces, start = [], first
        for block in self.groups.blocks:
            if first <= block.first and block.last <= last:
                table = "VALUES () { () }" if empty else self.tables.get(block)
                if table is None:
                    return None
                pieces += [self.text.written(start, block.first), table]
                start = block.last
        return " ".join([*pieces, self.text.written(start, last)])

    def _solutions(self, written: str) -> list[Any]:
        for _ in range(ROUNDS):
            found: list[Any] = []
            with _told():
                for row in self._query(written):
                    if len(found) % CHECKED == 0:
                        self.budget.check_time()
                    found.append(row)
            if not self.functions.score():
                return found
        raise InputError(ENDLESS)

    def _ask(self, written: str, form: str | None) -> tuple[Any, bytes, str]:
        """Run a query until all probabilities that it asks for are there."""
        for _ in range(ROUNDS):
            found = self._query(written)
            kind = kind_of(found)
            chosen = form or ("nt" if kind == "graph" else "json")
            with _told():
                data = write(found, chosen, self.budget)
            if not self.functions.score():
                return kind, data, chosen
        raise InputError(ENDLESS)

    def _query(self, written: str) -> Any:
        self.budget.check_time()
        functions = self.functions.by_name()
        with _told():
            return self.facts.store.query(written, custom_functions=functions, **self.graphs)


class NotSparql(InputError):
    """Oxigraph cannot read a query."""


@contextmanager
def _told() -> Iterator[None]:
    """Turn what Oxigraph says into a sentence."""
    try:
        yield
    except SheafError:
        raise
    except SyntaxError as error:
        raise NotSparql(f"This is not SPARQL: {_why(error)}.") from None
    except (RuntimeError, ValueError, OSError) as error:
        raise InputError(f"Oxigraph cannot answer the query: {_why(error)}.") from None


def _why(error: Exception) -> str:
    return " ".join(_WHERE.sub(r"\3", str(error)).split()).removesuffix(".")
