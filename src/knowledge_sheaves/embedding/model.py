"""Sheaf embeddings: a knowledge sheaf and an entity cochain, both learnable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from knowledge_sheaves.embedding.config import TIED, SheafConfig
from knowledge_sheaves.embedding.knowledge import KnowledgeSheaf
from knowledge_sheaves.embedding.maps import End, MapSpec, RelationMaps
from knowledge_sheaves.embedding.priors import map_rules
from knowledge_sheaves.embedding.scoring import (
    Pool,
    Siblings,
    clamp,
    score_entities,
    score_relations,
)
from knowledge_sheaves.embedding.tables import EntityTables
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Relation
from knowledge_sheaves.sheaf import BlockMap, Candidates, CellularSheaf
from knowledge_sheaves.sheaf.valued import torus_difference

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.storage import ModelInfo


T = TypeVar("T")


class SheafEmbedding(nn.Module):
    """A vector for every entity and a pair of maps for every relation of a knowledge graph.

    ``graph`` holds the known facts. Edges are those of its schema; with reciprocal relations, edge
    e + (number of relations) is relation e read backwards, with maps of its own.

    >>> from knowledge_sheaves.embedding import model_config
    >>> graph = KnowledgeGraph.from_triples([("Ann", "knows", "Bob"), ("Bob", "knows", "Cy")])
    >>> model = SheafEmbedding(model_config("transe", dim=4), graph)
    >>> model.score_tails(torch.tensor([0]), torch.tensor([0])).shape    # Ann knows whom?
    torch.Size([1, 3])
    """

    radius: Tensor
    _moves: Tensor

    def __init__(self, config: SheafConfig, graph: KnowledgeGraph, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.graph = graph
        self.info: ModelInfo | None = None
        schema = graph.schema
        self.n_blocks = config.n_blocks
        self.widths = [self._width(t.name, t.dim or config.dim) for t in schema.types]
        forward = schema.relations
        edges = [(r, r.head, r.tail) for r in forward]
        if config.reciprocal:
            edges += [(r, r.tail, r.head) for r in forward]
        self.edge_types = np.array(
            [(schema.type_id(h), schema.type_id(t)) for _, h, t in edges], dtype=np.int64
        ).reshape(-1, 2)
        specs = [self._specs(i, r, *self.edge_types[i]) for i, (r, _, _) in enumerate(edges)]
        self.maps = RelationMaps(
            self.n_blocks, [head for head, _ in specs], [tail for _, tail in specs]
        )
        self.entities = EntityTables(
            graph.entity_types.astype(np.int64), self.widths, self.n_blocks, config.sections
        )
        size = self.n_blocks * self.maps.rows * config.sections
        self.translations = (
            nn.Parameter(torch.empty(len(edges), size)) if config.translation else None
        )
        columns = 2 if config.biases == "by-end" else 1
        self.biases = (
            nn.Parameter(torch.zeros(graph.num_entities, columns)) if config.biases else None
        )
        # A symmetric relation cannot move its entities, nor any relation beyond its dimension.
        heights = torch.tensor(
            [
                head.size[0] * (not r.symmetric)
                for (head, _), (r, _, _) in zip(specs, edges, strict=True)
            ]
        )
        moves = torch.arange(self.maps.rows) < heights.unsqueeze(1)
        self.register_buffer("_moves", moves[:, None, :, None], persistent=False)
        self._moves_everywhere = bool(moves.all())
        self.register_buffer("radius", torch.zeros(()))
        self._kept: dict[object, object] = {}
        self._fixed: dict[object, Siblings] = {}
        self.reset(seed)

    def _width(self, name: str, dim: int) -> int:
        if dim % self.n_blocks:
            raise InputError(
                f"The stalk of {name!r} has dimension {dim}, which cannot be cut into the model's "
                f"{self.n_blocks} equal blocks: choose a multiple of {self.n_blocks}."
            )
        return dim // self.n_blocks

    def _specs(
        self, edge: int, relation: Relation, head: int, tail: int
    ) -> tuple[MapSpec, MapSpec]:
        """The constraints and sizes of the two maps of an edge, priors of the schema included."""
        config = self.config
        tail_rule = TIED if relation.symmetric and not config.lifted else config.tail
        wide, narrow = self.widths[head], self.widths[tail]
        if config.lifted or (config.tail == "identity" and tail_rule != TIED):
            rows = narrow
        else:
            dim = relation.dim or config.relation_dim
            rows = max(wide, narrow) if dim is None else self._width(relation.name, dim)
        backwards = edge >= len(self.graph.schema.relations)
        if relation.symmetric and config.lifted:  # read backwards it is itself
            backwards, edge = False, edge % len(self.graph.schema.relations)
        key = (backwards, relation.name if relation.shared else edge)
        head_rule, tail_rule = map_rules(config, relation, rows, narrow, tail_rule)
        head_spec = MapSpec(head_rule, rows, wide, ("head", *key))
        if tail_rule == TIED:
            return head_spec, MapSpec(head_rule, rows, narrow, ("head", *key))
        return head_spec, MapSpec(tail_rule, rows, narrow, ("tail", *key))

    # Size and first values.

    @property
    def num_relations(self) -> int:
        return len(self.graph.schema.relations)

    @property
    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def reset(self, seed: int = 0) -> None:
        """Draw the first values of all parameters."""
        generator = torch.Generator().manual_seed(seed)
        lifted = self.config.lifted
        spread = self.config.init
        if spread is None:
            spread = 1e-3 if lifted else 0.5 * self.config.dim**-0.5
        torus = self.config.space == "torus"
        self.entities.reset(generator, 1.0 if torus else spread, uniform=torus)
        # A dense lifted map starts as noise of a size that keeps products alive.
        self.maps.reset(generator, 0.05 if not lifted else max(spread, 1e-3), not lifted)
        with torch.no_grad():
            if self.translations is not None:
                scale = 1.0 if torus else spread
                self.translations.copy_(
                    scale * torch.randn(self.translations.shape, generator=generator)
                )
            if self.biases is not None:
                self.biases.zero_()
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        """After a change of the vectors: how large a sphere holds all of them."""
        largest = [t.square().sum(1).max() for t in self.entities.tables if len(t)]
        if self.config.lifted and largest:
            self.radius.copy_(torch.stack(largest).max().sqrt())

    # Energies by their definition.

    def translation(self, edges: Tensor) -> Tensor | None:
        """z of some edges, (edges, n_blocks, rows, k)."""
        if self.translations is None:
            return None
        z = nn.functional.embedding(edges, self.translations)
        z = z.unflatten(1, (self.n_blocks, self.maps.rows, self.config.sections))
        if not self._moves_everywhere:
            z = z * self._moves[edges]
        if self.config.translation == "projected":
            z = self.maps.apply_map("head", edges, z)
        return z

    def ends(self, triples: npt.ArrayLike | Tensor, clamped: bool = False) -> tuple[Tensor, Tensor]:
        """F_h x_h + z and F_t x_t of every triple, (triples, n_blocks, rows, k)."""
        heads, edges, tails = _columns(triples)
        left = self.maps.apply_map("head", edges, self.lookup("head", heads))
        right = self.maps.apply_map("tail", edges, self.lookup("tail", tails))
        if clamped:
            left, right = clamp(self.config, left), clamp(self.config, right)
        z = self.translation(edges)
        return left if z is None else left + z, right

    def lookup(self, end: End, entities: Tensor) -> Tensor:
        """Vectors of entities, in blocks as wide as the maps at that end expect."""
        return self.entities.lookup(entities, max(self.maps.cols[end], self.entities.width))[
            ..., : self.maps.cols[end], :
        ]

    def residuals(self, triples: npt.ArrayLike | Tensor, clamped: bool = False) -> Tensor:
        """ρ_e = F_h x_h + z − F_t x_t, (triples, n_blocks, rows, k)."""
        left, right = self.ends(triples, clamped)
        return torus_difference(left, right) if self.config.space == "torus" else left - right

    def energies(self, triples: npt.ArrayLike | Tensor | None = None) -> Tensor:
        """V_e = ‖ρ_e‖² for every row (head, edge, tail); the graph's own triples by default."""
        rows = self.graph.triples if triples is None else triples
        energies = self.residuals(rows).square().sum((-3, -2, -1))
        if self.config.lifted:
            x_t = self.lookup("tail", _columns(rows)[2])
            energies = energies + self.radius.square() - x_t.square().sum((-3, -2, -1))
        return energies

    def scores(self, triples: npt.ArrayLike | Tensor) -> Tensor:
        """What candidates are ranked by, lower first: ‖ρ_e‖_norm^power − β_h − β_t."""
        if self.config.norm == self.config.power == 2 and self.config.clamp is None:
            scores = self.energies(triples)
        else:
            rho = self.residuals(triples, clamped=True).flatten(1)
            scores = torch.linalg.vector_norm(rho, self.config.norm, dim=1) ** self.config.power
        if self.biases is not None:
            heads, _, tails = _columns(triples)
            scores = scores - self.bias(heads, "head") - self.bias(tails, "tail")
        return scores

    def bias(self, entities: Tensor, end: End = "tail") -> Tensor:
        """β of some entities at one end of their edges."""
        assert self.biases is not None, "asked for only where there are biases"
        rows = nn.functional.embedding(entities, self.biases, sparse=self.entities.sparse)
        return rows[..., 0 if end == "head" else -1]

    def energy(self) -> Tensor:
        """V(x) over the known facts."""
        return self.energies().sum()

    # Scores of all candidates: see `scoring` for how they are products.

    @torch.no_grad()
    def score_tails(self, heads: Tensor, edges: Tensor) -> Tensor:
        """Scores of all entities as tails, (queries, entities): lower is better.

        A relation with several parts is scored over all of them; entities that the schema rules
        out get infinity.
        """
        return score_entities(self, "tail", edges, heads)

    @torch.no_grad()
    def score_heads(self, edges: Tensor, tails: Tensor) -> Tensor:
        """Scores of all entities as heads, through the reciprocal relation where there is one."""
        if self.config.reciprocal:
            return score_entities(self, "tail", edges + self.num_relations, tails)
        return score_entities(self, "head", edges, tails)

    @torch.no_grad()
    def score_relations(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Scores of all edges of the schema between pairs of entities, (pairs, edges)."""
        return score_relations(self, heads, tails)

    def entities_of_type(self, kind: int) -> Tensor:
        """The ids of all entities of a type, ascending."""
        return torch.from_numpy(np.asarray(self.graph.entities_of_type(kind), dtype=np.int64))

    def pool(self, kind: int, target: End) -> Pool:
        """All entities of a type as candidates for one end, kept until the vectors change."""

        def candidates() -> Candidates:
            points = self.entities.of_type(kind).detach()
            return Candidates(points.flatten(1, 2), self.n_blocks)

        kept = self.keep(("candidates", kind), candidates)
        if self.biases is None:
            return Pool(kept)
        return Pool(kept, self.bias(self.entities_of_type(kind), target).detach())

    def keep(self, key: object, make: Callable[[], T]) -> T:
        """What a model always gives alike, computed once and kept until a parameter changes."""
        version = tuple((p.data_ptr(), p._version) for p in self.parameters())
        if self._kept.get("version") != version:
            self._kept = {"version": version}
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]  # type: ignore[return-value]

    def siblings(self, target: End) -> Siblings:
        """Which edges belong to one relation of the user's, seen from the end that is known."""
        key = ("siblings", target)
        if key not in self._fixed:
            relations = self.graph.schema.relations
            names: list[object] = [
                (e // len(relations), relations[e % len(relations)].name)
                for e in range(len(self.edge_types))
            ]
            self._fixed[key] = Siblings(names, self.edge_types, target)
        return self._fixed[key]

    # The mathematical objects behind the numbers.

    @torch.no_grad()
    def knowledge_sheaf(self) -> KnowledgeSheaf:
        """The sheaf on the schema that the parameters describe (relations read forwards)."""
        if self.config.space == "torus":
            raise InputError("A torus-valued model has no linear sheaf: use sheaf.ValuedSheaf.")
        schema = self.graph.schema
        count = self.num_relations
        heads = [self.maps.map("head", e) for e in range(count)]
        tails = [self.maps.map("tail", e) for e in range(count)]
        dims = [self.n_blocks * w for w in self.widths]
        if self.config.lifted:
            heads = [_with_corner(m, 0.0) for m in heads]
            tails = [_with_corner(m, 1.0) for m in tails]
            dims = [d + 1 for d in dims]
        sheaf = CellularSheaf.from_maps(schema.graph, dims, heads, tails)
        z = self.translation(torch.arange(count))
        if z is None:
            return KnowledgeSheaf(schema, sheaf)
        rows = [int(d) // self.n_blocks for d in sheaf.edge_dims]
        flat = torch.cat([z[e, :, : rows[e]].flatten(0, 1) for e in range(count)])
        return KnowledgeSheaf(schema, sheaf, flat.squeeze(-1) if flat.shape[-1] == 1 else flat)

    @torch.no_grad()
    def cochain(self) -> Tensor:
        """The entity vectors as one 0-cochain on the graph, lifted where the model is."""
        parts = []
        for entity in range(self.graph.num_entities):
            x = self.entities.vector(entity)
            if self.config.lifted:
                rest = (self.radius.square() - x.square().sum()).clamp(min=0).sqrt()
                x = torch.cat([x, rest.reshape(1)])
            parts.append(x)
        return torch.cat(parts)

    def vector(self, name: str) -> Tensor:
        """The vector of an entity."""
        return self.entities.vector(self.graph.entities.id(name)).detach()

    @classmethod
    def from_vectors(
        cls,
        knowledge_sheaf: KnowledgeSheaf,
        graph: KnowledgeGraph,
        vectors: Mapping[str, Sequence[float] | Tensor],
    ) -> SheafEmbedding:
        """An embedding written by hand: a sheaf, and one vector per entity by name."""
        from knowledge_sheaves.embedding.by_hand import from_vectors

        return from_vectors(knowledge_sheaf, graph, vectors)

    def save(self, folder: str | Path) -> None:
        """Write the model as a folder, all or nothing."""
        from knowledge_sheaves.embedding.storage import save

        save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model from its folder."""
        from knowledge_sheaves.embedding.storage import load

        return load(cls, Path(folder))


def _columns(triples: npt.ArrayLike | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    rows = triples if isinstance(triples, Tensor) else torch.from_numpy(np.array(triples, np.int64))
    heads, edges, tails = rows.reshape(-1, 3).to(torch.long).unbind(1)
    return heads, edges, tails


def _with_corner(map_: BlockMap, corner: float) -> BlockMap:
    """The map on stalks with the lifted coordinate at their end."""
    return BlockMap.from_dense(torch.block_diag(map_.dense(), torch.tensor([[corner]])))
