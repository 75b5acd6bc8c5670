"""Is a model's folder as it was saved? All of it is read, which loading does not do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import safetensors.torch

from knowledge_sheaves.embedding.folder import (
    CONFIG,
    GENERATION,
    MEASURED,
    MEASUREMENTS,
    NEAREST,
    SEALED,
    STATEMENTS,
    WEIGHTS,
    check_file,
    mixed,
    read_config,
    read_file,
    read_measured,
)
from knowledge_sheaves.embedding.model import SheafEmbedding
from knowledge_sheaves.embedding.numbers import not_numbers
from knowledge_sheaves.embedding.search.kept import check_index
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import reading


@dataclass(frozen=True)
class Finding:
    """One file of a model: its size, and what is wrong with it, if anything."""

    file: str
    size: int | None
    problem: str | None = None


def check_model(folder: Path) -> list[Finding]:
    """Hold every file of a model against its checksum, look for weights that are no numbers, load.

    >>> check_model(Path("nowhere"))
    [Finding(file='config.json', size=None, problem='nowhere is not a model: there is no ...')]
    """

    def look(place: Path) -> list[Finding]:
        found = _findings(place)
        if any(finding.problem for finding in found) and place.exists():
            raise _Unsound(found)  # it may be that the folder was replaced meanwhile
        return found

    try:
        return reading(folder, look)
    except _Unsound as unsound:
        return unsound.findings


class _Unsound(ValueError):
    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings


def _findings(folder: Path) -> list[Finding]:
    config: dict[str, Any] = {}
    found = [_finding(folder / CONFIG, lambda _: config.update(read_config(folder)))]
    if not config:
        return found
    beside = [STATEMENTS] if STATEMENTS in config.get("sha256", {}) else []
    names = (*SEALED, *beside)
    found += [_finding(folder / name, lambda path: _check(path, config)) for name in names]
    there = [folder / name for name in MEASUREMENTS if (folder / name).exists()]
    found += [_finding(path, lambda path: read_measured(path, config)) for path in there]
    if MEASURED in config:
        found += [replace(each, file=f"{MEASURED}/{each.file}") for each in _judge(folder, config)]
    if (folder / NEAREST).exists():
        found.append(_finding(folder / NEAREST, lambda _: check_index(folder, config)))
    if not any(finding.problem for finding in found):
        # Files that are as they were saved, and yet no model: that is of the folder as a whole.
        problem = _problem(lambda: SheafEmbedding.load(folder))
        found += [Finding(str(folder), None, problem)] if problem else []
    return found


def _judge(folder: Path, config: dict[str, Any]) -> list[Finding]:
    """The model by which this one was judged: whole, and of the same save."""
    there = folder / MEASURED
    found = _findings(there)
    if found[0].problem is None and read_config(there).get(GENERATION) != config[MEASURED]:
        found[0] = replace(found[0], problem=str(mixed(there)))
    return found


def _finding(path: Path, check: Callable[[Path], object]) -> Finding:
    size = path.stat().st_size if path.is_file() else None
    return Finding(path.name, size, _problem(lambda: check(path)))


def _problem(check: Callable[[], object]) -> str | None:
    try:
        check()
    except InputError as error:
        return str(error)
    return None


def _check(path: Path, config: dict[str, Any]) -> None:
    if not path.is_file():
        raise InputError(f"{path} is missing, and the model cannot do without it.")
    check_file(path, config)
    if path.name == WEIGHTS:
        problem = not_numbers(read_file(path, lambda place: safetensors.torch.load_file(place)))
        if problem:
            raise InputError(f"{path}: {problem}: train again, or restore it from a copy.")
