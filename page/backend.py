"""What builds the package: setuptools, once the page is made.

An sdist and a wheel carry the page, so that installing them needs no Node.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import make_page
from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

WITHOUT = "KNOWLEDGE_SHEAVES_WITHOUT_PAGE"
"""The name of a variable of the environment that builds a package without the page."""
Config = dict[str, Any] | None


def _node() -> list[str]:
    needs = WITHOUT not in os.environ and not make_page.is_fresh() and make_page.node() is None
    return [make_page.NODE_WHEEL] if needs else []


def get_requires_for_build_wheel(config_settings: Config = None) -> list[str]:
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_node()]


def get_requires_for_build_sdist(config_settings: Config = None) -> list[str]:
    return [*build_meta.get_requires_for_build_sdist(config_settings), *_node()]


def get_requires_for_build_editable(config_settings: Config = None) -> list[str]:
    return [*build_meta.get_requires_for_build_editable(config_settings), *_node()]


def build_wheel(
    wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None
) -> str:
    _make()
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Config = None) -> str:
    _make()
    return build_meta.build_sdist(sdist_directory, config_settings)


def build_editable(
    wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None
) -> str:
    """Install for whoever works on it; the page can be made later, by `make page`."""
    try:
        _make()
    except SystemExit as error:
        print(error, file=sys.stderr)
    return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)


def _make() -> None:
    if WITHOUT in os.environ:
        return
    try:
        make_page.make()
    except make_page.PageError as error:
        sys.exit(f"The page was not made: {error}\n{WITHOUT}=1 builds the package without it.")
