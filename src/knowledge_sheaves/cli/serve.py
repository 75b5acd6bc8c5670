"""`sheaves serve`: a SPARQL endpoint and a JSON interface for models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from knowledge_sheaves.cli.output import say


def serve(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="The folders of trained models.")
    ],
    host: Annotated[str, typer.Option(help="Where to listen; by default only here.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes one that is free.")] = 8000,
    workers: Annotated[
        int | None, typer.Option(min=1, help="How many queries run at once; one a core.")
    ] = None,
    time_limit: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="A query is ended after so long.")
    ] = 30.0,
    memory_limit: Annotated[
        int, typer.Option(min=1, metavar="MB", help="Megabytes a query may use beside the model.")
    ] = 512,
    queue: Annotated[int, typer.Option(min=0, help="How many requests may wait.")] = 64,
    top: Annotated[int, typer.Option(min=1, help="Answers to a query without LIMIT.")] = 100,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Clients must send the token in it.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Let other machines ask without a token.")
    ] = False,
    log_queries: Annotated[
        bool, typer.Option("--log-queries", help="Write the text of queries to the log.")
    ] = False,
) -> None:
    """Answer queries over HTTP until Ctrl-C, by workers that are ended when they take too long.

    /sparql takes all of SPARQL over the facts, with blocks of predictions; at /predicted every
    pattern means what is known and what is likely. With several models each has addresses of its
    own, /NAME/sparql. The log is a line of JSON for each request on stderr.

    \b
    Examples:
      sheaves serve model/
      sheaves serve umls/ nell/ --host 0.0.0.0 --token-file token.txt
    """
    from knowledge_sheaves.serve.running import address_of, listening, run
    from knowledge_sheaves.serve.settings import Settings, check_open, named, read_token

    token = None if token_file is None else read_token(token_file)
    check_open(host, token, public)
    more = {} if workers is None else {"workers": workers}
    settings = Settings(
        named(models),
        time_limit=time_limit,
        memory_limit=memory_limit << 20,
        queue=queue,
        top=top,
        **more,
    )
    sock = listening(host, port)
    run(
        settings,
        sock,
        token=token,
        log_queries=log_queries,
        on_ready=lambda: say(f"Serving {', '.join(settings.models)} at {address_of(sock)}"),
    )
