"""What is proposed for held-out facts, and which of their questions are drawn."""

from __future__ import annotations

import numpy as np

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.ranking.proposals import propose


def test_questions_are_drawn_from_both_sides_as_often_as_they_are_asked() -> None:
    """Where each of many has one of few, nearly all questions ask for that one."""
    held_out = KnowledgeGraph.from_triples(
        [(f"person{n}", "lives in", f"town{n % 4}") for n in range(400)]
    )
    model = SheafEmbedding(model_config("complex", dim=4), held_out)
    known = held_out.with_triples(np.zeros((0, 3), np.int64))

    def sides(most: int | None) -> tuple[int, int]:
        """How many questions ask for a tail, and how many for a head."""
        found = propose(model, held_out, known, most=most, first=3)
        asked = [found.triples[found.questions == n] for n in np.unique(found.questions)]
        tails = sum(len(set(rows[:, 0].tolist())) == 1 for rows in asked)
        return tails, len(asked) - tails

    assert sides(None) == (400, 4)
    tails, heads = sides(100)
    assert tails + heads == 100
    assert tails >= 96, "not half of them from each side"
