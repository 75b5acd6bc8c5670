"""Patterns of relations against their definition, triple by triple."""

from __future__ import annotations

import pytest
from hypothesis import given

from graph_cases import knowledge_graphs
from knowledge_sheaves.evaluation import relation_patterns
from knowledge_sheaves.graph import KnowledgeGraph


@pytest.mark.parametrize(
    ("pairs", "patterns"),
    [
        (["ab", "cd"], ("1-1",)),
        (["ab", "ac"], ("1-n",)),
        (["ac", "bc"], ("n-1",)),
        (["ac", "ad", "bc", "bd"], ("n-n",)),
        (["ab", "ba"], ("1-1", "symmetric")),
        # Half of the triples are there the other way round: enough.
        (["ab", "ba", "cd", "ef"], ("1-1", "symmetric")),
        (["ab", "ba", "cd", "ef", "gh"], ("1-1",)),
        # A loop is no evidence of symmetry.
        (["aa", "bb"], ("1-1",)),
        # An average of three halves is "many".
        (["ab", "ac", "de"], ("1-n",)),
        (["ab", "ac", "de", "fg"], ("1-1",)),
    ],
)
def test_patterns_by_hand(pairs: list[str], patterns: tuple[str, ...]) -> None:
    graph = KnowledgeGraph.from_triples([(h, "r", t) for h, t in pairs])
    assert relation_patterns(graph)[0].names == patterns


def test_a_relation_without_training_triples_is_unseen() -> None:
    graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("a", "s", "b")])
    first, second = relation_patterns(graph.with_triples([("a", "r", "b")]))
    assert (first.names, second.names) == (("1-1",), ("unseen",))


@given(knowledge_graphs())
def test_patterns_of_split_relations_are_counted_by_name(graph: KnowledgeGraph) -> None:
    rows = graph.decode(graph.triples)
    for pattern in relation_patterns(graph):
        mine = {(h, t) for h, r, t in rows if r == pattern.name}
        assert pattern.triples == len(mine)
        if mine:
            assert pattern.tails_per_head == pytest.approx(len(mine) / len({h for h, _ in mine}))
            assert pattern.heads_per_tail == pytest.approx(len(mine) / len({t for _, t in mine}))
        proper = [(h, t) for h, t in mine if h != t]
        inverse = [(h, t) for h, t in proper if (t, h) in mine]
        assert pattern.inverses == pytest.approx(len(inverse) / max(len(proper), 1))
