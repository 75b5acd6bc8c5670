"""Entity vectors: one table per width of stalk, entities of a type in consecutive rows.

Where classes have coordinates of their own, a stalk is wide enough for those of all classes, and an
entity has zeros for those that are not its own, which stay zeros.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from knowledge_sheaves.graph import BoolArray, IntArray


class EntityTables(nn.Module):
    """The 0-cochain as parameters: (entities, n_blocks, width, k) for every width there is.

    Types of one width share a table, in which each has consecutive rows, so that "all entities of a
    type" is a slice and never a copy. With one type, row and entity are the same number.
    """

    table_of: Tensor
    row_of: Tensor
    own: Tensor
    group_of: Tensor

    def __init__(
        self,
        entity_types: IntArray,
        widths: list[int],
        n_blocks: int,
        sections: int,
        own: tuple[IntArray, BoolArray] | None = None,
    ) -> None:
        """``own`` has the group of every entity, and which coordinates of a block groups have."""
        super().__init__()
        self.n_blocks, self.sections = n_blocks, sections
        self.sparse = True
        self.widths = sorted(set(widths))
        self.width_of_type = widths
        table_of_type = np.array([self.widths.index(w) for w in widths], dtype=np.int64)
        tables = table_of_type[entity_types]
        rows = np.zeros(len(entity_types), dtype=np.int64)
        sizes = []
        self.span: list[tuple[int, int, int]] = [(0, 0, 0)] * len(widths)
        for table in range(len(self.widths)):
            mine = np.flatnonzero(tables == table)
            order = mine
            if len(widths) > 1:
                order = mine[np.argsort(entity_types[mine], kind="stable")]
            rows[order] = np.arange(len(order))
            sizes.append(len(order))
            for kind in np.flatnonzero(table_of_type == table):
                low, high = np.searchsorted(entity_types[order], [kind, kind + 1])
                self.span[kind] = (table, int(low), int(high))
        self.register_buffer("table_of", torch.from_numpy(tables), persistent=False)
        self.register_buffer("row_of", torch.from_numpy(rows), persistent=False)
        self.sizes = [
            (size, n_blocks * width * sections)
            for size, width in zip(sizes, self.widths, strict=True)
        ]
        self.shared = own is None
        groups, columns = own or (np.zeros(0, np.int64), np.zeros((0, 0), bool))
        self.register_buffer("group_of", torch.from_numpy(groups), persistent=False)
        self.register_buffer("own", torch.from_numpy(columns), persistent=False)
        self.tables = nn.ParameterList(self._make_tables())

    def _make_tables(self) -> list[nn.Parameter]:
        return [nn.Parameter(torch.empty(size)) for size in self.sizes]

    @property
    def width(self) -> int:
        """The widest block: what `lookup` pads to."""
        return max(self.widths)

    def reset(self, generator: torch.Generator, spread: float, uniform: bool = False) -> None:
        with torch.no_grad():
            for table in self.tables:
                draw = table.uniform_ if uniform else table.normal_
                draw(generator=generator).mul_(spread)
        self.clear()

    @torch.no_grad()
    def clear(self) -> None:
        """Make the coordinates zero that entities do not have."""
        if not self.shared:
            entities = torch.arange(len(self.row_of), device=self.row_of.device)
            (table,) = self.tables
            kept = table[self.row_of].unflatten(1, (self.n_blocks, -1, self.sections))
            table[self.row_of] = (kept * self._mine(entities)).flatten(1)

    @property
    def num_zeros(self) -> int:
        """How many numbers are zeros that nothing is learned for."""
        if self.shared:
            return 0
        return int((~self.own[self.group_of]).sum()) * self.n_blocks * self.sections

    def _mine(self, entities: Tensor) -> Tensor:
        """Which coordinates entities have: (entities, 1, width, 1)."""
        return self.own[self.group_of[entities]][:, None, :, None]

    def lookup(self, entities: Tensor, width: int | None = None) -> Tensor:
        """The vectors of some entities, (n, n_blocks, width, k), zero beyond narrower ones.

        Gradients are sparse, touching only the rows that were looked up, unless ``sparse`` is set
        to False for an optimiser that cannot take that.
        """
        width = self.width if width is None else width
        if len(self.sizes) == 1:
            vectors = self._rows(0, self.row_of[entities])
            return self._fit(vectors if self.shared else vectors * self._mine(entities), width)
        tables = self.table_of[entities]
        out: Tensor | None = None
        for number in tables.unique().tolist():
            mine = (tables == number).nonzero().squeeze(1)
            part = self._fit(self._rows(number, self.row_of[entities[mine]]), width)
            if out is None:
                out = part.new_zeros(len(entities), *part.shape[1:])
            out = out.index_copy(0, mine, part)
        if out is None:
            return self._fit(self._rows(0, entities), width)
        return out

    def _rows(self, table: int, rows: Tensor) -> Tensor:
        vectors = nn.functional.embedding(rows, self.tables[table], sparse=self.sparse)
        return vectors.unflatten(1, (self.n_blocks, self.widths[table], self.sections))

    def _fit(self, vectors: Tensor, width: int) -> Tensor:
        own = vectors.shape[2]
        if own == width:
            return vectors
        return nn.functional.pad(vectors, (0, 0, 0, width - own))

    def of_type(self, kind: int) -> Tensor:
        """All vectors of a type in the order of entity ids, (n, n_blocks, width, k): a view."""
        table, low, high = self.span[kind]
        rows = self.tables[table][low:high]
        return rows.unflatten(1, (self.n_blocks, self.widths[table], self.sections))

    def vector(self, entity: int) -> Tensor:
        """One entity's vector in its own width, (dim,) or (dim, k)."""
        table, row = int(self.table_of[entity]), int(self.row_of[entity])
        vector = self.tables[table][row].unflatten(0, (-1, self.sections))
        return vector.squeeze(-1) if self.sections == 1 else vector
