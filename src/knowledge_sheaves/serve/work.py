"""What a worker does: a job comes in, bytes and their media type go out."""

from __future__ import annotations

import math
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import psutil

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.errors import SheafError
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.query.budget import OutOfBudget
from knowledge_sheaves.query.full import Sparql
from knowledge_sheaves.query.options import Options
from knowledge_sheaves.serve import exploring, interface
from knowledge_sheaves.serve.frames import Head, receive, send
from knowledge_sheaves.serve.queries import describe, predicted, sparql
from knowledge_sheaves.serve.settings import Settings

ROOM = 1 << 30
"""Address space that a worker may take beyond twice the memory limit: much of it is never used."""

Reply = tuple[Head, bytes]
Job = Callable[[Asker, Settings, Mapping[str, Any]], Reply]
JOBS: dict[str, Job] = {
    "sparql": sparql,
    "predicted": predicted,
    "describe": describe,
    "card": interface.card,
    "schema": interface.schema,
    "search": interface.search,
    "entity": interface.entity,
    "answers": interface.answers,
    "explanation": interface.explanation,
    "fact": exploring.fact,
    "drawing": exploring.drawing,
}


class Desk:
    """The models by name, and what can be asked of them."""

    def __init__(self, models: Mapping[str, Asker], settings: Settings) -> None:
        self.models, self.settings = models, settings

    @classmethod
    def open(cls, settings: Settings) -> Desk:
        """Read the models."""
        options = Options(memory_limit=settings.memory_limit, time_limit=settings.time_limit)
        models = {
            name: Asker(Asker.load(folder).model.requires_grad_(False), options)
            for name, folder in settings.models.items()
        }
        return cls(models, settings)

    def warm(self) -> None:
        """Compute what is kept with a model once, before it is copied into workers."""
        for asker in self.models.values():
            Sparql(asker).run("ASK {}")
            interface.names_of(asker)
            for solver in ("chaining", "harmonic"):
                with suppress(SheafError):
                    _ask_anything(asker, solver)

    def work(self, line: socket.socket) -> None:
        """Do one job after another until the line is closed."""
        _bound_memory(self.settings.memory_limit)
        while (job := receive(line)) is not None:
            send(line, *self.handle(job[0] | {"body": job[1]}))

    def handle(self, job: Mapping[str, Any]) -> Reply:
        """Do one job; whatever goes wrong is a status and a sentence."""
        try:
            return JOBS[job["job"]](self.models[job["model"]], self.settings, job)
        except OutOfBudget as error:
            return _failed(504, str(error))
        except SheafError as error:
            return _failed(400, str(error))
        except MemoryError:
            return _failed(503, "The query needs more memory than its limit.")
        except Exception:
            traceback.print_exc(file=sys.stderr)
            return _failed(500, "This is a bug of the server, please report it.")


def warm_up() -> None:
    """Ask a toy: much of what answering needs is imported by the first answer."""
    graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    toy = Asker(SheafEmbedding(model_config("complex", dim=2), graph))
    Desk({"toy": toy}, Settings({})).warm()


def _failed(status: int, text: str) -> Reply:
    return {"status": status, "media": "text/plain; charset=utf-8"}, f"{text}\n".encode()


def _bound_memory(limit: int) -> None:
    """An allocation beyond the bound fails, and ends the worker rather than the machine."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        taken = psutil.Process().memory_info().vms
        most = taken + 2 * limit + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _ask_anything(asker: Asker, solver: str) -> None:
    from knowledge_sheaves.query.pattern import Query

    graph = asker.graph
    if not graph.num_triples:
        return
    head, relation, _ = graph.decode(graph.triples[:1])[0]
    query = Query.from_triples([(head, relation, "?x")], "?x", graph)
    wanted = asker.wanted(1)
    asker.solve([query], wanted, asker.options.but(solver=solver, time_limit=math.inf))
