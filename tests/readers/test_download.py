"""The benchmark's archive from a server of our own: broken connections, changed and evil files."""

from __future__ import annotations

import hashlib
import io
import shutil
import stat
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.graph.readers.download import URL, archive_file, checksum_file, download

TRAIN = b"0\t0\t1\n" * 20_000
FILES = {
    "KG_data/NELL-betae/train.txt": TRAIN,
    "KG_data/NELL-betae/more/stats.txt": b"2 entities",
    "KG_data/FB15k-betae/train.txt": b"1\t0\t0\n",
}


def packed(files: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", how) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, how)
    return memory.getvalue()


class Server(ThreadingHTTPServer):
    """Serves one archive, with ranges; ``breaks`` says after how many bytes each answer breaks."""

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.version, self.ranges = content, '"1"', True
        self.breaks: list[int] = []
        self.sent: list[int] = []
        self.elsewhere = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/betae/KG_data.zip"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, first = self.server, 0
        if server.elsewhere:
            self.send_response(302)
            self.send_header("Location", server.elsewhere)
            self.end_headers()
            return
        asked = self.headers.get("Range")
        same = self.headers.get("If-Range", server.version) == server.version
        if asked and same and server.ranges:
            first = int(asked.removeprefix("bytes=").removesuffix("-"))
        if first >= len(server.content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(server.content)}")
            self.end_headers()
            return
        body = server.content[first:]
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", server.version)
        self.end_headers()
        sent = body[: server.breaks.pop(0)] if server.breaks else body
        server.sent.append(len(sent))
        self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server(packed(FILES)) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def test_only_the_wanted_data_set_is_unpacked(server: Server, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    folder = download(
        "NELL-betae", tmp_path, url=server.url, report=lambda *what: told.append(what)
    )
    assert folder == tmp_path / "NELL-betae"
    assert (folder / "train.txt").read_bytes() == TRAIN
    assert (folder / "more" / "stats.txt").read_bytes() == b"2 entities"
    checksum = hashlib.sha256(server.content).hexdigest()
    assert (tmp_path / "KG_data.zip.sha256").read_text() == f"{checksum}  KG_data.zip\n"
    names = {"NELL-betae", "KG_data.zip", "KG_data.zip.sha256"}
    assert {path.name for path in tmp_path.iterdir()} == names
    ends = {what: (done, total) for what, done, total in told}
    size, whole = len(server.content), len(TRAIN) + 10
    expected = {"fetching": (size, size), "checking": (size, size), "unpacking": (whole, whole)}
    assert ends == expected


def test_nothing_is_fetched_twice(server: Server, tmp_path: Path) -> None:
    for name in ("NELL-betae", "NELL-betae", "FB15k-betae"):
        assert download(name, tmp_path, url=server.url) == tmp_path / name
    assert server.sent == [len(server.content)]


def test_the_checksum_is_written_whole_or_not_at_all(server: Server, tmp_path: Path) -> None:
    download("NELL-betae", tmp_path, url=server.url)
    (file,) = tmp_path.glob("*.sha256")
    (tmp_path / "kept").hardlink_to(file)
    shutil.rmtree(tmp_path / "NELL-betae")
    download("NELL-betae", tmp_path, url=server.url)
    assert not file.samefile(tmp_path / "kept"), "it was written over"
    assert file.read_text() == (tmp_path / "kept").read_text()


def test_a_broken_connection_is_taken_up_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.breaks = [1000, 500]
    folder = download("NELL-betae", tmp_path, url=server.url)
    assert (folder / "train.txt").read_bytes() == TRAIN
    assert server.sent == [1000, 500, len(server.content) - 1500]


@pytest.mark.parametrize("change", ["nothing", "the archive", "no ranges", "shorter"])
def test_a_second_run_goes_on_unless_the_archive_changed(
    server: Server, tmp_path: Path, change: str
) -> None:
    server.breaks = [1000, 0]
    with pytest.raises(SheafError, match=r"the connection broke.*KG_data\.zip by hand"):
        download("NELL-betae", tmp_path, url=server.url)
    assert not archive_file(tmp_path).exists()
    if change == "the archive":
        server.content, server.version = packed(FILES, zipfile.ZIP_DEFLATED), '"2"'
    elif change == "shorter":  # and a server that does not tell
        server.content = packed(FILES, zipfile.ZIP_DEFLATED)
        assert len(server.content) < 1000
    server.ranges = change != "no ranges"
    folder = download("NELL-betae", tmp_path, url=server.url)
    assert (folder / "train.txt").read_bytes() == TRAIN
    fetched = len(server.content) - (1000 if change == "nothing" else 0)
    assert server.sent[2:] == [fetched]


def test_a_whole_part_is_taken_as_it_is(server: Server, tmp_path: Path) -> None:
    (tmp_path / "KG_data.zip.part").write_bytes(server.content)
    assert download("NELL-betae", tmp_path, url=server.url).is_dir()
    assert server.sent == []


def test_a_wrong_checksum_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    with pytest.raises(SheafError, match=r"KG_data\.zip has the SHA-256 .* not the one that was"):
        download("NELL-betae", tmp_path, url=server.url, sha256="0" * 64)
    assert not list(tmp_path.iterdir())
    checksum = hashlib.sha256(server.content).hexdigest().upper()
    assert download("NELL-betae", tmp_path, url=server.url, sha256=checksum).is_dir()


def test_the_first_checksum_must_hold_the_next_time(server: Server, tmp_path: Path) -> None:
    download("NELL-betae", tmp_path, url=server.url)
    archive_file(tmp_path).write_bytes(packed({"NELL-betae/train.txt": b""}))
    with pytest.raises(SheafError, match=r"not the one in .*KG_data\.zip\.sha256"):
        download("FB15k-betae", tmp_path, url=server.url)
    archive_file(tmp_path).unlink()
    assert download("FB15k-betae", tmp_path, url=server.url).is_dir()


def by_hand(folder: Path, content: bytes) -> Path:
    archive_file(folder).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    "name", ["../evil", "NELL-betae/../../evil", "/evil", "NELL-betae/..\\evil", "C:\\evil"]
)
def test_an_archive_that_leads_outside_is_not_unpacked(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    by_hand(inside, packed({"NELL-betae/train.txt": TRAIN, name: b"evil"}))
    with pytest.raises(InputError, match="leads out of its folder"):
        download("NELL-betae", inside)
    assert not list(tmp_path.rglob("*evil*"))
    assert not (inside / "NELL-betae").exists()


@pytest.mark.parametrize("rest", ["/{}/evil", "C:\\evil", "C:evil", "\\evil"])
def test_what_is_left_of_a_path_stays_inside_too(tmp_path: Path, rest: str) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    name = "KG/NELL-betae/" + rest.format(outside)
    by_hand(inside, packed({"KG/NELL-betae/train.txt": TRAIN, name: b"evil"}))
    with pytest.raises(InputError, match="leads out of its folder"):
        download("NELL-betae", inside)
    assert not list(tmp_path.rglob("*evil*"))
    assert not (inside / "NELL-betae").exists()


def test_an_archive_with_a_link_is_not_unpacked(tmp_path: Path) -> None:
    memory = io.BytesIO(packed(FILES))
    link = zipfile.ZipInfo("NELL-betae/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(memory, "a") as archive:
        archive.writestr(link, "/etc")
    with pytest.raises(InputError, match="leads out of its folder"):
        download("NELL-betae", by_hand(tmp_path, memory.getvalue()))


def test_a_damaged_archive_leaves_no_data_set(tmp_path: Path) -> None:
    content = bytearray(packed(FILES))
    content[content.index(TRAIN) + 5000] ^= 1
    with pytest.raises(InputError, match="not a whole ZIP archive"):
        download("NELL-betae", by_hand(tmp_path, bytes(content)))
    assert {path.name for path in tmp_path.iterdir()} == {"KG_data.zip", "KG_data.zip.sha256"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"no archive", "not a whole ZIP archive"), (packed({"a/b.txt": b""}), "holds no folder")],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        download("NELL-betae", by_hand(tmp_path, content))


@pytest.mark.parametrize(
    ("url", "error", "sentence"),
    [
        ("nowhere", InputError, "is not the address of an archive"),
        ("file:///etc/passwd", InputError, "is not the address of an archive"),
        ("http://example.invalid/KG_data.zip", InputError, "not encrypted.*https.*--sha256"),
        ("http://127.0.0.1:9/KG_data.zip", SheafError, "check the internet connection .* by hand"),
    ],
)
def test_who_cannot_fetch_is_told_where_to_put_the_file(
    tmp_path: Path, url: str, error: type[SheafError], sentence: str, server: Server
) -> None:
    with pytest.raises(error, match=sentence):
        download("NELL-betae", tmp_path, url=url)
    assert not checksum_file(archive_file(tmp_path, url)).exists()


def test_a_redirection_does_not_lead_to_an_unsafe_address(server: Server, tmp_path: Path) -> None:
    server.elsewhere = "http://example.invalid/KG_data.zip"
    with pytest.raises(InputError, match=r"example\.invalid.* is not encrypted"):
        download("NELL-betae", tmp_path, url=server.url)
    server.elsewhere = "file:///etc/passwd"
    with pytest.raises(SheafError, match=r"passwd"):
        download("NELL-betae", tmp_path, url=server.url)


def test_the_benchmark_comes_over_https() -> None:
    assert URL.startswith("https://")


def test_with_a_checksum_the_way_does_not_matter(tmp_path: Path) -> None:
    url = "http://example.invalid/KG_data.zip"
    with pytest.raises(SheafError, match="could not be fetched"):
        download("NELL-betae", tmp_path, url=url, sha256="0" * 64)
