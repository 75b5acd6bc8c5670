"""What tests of the server share: a small model, and a server that runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.graph import KnowledgeGraph

EX = "http://example.org/"
FACTS = [
    ("Ann", "knows", "Bob"),
    ("Bob", "knows", "Cy"),
    ("Cy", "knows", "Ann"),
    ("Ann", "likes", "Star Wars"),
    ("Bob", "likes", "Fargo"),
    ("Cy", "likes", "Fargo"),
    ("Star Wars", "made by", f"{EX}Lucas"),
    ("Fargo", "made by", f"{EX}Coen"),
]
TYPES = dict.fromkeys(["Ann", "Bob", "Cy", f"{EX}Lucas", f"{EX}Coen"], "person")
TYPES |= {"Star Wars": "film", "Fargo": "film"}
LABELS = {f"{EX}Coen": "Joel Coen", f"{EX}Lucas": "George Lucas"}


def save_model(folder: Path, more: Sequence[tuple[str, str, str]] = ()) -> None:
    """A model that nobody trained: the facts are what it knows for certain."""
    graph = KnowledgeGraph.from_triples([*FACTS, *more], types=TYPES, labels=LABELS)
    SheafEmbedding(model_config("complex", dim=8), graph).save(folder)


class Server:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], address: str, log: list[str]) -> None:
        self.process, self.address, self.log = process, address, log

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.address.rstrip("/").rpartition(":")[2])


@contextmanager
def serving(*arguments: str | Path) -> Iterator[Server]:
    """Start `sheaves serve` on a free port; it is told to stop at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "knowledge_sheaves", "serve", *map(str, arguments), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"},
    )
    log: list[str] = []
    assert process.stderr is not None
    assert process.stdout is not None
    listener = threading.Thread(target=lambda: log.extend(process.stderr or ()), daemon=True)
    listener.start()
    try:
        said = process.stdout.readline()
        found = re.search(r"at (http://\S+)", said)
        assert found, f"the server did not start: {said}{''.join(log)}"
        yield Server(process, found[1], log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        listener.join(5)
