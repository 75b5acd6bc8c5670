"""What `sheaves query` and `sheaves ask` print of full SPARQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from knowledge_sheaves.cli.output import print_table, say

if TYPE_CHECKING:
    from knowledge_sheaves.query.asking import Asker


def refuse_options(given: Sequence[str]) -> None:
    """Refuse options that speak of the answers to a plain pattern."""
    from knowledge_sheaves.errors import InputError

    if given:
        raise InputError(
            f"{given[0]} is for plain patterns: in full SPARQL a block says what it wants, as in "
            "ks:answers ks:top 5 ; ks:new true, and binds ks:reason; LIMIT bounds the rows."
        )


def show_full(asker: Asker, text: str, form: str | None, facts_only: bool = False) -> None:
    """Answer a query in full SPARQL, as a table for people or in a form of the W3C."""
    from knowledge_sheaves.query.full import Sparql

    result = Sparql(asker).run(text, form, facts_only=facts_only)
    if form is not None:
        written = result.data.decode()
        typer.echo(written, nl=not written.endswith("\n"))
    elif result.kind == "ask":
        say("\n".join(["yes" if result else "no", *result.notes]))
    elif result.kind == "graph":
        say(result.serialize("nt").decode().rstrip())
    elif rows := list(result.rows()):
        print_table("", rows, " ".join(result.notes))
    else:
        typer.echo("\n".join(["No answers.", *result.notes]))
