"""The loss of a batch with its regularisers: one number, to be made small."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from knowledge_sheaves.embedding import Pairs, Scoring, SheafEmbedding
from knowledge_sheaves.embedding.energies.base import Pool, favour
from knowledge_sheaves.embedding.scoring import compare, make_query, relation_scores
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.sheaf import Candidates
from knowledge_sheaves.training.batches import Batch
from knowledge_sheaves.training.config import TrainingConfig
from knowledge_sheaves.training.contrast import total_score
from knowledge_sheaves.training.losses import LOSSES, CandidateLoss, TripleLoss


def implied_edges(model: SheafEmbedding) -> Tensor | None:
    """For every edge the one that it implies, −1 for none; None where the schema has none at all.

    >>> from knowledge_sheaves.embedding import model_config
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b")])
    >>> implied_edges(SheafEmbedding(model_config("transe", dim=4), graph)) is None
    True
    """
    relations = model.graph.schema.relations
    if all(each.subproperty_of is None for each in relations):
        return None
    place = {(each.name, each.head, each.tail): edge for edge, each in enumerate(relations)}
    wanted = [
        place.get((each.subproperty_of or "", each.head, each.tail), -1) for each in relations
    ]
    forwards = torch.tensor(wanted)
    if not model.config.reciprocal:
        return forwards
    return torch.cat([forwards, torch.where(forwards < 0, -1, forwards + len(relations))])


class Objective(nn.Module):
    """The loss of a batch under a model, regularisers included."""

    def __init__(
        self,
        model: SheafEmbedding,
        graph: KnowledgeGraph,
        config: TrainingConfig,
        scoring: Scoring = total_score,
    ) -> None:
        super().__init__()
        self.scoring = scoring
        self.model, self.graph, self.config = model, graph, config
        self.loss = LOSSES[config.loss](config)
        self.sharpness = model.config.energy.sharpness
        self.implied = implied_edges(model)

    def forward(self, batch: Batch) -> Tensor:
        if batch.alone:
            loss, x_h, x_t, edges = self._by_pairs_alone(batch)
        elif isinstance(self.loss, CandidateLoss):
            loss, x_h, x_t, edges = self._by_candidates(self.loss, batch)
        else:
            loss, x_h, x_t, edges = self._by_triples(self.loss, batch)
        if batch.pairs is not None and not batch.alone:
            costs = self._pair_costs(batch.pairs)
            loss = loss + self.config.pair_weight * costs.sum() / max(1, len(batch.triples))
        if self.implied is not None and self.config.subproperty_weight:
            loss = loss + self.config.subproperty_weight * self._implication(batch.triples)
        return loss + self._regularise(x_h, x_t, edges)

    def entities(self, batch: Batch) -> Tensor:
        """All entities that the loss of a batch looks at; some may be there several times."""
        parts = [batch.triples[:, ::2].flatten()]
        if batch.corrupted is not None:
            parts.append(batch.corrupted[:, ::2].flatten())
        if batch.negatives is not None:
            parts.append(batch.negatives)
        elif isinstance(self.loss, CandidateLoss) and not batch.alone:
            parts.append(self.model.entities_of_type(batch.kind))
        if batch.pairs is not None:
            for side in batch.pairs[:2]:
                triples = torch.from_numpy(np.array(side.triples, dtype=np.int64))
                parts.append(triples[:, ::2].flatten())
        return torch.cat(parts)

    def _implication(self, triples: Tensor) -> Tensor:
        """How much worse facts are as facts of the relations that theirs are subproperties of."""
        assert self.implied is not None, "asked for only where there are any"
        more = self.implied.to(triples.device)[triples[:, 1]]
        mine = triples[more >= 0]
        if not len(mine):
            return self.model.radius.new_zeros(())
        implied = torch.stack([mine[:, 0], more[more >= 0], mine[:, 2]], 1)
        # What implies is a fact already: only what is implied has to give way.
        worse = self.model.scores(implied) - self.model.scores(mine).detach()
        return self.sharpness * F.relu(worse).sum() / len(triples)

    # Losses on pairs of subgraphs.

    def _by_pairs_alone(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        assert batch.pairs is not None, "there is nothing else"
        heads, edges, tails = batch.triples.unbind(1)
        x_h, x_t = self.model.lookup("head", heads), self.model.lookup("tail", tails)
        return self._pair_costs(batch.pairs).mean(), x_h, x_t, edges

    def _pair_costs(self, pairs: Pairs) -> Tensor:
        """What every pair (H, H̃) costs by the loss, with V by the scoring function."""
        # The softmax and its like take logits, the margin is one of scores.
        scale = self.sharpness if isinstance(self.loss, CandidateLoss) else 1.0
        true, false = (-scale * self.scoring(self.model, part) for part in pairs[:2])
        return self.loss.on_pairs(true, false, torch.from_numpy(pairs.of).to(true.device))

    # Losses on shared candidates: one matrix product.

    def _by_candidates(
        self, measure: CandidateLoss, batch: Batch
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        model = self.model
        heads, edges, tails = batch.triples.unbind(1)
        ids, target = self._candidate_ids(batch, tails)
        width = model.widths[batch.kind]
        points = model.entities.lookup(ids)[..., :width, :]
        candidates = Candidates(points.flatten(1, 2), model.n_blocks)
        pool = Pool(candidates, favour(model, ids, "tail"))
        x_h = model.lookup("head", heads)
        query = make_query(model, "tail", edges, heads, vectors=x_h)
        if self.config.dropout:
            query = query._replace(image=F.dropout(query.image, self.config.dropout, self.training))
        logits = compare(model, query, pool, scale=-self.sharpness, relative=measure.relative)
        if batch.log_share is not None:
            logits = _stand_for_all(logits, batch.log_share[ids], target)
        if self.config.filter_negatives:
            logits = logits.masked_fill(self._false_negatives(batch, ids, target), -torch.inf)
        loss = measure(logits, target)
        if self.config.relation_weight:
            loss = loss + self.config.relation_weight * self._relation_loss(batch)
        return loss, x_h, points.index_select(0, target), edges

    def _candidate_ids(self, batch: Batch, tails: Tensor) -> tuple[Tensor, Tensor]:
        """The candidates, each once, and where every triple's own tail stands among them."""
        if batch.negatives is None:
            ids = self.model.entities_of_type(batch.kind)
            return ids, torch.searchsorted(ids, tails.contiguous())
        ids, place = torch.cat([tails, batch.negatives]).unique(return_inverse=True)
        return ids, place[: len(tails)]

    def _false_negatives(self, batch: Batch, ids: Tensor, target: Tensor) -> Tensor:
        """Candidates that the training graph knows to be right as well."""
        heads, edges, _ = batch.triples.unbind(1)
        mask = torch.zeros(len(heads), len(ids), dtype=torch.bool, device=ids.device)
        count = self.model.num_relations
        for backwards in (False, True):
            mine = ((edges >= count) == backwards).nonzero().squeeze(1)
            if not len(mine):
                continue
            entities, relations = heads[mine].cpu().numpy(), (edges[mine] % count).cpu().numpy()
            known, offsets = (
                self.graph.heads_many(relations, entities)
                if backwards
                else self.graph.tails_many(entities, relations)
            )
            rows = mine.repeat_interleave(torch.from_numpy(np.diff(offsets)).to(mine.device))
            answers = torch.from_numpy(np.asarray(known, dtype=np.int64)).to(ids.device)
            place = torch.searchsorted(ids, answers).clamp(max=len(ids) - 1)
            there = ids[place] == answers
            mask[rows[there], place[there]] = True
        return mask.scatter(1, target.unsqueeze(1), False)

    def _relation_loss(self, batch: Batch) -> Tensor:
        """How hard it is to tell the relation from the two entities."""
        heads, edges, tails = batch.triples.unbind(1)
        types = torch.from_numpy(self.model.edge_types).to(edges.device)
        total = self.model.radius.new_zeros(())
        for pair in types[edges].unique(dim=0):
            options = (types == pair).all(1).nonzero().squeeze(1)
            mine = (types[edges] == pair).all(1)
            scores = relation_scores(self.model, options, heads[mine], tails[mine])
            target = torch.searchsorted(options, edges[mine].contiguous())
            total = total + F.cross_entropy(-self.sharpness * scores, target, reduction="sum")
        return total / len(heads)

    # Losses on triples.

    def _by_triples(
        self, measure: TripleLoss, batch: Batch
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        heads, edges, tails = batch.triples.unbind(1)
        x_h, x_t = self.model.lookup("head", heads), self.model.lookup("tail", tails)
        rows = batch.triples
        both = self.model.scores(
            rows if batch.corrupted is None else torch.cat([rows, batch.corrupted])
        )
        scores, negative = both.split([len(rows), len(both) - len(rows)])
        if batch.owner is not None:
            size = int(batch.owner.max()) + 1
            scores = scores.new_zeros(size).index_add(0, batch.owner, scores)
            negative = negative.new_zeros(size).index_add(0, batch.owner, negative)
        return measure(scores, negative), x_h, x_t, edges

    # Regularisers.

    def _regularise(self, x_h: Tensor, x_t: Tensor, edges: Tensor) -> Tensor:
        config, total = self.config, x_h.new_zeros(())
        if config.n3 or config.l2:
            vectors = (x_h.square().sum((-2, -1)), x_t.square().sum((-2, -1)))
            for square in (*vectors, *self.model.maps.sizes("head", edges)):
                if config.n3:
                    total = total + config.n3 / len(edges) * square.pow(1.5).sum()
                if config.l2:
                    total = total + config.l2 / len(edges) * square.sum()
        if config.section_weight:
            for x in (x_h, x_t):
                total = total + config.section_weight * self._section_penalty(x)
        return total

    def _section_penalty(self, x: Tensor) -> Tensor:
        """How far the sections of an entity are from being orthonormal."""
        sections = x.flatten(1, 2)
        gram = sections.mT @ sections
        distance = gram - torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        if self.config.section_penalty == "columns":
            # Columns are rows here, and norms along the last axis are three times as fast.
            return torch.linalg.vector_norm(distance, dim=2).sum(1).mean()
        return torch.linalg.matrix_norm(distance).mean()


def _stand_for_all(logits: Tensor, log_share: Tensor, target: Tensor) -> Tensor:
    """Let every candidate stand for as many as its share says; a triple's own tail is always there.

    Dividing by the probability of being drawn makes the sum of a softmax over some candidates an
    unbiased estimate of that over all (Horvitz and Thompson): what is drawn often, being a tail of
    many facts, is not punished for it.
    """
    own = log_share[target].unsqueeze(1)
    return (logits - log_share).scatter_add(1, target.unsqueeze(1), own)
