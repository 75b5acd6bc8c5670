"""`sheaves check`: is a model's folder as it was saved?"""

from __future__ import annotations

from dataclasses import asdict

import typer

from knowledge_sheaves.cli.models import Folder
from knowledge_sheaves.cli.output import AsJson, print_json, print_table


def check(model: Folder, as_json: AsJson = False) -> None:
    """Read every file of a model whole, and say whether it is as it was saved.

    Checksums, the generation that the files share, weights that are no numbers. Loading a model
    compares generations, and checksums of files up to 64 MiB; this command reads everything. It
    exits with 1 if something is wrong.

    \b
    Example:
      sheaves check model/
    """
    from knowledge_sheaves.embedding.check import check_model

    found = check_model(model)
    wrong = [finding for finding in found if finding.problem]
    if as_json:
        print_json({"model": str(model), "sound": not wrong, "files": list(map(asdict, found))})
    else:
        rows = [
            {"file": each.file, "bytes": each.size, "": "damaged" if each.problem else "sound"}
            for each in found
        ]
        print_table(f"{model}", rows)
        for finding in wrong:
            typer.echo(finding.problem, err=True)
    if wrong:
        raise typer.Exit(1)
