"""A data set as a model numbers it: who measures a model must speak of the same entities."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.evaluation.classification import known_names
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.dataset import Dataset


def matched(graph: KnowledgeGraph, data: Dataset) -> Dataset:
    """The data with the entities, types and relations of a model's graph, by name.

    >>> ours = KnowledgeGraph.from_triples([("a", "r", "b")])
    >>> theirs = KnowledgeGraph.from_triples([("b", "r", "a"), ("a", "r", "b")])
    >>> matched(ours, Dataset(theirs)).train.triples.tolist()
    [[0, 0, 1], [1, 0, 0]]
    """
    first = data.train
    if first.entities == graph.entities and first.schema == graph.schema:
        return data
    refuse_unknown("entities", list(first.entities), graph.entities)
    refuse_unknown("relations", list(first.schema.relation_names), graph.schema.relation_names)

    def mine(given: KnowledgeGraph) -> KnowledgeGraph:
        return graph.with_triples(given.decode(given.triples))

    valid, test = (each and mine(each) for each in (data.valid, data.test))
    return replace(data, train=mine(first), valid=valid, test=test)


def with_splits(
    known: Dataset, given: Dataset, split: str, tell: Callable[[int, int], object]
) -> Dataset:
    """What a model knows, with a split of other data in the place of its own.

    What those data hold besides is known, too, so that it does not compete with what is ranked.
    ``tell`` hears how many facts have names that the model lacks, of how many.

    >>> ours = KnowledgeGraph.from_triples([("a", "r", "b")], entities="abc")
    >>> theirs = KnowledgeGraph.from_triples([("a", "r", "c")], entities="abc")
    >>> other = Dataset(theirs, test=theirs.with_triples([("b", "r", "c")]))
    >>> found = with_splits(Dataset(ours), other, "test", print)
    0 1
    >>> found.train.num_triples, found.test.num_triples
    (2, 1)
    """
    found = known.splits
    for name, graph in given.splits.items():
        rows = graph.decode(graph.triples)
        kept = known_names(known.train, rows)
        if name == split:
            tell(len(rows) - len(kept), len(rows))
            found[name] = known.train.with_triples(kept)
        else:
            mine = known.splits.get(name)
            own = [] if mine is None else mine.decode(mine.triples)
            found[name] = known.train.with_triples([*own, *kept])
    train, valid, test = found["train"], found.get("valid"), found.get("test")
    return replace(known, train=train, valid=valid, test=test)


def refuse_unknown(kind: str, names: Sequence[str], known: Collection[str]) -> None:
    """Refuse names that a model lacks: their numbers would be taken for those of others."""
    lacking = [name for name in names if name not in known]
    if lacking:
        raise InputError(
            f"The model lacks {len(lacking):,} of the {kind}, such as {lacking[0]!r}: give data "
            "with the names that it was trained on."
        )
