"""What a training compares facts with, where that is said: pairs (H, H̃) of subgraphs.

They come from three places: the pairs that are given, the triples that are known to be false, and a
negative graph by an assumption about the world, drawn anew for every epoch.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from torch import Tensor

from knowledge_sheaves.embedding import (
    Pairs,
    Scoring,
    SheafEmbedding,
    Subgraphs,
    negative_pairs,
    pairs_with_facts,
)
from knowledge_sheaves.embedding.subgraphs import NO_PAIRS
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import ClosedWorld, IntArray, KnowledgeGraph, LocalClosedWorld
from knowledge_sheaves.training.config import TrainingConfig
from knowledge_sheaves.training.losses import LOSSES


def total_score(model: SheafEmbedding, subgraphs: Subgraphs) -> Tensor:
    """The sum of the scores of the triples: V as the model compares candidates."""
    return subgraphs.total(model.scores(subgraphs.triples))


class Contrast:
    """The pairs of every epoch; ``scoring`` is the V that they are compared by."""

    def __init__(
        self,
        model: SheafEmbedding,
        graph: KnowledgeGraph,
        config: TrainingConfig,
        given: Pairs | None = None,
        false: IntArray | None = None,
        scoring: Scoring = total_score,
    ) -> None:
        self.model, self.graph, self.config, self.scoring = model, graph, config, scoring
        self.given = NO_PAIRS if given is None else given
        self.false = np.zeros((0, 3), np.int64) if false is None else false
        self.alone = config.world != "sampled"
        if LOSSES[config.loss].against == "nothing" and self.any:
            raise InputError(
                f"loss: {config.loss} compares facts with nothing: choose softmax or margin to "
                "learn from what is false."
            )
        if self.alone and not self.any:
            raise InputError(
                "world: open takes nothing for false but what you say: give pairs, or triples that "
                "are known to be false, or choose another world."
            )

    @property
    def any(self) -> bool:
        """Whether there are pairs at all."""
        drawn = self.config.world in ("closed", "local")
        return drawn or self.given.true.number > 0 or len(self.false) > 0

    def epoch(self, number: int) -> Pairs:
        """All pairs of an epoch, read backwards too where the model has reciprocal relations."""
        rng = np.random.default_rng([self.config.seed, number])
        found = self.given
        if self.model.config.reciprocal:
            found += self.given.turned(self.model.num_relations)
        for by in ("tail", "head") if self.model.config.reciprocal else ("tail",):
            mine = pairs_with_facts(self.graph, self.false, rng, by) + self._drawn(by, rng)
            found += mine.turned(self.model.num_relations) if by == "head" else mine
        return found

    def _drawn(self, by: Any, rng: np.random.Generator) -> Pairs:
        """As many triples of the negative graph as there are facts, with facts like them."""
        if self.config.world == "closed":
            return negative_pairs(ClosedWorld(self.graph), self.graph.num_triples, rng)
        if self.config.world == "local":
            return negative_pairs(LocalClosedWorld(self.graph, by), self.graph.num_triples, rng)
        return NO_PAIRS

    @property
    def key(self) -> str:
        """What tells given pairs from others; a run is resumed with the same."""
        digest = hashlib.sha256()
        for part in (*self.given.true[:2], *self.given.false[:2], self.given.of):
            digest.update(np.ascontiguousarray(part).astype("<i8").tobytes())
        return digest.hexdigest() if self.given.true.number else ""
