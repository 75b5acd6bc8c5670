"""One server for all tests of the endpoint: starting one takes as long as a hundred requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from serve_cases import Server, save_model, serving


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model that is served."""
    folder = tmp_path_factory.mktemp("serve") / "films"
    save_model(folder)
    return folder


@pytest.fixture(scope="session")
def server(model_folder: Path) -> Iterator[Server]:
    """A server with two workers and short limits."""
    with serving(model_folder, "--workers", "2", "--time-limit", "2", "--queue", "8") as started:
        yield started


@pytest.fixture(scope="session")
def client(server: Server) -> Iterator[httpx.Client]:
    """A client of the server."""
    with httpx.Client(base_url=server.address, timeout=30) as started:
        yield started
