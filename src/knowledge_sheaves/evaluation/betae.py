"""The queries of a BetaE folder as a model knows them: by type, in its ids, with their answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.evaluation.queries import take
from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.graph.arrays import check_ids, offsets_of
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import STRUCTURES, BetaEQueries, load, read_betae_queries
from knowledge_sheaves.graph.readers.betae import Structure, is_betae
from knowledge_sheaves.graph.vocabulary import suggestion
from knowledge_sheaves.query.facts.symbolic import SymbolicAnswers
from knowledge_sheaves.query.facts.symbolic import answers as symbolic_answers
from knowledge_sheaves.query.language.betae import from_betae, smaller_and_larger
from knowledge_sheaves.query.pattern import Edge, Entity, Query, RelationId, Term, Variable

POSITIVE = ("1p", "2p", "3p", "2i", "3i", "pi", "ip", "2u", "up")
NEGATIVE = ("2in", "3in", "inp", "pin", "pni")
TYPES = (*POSITIVE, *NEGATIVE)
"""The 14 query types, in the order of the published tables."""
GROUPS = {"positive": POSITIVE, "negative": NEGATIVE}
FORMS = {"2u": "2u-DNF", "up": "up-DNF"}
Half: TypeAlias = Literal["first", "second"]


@dataclass(frozen=True)
class TypeQueries:
    """The queries of one type, those that share relations next to each other, and their answers."""

    name: str
    queries: list[Query]
    easy: SymbolicAnswers
    hard: SymbolicAnswers

    def __len__(self) -> int:
        return len(self.queries)

    def sample(self, size: int, seed: int = 0) -> TypeQueries:
        """Draw some of the queries, or take all where there are no more."""
        count = len(self)
        return self._at(np.random.default_rng(seed).choice(count, min(size, count), replace=False))

    def half(self, which: Half, seed: int = 0) -> TypeQueries:
        """One of two halves that share nothing: to choose settings on one, report on the other."""
        order = np.random.default_rng(seed).permutation(len(self))
        middle = (len(self) + 1) // 2
        return self._at(order[:middle] if which == "first" else order[middle:])

    def _at(self, places: IntArray) -> TypeQueries:
        chosen = np.sort(places)
        queries = [self.queries[place] for place in chosen.tolist()]
        return TypeQueries(self.name, queries, take(self.easy, chosen), take(self.hard, chosen))


@dataclass(frozen=True)
class Agreement:
    """For how many queries of a type the triples give the answers that the files have."""

    name: str
    queries: int
    easy: int
    hard: int

    @property
    def complete(self) -> bool:
        """Whether there is no query that disagrees."""
        return self.easy == self.hard == self.queries


class BetaEFolder:
    """One split of a folder in the benchmark's layout, in the ids of its own files.

    Where a file of answers is missing, the triples give them: easy answers are those of the graph
    before the split, hard ones those that only the graph with the split has.
    """

    def __init__(self, folder: str | Path, split: str) -> None:
        self.folder, self.split = Path(folder), split
        if not is_betae(self.folder):
            raise InputError(
                f"{self.folder} is not a folder of the BetaE benchmark: it has no id2ent.pkl and "
                "id2rel.pkl."
            )
        self.data: Dataset = load(self.folder)
        self._files: BetaEQueries = read_betae_queries(self.folder, split)

    @property
    def name(self) -> str:
        """What the data are called."""
        return self.folder.name

    @cached_property
    def hash(self) -> str:
        """A hash of all queries of the split, whatever their order: which set they are."""
        each = (f"{form} {query}" for form, asked in self._files.queries.items() for query in asked)
        return sha256("\n".join(sorted(each)).encode()).hexdigest()

    @property
    def counts(self) -> dict[str, int]:
        """How many queries there are of each type."""
        return {name: len(self._files.queries[_structure(name)]) for name in self.types}

    @cached_property
    def _graphs(self) -> tuple[KnowledgeGraph, KnowledgeGraph]:
        return smaller_and_larger(self.data, self.split)

    @property
    def types(self) -> list[str]:
        """The types of which there are queries."""
        return [name for name in TYPES if self._files.queries.get(_structure(name))]

    def named(self, names: Sequence[str] | None) -> list[str]:
        """The types with these names, in their order in tables; all where none are given."""
        for name in names or ():
            if name not in TYPES:
                raise InputError(
                    f"There is no query type {name!r}: the types are {', '.join(TYPES)}."
                )
            if name not in self.types:
                raise InputError(f"{self.folder} has no {self.split} queries of the type {name}.")
        if not self.types:
            raise InputError(f"{self.folder} has no {self.split} queries.")
        return [name for name in self.types if not names or name in names]

    def queries(self, name: str) -> TypeQueries:
        """The queries of a type with their answers."""
        asked, queries = self._sorted(name)
        if self._files.easy is None or self._files.hard is None:
            return TypeQueries(name, queries, *self._computed(queries))
        easy, hard = (self._read(asked, kind) for kind in ("easy", "hard"))
        return TypeQueries(name, queries, easy, hard)

    def check(self, given: TypeQueries) -> Agreement:
        """Hold answers against those that the triples give."""
        easy, hard = self._computed(given.queries)
        return Agreement(
            given.name, len(given), _agreeing(easy, given.easy), _agreeing(hard, given.hard)
        )

    def _sorted(self, name: str) -> tuple[list[Structure], list[Query]]:
        asked = self._files.queries[_structure(name)]
        pairs = [(query, from_betae(query)) for query in asked]
        pairs.sort(key=lambda pair: _neighbourhood(pair[1]))
        file, graph = self.folder / f"{self.split}-queries.pkl", self.data.train
        for place, size in enumerate((graph.num_entities, graph.num_relations)):
            constants = (p.constants[place] for _, query in pairs for p in query.patterns)
            what = ("entities", "relations")[place]
            check_ids(
                np.array([number for each in constants for number in each], np.int64),
                size,
                f"{file}: {what} of the type {name}",
            )
        return [query for query, _ in pairs], [query for _, query in pairs]

    def _computed(self, queries: list[Query]) -> tuple[SymbolicAnswers, SymbolicAnswers]:
        easy, after = (symbolic_answers(graph, queries) for graph in self._graphs)
        return easy, after.minus(easy)

    def _read(self, asked: list[Structure], kind: str) -> SymbolicAnswers:
        answers = (self._files.easy if kind == "easy" else self._files.hard) or {}
        sets = [answers.get(query, ()) for query in asked]
        ids = np.array([answer for each in sets for answer in sorted(each)], np.int64)
        file = self.folder / f"{self.split}-{kind}-answers.pkl"
        check_ids(ids, self.data.train.num_entities, f"{file}: answers")
        return SymbolicAnswers(ids, offsets_of(np.array([len(each) for each in sets], np.int64)))


def _structure(name: str) -> Structure:
    return STRUCTURES[FORMS.get(name, name)]


def _neighbourhood(query: Query) -> tuple[list[int], list[tuple[int, int]]]:
    """A key by which queries are neighbours that can share work.

    What costs most is following a relation from the candidates of an unknown: those relations count
    first, the nearest to the target before the others, then the known entities.
    """
    edges = [edge for pattern in query.patterns for p in pattern.walk() for edge in p.edges]
    links = [int(edge.relation) for edge in reversed(edges) if isinstance(edge.head, Variable)]
    return links, [(edge.relation, edge.head) for edge in edges if isinstance(edge.head, Entity)]


def _agreeing(mine: SymbolicAnswers, theirs: SymbolicAnswers) -> int:
    differing = mine.minus(theirs).counts + theirs.minus(mine).counts
    return int(np.count_nonzero(differing == 0))


class Translation:
    """From the ids of a folder to those of a model, by name.

    A relation that the model lacks may be there the other way round: "-r" and "r_reverse" are how
    the benchmark calls the inverse of "+r" and "r".
    """

    def __init__(self, data: Dataset, model: SheafEmbedding) -> None:
        graph, names = data.train, model.graph.entities
        lost = [name for name in graph.entities if name not in names]
        if lost:
            raise InputError(
                f"The model lacks {len(lost):,} of the {graph.num_entities:,} entities of the "
                f"benchmark, such as {lost[0]!r}: it was trained on other data."
            )
        self.entities = names.ids(list(graph.entities))
        self._names = graph.schema.relation_names
        self._known = {name: place for place, name in enumerate(model.graph.schema.relation_names)}
        same = self._names == model.graph.schema.relation_names
        self.identical = same and np.array_equal(self.entities, np.arange(len(names)))

    def __call__(self, given: TypeQueries) -> TypeQueries:
        """The same queries and answers as the model knows them."""
        if self.identical:
            return given
        return TypeQueries(
            given.name,
            [self._query(query) for query in given.queries],
            *(replace(part, ids=self.entities[part.ids]) for part in (given.easy, given.hard)),
        )

    def _query(self, query: Query) -> Query:
        named = query.map(self._term)
        return replace(named, patterns=tuple(p.map_edges(self._edge) for p in named.patterns))

    def _edge(self, edge: Edge) -> Edge:
        head, tail = edge.terms
        for name, turned in _spellings(self._names[edge.relation]):
            place = self._known.get(name)
            if place is not None:
                relation = RelationId(place)
                return Edge(tail, relation, head) if turned else Edge(head, relation, tail)
        name = self._names[edge.relation]
        raise InputError(
            f"The model has no relation {name!r}, and a query asks for it"
            f"{suggestion(name, self._known) or '.'}"
        )

    def _term(self, term: Term) -> Term:
        return term if isinstance(term, Variable) else Entity(self.entities[term])


def _spellings(name: str) -> Iterator[tuple[str, bool]]:
    """What a model may call a relation, and whether it is then the other way round."""
    yield name, False
    if name[:1] in ("+", "-"):
        yield name[1:], name[0] == "-"
    if name.endswith("_reverse"):
        yield name.removesuffix("_reverse"), True


def refuse_disagreement(found: Iterable[Agreement]) -> None:
    """An error for the first type whose answers are not those of the triples."""
    for each in found:
        if not each.complete:
            raise SheafError(
                f"The answers of the files are not those of the triples: of {each.queries:,} "
                f"queries of the type {each.name}, {each.easy:,} agree in their easy and "
                f"{each.hard:,} in their hard answers."
            )
