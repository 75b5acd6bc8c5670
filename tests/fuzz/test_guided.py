"""The hand-written parsers by coverage, where atheris is installed: pip install '.[fuzz]'."""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("atheris") is None:
    pytest.skip("atheris is not installed: pip install '.[fuzz]'", allow_module_level=True)

RUNS = 5 * int(os.environ.get("FUZZ", "200"))
SEED = 1 + int(os.environ.get("FUZZ_SEED", "0"))  # to libFuzzer 0 means: any
FIRST = (
    pickle.dumps({0: "a", (1, (2, 3)): {4, 5}}, 2),
    b'a\tr\tb\n"c",d,e\n',
    b'<http://x/a> <http://x/r> "b\\u00e9"@en .\n',
    b"a: &a [1, 2.5, 2020-01-01]\nb: {<<: *a}\n",
    b'{"@context": {"@import": "x"}, "a": [1e9, null]}',
    b'?x where Ann knows ?y . not "Bob Ross" favorite movie ?x',
    b"PREFIX a: <urn:x:> SELECT * { ?x a:b/^(<c>|:d\\ e) 'f' FILTER(?x != \"g\\u0041\") } LIMIT 3",
)


def test_nothing_escapes(tmp_path: Path) -> None:
    for number, content in enumerate(FIRST):
        (tmp_path / str(number)).write_bytes(bytes([number]) + content)
    script = Path(__file__).with_name("guided.py")
    done = subprocess.run(
        [sys.executable, str(script), f"-runs={RUNS}", f"-seed={SEED}", str(tmp_path)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"Done {RUNS} runs" in done.stderr
