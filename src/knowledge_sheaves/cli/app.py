"""The command `sheaves`: its commands, and what a user sees when one of them fails."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import typer

from knowledge_sheaves import __version__
from knowledge_sheaves.cli.ask import ask
from knowledge_sheaves.cli.benchmark import benchmark
from knowledge_sheaves.cli.calibrate import calibrate
from knowledge_sheaves.cli.check import check
from knowledge_sheaves.cli.consistency import consistency
from knowledge_sheaves.cli.density import density
from knowledge_sheaves.cli.download import download
from knowledge_sheaves.cli.evaluate import evaluate
from knowledge_sheaves.cli.export import export
from knowledge_sheaves.cli.index import index
from knowledge_sheaves.cli.info import info
from knowledge_sheaves.cli.mcp import mcp
from knowledge_sheaves.cli.narrow import narrow
from knowledge_sheaves.cli.neighbours import neighbours
from knowledge_sheaves.cli.options import with_style
from knowledge_sheaves.cli.predict import predict
from knowledge_sheaves.cli.query import query
from knowledge_sheaves.cli.schema import schema
from knowledge_sheaves.cli.serve import serve
from knowledge_sheaves.cli.solvers import solvers
from knowledge_sheaves.cli.sum import sum_
from knowledge_sheaves.cli.synthesise import synthesise
from knowledge_sheaves.cli.train import train
from knowledge_sheaves.cli.tune import tune
from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.plain import printable

MOST = 1 << 53


def with_usual_numbers(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command, which now refuses numbers that nobody can calculate with.

    Python reads `nan`, `inf` and whole numbers of any length; comparisons let them through.
    """

    @functools.wraps(command)
    def checked(**options: Any) -> None:
        for name, value in options.items():
            if isinstance(value, int | float) and not abs(value) <= MOST:
                option = name.replace("_", "-")
                raise InputError(f"--{option} {value!r} is no number to calculate with.")
        command(**options)

    return checked


# Commands import what they need when they run: `sheaves --help` must not wait for torch.
app = typer.Typer(
    name="sheaves",
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    train,
    tune,
    evaluate,
    benchmark,
    calibrate,
    index,
    predict,
    query,
    ask,
    serve,
    solvers,
    neighbours,
    consistency,
    density,
    info,
    check,
    export,
    narrow,
    schema,
    download,
    synthesise,
    mcp,
):
    app.command()(with_usual_numbers(with_style(command)))
app.command("sum")(with_usual_numbers(with_style(sum_)))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sheaves {__version__}")
        raise typer.Exit


@app.callback()
def _sheaves(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the whole traceback of an error.")
    ] = False,
) -> None:
    """Knowledge graphs as knowledge sheaves: embed them, then ask for what they leave out."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command `sheaves` and exit."""
    run(app, sys.argv[1:] if arguments is None else arguments)


def run(commands: typer.Typer, arguments: Sequence[str]) -> None:
    """Run one of the commands; an error becomes a sentence on stderr and an exit code."""
    # A user who is told to add --debug adds it at the end of the line, not before the command.
    debug = "--debug" in arguments
    try:
        # Typer exits by itself: with 0, with 2 for a wrong option, with 130 after Ctrl-C.
        commands([word for word in arguments if word != "--debug"], prog_name="sheaves")
    except SheafError as error:
        _fail(str(error), error.exit_code, debug)
    except OSError as error:
        # A full disk or a closed door is nobody's bug.
        _fail(str(error), 1, debug)
    except Exception as error:
        if _lacks_memory(error):
            _fail(
                f"the memory of this machine is not enough ({_first_line(error)}): choose a "
                "smaller dim, batch_size or number of negatives.",
                1,
                debug,
            )
        _fail(
            f"this is a bug, please report it ({type(error).__name__}: {error}); "
            "run the command again with --debug to see where it happened.",
            1,
            debug,
        )


def _lacks_memory(error: Exception) -> bool:
    # Torch has no class of its own for this on a processor.
    return isinstance(error, MemoryError) or "can't allocate memory" in str(error)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _fail(sentence: str, exit_code: int, debug: bool) -> NoReturn:
    if debug:
        traceback.print_exc()
    print(f"sheaves: {printable(sentence)}", file=sys.stderr)
    sys.exit(exit_code)
