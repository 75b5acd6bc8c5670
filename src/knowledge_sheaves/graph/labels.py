"""Names that know what people call the thing."""

from __future__ import annotations

import re
from urllib.parse import unquote

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
