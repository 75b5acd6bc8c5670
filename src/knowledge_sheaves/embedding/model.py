"""Sheaf embeddings: a knowledge sheaf and an entity cochain, both learnable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from knowledge_sheaves.embedding.config import TIED, SheafConfig
from knowledge_sheaves.embedding.energies.base import favour, less_favour
from knowledge_sheaves.embedding.hierarchy import check_hierarchy, own_columns, seen_by
from knowledge_sheaves.embedding.keeping import Keeping
from knowledge_sheaves.embedding.knowledge import KnowledgeSheaf
from knowledge_sheaves.embedding.maps import End, MapSpec, RelationMaps
from knowledge_sheaves.embedding.priors import implications, inverse_pairs, map_rules
from knowledge_sheaves.embedding.scoring import (
    Pool,
    Possible,
    Siblings,
    score_entities,
    score_relations,
)
from knowledge_sheaves.embedding.tables import EntityTables
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import BoolArray, IntArray, KnowledgeGraph, Relation
from knowledge_sheaves.sheaf import Candidates, CellularSheaf

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.storage import ModelInfo


AT_ONCE = 1 << 16
"""How many rows of a table are looked at at a time."""


class SheafEmbedding(Keeping):
    """A vector for every entity and a pair of maps for every relation of a knowledge graph.

    ``graph`` holds the known facts. Edges are those of its schema; with reciprocal relations, edge
    e + (number of relations) is relation e read backwards, with maps of its own or, where they are
    tied, with those of e itself.

    >>> from knowledge_sheaves.embedding import model_config
    >>> graph = KnowledgeGraph.from_triples([("Ann", "knows", "Bob"), ("Bob", "knows", "Cy")])
    >>> model = SheafEmbedding(model_config("transe", dim=4), graph)
    >>> model.score_tails(torch.tensor([0]), torch.tensor([0])).shape    # Ann knows whom?
    torch.Size([1, 3])
    """

    radius: Tensor
    symmetric: Tensor
    _moves: Tensor
    _moved: Tensor

    def __init__(self, config: SheafConfig, graph: KnowledgeGraph, seed: int | None = 0) -> None:
        """``seed`` draws the first values; None leaves parameters to be loaded."""
        super().__init__()
        self.config = config
        self.graph = graph
        self.info: ModelInfo | None = None
        schema = graph.schema
        self.n_blocks = config.n_blocks
        self.widths = [self._width(t.name, t.dim or config.dim) for t in schema.types]
        self.shared_width = self.widths[0]
        if config.type_dim:
            check_hierarchy(graph)
            each = config.type_dim // self.n_blocks
            self.widths = [self.shared_width + each * len(graph.ancestry.names)]
        forward = schema.relations
        edges = [(r, r.head, r.tail) for r in forward]
        if config.reciprocal:
            edges += [(r, r.tail, r.head) for r in forward]
        self.edge_types = np.array(
            [(schema.type_id(h), schema.type_id(t)) for _, h, t in edges], dtype=np.int64
        ).reshape(-1, 2)
        own = len(forward) if config.reciprocal == TIED else len(edges)
        specs = [self._specs(i, r, *self.edge_types[i]) for i, (r, _, _) in enumerate(edges[:own])]
        specs += [self._backwards(*specs[i]) for i in range(len(edges) - own)]
        moved = self._read_backwards(specs)
        through = self._implied(specs, moved)
        heads, tails = [head for head, _ in specs], [tail for _, tail in specs]
        seen = seen_by(self, heads, tails) if config.type_dim else None
        self.maps = RelationMaps(self.n_blocks, heads, tails, through, seen)
        self.entities = self._make_tables()
        size = self.n_blocks * self.maps.rows * config.sections
        self.translations = nn.Parameter(torch.empty(own, size)) if config.translation else None
        columns = 2 if config.biases == "by-end" else 1
        self.biases: Tensor | None = self._make_biases(columns) if config.biases else None
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
        self.register_buffer("_moved", moved, persistent=False)
        self._moved_by_itself = bool((moved == torch.arange(1, len(edges) + 1)).all())
        self.register_buffer("radius", torch.zeros(()))
        symmetric = torch.tensor([r.symmetric for r, _, _ in edges], dtype=torch.bool)
        self.register_buffer("symmetric", symmetric, persistent=False)
        config.energy.check_schema(self)
        self.edges_with_maps = own
        self.networks = nn.ModuleDict()
        self._siblings: dict[tuple[End, torch.device], Siblings] = {}
        self._possible: dict[tuple[End, torch.device], Possible] = {}
        if seed is None:
            self._make_networks(0)
        else:
            self.reset(seed)

    def _make_networks(self, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.networks = nn.ModuleDict(self.config.energy.networks(self.edges_with_maps))
        self.__dict__.pop("_parts", None)  # they were those of other networks

    def _make_tables(self) -> EntityTables:
        return EntityTables(*self._table_sizes())

    def _table_sizes(
        self,
    ) -> tuple[IntArray, list[int], int, int, tuple[IntArray, BoolArray] | None]:
        """What entity tables are made from."""
        kinds = self.graph.entity_types.astype(np.int64)
        mine = own_columns(self) if self.config.type_dim else None
        return kinds, self.widths, self.n_blocks, self.config.sections, mine

    def _make_biases(self, columns: int) -> Tensor:
        return nn.Parameter(torch.zeros(self.graph.num_entities, columns))

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
        tied = relation.symmetric and config.energy.ties_symmetric
        tail_rule = TIED if tied else config.tail
        wide, narrow = self.widths[head], self.widths[tail]
        if tail_rule == "identity":
            rows = narrow
        else:
            dim = relation.dim or config.relation_dim or (config.type_dim and config.dim)
            rows = max(wide, narrow) if dim is None else self._width(relation.name, dim)
        if config.translation == "projected" and rows != wide:
            raise InputError(
                f"A projected translation goes through the head map, which must be square: give "
                f"{relation.name!r} the dimension of its head, or use translation: true."
            )
        backwards = edge >= len(self.graph.schema.relations)
        if relation.symmetric and not tied:  # read backwards it is itself
            backwards, edge = False, edge % len(self.graph.schema.relations)
        key = (backwards, relation.name if relation.shared else edge)
        size = (rows, wide, narrow)
        head_rule, tail_rule = map_rules(config, relation, size, tail_rule, backwards)
        head_spec = MapSpec(head_rule, rows, wide, ("head", *key))
        if tail_rule == TIED:
            return head_spec, MapSpec(head_rule, rows, narrow, ("head", *key))
        return head_spec, MapSpec(tail_rule, rows, narrow, ("tail", *key))

    def _read_backwards(self, specs: list[tuple[MapSpec, MapSpec]]) -> Tensor:
        """Give edges that are others read backwards the maps of those, as the schema says.

        Returns the edge, from 1, whose translation each edge has, negative where it is subtracted.
        """
        relations, count = self.graph.schema.relations, self.num_relations
        moved = torch.arange(1, len(specs) + 1)
        if self.config.reciprocal == TIED:
            moved[count:] = -moved[:count]
        for edge, relation in enumerate(relations):
            if relation.antisymmetric and self.config.reciprocal:
                specs[edge + count] = self._backwards(*specs[edge])
        for edge, inverse in inverse_pairs(relations):
            if self.config.reciprocal:
                specs[inverse], specs[inverse + count] = specs[edge + count], specs[edge]
                moved[inverse], moved[inverse + count] = moved[edge + count], moved[edge]
            else:
                specs[inverse], moved[inverse] = self._backwards(*specs[edge]), -moved[edge]
        return moved

    def _implied(self, specs: list[tuple[MapSpec, MapSpec]], moved: Tensor) -> dict[int, int]:
        """Give relations that follow from another the maps of that one, with A behind: F_s = A F_r.

        Where r fits, s then does. Returns the number of A for each such edge.
        """
        count = self.num_relations
        through: dict[int, int] = {}
        for edge, implied in implications(self.config, self.graph.schema.relations):
            if specs[edge][0].size[0] != max(spec.size[0] for pair in specs for spec in pair):
                continue  # A is as high as the highest maps are
            for away in (0, count) if self.config.reciprocal else (0,):
                specs[implied + away], moved[implied + away] = (
                    specs[edge + away],
                    moved[edge + away],
                )
                own = through.get(implied) if self.config.reciprocal == TIED else None
                through[implied + away] = len(set(through.values())) if own is None else own
        return through

    def _backwards(self, head: MapSpec, tail: MapSpec) -> tuple[MapSpec, MapSpec]:
        """The maps of a relation read backwards that has none of its own.

        Its two maps change places, so that its energy is the relation's. A lifted model has one
        map, Rᵀ for R: ⟨Rᵀ x_t, x_h⟩ = ⟨R x_h, x_t⟩ ranks heads, but ‖Rᵀ x_t‖² is another energy.
        """
        if not self.config.energy.on_sphere:
            return tail, head
        back = head.transposed()
        rows = back.size[0]
        return back, MapSpec("identity", rows, rows, tail.key)

    # Size and first values.

    @property
    def num_relations(self) -> int:
        return len(self.graph.schema.relations)

    @property
    def device(self) -> torch.device:
        """Where the model computes; what it is asked with is brought there."""
        return self.radius.device

    @property
    def num_parameters(self) -> int:
        """How many numbers are learned; zeros by structure are none."""
        zeros = self.entities.num_zeros
        if not self.maps.see_all:
            zeros += self.n_blocks * sum(int((~kept).sum()) for kept in self.maps.learned())
        return sum(p.numel() for p in self.parameters()) - zeros

    def reset(self, seed: int = 0) -> None:
        """Draw the first values of all parameters."""
        generator = torch.Generator().manual_seed(seed)
        start = self.config.energy.start()
        self.entities.reset(generator, start.spread, uniform=start.uniform)
        self.maps.reset(generator, start.noise, start.near_identity)
        self._make_networks(seed)
        with torch.no_grad():
            for parameter, spread in ((self.translations, start.spread), (self.biases, 0.0)):
                if parameter is not None:
                    noise = torch.randn(parameter.shape, generator=generator)
                    parameter.copy_(spread * noise)
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        """After a change of the vectors: how large a sphere holds all of them."""
        self.entities.clear()
        if self.config.energy.on_sphere:
            # Some rows at a time: no second table beside the table.
            parts = [part for table in self.entities.tables for part in table.split(AT_ONCE)]
            largest = [part.square().sum(1).max() for part in parts if len(part)]
            self.radius.copy_(torch.stack(largest).max().sqrt())

    # Energies by their definition.

    def translation(self, edges: Tensor) -> Tensor | None:
        """z of some edges, (edges, n_blocks, rows, k)."""
        if self.translations is None:
            return None
        own = edges if self._moved_by_itself else self._moved[edges].abs() - 1
        z = nn.functional.embedding(own, self.translations)
        z = z.unflatten(1, (self.n_blocks, self.maps.rows, self.config.sections))
        if not self._moves_everywhere:
            z = z * self._moves[own]
        if self.config.translation == "projected":
            z = self.maps.apply_map("head", own, z)
        if self._moved_by_itself:
            return z
        return self.maps.behind(edges, z * self._moved[edges].sign()[:, None, None, None])

    def ends(self, triples: npt.ArrayLike | Tensor, clamped: bool = False) -> tuple[Tensor, Tensor]:
        """F_h x_h + z and F_t x_t of every triple, (triples, n_blocks, rows, k).

        ``clamped``: as scores compare them.
        """
        heads, edges, tails = self._columns(triples)
        energy = self.config.energy
        left = energy.image(self, "head", edges, self.lookup("head", heads))
        right = energy.image(self, "tail", edges, self.lookup("tail", tails))
        if clamped:
            left, right = energy.shorten(left), energy.shorten(right)
        z = self.translation(edges)
        return left if z is None else left + z, right

    def lookup(self, end: End, entities: Tensor) -> Tensor:
        """Vectors of entities, in blocks as wide as the maps at that end expect."""
        return self.entities.lookup(entities, max(self.maps.cols[end], self.entities.width))[
            ..., : self.maps.cols[end], :
        ]

    def residuals(self, triples: npt.ArrayLike | Tensor) -> Tensor:
        """ρ_e = F_h x_h + z − F_t x_t, (triples, n_blocks, rows, k)."""
        return self.config.energy.difference(*self.ends(triples))

    def energies(self, triples: npt.ArrayLike | Tensor | None = None) -> Tensor:
        """V_e = ‖ρ_e‖² for every row (head, edge, tail); the graph's own triples by default."""
        rows = self.graph.triples if triples is None else triples
        return self.config.energy.square(self, *self.ends(rows))

    def scores(self, triples: npt.ArrayLike | Tensor) -> Tensor:
        """What candidates are ranked by, lower first: ‖ρ_e‖_norm^power − β_h − β_t."""
        scores = self.config.energy.score(self, *self.ends(triples, clamped=True))
        heads, _, tails = self._columns(triples)
        return less_favour(self, scores, heads, tails)

    def _columns(self, triples: npt.ArrayLike | Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = (
            triples
            if isinstance(triples, Tensor)
            else torch.from_numpy(np.array(triples, np.int64))
        )
        rows = rows.reshape(-1, 3).to(self.device, torch.long)
        heads, edges, tails = rows.unbind(1)
        return heads, edges, tails

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
    def score_tails(self, heads: Tensor, edges: Tensor, among: Tensor | None = None) -> Tensor:
        """Scores of all entities as tails, or ``among`` some: (queries, entities), lower is better.

        A relation with several parts is scored over all of them; entities that the schema rules
        out get infinity.
        """
        return score_entities(self, "tail", edges.to(self.device), heads.to(self.device), among)

    @torch.no_grad()
    def score_heads(self, edges: Tensor, tails: Tensor, among: Tensor | None = None) -> Tensor:
        """Scores of all entities as heads, through the reciprocal relation where there is one."""
        edges, tails = edges.to(self.device), tails.to(self.device)
        if self.config.reciprocal:
            return score_entities(self, "tail", edges + self.num_relations, tails, among)
        return score_entities(self, "head", edges, tails, among)

    @torch.no_grad()
    def score_relations(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Scores of all edges of the schema between pairs of entities, (pairs, edges)."""
        return score_relations(self, heads.to(self.device), tails.to(self.device))

    def entities_of_type(self, kind: int) -> Tensor:
        """The ids of all entities of a type, ascending."""
        ids = np.asarray(self.graph.entities_of_type(kind), dtype=np.int64)
        return torch.from_numpy(ids).to(self.device)

    def pool(self, kind: int, target: End) -> Pool:
        """All entities of a type as candidates for one end, kept until the vectors change."""

        def candidates() -> Candidates:
            points = self.entities.of_type(kind).detach()
            return Candidates(points.flatten(1, 2), self.n_blocks)

        bias = favour(self, self.entities_of_type(kind), target)
        kept = self.keep(("candidates", kind), candidates)
        return Pool(kept, None if bias is None else bias.detach())

    @property
    def is_spread(self) -> bool:
        """Whether other processes have some of the entities."""
        return False

    def everyone(self, kind: int, values: Tensor) -> Tensor:
        """Values (…, entities of a type) of all, from those of the entities that are here."""
        return values

    def total(self, values: Tensor) -> Tensor:
        """The sum of what every process that has entities found of its own."""
        return values

    def score_everyone(self, target: End, edges: Tensor, known: Tensor) -> Tensor:
        """Scores of all entities at the open end of model edges, wherever they are."""
        return score_entities(self, target, edges, known)

    def possible(self, target: End) -> Possible | None:
        """Who may stand at the open end of edges, where types rule out and shape no stalks."""
        if self.graph.classes is None:
            return None
        key = (target, self.device)
        if key not in self._possible:
            self._possible[key] = Possible(self, target)
        return self._possible[key]

    def siblings(self, target: End) -> Siblings:
        """Which edges belong to one relation of the user's, seen from the end that is known."""
        key = (target, self.device)
        if key not in self._siblings:
            relations = self.graph.schema.relations
            names: list[object] = [
                (e // len(relations), relations[e % len(relations)].name)
                for e in range(len(self.edge_types))
            ]
            self._siblings[key] = Siblings(names, self.edge_types, target, self.device)
        return self._siblings[key]

    # The mathematical objects behind the numbers.

    @torch.no_grad()
    def knowledge_sheaf(self) -> KnowledgeSheaf:
        """The sheaf on the schema that the parameters describe (relations read forwards)."""
        schema = self.graph.schema
        count = self.num_relations
        lift = self.config.energy.lift_map
        heads = [lift(self.maps.map("head", e), "head") for e in range(count)]
        tails = [lift(self.maps.map("tail", e), "tail") for e in range(count)]
        lifted = self.config.energy.on_sphere
        dims = [self.n_blocks * w + lifted for w in self.widths]
        sheaf = CellularSheaf.from_maps(schema.graph, dims, heads, tails)
        z = self.translation(torch.arange(count, device=self.device))
        if z is None:
            return KnowledgeSheaf(schema, sheaf)
        rows = [int(d) // self.n_blocks for d in sheaf.edge_dims]
        flat = torch.cat([z[e, :, : rows[e]].flatten(0, 1) for e in range(count)])
        return KnowledgeSheaf(schema, sheaf, flat.squeeze(-1) if flat.shape[-1] == 1 else flat)

    @torch.no_grad()
    def cochain(self) -> Tensor:
        """The entity vectors as one 0-cochain on the graph, lifted where the model is."""
        count, lift = self.graph.num_entities, self.config.energy.lift
        return torch.cat([lift(self, self.entities.vector(entity)) for entity in range(count)])

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

    def load_another(self, folder: Path) -> SheafEmbedding:
        """Read another model in the way that this one was read."""
        return type(self).load(folder)
