"""The errors that a user may meet: one clear sentence each, with the exit code it deserves."""

from __future__ import annotations


class SheafError(Exception):
    """Something went wrong that the user can understand; the command line prints it and exits."""

    exit_code = 1


class InputError(SheafError, ValueError):
    """What the user gave cannot be used: the sentence says what, where, and what to do."""

    exit_code = 2


class OutputError(SheafError, OSError):
    """What was asked for cannot be written: the sentence says what, where, and why."""
