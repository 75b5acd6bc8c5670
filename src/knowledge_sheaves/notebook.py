"""How things show themselves in a notebook: tables and pictures in HTML, every name escaped.

What shows itself has a ``_repr_html_`` that calls one of these. This module knows no room.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Protocol

MOST_ROWS = 50
"""Longer tables are cut: whoever wants all of them asks for a data frame."""
NUMBER, WORD = 'style="text-align:right"', 'style="text-align:left"'
BOX = 'style="overflow-x:auto;background:#fff;color:#000"'

Row = Mapping[str, object]


class Framed:
    """What is a table: ``rows`` that have the same fields, or columns, as a frame of others."""

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the table, each by the names of its fields."""
        raise NotImplementedError

    def columns(self) -> dict[str, list[Any]]:
        """The same by columns."""
        rows = self.rows()
        return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}

    def to_polars(self) -> Any:
        """The table as a polars frame."""
        import polars as pl

        return pl.DataFrame(self.columns(), strict=False)

    def to_pandas(self) -> Any:
        """The table as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.columns())


class ShownReasons(Protocol):
    """What `reasons_html` shows of an explanation."""

    def sentences(self) -> Iterator[str]: ...


class ShownAnswer(Protocol):
    """What `answers_html` shows of one answer."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def labels(self) -> tuple[str | None, ...]: ...

    @property
    def energy(self) -> float: ...

    @property
    def probability(self) -> float | None: ...

    @property
    def rank(self) -> int: ...

    @property
    def known(self) -> bool | None: ...


def table(rows: Sequence[Row], title: str = "", note: str = "") -> str:
    """A table of rows that have the same fields; fields that say nothing in any row are left out.

    >>> print(table([{"name": "<b>", "label": None, "p": 0.5}], "Best"))
    <table><caption style="text-align:left">Best</caption>
    <tr><th style="text-align:left">name</th><th style="text-align:right">p</th></tr>
    <tr><td style="text-align:left">&lt;b&gt;</td><td style="text-align:right">0.5</td></tr>
    </table>
    """
    said = {name for row in rows for name, value in row.items() if value is not None}
    names = [name for name in (rows[0] if rows else {}) if name in said]
    sides = {name: NUMBER if all(_counts(row[name]) for row in rows) else WORD for name in names}
    cut = f"{len(rows) - MOST_ROWS:,} more rows." if len(rows) > MOST_ROWS else ""
    lines = [_line("th", ((name, sides[name]) for name in names))] if names else []
    for row in rows[:MOST_ROWS]:
        lines.append(_line("td", ((_shown(row[name]), sides[name]) for name in names)))
    caption = f'<caption style="text-align:left">{escape(title)}</caption>' if title else ""
    below = [_paragraph(text) for text in (cut, note) if text]
    return "\n".join([f"<table>{caption}", *lines, "</table>", *below])


def facts(values: Mapping[str, object]) -> str:
    """Names and what they are, without those of which nothing is known."""
    shown = [(name.replace("_", " "), _shown(value)) for name, value in _flat(values)]
    lines = [_line("td", ((name, WORD), (value, WORD))) for name, value in shown if value]
    return "\n".join(["<table>", *lines, "</table>"])


def folded(title: str, page: str, *, opened: bool = False) -> str:
    """A part of a page that the reader may open and close."""
    start = f"<details{' open' if opened else ''}><summary>{escape(title)}</summary>"
    return "\n".join([start, page, "</details>"])


def answers_html(
    targets: Sequence[str],
    answers: Iterable[ShownAnswer],
    note: str = "",
    reasons: Sequence[Any] | None = None,
) -> str:
    """Answers as a table, and the reasons for each below it where there are any.

    >>> answers_html(["?x"], [], "Solved by chaining.")
    '<p>No answers. Solved by chaining.</p>'
    """
    rows: list[dict[str, object]] = [
        {"": answer.rank}
        | _named(targets, answer)
        | {"probability": answer.probability, "energy": answer.energy, "known": answer.known}
        for answer in answers
    ]
    parts = [table(rows, note=note) if rows else _paragraph(f"No answers. {note}")]
    for place, each in enumerate(reasons or (), 1):
        # The first picture says what the others are like, without filling the page.
        parts.append(folded(f"{place}.", each._repr_html_(), opened=place == 1))
    return "\n".join(parts)


def _named(targets: Sequence[str], answer: ShownAnswer) -> dict[str, object]:
    """The targets of an answer by what they are called, with their names beside that."""
    cells: dict[str, object] = {}
    for target, name, label in zip(targets, answer.names, answer.labels, strict=True):
        cells |= {f"{target} label": label, target: name}
    return cells


def reasons_html(reasons: ShownReasons, plot: Callable[[Path], object]) -> str:
    """The picture of the reasons for an answer, and each of them in a sentence."""
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in reasons.sentences())
    return f"<div {BOX}>{svg(plot)}</div>\n<ul>{said}</ul>"


def svg(plot: Callable[[Path], object]) -> str:
    """The SVG that a function draws into a file, to stand inside a page.

    >>> svg(lambda path: path.write_text("<?xml version='1.0'?><svg></svg>"))
    '<svg></svg>'
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.svg"
        plot(path)
        text = path.read_text(encoding="utf-8")
    return text[text.index("<svg") :].strip()


def _line(cell: str, values: Iterable[tuple[str, str]]) -> str:
    cells = "".join(f"<{cell} {side}>{escape(value)}</{cell}>" for value, side in values)
    return f"<tr>{cells}</tr>"


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _counts(value: object) -> bool:
    return value is None or type(value) in (int, float)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    return "" if value is None else str(value)


def _flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", " ".join(map(str, value)) if isinstance(value, list) else value
