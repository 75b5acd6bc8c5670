"""The errors that a user may meet: one clear sentence each, with the exit code it deserves."""

from __future__ import annotations

from knowledge_sheaves.plain import sentence


class SheafError(Exception):
    """Something went wrong that the user can understand; the command line prints it and exits.

    >>> import knowledge_sheaves as ks
    >>> try:
    ...     ks.model_config("rotat")
    ... except ks.SheafError as error:
    ...     print(str(error).partition("?")[0])
    There is no model 'rotat'; did you mean 'rotate'
    """

    exit_code = 1

    def __init__(self, text: str) -> None:
        # Names of files and of things stand in it: they must not reach a terminal as they are.
        super().__init__(sentence(text))


class InputError(SheafError, ValueError):
    """What the user gave cannot be used: the sentence says what, where, and what to do."""

    exit_code = 2


class OutputError(SheafError, OSError):
    """What was asked for cannot be written: the sentence says what, where, and why."""
