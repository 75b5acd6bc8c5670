"""A table that is read part by part is the table that is read at once, errors included."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.readers import TextFormat, load, tables, text
from knowledge_sheaves.graph.readers.raw import ENDS, number_names
from knowledge_sheaves.graph.readers.tables import read_table, table_parts

NAMES = ["Ann", "Bø", "a name of more than twelve bytes", "Carla", "D", "7"]
CHANCE = np.random.default_rng(0)
ROWS = [(NAMES[h], f"r{r}", NAMES[t]) for h, r, t in CHANCE.integers(0, [6, 3, 6], (40, 3))]
LINES = ["\t".join(row) for row in ROWS]


@pytest.fixture(params=[5, 64, 300])
def small_parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(text, "BLOCK", request.param)
    monkeypatch.setattr(text, "ROWS", 3)
    monkeypatch.setattr(tables, "AT_ONCE", 1 + request.param // 10)
    return int(request.param)


def written(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("ending", [".tsv", ".tsv.gz"])
@pytest.mark.parametrize(
    ("content", "form"),
    [
        ("\n".join(LINES), TextFormat()),
        ("\ufeffhead\trelation\ttail\r\n" + "\r\n".join(LINES) + "\r\n", TextFormat()),
        ("\n\n# none\n\n\nx\ty\tz\n" + "\n\n".join(LINES), TextFormat(header=True, comment="#")),
        ("\n".join(LINES) + "\n\t\t\n" * 9, TextFormat()),
        ("\n".join(line.replace("\t", ",") for line in LINES), TextFormat()),
        ("\n".join('"' + line.replace("\t", '","') + '"' for line in LINES), TextFormat()),
        ("\n".join([*LINES[:20], 'a"b\tr\tc', *LINES[20:]]), TextFormat()),
    ],
)
def test_parts_make_the_whole(tmp_path: Path, content: str, form: TextFormat, ending: str) -> None:
    found = read_table(written(tmp_path / f"x{ending}", content), ENDS, form)
    assert [row for row in found.iter_rows() if '"' not in row[0]] == ROWS


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("a\tr", "2 columns where 3 are expected"),
        ("a\tr\tb\tc", "4 columns where 3 are expected"),
        ("a\t \tb", "the relation is empty"),
        ("a\t\udcff\tb", "the byte 0xff is not UTF-8"),
    ],
)
def test_an_error_in_a_later_part_names_its_line(tmp_path: Path, line: str, why: str) -> None:
    lines = [*LINES[:30], "", line, *LINES[30:]]
    file = written(tmp_path / "x.tsv", "\n".join(lines).encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=f"x.tsv, line 32: {why}"):
        load(file)


@pytest.mark.usefixtures("small_parts")
def test_parts_of_parquet_count_their_rows(tmp_path: Path) -> None:
    whole = pl.DataFrame(ROWS, schema=ENDS, orient="row")
    whole.write_parquet(tmp_path / "x.parquet")
    assert read_table(tmp_path / "x.parquet", ENDS, TextFormat()).equals(whole)
    gap = whole.with_columns(tail=pl.when(pl.int_range(40) == 36).then(None).otherwise("tail"))
    gap.write_parquet(tmp_path / "y.parquet")
    with pytest.raises(InputError, match=r"y\.parquet, row 37: the tail is empty"):
        read_table(tmp_path / "y.parquet", ENDS, TextFormat())


@pytest.mark.parametrize("size", [1, 3, 40])
def test_ids_follow_the_rows_whatever_the_parts(size: int) -> None:
    whole = pl.DataFrame(ROWS, schema=ENDS, orient="row")
    raw = number_names(
        {"train": (part for part in whole[:30].iter_slices(size)), "test": whole[30:]}
    )
    assert raw.entities == list(dict.fromkeys(name for h, _, t in ROWS for name in (h, t)))
    assert raw.relations == list(dict.fromkeys(r for _, r, _ in ROWS))
    named = [
        (raw.entities[h], raw.relations[r], raw.entities[t])
        for h, r, t in np.concatenate(list(raw.splits.values())).tolist()
    ]
    assert named == ROWS
    assert len(raw.splits["test"]) == 10


def test_the_rest_of_a_file_is_not_read_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK", 1 << 16)
    many = "".join(f"a{i}\tr\tb{i}\n" for i in range(200_000)).encode()
    packed = gzip.compress(many)
    (tmp_path / "x.tsv.gz").write_bytes(packed[:-1000])
    parts = table_parts(tmp_path / "x.tsv.gz", ENDS, TextFormat())
    assert 1000 < len(next(parts)) < 10_000
    with pytest.raises(InputError, match="the gzip file is damaged"):
        list(parts)


def test_what_is_packed_within_a_file_stays_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """polars unfolds whatever begins as a packed file does, and a part may."""
    monkeypatch.setattr(text, "BLOCK", 64)
    first = "a\tr\tb\n" * 10 + "\n" * 4
    assert len(first) == 64
    bomb = zlib.compress(b"a\tr\tb\n" * 100_000)
    file = written(tmp_path / "x.tsv", first.encode() + bomb)
    with pytest.raises(InputError, match=r"x\.tsv, line 15: "):
        load(file)
