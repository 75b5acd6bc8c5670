"""Knowledge graphs: typed entities and the triples that are known between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.ancestry import Ancestry
from knowledge_sheaves.graph.arrays import (
    BoolArray,
    Columns,
    IntArray,
    as_triples,
    check_ids,
    columns_of,
    flat_ids,
    id_array,
    offsets_of,
    sort_columns,
)
from knowledge_sheaves.graph.classes import Classes, Said
from knowledge_sheaves.graph.consequences import consequences
from knowledge_sheaves.graph.labels import Name
from knowledge_sheaves.graph.lookups import Lookups
from knowledge_sheaves.graph.multigraph import GraphMorphism, Multigraph
from knowledge_sheaves.graph.rows import Row, find_edges, pair_counts, refuse, transpose
from knowledge_sheaves.graph.schema import Schema
from knowledge_sheaves.graph.type_rules import SubclassOf, TypesOf, choose_types, fit_types
from knowledge_sheaves.graph.vocabulary import Vocabulary


class KnowledgeGraph(Lookups):
    """Entities with a type each and triples (head, relation, tail) that respect a schema.

    ``triples`` is an (n, 3) array of head, edge of the schema, and tail, sorted and without
    repeats; ``duplicates`` says how many repeats were dropped. Ids follow first appearance.
    Where a relation is asked for, give an edge of the schema, or the user's name for the union
    of its parts. ``classes`` are types that shape no stalk: the schema then has one type, and they
    say what may stand at the ends of relations (`shared`).

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("Julia", "likes", "Fargo"), ("Julia", "likes", "Primer")])
    >>> graph.entities.names(graph.tails(graph.entities.id("Julia"), "likes"))
    ['Fargo', 'Primer']
    """

    def __init__(
        self,
        schema: Schema,
        entities: Vocabulary,
        entity_types: npt.ArrayLike,
        heads: npt.ArrayLike,
        relations: npt.ArrayLike,
        tails: npt.ArrayLike,
        *,
        labels: Mapping[int, str] | None = None,
        classes: Classes | None = None,
    ) -> None:
        self.schema = schema
        self.classes = classes
        self.entities = entities
        self.labels = None if labels is None else dict(labels)
        self.entity_types = id_array(entity_types, len(schema.types), "Entity types")
        if len(self.entity_types) != len(entities):
            raise InputError(
                f"Every entity has one type, but there are {len(entities)} entities and "
                f"{len(self.entity_types)} types."
            )
        columns = (
            flat_ids(heads, "Heads"),
            flat_ids(relations, "Relations"),
            flat_ids(tails, "Tails"),
        )
        self._check(columns)
        sizes = (self.num_entities, self.num_relations, self.num_entities)
        self.triples = sort_columns(columns, sizes, self.id_dtype)
        self.duplicates: int = len(columns[0]) - len(self.triples)

    @classmethod
    def from_triples(
        cls,
        rows: Iterable[Row],
        *,
        types: TypesOf | None = None,
        schema: Schema | None = None,
        strict: bool = False,
        min_type_count: int = 1,
        min_pair_count: int = 1,
        subclass_of: SubclassOf | None = None,
        entities: Iterable[str] | None = None,
        type_choice: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        relation_labels: Mapping[str, str] | None = None,
    ) -> KnowledgeGraph:
        """Build a graph from names, in the given schema or in one read off the triples.

        ``entities`` fixes the order of ids and adds entities without triples. ``types`` may give
        an entity one type, several or none (`type_rules` chooses; the minimum counts serve for a
        schema that is read off), and may speak of entities that are not in the graph.

        >>> graph = KnowledgeGraph.from_triples(
        ...     [("Julia", "likes", "Fargo")], types={"Julia": "Person", "Fargo": "Film"})
        >>> graph.schema.relations[0].tail
        'Film'
        """
        heads, relations, tails = transpose(rows)
        ends = chain.from_iterable(zip(heads, tails, strict=True))
        known = Vocabulary(dict.fromkeys(chain(Vocabulary(entities or ()), ends)))
        names = list(known)
        if schema is None:
            chosen = choose_types(
                names, types, subclass_of=subclass_of, choice=type_choice, min_count=min_type_count
            )
            kinds = Vocabulary(dict.fromkeys(chosen), kind="type")
        else:
            chosen = fit_types(names, schema, types, subclass_of=subclass_of, choice=type_choice)
            kinds = schema.type_names
        entity_types = kinds.ids(chosen)
        head_ids, tail_ids = known.ids(heads), known.ids(tails)
        if schema is None:
            counts = pair_counts(relations, kinds, entity_types[head_ids], entity_types[tail_ids])
            schema = Schema.from_pair_counts(
                counts,
                types=list(kinds) or Schema.single(()).type_names,
                min_pair_count=min_pair_count,
                strict=strict,
            )
        if relation_labels is not None:
            schema = schema.labelled(relation_labels, {})
        edges = find_edges(schema, known, entity_types, relations, head_ids, tail_ids)
        by_id = {known.id(name): text for name, text in (labels or {}).items() if name in known}
        return cls(
            *(schema, known, entity_types, head_ids, edges, tail_ids),
            labels=None if labels is None else by_id,
        )

    @classmethod
    def from_arrays(
        cls,
        heads: npt.ArrayLike,
        relations: npt.ArrayLike,
        tails: npt.ArrayLike,
        *,
        schema: Schema,
        entity_types: npt.ArrayLike | None = None,
        names: Iterable[str] | None = None,
        num_entities: int | None = None,
    ) -> KnowledgeGraph:
        """Build a graph from ids; relations are edges of the schema.

        Without names, entities are called by their ids; a schema with one type needs no types.

        >>> graph = KnowledgeGraph.from_arrays([0, 0], [0, 0], [1, 2], schema=Schema.single("r"))
        >>> graph.num_entities, graph.entities[2]
        (3, '2')
        """
        if names is not None:
            entities = Vocabulary(names)
        else:
            if num_entities is None and entity_types is not None:
                num_entities = len(np.asarray(entity_types))
            elif num_entities is None:
                num_entities = 1 + max(
                    int(flat_ids(ends, "Entities").max(initial=-1)) for ends in (heads, tails)
                )
            entities = Vocabulary.implicit(num_entities)
        if entity_types is None:
            if len(schema.types) > 1:
                raise InputError(
                    f"The schema has {len(schema.types)} types: give entity_types, one id each."
                )
            entity_types = np.zeros(len(entities), np.int64)
        return cls(schema, entities, entity_types, heads, relations, tails)

    def with_triples(self, triples: Iterable[Row] | IntArray) -> KnowledgeGraph:
        """Return the graph with other triples over the same entities and schema, say a split.

        >>> train = KnowledgeGraph.from_triples([("a", "r", "b")], entities="abc")
        >>> train.with_triples([("c", "r", "a")]).triples.tolist()
        [[2, 0, 0]]
        """
        if isinstance(triples, np.ndarray) and triples.dtype.kind in "iu":
            columns = columns_of(as_triples(triples))
        else:
            columns = columns_of(self.encode(triples))
        return KnowledgeGraph(
            *(self.schema, self.entities, self.entity_types, *columns),
            labels=self.labels,
            classes=self.classes,
        )

    def shared(self, classes: Classes | None = None) -> KnowledgeGraph:
        """Return the same facts over one stalk: types rule out, filter and ask, and cost no maps.

        What the schema says of a relation stays where it says so of all its parts. ``classes`` are
        the types to keep, if not those that stalks were made by.

        >>> graph = KnowledgeGraph.from_triples(
        ...     [("Julia", "likes", "Fargo")], types={"Julia": "Person", "Fargo": "Film"}).shared()
        >>> len(graph.schema.types), graph.types_of(0)
        (1, ['Person'])
        """
        if classes is None:
            pairs = np.stack((np.arange(self.num_entities), self.entity_types), axis=1)
            said = Said(heads=self.schema.ends("head"), tails=self.schema.ends("tail"))
            classes = Classes(self.schema.type_names, pairs, self.num_entities, said)
        heads, edges, tails = self.triples.T
        return KnowledgeGraph(
            *(self.schema.shared(), self.entities, np.zeros_like(self.entity_types)),
            *(heads, self.schema.edge_names[edges], tails),
            labels=self.labels,
            classes=classes,
        )

    @property
    def type_names(self) -> Vocabulary:
        """The types that entities have, by name."""
        return self.schema.type_names if self.classes is None else self.classes.names

    def types_of(self, entity: int) -> list[str]:
        """Return the types of an entity by name.

        >>> KnowledgeGraph.from_triples([("a", "r", "b")]).types_of(0)
        ['entity']
        """
        if self.classes is None:
            return [self.schema.types[int(self.entity_types[entity])].name]
        return self.classes.own(entity)

    def types_said(self, entity: int) -> list[str]:
        """Return what people call the types of an entity."""
        if self.classes is None:
            return [self.schema.types[int(self.entity_types[entity])].said]
        return [self.classes.label(name) for name in self.classes.own(entity)]

    def type_label(self, name: str) -> str | None:
        """What people call a type, None where it has no label.

        >>> KnowledgeGraph.from_triples([("a", "r", "b")]).type_label("entity") is None
        True
        """
        if self.classes is None:
            return self.schema.types[self.schema.type_id(name)].label
        return self.classes.said.labels.get(name)

    def types_at(self, entities: IntArray) -> list[str]:
        """Return the types that any of these entities has, by name.

        >>> KnowledgeGraph.from_triples([("a", "r", "b")]).types_at(np.array([0, 1]))
        ['entity']
        """
        if self.classes is None:
            return [self.schema.types[kind].name for kind in np.unique(self.entity_types[entities])]
        group_of, types = self.classes.groups
        seen = types[np.unique(group_of[entities])].sum(0)
        return self.classes.names.names(np.flatnonzero(seen))

    def is_of_type(self, name: str) -> BoolArray:
        """Tell which entities are of a type, by name; an unknown one is refused.

        >>> KnowledgeGraph.from_triples([("a", "r", "b")]).is_of_type("entity").tolist()
        [True, True]
        """
        if self.classes is not None:
            return self.classes.members(name)
        return np.asarray(self.entity_types == self.schema.type_id(name))

    @cached_property
    def possible(self) -> dict[str, BoolArray]:
        """By end, which groups of entities (`Classes.groups`) may stand there: (edges, groups).

        What follows from a fact shows them as the fact itself does.
        """
        if self.classes is None:
            return {}
        heads, edges, tails = self.closed.triples.T
        names = self.schema.relation_names
        ends = {"head": heads, "tail": tails}
        return {end: self.classes.possible(end, edges, at, names) for end, at in ends.items()}

    @cached_property
    def by_label(self) -> dict[str, list[int]]:
        """The entities that have a label, by label.

        >>> KnowledgeGraph.from_triples([("Q1", "r", "Q2")], labels={"Q2": "Fargo"}).by_label
        {'Fargo': [1]}
        """
        found: dict[str, list[int]] = {}
        for entity, label in (self.labels or {}).items():
            found.setdefault(label, []).append(entity)
        return found

    @cached_property
    def ancestry(self) -> Ancestry:
        """The classes that relations are about, and who is of them, ancestors included."""
        return Ancestry.of_graph(self)

    @cached_property
    def by_name(self) -> KnowledgeGraph:
        """The facts with the parts of a relation taken together: edges are relation names.

        >>> types = {"Julia": "Person", "Sachin": "Person", "Fargo": "Film"}
        >>> graph = KnowledgeGraph.from_triples(
        ...     [("Julia", "likes", "Sachin"), ("Julia", "likes", "Fargo")], types=types)
        >>> graph.num_relations, graph.by_name.num_relations
        (2, 1)
        """
        names = self.schema.relation_names
        if len(names) == len(self.schema.relations) and len(self.schema.types) == 1:
            return self
        heads, edges, tails = self.triples.T
        return KnowledgeGraph.from_arrays(
            *(heads, self.schema.edge_names[edges], tails),
            schema=Schema.single(names),
            num_entities=self.num_entities,
        )

    @cached_property
    def closed(self) -> KnowledgeGraph:
        """The graph with all that follows from its facts by what its schema says of relations.

        >>> schema = Schema.single(["near"]).saying({"near": {"symmetric": True}})
        >>> graph = KnowledgeGraph.from_triples([("a", "near", "b")], schema=schema)
        >>> graph.closed.decode(graph.closed.triples)
        [('a', 'near', 'b'), ('b', 'near', 'a')]
        """
        more = consequences(self.schema, self.triples)
        if not len(more) or self.contains(more).all():
            return self
        return self.with_triples(np.concatenate((self.triples, more)))

    @property
    def num_triples(self) -> int:
        """How many distinct triples are known."""
        return len(self.triples)

    @cached_property
    def graph(self) -> Multigraph:
        """The multigraph of entities and triples."""
        return Multigraph(self.num_entities, self.triples[:, 0], self.triples[:, 2])

    @cached_property
    def typing(self) -> GraphMorphism:
        """The morphism to the schema that sends entities to types and triples to relations."""
        return GraphMorphism(self.graph, self.schema.graph, self.entity_types, self.triples[:, 1])

    @cached_property
    def by_type(self) -> tuple[IntArray, IntArray]:
        """All entities ordered by type, and where each type starts in that order."""
        if len(self.schema.types) == 1:
            return np.arange(self.num_entities), np.array([0, self.num_entities])
        order = np.argsort(self.entity_types, kind="stable")
        counts = np.bincount(self.entity_types, minlength=len(self.schema.types))
        return order, offsets_of(counts)

    @cached_property
    def by_relation(self) -> tuple[IntArray, IntArray]:
        """The places of all triples ordered by edge of the schema, and where each edge starts."""
        order = np.argsort(self.triples[:, 1], kind="stable")
        return order, offsets_of(np.bincount(self.triples[:, 1], minlength=self.num_relations))

    def name(self, entity: int) -> Name:
        """The name of an entity, with its label.

        >>> graph = KnowledgeGraph.from_triples([("Q1", "likes", "Q2")], labels={"Q2": "Fargo"})
        >>> graph.name(1), graph.name(1).label, graph.name(0).label
        ('Q2', 'Fargo', None)
        """
        return Name(self.entities[entity], (self.labels or {}).get(entity))

    def entities_of_type(self, type: int | str) -> IntArray:
        """Return the sorted ids of the entities of a type.

        >>> KnowledgeGraph.from_triples([("a", "r", "b")]).entities_of_type("entity").tolist()
        [0, 1]
        """
        place = self.schema.type_id(type) if isinstance(type, str) else int(type)
        check_ids(np.array([place]), len(self.schema.types), "Type")
        order, offsets = self.by_type
        return order[offsets[place] : offsets[place + 1]]

    def encode(self, rows: Iterable[Row]) -> IntArray:
        """Return the ids of triples given by names, row by row.

        >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
        >>> graph.encode([("b", "r", "a")]).tolist()
        [[1, 0, 0]]
        """
        heads, relations, tails = transpose(rows)
        ends = self.entities.ids(heads), self.entities.ids(tails)
        edges = find_edges(self.schema, self.entities, self.entity_types, relations, *ends)
        return np.stack((ends[0], edges, ends[1]), axis=1).astype(self.id_dtype)

    def decode(self, triples: npt.ArrayLike) -> list[tuple[str, str, str]]:
        """Return triples of ids by names; relations by those that users know.

        >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
        >>> graph.decode(graph.triples)
        [('a', 'r', 'b')]
        """
        heads, edges, tails = columns_of(as_triples(triples))
        check_ids(edges, self.num_relations, "Relations")
        relations = [self.schema.relations[edge].name for edge in edges.tolist()]
        named = self.entities.names(heads), relations, self.entities.names(tails)
        return list(zip(*named, strict=True))

    def _check(self, columns: Columns) -> None:
        self._check_ranges(columns)
        heads, edges, tails = columns
        if len(self.schema.types) < 2:
            return
        graph = self.schema.graph
        wrong = self.entity_types[heads] != graph.heads[edges]
        wrong |= self.entity_types[tails] != graph.tails[edges]
        if wrong.any():

            def name(row: int) -> str:
                return self.schema.relations[int(edges[row])].name

            refuse(self.schema, self.entities, self.entity_types, wrong, name, heads, tails)

    def __repr__(self) -> str:
        return (
            f"KnowledgeGraph({self.num_entities} entities of {len(self.type_names)} types, "
            f"{self.num_triples} triples of {len(self.schema.relation_names)} relations)"
        )
