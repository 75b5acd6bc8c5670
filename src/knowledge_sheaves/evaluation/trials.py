"""Questions of which each is a trial by itself, drawn from facts that were held out.

Most questions that are drawn at random ask for the same few facts: of every film that was made in
a country it is asked who that country's partners are. They are right or wrong together, so that a
thousand of them tell no more than a few. Of questions that miss the same answers by the same
relations one is drawn.

Questions to fit by and questions to judge by are drawn alike: training facts are known, those of
one split are looked for, those of the others are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.storage import dataset_of
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.evaluation.betae import TypeQueries
from knowledge_sheaves.evaluation.queries import take
from knowledge_sheaves.evaluation.query_calibration import drawn_queries
from knowledge_sheaves.graph import IntArray
from knowledge_sheaves.query.pattern import Query
from knowledge_sheaves.ranking.trust import FEW

DRAWN = {
    **dict.fromkeys(("2p", "2i"), 4_000),  # asked most, and quick to ask
    **dict.fromkeys(("3p", "3i", "pi", "ip", "2u", "up", "2in", "pin"), 300),
}
"""The types of questions that a fit is made of, and how many are drawn where there are so many."""
ASKED = 2
"""One in so many of them is asked, at random: the first to be drawn are not like the later ones."""
FACTS_A_QUESTION = 4
COMPARED = 30_000_000
"""How many entities are compared with questions of one type: large graphs have fewer of them."""


def sizes(judge: SheafEmbedding) -> dict[str, int]:
    """How many questions of each type a fit is made of, by the size of the graph."""
    valid = dataset_of(judge).valid
    facts = 0 if valid is None else valid.num_triples
    most = max(min(facts // FACTS_A_QUESTION, COMPARED // judge.graph.num_entities), FEW // 3)
    return {name: min(count // ASKED, most) for name, count in DRAWN.items()}


def trials(
    judge: SheafEmbedding, asked: Mapping[str, int], split: str = "valid", seed: int = 0
) -> list[TypeQueries]:
    """Questions that facts of a split are needed for, ``asked`` of each type at the most.

    As many as `DRAWN` says, or as are asked, are drawn; of these some are taken at random.

    >>> from knowledge_sheaves.embedding import ModelInfo, model_config
    >>> from knowledge_sheaves.graph.readers import load
    >>> data = load("nations")
    >>> model = SheafEmbedding(model_config("complex", dim=4), data.train)
    >>> model.info = ModelInfo.of(data)
    >>> [(group.name, len(group)) for group in trials(model, {"2p": 5, "2i": 4})]
    [('2p', 5), ('2i', 4)]
    """
    found: list[TypeQueries] = []
    for name, count in asked.items():
        most = max(count, DRAWN.get(name, 0))
        try:
            (drawn,) = drawn_queries(
                *(judge, most, seed), split=split, types=[name], after_train=True, alike=trial
            )
        except InputError:
            raise
        except SheafError:
            continue  # the graph has no such questions
        found.append(_some(drawn, count, seed))
    return found


def _some(group: TypeQueries, count: int, seed: int) -> TypeQueries:
    places = np.random.default_rng(seed).permutation(len(group))[:count]
    queries = [group.queries[place] for place in places.tolist()]
    return TypeQueries(group.name, queries, take(group.easy, places), take(group.hard, places))


def trial(query: Query, missing: IntArray) -> Hashable:
    """What a question tries: the relations at what is asked for, with their sides, and the answers.

    The side is where what is asked for stands, and whether the edge must not hold.
    """
    sides = (
        (int(edge.relation), *(term in query.targets for term in edge.terms), part is not pattern)
        for pattern in query.patterns
        for part in pattern.walk()
        for edge in part.edges
    )
    return tuple(sorted(side for side in sides if any(side[1:3]))), *missing.tolist()
