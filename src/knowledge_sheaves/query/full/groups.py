"""The groups of a query and what stands in them, found in its tokens.

A group is what stands between braces; its elements are triples, ``FILTER``, ``OPTIONAL`` and so on,
as SPARQL joins them one after another. This is all the structure that is needed to know what is
bound where a block of predictions stands; the rest is Oxigraph's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.query.full.text import Text, closing
from knowledge_sheaves.query.language.names import LABEL

TRIPLES, GROUP, FILTER, SERVICE = "triples", "group", "FILTER", "SERVICE"
# Behind these, what follows no longer commutes with what stands before.
ENDS_JOINING = frozenset(["OPTIONAL", "MINUS", "BIND", "LATERAL"])
_STARTS = frozenset(
    ["OPTIONAL", "MINUS", "BIND", "LATERAL", "FILTER", "GRAPH", "SERVICE", "VALUES"]
)


@dataclass(eq=False)
class Element:
    """A part of a group: the tokens from ``first`` up to ``last``, and the groups within it."""

    kind: str
    first: int
    last: int
    group: Group
    inner: list[Group] = field(default_factory=list)

    def only_labels(self, text: Text) -> bool:
        """Whether it asks what something is called, and nothing else needs to know."""
        part = text.tokens[self.first : self.last]
        kinds = [token.kind for token in part]
        if kinds != ["variable", "iri", "variable"] or part[1].iri != LABEL:
            return False
        group = self.group
        while group.parent is not None:
            group = group.parent.group
        rest = (group.first, self.first), (self.last, group.last)
        return f"?{part[2].text[1:]}" not in {v for each in rest for v in text.variables(*each)}


@dataclass(eq=False)
class Group:
    """What stands between braces at two places; a subquery has no elements, but groups in it."""

    first: int
    last: int
    parent: Element | None = None
    elements: list[Element] = field(default_factory=list)


class Groups:
    """All groups of a text."""

    def __init__(self, text: Text) -> None:
        self.text, self.tokens = text, text.tokens
        self.blocks: list[Element] = []
        self.outermost = list(self._groups(0, len(self.tokens), None))

    def _word(self, place: int) -> str:
        return self.tokens[place].word if place < len(self.tokens) else ""

    def _groups(self, first: int, last: int, parent: Element | None) -> Iterator[Group]:
        """The groups among some tokens, without those within them."""
        place = first
        while place < last:
            if self._word(place) == "VALUES":
                place = self._behind_values(place)
            elif self._word(place) == "{":
                group = self._group(place, parent)
                yield group
                place = group.last
            else:
                place += 1

    def _group(self, first: int, parent: Element | None) -> Group:
        last = closing(self.tokens, first) + 1
        if last > len(self.tokens):
            raise InputError(f"The brace at {self.text.place(first)} is not closed.")
        group = Group(first, last, parent)
        if self._word(first + 1) == "SELECT":
            # What is bound around a subquery is not bound in it.
            list(self._groups(first + 1, last - 1, None))
            return group
        place = first + 1
        while place < last - 1:
            if self._word(place) == ".":
                place += 1
                continue
            element = self._element(place, group, last - 1)
            group.elements.append(element)
            place = element.last
        return group

    def _element(self, first: int, group: Group, end: int) -> Element:
        word = self._word(first)
        if word == "{":
            last = closing(self.tokens, first) + 1
            while self._word(last) == "UNION" and self._word(last + 1) == "{":
                last = closing(self.tokens, last + 1) + 1
            kind = GROUP
        elif word in _STARTS:
            last, kind = self._behind(first, word), word
        else:
            last, kind = self._behind_triples(first, end), TRIPLES
        element = Element(kind, first, min(last, end), group)
        if kind == SERVICE:
            self.blocks.append(element)
        elif kind != TRIPLES:
            element.inner = list(self._groups(first, element.last, element))
        return element

    def _behind(self, first: int, word: str) -> int:
        """Where an element ends that a keyword starts: behind its brackets."""
        if word == "VALUES":
            return self._behind_values(first)
        opening = ("(", "{") if word in ("FILTER", "BIND") else ("{",)
        place = first
        while place < len(self.tokens) and self._word(place) not in opening:
            place += 1
        return closing(self.tokens, place) + 1

    def _behind_values(self, first: int) -> int:
        place = first
        while place < len(self.tokens) and self._word(place) != "{":
            place += 1
        return closing(self.tokens, place) + 1

    def _behind_triples(self, first: int, end: int) -> int:
        place = first
        while place < end and self._word(place) not in (".", "{") and not self._starts(place):
            inner = self._word(place) in ("(", "[")
            place = closing(self.tokens, place) + 1 if inner else place + 1
        return max(place, first + 1)

    def _starts(self, place: int) -> bool:
        return self._word(place) in _STARTS
