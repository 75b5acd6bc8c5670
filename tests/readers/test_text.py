"""Text and Parquet tables as real files have them."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Literal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.readers import TextFormat, load
from knowledge_sheaves.graph.readers.raw import ENDS
from knowledge_sheaves.graph.readers.text import read_text

ROWS = [("Julia", "likes", "Fargo"), ("Sachin", "likes", "Star Wars"), ("Julia", "knows", "Sachin")]
TABS = "".join("\t".join(row) + "\n" for row in ROWS)


def train_rows(source: Path, text: TextFormat | None = None) -> set[tuple[str, str, str]]:
    graph = load(source, sizes=(1, 0, 0), text=text).train
    return set(graph.decode(graph.triples))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (TABS, None),
        (TABS.replace("\n", "\r\n"), None),
        ("\ufeff" + TABS, None),
        ("\n\n" + TABS.replace("\n", "\n\n"), None),
        (TABS.rstrip("\n"), None),
        (TABS + "\t\t\n", None),
        (TABS.replace("\t", ","), None),
        (TABS.replace("\t", ";"), None),
        (TABS.replace("Star Wars", '"Star Wars"').replace("\t", " "), None),
        ("head\trelation\ttail\n" + TABS, None),
        ("\ufeffSubject\tPredicate\tObject\n" + TABS, None),
        ("source\tmetaedge\ttarget\n" + TABS, None),
        (
            "weight,tail,head,relation\n"
            + "".join(f"0.5,{tail},{head},{relation}\n" for head, relation, tail in ROWS),
            None,
        ),
        ("".join(f"{r}|{t}|{h}\n" for h, r, t in ROWS), TextFormat("|", columns=(3, 1, 2))),
        (
            "a,b,c,d\n" + "".join(f"{t},x,{h},{r}\n" for h, r, t in ROWS),
            TextFormat(columns=("c", "d", "a")),
        ),
        ("x\ty\tz\n" + TABS, TextFormat(header=True)),
        ("# a comment\n" + TABS + "#another, one\n", TextFormat(comment="#")),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_forms_of_one_file(
    tmp_path: Path, content: str, text: TextFormat | None, packed: bool
) -> None:
    file = tmp_path / ("triples.txt.gz" if packed else "triples.txt")
    file.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    assert train_rows(file, text) == set(ROWS)


def test_a_row_of_header_words_counts_as_data_where_the_user_says_so(tmp_path: Path) -> None:
    file = tmp_path / "triples.tsv"
    file.write_text("head\trelation\ttail\n" + TABS)
    assert train_rows(file, TextFormat(header=False)) == {*ROWS, ("head", "relation", "tail")}


def test_single_letters_are_names(tmp_path: Path) -> None:
    file = tmp_path / "triples.tsv"
    file.write_text("h\tr\tt\ns\tp\to\n")
    assert train_rows(file) == {("h", "r", "t"), ("s", "p", "o")}


def test_quotes_in_tab_files_are_letters(tmp_path: Path) -> None:
    file = tmp_path / "triples.tsv"
    file.write_text('"Heroes" (song)\tby\tDavid "Ziggy" Bowie\n')
    assert train_rows(file) == {('"Heroes" (song)', "by", 'David "Ziggy" Bowie')}


def test_a_quote_inside_an_unquoted_name(tmp_path: Path) -> None:
    """polars refuses it, csv does not: the slow reader takes over."""
    file = tmp_path / "triples.csv"
    file.write_text('12" record,kind,record\n7" single,kind,record\n')
    assert train_rows(file) == {
        ('12" record', "kind", "record"),
        ('7" single', "kind", "record"),
    }


def test_parquet(tmp_path: Path) -> None:
    frame = pl.DataFrame(ROWS, schema=["subject", "predicate", "object"], orient="row")
    frame = frame.with_columns(weight=1.0).select("weight", "object", "predicate", "subject")
    frame.write_parquet(tmp_path / "triples.parquet")
    assert train_rows(tmp_path / "triples.parquet") == set(ROWS)
    frame.write_parquet(tmp_path / "named.parquet")
    by_name = TextFormat(columns=("subject", "predicate", "object"))
    assert train_rows(tmp_path / "named.parquet", by_name) == set(ROWS)


def test_parquet_of_numbers(tmp_path: Path) -> None:
    pl.DataFrame({"a": [7], "b": [0], "c": [8]}).write_parquet(tmp_path / "ids.parquet")
    assert train_rows(tmp_path / "ids.parquet") == {("7", "0", "8")}


# A byte order mark may begin a file, but then it is no part of the first name.
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\ufeff"), min_size=1).filter(
    lambda name: bool(name.strip())
)
AWKWARD = st.sampled_from(['"', '""', "a,b", "a\tb", "a;b", "a b", "a\nb", "a\r\nb", "é\u2028\x85"])
TRIPLES = st.lists(st.tuples(*[NAMES | AWKWARD] * 3), min_size=1, max_size=8)


# With \n alone csv leaves a name that ends in \r unquoted, and nobody could tell.
WRITERS = st.sampled_from(
    [("\r\n", csv.QUOTE_MINIMAL), ("\r\n", csv.QUOTE_ALL), ("\n", csv.QUOTE_ALL)]
)


@given(rows=TRIPLES, delimiter=st.sampled_from("\t,; |"), writer=WRITERS)
def test_what_csv_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, str]],
    delimiter: str,
    writer: tuple[str, Literal[0, 1]],
) -> None:
    file = tmp_path_factory.mktemp("csv") / "triples.csv"
    with file.open("w", newline="", encoding="utf-8") as out:
        end, quoting = writer
        csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
    frame = read_text(file, ENDS, TextFormat(delimiter, header=False, quoted=True))
    assert frame.rows() == rows


@given(rows=st.lists(st.tuples(*[st.sampled_from("abcdé")] * 3), min_size=1))
def test_ids_are_those_of_a_graph_built_from_the_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    file = tmp_path_factory.mktemp("ids") / "triples.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    graph, expected = load(file, sizes=(1, 0, 0)).train, KnowledgeGraph.from_triples(rows)
    assert list(graph.entities) == list(expected.entities)
    assert graph.schema == expected.schema
    assert graph.triples.tolist() == expected.triples.tolist()
