"""What a model proposes for held-out facts: the first answers to their questions, right or wrong.

A held-out fact asks two questions, for its tail and for its head. Known facts are no answers. What
is proposed is right if it is a held-out fact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.loops import is_barred
from knowledge_sheaves.graph import BoolArray, IntArray, KnowledgeGraph
from knowledge_sheaves.ranking.ranker import MEMORY_LIMIT, Lists, chunks, to_index
from knowledge_sheaves.ranking.triples import known_facts, ranked_side

FIRST = 10
"""How many answers of a question are looked at."""


@dataclass(frozen=True)
class Proposals:
    """Triples that were proposed: of which question, at which rank (from 0), and whether right."""

    triples: IntArray
    questions: IntArray
    ranks: IntArray
    right: BoolArray

    def __len__(self) -> int:
        return len(self.triples)


@torch.no_grad()
def propose(
    model: SheafEmbedding,
    held_out: KnowledgeGraph,
    known: KnowledgeGraph,
    *,
    most: int | None = None,
    first: int = FIRST,
    seed: int = 0,
    memory_limit: int = MEMORY_LIMIT,
) -> Proposals:
    """The first answers to the questions of held-out facts, ``most`` of them, known ones removed.

    >>> from knowledge_sheaves.embedding import model_config
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    >>> model = SheafEmbedding(model_config("transe", dim=2), graph)
    >>> found = propose(model, graph.with_triples([("a", "r", "c")]), graph)
    >>> int(found.right.sum())  # from either end
    2
    """
    rows = held_out.triples[~is_barred(model.graph, held_out.triples)]
    sides = (0, 2) if ranked_side(model) == "both" else (0,)
    parts: list[Proposals] = []
    questions = [np.unique(rows[:, [end, 1]], axis=0).astype(np.int64) for end in sides]
    count = sum(map(len, questions))
    # Drawn from both sides together: one side may have many more questions than the other.
    drawn = np.random.default_rng(seed).permutation(count) < (count if most is None else most)
    chosen = np.split(drawn, np.cumsum([len(each) for each in questions])[:-1])
    for end, every, mine in zip(sides, questions, chosen, strict=True):
        asked = every[mine]
        before = sum(len(np.unique(part.questions)) for part in parts)
        for part in chunks(len(asked), held_out.num_entities, memory_limit):
            here = _of_side(model, held_out, known, end, asked[part], first, before + part.start)
            parts.append(here)
    if not parts:
        nothing = np.zeros(0, np.int64)
        return Proposals(np.zeros((0, 3), np.int64), nothing, nothing, np.zeros(0, np.bool_))
    columns = ("triples", "questions", "ranks", "right")
    return Proposals(*(np.concatenate([getattr(p, name) for p in parts]) for name in columns))


def _of_side(
    model: SheafEmbedding,
    held_out: KnowledgeGraph,
    known: KnowledgeGraph,
    end: int,
    asked: IntArray,
    first: int,
    start: int,
) -> Proposals:
    facts, names = known_facts([known])
    entities, edges = asked.T.copy()
    ids, by = torch.from_numpy(entities), torch.from_numpy(edges)
    if end == 0:
        energies = model.score_tails(ids, by)
        old = Lists(*facts.tails_many(entities, names[edges]))
    else:
        energies = model.score_heads(by, ids)
        old = Lists(*facts.heads_many(names[edges], entities))
    energies[to_index(old.rows, energies), to_index(old.ids, energies)] = torch.inf
    best = energies.topk(min(first, energies.shape[1]), dim=1, largest=False)
    found = best.values.isfinite().cpu().numpy()
    rows, ranks = np.nonzero(found)
    answers = best.indices.cpu().numpy()[found]
    heads, tails = (entities[rows], answers) if end == 0 else (answers, entities[rows])
    kinds, schema = model.graph.entity_types, model.graph.schema
    relation = [schema.relation_names[name] for name in names[edges[rows]].tolist()]
    parts = schema.find_edges(relation, kinds[heads], kinds[tails])
    triples = np.stack([heads, parts, tails], 1)
    return Proposals(triples, start + rows, ranks, held_out.closed.contains(triples))
