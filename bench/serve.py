"""How fast a server answers, beside the same calls in process, and what it does when overloaded.

A model of NELL's size (63,361 entities, 400 relations; ``--model`` takes a trained one). For each
shape of query and each solver: how long one query takes in process and over HTTP, and how many
queries a second as many clients get as there are workers. Facts are asked of Oxigraph alone and of
the server. Then requests come at twice the rate that the server can bear, whether they are answered
or not: only 200 and 503 may come back, memory must not grow, and every answer must be the one that
is given in process.

Run with ``make bench`` or ``python bench/serve.py [--model FOLDER] [--overload SECONDS]``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import psutil
import torch

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.graph import KnowledgeGraph, Schema
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.query.full import Sparql
from knowledge_sheaves.query.language.iris import name_of
from knowledge_sheaves.query.language.names import sparql_name

ENTITIES, RELATIONS, DIM = 63_361, 400, 128
SHAPES = {
    "1p": "{a} {r} ?x",
    "2p": "{a} {r} ?y . ?y {s} ?x",
    "2i": "{a} {r} ?x . {b} {s} ?x",
    "pi": "{a} {r} ?y . ?y {s} ?x . {b} {t} ?x",
}
SOLVERS = ("harmonic", "chaining")
WORKERS = 2


def random_model(folder: Path) -> None:
    """A model of NELL's size that nobody trained."""
    rows = np.random.default_rng(0).integers(0, [ENTITIES, RELATIONS, ENTITIES], (200_000, 3))
    schema = Schema.single([f"r{place}" for place in range(RELATIONS)])
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=schema, num_entities=ENTITIES)
    SheafEmbedding(model_config("complex", dim=DIM, init=0.1), graph).save(folder)


def questions(graph: KnowledgeGraph, shape: str, count: int, seed: int) -> list[str]:
    """Queries that have an answer among the facts: walks along triples that are there."""
    rng = np.random.default_rng(seed)
    rows, found = graph.triples, []
    while len(found) < count:
        first, r, middle = (int(part) for part in rows[rng.integers(len(rows))])
        after = rows[rows[:, 0] == (middle if "?y" in SHAPES[shape] else first)]
        if not len(after):
            continue
        s, x = (int(part) for part in after[rng.integers(len(after))][1:])
        target = x if "?y" in SHAPES[shape] else middle
        other = rows[rows[:, 2] == target]
        b, t = (int(part) for part in other[rng.integers(len(other))][:2])
        s = t if shape == "2i" else s
        edges = {n: graph.schema.relations[e].name for n, e in zip("rst", (r, s, t), strict=True)}
        said = {n: graph.entities[e] for n, e in zip("ab", (first, b), strict=True)} | edges
        body = SHAPES[shape].format(**{n: sparql_name(str(name)) for n, name in said.items()})
        found.append(f"SELECT ?x {{ {body} }} LIMIT 10")
    return found


@contextmanager
def serving(folder: Path, queue: int = 16) -> Iterator[tuple[int, psutil.Process]]:
    """A server in processes of its own."""
    command = [sys.executable, "-m", "knowledge_sheaves", "serve", str(folder), "--port", "0"]
    command += ["--workers", str(WORKERS), "--queue", str(queue)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found, "the server did not start"
        try:
            yield int(found[1]), psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)


def asked_for(query: str, solver: str) -> bytes:
    """A question to the JSON interface as it goes over the line."""
    body = json.dumps({"query": query, "solver": solver}).encode()
    head = "POST /api/answers HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def asked_of_facts(query: str) -> bytes:
    """A query over facts as it goes over the line."""
    return f"GET /sparql?query={quote(query)} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


class Client:
    """One connection that stays open, and as little work besides as a load generator has."""

    def __init__(self, port: int) -> None:
        self.line = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> bytes:
        """Send a request, and wait for the last byte of its answer."""
        self.line.sendall(request)
        found = self.line.recv(1 << 16)
        while b"\r\n\r\n" not in found:
            found += self.line.recv(1 << 16)
        head, _, body = found.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), found
        size = int(re.search(rb"(?i)content-length: (\d+)", head)[1])  # type: ignore[index]
        while len(body) < size:
            body += self.line.recv(1 << 16)
        return body

    def answers(self, query: str, solver: str) -> list[str]:
        """The names of the answers by the JSON interface."""
        found = json.loads(self.send(asked_for(query, solver)))
        return [each["values"]["x"]["name"] for each in found["answers"]]


Job = tuple[Callable[[Any], object], Sequence[Any]]


def timed(*jobs: Job, block: int = 20) -> list[list[float]]:
    """Milliseconds of each job for each of its questions; the first five do not count.

    Jobs take turns in blocks, so that a machine that is slower for a while is so for all. Turns
    for every question would take from each what it has in its core's cache.
    """
    times: list[list[float]] = [[] for _ in jobs]
    for first in range(0, len(jobs[0][1]), block):
        for (job, asked), spent in zip(jobs, times, strict=True):
            for question in asked[first : first + block]:
                start = time.perf_counter()
                job(question)
                spent.append(1000 * (time.perf_counter() - start))
    return [spent[5:] for spent in times]


def added(outside: Sequence[float], inside: Sequence[float]) -> float:
    """What is added at the median, query by query: some take ten times as long as others."""
    return statistics.median(o - i for o, i in zip(outside, inside, strict=True))


def at(times: Sequence[float], percent: int) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[percent - 1]


def rate(port: int, asked: Sequence[str], solver: str, seconds: float) -> float:
    """Queries a second of as many clients as there are workers."""
    requests = [asked_for(query, solver) for query in asked]
    done, end = [0] * WORKERS, time.monotonic() + seconds

    def run(place: int) -> None:
        client, number = Client(port), place
        while time.monotonic() < end:
            client.send(requests[number % len(asked)])
            done[place] += 1
            number += WORKERS

    threads = [threading.Thread(target=run, args=(place,)) for place in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / seconds


def latencies(port: int, asker: Asker, count: int, seconds: float) -> None:
    print(
        "| query | solver | in process p50 | HTTP p50 | p95 | p99 | HTTP adds | queries a second |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for shape in SHAPES:
        asked = questions(asker.graph, shape, count + 5, seed=1)
        for solver in SOLVERS:
            client = Client(port)

            def mine(query: str, solver: str = solver) -> list[str]:
                return [answer.names[0] for answer in asker.answer(query, solver=solver)]

            for query in asked[:5]:
                assert mine(query) == client.answers(query, solver), "the answers differ"
            requests = [asked_for(query, solver) for query in asked]
            outside, inside = timed((client.send, requests), (mine, asked))
            print(
                f"| {shape} | {solver} | {at(inside, 50):.1f} | {at(outside, 50):.1f} | "
                f"{at(outside, 95):.1f} | {at(outside, 99):.1f} | {added(outside, inside):.1f} | "
                f"{rate(port, asked, solver, seconds):.0f} |",
                flush=True,
            )


def facts(port: int, asker: Asker, count: int) -> None:
    """Facts by Oxigraph alone and by the server."""
    client, engine = Client(port), Sparql(asker)
    print("| facts | Oxigraph alone p50 | in process p50 | HTTP p50 | best |")
    print("|---|---:|---:|---:|---:|")
    for shape in SHAPES:
        asked = questions(asker.graph, shape, count + 5, seed=2)
        prefixed = [f"PREFIX : <urn:name:> {query}" for query in asked]
        alone, inside, outside = timed(
            (lambda query: list(_alone(engine, query)), prefixed),
            (engine.run, asked),
            (client.send, [asked_of_facts(query) for query in asked]),
        )
        print(
            f"| {shape} | {at(alone, 50):.2f} | {at(inside, 50):.2f} | {at(outside, 50):.2f} | "
            f"{min(outside):.2f} |"
        )


def _alone(engine: Sparql, query: str) -> Iterator[object]:
    written = re.sub(r"<(?!urn:|http)([^>]*)>", lambda m: f"<urn:name:{quote(m[1])}>", query)
    yield from engine.facts.store.query(written)


def front(port: int, server: psutil.Process, count: int = 500) -> float:
    """Milliseconds of processor time that a request takes in the process that reads HTTP."""
    client, before = Client(port), sum(server.cpu_times()[:2])
    for _ in range(count):
        client.send(asked_of_facts("ASK {}"))
    return 1000 * (sum(server.cpu_times()[:2]) - before) / count


def memory(server: psutil.Process) -> float:
    """Megabytes that the server and its workers have for themselves."""
    family = [server, *server.children(recursive=True)]
    return sum(each.memory_full_info().uss for each in family) / 2**20


async def request(port: int, query: str) -> tuple[int, bytes]:
    """One request on a line of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    line = f"GET /predicted?query={quote(query)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    writer.write(line.encode())
    found = await reader.read()
    writer.close()
    head, _, body = found.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


async def overload(
    port: int, server: psutil.Process, asker: Asker, capacity: float, seconds: float
) -> None:
    """Requests at twice the capacity, come what may."""
    asked = questions(asker.graph, "2p", 50, seed=3)
    expected = {}
    for query in asked:
        expected[query] = [answer.names[0] for answer in asker.answer(query)]
    statuses: Counter[int] = Counter()
    wrong = 0

    async def one(query: str) -> None:
        nonlocal wrong
        status, body = await request(port, query)
        statuses[status] += 1
        if status == 200:
            rows = json.loads(body)["results"]["bindings"]
            wrong += [name_of(row["x"]["value"]) for row in rows] != expected[query]

    pause, tasks, number = 1 / (2 * capacity), set(), 0
    start = time.monotonic()
    before = 0.0
    while time.monotonic() - start < seconds:
        task = asyncio.create_task(one(asked[number % len(asked)]))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        number += 1
        if not before and time.monotonic() - start > seconds / 4:
            before = memory(server)
        await asyncio.sleep(max(0.0, start + number * pause - time.monotonic()))
    await asyncio.gather(*tasks)
    after = memory(server)
    print(
        f"twice the capacity ({2 * capacity:.0f} requests a second) for {seconds:.0f} s: "
        f"{statuses[200]:,} answered, {statuses[503]:,} sent away, "
        f"{sum(statuses.values()) - statuses[200] - statuses[503]} others, {wrong} wrong; "
        f"memory {before:.0f} MB after a quarter, {after:.0f} MB at the end "
        f"({100 * (after / before - 1):+.1f} %, goal: within 5)"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--overload", type=float, default=15)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    with tempfile.TemporaryDirectory() as place:
        folder = given.model or Path(place) / "nell"
        if given.model is None:
            random_model(folder)
        asker = Asker.load(folder)
        with serving(folder) as (port, server):
            print(f"{asker.graph.num_entities:,} entities, {WORKERS} workers, milliseconds")
            latencies(port, asker, given.queries, given.seconds)
            facts(port, asker, given.queries)
            print(f"the server takes {front(port, server):.1f} ms of a core beside its workers")
            capacity = rate(
                port, questions(asker.graph, "2p", 50, seed=3), "chaining", given.seconds
            )
            asyncio.run(overload(port, server, asker, capacity, given.overload))


if __name__ == "__main__":
    main()
