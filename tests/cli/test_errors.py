"""What a user sees when a command fails: one sentence, the right exit code, no traceback."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
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
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/KG_data.zip"
        command = subprocess.Popen(
            [*SHEAVES, "download", "NELL-betae", "--to", tmp_path, "--url", url],
            stderr=subprocess.PIPE,
            text=True,
            # Where the tests run in the background, the shell has told its children to ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            env={**os.environ, "no_proxy": "127.0.0.1"},
        )
        connection, _ = silent.accept()  # now the command waits for our words
        with connection:
            message = interrupted(command)
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
