"""How long the harmonic reduction of 10,000 three-hop queries takes, against plain products.

The yardstick is what comes after it in any case: one matrix product of the queries with all 63,361
entities. Reduction with rotation blocks should take at most a quarter of that, with dense maps at
most as long. Run with ``make bench`` or ``python bench/harmonic.py``.
"""

from __future__ import annotations

import torch
from _measure import peak_gib, seconds

from knowledge_sheaves.graph import Multigraph
from knowledge_sheaves.sheaf import BlockMap, CellularSheaf, energy_form

QUERIES, ENTITIES, RELATIONS = 10_000, 63_361, 400
PATH = Multigraph.from_edges(4, [(0, 1), (1, 2), (2, 3)])


def reduce(maps: BlockMap, tails: BlockMap, relations: torch.Tensor, source: torch.Tensor) -> None:
    """From relation ids and source vectors to the quadratic form of every query in its target."""
    heads = [maps[relations[:, hop]] for hop in range(3)]
    ends = [tails if len(tails.blocks) == 1 else tails[relations[:, hop]] for hop in range(3)]
    sheaf = CellularSheaf.from_maps(PATH, [maps.cols] * 4, heads, ends)
    form = energy_form(sheaf).fix({0: source}).eliminate([1, 2])
    assert form.block(3, 3) is not None


def compare(name: str, dim: int, maps: BlockMap, tails: BlockMap, goal: float) -> None:
    relations = torch.randint(RELATIONS, (QUERIES, 3))
    source = torch.randn(QUERIES, dim, 1)
    table = torch.randn(ENTITIES, dim)
    queries = torch.randn(QUERIES, dim)
    reduction = seconds(lambda: reduce(maps, tails, relations, source))
    reduced = peak_gib()
    product = seconds(lambda: queries @ table.T)
    print(
        f"{name:28s} reduction {reduction:6.3f} s, product {product:6.3f} s, "
        f"ratio {reduction / product:5.2f} (goal: at most {goal}); peak memory so far "
        f"{reduced:.2f} GiB after the reduction, {peak_gib():.2f} GiB after the product"
    )


def main() -> None:
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    print(f"{QUERIES:,} queries 3p, {torch.get_num_threads()} threads")
    turns = BlockMap.rotation(2 * torch.pi * torch.rand(RELATIONS, 128))
    compare(
        "rotation blocks, d = 256", 256, turns, BlockMap(torch.eye(2).expand(1, 128, 2, 2)), 0.25
    )
    dense = [BlockMap(torch.randn(RELATIONS, 1, 32, 32) / 32**0.5) for _ in range(2)]
    compare("dense maps, d = 32", 32, *dense, 1.0)


if __name__ == "__main__":
    main()
