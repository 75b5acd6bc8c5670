"""The likeliest facts that a graph does not hold."""

from __future__ import annotations

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.ranking.missing import missing
from knowledge_sheaves.ranking.prediction import Predictor


def test_each_fact_is_missing_once() -> None:
    rows = [("Ann", "knows", "Bob"), ("Bob", "knows", "Cy"), ("Cy", "knows", "Ann")]
    model = SheafEmbedding(model_config("complex", dim=4), KnowledgeGraph.from_triples(rows))
    found = missing(Predictor(model), "Ann")
    facts = [fact[:3] for fact in found]
    assert ("Ann", "knows", "Ann") in facts  # found from both of its ends
    assert len(set(facts)) == len(facts)
    assert [f.probability for f in found] == sorted((f.probability for f in found), reverse=True)
