"""The parsers that are written by hand, fuzzed by coverage: ``python tests/fuzz/guided.py``.

Atheris keeps the inputs that reach new lines of a parser and goes on from them. The first byte of
an input says which parser it is for; options such as ``-runs=100000 -seed=1`` are libFuzzer's.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

with atheris.instrument_imports(
    include=["knowledge_sheaves.graph", "knowledge_sheaves.query.language"]
):
    from knowledge_sheaves.errors import SheafError
    from knowledge_sheaves.graph import KnowledgeGraph
    from knowledge_sheaves.graph.plain_data import parse_json, parse_yaml
    from knowledge_sheaves.graph.readers.jsonld import addresses
    from knowledge_sheaves.graph.readers.layout import TextFormat, find_layout
    from knowledge_sheaves.graph.readers.lines import split_lines
    from knowledge_sheaves.graph.readers.ntriples import read_lines
    from knowledge_sheaves.graph.readers.pickles import read_plain_pickle
    from knowledge_sheaves.query.language.short import to_sparql
    from knowledge_sheaves.query.language.sparql_text import read as read_sparql

GRAPH = KnowledgeGraph.from_triples(
    [("Ann", "knows", "Bob Ross"), ("Bob Ross", "favorite movie", "a . b"), ("not", "knows", "?x")]
)
FILE = Path(tempfile.mkdtemp(prefix="guided-")) / "x"


def in_file(read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def attempt(data: bytes) -> object:
        FILE.write_bytes(data)
        return read(FILE)

    return attempt


def rows(path: Path) -> object:
    layout = find_layout(path, ("head", "relation", "tail"), TextFormat(), extra=True)
    return list(split_lines(path, layout.delimiter, layout.quoted, "#"))


PARSERS: list[Callable[[bytes], object]] = [
    in_file(read_plain_pickle),
    in_file(rows),
    in_file(lambda path: read_lines(path, "N-Triples")),
    lambda data: parse_yaml(data.decode("utf-8", "replace")),
    lambda data: list(addresses(parse_json(data.decode("utf-8", "replace")))),
    lambda data: to_sparql(data.decode("utf-8", "replace"), GRAPH),
    lambda data: read_sparql(data.decode("utf-8", "replace")),
]


def attempt(data: bytes) -> None:
    """Whatever is no error of ours ends the run, and libFuzzer keeps the input."""
    if data:
        with contextlib.suppress(SheafError):
            PARSERS[data[0] % len(PARSERS)](data[1:])


if __name__ == "__main__":
    limits = [
        "-timeout=5",
        "-rss_limit_mb=1500",
        "-max_len=4096",
        f"-artifact_prefix={FILE.parent}/",
    ]
    atheris.Setup([sys.argv[0], *limits, *sys.argv[1:]], attempt)
    atheris.Fuzz()
