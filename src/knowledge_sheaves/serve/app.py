"""The server's addresses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route

from knowledge_sheaves import __version__
from knowledge_sheaves.serve.api import interface
from knowledge_sheaves.serve.frames import Head
from knowledge_sheaves.serve.front import add_models, add_page
from knowledge_sheaves.serve.gate import Gate
from knowledge_sheaves.serve.pool import Pool, Unanswered
from knowledge_sheaves.serve.protocol import BadRequest, asked

PLAIN = "text/plain; charset=utf-8"
Handler = Callable[[Request], Awaitable[Response]]


def make_app(pool: Pool, token: str | None = None, log_queries: bool = False) -> FastAPI:
    """The application that answers with the models of a pool."""
    app = FastAPI(
        title="Knowledge Sheaves",
        version=__version__,
        description="Answers over facts and over what is missing from them.",
        docs_url=None,
        redoc_url=None,
    )
    names = list(pool.settings.models)
    for name in names:
        prefixes = ["", f"/{name}"] if len(names) == 1 else [f"/{name}"]
        for prefix in prefixes:
            # Routers that are included are looked through twice for every request: a list is not.
            app.router.routes += _sparql(pool, name, prefix)
            app.router.routes += interface(pool, name, prefix, prefix == prefixes[0]).routes
            add_page(app, prefix, name)
    if len(names) > 1:
        add_models(app, names)
    app.router.routes += _house(pool)
    app.add_exception_handler(Unanswered, _unanswered)
    app.add_exception_handler(BadRequest, _bad_request)
    app.add_exception_handler(RequestValidationError, _misshapen)
    app.add_exception_handler(HTTPException, _refused)
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)
    addresses = frozenset(route.path for route in app.routes if isinstance(route, Route))
    app.add_middleware(*(Gate, token, pool.metrics), log_queries=log_queries, addresses=addresses)
    # Outside of all: a browser must be able to read that it lacks a token.
    app.add_middleware(
        CORSMiddleware,
        allow_origins=["*"],
        allow_methods=["GET", "HEAD", "POST"],
        allow_headers=["*"],
        expose_headers=["Retry-After", "Sheaves-Notes"],
        max_age=86400,
    )
    return app


def _sparql(pool: Pool, model: str, prefix: str) -> list[Route]:
    methods = ["GET", "HEAD", "POST"]
    return [
        Route(f"{prefix}/{job}", _endpoint(pool, model, job), methods=methods)
        for job in ("sparql", "predicted")
    ]


def _endpoint(pool: Pool, model: str, job: str) -> Handler:
    async def answer(request: Request) -> Response:
        body = await request.body()
        said = asked(request.method, request.headers, request.url.query.encode(), body)
        if said.query is None:
            address = str(request.url.replace(query=""))
            head = {"job": "describe", "model": model, "address": address}
            return await _ask(pool, request, head)
        request.state.query = said.query
        head = {"job": job, "model": model, **vars(said)}
        text = head.pop("query").encode("utf-8", "replace")
        return await _ask(pool, request, head, text)

    return answer


async def _ask(pool: Pool, request: Request, head: Head, body: bytes = b"") -> Response:
    said, content = await pool.ask(head, body, request.is_disconnected)
    headers = {"Vary": "Accept"}
    if said.get("notes"):
        headers["Sheaves-Notes"] = said["notes"].encode("ascii", "replace").decode()
    return Response(content, said["status"], headers=headers, media_type=said["media"])


def _house(pool: Pool) -> list[Route]:
    async def health(request: Request) -> Response:
        return Response("ok\n", media_type=PLAIN)

    async def ready(request: Request) -> Response:
        if pool.ready:
            return Response("ready\n", media_type=PLAIN)
        return Response("not ready\n", 503, media_type=PLAIN)

    async def metrics(request: Request) -> Response:
        return Response(pool.metrics.text(), media_type=pool.metrics.content_type)

    return [Route(f"/{house.__name__}", house) for house in (health, ready, metrics)]


async def _unanswered(request: Request, error: Exception) -> Response:
    assert isinstance(error, Unanswered)
    headers = {} if error.retry is None else {"Retry-After": str(error.retry)}
    return Response(f"{error}\n", error.status, headers=headers, media_type=PLAIN)


async def _misshapen(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return JSONResponse({"error": f"{where}: {first['msg']}."}, 422)


async def _refused(request: Request, error: Exception) -> Response:
    """What Starlette refuses by itself: an address that is none, a method that it has not."""
    assert isinstance(error, HTTPException)
    why = f"{request.method} {request.url.path}: {error.detail}. /openapi.json lists the addresses."
    return JSONResponse({"error": why}, error.status_code, error.headers)


async def _bad_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, BadRequest)
    # The rest of a body that came too slowly or was too long is not waited for.
    headers = {"Connection": "close"} if error.status in (408, 413) else {}
    return Response(f"{error}\n", error.status, headers=headers, media_type=PLAIN)
