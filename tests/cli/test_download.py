"""`sheaves download` as a user meets it; what it does is tested with the reader."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

Sheaves = Callable[..., tuple[int, str, str]]


def test_it_says_where_the_data_are_and_what_the_archive_was(
    sheaves: Sheaves, archive: Path
) -> None:
    code, out, err = sheaves("download", "NELL-betae", "--to", archive.parent)
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    folder = archive.parent / "NELL-betae"
    assert (code, err) == (0, "")
    assert out == f"NELL-betae is in {folder}\nSHA-256 {checksum}  KG_data.zip\n"
    assert (folder / "train.txt").read_text() == "0\t0\t1\n"


def test_without_a_connection_it_says_where_to_put_the_file(
    sheaves: Sheaves, tmp_path: Path
) -> None:
    url = "http://127.0.0.1:9/KG_data.zip"
    code, out, err = sheaves("download", "NELL-betae", "--to", tmp_path, "--url", url)
    assert (code, out) == (1, "")
    assert err.startswith(f"sheaves: {url} could not be fetched (")
    assert err.endswith(f"or put the file at {tmp_path / 'KG_data.zip'} by hand.\n")


def test_an_unknown_name_is_bad_input(sheaves: Sheaves) -> None:
    code, _, err = sheaves("download", "NELL")
    assert code == 2
    assert "choose one of NELL-betae, " in err
