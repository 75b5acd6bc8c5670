"""What a step sees: positive triples, and what they are compared with.

All triples of a batch have tails of one type, so that one set of candidates serves them all. Every
epoch draws from its own seed: a run that was interrupted goes on exactly where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from knowledge_sheaves.embedding import Pairs, SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import IntArray, KnowledgeGraph
from knowledge_sheaves.training.config import TrainingConfig
from knowledge_sheaves.training.contrast import Contrast
from knowledge_sheaves.training.losses import LOSSES


class Batch(NamedTuple):
    """Positive triples, the type of their tails, and shared candidates (None: all of that type)."""

    triples: Tensor
    kind: int
    negatives: Tensor | None
    corrupted: Tensor | None
    owner: Tensor | None
    """For pairs of larger subgraphs: which pair a triple belongs to."""
    log_share: Tensor | None = None
    """For weighted candidates: of every entity, the log of how likely it is to be one."""
    pairs: Pairs | None = None
    """Pairs of true and false subgraphs, beside the triples."""
    alone: bool = False
    """Whether the pairs are all there is; the triples are then those of their true subgraphs."""

    def to(self, device: torch.device) -> Batch:
        """The batch where the model is; it is drawn where chance is the same for all devices."""
        moved = {k: v.to(device) for k, v in self._asdict().items() if isinstance(v, Tensor)}
        return Batch(**{**self._asdict(), **moved})


class Batches:
    """All batches of an epoch, for one process of several."""

    def __init__(
        self,
        model: SheafEmbedding,
        graph: KnowledgeGraph,
        config: TrainingConfig,
        rank: int = 0,
        processes: int = 1,
        contrast: Contrast | None = None,
    ) -> None:
        self.model, self.graph, self.config = model, graph, config
        self.rank, self.processes = rank, processes
        self.facts = torch.from_numpy(graph.triples)
        self.ways = 2 if model.config.reciprocal else 1
        self.members = [
            torch.from_numpy(np.asarray(graph.entities_of_type(kind), dtype=np.int64))
            for kind in range(len(model.widths))
        ]
        self.against = LOSSES[config.loss].against
        if self.against == "corrupted" and config.corrupt == "relation":
            self._check_others()
        self._shares: dict[tuple[int, int], Tensor] = {}
        self.contrast = contrast or Contrast(model, graph, config)

    @cached_property
    def triples(self) -> Tensor:
        """All triples to learn from; those read backwards follow the others."""
        return self.take(torch.arange(self.ways * len(self.facts)))

    @cached_property
    def tail_types(self) -> Tensor:
        """The type of every triple's tail."""
        return torch.from_numpy(self.model.edge_types[:, 1])[self.triples[:, 1]]

    def take(self, places: Tensor) -> Tensor:
        """Some of the triples; there is no list of all of them where nobody asks for it."""
        rows = self.facts[places % max(1, len(self.facts))].long()
        back = places >= len(self.facts)
        rows[back] = rows[back].flip(1)
        rows[back, 1] += self.model.num_relations
        return rows

    def __len__(self) -> int:
        """How many batches an epoch has, over all processes."""
        if self.contrast.alone:
            count = -(-self.contrast.epoch(0).true.number // self.config.batch_size)
            return count - count % self.processes or count
        sizes = torch.tensor([self.ways * len(self.facts)])
        if len(self.members) > 1:
            sizes = torch.bincount(self.tail_types, minlength=len(self.members))
        count = int((-(-sizes // self.config.batch_size)).sum())
        return count - count % self.processes or count

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of an epoch; the same number gives the same batches."""
        generator = torch.Generator().manual_seed(self.config.seed * 1_000_003 + number)
        if self.contrast.alone:
            yield from self._pairs_alone(number)
            return
        chunks = self._chunks(generator)
        beside = self._pairs_beside(number, len(chunks))
        for place, chunk in enumerate(chunks):
            seed = int(torch.randint(2**62, (), generator=generator))
            if place % self.processes == self.rank:
                batch = self._batch(chunk, torch.Generator().manual_seed(seed))
                yield batch._replace(pairs=beside[place]).to(self.model.device)

    def _pairs_beside(self, number: int, batches: int) -> list[Pairs | None]:
        """The pairs of an epoch, each in one of its batches."""
        if not self.contrast.any:
            return [None] * batches
        pairs, order = self._shuffled_pairs(number)
        return [pairs.take(part) if len(part) else None for part in np.array_split(order, batches)]

    def _pairs_alone(self, number: int) -> Iterator[Batch]:
        pairs, order = self._shuffled_pairs(number)
        for place in range(len(self)):
            if place % self.processes == self.rank:
                part = pairs.take(order[place * self.config.batch_size :][: self.config.batch_size])
                triples = torch.from_numpy(np.array(part.true.triples, dtype=np.int64))
                batch = Batch(triples, 0, None, None, None, pairs=part, alone=True)
                yield batch.to(self.model.device)

    def _shuffled_pairs(self, number: int) -> tuple[Pairs, IntArray]:
        pairs = self.contrast.epoch(number)
        rng = np.random.default_rng([self.config.seed, number, 1])
        return pairs, rng.permutation(pairs.true.number)

    def _permuted(self, generator: torch.Generator) -> Tensor:
        """The places of all triples in an order by chance, in as few bytes as they need."""
        count = self.ways * len(self.facts)
        dtype = torch.int32 if count < 2**31 else torch.int64
        return torch.randperm(count, generator=generator, dtype=dtype)

    def _chunks(self, generator: torch.Generator) -> list[Tensor]:
        order = self._permuted(generator)
        if len(self.members) > 1:
            order = order[self.tail_types[order].argsort(stable=True)]
            counts = torch.bincount(self.tail_types, minlength=len(self.members)).tolist()
            parts = order.split(counts)
        else:
            parts = (order,)
        chunks = [c for part in parts for c in part.split(self.config.batch_size) if len(c)]
        if len(self.members) > 1:
            shuffled = torch.randperm(len(chunks), generator=generator).tolist()
            chunks = [chunks[i] for i in shuffled]
        usable = len(chunks) - len(chunks) % self.processes
        return chunks[:usable] if usable else chunks

    def _batch(self, chunk: Tensor, generator: torch.Generator) -> Batch:
        triples = self.take(chunk)
        kind = int(self.model.edge_types[int(triples[0, 1]), 1])
        if self.against == "corrupted":
            positive, corrupted, owner = self._corrupt(triples, generator)
            return Batch(positive, kind, None, corrupted, owner)
        members, wanted = self.members[kind], self.config.negatives
        if self.against == "nothing" or wanted is None or wanted >= len(members):
            return Batch(triples, kind, None, None, None)
        drawn = members[torch.randint(len(members), (wanted,), generator=generator)]
        share = self._log_share(kind, len(triples)) if self.config.weigh_negatives else None
        return Batch(triples, kind, drawn, None, None, share)

    def _log_share(self, kind: int, size: int) -> Tensor:
        """log(1 − P(neither drawn nor the tail of one of ``size`` triples)) for every entity."""
        if (kind, size) not in self._shares:
            counts = self._tail_counts(kind).double()
            total = counts.sum()
            # A batch is drawn without repetition: C(others, size) / C(all, size) have no such tail.
            absent = _log_choose(total - counts, size) - _log_choose(total, size)
            assert self.config.negatives is not None
            absent += self.config.negatives * np.log1p(-1 / len(self.members[kind]))
            self._shares[kind, size] = torch.log(-torch.expm1(absent)).float()
        return self._shares[kind, size]

    def _tail_counts(self, kind: int) -> Tensor:
        """Of how many triples with tails of a type every entity is the tail."""
        size = self.graph.num_entities
        if len(self.members) > 1:
            return torch.bincount(self.triples[self.tail_types == kind, 2], minlength=size)
        ends = (self.facts[:, 2], self.facts[:, 0])[: self.ways]
        return torch.stack([torch.bincount(end, minlength=size) for end in ends]).sum(0)

    # Corrupted triples, for the margin loss.

    def _corrupt(
        self, triples: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        how = self.config.corrupt
        owner, corrupted = None, triples.clone()
        if how == "vertex":
            triples, corrupted, owner = self._stars(triples, generator)
        elif how == "relation":
            corrupted[:, 1] = self._other_relations(triples[:, 1], generator)
        else:
            at_head = self._at_head(triples, generator)
            corrupted[at_head, 0] = self._same_type(triples[at_head, 0], generator)
            corrupted[~at_head, 2] = self._same_type(triples[~at_head, 2], generator)
        if self.config.filter_negatives:
            new = ~self._known(corrupted)
            triples, corrupted = triples[new], corrupted[new]
            if owner is not None:  # stars that lost all their triples are no pairs any more
                owner = owner[new].unique(return_inverse=True)[1] if new.any() else None
        return triples, corrupted, owner

    def _at_head(self, triples: Tensor, generator: torch.Generator) -> Tensor:
        """Which triples are corrupted at the head."""
        if self.config.corrupt != "both":
            return torch.full((len(triples),), self.config.corrupt == "head")
        draw = torch.rand(len(triples), generator=generator)
        if self.config.sampling == "uniform":
            return draw < 0.5
        return draw < self._head_share[triples[:, 1]]

    @cached_property
    def _head_share(self) -> Tensor:
        """Bernoulli sampling: corrupt the side where a false negative is less likely."""
        edges = self.triples[:, 1]
        count = len(self.model.edge_types)
        total = torch.bincount(edges, minlength=count)
        sides = []
        for column in (0, 2):
            pairs = (self.triples[:, column] * count + edges).unique() % count
            sides.append(total / torch.bincount(pairs, minlength=count).clamp(min=1))
        tails_per_head, heads_per_tail = sides
        return tails_per_head / (tails_per_head + heads_per_tail).clamp(min=1e-9)

    def _same_type(self, entities: Tensor, generator: torch.Generator) -> Tensor:
        kinds = torch.from_numpy(self.graph.entity_types.astype(np.int64))[entities]
        out = entities.clone()
        for kind in kinds.unique().tolist():
            mine, members = kinds == kind, self.members[kind]
            drawn = torch.randint(len(members), (int(mine.sum()),), generator=generator)
            out[mine] = members[drawn]
        return out

    def _other_relations(self, edges: Tensor, generator: torch.Generator) -> Tensor:
        types = torch.from_numpy(self.model.edge_types)
        out = edges.clone()
        for pair in types[edges].unique(dim=0):
            mine = (types[edges] == pair).all(1)
            options = (types == pair).all(1).nonzero().squeeze(1)
            drawn = torch.randint(len(options) - 1, (int(mine.sum()),), generator=generator)
            place = torch.searchsorted(options, edges[mine])
            out[mine] = options[drawn + (drawn >= place)]  # any but the relation itself
        return out

    def _check_others(self) -> None:
        """Refuse to corrupt relations where one has no other to be exchanged for."""
        kinds, counts = np.unique(self.model.edge_types, axis=0, return_counts=True)
        for head, tail in kinds[counts == 1].tolist():
            edge = int((self.model.edge_types == (head, tail)).all(1).argmax())
            relation = self.graph.schema.relations[edge % self.model.num_relations]
            raise InputError(
                f"corrupt: relation exchanges relations between the same two types, but "
                f"{relation.name!r} is the only one from {relation.head!r} to {relation.tail!r}: "
                f"choose both, tail, head or vertex."
            )

    def _stars(self, triples: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Stars around the heads of the batch, and the same stars around other entities.

        A star has as many triples as ``subgraph`` says, or all that its centre has.
        """
        centres = triples[:: self.config.subgraph, 0].contiguous()
        order, heads = self._by_head
        first = torch.searchsorted(heads, centres)
        last = torch.searchsorted(heads, centres, right=True)
        places = _without_repetition(last - first, self.config.subgraph, generator)
        owner, column = (places >= 0).nonzero(as_tuple=True)
        positive = self.triples[order[first[owner] + places[owner, column]]]
        corrupted = positive.clone()
        corrupted[:, 0] = self._same_type(centres, generator)[owner]
        return positive, corrupted, owner

    @cached_property
    def _by_head(self) -> tuple[Tensor, Tensor]:
        """The triples' places in the order of their heads, and those heads."""
        order = self.triples[:, 0].argsort(stable=True)
        return order, self.triples[order, 0].contiguous()

    def _known(self, triples: Tensor) -> Tensor:
        rows = triples.clone()
        backwards = rows[:, 1] >= self.model.num_relations
        rows[backwards] = rows[backwards].flip(1)
        rows[backwards, 1] -= self.model.num_relations
        return torch.from_numpy(self.graph.contains(rows.numpy()))


def _without_repetition(sizes: Tensor, wanted: int, generator: torch.Generator) -> Tensor:
    """For every size n, ``wanted`` different numbers below n, or all of them and −1 for the rest.

    Floyd's way: the j-th draw is from one number more than the one before, and takes that number
    itself if what it drew is taken already.
    """
    taken = sizes.new_full((len(sizes), wanted), -1)
    count = sizes.clamp(max=wanted)
    for j in range(wanted):
        newest = sizes - count + j
        draw = (torch.rand(len(sizes), generator=generator) * (newest + 1)).long()
        again = (taken[:, :j] == draw.unsqueeze(1)).any(1)
        taken[:, j] = torch.where(j < count, torch.where(again, newest, draw), -1)
    return taken


def _log_choose(total: Tensor, size: int) -> Tensor:
    """log of the binomial coefficient but for its size!, -inf where there are too few."""
    rest = total - size
    ways = torch.lgamma(total + 1) - torch.lgamma(rest.clamp(min=0) + 1)
    return ways.masked_fill(rest < 0, -torch.inf)
