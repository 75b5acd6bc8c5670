"""The examples in our documents run and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from knowledge_sheaves.cli.app import app

ROOT = Path(__file__).parents[1]


def blocks(document: str, language: str) -> str:
    text = (ROOT / document).read_text(encoding="utf-8")
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("document", ["README.md", "docs/quickstart.md"])
def test_examples_print_what_their_comments_say(
    document: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = blocks(document, "python")
    promised = re.findall(r"^print\(.*\)  # (.*)$", program, re.MULTILINE)
    exec(compile(program, document, "exec"), {})
    assert capsys.readouterr().out.splitlines() == promised
    assert promised


def test_the_schema_file_looks_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("films.yaml").write_text(blocks("docs/quickstart.md", "yaml"), encoding="utf-8")
    shown = CliRunner().invoke(app, ["schema", "films.yaml"]).stdout
    promised = blocks("docs/quickstart.md", "text")
    assert [line.rstrip() for line in shown.splitlines()] == promised.splitlines()
