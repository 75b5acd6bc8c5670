"""Files and folders: read with a clear error, replaced as a whole, by one writer at a time."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from knowledge_sheaves.errors import InputError, OutputError, SheafError
from knowledge_sheaves.files import (
    locked,
    reading,
    replacing,
    write_json,
    write_text,
    writing,
)
from knowledge_sheaves.graph.plain_data import read_plain_data


def names(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def test_a_file_is_written_with_its_folder_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_json(tmp_path / "deep" / "er" / "a.json", {"ä": 1})
    assert read_plain_data(tmp_path / "deep" / "er" / "a.json") == {"ä": 1}
    assert names(tmp_path / "deep" / "er") == ["a.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    write_text(file, "old")
    with pytest.raises(OutputError, match=r"a\.txt cannot be written: No space left") as refused:  # noqa: PT012, SIM117
        with writing(file) as beside:
            beside.write_text("half")
            raise OSError(28, "No space left on device")
    assert isinstance(refused.value, SheafError)
    assert file.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_what_killed_writers_left_is_removed_and_nothing_of_other_files(tmp_path: Path) -> None:
    for name in (".a.txt.0123abcd.new.txt", ".a.0123abcd.new", ".a.txt.b.0123abcd.new", ".a.txt.x"):
        (tmp_path / name).touch()
    write_text(tmp_path / "a.txt", "new")
    assert names(tmp_path) == [".a.0123abcd.new", ".a.txt.b.0123abcd.new", ".a.txt.x", "a.txt"]


def test_only_ordinary_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="not an ordinary file"):
        write_text(tmp_path / "pipe", "x")
    with pytest.raises(OutputError, match="a folder"):
        write_text(tmp_path / "folder", "x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_text(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "x"


def test_writers_of_one_place_wait_for_each_other(tmp_path: Path) -> None:
    inside, seen = [0], []

    def write() -> None:
        for _ in range(20):
            with locked(tmp_path / "place"):
                inside[0] += 1
                seen.append(inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 80
    assert names(tmp_path) == []


def test_a_writer_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge_sheaves.files.PATIENCE", 0.05)
    with locked(tmp_path / "a.txt"), ThreadPoolExecutor() as another:
        with pytest.raises(OutputError, match=r"a\.txt cannot be written: another process"):
            another.submit(write_text, tmp_path / "a.txt", "x").result()
        write_text(tmp_path / "a.txt", "x")  # whoever has the place does not wait for himself


def test_an_error_while_a_folder_is_written_leaves_the_old_one(tmp_path: Path) -> None:
    with replacing(tmp_path / "model", ()) as new:
        (new / "a").write_text("old")
    with pytest.raises(KeyError):  # noqa: PT012, SIM117
        with replacing(tmp_path / "model", ()) as new:
            (new / "a").write_text("half")
            raise KeyError
    assert (tmp_path / "model" / "a").read_text() == "old"
    assert names(tmp_path) == ["model"]


def test_a_reader_that_comes_between_two_renames_looks_again(tmp_path: Path) -> None:
    folder, looks = tmp_path / "model", []

    def read(place: Path) -> str:
        looks.append(place)
        if len(looks) < 4:  # it is put back only while the reader is at it
            raise InputError("there is no such folder")
        folder.mkdir(exist_ok=True)
        return "read"

    assert reading(folder, read) == "read"


def test_a_folder_that_is_nowhere_is_told_so(tmp_path: Path) -> None:
    def read(place: Path) -> str:
        raise InputError("there is no such folder")

    with pytest.raises(InputError, match="no such folder"):
        reading(tmp_path / "nowhere", read)
    assert names(tmp_path) == []


def test_a_folder_that_is_replaced_again_and_again_is_read_in_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    with replacing(folder, ("a",)) as new:
        (new / "a").write_text("0")
    stop = threading.Event()

    def write() -> None:
        count = 0
        while not stop.is_set():
            count += 1
            with replacing(folder, ("a",)) as new:
                (new / "a").write_text(str(count))

    def slow(place: Path) -> str:
        before = (place / "a").read_text()
        time.sleep(0.05)  # many times replaced meanwhile
        if (place / "a").read_text() != before:
            raise InputError("a mixture")
        return before

    with ThreadPoolExecutor() as other:
        writer = other.submit(write)
        try:
            assert reading(folder, slow).isdigit()
        finally:
            stop.set()
        writer.result()
