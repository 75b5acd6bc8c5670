"""`sheaves download`: the data sets of the BetaE benchmark, with their queries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from knowledge_sheaves.cli.output import say


def download(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="NELL-betae, FB15k-237-betae or FB15k-betae.")
    ],
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to put it.")] = Path("data"),
    url: Annotated[
        str | None, typer.Option(help="Take the archive from another address than Stanford's.")
    ] = None,
    sha256: Annotated[
        str | None, typer.Option(help="The checksum that the archive must have.")
    ] = None,
) -> None:
    """Fetch a data set of the BetaE benchmark: triples, queries and answers.

    What came before a connection broke is not fetched again, and an archive that lies in the folder
    already is used as it is: it may be put there by hand. Its checksum is kept beside it.

    \b
    Example:
      sheaves download NELL-betae --to data
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    from knowledge_sheaves.graph.readers import download as fetching

    console = Console(stderr=True)
    with Progress(
        "{task.description}",
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as bar:
        task = bar.add_task("", total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        address = fetching.URL if url is None else url
        folder = fetching.download(name, to, url=address, sha256=sha256, report=show)
    say(f"{name} is in {folder}")
    kept = fetching.checksum_file(fetching.archive_file(to, address))
    if kept.exists():
        say(f"SHA-256 {kept.read_text(encoding='utf-8').strip()}")
