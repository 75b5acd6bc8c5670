"""Names that know what people call the thing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.vocabulary import did_you_mean, near_names

_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*|urn:\S+")


class Name(str):
    """A name as the graph has it, by which it is compared and stored, and its label for people.

    >>> name = Name("Q222720", "Fargo")
    >>> name == "Q222720", name.label, said(name), quoted(name)
    (True, 'Fargo', 'Fargo', "'Fargo' (Q222720)")
    """

    label: str | None

    def __new__(cls, name: str, label: str | None = None) -> Name:
        made = super().__new__(cls, name)
        made.label = label or None
        return made


def label_of(name: str) -> str | None:
    """The label of a name, None where it has none.

    >>> label_of(Name("Q1", "Fargo")), label_of("Q1")
    ('Fargo', None)
    """
    return name.label if isinstance(name, Name) else None


def said(name: str) -> str:
    """What people call a thing: its label, or else its name."""
    return label_of(name) or str(name)


def quoted(name: str) -> str:
    """How a sentence calls a thing: by its label, with the name beside it.

    >>> quoted("Ann")
    "'Ann'"
    """
    label = label_of(name)
    return repr(str(name)) if label in (None, name) else f"{label!r} ({name})"


def words(name: str) -> str:
    """A name within a sentence: its label, or else the last part of an IRI, without underscores.

    >>> words(Name("Q1", "Fargo")), words("result_of"), words("http://example.org/film#Star_Wars")
    ('Fargo', 'result of', 'Star Wars')
    """
    label = label_of(name)
    if label is not None:
        return label
    text = str(name)
    if _IRI.fullmatch(text):
        text = unquote(re.split(r"[/#:]", text.rstrip("/#"))[-1]) or text
    return text.replace("_", " ").strip() or text


def suggested(text: str, names: Iterable[str]) -> str:
    """Return "; did you mean ...?" for the things whose name, label or words are nearest to a text.

    Of addresses the last part is compared: the rest is alike in all of them.

    >>> suggested("Directer", [Name("http://example.org/Q2", "director"), "http://example.org/Q1"])
    "; did you mean 'director' (http://example.org/Q2)?"
    >>> suggested("http://example.org/Q7", ["http://example.org/born"])
    ''
    """
    by_text: dict[str, str] = {}
    for name in names:
        called = {said(name), words(str(name))} if _IRI.fullmatch(name) else {str(name), said(name)}
        for each in sorted(called):
            by_text.setdefault(each, name)
    asked = words(str(text)) if _IRI.fullmatch(text) else text
    return did_you_mean(list(dict.fromkeys(quoted(by_text[n]) for n in near_names(asked, by_text))))


def find_type(text: str, names: Iterable[Name]) -> Name:
    """Return the type with this name, or the one with this label; an unknown one is refused.

    >>> find_type("Director", [Name("http://example.org/Q2", "director")])
    Traceback (most recent call last):
    knowledge_sheaves.errors.InputError: Unknown type 'Director'; did you mean 'director' \
(http://example.org/Q2)?
    """
    known = list(names)
    meant = [name for name in known if name == text] or [n for n in known if n.label == text]
    if not meant:
        raise InputError(f"Unknown type {text!r}{suggested(text, known) or '.'}")
    if len(meant) > 1:
        choice = " or ".join(repr(str(name)) for name in meant)
        raise InputError(f"{len(meant)} types have the label {text!r}: say {choice}.")
    return meant[0]
