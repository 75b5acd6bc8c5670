"""Comunica, which looks at what kind of source an address is before it asks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from serve_cases import Server

pytestmark = pytest.mark.slow

PACKAGE = "@comunica/query-sparql@5.4.1"
PROGRAM = """
const { QueryEngine } = require('@comunica/query-sparql');
const [query, value, type] = process.argv.slice(2);
(async () => {
  const sources = [type ? { type, value } : value];
  const found = await new QueryEngine().queryBindings(query, { sources });
  const rows = await found.toArray();
  const plain = row => Object.fromEntries([...row].map(([name, term]) => [name.value, term.value]));
  console.log(JSON.stringify(rows.map(plain)));
})();
"""


@pytest.fixture(scope="module")
def comunica(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with Comunica and a program that asks it."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("npm and node are not installed")
    version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    if int(version.strip().lstrip("v").partition(".")[0]) < 22:
        pytest.skip(f"Comunica needs node 22 or newer, and this is {version.strip()}")
    folder = tmp_path_factory.mktemp("comunica")
    command = [npm, "install", "--no-audit", "--no-fund", PACKAGE]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    if done.returncode:
        pytest.skip(f"npm could not install Comunica: {done.stderr[-300:]}")
    (folder / "ask.js").write_text(PROGRAM)
    return folder


def ask(folder: Path, query: str, source: str, *kind: str) -> list[dict[str, str]]:
    done = subprocess.run(
        ["node", "ask.js", query, source, *kind],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"NO_PROXY": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", [(), ("sparql",)])
def test_it_asks_for_facts(server: Server, comunica: Path, kind: tuple[str, ...]) -> None:
    query = "SELECT ?x ?y { ?x <urn:name:knows> ?y . ?y <urn:name:likes> <urn:name:Fargo> }"
    found = ask(comunica, query, f"{server.address}sparql", *kind)
    assert sorted((row["x"], row["y"]) for row in found) == [
        ("urn:name:Ann", "urn:name:Bob"),
        ("urn:name:Bob", "urn:name:Cy"),
    ]


def test_it_counts(server: Server, comunica: Path) -> None:
    found = ask(comunica, "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", f"{server.address}sparql")
    assert found == [{"n": "17"}]


def test_it_asks_for_predictions(server: Server, comunica: Path) -> None:
    query = "SELECT ?x { <urn:name:Ann> <urn:name:knows> ?x }"
    found = ask(comunica, query, f"{server.address}predicted", "sparql")
    assert {"x": "urn:name:Bob"} in found
    assert len(found) == 5
