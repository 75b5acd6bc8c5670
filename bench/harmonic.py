"""How long the harmonic reduction of 10,000 three-hop queries takes, against plain products.

The yardstick is what comes after it in any case: one matrix product of the queries with all 63,361
entities. Reduction with rotation blocks should take at most a quarter of that, with dense maps at
most as long. Forms are reduced in float64, because float32 cannot tell an ill-conditioned system
from a singular one. In total, with the evaluation of the reduced forms at all entities (measured
on a tenth of the queries), that should cost at most 1.3 times what it costs in float32. All are
measured in turns, the best of several rounds each.
Run with ``make bench`` or ``python bench/harmonic.py``.
"""

from __future__ import annotations

import torch
from _measure import interleaved, peak_gib

from knowledge_sheaves.graph import Multigraph
from knowledge_sheaves.sheaf import BlockMap, Candidates, CellularSheaf, QuadraticForm, energy_form

QUERIES, ENTITIES, RELATIONS = 10_000, 63_361, 400
PATH = Multigraph.from_edges(4, [(0, 1), (1, 2), (2, 3)])


def reduce(
    maps: BlockMap,
    tails: BlockMap,
    relations: torch.Tensor,
    source: torch.Tensor,
    working: torch.dtype = torch.float64,
) -> QuadraticForm:
    """From relation ids and source vectors to the quadratic form of every query in its target."""
    heads = [maps[relations[:, hop]] for hop in range(3)]
    ends = [tails if len(tails.blocks) == 1 else tails[relations[:, hop]] for hop in range(3)]
    sheaf = CellularSheaf.from_maps(PATH, [maps.cols] * 4, heads, ends)
    return energy_form(sheaf, working=working).fix({0: source}).eliminate([1, 2])


def compare(name: str, dim: int, maps: BlockMap, tails: BlockMap, goal: float) -> None:
    relations = torch.randint(RELATIONS, (QUERIES, 3))
    source = torch.randn(QUERIES, dim, 1)
    table = torch.randn(ENTITIES, dim)
    queries = torch.randn(QUERIES, dim)
    few = QUERIES // 10
    form = reduce(maps, tails, relations[:few], source[:few])
    candidates = Candidates(table, maps.n_blocks)
    best = interleaved(
        {
            "product": lambda: queries @ table.T,
            "evaluation": lambda: form.evaluate(candidates),
            "double": lambda: reduce(maps, tails, relations, source),
            "single": lambda: reduce(maps, tails, relations, source, torch.float32),
        }
    )
    product, double, single = best["product"], best["double"], best["single"]
    rest = 10 * best["evaluation"]
    print(
        f"{name:24s} reduction {double:.2f} s, {double / product:.2f} of a product "
        f"of {product:.2f} s (goal: at most {goal}); with evaluation {double + rest:.2f} s, "
        f"{(double + rest) / (single + rest):.2f} times float32's {single + rest:.2f} s "
        f"(goal: at most 1.3); peak memory so far {peak_gib():.2f} GiB"
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
