"""The addresses of the JSON interface."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse

from knowledge_sheaves.serve import forms
from knowledge_sheaves.serve.pool import Pool, Unanswered

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": forms.Problem, "description": words}
    for status, words in {
        400: "The question cannot be answered.",
        401: "A token is needed.",
        422: "The request has not the form that it should have.",
        503: "All workers are busy.",
        504: "It took too long.",
    }.items()
}
Ask = Callable[..., Awaitable[Response]]


def asking(pool: Pool, model: str) -> Ask:
    """A function that hands a job to a worker and gives its answer in JSON, whatever happens."""

    async def ask(job: str, **more: object) -> Response:
        try:
            said, body = await pool.ask({"job": job, "model": model, **more})
        except Unanswered as error:
            headers = {} if error.retry is None else {"Retry-After": str(error.retry)}
            return JSONResponse({"error": str(error)}, error.status, headers)
        if said["status"] != 200:
            return JSONResponse({"error": body.decode().strip()}, said["status"])
        return Response(body, media_type=said["media"])

    return ask


def interface(pool: Pool, model: str, prefix: str, described: bool) -> APIRouter:
    """The interface of one model below a prefix; whether OpenAPI tells of it."""
    router = APIRouter(
        prefix=f"{prefix}/api", responses=PROBLEMS, tags=[model], include_in_schema=described
    )
    ask = asking(pool, model)

    @router.get("/card", response_model=dict[str, dict[str, Any]])
    async def card() -> Response:
        """What the model is, what it was trained on and how, and how good it is."""
        return await ask("card")

    @router.get("/schema", response_model=forms.SchemaPage)
    async def schema() -> Response:
        """The types and relations, with how many entities and facts each has."""
        return await ask("schema")

    @router.get("/search", response_model=forms.FoundNames)
    async def search(
        text: Annotated[str, Query(max_length=1000)],
        kind: Annotated[Literal["entity", "relation", "type"] | None, Query()] = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 10,
    ) -> Response:
        """Names and labels that have a text in them, the best first: for every key that is hit."""
        return await ask("search", text=text, kind=kind, limit=limit)

    @router.get("/entity", response_model=forms.EntityPage)
    async def entity(
        name: Annotated[str, Query(min_length=1, max_length=1000)],
        top: Annotated[int, Query(ge=1, le=100)] = 10,
    ) -> Response:
        """An entity, by name, label or IRI, with its facts and its most likely missing facts."""
        return await ask("entity", name=name, top=top)

    @router.post("/answers", response_model=forms.AnswerList)
    async def answers(question: forms.Question) -> Response:
        """The best answers to a pattern by what is known and what is likely."""
        return await ask("answers", **question.model_dump())

    @router.post("/explanation", response_model=forms.Reasons)
    async def explanation(question: forms.Explained) -> Response:
        """The reasons for one answer to a query."""
        return await ask("explanation", **question.model_dump())

    @router.post("/fact", response_model=forms.FactReasons)
    async def fact(fact: forms.FactAsked) -> Response:
        """How likely a fact is, and what known paths join its ends, by the relations they take."""
        return await ask("fact", **fact.model_dump())

    @router.post("/drawing", response_model=forms.Drawing)
    async def drawing(question: forms.Drawn) -> Response:
        """A question as nodes and edges, for whoever draws it."""
        return await ask("drawing", **question.model_dump())

    return router
