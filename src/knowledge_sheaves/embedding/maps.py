"""The learnable restriction maps of all relations, whatever their sizes and constraints.

Relations whose maps have the same constraint and block size share one table of parameters; a
relation's end is a row in it. A tied or symmetric relation uses one row at both ends, and the parts
of a relation that the schema marks as shared use one row together. Where a stalk has coordinates
of classes that a relation is not about, its maps are zero there: (F | 0).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from knowledge_sheaves.embedding.constraints import CONSTRAINTS, Constraint, Gram
from knowledge_sheaves.sheaf import BlockMap

End = Literal["head", "tail"]
LARGEST_GATHERED = 64
"""Blocks with more entries, for each section, are not copied for every triple."""
STRETCHING = (
    *("free", "symmetric", "antisymmetric", "multiple"),
    *("complex", "imaginary", "quaternion", "pure-quaternion"),
)
"""Constraints whose parameters are as long as the map stretches."""
MOST_TOGETHER = 128
"""So many vectors at most share one copy of a relation's blocks."""


class MapSpec:
    """One end of one relation: its constraint, its block size, and whose row it uses.

    ``turned`` is the transpose of what the row says.
    """

    def __init__(
        self, constraint: str, rows: int, cols: int, key: Hashable, turned: bool = False
    ) -> None:
        self.constraint = CONSTRAINTS[constraint]
        self.built = (cols, rows) if turned else (rows, cols)
        self.constraint.check(*self.built)
        self.size = (rows, cols)
        self.key, self.turned = key, turned

    def transposed(self) -> MapSpec:
        """The same row's map, transposed."""
        rows, cols = self.size
        return MapSpec(self.constraint.name, cols, rows, self.key, not self.turned)

    @property
    def group(self) -> tuple[str, int, int]:
        return (self.constraint.name, *self.built)

    @property
    def gram(self) -> Gram:
        """What is known of FᵀF; of F Fᵀ, less."""
        known = self.constraint.gram_for(*self.size)
        square = self.size[0] == self.size[1]
        return known if not self.turned or square else Gram.GENERAL


class Seen(NamedTuple):
    """What the maps of every edge see of stalks that have more, and what they may give.

    ``columns`` are of stalks of entities, ``rows`` of those of relations: (ends, edges, …).
    """

    columns: Tensor
    rows: Tensor


class RelationMaps(nn.Module):
    """Head and tail maps of every edge of a schema, built from parameters on demand."""

    index: Tensor
    through_of: Tensor
    columns_seen: Tensor
    rows_seen: Tensor

    def __init__(
        self,
        n_blocks: int,
        heads: Sequence[MapSpec],
        tails: Sequence[MapSpec],
        through: Mapping[int, int] | None = None,
        seen: Seen | None = None,
    ) -> None:
        """``through`` gives edges a map A, by number, behind those of both their ends: A F."""
        super().__init__()
        self.n_blocks = n_blocks
        specs = {"head": list(heads), "tail": list(tails)}
        groups = dict.fromkeys(s.group for end in specs.values() for s in end)
        self.groups: list[tuple[Constraint, int, int]] = [
            (CONSTRAINTS[name], rows, cols) for name, rows, cols in groups
        ]
        number = {group: i for i, group in enumerate(groups)}
        rows_of: list[dict[Hashable, int]] = [{} for _ in groups]
        index = torch.zeros(2, 3, len(heads), dtype=torch.long)  # end, (group, row, turned), edge
        for e, end in enumerate(specs.values()):
            for edge, spec in enumerate(end):
                g = number[spec.group]
                row = rows_of[g].setdefault(spec.key, len(rows_of[g]))
                index[e, :, edge] = torch.tensor([g, row, int(spec.turned)])
        self.register_buffer("index", index, persistent=False)
        self._alike = len(groups) == 1 and not index[:, 2].any()
        self.parameters_of = nn.ParameterList(
            nn.Parameter(torch.empty(len(known), n_blocks, constraint.count(rows, cols)))
            for known, (constraint, rows, cols) in zip(rows_of, self.groups, strict=True)
        )
        sizes = {end: {s.size for s in specs[end]} for end in specs}
        self.rows = max((r for end in sizes.values() for r, _ in end), default=1)
        self.cols = {end: max((c for _, c in sizes[end]), default=1) for end in sizes}
        places = torch.full((len(heads),), -1)
        for edge, place in (through or {}).items():
            places[edge] = place
        self.register_buffer("through_of", places, persistent=False)
        shape = (len(set((through or {}).values())), n_blocks, self.rows**2)
        self.through = nn.Parameter(torch.empty(shape)) if through else None
        self.gram: dict[str, Gram] = {
            end: max((s.gram for s in specs[end]), default=Gram.IDENTITY) for end in specs
        }
        self.is_identity: dict[str, bool] = {
            end: all(s.constraint.name == "identity" for s in specs[end]) and len(sizes[end]) <= 1
            for end in specs
        }
        self.see_all = seen is None
        nothing = torch.zeros(0, dtype=torch.bool)
        columns, rows = seen or (nothing, nothing)
        self.register_buffer("columns_seen", columns, persistent=False)
        self.register_buffer("rows_seen", rows, persistent=False)

    def _mask(self, end: End, edges: Tensor) -> Tensor:
        """Which entries of blocks can be other than 0: (edges, 1, rows, cols)."""
        e = 0 if end == "head" else 1
        rows, columns = self.rows_seen[e, edges], self.columns_seen[e, edges]
        return (rows.unsqueeze(2) & columns.unsqueeze(1)).unsqueeze(1)

    def learned(self) -> list[Tensor]:
        """Which parameters of each group have a say, (rows, parameters of a block)."""
        found = [torch.zeros(len(t), t.shape[2], dtype=torch.bool) for t in self.parameters_of]
        ends: tuple[End, ...] = ("head", "tail")
        for e, end in enumerate(ends):
            for edge, (g, row, turned) in enumerate(self.index[e].T.tolist()):
                constraint, rows, cols = self.groups[g]
                if self.see_all or constraint.count(rows, cols) != rows * cols:
                    found[g][row] = True
                    continue
                mask = self._mask(end, torch.tensor([edge], device=self.index.device))[0, 0].cpu()
                mask = mask.T if turned else mask
                found[g][row] |= mask[:rows, :cols].flatten()
        return found

    def reset(self, generator: torch.Generator, spread: float, near_identity: bool) -> None:
        """Start from the identity plus noise, or from noise alone."""
        with torch.no_grad():
            for table, (constraint, rows, cols) in zip(
                self.parameters_of, self.groups, strict=True
            ):
                # Drawn where the generator is, so that all devices start from the same values.
                noise = torch.randn(table.shape, generator=generator) * spread
                start = constraint.start(rows, cols).to(noise) if near_identity else 0.0
                if constraint.name.endswith(("rotation", "reflection")) and near_identity:
                    noise = (torch.rand(table.shape, generator=generator) - 0.5) * torch.pi
                    noise[..., :-1] *= spread  # a scale in front of the angle stays near 1
                table.copy_(noise + start)
            if not self.see_all:
                for table, kept in zip(self.parameters_of, self.learned(), strict=True):
                    table.mul_(kept.unsqueeze(1).to(table.device))
            if self.through is not None:
                noise = torch.randn(self.through.shape, generator=generator) * spread
                self.through.copy_(noise + torch.eye(self.rows).flatten())

    def behind(self, edges: Tensor, images: Tensor) -> Tensor:
        """A y for edges that have such a map, y for the others, of images (edges, n, rows, k)."""
        if self.through is None:
            return images
        mine = (self.through_of[edges] >= 0).nonzero().squeeze(1)
        maps = self.through[self.through_of[edges[mine]]].unflatten(-1, (self.rows, self.rows))
        return images.index_copy(0, mine, maps @ images[mine])

    def blocks(self, end: End, edges: Tensor) -> Tensor:
        """The maps of some edges, (edges, n_blocks, rows, cols), zero beyond smaller ones."""
        built = self._blocks(end, edges)
        return self.behind(edges, built if self.see_all else built * self._mask(end, edges))

    def _blocks(self, end: End, edges: Tensor) -> Tensor:
        if self.is_identity[end] and self.groups:
            held = self.parameters_of[0]
            one = torch.eye(self.rows, self.cols[end], dtype=held.dtype, device=held.device)
            return one.expand(len(edges), self.n_blocks, -1, -1)
        index = self.index[0 if end == "head" else 1]
        if self._alike:
            return self._pad(self._build(0, index[1, edges]), end)
        kinds = 2 * index[0, edges] + index[2, edges]
        if bool((kinds == kinds[:1]).all()):
            kind = int(kinds[0]) if len(edges) else 0
            return self._pad(self._build(kind, index[1, edges]), end)
        out: Tensor | None = None
        for kind in kinds.unique().tolist():
            mine = (kinds == kind).nonzero().squeeze(1)
            part = self._pad(self._build(kind, index[1, edges[mine]]), end)
            if out is None:
                out = part.new_zeros(len(edges), *part.shape[1:])
            out = out.index_copy(0, mine, part)
        assert out is not None, "edges is not empty here"
        return out

    def _build(self, kind: int, rows: Tensor) -> Tensor:
        """Maps from rows of a group's parameters; ``kind`` is twice the group, plus 1 if turned."""
        group, turned = divmod(kind, 2)
        constraint, height, width = self.groups[group]
        if len(rows) == 1:
            built = constraint.build(self.parameters_of[group][rows], height, width)
        else:
            used, inverse = rows.unique(return_inverse=True)  # build a map once, however often used
            parameters = self.parameters_of[group].index_select(0, used)
            built = constraint.build(parameters, height, width).index_select(0, inverse)
        return built.mT if turned else built

    def _pad(self, blocks: Tensor, end: End) -> Tensor:
        missing = (self.rows - blocks.shape[-2], self.cols[end] - blocks.shape[-1])
        if missing == (0, 0):
            return blocks
        return nn.functional.pad(blocks, (0, missing[1], 0, missing[0]))

    def apply_map(self, end: End, edges: Tensor, x: Tensor, adjoint: bool = False) -> Tensor:
        """F x (or Fᵀ x) for every edge and its own x (edges, n_blocks, width, k)."""
        if self.is_identity[end]:
            rows, cols = self.rows, self.cols[end]
            keep, want = (cols, rows) if not adjoint else (rows, cols)
            x = x[..., :keep, :]
            return nn.functional.pad(x, (0, 0, 0, want - keep)) if want > keep else x[..., :want, :]
        if self.rows * self.cols[end] <= LARGEST_GATHERED * x.shape[-1]:
            blocks = self.blocks(end, edges)
            return (blocks.mT if adjoint else blocks) @ x
        used, place, counts = edges.unique(return_inverse=True, return_counts=True)
        blocks = self.blocks(end, used)
        return _apply_together(blocks.mT if adjoint else blocks, place, counts, x)

    def sizes(self, end: End, edges: Tensor) -> list[Tensor]:
        """Squared length of every block's parameters, where that says how much a map stretches."""
        index = self.index[0 if end == "head" else 1][:, edges]
        out = []
        for g in index[0].unique().tolist():
            if self.groups[g][0].name in STRETCHING:
                rows = self.parameters_of[g].index_select(0, index[1, index[0] == g])
                out.append(rows.square().sum(-1))
        return out

    def map(self, end: End, edge: int) -> BlockMap:
        """The map at one end of one edge, in its own size."""
        group, row, turned = self.index[0 if end == "head" else 1][:, edge].tolist()
        rows = torch.tensor([row], device=self.index.device)
        built, place = self._build(2 * group + turned, rows), torch.tensor([edge]).to(rows)
        if not self.see_all:
            built = built * self._mask(end, place)[..., : built.shape[-2], : built.shape[-1]]
        return BlockMap(self.behind(place, built)[0])


def _apply_together(blocks: Tensor, place: Tensor, counts: Tensor, x: Tensor) -> Tensor:
    """Blocks (relations, n, rows, cols) times x (triples, n, cols, k), by each triple's place.

    The triples of a relation are laid side by side in chunks of equal size, the last of them filled
    up with zeros: one batched product, of blocks that are copied for chunks and not for triples,
    with matrices and not with single vectors.
    """
    most = min(len(place) // max(1, len(counts)), MOST_TOGETHER // x.shape[-1])
    size = 1 << max(0, most.bit_length() - 1)  # fewer slots stay empty than are filled
    chunks = (counts + size - 1) // size
    first = (chunks.cumsum(0) - chunks) * size  # slots before those of each relation
    before = counts.cumsum(0) - counts  # triples before those of each relation
    slots = torch.arange(len(place), device=place.device)
    slots = (first - before).repeat_interleave(counts) + slots
    order = place.argsort()
    slot = torch.empty_like(place).index_copy(0, order, slots)
    source = place.new_full((int(chunks.sum()) * size,), -1).index_copy(0, slots, order)
    laid: Tensor = _Rows.apply(x, source, slot)  # type: ignore[no-untyped-call]
    beside = laid.unflatten(0, (-1, size)).permute(0, 2, 3, 1, 4)  # chunk, n, cols, size, k
    image = blocks.repeat_interleave(chunks, 0) @ beside.flatten(3)
    image = image.unflatten(3, (size, -1)).permute(0, 3, 1, 2, 4).flatten(0, 1)
    return _Rows.apply(image, slot, source)  # type: ignore[no-untyped-call]


class _Rows(torch.autograd.Function):
    """Rows of x by number, zeros for −1; no row is used twice, and ``back`` says where it went.

    So the gradient is a choice of rows as well, where torch would add into zeros.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(rows, back)
        return _choose(x, rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        rows, back = ctx.saved_tensors
        found: Tensor = _Rows.apply(gradients[0], back, rows)  # type: ignore[no-untyped-call]
        return found, None, None


def _choose(x: Tensor, rows: Tensor) -> Tensor:
    empty = (rows < 0).nonzero().squeeze(1)
    return x.index_select(0, rows.clamp(min=0)).index_fill_(0, empty, 0)
