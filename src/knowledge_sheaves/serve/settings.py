"""What a server is told when it starts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from knowledge_sheaves.errors import InputError

MOST_BYTES = 1 << 20
"""How long a request may be, in bytes; a query has at most 100,000 characters."""
MOST_ANSWERS = 10_000
"""How many answers a query may ask for."""
LOCAL = frozenset(["localhost", "127.0.0.1", "::1"])
RESERVED = frozenset(["api", "docs", "health", "metrics", "openapi.json", "page", "predicted"])
RESERVED |= {"ready", "sparql"}


@dataclass(frozen=True)
class Settings:
    """Which models are served, and what a query may cost.

    ``time_limit`` is in seconds, ``memory_limit`` in bytes beyond the model; ``queue`` is how many
    requests may wait for a worker, ``top`` how many answers a query without LIMIT gets.

    >>> Settings({"umls": Path("build/umls")}).workers >= 1
    True
    """

    models: Mapping[str, Path]
    workers: int = field(default_factory=lambda: os.cpu_count() or 1)
    time_limit: float = 30.0
    memory_limit: int = 1 << 29
    queue: int = 64
    top: int = 100

    def to_json(self) -> str:
        """All of it as text, for a process that is started with it."""
        return json.dumps(asdict(self), default=os.fspath)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Read what `to_json` wrote.

        >>> settings = Settings({"umls": Path("build/umls")}, workers=2)
        >>> Settings.from_json(settings.to_json()) == settings
        True
        """
        said = json.loads(text)
        said["models"] = {name: Path(folder) for name, folder in said["models"].items()}
        return cls(**said)


def named(folders: Sequence[Path]) -> dict[str, Path]:
    """Each model's folder by the name of the folder, which is its address.

    >>> list(named([Path("/usr/lib"), Path("/usr/bin/")]))
    ['lib', 'bin']
    """
    found: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise InputError(
                f"{folder} is not a model: there is no such folder; train one with sheaves train "
                f"DATA --out {folder}."
            )
        name = folder.resolve().name
        if not re.fullmatch(r"[\w.-]+", name, re.ASCII) or name in RESERVED:
            raise InputError(
                f"{folder} would be served as /{name}, which is no address for a model: rename "
                "the folder."
            )
        if name in found:
            raise InputError(
                f"{found[name]} and {folder} would both be served as /{name}: rename one."
            )
        found[name] = folder
    return found


def check_open(host: str, token: str | None, public: bool) -> None:
    """Refuse to be reachable from other machines by accident."""
    if host not in LOCAL and token is None and not public:
        raise InputError(
            f"On {host} other machines may ask too: give a --token-file, or say --public."
        )


def read_token(file: Path) -> str:
    """The token that clients must send: the file's text, without blanks around it."""
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise InputError(f"{file} cannot be read: {said}.") from None
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"{file} must hold a token of at least 16 letters, digits and signs without blanks."
        )
    return token
