"""A model's folder as files: their names, how each is read, and whether it is as it was saved."""

from __future__ import annotations

import errno
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError, safe_open

from knowledge_sheaves import __version__
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.files import SEAL, is_sealed

FORMAT = 2
"""The newest; folders without tables in fewer bits are of format 1, for older versions."""
CONFIG, ENTITIES, SCHEMA = "config.json", "entities.tsv", "schema.json"
FALSE = "false"
"""Which of the triples in ``FACTS`` are known to be none."""
FACTS, WEIGHTS, METRICS = "facts.safetensors", "weights.safetensors", "metrics.json"
TRUST = "trust.json"
SEALED = (ENTITIES, SCHEMA, FACTS, WEIGHTS)
CLASSES = "classes"
"""Types that shape no stalks: what they are stands with the schema, who has them with the facts."""
STATEMENTS = "statements.parquet"
"""What the source says beside facts, where it does: literals, and the names of graphs."""
INDEX = "index"
"""The folder of the index for SPARQL, made when it is needed."""
MEASURED = "measured"
"""The folder, in that of a model, of the one that never saw the held-out facts."""
NEAREST = "nearest"
"""The folder of the index for the best answers, made by `sheaves index`."""
MEASUREMENTS = (METRICS, TRUST)
"""What was measured of a model: files that may be absent, and are written anew."""
OWN = (CONFIG, *SEALED, STATEMENTS, *MEASUREMENTS, MEASURED, INDEX, NEAREST)
GENERATION = "generation"
HASHED = 64 * 2**20
"""Files of tensors that are larger are not read whole on loading: they may be memory-mapped."""
COMPANIONS = ("training.csv", "checkpoint*", "logs", "events.out.tfevents.*", "mlflow.db", "mlruns")
"""What a trainer and its logs may have put into the folder before there is a model in it."""
HEADER = ("name", "type", "label")
ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def read_config(folder: Path) -> dict[str, Any]:
    """What a model's folder says of itself; refused where the folder is none, or was changed."""
    path = folder / CONFIG
    if not folder.is_dir():
        what = "it is a file" if folder.exists() else "there is no such folder"
        raise InputError(
            f"{folder} is not a model: {what}; train one with sheaves train DATA --out {folder}."
        )
    if not path.exists():
        raise InputError(f"{folder} is not a model: it has no {CONFIG}; is it the right folder?")
    config = read_file(path, read_json)
    version = config.get("format") if isinstance(config, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError(f"{path} is not the {CONFIG} of a model: it has no format version.")
    if version > FORMAT:
        raise InputError(
            f"{path}: the model has format {version}, and this version of knowledge-sheaves "
            f"({__version__}) reads up to {FORMAT}: install a newer one."
        )
    if not is_sealed(config):
        raise changed(path)
    return config


def read_measured(path: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured of the model of this configuration."""
    metrics = read_file(path, read_json)
    if not isinstance(metrics, dict):
        raise InputError(f"{path} cannot be understood (it is no mapping): remove it.")
    # Version 0.1 wrote neither a generation nor a seal.
    if (GENERATION in config or SEAL in metrics) and not is_sealed(metrics):
        raise InputError(
            f"{path} was changed or cut short after it was written (its checksum is wrong): remove "
            "it, and measure again with sheaves evaluate."
        )
    if metrics.get(GENERATION) != config.get(GENERATION):
        raise mixed(path)
    return {name: value for name, value in metrics.items() if name not in (GENERATION, SEAL)}


def changed(path: Path) -> InputError:
    """The file is not as it was saved."""
    return InputError(
        f"{path} was changed or cut short after the model was saved (its checksum is wrong): "
        "restore it from a copy, or train again."
    )


def mixed(path: Path) -> InputError:
    """The file was saved with another model."""
    return InputError(
        f"{path} is of another model than {CONFIG} beside it (their generations differ): restore "
        "the whole folder from a copy, or train again."
    )


def check_sealed(folder: Path, config: Mapping[str, Any], hashed: float = math.inf) -> None:
    """Refuse a folder that is not as it was saved; tensors are hashed up to ``hashed`` bytes."""
    for name in SEALED:
        path = folder / name
        if not path.is_file():
            raise InputError(
                f"{path} is missing, and the model cannot do without it: restore it from a copy, "
                "or train again."
            )
        check_file(path, config, hashed)


def check_file(path: Path, config: Mapping[str, Any], hashed: float = math.inf) -> None:
    """Refuse a file that is not the one the configuration speaks of."""
    marked = GENERATION in config and path.name in (FACTS, WEIGHTS)
    # What is cut short has no header to compare, and its checksum says more.
    whole = not marked or path.stat().st_size <= hashed
    if whole and read_file(path, sha256) != config.get("sha256", {}).get(path.name):
        raise changed(path)
    if marked and read_file(path, _generation) != config[GENERATION]:
        raise mixed(path)


def _generation(path: Path) -> str | None:
    with safe_open(path, framework="np") as file:
        return (file.metadata() or {}).get(GENERATION)


def header_shapes(path: Path) -> dict[str, list[int]]:
    """The tensors in a file by name, with their shapes; none of them is read."""

    def shapes(place: Path) -> dict[str, list[int]]:
        with safe_open(place, framework="np") as file:
            return {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118

    return read_file(path, shapes)


Result = TypeVar("Result")
UNFIT = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What data of the wrong kind or size make of the code that takes them."""


def read_file(path: Path, read: Callable[[Path], Result]) -> Result:
    """Read one file; whatever is wrong with it becomes one sentence that names it."""
    with named(path):
        if path.exists() and not path.is_file():  # a pipe would never come to its end
            raise OSError(errno.EINVAL, "it is not an ordinary file")
        return read(path)


@contextmanager
def named(path: Path) -> Iterator[None]:
    try:
        yield
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}: not valid JSON ({error.msg}): restore it from a copy."
        ) from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (SafetensorError, *UNFIT) as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{path} cannot be understood ({said}): is it of this model?") from None


def read_text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogatepass")


def read_json(path: Path) -> Any:
    return json.loads(read_text(path))


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
