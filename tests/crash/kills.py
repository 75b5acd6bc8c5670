"""Kill −9 at a random moment of every command that writes; then load, go on, compare bit by bit.

    PYTHONPATH=tests python -m crash.kills --kills 500 --seed 0

The seed decides which commands are killed and when. What a killed command leaves must load, the
same command must come to its end when it is run again, and what it makes then must be what an
undisturbed one makes, to the last bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from betae_cases import write_betae
from crash.commands import Commands
from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.embedding.check import check_model
from knowledge_sheaves.files import TEMPORARY
from knowledge_sheaves.graph.readers import load

QUICK = ("--dim", "8", "--threads", "1", "--seed", "3", "--set", "batch_size=512")
TRAIN = ("train", "nations", *QUICK, "--epochs", "6", "--out", "model")
TYPES = "1p,2p,2i,2u"


def of_model(folder: Path) -> str:
    """What a model is: weights, facts, calibration, metrics, and not how long it took."""
    wrong = [finding.problem for finding in check_model(folder) if finding.problem]
    assert not wrong, wrong
    model = SheafEmbedding.load(folder)
    assert model.info is not None
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    digest.update(model.graph.triples.tobytes())
    said = [model.info.calibration, model.info.metrics, model.config.to_dict()]
    curve = folder / "training.csv"
    if curve.exists():  # epoch, loss and MRR; not the seconds
        rows = [line.split(",") for line in curve.read_text().splitlines()]
        said.append([[*row[:2], *row[3:]] for row in rows])
    digest.update(json.dumps(said, sort_keys=True).encode())
    return digest.hexdigest()


def of_results(file: Path) -> str:
    """What a benchmark found, and not how long it took."""
    said = json.loads(file.read_text())
    return json.dumps({name: of["mrr"] for name, of in said["types"].items()})


def of_bytes(*files: Path) -> str:
    return " ".join(hashlib.sha256(file.read_bytes()).hexdigest() for file in files)


@dataclass(frozen=True)
class Case:
    """A command, what it makes, and what a kill may leave of that."""

    command: Sequence[str]
    made: Callable[[Path], str]
    again: Callable[[Path], Sequence[str]] | None = None
    """The command that goes on after a kill, if it is another one."""
    made_so: Callable[[Path], object] = lambda _: None
    """Look at what a kill left; it must be whole."""


def resumed(folder: Path) -> Sequence[str]:
    checkpoint = folder / "model.checkpoint.safetensors"
    return (*TRAIN, "--resume" if checkpoint.exists() else "--force")


def sound_if_there(name: str) -> Callable[[Path], object]:
    def look(folder: Path) -> None:
        if (folder / name).exists() or (folder / f".{name}.old").exists():
            of_model(folder / name)

    return look


def whole_if_there(*names: str) -> Callable[[Path], object]:
    """Files that were there before: each is as it was, or as it will be."""

    def look(folder: Path) -> None:
        for name in names:
            if (folder / name).exists():
                assert (folder / name).stat().st_size > 0, f"{name} is cut"
                if name.endswith(".json"):
                    json.loads((folder / name).read_text())

    return look


CASES = {
    "train": Case(TRAIN, lambda f: of_model(f / "model"), resumed, sound_if_there("model")),
    "save over": Case(
        ("sum", "first", "first", "--out", "sum"),
        lambda f: of_model(f / "sum"),
        made_so=sound_if_there("sum"),
    ),
    "calibrate": Case(
        ("calibrate", "first", "--sample", "2", "--only", "tau,softness"),
        lambda f: of_model(f / "first"),
        made_so=sound_if_there("first"),
    ),
    "index": Case(
        ("index", "first", "--least", "1"),
        lambda f: of_bytes(f / "first" / "nearest" / "0.safetensors") + of_model(f / "first"),
        made_so=sound_if_there("first"),
    ),
    "evaluate": Case(
        ("evaluate", "first"),
        lambda f: of_model(f / "first"),
        made_so=sound_if_there("first"),
    ),
    "tune": Case(
        ("tune", "nations", *QUICK[2:], "--trials", "1", "--epochs", "2", "--set", "dim=8"),
        lambda f: str((f / "best.yaml").stat().st_size > 0),
        made_so=whole_if_there("best.yaml"),
    ),
    "export": Case(
        ("export", "first", "--format", "npy", "--out", "out"),
        lambda f: of_bytes(f / "out" / "vectors.npy", f / "out" / "entities.tsv"),
        made_so=whole_if_there("out/vectors.npy", "out/entities.tsv"),
    ),
    "benchmark": Case(
        ("benchmark", "first", "--queries", "queries", "--types", TYPES, "--out", "found.json"),
        lambda f: of_results(f / "found.json"),
        made_so=whole_if_there("found.json", "found.state.json"),
    ),
}


@dataclass
class Crashes:
    """Kills commands and looks at what is left."""

    commands: Commands
    base: Path
    chance: random.Random
    expected: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def prepare(self) -> None:
        """A folder that every case starts from."""
        start = self.base / "start"
        start.mkdir()
        write_betae(start / "queries", load("nations"), TYPES.split(","), 6)
        self._run(start, (*TRAIN[:-1], "first"))

    def undisturbed(self, name: str) -> None:
        """How long a command takes, and what it makes."""
        folder, began = self._fresh(f"undisturbed {name}"), time.monotonic()
        self._run(folder, CASES[name].command)
        self.seconds[name] = time.monotonic() - began
        self.expected[name] = CASES[name].made(folder)

    def once(self, name: str) -> None:
        """Kill a command, look at what is left, run it again and compare."""
        if name not in self.expected:
            self.undisturbed(name)
        case, folder = CASES[name], self._fresh("killed")
        kills = self.chance.choice([1, 1, 1, 2, 3])
        command: Sequence[str] = case.command
        for _ in range(kills):
            running = self.commands.start(folder, command)
            # Most of the time goes into reading and computing: half of the kills aim at the end.
            late = self.chance.random() < 0.5
            time.sleep(self.seconds[name] * self.chance.uniform(0.8 if late else 0, 1.1))
            running.kill()
            done = running.wait()
            self.counts["killed" if done.code == -9 else "too late"] += 1
            assert done.code in (-9, 0), done
            case.made_so(folder)
            command = case.again(folder) if case.again else case.command
        if done.code != 0 or case.again is None:  # else it had come to its end
            self._run(folder, command)
        found = case.made(folder)
        assert found == self.expected[name], f"{name}: another outcome than undisturbed"
        left = [p for p in folder.rglob(".*") if TEMPORARY.fullmatch(p.name)]
        assert not left, f"{name}: {left} were left behind"
        shutil.rmtree(folder)

    def _fresh(self, name: str) -> Path:
        return Path(shutil.copytree(self.base / "start", self.base / name))

    def _run(self, folder: Path, command: Sequence[str]) -> None:
        done = self.commands.run(folder, *command)
        assert done.code == 0, done


def crash(kills: int, seed: int, names: Sequence[str] = tuple(CASES)) -> Counter[str]:
    """Kill until so many kills have met a command at work."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as base, Commands(Path(base)) as commands:
        crashes = Crashes(commands, Path(base), chance)
        crashes.prepare()
        while crashes.counts["killed"] < kills:
            name = chance.choice(names)
            crashes.once(name)
            crashes.counts[name] += 1
            print(dict(crashes.counts), end="\r", file=sys.stderr, flush=True)
    return crashes.counts


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kills", type=int, default=500)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    started = time.monotonic()
    found = crash(given.kills, given.seed)
    print(f"seed {given.seed}: {dict(found)} in {time.monotonic() - started:.0f} s")
