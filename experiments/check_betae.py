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

from knowledge_sheaves.evaluation.betae import BetaEFolder


def check(source: BetaEFolder) -> tuple[Table, bool]:
    """Return a table with a row for each type of a split, and whether all agree."""
    title = f"{source.folder.name}, {source.split}: queries whose answers are those of the files"
    table = Table(title=title)
    for column in ("type", "queries", "easy agree", "hard agree", "seconds"):
        table.add_column(column, justify="left" if column == "type" else "right")
    everything = True
    for name in source.types:
        started = time.perf_counter()
        found = source.check(source.queries(name))
        seconds = f"{time.perf_counter() - started:.1f}"
        table.add_row(name, str(found.queries), str(found.easy), str(found.hard), seconds)
        everything &= found.complete
    return table, everything


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python experiments/check_betae.py FOLDER", file=sys.stderr)
        return 2
    folder, everything = Path(sys.argv[1]), True
    for split in ("valid", "test"):
        if (folder / f"{split}-queries.pkl").exists():
            table, same = check(BetaEFolder(folder, split))
            Console().print(table)
            everything &= same
    print("All answers agree." if everything else "Some answers differ.")
    return 0 if everything else 1


if __name__ == "__main__":
    sys.exit(main())
