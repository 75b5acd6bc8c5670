"""The commands themselves: version, help, and every example that a help text shows."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import knowledge_sheaves
from knowledge_sheaves.cli.app import app

runner = CliRunner()
SERVERS = ("mcp", "serve")


def command_names() -> list[str]:
    return sorted(typer.main.get_group(app).commands)


def examples() -> list[tuple[str, str]]:
    """List the examples of all help texts with the command they belong to."""
    return [
        (name, line)
        for name in command_names()
        for line in re.findall(
            r"^ +(sheaves .*)$", runner.invoke(app, [name, "--help"]).stdout, re.MULTILINE
        )
    ]


def test_version_and_help_of_the_installed_command() -> None:
    command = shutil.which("sheaves", path=str(Path(sys.executable).parent))
    if command is None:
        pytest.skip("the command sheaves is not installed beside this Python")
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"sheaves {knowledge_sheaves.__version__}\n"
    helped = subprocess.run([command, "--help"], capture_output=True, text=True, check=True)
    assert all(name in helped.stdout for name in command_names())
    assert helped.stderr == ""


def test_help_does_not_wait_for_torch() -> None:
    program = (
        "import sys; from knowledge_sheaves.cli import app\n"
        "assert 'torch' not in sys.modules and 'polars' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_command_shows_an_example() -> None:
    assert {name for name, _ in examples()} == set(command_names())


@pytest.mark.parametrize("command", command_names())
def test_the_examples_of_the_help_texts_run_one_after_another(
    command: str,
    schema_file: Path,
    archive: Path,
    model: Path,
    queries: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(schema_file.parent)
    for line in [line for name, line in examples() if name == command]:
        words = shlex.split(line)[1:]
        # Servers run until they are stopped; their own tests start them.
        done = runner.invoke(app, [*words, "--help"] if command in SERVERS else words)
        assert done.exit_code == 0, f"{line}: {done.output}"


def test_schema_shows_types_and_relations(schema_file: Path) -> None:
    done = runner.invoke(app, ["schema", str(schema_file)])
    assert done.exit_code == 0
    words = [line.split() for line in done.stdout.splitlines()]
    assert ["Person", "3"] in words
    assert ["favorite", "movie", "Person", "Film", "yes"] in words


def test_schema_as_json_holds_what_the_file_says(schema_file: Path) -> None:
    done = runner.invoke(app, ["schema", str(schema_file), "--json"])
    shown = json.loads(done.stdout)
    assert shown["types"] == [{"name": "Person", "dim": 3}, {"name": "Film", "dim": 2}]
    friends, favourite = shown["relations"]
    assert friends["symmetric"]
    assert friends["dim"] == 1
    assert favourite["tail"] == "Film"
    assert favourite["functional"]
    assert favourite["dim"] is None
