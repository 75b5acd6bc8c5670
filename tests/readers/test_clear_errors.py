"""Each of these once ended in "this is a bug" or worse; now it is one sentence that helps."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from knowledge_sheaves.cli.data import DataOptions
from knowledge_sheaves.embedding import SheafConfig
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import Schema
from knowledge_sheaves.graph.readers import STRUCTURES, load, read_betae_queries
from knowledge_sheaves.graph.readers.download import archive_file, download
from knowledge_sheaves.training import TrainingConfig

NODE = "<http://x/a>"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"


@pytest.mark.parametrize(
    "escape", ["\\UFFFFFFFF", "\\U00110000", "\\uD800", "\\uDfff", "\\U0000D800"]
)
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("x.nt", f"<http://x/%s> <http://x/r> {NODE} ."),
        ("x.nt", f"{NODE} <http://x/%s> {NODE} ."),
        ("x.nt", f'{NODE} {LABEL} "%s" .'),
        ("x.nq", f"{NODE} <http://x/r> <http://x/%s> <http://x/g> ."),
        ("x.ttl", f"<http://x/%s> <http://x/r> {NODE} ."),
        ("x.ttl", f'{NODE} {LABEL} "%s" .'),
    ],
)
def test_escapes_of_no_character(tmp_path: Path, name: str, line: str, escape: str) -> None:
    right = f"{NODE} <http://x/r> {NODE} .\n"
    (tmp_path / name).write_text(right + line.replace("%s", escape) + "\n")
    with pytest.raises(InputError, match=name) as caught:
        load(tmp_path / name)
    if name != "x.ttl":
        assert f"{name}, line 2: the escape {escape} " in str(caught.value)


def test_escapes_of_characters_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.nt").write_text(f"<http://x/\\U0010FFFF\\uE000> <http://x/\\uD7FF> {NODE} .\n")
    data = load(tmp_path / "x.nt", sizes=(1, 0, 0))
    assert data.train.entities[0] == "http://x/\U0010ffff\ue000"


@pytest.mark.parametrize("place", [4, 20, 60, 100, 150])
def test_damaged_parquet(tmp_path: Path, place: int) -> None:
    memory = io.BytesIO()
    pl.DataFrame({"head": ["a"], "relation": ["r"], "tail": ["b"]}).write_parquet(memory)
    content = bytearray(memory.getvalue())
    for at in range(place, len(content) - 8, 5):
        content[at] ^= 0x5A
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.parquet"):
        load(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("types: [{name: 2020-02-30}]\nrelations: []", []),  # text: a date is what people see
        ("types: [!!int x]", ["line 1", "cannot be read as 'int'"]),
        ("types: [!!float x]", ["line 1", "cannot be read as 'float'"]),
        ("types: [!!bool x]", ["line 1", "'bool'"]),
        ("types: " + "[" * 60 + "]" * 60, ["line 1", "nested"]),
        (f"types: [{{name: a, dim: {'9' * 5000}}}]", ["line 1", "5,000 characters", "too long"]),
        ('types: ["\\UFFFFFFFF"]', ["no character"]),
        ('types: ["\\uD800"]', ["half of a character"]),
        ("types: [\x00]", ["not valid YAML"]),
    ],
)
def test_yaml(tmp_path: Path, text: str, parts: list[str]) -> None:
    (tmp_path / "schema.yaml").write_text(text)
    if not parts:
        assert Schema.load(tmp_path / "schema.yaml").types[0].name == "2020-02-30"
        return
    with pytest.raises(InputError, match=r"schema\.yaml") as caught:
        Schema.load(tmp_path / "schema.yaml")
    assert [part for part in parts if part not in str(caught.value)] == [], str(caught.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [("[" * 100_000, "nested too deep"), (f'{{"types": {"9" * 5000}}}', "5,000 digits")],
)
def test_json(tmp_path: Path, text: str, part: str) -> None:
    (tmp_path / "schema.json").write_text(text)
    with pytest.raises(InputError, match=part):
        Schema.load(tmp_path / "schema.json")


@pytest.mark.parametrize("pattern", ["(", "(a{99999999999999})", "()()", "(" * 5000 + ")" * 5000])
def test_regular_expressions(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "x.tsv").write_text("a\tr\tb\n")
    with pytest.raises(InputError, match="regular expression"):
        load(tmp_path / "x.tsv", types=f"regex:{pattern}")


@pytest.mark.parametrize(
    "columns", ["²,1,3", "9" * 5000 + ",1,2", "1,2", ",,", "-1,2,3", "1.5,2,3"]
)
def test_columns(tmp_path: Path, columns: str) -> None:
    (tmp_path / "x.tsv").write_text("a\tr\tb\n")
    with pytest.raises(InputError, match=r"column"):
        DataOptions(columns=columns).load(str(tmp_path / "x.tsv"), 0, force=False)


@pytest.mark.parametrize(
    "text", ["1: 2", "null: 2", "true: 2", "1.5: 2", "[1]: 2", "? {a: 1}\n: 2"]
)
def test_options_without_a_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    for read in (SheafConfig.load, TrainingConfig.load, Schema.load):
        with pytest.raises(InputError, match=r"x\.yaml"):
            read(tmp_path / "x.yaml")


QUERIES: dict[Any, Any] = {STRUCTURES["1p"]: {(0, (0,))}}


@pytest.mark.parametrize(
    ("queries", "answers"),
    [
        ({STRUCTURES["1p"]: None}, {}),
        ({STRUCTURES["1p"]: {(0, ("0",))}}, {}),
        ({STRUCTURES["1p"]: {(None, (0,))}}, {}),
        ({STRUCTURES["1p"]: {(10**30, (0,))}}, {}),
        ({STRUCTURES["1p"]: [[0, [0]]]}, {}),
        ({STRUCTURES["1p"]: {"(0, (0,))"}}, {}),
        ({STRUCTURES["2in"]: {((0, (0,)), (0, (0, 3)))}}, {}),
        ({STRUCTURES["1p"]: {(-1, (0,))}}, {}),
        (QUERIES, {(0, (0,)): None}),
        (QUERIES, {(0, (0,)): [1]}),
        (QUERIES, {(0, (0,)): {"1"}}),
        (QUERIES, {(0, (0,)): {-1}}),
        (QUERIES, {(0, (0,)): {10**30}}),
        (QUERIES, [1]),
    ],
)
def test_betae_files_of_other_things(tmp_path: Path, queries: object, answers: object) -> None:
    for name, data in (("queries", queries), ("easy-answers", answers), ("hard-answers", answers)):
        (tmp_path / f"test-{name}.pkl").write_bytes(pickle.dumps(data))
    with pytest.raises(InputError, match=r"\.pkl: "):
        read_betae_queries(tmp_path, "test")


def archive(names: list[str], flags: int = 0, method: int = 0) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as packed:
        for name in names:
            packed.writestr(zipfile.ZipInfo(name), b"0\t0\t1\n")
    content = bytearray(memory.getvalue())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.index(mark)
        content[at + place] |= flags
        content[at + place + 2] |= method
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (archive(["NELL-betae/train.txt"], flags=1), "it is encrypted"),
        (archive(["NELL-betae/train.txt"], method=97), "compression"),
        (archive(["NELL-betae/train.txt", "NELL-betae/train.txt/x"]), "not a whole ZIP archive"),
        (archive(["NELL-betae/train.txt", "NELL-betae/" + "a" * 300]), "too long"),
    ],
)
def test_archives(tmp_path: Path, content: bytes, part: str) -> None:
    archive_file(tmp_path).write_bytes(content)
    with pytest.raises(InputError, match=part):
        download("NELL-betae", tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_an_archive_that_unfolds_without_end(tmp_path: Path) -> None:
    with zipfile.ZipFile(archive_file(tmp_path), "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("NELL-betae/train.txt", b"0\t0\t1\n" * 10_000_000)
    with pytest.raises(InputError, match="100 times its size"):
        download("NELL-betae", tmp_path)
