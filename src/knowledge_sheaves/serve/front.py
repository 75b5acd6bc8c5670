"""The page to explore in: its files, and the rules that browsers are to keep with it.

The files are made from the sources in `page/` when the package is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from starlette.responses import Response as AnyResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).parent / "page"
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # it may be kept, and is asked for again: an update shows at once
}
UNMADE = "The page was not made yet: `make page` does it, or `python page/make_page.py`.\n"
BOTH = ["GET", "HEAD"]


class Files(StaticFiles):
    """The page's script and style, with the rules."""

    async def get_response(self, path: str, scope: Scope) -> AnyResponse:
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response


def add_page(app: FastAPI, prefix: str, model: str) -> None:
    """Show the page of a model at a prefix; all that it asks for lies below that."""

    @app.api_route(f"{prefix}/", methods=BOTH, include_in_schema=False)
    async def page(request: Request) -> Response:
        index = FOLDER / "index.html"
        if not index.is_file():
            return PlainTextResponse(UNMADE, 404)
        text = index.read_text(encoding="utf-8").replace("{{model}}", escape(model))
        return HTMLResponse(text, headers=HEADERS)

    app.mount(f"{prefix}/page", Files(directory=FOLDER, check_dir=False))


def add_models(app: FastAPI, names: Sequence[str]) -> None:
    """Show at the root which models there are."""
    links = "".join(f'<li><a href="{escape(name)}/">{escape(name)}</a></li>' for name in names)
    style = f"{escape(names[0])}/page/app.css"
    text = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Knowledge Sheaves</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><link rel="stylesheet" href="{style}">'
        '<main class="home"><h1>Knowledge Sheaves</h1><p class="lead">Choose a model to explore.'
        f'<ul class="cloud">{links}</ul></main></html>'
    )

    @app.api_route("/", methods=BOTH, include_in_schema=False)
    async def models() -> Response:
        return HTMLResponse(text, headers=HEADERS)
