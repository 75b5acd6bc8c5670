"""Commands that several processes run together, started by torchrun; only the first one prints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Annotated

import typer

from knowledge_sheaves.errors import InputError

if TYPE_CHECKING:
    from knowledge_sheaves.processes import Processes

Sharded = Annotated[
    bool,
    typer.Option(
        "--sharded",
        help="Spread the entities over the processes that torchrun starts: see docs/sharded.md.",
    ),
]


@contextmanager
def taking_part(sharded: bool) -> Iterator[Processes | None]:
    """Meet the other processes, if there are to be any, and be silent unless this is the first."""
    if not sharded:
        _refuse_several()
        yield None
        return
    from knowledge_sheaves.processes import Processes

    with Processes.started() as processes, ExitStack() as quiet:
        if not processes.first:
            # What goes wrong is said after this, by whoever meets it first.
            nowhere = quiet.enter_context(open(os.devnull, "w", encoding="utf-8"))
            quiet.enter_context(redirect_stdout(nowhere))
            quiet.enter_context(redirect_stderr(nowhere))
        yield processes


def _refuse_several() -> None:
    count = int(os.environ.get("WORLD_SIZE", 1))
    if count == 1:
        return
    if os.environ.get("RANK", "0") != "0":
        raise SystemExit(InputError.exit_code)
    raise InputError(
        f"torchrun started {count} processes, which would all do the same: say --sharded to have "
        "them work together, or start the command without torchrun."
    )
