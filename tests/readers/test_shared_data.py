"""The real data sets, against counts made line by line here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knowledge_sheaves.graph.readers import STRUCTURES, Dataset, load, read_betae_queries

Rows = list[tuple[str, ...]]


def rows_of(file: Path) -> Rows:
    return [tuple(line.split("\t")) for line in file.read_text(encoding="utf-8").splitlines()]


def names_of(rows: Rows) -> set[str]:
    return {row[place] for row in rows for place in (0, 2)}


def check(data: Dataset, folder: Path, *, drop: bool) -> None:
    train = rows_of(folder / "train.txt")
    known = names_of(train)
    for name, graph in data.splits.items():
        rows = rows_of(folder / f"{name}.txt")
        if drop:
            rows = [row for row in rows if row[0] in known and row[2] in known]
        assert set(graph.decode(graph.triples)) == set(rows)


@pytest.mark.parametrize(
    ("name", "entities", "relations"),
    [
        ("FB15k-237", 14505, 237),
        ("WN18RR", 40559, 11),
        ("codex/codex-s", 2034, 42),
        ("codex/codex-m", 17050, 51),
    ],
)
def test_triples_by_name(shared_data: Path, name: str, entities: int, relations: int) -> None:
    data = load(shared_data / name)
    assert data.train.num_entities == entities
    assert len(data.train.schema.relation_names) == relations
    check(data, shared_data / name, drop=True)


def test_unseen_entities_of_wn18rr(shared_data: Path) -> None:
    data = load(shared_data / "WN18RR", keep_unseen=True)
    assert data.train.num_entities == 40943
    check(data, shared_data / "WN18RR", drop=False)
    notes = load(shared_data / "WN18RR").notes
    assert [note.split(" triples")[0] for note in notes] == [
        "210 of 3034 valid",
        "210 of 3134 test",
    ]


def test_labels_of_fb15k_237(shared_data: Path) -> None:
    graph = load(shared_data / "FB15k-237").train
    assert graph.labels is not None
    assert graph.labels[graph.entities.id("/m/06rf7")] == "Schleswig-Holstein"


def test_types_of_codex(shared_data: Path) -> None:
    codex = shared_data / "codex"
    data = load(
        codex / "codex-s", types=codex / "entity2types.tsv", type_separator=" ", stalks="types"
    )
    allowed = {name: kinds.split() for name, kinds in rows_of(codex / "entity2types.tsv")}
    kinds = data.train.schema.type_names.names(data.train.entity_types)
    assert len(set(kinds)) > 50
    assert all(kind in allowed[name] for name, kind in zip(data.train.entities, kinds, strict=True))


@pytest.mark.parametrize(
    ("name", "told", "lost", "left"),
    [
        ("codex/codex-s", {"types": "codex/entity2types.tsv", "type_separator": " "}, 0.0, 0.65),
        ("NELL-betae", {"types": "regex:concept_([a-z]+)_"}, 0.005, 0.35),
    ],
)
def test_types_rule_out_much_and_hardly_a_fact(
    shared_data: Path, name: str, told: dict[str, str], lost: float, left: float
) -> None:
    if not told["types"].startswith("regex:"):
        told = told | {"types": str(shared_data / told["types"])}
    data = load(shared_data / name, **told)
    assert data.train.classes is not None
    assert data.test is not None
    group, _ = data.train.classes.groups
    for end, place in (("head", 0), ("tail", 2)):
        allowed = data.train.possible[end]
        edges, entities = data.test.triples[:, 1], data.test.triples[:, place]
        assert (~allowed[edges, group[entities]]).mean() <= lost
        share = allowed @ np.bincount(group) / data.train.num_entities
        assert share[edges].mean() <= left


def test_hetionet_has_headers_everywhere(shared_data: Path) -> None:
    nodes = shared_data / "hetionet" / "nodes.tsv"
    edges = shared_data / "hetionet" / "edges_subset.tsv"
    data = load(edges, types=nodes, labels=nodes)
    _, *rows = rows_of(edges)
    assert sum(part.num_triples for part in data.splits.values()) == len(set(rows)) == 113_870
    assert data.train.num_entities == len(names_of(rows))
    graph = data.train
    assert graph.labels is not None
    for name, label, kind in rows_of(nodes)[1:]:
        if (place := graph.entities.get(name)) is not None:
            assert graph.labels[place] == label
            assert graph.types_of(place) == [kind]
    by_name = load(edges, types="regex:(.+?)::")
    assert by_name.train.classes == graph.classes


def test_family_leaks(shared_data: Path) -> None:
    (note,) = load(shared_data / "family" / "dl-family").notes
    assert "inverse 'hasChild' and 'hasParent' (100% of the pairs, 208 shared)" in note
    assert "symmetric 'married'" in note


@pytest.mark.parametrize(("name", "relations"), [("NELL-betae", 400), ("FB15k-237-betae", 474)])
def test_betae_folders_keep_ids(shared_data: Path, name: str, relations: int) -> None:
    data = load(shared_data / name)
    assert data.train.num_relations == relations
    assert data.notes == ()
    for split, graph in data.splits.items():
        rows = sorted(
            [int(part) for part in row] for row in rows_of(shared_data / name / f"{split}.txt")
        )
        assert graph.triples.tolist() == rows


def test_types_in_the_names_of_nell(shared_data: Path) -> None:
    data = load(shared_data / "NELL-betae", types="regex:concept_([a-z]+)_")
    assert len(data.train.type_names) == 267
    assert data.notes[0].startswith("4098 of 63361 names carry no type")


def test_queries_of_nell(shared_data: Path) -> None:
    data = read_betae_queries(shared_data / "NELL-betae", "test")
    counts = {name: len(data.queries[structure]) for name, structure in STRUCTURES.items()}
    assert counts == {name: 17_021 if name == "1p" else 4_000 for name in STRUCTURES}
    assert data.easy is not None
    assert data.hard is not None
    everything = {query for asked in data.queries.values() for query in asked}
    assert everything == data.easy.keys() == data.hard.keys()
    assert all(data.hard.values())
