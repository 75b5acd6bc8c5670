"""A conversation of an agent with a model, by the protocol's own client."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import knowledge_sheaves as ks
from knowledge_sheaves.graph import KnowledgeGraph

mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")

from knowledge_sheaves.serve.agents import MOST_CHARACTERS, agent_server  # noqa: E402

FACTS = [
    ("DB1", "treats", "D1"),
    ("DB2", "treats", "D2"),
    ("D1", "resembles", "D2"),
    ("D2", "resembles", "D1"),
    ("DB1", "causes", "S1"),
    ("DB3", "causes", "S1"),
    ("DB3", "treats", "D2"),
]
LABELS = {"DB1": "Salbutamol", "DB2": "Aspirin", "D1": "asthma", "D2": "bronchitis", "S1": "nausea"}


@pytest.fixture(scope="module")
def model() -> ks.Model:
    graph = KnowledgeGraph.from_triples(FACTS, labels=LABELS)
    return ks.train(graph, dim=8, epochs=20, batch_size=8)


@pytest.fixture
def call(model: ks.Model) -> Callable[..., str]:
    """Call a tool as an agent does and give its text."""

    def tool(name: str, **arguments: Any) -> str:
        return anyio.run(_call, agent_server(model), name, arguments)

    return tool


async def _call(server: Any, name: str, arguments: dict[str, Any]) -> str:
    async with mcp.Client(server) as client:
        result = await client.call_tool(name, arguments)
        return "".join(part.text for part in result.content)


def test_a_conversation(call: Callable[..., str]) -> None:
    found = call("find_entity", text="astma")
    assert found.startswith("asthma (D1)")
    relations = call("schema")
    assert "treats: 3 facts" in relations.splitlines()
    assert "facts, for instance" in call("schema", relation="treats")
    query = 'SELECT ?drug { ?drug :treats ?d . ?d :resembles "asthma" }'
    answers = call("ask", query=query, top=3)
    assert len(answers) < MOST_CHARACTERS
    first, second = answers.splitlines()[:2]
    named = {line.split(". ", 1)[1].split(":")[0] for line in (first, second)}
    assert named == {"Aspirin (DB2)", "DB3"}
    assert ": known, since" in first
    assert "bronchitis resembles asthma (known)" in first
    why = call("explain", query=query, answer="Salbutamol")
    assert "Salbutamol" in why
    assert "treats" in why


def test_what_is_wrong_is_said(call: Callable[..., str]) -> None:
    said = call("ask", query="SELECT ?x { ?x :treat :D1 }")
    assert said.startswith("Error: ")
    assert "did you mean 'treats'" in said
    assert call("ask", query="SELECT").startswith("Error: ")
    assert call("find_entity", text="zzzzzz").startswith("Nothing is called 'zzzzzz'")
    assert call("predict", head="DB1").startswith("Error: ")
    both = "SELECT ?x ?y { ?x :treats ?y }"
    assert "one variable" in call("explain", query=both, answer="asthma")


def test_facts_and_predictions_are_told_apart(call: Callable[..., str]) -> None:
    assert call("ask", query="ASK { :DB1 :treats :D1 }") == "yes: the facts hold it"
    rows = call("predict", head="Salbutamol", relation="treats").splitlines()
    assert "asthma (D1): known" in rows
    assert any(": predicted, probability 0." in row for row in rows)
    new = call("predict", head="Salbutamol", relation="treats", new=True)
    assert "asthma" not in new


def test_long_results_are_cut_and_say_so() -> None:
    rows = [
        (f"entity with quite a long name, and it goes on {i:05}", "r", "centre") for i in range(200)
    ]
    model = ks.train(KnowledgeGraph.from_triples(rows), dim=4, epochs=1)
    call = anyio.run(
        _call, agent_server(model), "predict", {"relation": "r", "tail": "centre", "top": 50}
    )
    assert len(call) <= MOST_CHARACTERS
    assert call.endswith("(more was cut: ask for fewer)")


def test_over_stdio(model: ks.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    words = ["-m", "knowledge_sheaves", "mcp", str(tmp_path / "model")]

    # The client hands on only a few variables; where the package lies may be another.
    server = mcp.StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))

    async def talk() -> tuple[list[str], str]:
        async with mcp.Client(server) as client:
            tools = await client.list_tools()
            result = await client.call_tool("find_entity", {"text": "bron"})
            return [tool.name for tool in tools.tools], result.content[0].text

    names, text = anyio.run(talk)
    assert names == ["find_entity", "schema", "ask", "predict", "explain"]
    assert text.startswith("bronchitis (D2)")


@contextmanager
def over_http(folder: Path) -> Iterator[str]:
    """Start `sheaves mcp --http`, and give its address once it listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [
        sys.executable,
        "-m",
        "knowledge_sheaves",
        "mcp",
        folder,
        "--http",
        "--port",
        str(port),
    ]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said: list[str] = []
    try:
        for line in process.stderr:
            said.append(line)
            if "Uvicorn running" in line:
                break
        else:
            pytest.fail(f"it ended: {''.join(said)}")
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_a_conversation_over_http(model: ks.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    query = 'SELECT ?drug { ?drug :treats ?d . ?d :resembles "asthma" }'
    calls: list[tuple[str, dict[str, Any]]] = [
        ("find_entity", {"text": "bronchitsi"}),
        ("schema", {}),
        ("ask", {"query": query, "top": 3}),
        ("explain", {"query": query, "answer": "Aspirin"}),
        ("ask", {"query": "SELECT ?x { ?x :treat :D1 }"}),
    ]

    async def talk(address: str) -> list[str]:
        async with mcp.Client(address) as client:
            results = [await client.call_tool(name, given) for name, given in calls]
            return ["".join(part.text for part in result.content) for result in results]

    with over_http(tmp_path / "model") as address:
        found, schema, answers, why, wrong = anyio.run(talk, address)
    assert found.startswith("bronchitis (D2)")
    assert "treats: 3 facts" in schema.splitlines()
    assert ": known, since" in answers
    assert "bronchitis resembles asthma (known)" in answers
    assert "Aspirin" in why
    assert max(map(len, (found, schema, answers, why))) < MOST_CHARACTERS
    assert wrong.startswith("Error: ")
    assert "did you mean 'treats'" in wrong
