"""Bad input: each case gives one sentence with the file, the line, and what to do."""

from __future__ import annotations

import gzip
import os
import pickle
import random
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.readers import TextFormat, load, read_betae_queries
from knowledge_sheaves.graph.splits import split

GOOD = "a\tr\tb\n"
NT = "<http://x/a> <http://x/r> <http://x/b> .\n"


def packed(text: str) -> bytes:
    """Compressed without the time of day, which would give a test another name every second."""
    return gzip.compress(text.encode(), mtime=0)


LONG = packed("".join(f"{random.Random(n).random():.9f}\tr\tb\n" for n in range(9999)))
RDF = "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>{}</r:RDF>"
TURTLE = "@prefix : <http://x/> .\n:a :r :b .\n"


def refused(source: str | Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(source, **options)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith((".", "?"))
    return sentence


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


@pytest.mark.parametrize(
    ("name", "content", "options", "parts"),
    [
        ("x.tsv", "", {}, ["x.tsv", "is empty"]),
        ("x.tsv", "\n \n", {}, ["x.tsv", "is empty"]),
        ("x.tsv", "head\trelation\ttail\n", {}, ["x.tsv", "no triples to train on"]),
        ("x.tsv", GOOD + "c\tr\n", {}, ["x.tsv, line 2", "2 columns where 3", "tab", "correct"]),
        ("x.tsv", GOOD + "\nc\n", {}, ["x.tsv, line 3", "1 column where 3"]),
        ("x.tsv", GOOD * 2 + "a\tr\tb\tc\n", {}, ["x.tsv, line 3", "4 columns where 3"]),
        ("x.tsv", GOOD + "\tr\tb\n", {}, ["x.tsv, line 2", "the head is empty", "name it"]),
        ("x.tsv", GOOD + "a\t \tb\n", {}, ["x.tsv, line 2", "the relation is empty"]),
        ("x.csv", "a,r,b\r\na,r,\r\n", {}, ["x.csv, line 2", "the tail is empty"]),
        ("x.csv", 'a,r,b\na,r,""\n', {}, ["x.csv, line 2", "the tail is empty"]),
        ("x.csv", 'a,r,"b\nc"\na,,b\n', {}, ["x.csv, line 3", "the relation is empty"]),
        ("x.csv", 'a,r,b\n"c,r,d\ne,r,f\n', {}, ["x.csv, line 2", "quotes", "close them"]),
        ("x.csv", 'a,r,b\n"c"d,r,e\n', {}, ["x.csv, line 2", "quotes", "unquoted"]),
        ("x.tsv", b"a\tr\tb\nc\tr\t\xe9\n", {}, ["x.tsv, line 2", "0xe9 is not UTF-8", "save"]),
        ("x.csv", "a,r,b\rc,r,d\r", {}, ["x.csv", "columns"]),
        ("x.tsv", "ab\ncd\n", {}, ["x.tsv", "'ab'", "fewer than 3 columns", "give the delimiter"]),
        ("x.tsv", "a\tr\tb\t1\n", {}, ["x.tsv", "4 columns and no header", "say which"]),
        ("x.tsv", "a\tr\tb\n", {"columns": (1, 2)}, ["Give 3 columns", "head, relation and tail"]),
        ("x.tsv", "a\tr\tb\n", {"columns": (0, 1, 2)}, ["x.tsv", "no column 0", "from 1 to 3"]),
        ("x.tsv", GOOD, {"columns": (1, 2, 1)}, ["Head, relation and tail", "of their own"]),
        ("x.tsv", "a\tr\tb\n", {"columns": (1, 2, 4)}, ["x.tsv", "no column 4", "from 1 to 3"]),
        ("x.tsv", GOOD, {"columns": ("a", "r", "z")}, ["x.tsv", "no column 'z'", "'a', 'r', 'b'"]),
        ("x.tsv.gz", packed(GOOD * 99)[:-9], {}, ["x.tsv.gz", "damaged", "again"]),
        ("x.tsv.gz", LONG[: len(LONG) // 2], {}, ["x.tsv.gz", "damaged", "get it again"]),
        ("x.tsv.gz", LONG[:-8] + bytes(8), {}, ["x.tsv.gz", "damaged", "get it again"]),
        ("x.tsv", "#\n" + GOOD + "c\n", {"comment": "#"}, ["x.tsv, line 3", "1 column"]),
        ("x.csv", "#\na,r,b\nc\n", {"comment": "#"}, ["x.csv, line 3", "1 column"]),
        ("x.parquet", "no parquet", {}, ["x.parquet", "not a readable Parquet file"]),
        ("x.docx", GOOD, {}, ["x.docx", "the ending does not tell", ".tsv"]),
        ("x.nt", NT + "<http://x/a> .\n", {}, ["x.nt, line 2", "N-Triples", "correct it"]),
        ("x.nt", NT + NT.replace(" .", ""), {}, ["x.nt, line 2", "not a statement"]),
        ("x.nq", NT + "\n_:a <http://x/r> x .\n", {}, ["x.nq, line 3", "N-Quads"]),
        ("x.nt", "<http://x/a> <http://x/r> 'b' .", {}, ["x.nt, line 1", "'b'"]),
        ("x.nt", NT.encode() + b"# \xff\n", {}, ["x.nt, line 2", "0xff is not UTF-8"]),
        ("x.nt", '<http://x/a> <http://x/r> "b" .', {}, ["no triples", "1 literal value is"]),
        ("x.nt", "", {}, ["x.nt", "no triples"]),
        ("x.ttl", TURTLE + ":a :b .\n", {}, ["x.ttl, line 3", "turtle", "objectList"]),
        ("x.ttl", TURTLE.encode() + b":\xff :r :b .", {}, ["x.ttl, line 3", "0xff is not UTF-8"]),
        ("x.rdf", "<a>\n<b></a>", {}, ["x.rdf, line 2", "mismatched tag"]),
        ("x.rdf", RDF.format("\n<r:Description r:ID='1'/>"), {}, ["x.rdf, line 2: not readable"]),
        ("x.jsonld", '{"a":\n1,}', {}, ["x.jsonld, line 2", "double quotes"]),
        ("x.jsonld", '{"@context": "http://127.0.0.1:9/"}', {}, ["x.jsonld", "lies elsewhere"]),
        ("x.ttl.gz", packed(TURTLE)[:-9], {}, ["x.ttl.gz", "damaged"]),
    ],
)
def test_files(
    tmp_path: Path, name: str, content: str | bytes, options: dict[str, Any], parts: list[str]
) -> None:
    write(tmp_path, {name: content})
    sentence = refused(tmp_path / name, text=TextFormat(**options))
    assert [part for part in parts if part not in sentence] == [], sentence


NELL: dict[str, str | bytes] = {
    "id2ent.pkl": pickle.dumps({0: "a", 1: "b"}),
    "id2rel.pkl": pickle.dumps({0: "r"}),
    "train.txt": "0\t0\t1\n",
}
SCHEMA = "types: [Person, Film]\nrelations: [{name: likes, head: Person, tail: Film}]\n"
LIKES = "Julia\tlikes\tFargo\n"
TYPES = "Julia\tPerson\nFargo\tFilm\n"


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        ({}, ["there is no train file", "triples", ".tsv"]),
        ({"valid.txt": GOOD}, ["there is no train file"]),
        (
            {"edges.tsv": GOOD, "nodes.tsv": GOOD},
            ["give the file that holds the facts, one of edges.tsv, nodes.tsv."],
        ),
        ({"train.txt": GOOD, "train.tsv": GOOD}, ["train.tsv and train.txt", "keep one"]),
        ({"train.txt": GOOD, "valid.tsv": GOOD, "dev.tsv": GOOD}, ["valid.tsv and dev.tsv"]),
        ({"train.txt": GOOD, "test.nt": NT}, ["train.txt, test.nt", "all splits as RDF"]),
        ({"train.txt": GOOD, "test.txt": "a\tb\n"}, ["test.txt", "fewer than 3 columns"]),
        ({"train.txt": GOOD, "types.tsv": "a\tx\tz\n"}, ["types.tsv", "entity and type", "say"]),
        ({"train.txt": GOOD, "types.tsv": "a\tx\nb\n"}, ["types.tsv, line 2", "1 column where 2"]),
        ({"train.txt": GOOD, "labels.tsv": "a\t\n"}, ["labels.tsv, line 1", "the label is empty"]),
        ({"train.txt": LIKES, "schema.yaml": "types: 3"}, ["schema.yaml, line 1", "list"]),
        ({"train.txt": LIKES, "schema.yaml": SCHEMA}, ["'Julia'", "no type", "'Person'"]),
        (
            {"train.txt": LIKES, "schema.yaml": SCHEMA, "types.tsv": "Julia\tPersn\nFargo\tFilm"},
            ["'Julia'", "Unknown type 'Persn'", "did you mean 'Person'?"],
        ),
        (
            {
                "train.txt": LIKES + "Julia\tlike\tFargo\n",
                "schema.yaml": SCHEMA,
                "types.tsv": TYPES,
            },
            ["no relation 'like'", "did you mean 'likes'?"],
        ),
        (
            {
                "train.txt": LIKES + "Fargo\tlikes\tJulia\n",
                "schema.yaml": SCHEMA,
                "types.tsv": TYPES,
            },
            ["train: 1 triple does not fit", "row 2: (Fargo, likes, Julia)", "Film to Person"],
        ),
        (
            {**NELL, "train.txt": "0\t0\t1\n\n0\t0\t2\n"},
            ["train.txt, line 3", "tail '2'", "0 to 1"],
        ),
        ({**NELL, "train.txt": "0\t1\t1\n"}, ["train.txt, line 1", "relation '1'", "0 to 0"]),
        ({**NELL, "train.txt": "0\t0\t1\na\t0\t1\n"}, ["train.txt, line 2", "the head 'a'"]),
        ({**NELL, "train.txt": "-1\t0\t1\n"}, ["train.txt, line 1", "the head '-1'"]),
        ({"id2ent.pkl": NELL["id2ent.pkl"], "id2rel.pkl": b""}, ["id2rel.pkl", "not a readable"]),
        ({**NELL, "id2ent.pkl": b"garbage"}, ["id2ent.pkl", "not a readable pickle", "again"]),
        ({**NELL, "id2ent.pkl": pickle.dumps(["a"])}, ["id2ent.pkl", "expected a dict"]),
        ({**NELL, "id2ent.pkl": pickle.dumps({1: "a"})}, ["id2ent.pkl", "0, 1, 2"]),
        ({**NELL, "id2ent.pkl": pickle.dumps({0: "a", 1: "a"})}, ["id2ent.pkl", "distinct"]),
        ({**NELL, "id2ent.pkl": pickle.dumps({0: 7})}, ["id2ent.pkl", "strings"]),
        (
            {**NELL, "id2ent.pkl": pickle.dumps(OrderedDict())},
            ["id2ent.pkl", "collections.OrderedDict", "only sets, dicts"],
        ),
        (
            {k: v for k, v in NELL.items() if k != "train.txt"},
            ["no train.txt beside id2ent.pkl"],
        ),
    ],
)
def test_folders(tmp_path: Path, files: dict[str, str | bytes], parts: list[str]) -> None:
    sentence = refused(write(tmp_path, files))
    assert [part for part in parts if part not in sentence] == [], sentence


@pytest.mark.parametrize(
    ("frame", "parts"),
    [
        ({"h": ["a", "b"], "r": ["r", None], "t": ["c", "d"]}, ["row 2", "the relation is empty"]),
        ({"h": ["a", " "], "r": ["r", "r"], "t": ["c", "d"]}, ["row 2", "the head is empty"]),
        ({"h": ["a"], "r": ["r"], "t": [["c"]]}, ["the tail column holds List"]),
        ({"h": ["a"], "r": ["r"]}, ["2 columns where head, relation and tail are needed"]),
        ({"h": ["a"], "r": ["r"], "t": ["b"], "x": [1]}, ["4 columns and no header", "say which"]),
    ],
)
def test_parquet(tmp_path: Path, frame: dict[str, list[Any]], parts: list[str]) -> None:
    pl.DataFrame(frame).write_parquet(tmp_path / "x.parquet")
    sentence = refused(tmp_path / "x.parquet")
    assert [part for part in ["x.parquet", *parts] if part not in sentence] == [], sentence


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("regex:concept_", ["'concept_'", "one group", "has 0"]),
        ("regex:(a)(b)", ["one group", "has 2"]),
        ("regex:(", ["'('", "not a regular expression"]),
        ("nowhere.tsv", ["nowhere.tsv", "cannot be read", "No such file"]),
    ],
)
def test_types(tmp_path: Path, pattern: str, parts: list[str]) -> None:
    write(tmp_path, {"x.tsv": GOOD})
    sentence = refused(tmp_path / "x.tsv", types=pattern)
    assert [part for part in parts if part not in sentence] == [], sentence


def test_a_strict_schema_lists_the_type_pairs(tmp_path: Path) -> None:
    write(tmp_path, {"train.txt": GOOD + "b\tr\ta\n", "types.tsv": "a\tx\nb\ty\n"})
    assert "'r': x to y (1), y to x (1)" in refused(tmp_path, strict=True)


@pytest.mark.parametrize("source", ["no/such/folder", "nothing.tsv", Path("umlss")])
def test_paths_that_are_not_there(source: str | Path) -> None:
    assert refused(source) == f"{source}: there is no such file or folder."


@pytest.mark.parametrize("delimiter", ["", "ab", "→"])
def test_delimiters(delimiter: str) -> None:
    with pytest.raises(InputError, match="one plain character"):
        TextFormat(delimiter=delimiter)


@pytest.mark.parametrize("sizes", [(0.5, 0.5), (0.8, 0.1, 0.2), (0, 0.5, 0.5), (1.2, -0.1, -0.1)])
def test_sizes(sizes: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="three shares that add up to 1"):
        split(KnowledgeGraph.from_triples([("a", "r", "b")]), sizes)


class Runs:
    """What a hostile pickle would do."""

    def __reduce__(self) -> Any:
        return print, ("this must not be printed",)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (pickle.dumps(Runs()), ["builtins.print", "could run code"]),
        (pickle.dumps({("e", ("r",)): {Path("x")}}), ["pathlib.", "could run code"]),
        (pickle.dumps({("e", ("q",)): set()}), ["('e', ('q',))", "not a structure"]),
        (pickle.dumps(3), ["expected a dict, found a int"]),
        (pickle.dumps({("e", ("r",)): {(0, (0,))}})[:-5], ["not a readable pickle"]),
    ],
)
def test_query_pickles(
    tmp_path: Path, content: bytes, parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, {"valid-queries.pkl": content})
    with pytest.raises(InputError) as caught:
        read_betae_queries(tmp_path, "valid")
    sentence = str(caught.value)
    assert [part for part in ["valid-queries.pkl", *parts] if part not in sentence] == [], sentence
    assert capsys.readouterr().out == ""


def test_queries_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"test-queries\.pkl: cannot be read: No such file"):
        read_betae_queries(tmp_path, "test")
    with pytest.raises(InputError, match="train, valid and test, not 'dev'"):
        read_betae_queries(tmp_path, "dev")


def test_an_unknown_data_set_has_near_ones_suggested() -> None:
    assert "did you mean 'umls'?" in refused("umsl")


def test_no_network_is_one_sentence(tmp_path: Path) -> None:
    """In a process of its own, because PyKEEN looks for its cache when it is imported."""
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    nowhere |= {name.upper(): address for name, address in nowhere.items()}
    code = "from knowledge_sheaves.graph.readers import load\nload('codexsmall')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **nowhere, "PYSTOW_HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    sentence = done.stderr.splitlines()[-1]
    assert sentence.startswith("knowledge_sheaves.errors.SheafError: PyKEEN could not download")
    assert "'codexsmall'" in sentence
    assert "check the network, or give a folder" in sentence
