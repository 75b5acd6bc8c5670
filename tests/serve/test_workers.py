"""Workers, limits and the house: what happens when there is too much, or something goes wrong."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from serve_cases import EX, Server, save_model, serving

KNOWS = {"query": "SELECT ?x { :Ann :knows ?x }"}
TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A server with two models, one worker, a token, and queries in its log."""
    folder = tmp_path_factory.mktemp("two")
    for name in ("one", "two"):
        save_model(folder / name)
    (folder / "token").write_text(TOKEN)
    options = ("--workers", "1", "--token-file", folder / "token", "--log-queries")
    with serving(folder / "one", folder / "two", *options) as started:
        yield started, folder


def workers(server: Server) -> list[psutil.Process]:
    """The processes that answer."""
    (root,) = psutil.Process(server.process.pid).children()
    dead = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    broods = [each for each in root.children() if each.status() not in dead]
    return [each for brood in broods for each in brood.children() if each.status() not in dead]


def eventually(holds: object, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def test_the_house_says_how_it_is(client: httpx.Client) -> None:
    for address in ("/health", "/ready"):
        assert client.get(address).status_code == client.head(address).status_code == 200
    client.get("/predicted", params=KNOWS)
    client.get("/never/heard/of")
    counted = client.get("/metrics").text
    assert 'sheaves_requests_total{route="/predicted",status="200"}' in counted
    assert 'sheaves_requests_total{route="other",status="404"}' in counted
    assert "heard" not in counted  # whoever asks for thousands of addresses fills nothing
    assert 'sheaves_request_seconds_bucket{le="0.1",route="/predicted"}' in counted


def test_answers_do_not_wait_for_a_packet_to_fill(client: httpx.Client) -> None:
    times = []
    for _ in range(20):
        start = time.perf_counter()
        client.get("/health")
        times.append(time.perf_counter() - start)
    assert min(times) < 0.03  # Nagle's algorithm would make each of them take 40 ms


def test_a_worker_that_dies_is_replaced(server: Server, client: httpx.Client) -> None:
    before = workers(server)
    assert len(before) == 2
    for worker in before:
        worker.send_signal(signal.SIGKILL)
    found = [client.get("/predicted", params=KNOWS).status_code for _ in range(3)]
    assert set(found) <= {200, 503}
    eventually(lambda: client.get("/predicted", params=KNOWS).status_code == 200)
    eventually(lambda: len(workers(server)) == 2 and not set(before) & set(workers(server)))


def test_a_worker_that_takes_too_long_is_ended_and_others_never_notice(
    server: Server, client: httpx.Client
) -> None:
    stuck, other = workers(server)
    stuck.send_signal(signal.SIGSTOP)
    started = time.monotonic()
    with ThreadPoolExecutor(8) as threads:
        asked = [
            threads.submit(httpx.get, f"{server.address}predicted", params=KNOWS, timeout=30)
            for _ in range(8)
        ]
        found = sorted(each.result().status_code for each in asked)
    assert found == [200] * 7 + [504]
    assert 2 < time.monotonic() - started < 8
    eventually(lambda: stuck not in workers(server) and len(workers(server)) == 2)
    assert other in workers(server)
    assert 'sheaves_workers_ended_total{why="deadline"}' in client.get("/metrics").text


def test_beyond_the_queue_requests_are_sent_away(server: Server) -> None:
    for worker in workers(server):
        worker.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(20) as threads:
        asked = [
            threads.submit(httpx.get, f"{server.address}predicted", params=KNOWS, timeout=30)
            for _ in range(20)
        ]
        eventually(lambda: sum(each.done() for each in asked) >= 10)
        for worker in workers(server):
            worker.send_signal(signal.SIGCONT)
        found = [each.result() for each in asked]
    away = [each for each in found if each.status_code == 503]
    assert len(away) >= 10
    assert all(int(each.headers["retry-after"]) >= 1 for each in away)
    assert {each.status_code for each in found} == {200, 503}


def test_nobody_works_for_a_client_that_has_left(server: Server, client: httpx.Client) -> None:
    def worked() -> int:
        counted = client.get("/metrics").text
        return int(float(counted.partition("sheaves_work_seconds_count ")[2].split()[0]))

    def inside() -> int:
        counted = client.get("/metrics").text
        return int(float(counted.partition("\nsheaves_requests_inside ")[2].split()[0]))

    eventually(lambda: len(workers(server)) == 2 and inside() == 0)
    before = worked()
    for worker in workers(server):
        worker.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(2) as threads:
        address = f"{server.address}predicted"
        asked = [threads.submit(httpx.get, address, params=KNOWS, timeout=30) for _ in range(2)]
        eventually(lambda: inside() == 2)
        for _ in range(3):
            with pytest.raises(httpx.ReadTimeout):
                httpx.get(address, params=KNOWS, timeout=0.1)
        for worker in workers(server):
            worker.send_signal(signal.SIGCONT)
        assert [each.result().status_code for each in asked] == [200, 200]
    eventually(lambda: inside() == 0)
    assert worked() == before + 2


def test_a_token_is_needed(other: tuple[Server, Path]) -> None:
    address = other[0].address
    asked = f"{address}one/predicted"
    assert httpx.get(f"{address}health").status_code == 200
    for headers in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": "Basic !!!"},
        {"authorization": TOKEN},
    ):
        found = httpx.get(asked, params=KNOWS, headers=headers)
        assert found.status_code == 401
        # One header for each way: browsers do not read the second of two in one.
        assert found.headers.get_list("www-authenticate") == ['Basic realm="sheaves"', "Bearer"]
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert httpx.get(asked, params=KNOWS, headers=bearer).status_code == 200
    assert httpx.get(asked, params=KNOWS, auth=("anybody", TOKEN)).status_code == 200
    assert httpx.get(f"{address}metrics").status_code == 401


def test_each_of_several_models_has_its_address(other: tuple[Server, Path]) -> None:
    server, _ = other
    with httpx.Client(base_url=server.address, auth=("", TOKEN)) as client:
        for name in ("one", "two"):
            assert client.get(f"/{name}/predicted", params=KNOWS).status_code == 200
        assert client.get("/predicted", params=KNOWS).status_code == 404


def test_a_model_that_is_replaced_is_taken_up_and_no_request_is_lost(
    other: tuple[Server, Path],
) -> None:
    server, folder = other
    query = {"query": "SELECT ?x { :Lucas :knows ?x } LIMIT 1".replace(":Lucas", f"<{EX}Lucas>")}
    with httpx.Client(base_url=server.address, auth=("", TOKEN), timeout=30) as client:

        def answer() -> str:
            found = client.get("/one/predicted", params=query)
            assert found.status_code == 200, found.text
            return str(found.json()["results"]["bindings"][0]["x"]["value"])

        for name in ("Ann", "Cy"):
            save_model(folder / "one", [(f"{EX}Lucas", "knows", name)])
            eventually(lambda name=name: answer() == f"urn:name:{name}", 120)
        (folder / "broken").write_text("{")
        (folder / "broken").replace(folder / "one" / "config.json")
        eventually(lambda: any("models not read" in line for line in server.log), 120)
        assert answer() == "urn:name:Cy"
        assert client.get("/ready").status_code == 200


def test_the_log_is_json_and_has_queries_where_that_was_asked_for(
    server: Server, other: tuple[Server, Path], client: httpx.Client
) -> None:
    httpx.get(f"{other[0].address}two/predicted", params=KNOWS, auth=("", TOKEN))
    client.get("/predicted", params=KNOWS)
    client.get("/predicted", params={"query": "ASK { :Ann :knows :secretname }"})
    eventually(lambda: any("Ann" in line for line in other[0].log))
    for log in (server.log, other[0].log):
        requests = [json.loads(line) for line in log if '"request"' in line]
        assert {"time", "method", "route", "status", "ms"} <= requests[-1].keys()
    assert not any("Ann" in line or "secretname" in line for line in server.log)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "is not a model"),
        (["films", "--host", "0.0.0.0"], "give a --token-file, or say --public"),
        (["films", "--token-file", "short"], "at least 16 letters"),
        (["films", "--token-file", "nowhere"], "cannot be read"),
        (["films", "./films"], "would both be served as /films: rename one"),
        (["health"], "is no address for a model"),
        (["short"], "is not a model"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(
    model_folder: Path, arguments: list[str], sentence: str, tmp_path: Path
) -> None:
    from typer.testing import CliRunner

    from knowledge_sheaves.cli.app import app
    from knowledge_sheaves.errors import InputError

    before = Path.cwd()
    (model_folder.parent / "short").write_text("abc")
    (model_folder.parent / "health").mkdir(exist_ok=True)
    os.chdir(model_folder.parent)
    try:
        found = CliRunner().invoke(app, ["serve", *arguments, "--port", "0"])
    finally:
        os.chdir(before)
    assert isinstance(found.exception, InputError)
    assert sentence in str(found.exception)


def test_running_queries_finish_before_the_server_goes(other: tuple[Server, Path]) -> None:
    server, _ = other
    (worker,) = workers(server)
    family = psutil.Process(server.process.pid).children(recursive=True)
    worker.send_signal(signal.SIGSTOP)
    address = f"{server.address}two/predicted"
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(httpx.get, address, params=KNOWS, auth=("", TOKEN), timeout=30)
        time.sleep(0.5)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        worker.send_signal(signal.SIGCONT)
        assert asked.result().status_code == 200
    assert server.process.wait(10) == 0
    assert not psutil.wait_procs(family, timeout=10)[1]
