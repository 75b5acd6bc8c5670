"""Things that are no plain files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import Schema
from knowledge_sheaves.graph.readers import load, read_betae_queries

NAMES = ("x.tsv", "x.csv", "x.tsv.gz", "x.parquet", "x.nt", "x.nq", "x.ttl", "x.rdf", "x.jsonld")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
class TestPipes:
    """Who opens a pipe waits for its other end, perhaps for ever."""

    @pytest.mark.parametrize("name", NAMES)
    def test_data(self, tmp_path: Path, name: str) -> None:
        os.mkfifo(tmp_path / name)
        with pytest.raises(InputError, match="no file but"):
            load(tmp_path / name)

    @pytest.mark.parametrize("name", ["types", "labels"])
    def test_what_is_said_about_entities(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "x.tsv").write_text("a\tr\tb\n")
        os.mkfifo(tmp_path / "about.tsv")
        with pytest.raises(InputError, match="no file but"):
            load(tmp_path / "x.tsv", **{name: tmp_path / "about.tsv"})  # type: ignore[arg-type]

    def test_a_schema(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "schema.yaml")
        with pytest.raises(InputError, match="no file but"):
            Schema.load(tmp_path / "schema.yaml")

    def test_queries(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "test-queries.pkl")
        with pytest.raises(InputError, match="no file but"):
            read_betae_queries(tmp_path, "test")


@pytest.mark.parametrize("name", ["~nouser/x", "~nouser", "~nouser/x.tsv"])
def test_the_folder_of_nobody(name: str) -> None:
    with pytest.raises(InputError, match=r"~nouser.* no such"):
        load(name)


@pytest.mark.parametrize("name", ["a\0b", "a\0b.tsv", "x" * 5000, "x/" * 3000])
def test_names_that_no_file_can_have(name: str) -> None:
    with pytest.raises(InputError):
        load(name)
