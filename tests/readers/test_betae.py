"""BetaE folders: names and ids as in the files, queries and answers as they are."""

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path

import pytest

from knowledge_sheaves.graph.readers import STRUCTURES, load, read_betae_queries


def test_ids_are_kept_and_nothing_is_dropped(tmp_path: Path) -> None:
    for name, data in (("ent", {1: "b", 0: "a", 2: "c", 3: "d"}), ("rel", {0: "+r", 1: "-r"})):
        (tmp_path / f"id2{name}.pkl").write_bytes(pickle.dumps(data))
    (tmp_path / "train.txt").write_text("2\t1\t0\n")
    (tmp_path / "valid.txt").write_text("1\t0\t2\n")
    data = load(tmp_path)
    assert list(data.train.entities) == ["a", "b", "c", "d"]
    assert data.train.schema.relation_names == ("+r", "-r")
    assert data.train.triples.tolist() == [[2, 1, 0]]
    assert data.valid is not None
    assert data.valid.triples.tolist() == [[1, 0, 2]]
    assert data.test is None


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_queries(tmp_path: Path, protocol: int) -> None:
    query = (0, (1,))
    asked = defaultdict(set, {STRUCTURES["1p"]: {query}})
    for name, data in (
        ("valid-queries", asked),
        ("valid-easy-answers", defaultdict(set)),
        ("valid-hard-answers", {query: {2, 3}}),
        ("train-queries", asked),
        ("train-answers", {query: {1}}),
        ("test-queries", asked),
    ):
        (tmp_path / f"{name}.pkl").write_bytes(pickle.dumps(data, protocol))
    valid, train = (read_betae_queries(tmp_path, split) for split in ("valid", "train"))
    assert valid.queries == {("e", ("r",)): {query}}
    assert (valid.easy, valid.hard) == ({}, {query: {2, 3}})
    assert (train.easy, train.hard) == ({query: {1}}, None)
    without = read_betae_queries(tmp_path, "test")
    assert (without.easy, without.hard) == (None, None)


def test_the_structures_are_sixteen_distinct_ones() -> None:
    assert len(set(STRUCTURES.values())) == len(STRUCTURES) == 16
