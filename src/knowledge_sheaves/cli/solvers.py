"""`sheaves solvers`: the ways to answer, and what each can be told; the option that tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from knowledge_sheaves.cli.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from knowledge_sheaves.query.options import Options

SolverName = Annotated[
    str, typer.Option(metavar="NAME", help="How to find answers; `sheaves solvers` lists the ways.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Tell the solver something, such as k=16; `sheaves solvers` lists what.",
    ),
]

Known = Annotated[
    Literal["all", "train"],
    typer.Option(help="Which facts count as known: all that were given, or training's alone."),
]

Search = Annotated[
    Literal["auto", "full", "exact", "quick"],
    typer.Option(help="Find the best by all entities, by all codes of an index, or by some lists."),
]


def make_options(solver: str, told: Sequence[str] | None, **more: Any) -> Options:
    """Options from what the command line says."""
    from knowledge_sheaves.errors import InputError
    from knowledge_sheaves.query.options import Options

    settings: dict[str, Any] = {}
    for each in told or ():
        name, sign, value = each.partition("=")
        if not sign or not value:
            raise InputError(f"--set takes NAME=VALUE, unlike {each!r}.")
        if name in more or name == "solver":
            raise InputError(f"{name!r} has an option of its own: --{name.replace('_', '-')}.")
        settings[name.strip()] = value.strip()
    return Options(solver, **settings, **more)


def solvers(as_json: AsJson = False) -> None:
    """List the solvers and what each can be told with --set NAME=VALUE.

    A value that is not given is the one that `sheaves calibrate` chose for the model, where it
    chooses that, or else the default.

    \b
    Example:
      sheaves solvers
    """
    from knowledge_sheaves.query.solvers import SOLVERS

    rows = [
        {
            "solver": solver.name,
            "parameter": name,
            "default": str(about.default),
            "range": about.range,
            "calibrated": about.fit is not None,
            "meaning": about.help,
        }
        for solver in SOLVERS.values()
        for name, about in solver.Settings.parameters().items()
    ]
    about = {solver.name: solver.summary for solver in SOLVERS.values()}
    if as_json:
        print_json({"solvers": about, "parameters": rows})
        return
    print_table("", [{"solver": n, "meaning": t} for n, t in about.items()], wrapped=["meaning"])
    print_table("", rows, wrapped=["meaning", "range"])
