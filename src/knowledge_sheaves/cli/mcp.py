"""`sheaves mcp`: a model for agents."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from knowledge_sheaves.cli.models import Folder, load_model
from knowledge_sheaves.cli.output import say


def mcp(
    model: Folder,
    http: Annotated[
        bool, typer.Option("--http", help="Over HTTP on this machine instead of stdin and stdout.")
    ] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port for --http.")] = 8765,
) -> None:
    """Let agents ask a model, by the Model Context Protocol.

    Five tools: find_entity, schema, ask, predict and explain. Over stdin and stdout, as agents
    start it themselves, or over HTTP at http://127.0.0.1:PORT/mcp.

    \b
    Example:
      sheaves mcp model/
    """
    try:
        from knowledge_sheaves.serve.agents import agent_server
    except ModuleNotFoundError as error:
        from knowledge_sheaves.errors import InputError

        raise InputError(
            f"The Model Context Protocol needs {error.name}: pip install 'knowledge-sheaves[mcp]'."
        ) from None
    from knowledge_sheaves.model import Model

    server = agent_server(Model(load_model(model)))
    transport: Literal["streamable-http", "stdio"] = "streamable-http" if http else "stdio"
    if not http:
        server.run(transport=transport)
        return
    say(f"Agents find it at http://127.0.0.1:{port}/mcp; Ctrl-C ends it.", err=True)
    server.run(transport="streamable-http", host="127.0.0.1", port=port)
