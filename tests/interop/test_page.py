"""The examples on the page about PyKEEN run and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "pykeen.md"


def test_examples_print_what_their_comments_say(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    program = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    promised = re.findall(r"^print\(.*\)  # (.*)$", program, re.MULTILINE)
    exec(compile(program, PAGE.name, "exec"), {})
    assert capsys.readouterr().out.splitlines() == promised
    assert len(promised) == 5
