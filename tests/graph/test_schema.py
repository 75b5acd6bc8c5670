"""Schemas: their checks, their files, and what is read off typed triples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import EntityType, Relation, Schema, load_type_choices

PAPER = Schema(
    [EntityType("Person", 3), EntityType("Film", 2)],
    [
        Relation("friends", "Person", "Person", symmetric=True, dim=1),
        Relation("favorite movie", "Person", "Film", functional=True),
    ],
)

names = st.text(min_size=1, max_size=4)
dims = st.none() | st.integers(1, 9)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    kinds = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    kind = st.sampled_from(kinds)
    keys = draw(st.lists(st.tuples(names, kind, kind), max_size=4, unique=True))
    relations = [
        Relation(*key, draw(st.booleans()), key[1] == key[2], draw(st.booleans()), draw(dims))
        for key in keys
    ]
    return Schema([EntityType(name, draw(dims)) for name in kinds], relations)


@given(schemas())
def test_dict_round_trip(schema: Schema) -> None:
    assert Schema.from_dict(schema.to_dict()) == schema
    assert hash(Schema.from_dict(schema.to_dict())) == hash(schema)


@pytest.mark.parametrize("file", ["schema.yaml", "schema.yml", "schema.json"])
def test_file_round_trip(tmp_path: Path, file: str) -> None:
    odd = Schema(["yes", "1", "ö: #"], [Relation("null", "1", "yes", dim=2), *[]])
    for schema in (PAPER, odd):
        schema.save(tmp_path / file)
        assert Schema.load(tmp_path / file) == schema


@given(schemas())
def test_the_graph_has_an_edge_for_each_relation(schema: Schema) -> None:
    ends = zip(schema.graph.heads, schema.graph.tails, strict=True)
    named = [(schema.types[head].name, schema.types[tail].name) for head, tail in ends]
    assert named == [(relation.head, relation.tail) for relation in schema.relations]
    for name in schema.relation_names:
        parts = [e for e, relation in enumerate(schema.relations) if relation.name == name]
        assert schema.edges(name).tolist() == parts
    assert set(schema.relation_names) == {relation.name for relation in schema.relations}


@given(schemas())
def test_find_edges_finds_exactly_the_edges(schema: Schema) -> None:
    num_types = len(schema.types)
    asked = [
        (name, head, tail)
        for name in schema.relation_names
        for head in range(num_types)
        for tail in range(num_types)
    ]
    columns = [list(column) for column in zip(*asked, strict=True)] or [[], [], []]
    found = schema.find_edges(columns[0], np.array(columns[1], int), np.array(columns[2], int))
    mine = [(r.name, r.head, r.tail) for r in schema.relations]
    for (name, head, tail), edge in zip(asked, found.tolist(), strict=True):
        key = (name, schema.types[head].name, schema.types[tail].name)
        assert edge == (mine.index(key) if key in mine else -1)


def test_single_type() -> None:
    schema = Schema.single(["likes", "knows"], type="thing")
    assert [kind.name for kind in schema.types] == ["thing"]
    assert schema.graph.heads.tolist() == schema.graph.tails.tolist() == [0, 0]


def test_rare_pairs_are_shared_and_keep_their_edges() -> None:
    rows = [("A", "r", "B")] * 3 + [("A", "r", "C"), ("B", "r", "C"), ("A", "s", "A")]
    schema = Schema.from_typed_triples(rows, min_pair_count=2)
    assert [(r.name, r.head, r.tail, r.shared) for r in schema.relations] == [
        ("r", "A", "B", False),
        ("r", "A", "C", True),
        ("r", "B", "C", True),
        ("s", "A", "A", True),
    ]
    assert schema.edges("r").tolist() == [0, 1, 2]
    assert not any(r.shared for r in Schema.from_typed_triples(rows).relations)


def test_strict_lists_the_pairs() -> None:
    rows = [("A", "r", "B")] * 3 + [("A", "r", "C"), ("A", "s", "A")]
    with pytest.raises(InputError, match=r"1 of 2 relations .*'r': A to B \(3\), A to C \(1\)\.$"):
        Schema.from_typed_triples(rows, strict=True)
    assert Schema.from_typed_triples(rows[:3], strict=True, types=["Z"]).type_id("Z") == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Schema(["A", "A"], []), "type name 'A' is given twice"),
        (lambda: Relation("r", "Alpha", ""), "The tail '' must be a name"),
        (lambda: Schema(["Alpha"], [Relation("r", "Alpha", "Alpah")]), "did you mean 'Alpha'"),
        (lambda: Schema(["A"], [Relation("r", "A", "A")] * 2), "from 'A' to 'A' is given twice"),
        (lambda: Relation("r", "A", "B", symmetric=True), "one type at both ends"),
        (lambda: Relation("r", "A", "B", dim=0), "dim of 'r' must be a positive"),
        (lambda: Relation("r", "A", "B", shared=1), "shared must be true or false"),  # type: ignore[arg-type]
        (lambda: EntityType("A", dim=True), "dim of 'A' must be a positive"),
        (lambda: PAPER.edges("friend"), "Unknown relation 'friend'; did you mean 'friends'"),
        (lambda: PAPER.type_id("Movie"), r"Unknown type 'Movie'\."),
        (lambda: Schema.from_dict([]), "A schema is a mapping"),  # type: ignore[arg-type]
        (lambda: Schema.from_dict({}), "needs a list under 'types'"),
    ],
)
def test_bad_schemas_are_refused(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]


HEADER = "types: [Person, {name: Film}]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("types: [\n", "line 2: not valid YAML"),
        ("types: [Person]\nrelation: []\n", "line 2: Unknown section 'relation'"),
        ("relations: []\n", "needs a list under 'types'"),
        ("types:\n  - Person\n  - 7\n", r"line 3: types\[1\]: 7 must be a mapping"),
        (HEADER + "relations: 3\n", "line 2: A schema needs a list under 'relations'"),
        (
            HEADER + "relations:\n- {name: r, haed: Person, tail: Film}\n",
            r"line 3: relations\[0\]: unknown key 'haed'; did you mean .*'head'",
        ),
        (HEADER + "relations:\n- {xyz: 1}\n", r"unknown key 'xyz'; use name, head, tail"),
        (HEADER + "relations:\n- {name: r, head: Person}\n", r"line 3: relations\[0\]: 'tail' is"),
        (
            HEADER + "relations:\n- {name: yes, head: Person, tail: Film}\n",
            r"line 3: relations\[0\]: The name True must be a name; write it in quotes",
        ),
        (HEADER + "relations:\n- {name: r, head: Flim, tail: Film}\n", "'Flim'; did you mean"),
        (HEADER + "entities: [Fargo]\n", "line 2: 'entities' must map"),
        (HEADER + "entities:\n  a: Film\n  Fargo: Flim\n", "line 4: .*did you mean 'Film'"),
        (HEADER + "entities:\n  a: 3\n", r"line 3: entities: the type 3 of 'a' is not among"),
        (HEADER + "entities:\n  17: Film\n", "line 3: entities: the entity name 17 must be a str"),
        ("", "A schema is a mapping"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "schema.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=rf"schema\.yaml.*{message}"):
        Schema.load(file)


def test_json_errors(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"types": ["A"],\n "relations": }')
    with pytest.raises(InputError, match=r"schema\.json, line 2: not valid JSON"):
        Schema.load(file)
    file.write_text('{"types": ["A"],\n "relations": [\n{"name": "r"}]}')
    with pytest.raises(InputError, match=r"schema\.json, line 3: relations\[0\]: 'head' is"):
        Schema.load(file)
    file.write_text('{\n\t"types": ["A"], "relations": 3}')
    with pytest.raises(InputError, match=r"schema\.json: A schema needs a list"):
        Schema.load(file)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        Schema.load(tmp_path / "schema.yaml")
    (tmp_path / "schema.yaml").write_bytes(b"types: [\xff]")
    with pytest.raises(InputError, match="cannot be read: it is not UTF-8"):
        Schema.load(tmp_path / "schema.yaml")
    with pytest.raises(InputError, match=r"ends in \.yaml, \.yml or \.json"):
        PAPER.save(tmp_path / "schema.toml")


def test_type_choices(tmp_path: Path) -> None:
    file = tmp_path / "schema.yaml"
    file.write_text(HEADER + "entities:\n  Fargo: Film\n")
    assert load_type_choices(file) == {"Fargo": "Film"}
    assert Schema.load(file) == Schema(["Person", "Film"], [])
    file.write_text(HEADER)
    assert load_type_choices(file) == {}
