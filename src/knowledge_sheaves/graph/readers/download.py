"""The BetaE benchmark's own archive: fetched, checked, and unpacked, each of them all or nothing.

What is on the disk already is not fetched again: neither a data set, nor the archive, nor the part
of it that came before a connection broke.

No SHA-256 of the archive is published, so none is built in: it comes over https, or its
SHA-256 is given by whoever knows it. Every member of it is checked as the path that is written.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import shutil
import stat
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, TypeAlias

from knowledge_sheaves.errors import InputError, SheafError
from knowledge_sheaves.files import write_text
from knowledge_sheaves.graph.files import FREE_BYTES, MOST_UNFOLDED

URL = "https://snap.stanford.edu/betae/KG_data.zip"
DATA_SETS = ("NELL-betae", "FB15k-237-betae", "FB15k-betae")

Report: TypeAlias = Callable[[str, int, int], None]
"""Told what is being done, and how many bytes of how many; 0 of them is: nobody knows."""

PIECE = 1 << 20
TIMEOUT = 60.0  # seconds without a byte


def download(
    name: str,
    to: str | Path = "data",
    *,
    url: str = URL,
    sha256: str | None = None,
    report: Report | None = None,
) -> Path:
    """Return the folder of a data set of the benchmark, ``to/name``; fetch it if it is not there.

    The archive stays in ``to``, for the other data sets in it; one that was put there by hand is
    taken as it is. It must have the checksum ``sha256``; without one, the checksum that it had the
    first time is kept beside it, in a file that ends in ``.sha256``, and must not change, and the
    address must be an https one: over http anybody on the way could put in another archive.

    >>> download("NELL")
    Traceback (most recent call last):
    knowledge_sheaves.errors.InputError: There is no 'NELL' in the archive: choose one of \
NELL-betae, FB15k-237-betae, FB15k-betae.
    """
    if name not in DATA_SETS:
        known = ", ".join(DATA_SETS)
        raise InputError(f"There is no {name!r} in the archive: choose one of {known}.")
    folder, tell = archive_file(to, url).parent, report or _silent
    if (folder / name).exists():
        return folder / name
    folder.mkdir(parents=True, exist_ok=True)
    archive = archive_file(folder, url)
    if archive.exists():
        _check(archive, archive, sha256, tell)
    else:
        fetched = _fetch(_Address(url, sha256 is not None), archive, tell)
        try:
            _check(fetched, archive, sha256, tell)
        except SheafError:
            fetched.unlink()  # nothing can be made of it by going on
            raise
        fetched.rename(archive)
    return _unpack(archive, name, folder, tell)


def archive_file(to: str | Path = "data", url: str = URL) -> Path:
    """Return where the archive is kept, and may be put by hand.

    >>> archive_file("data").as_posix()
    'data/KG_data.zip'
    """
    try:
        name = PurePosixPath(urllib.parse.urlsplit(url).path).name
    except ValueError as error:
        raise InputError(f"{url!r} is not the address of an archive: {error}.") from None
    try:
        return Path(to).expanduser() / (name or "archive.zip")
    except RuntimeError:  # ~name, and there is nobody of that name
        raise InputError(f"{to}: there is no such user, and no such folder.") from None


def checksum_file(archive: Path) -> Path:
    """Return where the checksum of an archive is kept, in the form that `sha256sum --check` reads.

    >>> checksum_file(Path("data/KG_data.zip")).as_posix()
    'data/KG_data.zip.sha256'
    """
    return archive.with_name(f"{archive.name}.sha256")


def _silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""


# Fetching: a part on the disk grows until it is whole.

_HERE = ("127.0.0.1", "::1", "localhost")  # nobody stands on the way to this machine itself


class _Address(urllib.request.HTTPRedirectHandler):
    """An address and whether the archive's checksum is known; redirections obey the same rule."""

    def __init__(self, url: str, checked: bool) -> None:
        self.url, self.checked = url, checked
        self._refuse_unsafe(url)

    def open(self, request: urllib.request.Request) -> Any:
        return urllib.request.build_opener(self).open(request, timeout=TIMEOUT)

    def redirect_request(self, *arguments: Any) -> urllib.request.Request | None:
        self._refuse_unsafe(arguments[-1])
        return super().redirect_request(*arguments)

    def _refuse_unsafe(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise InputError(f"{url!r} is not the address of an archive: give an https address.")
        if parts.scheme == "http" and not self.checked and parts.hostname not in _HERE:
            raise InputError(
                f"{url} is not encrypted, so that anybody on the way could put in another archive: "
                "give an https address, or the archive's checksum with --sha256."
            )


def _fetch(address: _Address, archive: Path, tell: Report) -> Path:
    """Fetch what is missing, as often as the connection breaks, as long as something comes."""
    url = address.url
    part = archive.with_name(f"{archive.name}.part")
    while True:
        before = _size(part)
        try:
            if _fetch_more(address, part, tell):
                _version(part).unlink(missing_ok=True)
                return part
            reason = "the connection broke"
        except SheafError:
            raise
        except ValueError as error:
            raise InputError(f"{url!r} is not the address of an archive: {error}.") from None
        except urllib.error.HTTPError as error:
            raise _not_fetched(
                url, archive, f"the server says {error.code} {error.reason}"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            reason = str(cause) or type(cause).__name__
        if _size(part) <= before:
            raise _not_fetched(url, archive, reason) from None


def _not_fetched(url: str, archive: Path, reason: str) -> SheafError:
    return SheafError(
        f"{url} could not be fetched ({reason}): check the internet connection and try again, "
        f"which goes on where this stopped, or put the file at {archive} by hand."
    )


def _fetch_more(address: _Address, part: Path, tell: Report) -> bool:
    """Add to the part what one request brings; tell whether it is whole now."""
    have, version = _size(part), _version(part)
    request = urllib.request.Request(address.url)
    if have:
        request.add_header("Range", f"bytes={have}-")
        if version.exists():  # an archive that has changed meanwhile comes from its start
            request.add_header("If-Range", version.read_text(encoding="utf-8"))
    try:
        response = address.open(request)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not have:
            raise
        if error.headers.get("Content-Range", "").endswith(f"/{have}"):
            return True
        part.unlink()  # longer than the archive is: of another one
        return _fetch_more(address, part, tell)
    with response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            have = 0
        mark = response.headers.get("ETag") or response.headers.get("Last-Modified")
        if mark and not mark.startswith("W/"):  # a weak one does not promise the same bytes
            write_text(version, mark)
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else 0
        with part.open("ab" if have else "wb") as file:
            while piece := response.read1(PIECE):
                file.write(piece)
                have += len(piece)
                tell("fetching", have, total)
    return have >= total


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _version(part: Path) -> Path:
    return part.with_name(f"{part.name}.version")


# Checking: against what the user says, else against the first time.


def _check(path: Path, archive: Path, expected: str | None, tell: Report) -> None:
    kept = checksum_file(archive)
    known_from = "that was asked for"
    if expected is None and kept.exists():
        expected, known_from = kept.read_text(encoding="utf-8").split(" ")[0], f"in {kept}"
    found = _sha256(path, tell)
    if expected is not None and found != expected.strip().lower():
        raise SheafError(
            f"{archive} has the SHA-256 {found}, not the one {known_from}, {expected}: "
            "it is damaged, or another version; fetch it again, or correct the checksum."
        )
    write_text(kept, f"{found}  {archive.name}\n")


def _sha256(path: Path, tell: Report) -> str:
    digest, done, total = hashlib.sha256(), 0, _size(path)
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            done += len(piece)
            tell("checking", done, total)
    return digest.hexdigest()


# Unpacking: beside, then in one step.


def _unpack(archive: Path, name: str, folder: Path, tell: Report) -> Path:
    """Unpack one data set; an archive that would write elsewhere is not touched."""
    try:
        with zipfile.ZipFile(archive) as packed:
            members = _members(packed, archive, name)
            new = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=folder)) / name
            try:
                _write(packed, members, new, tell)
                return new.rename(folder / name)
            finally:
                shutil.rmtree(new.parent, ignore_errors=True)
    except SheafError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EACCES, errno.EPERM, errno.EROFS, errno.EDQUOT):
            raise  # nothing is wrong with the archive
        raise _unreadable(archive, error) from None
    except Exception as error:  # a damaged archive can fail in any way, an encrypted one in another
        raise _unreadable(archive, error) from None


def _unreadable(archive: Path, error: Exception) -> InputError:
    encrypted = isinstance(error, RuntimeError) and "encrypted" in str(error)
    reason = "it is encrypted" if encrypted else str(error) or type(error).__name__
    return InputError(
        f"{archive} is not a whole ZIP archive ({reason}): delete it and its .sha256, and fetch it "
        "again."
    )


def _members(packed: zipfile.ZipFile, archive: Path, name: str) -> dict[str, zipfile.ZipInfo]:
    """The files of a data set by their paths in its folder, wherever that lies in the archive."""
    files = [info for info in packed.infolist() if not f"/{info.filename}".endswith("/")]
    for info in files:
        _refuse_outside(info, info.filename, archive)
    ends = (info.filename for info in files if f"/{info.filename}".endswith(f"/{name}/train.txt"))
    prefix = next((end.removesuffix("train.txt") for end in ends), None)
    if prefix is None:
        raise InputError(
            f"{archive} holds no folder {name!r} with a train.txt: is it the right one?"
        )
    inside = {
        info.filename.removeprefix(prefix): info
        for info in files
        if info.filename.startswith(prefix)
    }
    for path, info in inside.items():
        _refuse_outside(info, path, archive)  # what is left of `data//etc/x` is another path
    return inside


def _refuse_outside(info: zipfile.ZipInfo, written: str, archive: Path) -> None:
    # Either kind of slash, and drives: what is a path on any system is one here.
    path = PureWindowsPath(written)
    odd = path.anchor or ".." in path.parts or ":" in written
    if odd or stat.S_ISLNK(info.external_attr >> 16):
        raise InputError(
            f"{archive} holds {info.filename!r}, which leads out of its folder: it is not the "
            "benchmark's archive, and nothing was unpacked."
        )


def _write(
    packed: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], new: Path, tell: Report
) -> None:
    done, total = 0, sum(info.file_size for info in members.values())
    if total > FREE_BYTES + MOST_UNFOLDED * sum(info.compress_size for info in members.values()):
        raise zipfile.BadZipFile(f"it unfolds to more than {MOST_UNFOLDED} times its size")
    for path, info in members.items():
        target = new / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with packed.open(info) as source, target.open("wb") as file:
            while piece := source.read(PIECE):
                file.write(piece)
                done += len(piece)
                tell("unpacking", done, total)
