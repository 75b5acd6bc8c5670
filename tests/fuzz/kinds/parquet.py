"""Parquet: right ones of odd columns, and damaged ones."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import polars as pl

from fuzz.mutation import Dice, spoiled, word
from knowledge_sheaves.graph.readers import load


def column(random: Dice, rows: int) -> pl.Series:
    kinds: list[Callable[[], object]] = [
        lambda: [word(random) for _ in range(rows)],
        lambda: [random.choice((None, word(random))) for _ in range(rows)],
        lambda: [random.randrange(9) for _ in range(rows)],
        lambda: [random.choice((1.5, float("nan"), None)) for _ in range(rows)],
        lambda: [[1, 2]] * rows,
        lambda: [{"a": 1}] * rows,
        lambda: [b"\xff"] * rows,
        lambda: [True] * rows,
        lambda: [None] * rows,
    ]
    usual = random.random() < 0.85
    return pl.Series((kinds[0] if usual else random.choice(kinds))(), strict=False)


def attack(seed: int, folder: Path) -> Callable[[], object]:
    random = Dice(f"parquet {seed}")
    rows = random.choice((0, 1, 5, 50))
    names = random.choice((["head", "relation", "tail"], ["a", "b", "c"], ["head", "tail"]))
    frame = pl.DataFrame({name: column(random, rows) for name in names})
    memory = io.BytesIO()
    frame.write_parquet(
        memory,
        compression=random.choice(("uncompressed", "zstd", "snappy", "gzip", "lz4")),
        statistics=random.random() < 0.5,
    )
    content = memory.getvalue()
    if random.random() < 0.6:
        content = spoiled(content, random, (b"PAR1",))
        if random.random() < 0.5:  # past the first look, into the decoder
            content = b"PAR1" + content[4:-4] + b"PAR1"
    (folder / "x.parquet").write_bytes(content)
    return lambda: load(folder / "x.parquet")
