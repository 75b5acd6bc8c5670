"""SPARQL to queries: rdflib reads the text, its algebra becomes a union of patterns.

A ``UNION``, a path ``a|b`` and each row of ``VALUES`` are patterns of their own; ``a/b`` has a
fresh unknown in its middle and ``^a`` is an edge the other way. `names` says how names are written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Literal

from rdflib import RDF, BNode, URIRef
from rdflib import Variable as RdfVariable
from rdflib.paths import AlternativePath, InvPath, SequencePath
from rdflib.plugins.sparql.parserutils import CompValue

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.names import Place
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.language.names import (
    entity_id,
    has_types,
    places,
    plain,
    relation_of,
    type_name,
)
from knowledge_sheaves.query.language.sparql_patterns import (
    bound_variables,
    exclude,
    join_all,
    settle,
    substitute,
)
from knowledge_sheaves.query.language.sparql_text import ReadQuery, read, unsupported
from knowledge_sheaves.query.pattern import (
    Edge,
    Entity,
    Pattern,
    Query,
    Term,
    Variable,
    variables_of,
)
from knowledge_sheaves.query.types import Kinds, TypeClash, fitting, of_kind, possible_types

ASKED = Variable("?.ask")
"""The target of an ASK whose patterns have no variable in common."""


@dataclass(frozen=True)
class ParsedQuery:
    """What a SPARQL text asks.

    ``query`` is None where nothing can be an answer, whatever the facts (an empty ``VALUES``).
    ``variables`` are the projected ones in order, with question marks; an ``ASK`` has none and is
    true where its query has an answer. Answers are distinct; ``limit`` bounds how many are wanted.
    """

    query: Query | None
    form: Literal["select", "ask"]
    variables: tuple[Variable, ...]
    limit: int | None = None


def parse_sparql(
    text: str,
    graph: KnowledgeGraph,
    budget: Budget | None = None,
    *,
    visible: Collection[str] | None = None,
) -> ParsedQuery:
    """Read a SPARQL query about a graph; of ``SELECT *`` only what is ``visible`` is asked for.

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "friends", "Sachin"), ("Sachin", "favorite movie", "Star Wars")])
    >>> parsed = parse_sparql("SELECT ?x { :Julia :friends/<favorite movie> ?x } LIMIT 3", graph)
    >>> parsed.variables, parsed.limit, len(parsed.query.patterns[0].edges)
    (('?x',), 3, 2)
    >>> parse_sparql("ASK { :Julia :friends :Sachi }", graph)
    Traceback (most recent call last):
    knowledge_sheaves.errors.InputError: No entity has the name or label 'Sachi'; \
did you mean 'Sachin'?
    """
    said = read(text, budget)
    node, limit = said.algebra.p, None
    while node.name in ("Slice", "Distinct", "Reduced"):
        limit = node.length if node.name == "Slice" else limit
        node = node.p
    reader = _Reader(graph)
    patterns = reader.patterns(node.p)
    projected: tuple[Variable, ...] = ()
    if said.takes_all:
        found = _in_scope(patterns, said)
        projected = tuple(n for n in found if visible is None or n in visible)
    elif said.algebra.name == "SelectQuery":
        projected = tuple(dict.fromkeys(Variable(f"?{name}") for name in node.PV))
    if not projected and (said.algebra.name == "AskQuery" or visible is not None):
        asked, targets = _with_target(_settled(patterns, ()))
        return ParsedQuery(_query(targets, asked, reader), "ask", (), limit)
    query = _query(projected, _settled(patterns, projected), reader)
    return ParsedQuery(query, "select", projected, limit)


def with_entities(
    query: Query, values: Mapping[Variable, Entity], graph: KnowledgeGraph
) -> Query | None:
    """The query with entities in the place of targets; None where nothing can be an answer.

    Where no target is left, it asks whether something holds.

    >>> graph = KnowledgeGraph.from_triples([("Ann", "knows", "Bob")])
    >>> asked = parse_sparql("SELECT * { ?x :knows ?y }", graph).query
    >>> with_entities(asked, {Variable("?x"): Entity(0)}, graph).patterns[0].edges
    (Edge(head=0, relation=0, tail='?y'),)
    """
    put = list(_present(substitute(pattern, values) for pattern in query.patterns))
    fit, _ = fitting(put, graph)
    if not fit:
        return None
    kept = tuple((target, kind) for target, kind in query.types if target not in values)
    if any(not graph.is_of_type(kind)[values[t]] for t, kind in query.types if t in values):
        return None
    targets = tuple(target for target in query.targets if target not in values)
    if not targets:
        fit, targets = _with_target(fit)
    return Query(targets, tuple(dict.fromkeys(fit)), kept)


def _settled(patterns: Sequence[Pattern], keep: tuple[Variable, ...]) -> list[Pattern]:
    return list(_present(settle(pattern, keep) for pattern in patterns))


def _query(
    targets: tuple[Variable, ...], patterns: Sequence[Pattern], reader: _Reader
) -> Query | None:
    """The query, None where nothing can be an answer; where types rule out all, their clash."""
    fit = reader.fitting(patterns)
    if not fit:
        if reader.clash is not None:
            raise reader.clash
        return None
    for target in targets:
        if len({target in pattern.variables for pattern in patterns}) > 1:
            raise InputError(
                f"{target} has a value in some alternatives of the query only; select variables "
                "that occur in the triples of all of them."
            )
    if reader.types and not any(pattern.edges for pattern in fit):
        raise InputError(
            "Who has a type is known, and nothing to predict: add a relation to the query, or ask "
            "the facts alone (sheaves query --facts-only, model.sparql)."
        )
    for variable, _ in reader.types:
        if targets != (variable,):
            raise InputError(
                f"{variable} is asked for by type, which only the one variable that is selected "
                f"can be: select it, or write {variable} a … around SERVICE ks:predict {{ … }}."
            )
    fit = reader.of_types(fit)
    return Query(targets, tuple(dict.fromkeys(fit)), tuple(dict.fromkeys(reader.types)))


def _in_scope(patterns: Sequence[Pattern], said: ReadQuery) -> tuple[Variable, ...]:
    """Return what SELECT * means: all that a solution may bind, in the order of the text."""
    bound = frozenset[Variable]().union(*map(bound_variables, patterns))
    return tuple(Variable(n) for n in said.variables if n in bound or not patterns)


def _with_target(patterns: Sequence[Pattern]) -> tuple[list[Pattern], tuple[Variable, ...]]:
    """Choose a target for patterns that only ask whether: a common variable, or make one."""
    if not patterns:
        return [], ()
    common = [name for name in patterns[0].variables if all(name in p.variables for p in patterns)]
    if common:
        return list(patterns), (common[0],)
    return [_asking(pattern) for pattern in patterns], (ASKED,)


def _asking(pattern: Pattern) -> Pattern:
    if pattern.variables:
        renamed = substitute(pattern, {pattern.variables[0]: ASKED})
        return pattern if renamed is None else renamed
    # All ends are entities: the first edge asks for its tail, which is said to be that entity.
    edges = (replace(edge, tail=ASKED) for edge in pattern.edges[:1])
    known = tuple((ASKED, e.tail) for e in pattern.edges[:1] if isinstance(e.tail, Entity))
    return replace(pattern, edges=(*edges, *pattern.edges[1:]), bindings=known)


class _Reader:
    """Turns rdflib's algebra into patterns; fresh variables have names that nobody can write."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph
        self.clash: TypeClash | None = None
        self.types: list[tuple[Variable, str]] = []
        self._nested = 0
        self._numbers = count(1)
        self._blanks: dict[BNode, Variable] = {}

    def fitting(self, patterns: Sequence[Pattern]) -> list[Pattern]:
        """The patterns that types allow; the first clash is kept, in case none are left."""
        found, clash = fitting(patterns, self.graph)
        self.clash = self.clash or clash
        return found

    def of_types(self, patterns: list[Pattern]) -> list[Pattern]:
        """The patterns in which variables can be of the types that are asked for."""
        known: dict[Variable, Kinds] = {}
        for variable, name in self.types:
            kinds = of_kind(name, self.graph)
            known[variable] = known.get(variable, kinds) & kinds
        if not known or not all(known.values()):
            return patterns
        kept: list[Pattern] = []
        for pattern in patterns:
            if pattern.bound:  # rows that are handed in may fit or not
                kept.append(pattern)
                continue
            try:
                possible_types(pattern, self.graph, known)
            except TypeClash as clash:
                self.clash = self.clash or clash
            else:
                kept.append(pattern)
        if not kept and self.clash is not None:
            raise self.clash
        return kept

    def patterns(self, node: Any, outer: frozenset[Variable] = frozenset()) -> list[Pattern]:
        """Return the union that a group stands for; ``outer`` are variables it sees from outside.

        Only what is in NOT EXISTS sees any: the values of a solution are put into it.
        """
        match node.name:
            case "BGP":
                rows = [row for row in node.triples if not self._is_type(*row)]
                return self.fitting(join_all([self._path(*row) for row in rows]))
            case "Join":
                return join_all([self.patterns(node.p1, outer), self.patterns(node.p2, outer)])
            case "Union":
                return [*self._inside(node.p1, outer), *self._inside(node.p2, outer)]
            case "Filter":
                found = self.patterns(node.p, outer)
                for condition in _conjuncts(node.expr):
                    found = self._filter(found, condition, outer)
                return found
            case "Minus":
                return self._minus(self.patterns(node.p1, outer), self._denied(node.p2))
            case "ToMultiSet" if isinstance(node.p, list):
                return []
            case "ToMultiSet" if node.p.name == "values":
                return [self._row(row) for row in node.p.res]
        raise InputError(unsupported(f"The construct {node.name}"))

    def _denied(self, node: Any, outer: frozenset[Variable] = frozenset()) -> list[Pattern]:
        """The union in a negated part: what is impossible there denies nothing."""
        before = self.clash
        found = self._inside(node, outer)
        self.clash = before
        return found

    def _inside(self, node: Any, outer: frozenset[Variable]) -> list[Pattern]:
        """A part that need not hold: what is said of types there is no condition on answers."""
        self._nested += 1
        found = self.patterns(node, outer)
        self._nested -= 1
        return found

    def _is_type(self, head: Any, path: Any, tail: Any) -> bool:
        """Whether a triple asks for a type, which is then kept, and no relation."""
        if path != RDF.type or not has_types(self.graph):
            return False
        if self._nested or not isinstance(head, RdfVariable) or not isinstance(tail, URIRef):
            raise InputError(
                "A type is asked for as ?x a :Type, outside of UNION, NOT EXISTS and MINUS; for "
                "more, write it around SERVICE ks:predict { … }."
            )
        self.types.append((Variable(f"?{head}"), type_name(tail, self.graph)))
        return True

    def _fresh(self) -> Variable:
        return Variable(f"?.{next(self._numbers)}")

    def _term(self, term: Any, at: Sequence[Place] = ()) -> Term:
        if isinstance(term, RdfVariable):
            return Variable(f"?{term}")
        if isinstance(term, BNode):
            return self._blanks.setdefault(term, self._fresh())
        return Entity(entity_id(term, self.graph, at))

    def _path(self, head: Any, path: Any, tail: Any) -> list[Pattern]:
        if isinstance(path, RdfVariable):
            raise InputError(unsupported(f"The variable ?{path} in the place of a relation"))
        if path == RDF.type:  # what stands behind it is a type, and would be an unknown entity
            relation_of(path, self.graph)
        first, last = self._term(head, places(path, "head")), self._term(tail, places(path, "tail"))
        return self._edges(first, path, last)

    def _edges(self, head: Term, path: Any, tail: Term) -> list[Pattern]:
        match path:
            case URIRef():
                relation, backwards = relation_of(path, self.graph)
                ends = (tail, head) if backwards else (head, tail)
                return [Pattern((Edge(ends[0], relation, ends[1]),))]
            case InvPath():
                return self._edges(tail, path.arg, head)
            case AlternativePath():
                return [each for part in path.args for each in self._edges(head, part, tail)]
            case SequencePath():
                stops = [head, *(self._fresh() for _ in path.args[1:]), tail]
                steps = zip(stops, path.args, stops[1:], strict=False)
                return join_all(self._edges(*step) for step in steps)
        raise InputError(unsupported(f"The path {plain(str(path))}"))

    def _row(self, row: dict[RdfVariable, Any]) -> Pattern:
        given = [(Variable(f"?{name}"), term) for name, term in row.items() if term != "UNDEF"]
        return Pattern((), bindings=tuple((n, Entity(entity_id(t, self.graph))) for n, t in given))

    def _filter(
        self, found: Sequence[Pattern], condition: Any, outer: frozenset[Variable]
    ) -> list[Pattern]:
        name = condition.name if isinstance(condition, CompValue) else ""
        if name == "Builtin_NOTEXISTS":
            return list(_present(self._not_exists(p, condition.graph, outer) for p in found))
        if name != "RelationalExpression" or condition.op != "!=":
            raise InputError(unsupported("A FILTER other than NOT EXISTS and !="))
        pair = self._compared(condition.expr), self._compared(condition.other)
        return _different(found, pair, outer)

    def _compared(self, term: Any) -> Term:
        if isinstance(term, CompValue):
            raise InputError(unsupported("A computed value in a FILTER"))
        return self._term(term)

    def _not_exists(
        self, pattern: Pattern, group: Any, outer: frozenset[Variable]
    ) -> Pattern | None:
        shared = bound_variables(pattern) | outer
        return self._without(pattern, self._denied(group, shared), shared)

    def _minus(self, found: Sequence[Pattern], removed: Sequence[Pattern]) -> list[Pattern]:
        """Take away what agrees with a solution to be removed, in at least one variable."""

        def less(pattern: Pattern) -> Pattern | None:
            shared = bound_variables(pattern)
            related = [inner for inner in removed if bound_variables(inner) & shared]
            return self._without(pattern, related, shared)

        return list(_present(map(less, found)))

    def _without(
        self, pattern: Pattern, inner: Iterable[Pattern], shared: frozenset[Variable]
    ) -> Pattern | None:
        left: Pattern | None = pattern
        for each in inner:
            # Its own variables get fresh names: later joins may bring in the same ones.
            own = sorted(bound_variables(each) - shared)
            renamed = substitute(each, {name: self._fresh() for name in own})
            if renamed is not None and left is not None:
                left = exclude(left, renamed, shared)
        return left


def _present(patterns: Iterable[Pattern | None]) -> Iterator[Pattern]:
    return (pattern for pattern in patterns if pattern is not None)


def _conjuncts(condition: Any) -> Iterator[Any]:
    if isinstance(condition, CompValue) and condition.name == "ConditionalAndExpression":
        yield from _conjuncts(condition.expr)
        for other in condition.other:
            yield from _conjuncts(other)
    else:
        yield condition


def _different(
    found: Sequence[Pattern], pair: tuple[Term, Term], outer: frozenset[Variable]
) -> list[Pattern]:
    """Demand that two terms differ; a branch that does not bind them has no answers."""
    named = set(variables_of(pair))
    bound = [pattern for pattern in found if named <= bound_variables(pattern) | outer]
    if found and not bound:
        raise InputError(
            f"FILTER({pair[0]} != {pair[1]}) speaks of a variable that its group does not bind; "
            "move it to the braces that do."
        )
    # Substituting nothing settles a comparison of two names at once.
    compared = (replace(each, different=(*each.different, pair)) for each in bound)
    return list(_present(substitute(each, {}) for each in compared))
