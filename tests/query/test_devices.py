"""Answers and their reasons on a device that refuses to be mixed: see `training/test_devices`."""

from __future__ import annotations

import pytest

from device_run import problems


@pytest.mark.slow
def test_answers_on_another_device_are_those_on_the_cpu() -> None:
    assert not problems("answers", at_least=200)
