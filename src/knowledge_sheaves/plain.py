"""Names as plain text: they come from other people's files, and must not act where they are shown.

A terminal obeys escape sequences, a reader's eye obeys marks that turn the direction of text, and
matplotlib takes what stands between dollar signs for mathematics.
"""

from __future__ import annotations

import json
import re

LONGEST = 2000

# Control characters, lone surrogates, separators of lines, and marks of direction.
_ACTIVE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb]"
)


def printable(text: str) -> str:
    r"""Return the text with everything that a terminal would obey written out.

    >>> print(printable("red \x1b[31m and two\nlines, but café stays"))
    red \x1b[31m and two\nlines, but café stays
    """
    return _ACTIVE.sub(lambda found: repr(found[0])[1:-1], text) if _ACTIVE.search(text) else text


def printable_lines(text: str) -> str:
    r"""Return a text of several lines, each of them printable.

    >>> printable_lines("one\ntwo\x07")
    'one\ntwo\\x07'
    """
    return "\n".join(map(printable, text.split("\n")))


def json_text(document: object, indent: int | None = None) -> str:
    r"""Return JSON in which no character acts on a terminal; it means the same to programs.

    >>> json_text({"name": "caf\u00e9 \u202e"})
    '{"name": "café \\u202e"}'
    """
    text = json.dumps(document, ensure_ascii=False, indent=indent)
    # Between the values there is nothing of the kind but ends of lines.
    parts = (
        _ACTIVE.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in text.split("\n")
    )
    return "\n".join(parts)


def sentence(text: str) -> str:
    r"""Return a text as one printable line, without the middle of one that goes on and on.

    >>> len(sentence("a" * 5000))
    1999
    >>> len(sentence("\x1b" * 5000))
    1999
    """
    return _cut(printable(_cut(text)))  # written out, a character may be ten


def _cut(text: str) -> str:
    half = LONGEST // 2 - 3
    return f"{text[:half]} ... {text[-half:]}" if len(text) > LONGEST else text


def for_matplotlib(text: str) -> str:
    r"""Return the text as matplotlib shows it letter by letter, never as mathematics.

    >>> for_matplotlib(r"costs $\badmacro{$")
    'costs \\$\\badmacro{\\$'
    """
    return printable(text).replace("$", r"\$")
