"""N-Triples and N-Quads, a line a statement, matched by regular expressions all at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.files import for_polars
from knowledge_sheaves.graph.readers.lines import text_lines
from knowledge_sheaves.graph.readers.raw import ENDS
from knowledge_sheaves.graph.statements import LANGUAGE, TEXT

LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
LITERAL = ("text", "language", "datatype", "graph")

_IRI = r'<[^<>"{}|^`\x00-\x20]+>'
_NODE = rf"(?:{_IRI}|_:[^\s<>]*[^\s<>.])"
_START = rf"^\s*({_NODE})\s*<([^<>\x00-\x20]+)>\s*"
_END = rf"\s*({_NODE})?\s*\.\s*(?:#.*)?$"
_LINK = rf"{_START}({_NODE}){_END}"
_LITERAL = rf'{_START}"((?:[^"\\]|\\.)*)"(?:@([A-Za-z0-9-]+)|\^\^({_IRI}))?{_END}'
# Beyond the last character of Unicode, or half of a pair that only UTF-16 knows.
_NO_CHARACTER = (
    r"\\U(?:[1-9A-Fa-f][0-9A-Fa-f]{7}|0[1-9A-Fa-f][0-9A-Fa-f]{6}|00[2-9A-Fa-f][0-9A-Fa-f]{5}"
    r"|001[1-9A-Fa-f][0-9A-Fa-f]{4}|0000[Dd][89A-Fa-f][0-9A-Fa-f]{2})"
    r"|\\u[Dd][89A-Fa-f][0-9A-Fa-f]{2}"
)
_NOTHING = r"^\s*(?:#.*)?$"


@dataclass(frozen=True)
class Statements:
    """What an RDF file says: links between nodes, labels (node, text, language), literals.

    ``beside`` are the statements with literals and those in named graphs, whole.
    """

    links: pl.DataFrame
    labels: list[tuple[str, str, str]]
    literals: int
    beside: pl.DataFrame


def read_lines(path: Path, form: str) -> Statements:
    """Read a file of N-Triples or N-Quads; ``form`` names it in errors."""
    lines = _matched(_lines(path), _LINK, (*ENDS, "graph"))
    matched = pl.col("head").is_not_null()
    rest = lines.filter(~matched).select("line")
    rest = rest.filter(~pl.col("line").str.contains(_NOTHING))
    links = lines.filter(matched).select(*ENDS, "graph")
    _refuse_bad_escapes(path, lines["line"])
    literals = _matched(rest, _LITERAL, ("head", "relation", *LITERAL))
    wrong = literals.filter(pl.col("head").is_null())
    if len(wrong):
        _refuse(path, form, wrong["line"][0])
    labelled = literals.filter(pl.col("relation") == LABEL)
    labels = [
        (_name(head), _unescape(text), language or "")
        for head, text, language in labelled.select("head", "text", "language").rows()
    ]
    links = _named(links)
    in_graphs = links.filter(pl.col("graph").is_not_null())
    beside = _beside(in_graphs.rename({"tail": "text"}), literals.drop("line"))
    return Statements(links.select(ENDS), labels, len(literals) - len(labelled), beside)


def _beside(links: pl.DataFrame, literals: pl.DataFrame) -> pl.DataFrame:
    """Links in named graphs and literals as `statements.COLUMNS` has them."""
    kinds = pl.when(pl.col("language").is_not_null()).then(pl.lit(LANGUAGE)).otherwise(pl.lit(TEXT))
    text = literals["text"]
    if text.str.contains("\\", literal=True).any():
        literals = literals.with_columns(text.map_elements(_unescape, pl.String))
    named = ("head", "relation", "datatype", "graph")
    literals = literals.with_columns(_named(literals.select(named))).with_columns(
        pl.col("datatype").fill_null(kinds)
    )
    together = pl.concat([links, literals], how="diagonal_relaxed")
    return together.select(
        subject="head",
        predicate="relation",
        object="text",
        datatype=pl.col("datatype").cast(pl.String),
        language=pl.col("language").cast(pl.String),
        graph="graph",
    )


def _lines(path: Path) -> pl.DataFrame:
    # No line of text holds the byte 0x01, so that each is one field.
    try:
        if (source := for_polars(path)) is None:
            raise OSError
        return pl.read_csv(
            source, has_header=False, schema={"line": pl.String}, separator="\x01", quote_char=None
        ).drop_nulls()
    except (pl.exceptions.PolarsError, OSError):
        return pl.DataFrame({"line": [line.rstrip("\r\n") for line in text_lines(path)]})


def _matched(lines: pl.DataFrame, pattern: str, names: Sequence[str]) -> pl.DataFrame:
    """Add a column for each group of the pattern, null where a line does not match."""
    groups = pl.col("line").str.extract_groups(pattern).struct.rename_fields(list(names))
    return lines.with_columns(groups.alias("groups")).unnest("groups")


def _refuse(path: Path, form: str, wrong: str) -> None:
    for number, line in enumerate(text_lines(path), 1):
        if line.rstrip("\r\n") == wrong:
            raise InputError(
                f"{path}, line {number}: {wrong[:80]!r} is not a statement of {form}; correct it."
            )


def _refuse_bad_escapes(path: Path, lines: pl.Series) -> None:
    if not lines.str.contains(_NO_CHARACTER).any():
        return
    bad = re.compile(_NO_CHARACTER)
    for number, line in enumerate(text_lines(path), 1):
        if found := bad.search(line):
            raise InputError(
                f"{path}, line {number}: the escape {found[0]} stands for no character; correct it."
            )


def _named(links: pl.DataFrame) -> pl.DataFrame:
    """Take the brackets off IRIs, and undo escapes in the few files that have them."""
    links = links.with_columns(pl.all().str.strip_prefix("<").str.strip_suffix(">"))
    for name in links.columns:
        if links[name].str.contains("\\", literal=True).any():
            links = links.with_columns(pl.col(name).map_elements(_unescape, pl.String))
    return links


def _name(node: str) -> str:
    return _unescape(node.removeprefix("<").removesuffix(">"))


_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_LETTERS = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    r"""Undo the escapes of N-Triples.

    >>> _unescape(r'caf\u00e9 \"x\"')
    'café "x"'
    """

    def character(match: re.Match[str]) -> str:
        short, long, letter = match.groups()
        return _LETTERS.get(letter, letter) if letter else chr(int(short or long, 16))

    return _ESCAPE.sub(character, text) if "\\" in text else text
