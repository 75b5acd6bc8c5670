"""How far a trained embedding is from a section, where the discord lies, and what would heal it.

The sheaf of a model on its graph splits into as many independent sheaves as its maps have blocks,
and one more for the lifted coordinate. Each has a Laplacian of its own, small enough for all of its
eigenvalues where the graph is: from them come the spectrum, H⁰ and H¹, and the heat flow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
import torch

from knowledge_sheaves.embedding.hierarchy import Layout, layout
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import Relation
from knowledge_sheaves.graph.labels import Name, label_of
from knowledge_sheaves.sheaf import BlockMap, CellularSheaf
from knowledge_sheaves.sheaf.sections import DENSE_LIMIT, rounding

if TYPE_CHECKING:
    from knowledge_sheaves.embedding.model import SheafEmbedding

SPARSE_LIMIT = 8000
"""Vertex dimensions of a block up to which its Laplacian is factorised: the factors fill up."""
TIMES = (0.1, 1.0, 10.0, 100.0)
"""When the flow is looked at, in units of one over the mean eigenvalue."""


@dataclass(frozen=True)
class Discord:
    """The energy of some triples, and how much of it exceeds that of as many average ones."""

    name: str
    triples: int
    energy: float
    share: float
    excess: float
    after: float
    """The mean energy once the heat has flown for a time of one over the mean eigenvalue."""
    label: str | None = None

    @property
    def said(self) -> str:
        """What people call it."""
        return self.label or self.name


@dataclass(frozen=True)
class FlowStep:
    """Where the vectors are after some time: the energy left, and how far they have moved.

    Without a time it is the end of the flow, the nearest vectors of least energy.
    """

    time: float | None
    energy: float
    moved: float
    """The length of the way, relative to that of all vectors."""
    kept: float
    """The length of the vectors, relative to what it was."""


@dataclass(frozen=True)
class Consistency:
    """What `consistency` found; energies are per triple but for ``energy``, their sum."""

    entities: int
    triples: int
    vertex_dims: int
    edge_dims: int
    energy: float
    rayleigh: float
    """V(x) / ‖x‖²; without translations it lies between the ends of the spectrum."""
    mean_eigenvalue: float
    largest: float
    h0: int | None
    h1: int | None
    gap: float | None
    spectrum: list[float]
    """The smallest eigenvalues of L that are not zero, ascending; dim H⁰ are zero."""
    flow: list[FlowStep]
    relations: list[Discord]
    regions: list[Discord]
    """Every entity with the triples around it."""
    notes: list[str] = field(default_factory=list)
    eigenvalues: np.ndarray | None = field(default=None, repr=False, compare=False)
    """All eigenvalues, where there are all."""

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Plain data, with the first ``top`` relations and regions."""
        document = asdict(self)
        del document["eigenvalues"]
        document["relations"] = document["relations"][:top]
        document["regions"] = document["regions"][:top]
        return document


def consistency(model: SheafEmbedding, eigenvalues: int = 20) -> Consistency:
    """Measure how consistent an embedding is with its graph.

    H⁰, H¹ and the end of the flow are there where no block of the Laplacian has more than
    `SPARSE_LIMIT` dimensions (all eigenvalues: `sections.DENSE_LIMIT`); larger ones are left out,
    and the notes say so. The sheaf is that of the relations read forwards.

    >>> from knowledge_sheaves.embedding import SheafEmbedding, model_config
    >>> from knowledge_sheaves.graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")])
    >>> found = consistency(SheafEmbedding(model_config("transe", dim=4), graph))
    >>> found.h0, found.h1       # all moved alike; and what does not add up around the cycle
    (4, 4)
    """
    if not model.graph.num_triples:
        raise InputError("The graph of the model has no triples: there is nothing to agree on.")
    parts = [_Part.of(block, eigenvalues) for block in _blocks(model)]
    vertex_dims, edge_dims = (sum(p.delta.shape[axis] for p in parts) for axis in (1, 0))
    mean = sum(p.trace for p in parts) / vertex_dims
    before = _energies(parts, [p.rho for p in parts])
    flow, after = _flow(parts, before, mean)
    largest = max(p.largest for p in parts)
    zeros = _zeros(parts, largest)
    known = [p.values for p in parts if p.values is not None]
    values = np.sort(np.concatenate(known)) if zeros is not None else np.empty(0)
    smallest = values[zeros:][:eigenvalues].tolist()
    lengths = _square([p.x for p in parts])
    return Consistency(
        entities=model.graph.num_entities,
        triples=model.graph.num_triples,
        vertex_dims=vertex_dims,
        edge_dims=edge_dims,
        energy=float(before.sum()),
        rayleigh=float(before.sum()) / lengths if lengths else 0.0,
        mean_eigenvalue=mean,
        largest=largest,
        h0=zeros,
        h1=None if zeros is None else edge_dims - vertex_dims + zeros,
        gap=smallest[0] if smallest else None,
        spectrum=smallest,
        flow=flow,
        relations=_by_relation(model, before, after),
        regions=_by_entity(model, before, after),
        notes=_notes(model, parts, zeros),
        eigenvalues=values if all(p.vectors is not None for p in parts) else None,
    )


def _flow(
    parts: Sequence[_Part], before: np.ndarray, mean: float
) -> tuple[list[FlowStep], np.ndarray]:
    """The flow at several times, and the energies of all triples after a time of 1 / mean."""
    lengths, after = _square([p.x for p in parts]), before
    steps = [FlowStep(0.0, float(before.mean()), 0.0, 1.0)]
    for unit in (*TIMES, None):
        if not all(p.can_flow(unit) for p in parts):
            continue
        time = None if unit is None else unit / mean if mean else 0.0
        moves = [p.flow(time) for p in parts]
        left = _energies(parts, [p.rho - p.delta @ s for p, s in zip(parts, moves, strict=True)])
        moved = _ratio(_square(moves), lengths)
        there = [p.x + s for p, s in zip(parts, moves, strict=True)]
        steps.append(FlowStep(time, float(left.mean()), moved, _ratio(_square(there), lengths)))
        after = left if unit == 1.0 else after
    return steps, after


def _energies(parts: Sequence[_Part], rhos: Sequence[np.ndarray]) -> np.ndarray:
    """‖ρ_e‖² of every triple, all blocks together."""
    return np.asarray(np.sum([p.energies(r) for p, r in zip(parts, rhos, strict=True)], axis=0))


def _square(arrays: Sequence[np.ndarray]) -> float:
    return float(sum(np.square(a).sum() for a in arrays))


@dataclass(frozen=True, eq=False)
class _Part:
    """The sheaf of one block: its coboundary, the vectors, and the Laplacian's eigenvalues."""

    sheaf: CellularSheaf
    delta: sp.csr_array
    x: np.ndarray
    rho: np.ndarray
    values: np.ndarray | None
    vectors: np.ndarray | None
    kernel: int | None
    largest: float

    @classmethod
    def of(cls, block: tuple[CellularSheaf, np.ndarray, np.ndarray], count: int) -> _Part:
        sheaf, x, b = block
        delta = sheaf.coboundary_sparse()
        laplacian = (delta.T @ delta).tocsr()
        size, rho = laplacian.shape[0], b - delta @ x
        if size <= DENSE_LIMIT:
            values, vectors = np.linalg.eigh(laplacian.toarray())
            values = values.clip(min=0)
            return cls(sheaf, delta, x, rho, values, vectors, None, float(values[-1]))
        start = np.random.default_rng(0).standard_normal(size)
        largest = float(spla.eigsh(laplacian, k=1, v0=start, return_eigenvectors=False)[0])
        if size > SPARSE_LIMIT:
            return cls(sheaf, delta, x, rho, None, None, None, largest)
        kernel = sheaf.global_sections().shape[1]
        values = sheaf.spectrum(min(size - 1, kernel + count)).numpy()
        return cls(sheaf, delta, x, rho, values, None, kernel, largest)

    @property
    def size(self) -> int:
        """How many dimensions the vertices have together."""
        return int(self.delta.shape[1])

    @property
    def trace(self) -> float:
        return float(self.delta.multiply(self.delta).sum())

    def can_flow(self, unit: float | None) -> bool:
        """Large sheaves are looked at once, not at every time, and never at the end."""
        if self.vectors is not None:
            return True
        return unit == 1.0 or (unit is None and self.size <= SPARSE_LIMIT)

    def energies(self, rho: np.ndarray) -> np.ndarray:
        """‖ρ_e‖² of every triple."""
        squares = np.concatenate([[0.0], np.cumsum(np.square(rho).sum(1))])
        return np.asarray(np.diff(squares[self.sheaf.edge_offsets]))

    def flow(self, time: float | None) -> np.ndarray:
        """How far dx/dt = δᵀρ moves x in some time, or in the end: ∫ exp(−sL) δᵀρ ds."""
        pull = self.delta.T @ self.rho
        if self.vectors is None:
            return self._sparse_flow(pull, time)
        assert self.values is not None, "there are no vectors without values"
        values = self.values[:, None]
        safe = np.where(values > _zero(self.largest), values, 1.0)
        share = 1.0 if time is None else -np.expm1(-time * safe)
        # Where λ = 0 nothing pulls: δᵀρ is in the image of L.
        weight = np.where(values > _zero(self.largest), share / safe, 0.0)
        return np.asarray(self.vectors @ (weight * (self.vectors.T @ pull)))

    def _sparse_flow(self, pull: np.ndarray, time: float | None) -> np.ndarray:
        if time is None:
            how = {"atol": 1e-10, "btol": 1e-10, "maxiter": 10 * self.size}
            steps = [spla.lsmr(self.delta, column, **how)[0] for column in self.rho.T]
            return np.stack(steps, 1)
        # exp of [[−tL, t δᵀρ], [0, 0]] has the integral in its corner.
        k = pull.shape[1]
        laplacian = self.delta.T @ self.delta
        joined = sp.block_array(
            [[-time * laplacian, time * sp.csr_array(pull)], [None, sp.csr_array((k, k))]]
        ).tocsr()
        start = np.concatenate([np.zeros((self.size, k)), np.eye(k)])
        return np.asarray(spla.expm_multiply(joined, start)[: self.size])


def _zero(largest: float) -> float:
    """What counts as the eigenvalue 0: the square of what counts as the singular value 0."""
    tol = rounding(torch.float32)  # that of a trained model
    return tol**2 * largest + 1e-300


def _zeros(parts: Sequence[_Part], largest: float) -> int | None:
    found = 0
    for part in parts:
        if part.values is None:
            return None
        counted = int((part.values <= _zero(largest)).sum())
        found += counted if part.kernel is None else part.kernel
    return found


def _ratio(square: float, of: float) -> float:
    return float((square / of) ** 0.5) if of else 0.0


def _blocks(
    model: SheafEmbedding,
) -> Iterator[tuple[CellularSheaf, np.ndarray, np.ndarray]]:
    """The sheaf of every block on the graph, with the vectors and the translations in it."""
    model.knowledge_sheaf()  # refuses what has no linear sheaf
    k, parts = model.config.sections, layout(model)
    widths = [len(columns) for columns in parts.columns]
    for n in range(model.n_blocks):
        sheaf = CellularSheaf.from_maps(
            parts.schema.graph,
            widths,
            [BlockMap(f[n : n + 1].double()) for f in parts.heads],
            [BlockMap(g[n : n + 1].double()) for g in parts.tails],
        )
        on_graph = sheaf.pullback(parts.typing)
        b = torch.zeros(int(on_graph.edge_offsets[-1]), k, dtype=torch.float64)
        if parts.moves is not None:
            moves = torch.cat([move[n].double() for move in parts.moves])
            b = sheaf.pullback_edges(moves, parts.typing)
        yield on_graph, _vectors(model, n, parts), b.numpy()
    if model.config.energy.on_sphere:
        yield _lifted(model)


def _vectors(model: SheafEmbedding, block: int, parts: Layout) -> np.ndarray:
    found: list[np.ndarray] = [np.empty(0)] * model.graph.num_entities
    kinds = parts.typing.vertex_map
    for kind in range(len(model.widths)):
        rows = model.entities.of_type(kind)[:, block].detach().double().numpy()
        for entity, row in zip(model.entities_of_type(kind).tolist(), rows, strict=True):
            found[entity] = row[parts.columns[kinds[entity]].numpy()]
    return np.concatenate(found)


def _lifted(model: SheafEmbedding) -> tuple[CellularSheaf, np.ndarray, np.ndarray]:
    """The coordinate √(M² − ‖x‖²): the head map forgets it, the tail map keeps it."""
    count, zero, one = model.num_relations, torch.zeros(1, 1), torch.ones(1, 1)
    sheaf = CellularSheaf.from_maps(
        model.graph.schema.graph,
        [1] * len(model.widths),
        [zero.double()] * count,
        [one.double()] * count,
    ).pullback(model.graph.typing)
    squares = np.zeros(model.graph.num_entities)
    for kind in range(len(model.widths)):
        rows = model.entities.of_type(kind).detach().double().flatten(1)
        squares[model.entities_of_type(kind).numpy()] = rows.square().sum(1).numpy()
    rest = np.sqrt((float(model.radius) ** 2 - squares).clip(min=0))
    return sheaf, rest[:, None], np.zeros((int(sheaf.edge_offsets[-1]), 1))


def _by_relation(model: SheafEmbedding, before: np.ndarray, after: np.ndarray) -> list[Discord]:
    relations = model.graph.schema.relations
    repeated = len({r.name for r in relations}) < len(relations)
    kinds = {kind.name: kind.said for kind in model.graph.schema.types}

    def named(r: Relation) -> Name:
        if not repeated:
            return Name(r.name, r.label)
        ends = f"({kinds[r.head]} → {kinds[r.tail]})"
        return Name(f"{r.name} ({r.head} → {r.tail})", f"{r.label or r.name} {ends}")

    names = list(map(named, relations))
    return _discords(names, model.graph.triples[:, 1], before, after, before)


def _by_entity(model: SheafEmbedding, before: np.ndarray, after: np.ndarray) -> list[Discord]:
    heads, tails = model.graph.triples[:, 0], model.graph.triples[:, 2]
    loops = heads == tails  # the triples around an entity count each once
    owner = np.concatenate([heads, tails[~loops]])
    names = list(map(model.graph.name, range(model.graph.num_entities)))
    twice = [np.concatenate([e, e[~loops]]) for e in (before, after)]
    return _discords(names, owner, twice[0], twice[1], before)


def _discords(
    names: Sequence[str],
    owner: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    everywhere: np.ndarray,
) -> list[Discord]:
    """The energies by their owners, beside those of all triples."""
    mean, total = float(everywhere.mean()), float(everywhere.sum())
    counts, size = np.bincount(owner, minlength=len(names)), len(names)
    sums, later = (np.bincount(owner, weights=e, minlength=size) for e in (before, after))
    found = [
        Discord(
            str(name),
            int(n),
            float(s / n),
            float(s / total) if total else 0.0,
            float(s - n * mean),
            float(a / n),
            label_of(name),
        )
        for name, n, s, a in zip(names, counts, sums, later, strict=True)
        if n
    ]
    return sorted(found, key=lambda d: -d.excess)


def _notes(model: SheafEmbedding, parts: Sequence[_Part], zeros: int | None) -> list[str]:
    notes = []
    widest = max(p.size for p in parts)
    if zeros is None:
        notes.append(
            f"No spectrum: a block of the Laplacian has {widest:,} dimensions, and more than "
            f"{SPARSE_LIMIT:,} are not factorised."
        )
    elif widest > DENSE_LIMIT:
        notes.append(
            f"The smallest eigenvalues only: a block of the Laplacian has {widest:,} dimensions, "
            f"and all eigenvalues are computed up to {DENSE_LIMIT:,}."
        )
    if model.config.energy.on_sphere:
        notes.append(
            "Most of a lifted energy is M², the same for every triple: compare, do not count."
        )
    if zeros == 0 and model.translations is None:
        notes.append("H⁰ = 0: the only section is zero, and the flow ends there.")
    return notes
