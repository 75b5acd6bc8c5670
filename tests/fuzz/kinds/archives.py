"""Zip archives: members with odd names and flags, bombs, and damaged ones."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

from fuzz.mutation import Dice, spoiled, word
from knowledge_sheaves.graph.readers.download import archive_file, download

NAMES = (
    *("train.txt", "valid.txt", "../evil", "/abs/evil", "//abs/evil", "C:\\evil", "a/../../evil"),
    *("..\\evil", "train.txt/x", "a\x00b", "a" * 300, "./x", "a//b", "", "/", "NELL-betae/x"),
)


def attack(seed: int, folder: Path) -> Callable[[], object]:
    random = Dice(f"archives {seed}")
    memory = io.BytesIO()
    prefix = random.choice(("NELL-betae/", "KG/NELL-betae/", "KG//NELL-betae/", "NELL-betae//"))
    how = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    with zipfile.ZipFile(memory, "w", how) as archive:
        names = [f"{prefix}train.txt"] if random.random() < 0.9 else []
        names += [
            f"{random.choice((prefix, ''))}{random.choice((*NAMES, word(random)))}"
            for _ in range(random.randrange(4))
        ]
        for name in names:
            info = zipfile.ZipInfo(name.encode("utf-8", "replace").decode())
            info.compress_type = how
            if random.random() < 0.1:
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
            size = random.choice((0, 5, 500, 50_000)) if random.random() < 0.3 else 9
            archive.writestr(info, b"0\t0\t1\n" * size)
    content = bytearray(memory.getvalue())
    if random.random() < 0.2:  # the flag that says it is encrypted, in both headers
        for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            at = content.find(mark)
            content[at + place] |= 1
    if random.random() < 0.4:
        content = bytearray(spoiled(bytes(content), random, (b"PK\x01\x02", b"PK\x05\x06")))
    inside = folder / "inside"
    inside.mkdir()
    archive_file(inside).write_bytes(content)

    def read() -> None:
        try:
            download("NELL-betae", inside)
        finally:
            outside = [path for path in folder.rglob("*") if not path.is_relative_to(inside)]
            assert not outside, outside

    return read
