"""Options that many commands share and none has to know: how tables look, and quiet."""

from __future__ import annotations

import functools
import inspect
import io
from collections.abc import Callable
from contextlib import nullcontext, redirect_stderr
from typing import Annotated, Any, Literal

import typer

from knowledge_sheaves.cli.output import FORMATS, STYLE, Style

Format = Annotated[
    Literal["table", "csv", "tsv", "json", "markdown"], typer.Option(help="How to print tables.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print results alone: no notes, no progress.")
]


def with_style(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with --quiet, and with --format where it can print a table.

    `--json` of a command is short for `--format json`; one that has forms of its own (``form``)
    calls them by the same option.
    """
    own = inspect.signature(command, eval_str=True)
    added: dict[str, tuple[Any, Any]] = {"quiet": (Quiet, False)}
    if "as_json" in own.parameters and "form" not in own.parameters:
        added = {"format": (Format, "table"), **added}
    keyword = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter(name, keyword, default=default, annotation=kind)
        for name, (kind, default) in added.items()
        if name not in own.parameters
    ]

    @functools.wraps(command)
    def styled(**options: Any) -> None:
        chosen = {each.name: options.pop(each.name) for each in more}
        wanted = chosen.get("format", options.get("form"))
        style = Style(wanted if wanted in FORMATS else "table", chosen.get("quiet", False))
        if style.format == "json":
            options["as_json"] = True
        # What goes wrong is said when the command has ended.
        silence = redirect_stderr(io.StringIO()) if style.quiet else nullcontext()
        token = STYLE.set(style)
        try:
            with silence:
                command(**options)
        finally:
            STYLE.reset(token)

    parameters = [*own.parameters.values(), *more]
    styled.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    styled.__annotations__ = {each.name: each.annotation for each in parameters}
    return styled
