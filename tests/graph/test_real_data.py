"""Real typed data, messier than any strategy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from knowledge_sheaves.graph import KnowledgeGraph, LocalClosedWorld


def table(file: Path) -> list[list[str]]:
    return [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]


def test_codex_with_several_types_for_an_entity(shared_data: Path) -> None:
    folder = shared_data / "codex"
    types = {name: kinds.split() for name, kinds in table(folder / "entity2types.tsv")}
    splits = [table(folder / "codex-s" / f"{name}.txt") for name in ("train", "valid", "test")]
    everything = KnowledgeGraph.from_triples(
        [row for split in splits for row in split], types=types, min_type_count=5, min_pair_count=5
    )
    train, valid, test = (everything.with_triples(split) for split in splits)
    assert train.duplicates == 0
    assert train.num_triples + valid.num_triples + test.num_triples == everything.num_triples
    assert len(everything.schema.relation_names) == 42 < everything.num_relations
    assert any(relation.shared for relation in everything.schema.relations)
    assert not train.contains(test.triples).any()
    assert np.array_equal(everything.typing.edge_map, everything.triples[:, 1])
    sampled = LocalClosedWorld(everything).sample(1000, 0)
    assert not everything.contains(sampled).any()
    assert (everything.out_degree(sampled[:, 0], sampled[:, 1]) > 0).all()
