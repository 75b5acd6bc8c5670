"""Hold our symbolic answers against the BetaE benchmark's own files, query by query.

    python experiments/check_betae.py FOLDER

Easy answers must be those of the graph before a split, hard ones those that only the graph with
the split has. Ends with exit code 1 where a single query disagrees.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.graph.readers import STRUCTURES, BetaEQueries, load, read_betae_queries
from knowledge_sheaves.graph.readers.betae import Structure
from knowledge_sheaves.query.betae import from_betae, smaller_and_larger
from knowledge_sheaves.query.symbolic import answers

Graphs = tuple[KnowledgeGraph, KnowledgeGraph]


def agreeing(graphs: Graphs, asked: list[Structure], benchmark: BetaEQueries) -> tuple[int, int]:
    """Count the queries whose easy, and whose hard answers are those of the files."""
    queries = [from_betae(query) for query in asked]
    smaller, larger = (answers(graph, queries) for graph in graphs)
    easy, hard = benchmark.easy or {}, benchmark.hard or {}
    same_easy = same_hard = 0
    for place, query in enumerate(asked):
        before, after = set(smaller[place].tolist()), set(larger[place].tolist())
        same_easy += before == easy[query]
        same_hard += after - before == hard[query]
    return same_easy, same_hard


def check(folder: Path, split: str, graphs: Graphs) -> tuple[Table, bool]:
    """Return a table with a row for each structure of a split, and whether all agree."""
    benchmark = read_betae_queries(folder, split)
    table = Table(title=f"{folder.name}, {split}: queries whose answers are those of the files")
    for column in ("structure", "queries", "easy agree", "hard agree", "seconds"):
        table.add_column(column, justify="left" if column == "structure" else "right")
    everything = True
    for name, structure in STRUCTURES.items():
        asked = list(benchmark.queries.get(structure, ()))
        if not asked:
            continue
        started = time.perf_counter()
        easy, hard = agreeing(graphs, asked, benchmark)
        seconds = time.perf_counter() - started
        table.add_row(name, str(len(asked)), str(easy), str(hard), f"{seconds:.1f}")
        everything &= easy == hard == len(asked)
    return table, everything


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python experiments/check_betae.py FOLDER", file=sys.stderr)
        return 2
    folder, everything = Path(sys.argv[1]), True
    data = load(folder)
    for split in ("valid", "test"):
        if (folder / f"{split}-queries.pkl").exists():
            table, same = check(folder, split, smaller_and_larger(data, split))
            Console().print(table)
            everything &= same
    print("All answers agree." if everything else "Some answers differ.")
    return 0 if everything else 1


if __name__ == "__main__":
    sys.exit(main())
