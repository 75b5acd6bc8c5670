"""A model whose entity tables are spread over processes: each holds some rows of every table.

Maps and translations are small and every process has them. Vectors of entities that all processes
ask for alike are looked up by whoever has them and summed (`SharedRows`); while training, every
process asks for others, and those are fetched before a step (`ShardedTables.fetched`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from knowledge_sheaves.embedding.config import SheafConfig
from knowledge_sheaves.embedding.energies.base import Pool
from knowledge_sheaves.embedding.loops import bar_loops
from knowledge_sheaves.embedding.maps import End
from knowledge_sheaves.embedding.model import AT_ONCE, SheafEmbedding
from knowledge_sheaves.embedding.scoring import compare, make_query, rule_out
from knowledge_sheaves.embedding.tables import EntityTables
from knowledge_sheaves.graph import BoolArray, IntArray, KnowledgeGraph
from knowledge_sheaves.processes import Processes
from knowledge_sheaves.sheaf import Candidates

DRAWN = 1 << 20
"""How many first values are drawn at once, whosever they are: a multiple of 16, see `draw`."""


class OwnRows:
    """The rows of a table that this process has: those from ``first`` on."""

    def __init__(self, processes: Processes, name: str, rows: int, width: int) -> None:
        self.processes, self.name, self.rows, self.width = processes, name, rows, width
        self.first, last = processes.own(rows)
        self.own = self._make(last - self.first)

    def _make(self, rows: int) -> Tensor:
        return torch.zeros(rows, self.width)

    def shared(self, rows: Tensor) -> Tensor:
        """Some rows, wherever they are; all processes ask for the same."""
        values = self.own.new_zeros(len(rows), self.width)
        mine = ((rows >= self.first) & (rows < self.first + len(self.own))).nonzero().squeeze(1)
        values[mine] = self.own[rows[mine] - self.first]
        return self.processes.total(values)

    def fetch(self, rows: Tensor) -> Tensor:
        """Some rows, wherever they are; every process asks for its own, and gradients go back."""
        raise NotImplementedError("only rows that are trained can be fetched")


MakeRows = Callable[[Processes, str, int, int], OwnRows]


class Here(NamedTuple):
    """Rows of one table, ascending, that were fetched for a step."""

    rows: Tensor
    values: Tensor

    def pick(self, rows: Tensor) -> Tensor:
        return self.values.index_select(0, torch.searchsorted(self.rows, rows))


class _AllAtOnce(torch.autograd.Function):
    """Gradients of all tables go back together, also of those that a loss did not look at.

    Every process must send its part of every table, and in the same order.
    """

    @staticmethod
    def forward(_: Any, *values: Tensor) -> tuple[Tensor, ...]:
        return tuple(each.view_as(each) for each in values)

    @staticmethod
    def backward(_: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        return gradients


class ShardedTables(EntityTables):
    """Entity vectors, and biases where the model has them, of which this process has a part."""

    def __init__(
        self,
        entity_types: IntArray,
        widths: list[int],
        n_blocks: int,
        sections: int,
        own: tuple[IntArray, BoolArray] | None,
        make: Callable[[str, int, int], OwnRows],
        bias_columns: int,
    ) -> None:
        super().__init__(entity_types, widths, n_blocks, sections, own)
        self.vectors = [make(f"entities.tables.{n}", *size) for n, size in enumerate(self.sizes)]
        self.biases = [
            make(f"biases.{n}", rows, bias_columns)
            for n, (rows, _) in enumerate(self.sizes)
            if bias_columns
        ]
        self._here: dict[str, Here] = {}

    def _make_tables(self) -> list[nn.Parameter]:
        return []

    @property
    def all(self) -> list[OwnRows]:
        """Every table of which rows are spread."""
        return [*self.vectors, *self.biases]

    def reset(self, generator: torch.Generator, spread: float, uniform: bool = False) -> None:
        """First values as one process would draw them: each draws all and keeps its own."""
        with torch.no_grad():
            for table in self.vectors:
                draw(table, generator, spread, uniform)

        self.clear()

    @torch.no_grad()
    def clear(self) -> None:
        """Make the coordinates zero that this process's entities do not have."""
        if not self.shared:
            (table,) = self.vectors
            entities = self.row_of.argsort()[table.first : table.first + len(table.own)]
            kept = table.own.unflatten(1, (self.n_blocks, -1, self.sections))
            table.own.copy_((kept * self._mine(entities)).flatten(1))

    @contextmanager
    def fetched(self, entities: Tensor) -> Iterator[None]:
        """Have the rows of these entities here; every process asks for its own."""
        kinds = self.table_of[entities]
        asked = [
            self.row_of[entities[kinds == number]].unique() for number in range(len(self.sizes))
        ]
        asked *= 2 if self.biases else 1
        found = [table.fetch(rows) for table, rows in zip(self.all, asked, strict=True)]
        together = _AllAtOnce.apply(*found)  # type: ignore[no-untyped-call]
        for table, rows, values in zip(self.all, asked, together, strict=True):
            self._here[table.name] = Here(rows, values)
        try:
            yield
        finally:
            self._here = {}

    def _pick(self, table: OwnRows, rows: Tensor) -> Tensor:
        return self._here[table.name].pick(rows) if self._here else table.shared(rows)

    def _rows(self, table: int, rows: Tensor) -> Tensor:
        vectors = self._pick(self.vectors[table], rows)
        return vectors.unflatten(1, (self.n_blocks, self.widths[table], self.sections))

    def bias(self, entities: Tensor) -> Tensor:
        """The biases of some entities, (…, columns)."""
        flat = entities.flatten()
        kinds = self.table_of[flat]
        out = self.biases[0].own.new_zeros(len(flat), self.biases[0].width)
        for number, table in enumerate(self.biases):
            mine = (kinds == number).nonzero().squeeze(1)
            out = out.index_copy(0, mine, self._pick(table, self.row_of[flat[mine]]))
        return out.unflatten(0, entities.shape)

    def own_span(self, kind: int) -> tuple[int, int, int]:
        """The table of a type, and which of its own rows there are of that type."""
        table, low, high = self.span[kind]
        first, count = self.vectors[table].first, len(self.vectors[table].own)
        return table, min(max(low - first, 0), count), min(max(high - first, 0), count)

    def of_type(self, kind: int) -> Tensor:
        """The vectors of this process's entities of a type, in the order of entity ids: a view."""
        table, low, high = self.own_span(kind)
        rows = self.vectors[table].own[low:high]
        return rows.unflatten(1, (self.n_blocks, self.widths[table], self.sections))

    def vector(self, entity: int) -> Tensor:
        table = int(self.table_of[entity])
        row = self.vectors[table].shared(self.row_of[entity].reshape(1))[0]
        vector = row.unflatten(0, (-1, self.sections))
        return vector.squeeze(-1) if self.sections == 1 else vector


def draw(table: OwnRows, generator: torch.Generator, spread: float, uniform: bool) -> None:
    """Draw all rows of a table, a part at a time, and keep this process's.

    torch draws normal numbers sixteen at a time, and the last sixteen anew where the number of all
    is not a multiple; in parts like these the numbers are those of one draw.
    """
    total, low = table.rows * table.width, table.first * table.width
    kept = torch.empty(table.own.numel())
    cuts = [*range(0, total, DRAWN), total]
    if len(cuts) > 2 and total - cuts[-2] < 16:
        del cuts[-2]
    for start, stop in pairwise(cuts):
        values = (torch.rand if uniform else torch.randn)(stop - start, generator=generator)
        begin, end = max(start, low), min(stop, low + len(kept))
        if begin < end:
            kept[begin - low : end - low] = spread * values[begin - start : end - start]
    table.own.copy_(kept.view(-1, table.width))


class ShardedEmbedding(SheafEmbedding):
    """A sheaf embedding of which this process has some of the entities.

    What is asked of it all processes ask alike, and all get the same answer, unless its name says
    ``own``.
    """

    entities: ShardedTables

    def __init__(
        self,
        config: SheafConfig,
        graph: KnowledgeGraph,
        seed: int | None = 0,
        *,
        processes: Processes,
        make_rows: MakeRows = OwnRows,
    ) -> None:
        self.processes, self._make_rows = processes, make_rows
        super().__init__(config, graph, seed)

    def _make_tables(self) -> EntityTables:
        def make(name: str, rows: int, width: int) -> OwnRows:
            return self._make_rows(self.processes, name, rows, width)

        columns = {False: 0, "by-end": 2}.get(self.config.biases, 1)
        return ShardedTables(*self._table_sizes(), make, columns)

    def _make_biases(self, columns: int) -> Tensor:
        return torch.zeros(
            0, columns
        )  # they are with the tables; that there are any is all it says

    @property
    def num_parameters(self) -> int:
        spread = sum(table.rows * table.width for table in self.entities.all)
        return super().num_parameters + spread

    @torch.no_grad()
    def refresh(self) -> None:
        """After a change of the vectors: how large a sphere holds all of them, of all processes."""
        if self.config.energy.on_sphere:
            parts = [part for table in self.entities.vectors for part in table.own.split(AT_ONCE)]
            own = [part.square().sum(1).max() for part in parts if len(part)]
            largest = torch.stack([self.radius.new_zeros(()), *own]).max().sqrt()
            self.radius.copy_(self.processes.largest(largest))

    def bias(self, entities: Tensor, end: End = "tail") -> Tensor:
        return self.entities.bias(entities)[..., 0 if end == "head" else -1]

    # Scores of all entities, each process those that it has.

    def own_entities(self) -> Tensor:
        """The ids of this process's entities, ascending: the columns of `score_own`."""
        return self.own_in_rows().sort().values

    def own_in_rows(self) -> Tensor:
        """The ids of this process's entities, table by table in the order of their rows."""
        return torch.cat([self._own_of_type(kind) for kind in self._kinds()])

    def _own_of_type(self, kind: int) -> Tensor:
        table, low, high = self.entities.own_span(kind)
        start = self.entities.vectors[table].first - self.entities.span[kind][1]
        return self.entities_of_type(kind)[low + start : high + start]

    def _kinds(self) -> list[int]:
        """The types in the order of tables and rows."""
        return sorted(
            range(len(self.widths)), key=lambda kind: (self.entities.span[kind][:2], kind)
        )

    def pool(self, kind: int, target: End) -> Pool:
        """This process's entities of a type as candidates for one end."""
        table, low, high = self.entities.own_span(kind)
        points = self.entities.of_type(kind).detach()
        candidates = Candidates(points.flatten(1, 2), self.n_blocks)
        if self.biases is None:
            return Pool(candidates, None)
        own = self.entities.biases[table].own[low:high]
        return Pool(candidates, own[:, 0 if target == "head" else -1])

    @torch.no_grad()
    def score_own(self, target: End, edges: Tensor, known: Tensor) -> Tensor:
        """Scores of this process's entities at the open end, (queries, own entities).

        Those that the schema rules out have infinity.
        """
        if target == "head" and self.config.reciprocal:
            target, edges = "tail", edges + self.num_relations
        own = self.own_entities()
        if len(self.widths) == 1:
            values = compare(self, make_query(self, target, edges, known), self.pool(0, target))
            values = rule_out(self, target, edges, values, among=own)
        else:
            values = self._score_own_by_type(target, edges, known)
        return bar_loops(self, values, edges, known, among=own) if len(own) else values

    def _score_own_by_type(self, target: End, edges: Tensor, known: Tensor) -> Tensor:
        siblings = self.siblings(target)
        rows, parts = siblings.of(edges)
        kinds = siblings.types[parts]
        out = []
        for kind in self._kinds():
            mine = (kinds == kind).nonzero().squeeze(1)
            pool = self.pool(kind, target)
            values = self.radius.new_full((len(edges), len(pool.candidates)), torch.inf)
            if len(mine):
                query = make_query(self, target, parts[mine], known[rows[mine]])
                values[rows[mine]] = compare(self, query, pool)
            out.append(values)
        return torch.cat(out, 1)[:, self.own_in_rows().argsort()]

    @property
    def is_spread(self) -> bool:
        return True

    def total(self, values: Tensor) -> Tensor:
        return self.processes.total(values)

    def everyone(self, kind: int, values: Tensor) -> Tensor:
        ids = self.entities_of_type(kind)
        out = values.new_zeros(*values.shape[:-1], len(ids))
        out[..., torch.searchsorted(ids, self._own_of_type(kind))] = values
        return self.processes.total(out)

    def score_tails(self, heads: Tensor, edges: Tensor, among: Tensor | None = None) -> Tensor:
        if among is not None:
            return super().score_tails(heads, edges, among)
        return self.score_everyone("tail", edges, heads)

    def score_heads(self, edges: Tensor, tails: Tensor, among: Tensor | None = None) -> Tensor:
        if among is not None:
            return super().score_heads(edges, tails, among)
        return self.score_everyone("head", edges, tails)

    @torch.no_grad()
    def score_everyone(self, target: End, edges: Tensor, known: Tensor) -> Tensor:
        """The scores of all entities, from all processes: for a few queries at once."""
        own = self.score_own(target, edges, known)
        out = own.new_zeros(len(edges), self.graph.num_entities)
        out[:, self.own_entities()] = own
        return self.processes.total(out)

    def load_another(self, folder: Path) -> SheafEmbedding:
        from knowledge_sheaves.embedding.shard_folder import load_shards

        return load_shards(folder, self.processes)
