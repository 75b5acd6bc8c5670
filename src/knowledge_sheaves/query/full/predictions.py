"""What the sheaf says to a block, as rows of VALUES: the block is then a table like any other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyoxigraph import BlankNode, NamedNode

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.answers import Answers
from knowledge_sheaves.query.asking import TOP, Asker
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.explanation import LIKELY
from knowledge_sheaves.query.full.blocks import Block
from knowledge_sheaves.query.full.store import term_of
from knowledge_sheaves.query.full.text import KS
from knowledge_sheaves.query.language.iris import entity_of
from knowledge_sheaves.query.language.sparql import with_entities
from knowledge_sheaves.query.pattern import Entity, Query, Variable
from knowledge_sheaves.query.results import XSD

MOST_BINDINGS = 10_000
"""How often a block is asked at the most: once for every row that is handed in."""
MOST_ROWS = 100_000
NODE = f"{KS}node"
"""The function that turns an IRI into a blank node: VALUES may hold none."""

Row = Mapping[Variable, Entity]


@dataclass(frozen=True)
class Table:
    """Rows for variables; a cell is a term as SPARQL writes it, ``UNDEF`` where there is none."""

    variables: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def written(self) -> str:
        """The table as an element of a group.

        >>> Table(("?x",), (("<urn:a>",), ("UNDEF",))).written()
        'VALUES (?x) { (<urn:a>) (UNDEF) }'
        """
        blank = {n for row in self.rows for n, cell in enumerate(row) if cell.startswith("_:")}
        names = [f"{v}_node_" if n in blank else v for n, v in enumerate(self.variables)]
        rows = (f"({' '.join(map(_no_blank, row))})" for row in self.rows)
        values = f"VALUES ({' '.join(names)}) {{ {' '.join(rows)} }}"
        if not blank:
            return values
        chosen = [
            f"(<{NODE}>({names[n]}) AS {v})" if n in blank else v
            for n, v in enumerate(self.variables)
        ]
        return f"{{ SELECT {' '.join(chosen)} {{ {values} }} }}"


def _no_blank(cell: str) -> str:
    return f"<{NODE}:{cell.removeprefix('_:')}>" if cell.startswith("_:") else cell


def node(iri: object) -> object:
    """The blank node that an IRI in a table stands for; others stand for themselves."""
    if isinstance(iri, NamedNode) and iri.value.startswith(f"{NODE}:"):
        return BlankNode(iri.value.removeprefix(f"{NODE}:"))
    return iri


def rows_handed(
    found: Sequence[tuple[object, ...]], variables: Sequence[Variable], asker: Asker
) -> tuple[tuple[Variable, ...], list[Row]]:
    """The variables that have a value in every row, and the distinct rows of entities.

    A literal, or an IRI that the model does not know, is no entity: nothing is predicted of it.
    """
    places = [n for n in range(len(variables)) if all(row[n] is not None for row in found)]
    rows: list[Row] = []
    for values in dict.fromkeys(tuple(row[n] for n in places) for row in found):
        ids = [_entity(value, asker) for value in values]
        known = {variables[n]: Entity(i) for n, i in zip(places, ids, strict=True) if i is not None}
        if len(known) == len(places):
            rows.append(known)
    return tuple(variables[n] for n in places), rows


def _entity(term: object, asker: Asker) -> int | None:
    if isinstance(term, BlankNode):
        return asker.graph.entities.get(f"_:{term.value}")
    return entity_of(term.value, asker.graph) if isinstance(term, NamedNode) else None


def answer_block(
    block: Block,
    handed: tuple[Variable, ...],
    rows: Sequence[Row],
    asker: Asker,
    budget: Budget | None = None,
) -> tuple[Table, tuple[str, ...]]:
    """The answers to a block for each row that is handed in, and notes on them."""
    return _Asking(block, handed, asker, budget).table(rows)


class _Asking:
    def __init__(
        self, block: Block, handed: tuple[Variable, ...], asker: Asker, budget: Budget | None
    ) -> None:
        self.block, self.handed, self.asker, self.budget = block, handed, asker, budget
        targets = block.asked.variables
        self.targets = tuple(v for v in targets if v not in handed)
        self.terms: dict[int, str] = {}

    def table(self, rows: Sequence[Row]) -> tuple[Table, tuple[str, ...]]:
        if len(rows) > MOST_BINDINGS:
            raise InputError(
                f"The block at {self.block.place} would be asked {len(rows):,} times, once for "
                f"every value of {' '.join(self.handed)} around it, more than {MOST_BINDINGS:,}: "
                "bind fewer before it, or put the triples behind it into OPTIONAL { … }, which is "
                "joined with its answers afterwards."
            )
        asked = [(row, self._query(row)) for row in rows]
        queries = [(row, query) for row, query in asked if query is not None]
        found = self._solve([query for _, query in queries])
        cells = [
            cell
            for (row, _), answers in zip(queries, found, strict=True)
            for cell in self._cells(row, answers)
        ]
        if len(cells) > MOST_ROWS:
            raise InputError(
                f"The block at {self.block.place} has {len(cells):,} answers, more than "
                f"{MOST_ROWS:,}: ask for fewer with ks:answers ks:top."
            )
        names = (*self.handed, *self.targets, *(name for name, _ in self.block.outputs))
        notes = dict.fromkeys(note for answers in found for note in answers.notes)
        return Table(names, tuple(dict.fromkeys(cells))), tuple(notes)

    def _query(self, row: Row) -> Query | None:
        query = self.block.asked.query
        if query is None or not row:
            return query
        return with_entities(query, row, self.asker.typed)

    def _solve(self, queries: list[Query]) -> list[Answers]:
        wish, options = self.block.wish, self.asker.options
        if wish.type is not None and not self.targets:
            raise InputError(
                f"ks:type in the block at {self.block.place} speaks of answers, and all variables "
                "of the block have a value already: write ?x a TYPE outside of it."
            )
        if wish.solver is not None:
            options = options.but(solver=wish.solver)
        top = (wish.top or TOP) if self.targets else 1
        # Whether something is known is asked of the facts as a whole where there is no target.
        wanted = self.asker.wanted(top, new=wish.new and bool(self.targets), type=wish.type)
        reasons = top if any(what == "reason" for _, what in self.block.outputs) else 0
        return self.asker.solve(queries, wanted, options, explain=reasons, budget=self.budget)

    def _cells(self, row: Row, answers: Answers) -> Iterator[tuple[str, ...]]:
        handed = tuple(self._term(row[name]) for name in self.handed)
        if not self.targets and not self._holds(answers):
            return
        for place, ids in enumerate(answers.ids.tolist()):
            named = dict(zip(answers.query.targets, ids, strict=True))
            found = tuple(self._term(named[name]) for name in self.targets)
            outputs = tuple(self._output(answers, place, what) for _, what in self.block.outputs)
            yield handed + found + outputs

    def _holds(self, answers: Answers) -> bool:
        """Whether a row without a target stays: if nothing is asked of it, by what is likelier."""
        if not len(answers) or (self.block.wish.new and answers.has_known):
            return False
        if self.block.outputs or answers.has_known:
            return True
        chances = answers.probabilities
        return chances is not None and float(chances[0]) >= LIKELY

    def _term(self, entity: int) -> str:
        if entity not in self.terms:
            self.terms[entity] = str(term_of(self.asker.graph.entities[entity]))
        return self.terms[entity]

    def _output(self, answers: Answers, place: int, what: str) -> str:
        answer = answers[place]
        match what:
            case "probability":
                return _typed(answer.probability, "double")
            case "energy":
                return _typed(answer.energy, "double")
            case "rank":
                return str(answer.rank)
            case "known":
                known = answers.has_known if not self.targets else answer.known
                return "UNDEF" if known is None else str(known).lower()
        reasons = answers.explanation or ()
        return _quoted(str(reasons[place])) if place < len(reasons) else "UNDEF"


def _typed(value: float | None, kind: str) -> str:
    return "UNDEF" if value is None else f'"{value!r}"^^<{XSD}{kind}>'


def _quoted(text: str) -> str:
    escapes: dict[str, str | int | None] = {
        "\\": "\\\\",
        '"': '\\"',
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
    }
    return '"' + text.translate(str.maketrans(escapes)) + '"'
