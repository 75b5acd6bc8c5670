"""Data sets: splits, types, labels, schemas, notes and the hash."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import Schema
from knowledge_sheaves.graph.readers import load

TRAIN = "Julia\tlikes\tFargo\nSachin\tlikes\tFargo\nJulia\tknows\tSachin\n"
TYPES = "entity\ttype\nJulia\tPerson\nSachin\tPerson\nSachin\tStudent\nFargo\tFilm\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.txt").write_text(TRAIN)
    (tmp_path / "dev.tsv").write_text("Sachin\tknows\tJulia\nSachin\tlikes\tPrimer\n")
    (tmp_path / "test.csv").write_text("Sachin,likes,Julia\nJulia,hates,Fargo\nAnja,likes,Fargo\n")
    return tmp_path


def test_names_that_train_does_not_show_are_dropped(folder: Path) -> None:
    data = load(folder)
    assert list(data.train.entities) == ["Julia", "Fargo", "Sachin"]
    assert data.train.schema.relation_names == ("likes", "knows")
    assert data.valid is not None
    assert data.test is not None
    assert data.valid.decode(data.valid.triples) == [("Sachin", "knows", "Julia")]
    assert data.test.decode(data.test.triples) == [("Sachin", "likes", "Julia")]
    assert data.notes == (
        "1 of 2 valid triples is dropped: train does not have all its names.",
        "2 of 3 test triples are dropped: train does not have all their names.",
    )


def test_names_that_train_does_not_show_are_kept_on_request(folder: Path) -> None:
    data = load(folder, keep_unseen=True)
    assert list(data.train.entities) == ["Julia", "Fargo", "Sachin", "Primer", "Anja"]
    assert data.train.schema.relation_names == ("likes", "knows", "hates")
    assert {name: graph.num_triples for name, graph in data.splits.items()} == {
        "train": 3,
        "valid": 2,
        "test": 3,
    }
    assert data.notes == ()


def test_repeats_are_noted(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(TRAIN * 2)
    data = load(tmp_path)
    assert (data.train.num_triples, data.valid, data.test) == (3, None, None)
    assert data.notes == ("3 repeated triples in train are dropped.",)


def test_a_split_without_triples_is_none(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(TRAIN)
    (tmp_path / "valid.txt").write_text("head\trelation\ttail\n")
    (tmp_path / "test.txt").write_text("x\ty\tz\n")
    assert list(load(tmp_path).splits) == ["train"]


def test_the_name_is_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "graph-v1.0.tsv").write_text(TRAIN)
    (tmp_path / "graph-v1.0.tsv.gz").write_bytes(gzip.compress(TRAIN.encode()))
    assert load(tmp_path / "graph-v1.0.tsv").name == "graph-v1.0"
    assert load(tmp_path / "graph-v1.0.tsv.gz").name == "graph-v1.0"


def test_types_and_labels_lie_beside_the_triples(folder: Path) -> None:
    (folder / "types.tsv").write_text(TYPES)
    (folder / "labels.tsv").write_text("Julia\tJulia A.\tfriend\nNobody\tno one\tnothing\n")
    data = load(folder, stalks="types")
    kinds = data.train.schema.type_names.names(data.train.entity_types)
    assert kinds == ["Person", "Film", "Person"]
    assert data.train.labels == {0: "Julia A."}
    assert load(folder, types="none").train.schema == Schema.single(["likes", "knows"])


def test_a_type_pair_that_only_test_shows_shares_its_maps(folder: Path) -> None:
    (folder / "types.tsv").write_text(TYPES)
    data = load(folder, stalks="types")
    parts = data.train.schema.relations
    shared = {(part.name, part.head, part.tail): part.shared for part in parts}
    assert shared == {
        ("likes", "Person", "Film"): False,
        ("knows", "Person", "Person"): False,
        ("likes", "Person", "Person"): True,
    }
    assert data.notes[-1].startswith("1 of 1 test triples join types that their relation")


@pytest.mark.parametrize("field", ["Person Student", "Person  Student "])
def test_several_types_in_one_field(folder: Path, field: str) -> None:
    (folder / "kinds.tsv").write_text(f"Sachin\t{field}\nJulia\tStudent\nFargo\tFilm of art\n")
    file, stalks = folder / "kinds.tsv", "types"
    data = load(folder, types=file, type_separator=" ", stalks=stalks)
    assert set(data.train.schema.type_names) == {"Student", "Film"}  # ties by the alphabet
    assert "Film of art" in load(folder, types=file, stalks=stalks).train.schema.type_names
    graph = load(folder, types=file, type_separator=" ").train
    assert graph.types_of(graph.entities.id("Sachin")) == ["Student", "Person"]


def test_types_from_names(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("concept_city_paris\tin\tconcept_country_france\n48,2\tat\tx\n")
    told = {"types": "regex:concept_([a-z]+)_", "sizes": (1, 0, 0)}
    data = load(tmp_path / "x.tsv", **told, stalks="types")
    assert list(data.train.schema.type_names) == ["city", "country", "entity"]
    assert data.notes == ("2 of 4 names carry no type.",)
    assert list(load(tmp_path / "x.tsv", **told).train.type_names) == ["city", "country"]


def test_a_schema_file_chooses_among_types(folder: Path) -> None:
    (folder / "types.tsv").write_text(TYPES)
    (folder / "schema.yaml").write_text(
        "types: [Person, Student, Film]\n"
        "relations:\n"
        "  - {name: likes, head: Person, tail: Film}\n"
        "  - {name: likes, head: Student, tail: Film}\n"
        "  - {name: likes, head: Student, tail: Person}\n"
        "  - {name: knows, head: Person, tail: Student}\n"
        "  - {name: knows, head: Student, tail: Person}\n"
        "entities: {Sachin: Student}\n"
    )
    data = load(folder, stalks="types")
    assert data.train.schema == Schema.load(folder / "schema.yaml")
    kinds = data.train.schema.type_names.names(data.train.entity_types)
    assert kinds == ["Person", "Film", "Student"]
    graph = load(folder).train
    assert len(graph.schema.types) == 1
    assert graph.types_of(graph.entities.id("Sachin")) == ["Person", "Student"]
    assert graph.classes is not None
    assert graph.classes.said.tails["likes"] == ("Film", "Person")


def test_one_file_has_the_folders_companions_where_it_is_called_triples(tmp_path: Path) -> None:
    (tmp_path / "triples.tsv").write_text(TRAIN)
    (tmp_path / "types.tsv").write_text(TYPES)
    data = load(tmp_path)
    assert len(data.train.type_names) == 3
    assert data.name == tmp_path.name


def test_mappings_from_python(folder: Path) -> None:
    data = load(folder, types={"Fargo": "Film"}, labels={"Fargo": "Fargo (1996)"})
    assert [data.train.types_of(place) for place in range(3)] == [[], ["Film"], []]
    assert data.train.labels == {1: "Fargo (1996)"}


def test_the_hash_is_of_the_content(folder: Path, tmp_path: Path) -> None:
    first = load(folder)
    (folder / "train.txt").write_text(TRAIN.replace("\n", "\r\n\r\n"))
    assert load(folder).hash == first.hash
    (folder / "train.txt").write_text(TRAIN + "Fargo\tlikes\tJulia\n")
    assert load(folder).hash != first.hash
    (folder / "train.txt").write_text(TRAIN)
    (folder / "dev.tsv").unlink()
    assert load(folder).hash != first.hash


@pytest.mark.parametrize("name", ["umls", "Nations", "KINSHIPS"])
def test_bundled_data_sets_equal_those_of_pykeen(name: str) -> None:
    from pykeen.datasets import get_dataset

    theirs, ours = get_dataset(dataset=name), load(name)
    assert ours.name == name.lower()
    factories = (theirs.training, theirs.validation, theirs.testing)
    for graph, factory in zip(ours.splits.values(), factories, strict=True):
        rows = map(tuple, factory.label_triples(factory.mapped_triples).tolist())
        assert set(graph.decode(graph.triples)) == set(rows)


def test_what_pykeen_fetches_keeps_its_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of data sets that are not bundled, on one that needs no network."""
    from pykeen.datasets import Nations

    from knowledge_sheaves.graph.readers import pykeen_data

    monkeypatch.setattr(pykeen_data, "BUNDLED", ())
    data, theirs = load("nations"), Nations()
    assert [data.train.entities.id(name) for name in theirs.entity_to_id] == list(
        theirs.entity_to_id.values()
    )
    mapped = theirs.training.mapped_triples.numpy()
    assert np.array_equal(data.train.triples, mapped[np.lexsort(mapped.T[::-1])])


def test_bundled_data_need_no_torch() -> None:
    code = (
        "import sys; from knowledge_sheaves.graph.readers import load; load('umls'); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_relations_are_labelled_by_a_table_of_either_order(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a\tDaG\tb\n")
    (tmp_path / "relation_labels.tsv").write_text("DaG\tassociates\textra\n")
    (tmp_path / "turned.tsv").write_text("metaedge\tabbreviation\nDisease - has - Gene\tDaG\n")
    (tmp_path / "other.tsv").write_text("CtD\ttreats\n")
    given = {"associates": None, "Disease - has - Gene": tmp_path / "turned.tsv"}
    for label, file in given.items():
        (name,) = load(tmp_path, relation_labels=file).train.schema.labelled_names
        assert name.label == label
    with pytest.raises(InputError, match="none of its 1 rows is about a relation of the graph"):
        load(tmp_path, relation_labels=tmp_path / "other.tsv")
