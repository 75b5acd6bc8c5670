"""What all tests share: the data beside the project, and how hypothesis searches."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

# They register another device for the whole process: only a process of their own imports them.
collect_ignore = ["other_device.py", "device_cases.py", "device_run.py"]

# The first call into torch is slow, and so is a busy machine: no deadline for a single example.
# At a desk every run searches new examples; on CI the verdict must depend on the commit alone.
hypothesis.settings.register_profile(
    "knowledge_sheaves", deadline=None, print_blob=True, derandomize="CI" in os.environ
)
hypothesis.settings.load_profile("knowledge_sheaves")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data sets that KNOWLEDGE_SHEAVES_DATA names."""
    folder = os.environ.get("KNOWLEDGE_SHEAVES_DATA")
    if not folder:
        pytest.skip("KNOWLEDGE_SHEAVES_DATA is not set: the shared data are not here")
    return Path(folder)
