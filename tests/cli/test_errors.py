"""What a user sees when a command fails: one sentence, the right exit code, no traceback."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from knowledge_sheaves.cli.app import run
from knowledge_sheaves.errors import InputError, SheafError

SHEAVES = [sys.executable, "-m", "knowledge_sheaves"]


def failing(error: BaseException) -> typer.Typer:
    """Build an application whose only command `fail` raises the error."""
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)

    @app.callback()
    def _commands() -> None:
        """Keep `fail` a command of its own."""

    @app.command()
    def fail() -> None:
        typer.echo("so far so good")
        raise error

    return app


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (InputError("row 3 has no tail."), 2),
        (SheafError("the system has no solution."), 1),
        (OSError(errno.ENOSPC, "No space left on device", "model/"), 1),
    ],
)
def test_an_error_is_one_sentence(
    error: Exception, exit_code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(failing(error), ["fail"])
    assert stopped.value.code == exit_code
    assert capsys.readouterr() == ("so far so good\n", f"sheaves: {error}\n")


def test_an_unexpected_error_is_called_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(failing(KeyError("x")), ["fail"])
    assert stopped.value.code == 1
    message = capsys.readouterr().err
    assert message.startswith("sheaves: this is a bug")
    assert "KeyError: 'x'" in message
    assert "--debug" in message
    assert "Traceback" not in message


@pytest.mark.parametrize("arguments", [["--debug", "fail"], ["fail", "--debug"]])
def test_debug_shows_the_traceback_wherever_it_stands(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(failing(InputError("row 3 has no tail.")), arguments)
    assert stopped.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "sheaves: row 3 has no tail."


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.yaml"
    done = subprocess.run([*SHEAVES, "schema", missing], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("sheaves: ")
    assert "nowhere.yaml" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_wrong_option_is_bad_input() -> None:
    done = subprocess.run([*SHEAVES, "--colour"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "No such option" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_exits_with_130_and_no_traceback(tmp_path: Path) -> None:
    pipe = tmp_path / "schema.yaml"
    os.mkfifo(pipe)
    command = subprocess.Popen(
        [*SHEAVES, "schema", pipe],
        stderr=subprocess.PIPE,
        text=True,
        # Where the tests run in the background, the shell has told its children to ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    writer = open_once_read(pipe, command)
    message = interrupted(command)
    os.close(writer)
    assert command.returncode == 130
    assert "Traceback" not in message


def interrupted(command: subprocess.Popen[str]) -> str:
    """Press Ctrl-C; one that comes in the instant before a read blocks has no effect, so again."""
    for _ in range(6):
        command.send_signal(signal.SIGINT)
        try:
            return command.communicate(timeout=10)[1]
        except subprocess.TimeoutExpired:
            continue
    pytest.fail("the command does not end")


def open_once_read(pipe: Path, reader: subprocess.Popen[str]) -> int:
    """Open the pipe for writing as soon as the command reads it; it then waits for our words."""
    while reader.poll() is None:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            time.sleep(0.01)
    pytest.fail("the command ended before it read the file")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_leaves_is_no_error(options: list[str], schema_file: Path) -> None:
    command = subprocess.Popen(
        [*SHEAVES, "schema", schema_file, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.close()
    message = command.stderr.read()
    command.wait(timeout=60)
    assert message == b""
