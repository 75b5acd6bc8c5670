"""The examples in our documents run and print what they say, and the tables hold what is there."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from knowledge_sheaves.cli.app import app
from knowledge_sheaves.embedding import CATALOGUE, SheafConfig
from knowledge_sheaves.embedding.config import ALIASES
from knowledge_sheaves.embedding.constraints import CONSTRAINTS, UNSCALED
from knowledge_sheaves.embedding.energies import ENERGIES
from knowledge_sheaves.graph import Schema
from knowledge_sheaves.query.solvers import SOLVERS, parameters
from knowledge_sheaves.training import TrainingConfig
from knowledge_sheaves.training.losses import LOSSES

ROOT = Path(__file__).parents[1]
PAGES = [
    "consistency",
    "mathematics",
    "quickstart",
    "queries",
    "sparql",
    "training",
    "models",
    "data",
    "model-folder",
    "pykeen",
]
COMMANDS = typer.main.get_group(app).commands


def read(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str, language: str) -> list[str]:
    fence = rf"^```{language}\n(.*?)^```$"
    return re.findall(fence, read(document), re.MULTILINE | re.DOTALL)


def section(document: str, heading: str) -> str:
    """The text under a heading, up to the next one."""
    _, found, rest = read(document).partition(f"\n## {heading}\n")
    assert found, f"{document} has no section {heading!r}"
    return rest.partition("\n## ")[0]


def table(text: str) -> Iterator[list[str]]:
    """The rows of a table whose first cell is code, without the marks of code."""
    for line in text.splitlines():
        if line.startswith("| `"):
            yield [cell.strip().strip("`$") for cell in line.strip("|").split(" | ")]


@pytest.mark.parametrize("document", ["README.md", *(f"docs/{page}.md" for page in PAGES)])
def test_examples_print_what_their_comments_say(
    document: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    program = "\n".join(blocks(document, "python"))
    registered = set(ENERGIES)
    promised = re.findall(r"^print\(.*\)  # (.*)$", program, re.MULTILINE)
    exec(compile(program, document, "exec"), {})
    for name in ENERGIES.keys() - registered:  # by the page, and for it alone
        del ENERGIES[name]
    assert capsys.readouterr().out.splitlines() == promised
    assert promised


def test_the_quick_start_has_at_most_eight_lines() -> None:
    for document in ("README.md", "docs/quickstart.md"):
        assert 0 < len(re.findall(r"^.+$", blocks(document, "python")[0], re.MULTILINE)) <= 8


def test_the_schema_file_looks_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("films.yaml").write_text(blocks("docs/quickstart.md", "yaml")[0], encoding="utf-8")
    shown = CliRunner().invoke(app, ["schema", "films.yaml"]).stdout
    promised = blocks("docs/quickstart.md", "text")[0]
    assert [line.rstrip() for line in shown.splitlines()] == promised.splitlines()


def test_the_files_shown_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "shown.yaml"
    file.write_text(blocks("docs/models.md", "yaml")[0], encoding="utf-8")
    assert SheafConfig.load(file).name == "stretched"
    file.write_text(blocks("docs/data.md", "yaml")[0], encoding="utf-8")
    assert Schema.load(file).relation_names == ("friends", "favorite movie")


@pytest.mark.parametrize(
    ("document", "options"),
    [("docs/training.md", TrainingConfig), ("docs/models.md", SheafConfig)],
)
def test_the_options_are_those_of_the_code(
    document: str, options: type[TrainingConfig | SheafConfig]
) -> None:
    rows = table(section(document, "Options"))
    said = {name: yaml.safe_load(default) for name, default, _ in rows}
    there = {field.name: field.default for field in fields(options)}
    assert said == there


def test_the_catalogue_is_that_of_the_code() -> None:
    said = {}
    for name, *choices in table(section("docs/models.md", "The catalogue")):
        said[name] = tuple(choices)
    assert said == {name: described(model) for name, model in CATALOGUE.items()}
    text = section("docs/models.md", "Scores and sources")
    assert [name for name, *_ in table(text)] == list(CATALOGUE)
    assert all(f"`{alias}`" in text for alias in ALIASES)


def described(model: SheafConfig) -> tuple[str, str, str, str, str]:
    moves = {True: "yes", False: "–", "projected": "projected"}[model.translation]
    named = {"biases": model.biases, "lifted": model.lifted, "torus": model.space == "torus"}
    more = ", ".join(name for name, there in named.items() if there) or "–"
    block = "d" if model.block is None else str(model.block)
    return block, model.head, model.tail, moves, more


def test_the_constraints_are_those_of_the_code() -> None:
    said = {name for name, _ in table(section("docs/models.md", "Constraints on maps"))}
    scaled = {f"scaled-{name}" for name in said - set(UNSCALED)}
    assert said | scaled == set(CONSTRAINTS)


def test_the_glossary_has_what_solvers_can_be_told_and_is_sorted() -> None:
    rows = re.findall(r"^\| (.+?) \| .+ \|$", read("docs/glossary.md"), re.MULTILINE)[1:]
    assert rows == sorted(rows, key=str.lower)
    said = {part for row in rows for part in re.split(r"[, ]+", row)}
    assert set(parameters()) <= said


def test_the_picture_of_the_rooms_is_that_of_the_contract() -> None:
    drawn = runpy.run_path(str(ROOT / "docs" / "hooks" / "rooms.py"))["picture"]()
    assert read("docs/img/rooms.svg") == drawn, "run python docs/hooks/rooms.py"


def test_the_order_of_the_rooms_is_said_as_it_is() -> None:
    layers, common = runpy.run_path(str(ROOT / "docs" / "hooks" / "rooms.py"))["contract"]()
    said = section("CONTRIBUTING.md", "Where things are")
    order = re.findall(r"`(\w+)`", said.partition("Errors that")[0])
    rooms = [room for layer in reversed(layers) for room in layer]
    assert [name for name in order if name in rooms] == rooms
    assert all(f"`{name}`" in said for name in common)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_and_example_of_a_command_is_on_its_page(name: str) -> None:
    said = section("docs/commands.md", f"sheaves {name}")
    common = read("docs/commands.md").partition("\n## ")[0]
    for parameter in COMMANDS[name].params:
        if parameter.param_type_name == "option":
            assert f"`{parameter.opts[0]}" in said + common
    helped = CliRunner().invoke(app, [name, "--help"]).stdout
    examples = re.findall(r"^ +(sheaves .*)$", helped, re.MULTILINE)
    assert examples == [line for line in said.splitlines() if line.startswith("sheaves ")]


def test_the_table_of_parameters_is_that_of_the_solvers() -> None:
    shown = {
        row[0]: row[1:] for row in table(section("docs/queries.md", "Solvers")) if len(row) == 4
    }
    expected: dict[str, list[str]] = {}
    for solver in SOLVERS.values():
        for name, about in solver.Settings.parameters().items():
            row = expected.setdefault(name, ["", str(about.default), about.help])
            row[0] = ", ".join(filter(None, [row[0], solver.name]))
    assert {name: [cell.rstrip(" |") for cell in row] for name, row in shown.items()} == expected


def test_the_energies_and_losses_are_those_of_the_code() -> None:
    assert [name for name, *_ in table(section("docs/models.md", "Energies"))] == list(ENERGIES)
    losses = [name for name, *_ in table(section("docs/training.md", "What a step does"))]
    assert losses == ["loss", *LOSSES]
