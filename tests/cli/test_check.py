"""`sheaves check` in the words a user reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

Sheaves = Callable[..., tuple[int, str, str]]


def test_check_says_of_every_file_whether_it_is_sound(sheaves: Sheaves, model: Path) -> None:
    code, out, _ = sheaves("check", model)
    assert code == 0
    assert out.count("sound") == 6
    (model / "schema.json").write_text("{}")
    code, out, err = sheaves("check", model)
    assert code == 1
    assert (out.count("sound"), out.count("damaged")) == (5, 1)
    assert "schema.json was changed" in err
    code, out, _ = sheaves("check", model, "--json")
    said = json.loads(out)
    assert (code, said["sound"]) == (1, False)
    assert [f["file"] for f in said["files"] if f["problem"]] == ["schema.json"]
