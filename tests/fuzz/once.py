"""Try one input again: ``python tests/fuzz/once.py KIND SEED``; its files stay in build/fuzz."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(kind: str, seed: str) -> None:
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
    folder = ROOT / "build" / "fuzz" / f"{kind}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    attempt = importlib.import_module(f"fuzz.kinds.{kind}").attack(int(seed), folder)
    print(f"The input is in {folder}")
    print(repr(attempt())[:2000])


if __name__ == "__main__":
    main(*sys.argv[1:])
