"""Graphs and models for runs on several processes, and how to start them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.graph import EntityType, KnowledgeGraph, Relation, Schema
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.query.language.names import sparql_name
from knowledge_sheaves.query.options import Options

ROOT = Path(__file__).parents[1]
needs_torchrec = pytest.mark.skipif(
    importlib.util.find_spec("torchrec") is None,
    reason="TorchRec is not installed: make test-sharded installs it",
)
LONG = 600
"""Seconds that processes have on a slow machine."""
OPTIONS = (Options("chaining"), Options("harmonic"), Options("harmonic", strength=0.1))


def typed() -> Dataset:
    """People and films, stalks of two widths: two tables, of which some processes have no row."""
    rng = np.random.default_rng(0)
    schema = Schema(
        [EntityType("person", 8), EntityType("film", 4), EntityType("studio", 8)],
        [
            Relation("likes", "person", "film"),
            Relation("knows", "person", "person"),
            Relation("made", "studio", "film"),
        ],
    )
    kinds = np.array([0, 1, 2, 0, 1, 0, 0] * 4)
    members = [np.flatnonzero(kinds == kind) for kind in range(3)]
    ends = {0: (0, 1), 1: (0, 0), 2: (2, 1)}
    rows = np.array(
        [
            (rng.choice(members[ends[edge][0]]), edge, rng.choice(members[ends[edge][1]]))
            for edge in rng.integers(0, 3, 160)
        ]
    )
    graph = KnowledgeGraph.from_arrays(*rows.T, schema=schema, entity_types=kinds)
    return Dataset(
        graph.with_triples(graph.triples[:-15]), valid=graph.with_triples(graph.triples[-15:])
    )


def answered(model: SheafEmbedding, data: Dataset, count: int) -> list[list[tuple[Any, ...]]]:
    """The best answers to questions with unknowns, negation and unions, by every solver."""
    askers = [Asker(model, options) for options in OPTIONS]
    found = []
    rows = data.train.decode(data.train.triples[:: len(data.train.triples) // count])
    for head, relation, tail in rows:
        other = next(t for _, r, t in rows if r == relation)
        h, r, t, o = map(sparql_name, (head, relation, tail, other))
        for pattern in (
            f"{h} {r} ?y . ?x {r} ?y",
            f"?x {r} {t} FILTER NOT EXISTS {{ ?x {r} {o} }}",
            f"{{ ?x {r} {t} }} UNION {{ ?x {r} {o} }}",
        ):
            for asker in askers:
                answers = asker.answer(f"SELECT ?x {{ {pattern} }}", top=4)
                found.append([(a.names[0], a.energy, a.probability) for a in answers])
    return found


def torchrun(
    processes: int, *words: str | Path, env: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start so many processes of a script, or of ``-m module``."""
    launcher = ["-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    return subprocess.Popen(
        [sys.executable, *launcher, f"--nproc-per-node={processes}", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"} | (env or {}),
    )


def finished(running: subprocess.Popen[str]) -> tuple[str, str]:
    """What processes printed that ended well."""
    printed, said = running.communicate(timeout=LONG)
    assert running.returncode == 0, said[-4000:]
    return printed, said


def sentences(said: str) -> list[str]:
    """What the command said went wrong; torchrun has words of its own around it."""
    return [line for line in said.splitlines() if line.startswith("sheaves: ")]
