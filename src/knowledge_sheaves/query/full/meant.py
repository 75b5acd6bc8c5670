"""What the names of a query mean over the facts: a label stands for what it is the label of.

A name that the facts hold in its place stays. A label is replaced by the name of its relation,
entity or type. What nobody is called gives nothing, as SPARQL has it, and a note says so. It is
refused where a plain pattern would be: where it is predicted, or if the facts only are asked by a
person. A whole IRI, as programs write it, is never refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.labels import Name, find_type
from knowledge_sheaves.graph.names import WithoutFacts, find_entity, find_relation
from knowledge_sheaves.query.budget import Budget
from knowledge_sheaves.query.full.roles import Role, roles
from knowledge_sheaves.query.full.store import FactStore
from knowledge_sheaves.query.full.text import Text, Token
from knowledge_sheaves.query.language.iris import BLANK, iri_of, name_of
from knowledge_sheaves.query.language.names import NAMESPACE, TYPE

MOST_NOTED = 5
"""How many names one note lists."""
LONGEST = 100
"""So many letters of a name."""


def with_meant(
    text: Text, facts: FactStore, budget: Budget, strict: bool
) -> tuple[Text, tuple[str, ...]]:
    """The query with every label replaced by the name that it stands for, and notes.

    If it is ``strict``, a name in triples that nobody has is refused.
    """
    tokens, unknown, meaning = list(text.tokens), dict[str, None](), _Meaning(facts)
    turned: dict[str, None] = {}
    for place, role in roles(text.tokens).items():
        token = tokens[place]
        budget.check_time()
        asked = role.kind == "relation" and role.where != "template"
        inverse = meaning.inverse(token.iri) if asked else None
        if inverse is not None and _is_refused(token, role, strict):
            raise inverse
        if inverse is not None:
            turned[str(inverse)] = None
        if inverse is not None or not token.iri.startswith(NAMESPACE):
            continue
        meant = meaning.of(token.iri, role)
        if meant is not None:
            tokens[place] = replace(token, iri=meant)
        elif _is_refused(token, role, strict):
            raise meaning.refusal(token.iri, role)
        elif role.where != "template":
            unknown[name_of(token.iri)] = None
    notes = *map(_ascii, turned), *_notes(list(unknown))
    return replace(text, tokens=tuple(tokens)), notes


def _is_refused(token: Token, role: Role, strict: bool) -> bool:
    if role.kind == "term" or token.text == f"<{token.iri}>":
        return False
    return role.where == "prediction" or (role.where == "facts" and strict)


def _notes(unknown: Sequence[str]) -> tuple[str, ...]:
    """What names give nothing; in ASCII, as a header of HTTP has it."""
    if not unknown:
        return ()
    listed = ", ".join(_cut(ascii(name)) for name in unknown[:MOST_NOTED])
    more = len(unknown) - MOST_NOTED
    listed += f" and {more:,} more" if more > 0 else ""
    return (f"No single thing in the model is called {listed}.",)


def _ascii(sentence: str) -> str:
    return sentence.encode("ascii", "backslashreplace").decode()


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}...{text[-1]}"


class _Meaning:
    """Looks up names by where they stand, each once."""

    def __init__(self, facts: FactStore) -> None:
        self.facts, self.graph = facts, facts.graph
        self.by_kind: dict[str, Callable[[str, str, Role], str | None]] = {
            "relation": self._relation,
            "entity": self._entity,
            "type": self._type,
            "graph": self._graph,
            "term": self._term,
        }
        self.found: dict[tuple[str, Role], str | None] = {}

    def of(self, iri: str, role: Role) -> str | None:
        """The IRI that a name in this role means, None where there is none, or several."""
        if (iri, role) not in self.found:
            self.found[iri, role] = self.by_kind[role.kind](iri, name_of(iri), role)
        return self.found[iri, role]

    def inverse(self, iri: str) -> InputError | None:
        """What to say of the name of an inverse that has no facts of its own."""
        name = name_of(iri)
        if not any(name in (other, other.label) for other in self.graph.schema.backwards):
            return None
        try:
            find_relation(self.graph, name)
        except WithoutFacts as error:
            return None if self.facts.holds(iri, "predicate") else error
        except InputError:  # it stands for several relations
            pass
        return None

    def refusal(self, iri: str, role: Role) -> InputError:
        """Why a name means nothing where it stands, as a plain pattern says it."""
        name = name_of(iri)
        try:
            match role.kind:
                case "relation":
                    find_relation(self.graph, name)
                case "type":
                    find_type(name, self._types)
                case "entity":
                    find_entity(self.graph, name, role.places)
                    return InputError(
                        f"What has the label {name!r} is a blank node, and those have no names in "
                        "SPARQL: ask in the short form, or without --facts-only."
                    )
        except InputError as error:
            return error
        return InputError(f"The model has no graph {name!r}.")

    def _relation(self, iri: str, name: str, _: Role) -> str | None:
        if name in self.graph.schema.relation_names or self.facts.holds(iri, "predicate"):
            return iri
        return self._labelled_relation(name) or _only(name, self.facts.properties)

    def _entity(self, iri: str, name: str, role: Role) -> str | None:
        if name in self.graph.entities:
            return iri
        if name in self.graph.by_label and name in self.graph.type_names:
            return self._labelled_entity(name, role)  # where an entity is asked for, no type is
        if self.facts.holds(iri, "subject", "object"):
            return iri
        return self._labelled(iri, name, role)

    def _type(self, iri: str, name: str, role: Role) -> str | None:
        if TYPE in self.graph.schema.relation_names:  # then types are entities
            return self._entity(iri, name, role)
        if name in self.graph.type_names or self.facts.holds(iri, "object"):
            return iri
        return self._labelled_type(name)

    def _graph(self, iri: str, _name: str, _: Role) -> str | None:
        return iri if self.facts.has_graph(iri) else None

    def _term(self, iri: str, name: str, role: Role) -> str | None:
        if name in self.graph.entities or self.facts.holds(iri, "subject", "predicate", "object"):
            return iri
        return self._labelled(iri, name, role) or self._graph(iri, name, role)

    def _labelled(self, iri: str, name: str, role: Role) -> str | None:
        """What has a label; an entity, or else what is otherwise called so."""
        if name in self.graph.by_label:
            return self._labelled_entity(name, role)
        if self.facts.is_other(name):
            return iri
        return self._labelled_relation(name) or self._labelled_type(name)

    def _labelled_entity(self, name: str, role: Role) -> str | None:
        try:
            entity = find_entity(self.graph, name, role.places)
        except InputError:  # several have this label
            return None
        found = self.graph.entities[entity]
        return None if BLANK.fullmatch(found) else iri_of(found)

    def _labelled_relation(self, name: str) -> str | None:
        return _only(name, self.graph.schema.labelled_names)

    def _labelled_type(self, name: str) -> str | None:
        return _only(name, self._types)

    @cached_property
    def _types(self) -> list[Name]:
        return [Name(name, self.graph.type_label(name)) for name in self.graph.type_names]


def _only(label: str, names: Iterable[Name]) -> str | None:
    """The IRI of the one thing with a label."""
    found = [name for name in names if name.label == label]
    return iri_of(str(found[0])) if len(found) == 1 else None
