"""A wheel that is built from a clean checkout carries the page, and needs no Node."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = {"index.html", "app.js", "app.css", "licences.txt"}

pytestmark = pytest.mark.slow


def run(*command: str | Path, **settings: object) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, **settings)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr


def test_a_wheel_of_a_clean_checkout_carries_the_page(tmp_path: Path) -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("this is no checkout of git")
    try:
        urllib.request.urlopen("https://registry.npmjs.org/preact", timeout=20).close()
    except OSError:
        pytest.skip("npm's registry cannot be reached")
    clone, wheels, installed = (tmp_path / name for name in ("clone", "wheels", "installed"))
    run(git, "clone", "--quiet", ROOT, clone)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    run(*pip, "wheel", "--no-deps", "--wheel-dir", wheels, clone)
    (wheel,) = wheels.glob("*.whl")
    place = "knowledge_sheaves/serve/page/"
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith(place)}
    assert {place + part for part in PARTS} <= names
    empty = tmp_path / "empty"
    empty.mkdir()
    alone = os.environ | {"PATH": str(empty)}  # neither Node nor npm
    run(*pip, "install", "--no-deps", "--no-index", "--target", installed, wheel, env=alone)
    assert {each.name for each in (installed / place).iterdir()} >= PARTS
