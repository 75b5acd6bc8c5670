"""What every reader hands over, and how it becomes a data set: all on ids, none per triple."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.arrays import BoolArray, IntArray
from knowledge_sheaves.graph.classes import Classes, Ends
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.knowledge import KnowledgeGraph
from knowledge_sheaves.graph.rows import refuse
from knowledge_sheaves.graph.schema import Schema
from knowledge_sheaves.graph.type_rules import (
    SubclassOf,
    TypesOf,
    choose_types,
    declared_types,
    fit_types,
)
from knowledge_sheaves.graph.vocabulary import Vocabulary, suggestion

ENDS = ("head", "relation", "tail")
SHARED, BY_TYPE = STALKS = ("shared", "types")
"""One stalk for all, types only rule out; or a stalk for every type, and maps by pairs of them."""


MANY = 1 << 18
"""So many names of entities are kept in a series, not as strings of Python."""


@dataclass(frozen=True)
class Raw:
    """Triples of ids by split, the names that the ids stand for, and what is said about them."""

    entities: Sequence[str] | pl.Series
    relations: Sequence[str]
    splits: Mapping[str, IntArray]
    types: TypesOf | None = None
    subclass_of: SubclassOf | None = None
    labels: Mapping[str, str] | None = None
    relation_labels: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()
    statements: pl.DataFrame | None = None
    heads: Ends = field(default_factory=dict)
    tails: Ends = field(default_factory=dict)
    says: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By relation, what else is said of it: fields of `Relation`."""

    @property
    def names(self) -> Sequence[str]:
        """The entities as strings of Python, which types are given by."""
        return self.entities.to_list() if isinstance(self.entities, pl.Series) else self.entities


@dataclass(frozen=True)
class Typing:
    """How entities get their types and triples their schema; see `KnowledgeGraph.from_triples`."""

    schema: Schema | None = None
    choice: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False
    min_type_count: int = 1
    min_pair_count: int = 1
    stalks: str = SHARED
    heeds: bool = True
    """Whether what the data say of relations counts."""

    def __post_init__(self) -> None:
        if self.stalks not in STALKS:
            raise InputError(f"stalks is one of {', '.join(STALKS)}, not {self.stalks!r}.")
        if self.min_pair_count > 1 and not self.by_type:
            raise InputError(
                "min_pair_count is about maps by pairs of types, and types share their maps: say "
                f"stalks: {BY_TYPE} too, or leave it out."
            )

    @property
    def by_type(self) -> bool:
        """Whether every type has a stalk of its own: it is wanted, or the schema sizes them."""
        return self.stalks == BY_TYPE or (self.schema is not None and self.schema.is_sized)


def number_names(parts: Mapping[str, pl.DataFrame | Iterable[pl.DataFrame]]) -> Raw:
    """Give ids to the names in frames of head, relation and tail, in order of first appearance.

    A split may come in parts, of which one is held at a time.

    >>> number_names({"train": pl.DataFrame([["b", "r", "a"]], schema=ENDS, orient="row")})
    Raw(entities=['b', 'a'], relations=['r'], splits={'train': array([[0, 0, 1]])}, ...
    """
    entities, relations, splits = _Numbers(), _Numbers(), dict[str, IntArray]()
    for split, given in parts.items():
        numbered = [np.zeros((0, 3), np.int32)]
        for frame in [given] if isinstance(given, pl.DataFrame) else given:
            rows = np.empty((len(frame), 3), np.int32)
            rows[:, ::2] = entities.of(frame["head"], frame["tail"])
            rows[:, 1] = relations.of(frame["relation"])[:, 0]
            numbered.append(rows)
        splits[split] = np.concatenate(numbered, dtype=np.int64)
    names = entities.names()
    return Raw(
        names if len(names) >= MANY else names.to_list(), relations.names().to_list(), splits
    )


class _Numbers:
    """Ids for names, in the order in which they appear."""

    def __init__(self) -> None:
        # A categorical hashes each name once. Its codes are those of a table that lives as long as
        # somebody uses it, as this does.
        self._met = [pl.Series([], dtype=pl.Categorical)]
        self._ids = np.zeros(0, np.int32)
        self._size = 0

    def of(self, *columns: pl.Series) -> IntArray:
        """The ids of the names in columns, (rows, columns); those of one row follow each other."""
        names = pl.concat(columns).cast(pl.Categorical)
        codes = names.to_physical().to_numpy().reshape(len(columns), -1).T
        flat = codes.ravel()
        self._make_room(int(flat.max(initial=0)) + 1)
        new = np.flatnonzero(self._ids[flat] < 0)
        distinct, first = np.unique(flat[new], return_index=True)
        order = first.argsort()
        self._ids[distinct[order]] = np.arange(self._size, self._size + len(order))
        self._size += len(order)
        row, column = np.divmod(new[first[order]], len(columns))
        self._met.append(names.gather(column * len(codes) + row))
        return self._ids[codes]

    def _make_room(self, size: int) -> None:
        if size > len(self._ids):
            more = np.full(max(size, 2 * len(self._ids)) - len(self._ids), -1, np.int32)
            self._ids = np.concatenate([self._ids, more])

    def names(self) -> pl.Series:
        """All names by id."""
        return pl.concat(self._met).cast(pl.String)


def drop_unseen(raw: Raw) -> Raw:
    """Drop what training never shows: nothing is learnt about such entities and relations.

    >>> a, b = np.array([[0, 0, 1]]), np.array([[0, 0, 2], [1, 0, 0]])
    >>> drop_unseen(Raw("abc", "r", {"train": a, "test": b})).notes
    ('1 of 2 test triples is dropped: train does not have all its names.',)
    """
    train = raw.splits["train"]
    entities = np.zeros(len(raw.entities), np.bool_)
    relations = np.zeros(len(raw.relations), np.bool_)
    entities[train[:, ::2]] = relations[train[:, 1]] = True
    if entities.all() and relations.all():
        return raw
    entity_ids, relation_ids = np.cumsum(entities) - 1, np.cumsum(relations) - 1
    splits, notes = {}, list(raw.notes)
    for name, triples in raw.splits.items():
        heads, edges, tails = triples.T
        known = entities[heads] & relations[edges] & entities[tails]
        ids = entity_ids[heads], relation_ids[edges], entity_ids[tails]
        splits[name] = np.stack(ids, axis=1)[known]
        notes += _dropped(name, len(triples), len(triples) - int(known.sum()))
    return replace(
        raw,
        entities=_kept(raw.entities, entities),
        relations=list(_kept(raw.relations, relations)),
        splits=splits,
        notes=tuple(notes),
    )


def _dropped(split: str, total: int, dropped: int) -> list[str]:
    if not dropped:
        return []
    are, its = ("is", "its") if dropped == 1 else ("are", "their")
    return [
        f"{dropped} of {total} {split} triples {are} dropped: train does not have all {its} names."
    ]


def _kept(names: Sequence[str] | pl.Series, keep: BoolArray) -> Sequence[str] | pl.Series:
    if isinstance(names, pl.Series):
        return names.filter(pl.Series(keep))
    return [name for name, kept in zip(names, keep, strict=True) if kept]


def assemble(raw: Raw, typing: Typing, *, name: str, source: str) -> Dataset:
    """Choose types, read off or apply the schema, and build the graphs; empty splits are None."""
    if not len(raw.splits["train"]):
        raise InputError(" ".join((f"{source}: there are no triples to train on.", *raw.notes)))
    entities = Vocabulary(raw.entities)
    labels = None if raw.labels is None else _by_id(raw.labels, entities)
    graphs = _graphs(raw, typing, entities, labels, source)
    return Dataset(
        graphs["train"],
        graphs.get("valid"),
        graphs.get("test"),
        name=name,
        source=source,
        notes=(*raw.notes, *_graph_notes(graphs)),
        statements=raw.statements,
    )


def _graphs(
    raw: Raw,
    typing: Typing,
    entities: Vocabulary,
    labels: Mapping[int, str] | None,
    source: str,
) -> dict[str, KnowledgeGraph]:
    """The splits that have triples. Types that are not checked against a schema may be several."""
    if not typing.by_type and typing.schema is None and not typing.strict:
        schema, classes = Schema.single(raw.relations), _classes(raw, typing)
        schema = _labelled(schema.saying(raw.says) if typing.heeds else schema, raw)
        kinds = np.zeros(len(entities), np.int64)
        return {
            split: KnowledgeGraph(
                *(schema, entities, kinds, *triples.T), labels=labels, classes=classes
            )
            for split, triples in raw.splits.items()
            if len(triples)
        }
    chosen, names = _types(raw, typing, source)
    entity_types = names.ids(chosen)
    schema = _labelled(typing.schema or _schema(raw, names, entity_types, typing), raw)
    classes = None if typing.by_type else _classes(raw, typing, chosen)
    graphs = {}
    for split, triples in raw.splits.items():
        if len(triples):
            edges = _edges(raw, schema, entities, entity_types, triples, f"{source}, {split}")
            graph = KnowledgeGraph(
                *(schema, entities, entity_types, triples[:, 0], edges, triples[:, 2]),
                labels=labels,
            )
            graphs[split] = graph if classes is None else graph.shared(classes)
    return graphs


def _labelled(schema: Schema, raw: Raw) -> Schema:
    if not (raw.labels or raw.relation_labels):
        return schema
    return schema.labelled(raw.relation_labels or {}, raw.labels or {})


def _classes(raw: Raw, typing: Typing, chosen: Sequence[str] = ()) -> Classes | None:
    """All types of the entities, with those that were chosen for a schema."""
    if raw.types is None and not chosen:
        return None
    names = raw.names
    own = declared_types(names, raw.types or {})
    if chosen:
        own = [(kind, *kinds) for kind, kinds in zip(chosen, own, strict=True)]
    return Classes.of(
        *(names, dict(zip(names, own, strict=True))),
        subclass_of=raw.subclass_of,
        heads=raw.heads if typing.schema is None else typing.schema.ends("head"),
        tails=raw.tails if typing.schema is None else typing.schema.ends("tail"),
        min_count=typing.min_type_count,
        labels=raw.labels,
    )


def _by_id(labels: Mapping[str, str], entities: Vocabulary) -> dict[int, str]:
    found = ((entities.get(name), text) for name, text in labels.items())
    return {place: text for place, text in found if place is not None}


def _graph_notes(graphs: Mapping[str, KnowledgeGraph]) -> Iterator[str]:
    train = np.unique(graphs["train"].triples[:, 1])
    for split, graph in graphs.items():
        if graph.duplicates:
            yield f"{graph.duplicates} repeated triples in {split} are dropped."
        unseen = int(np.isin(graph.triples[:, 1], train, invert=True).sum())
        if unseen and len(graph.schema.types) > 1:
            yield (
                f"{unseen} of {graph.num_triples} {split} triples join types that their relation "
                "does not join in train; a larger min_pair_count lets them share trained maps."
            )


def _types(raw: Raw, typing: Typing, source: str) -> tuple[list[str], Vocabulary]:
    try:
        if typing.schema is not None:
            chosen = fit_types(
                raw.names,
                typing.schema,
                raw.types,
                subclass_of=raw.subclass_of,
                choice=typing.choice,
            )
            return chosen, typing.schema.type_names
        chosen = choose_types(
            raw.names,
            raw.types,
            subclass_of=raw.subclass_of,
            choice=typing.choice,
            min_count=typing.min_type_count,
        )
        return chosen, Vocabulary(dict.fromkeys(chosen), kind="type")
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _pair_keys(triples: IntArray, entity_types: IntArray, width: int) -> IntArray:
    pairs = entity_types[triples[:, 0]] * width + entity_types[triples[:, 2]]
    return triples[:, 1] * (width * width) + pairs


def _schema(raw: Raw, kinds: Vocabulary, entity_types: IntArray, typing: Typing) -> Schema:
    """Read the schema off the triples.

    With one type an edge of the schema is a relation, with the same id. With several, pairs of
    types that only validation or test show count 0, so they share their maps with the rare pairs.
    """
    width = len(kinds)
    if width == 1:
        return Schema.single(raw.relations, kinds[0])
    keys = {name: _pair_keys(split, entity_types, width) for name, split in raw.splits.items()}
    found, counts = np.unique(keys["train"], return_counts=True)
    by_key = dict.fromkeys(np.unique(np.concatenate(list(keys.values()))).tolist(), 0)
    by_key.update(zip(found.tolist(), counts.tolist(), strict=True))

    def pair(key: int) -> tuple[str, str, str]:
        relation, ends = divmod(key, width * width)
        return kinds[ends // width], raw.relations[relation], kinds[ends % width]

    return Schema.from_pair_counts(
        {pair(key): count for key, count in by_key.items()},
        types=kinds,
        min_pair_count=typing.min_pair_count,
        strict=typing.strict,
    )


def _edges(
    raw: Raw,
    schema: Schema,
    entities: Vocabulary,
    entity_types: IntArray,
    triples: IntArray,
    where: str,
) -> IntArray:
    """Return the edge of each triple; few (relation, type, type) are distinct, so ask for those."""
    width = len(schema.types)
    keys = _pair_keys(triples, entity_types, width)
    distinct = pl.Series(keys).unique().sort().to_numpy()
    relations, pairs = np.divmod(distinct, width * width)
    names = [raw.relations[relation] for relation in relations.tolist()]
    _check_relations(names, schema, where)
    edges = schema.find_edges(names, *np.divmod(pairs, width))[np.searchsorted(distinct, keys)]
    if (wrong := edges < 0).any():

        def relation_of(row: int) -> str:
            return raw.relations[triples[row, 1]]

        try:
            refuse(
                *(schema, entities, entity_types, wrong, relation_of, triples[:, 0], triples[:, 2])
            )
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    return edges


def _check_relations(names: Iterable[str], schema: Schema, where: str) -> None:
    known = set(schema.relation_names)
    for name in names:
        if name not in known:
            near = suggestion(name, known) or "; add it to the schema."
            raise InputError(f"{where}: the schema has no relation {name!r}{near}")
