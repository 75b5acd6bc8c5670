"""What is bound around a block of predictions: the rest of its group, and what is around that.

A block is joined with what stands before it in its group, with the triples behind it as far as they
commute with it, and so with the groups around. Asking that rest for the variables that it shares
with the block leaves out nothing that the block could be joined with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from knowledge_sheaves.query.full.groups import ENDS_JOINING, FILTER, SERVICE, Element
from knowledge_sheaves.query.full.text import Text


@dataclass(frozen=True)
class Context:
    """A group without its block: its text for Oxigraph, and the variables that it speaks of."""

    written: str
    variables: frozenset[str]


def context_of(block: Element, text: Text, written: Callable[[Element], str | None]) -> Context:
    """The context of a block; ``written`` gives the text of an element, None if it has none yet."""
    parts, names = _rest(block, text, written)
    around, inside = block.group.parent, parts
    while around is not None:
        inside = _wrapped(around, text, inside)
        parts, more = _rest(around, text, written)
        inside, names = f"{parts} {inside}", names | more
        around = around.group.parent
    return Context(inside, frozenset(names))


def _wrapped(around: Element, text: Text, inside: str) -> str:
    if around.kind != "GRAPH":
        return f"{{ {inside} }}"
    opening = around.inner[0].first if around.inner else around.last
    return f"{text.written(around.first, opening)} {{ {inside} }}"


def _rest(
    element: Element, text: Text, written: Callable[[Element], str | None]
) -> tuple[str, set[str]]:
    """The elements of a group that hold with one of them, and their variables."""
    joined = [each for each in _joined(element, text) if each.kind != FILTER]
    pieces = [(each, written(each)) for each in joined]
    kept = [(each, piece) for each, piece in pieces if piece is not None]
    names = {n for each, _ in kept for n in text.variables(each.first, each.last)}
    if element.kind == "GRAPH":
        names |= set(text.variables(element.first, element.first + 2))
    for each in element.group.elements:
        # A condition on what the block binds has to wait for the block.
        if each.kind == FILTER and each is not element:
            piece = written(each)
            if piece is not None and set(text.variables(each.first, each.last)) <= names:
                kept.append((each, piece))
    return " . ".join(piece for _, piece in kept), names


def _joined(element: Element, text: Text) -> list[Element]:
    """The elements that a block may wait for: labels of its answers are looked up afterwards."""
    elements = element.group.elements
    place = elements.index(element)
    found = elements[:place]
    if element.kind in (SERVICE, "group", "GRAPH", FILTER):
        for each in elements[place + 1 :]:
            if each.kind in ENDS_JOINING:
                break
            if not each.only_labels(text):
                found.append(each)
    return found
