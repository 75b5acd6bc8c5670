"""Sheaf embeddings as a PyKEEN model class, for its pipelines, losses, samplers and evaluators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from pykeen.models import Model
from pykeen.triples import CoreTriplesFactory, KGInfo, TriplesFactory
from pykeen.utils import NoRandomSeedNecessary
from torch import Tensor

from knowledge_sheaves.embedding import SheafConfig, SheafEmbedding
from knowledge_sheaves.embedding.energies import Energy
from knowledge_sheaves.embedding.energies.base import Pool, favour, less_favour
from knowledge_sheaves.embedding.loops import bar_loops
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.embedding.scoring import fits, relation_scores, score_entities
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.interop.assemble import assemble, lifted
from knowledge_sheaves.interop.training_graph import Numbering, graph_of
from knowledge_sheaves.sheaf import Candidates


class KnowledgeSheafModel(Model):  # type: ignore[no-untyped-call]  # its __init_subclass__
    """A sheaf embedding that PyKEEN can train and evaluate.

    Scores are our scores with the sign turned; those of a lifted model are ⟨R x_h, x_t⟩, with half
    of its biases. With inverse triples, PyKEEN's relations 2i and 2i + 1 are our relation i and its
    reciprocal.
    ``model`` is a name of the catalogue, ``options`` changes it further, e.g. ``{"norm": 1}``.

    >>> from pykeen.datasets import Nations
    >>> model = KnowledgeSheafModel(
    ...     triples_factory=Nations().training, model="rote", embedding_dim=16, random_seed=0)
    >>> model.score_t(torch.tensor([[0, 1]])).shape
    torch.Size([1, 14])
    """

    hpo_default: ClassVar[Mapping[str, Any]] = {
        "model": {
            "type": "categorical",
            "choices": ["transe", "rotate", "mure", "rote", "pairre", "distmult", "complex"],
        },
        "embedding_dim": {"type": int, "low": 16, "high": 256, "q": 16},
    }

    def __init__(
        self,
        *,
        triples_factory: KGInfo,
        model: str = "rotate",
        embedding_dim: int = 64,
        options: Mapping[str, Any] | None = None,
        random_seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(triples_factory=triples_factory, random_seed=random_seed, **kwargs)
        config = SheafConfig.from_dict(
            {
                "model": model,
                "dim": embedding_dim,
                "reciprocal": bool(triples_factory.create_inverse_triples),
                "loops": True,  # PyKEEN has no such rule, and ranks by single scores too
                **(options or {}),
            }
        )
        facts = triples_factory if isinstance(triples_factory, CoreTriplesFactory) else None
        graph = graph_of(self.num_entities, self.num_real_relations, facts)
        self.numbering: Numbering | None = None
        self.sheaf = SheafEmbedding(config, graph, seed=_draw())
        self.sheaf.entities.sparse = False

    @classmethod
    def of(cls, sheaf: SheafEmbedding, numbering: Numbering | None = None) -> KnowledgeSheafModel:
        """A model that has been trained already; without a numbering ids are ours."""
        reciprocal = bool(sheaf.config.reciprocal)
        if not (sheaf.config.energy.ranks_heads or reciprocal):
            raise InputError(
                "A lifted model without reciprocal relations ranks heads by energy, for which "
                "PyKEEN has no score: train it with reciprocal: true."
            )
        own = (sheaf.graph.num_entities, sheaf.num_relations)
        sizes = own if numbering is None else numbering.sizes
        info = KGInfo(*sizes, create_inverse_triples=reciprocal)
        model = cls.__new__(cls)
        # PyKEEN takes this class in place of a seed, though its annotation does not say so.
        seed: Any = NoRandomSeedNecessary
        Model.__init__(model, triples_factory=info, random_seed=seed)
        model.sheaf, model.numbering = sheaf, numbering
        return model.eval()

    def to_sheaf_embedding(self) -> SheafEmbedding:
        """What has been learned, as a model of ours that ranks as this one does.

        A lifted model trained without inverse triples gets reciprocal relations with the
        transposed maps: ⟨R x_h, x_t⟩ = ⟨Rᵀ x_t, x_h⟩.
        """
        sheaf = self.sheaf
        if sheaf.config.energy.ranks_heads or sheaf.config.reciprocal:
            learned = SheafEmbedding(sheaf.config, sheaf.graph)
            learned.load_state_dict(sheaf.state_dict())
            learned.refresh()
            return learned
        config = sheaf.config.with_options(head="free")
        vectors = sheaf.entities.tables[0].detach()
        maps = sheaf.maps.blocks("head", torch.arange(sheaf.num_relations)).detach()
        parts = lifted(config, vectors, maps.flatten(2), maps.mT.flatten(2))
        return assemble(replace(parts, biases=sheaf.biases), sheaf.graph)

    # What PyKEEN asks of a model.

    def _reset_parameters_(self) -> None:
        self.sheaf.reset(_draw())

    def _get_entity_len(self, *, mode: Any = None) -> int:
        return self.num_entities

    def collect_regularization_term(self) -> Tensor:
        return torch.zeros(())

    def score_hrt(self, hrt_batch: Tensor, *, mode: Any = None) -> Tensor:
        heads, relations, tails = hrt_batch.unbind(1)
        heads, tails = self._ours(heads), self._ours(tails)
        rows = torch.stack([heads, self._edges(relations), tails], 1)
        ends = self.sheaf.ends(rows, clamped=True)
        scores = self._energy.similarity(self.sheaf, *ends)
        scores = self._biased(scores, heads, tails)
        return self._rule_out(scores, *rows.unbind(1)).unsqueeze(1)

    def score_t(
        self,
        hr_batch: Tensor,
        *,
        slice_size: int | None = None,
        mode: Any = None,
        tails: Tensor | None = None,
    ) -> Tensor:
        heads, relations = hr_batch.unbind(1)
        return _pick(self._score("tail", self._edges(relations), self._ours(heads)), tails)

    def score_h(
        self,
        rt_batch: Tensor,
        *,
        slice_size: int | None = None,
        mode: Any = None,
        heads: Tensor | None = None,
    ) -> Tensor:
        relations, tails = rt_batch.unbind(1)
        return _pick(self._score("head", self._edges(relations), self._ours(tails)), heads)

    def score_r(
        self,
        ht_batch: Tensor,
        *,
        slice_size: int | None = None,
        mode: Any = None,
        relations: Tensor | None = None,
    ) -> Tensor:
        sheaf = self.sheaf
        heads, tails = self._ours(ht_batch).unbind(1)
        edges = self._edges(torch.arange(self.num_relations, device=heads.device))
        values = -self._energy.sharpness * relation_scores(sheaf, edges, heads, tails)
        values = self._biased(values, heads.unsqueeze(1), tails.unsqueeze(1))
        values = self._rule_out(values, heads.unsqueeze(1), edges, tails.unsqueeze(1))
        return _pick(values, relations)

    def _biased(self, scores: Tensor, heads: Tensor, tails: Tensor) -> Tensor:
        """Scores with β_h + β_t, of which a lifted model has half, as of its energies."""
        return less_favour(self.sheaf, scores, heads, tails, weight=-self._energy.sharpness)

    @property
    def _energy(self) -> Energy:
        return self.sheaf.config.energy

    def _edges(self, relations: Tensor) -> Tensor:
        """Our edges of PyKEEN's relations, which interleave inverses."""
        if not self.use_inverse_triples:
            return self._named(relations)
        return self._named(relations // 2) + relations % 2 * self.sheaf.num_relations

    def _named(self, relations: Tensor) -> Tensor:
        return relations if self.numbering is None else self.numbering.edges[relations]

    def _ours(self, entities: Tensor) -> Tensor:
        return entities if self.numbering is None else self.numbering.entities[entities]

    @property
    def _is_typed(self) -> bool:
        """Never so for a model that PyKEEN trains."""
        return len(self.sheaf.graph.schema.types) > 1 or self.sheaf.graph.classes is not None

    def _rule_out(self, scores: Tensor, heads: Tensor, edges: Tensor, tails: Tensor) -> Tensor:
        """The scores, with −∞ where entities have other types than the schema asks for."""
        if not self._is_typed:
            return scores
        return scores.masked_fill(~fits(self.sheaf, heads, edges, tails), -torch.inf)

    def _score(self, target: End, edges: Tensor, known: Tensor) -> Tensor:
        """Scores of all entities at the open end, in PyKEEN's order."""
        scores = self._our_scores(target, edges, known)
        return scores if self.numbering is None else scores[:, self.numbering.entities]

    def _our_scores(self, target: End, edges: Tensor, known: Tensor) -> Tensor:
        """Scores in our order, with gradients where those are wanted."""
        sheaf = self.sheaf
        if self._is_typed or (self._energy.ranks_heads and not torch.is_grad_enabled()):
            return -score_entities(sheaf, target, edges, known)
        candidates = Candidates(sheaf.entities.of_type(0).flatten(1, 2), sheaf.n_blocks)
        ids = torch.arange(sheaf.graph.num_entities, device=known.device)
        pool = Pool(candidates, favour(sheaf, ids, target))
        found = self._energy.similarities(sheaf, target, edges, known, pool)
        # What is asked for is ranked as we do; what is learned by has no say in what may be.
        return found if self.training else bar_loops(sheaf, found, edges, known, -torch.inf)


def to_pykeen(
    model: SheafEmbedding, triples_factory: CoreTriplesFactory | None
) -> KnowledgeSheafModel:
    """A trained model of ours as a PyKEEN model, for its evaluators and predictions.

    PyKEEN asks by numbers, and numbers otherwise than we do. ``triples_factory``, any one of the
    data that it will ask about, says which number is which name; names that the model lacks are
    refused. With None its numbers must be ours: entities of ``model.graph``, edges of its schema.
    With reciprocal relations PyKEEN ranks heads through them, as we do.

    >>> from knowledge_sheaves.embedding import model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("Ann", "knows", "Bob"), ("Bob", "knows", "Cy")])
    >>> model = to_pykeen(SheafEmbedding(model_config("rotate", dim=4), graph), None)
    >>> model.predict_t(torch.tensor([[0, 0]])).shape
    torch.Size([1, 3])
    """
    if triples_factory is None:
        return KnowledgeSheafModel.of(model)
    if not isinstance(triples_factory, TriplesFactory):
        raise InputError(
            "These triples have no names to match by: give a TriplesFactory, or None where their "
            "numbers are those of the model's graph."
        )
    return KnowledgeSheafModel.of(model, Numbering.by_name(model.graph, triples_factory))


def _draw() -> int:
    """A seed from torch's generator, which PyKEEN has seeded."""
    return int(torch.randint(2**31, ()))


def _pick(scores: Tensor, ids: Tensor | None) -> Tensor:
    if ids is None:
        return scores
    return scores[:, ids] if ids.ndim == 1 else scores.gather(1, ids)
