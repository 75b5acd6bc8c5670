"""Small files that unfold: each is called in the child of an `Arena`, with an empty folder."""

from __future__ import annotations

import gzip
import json
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path

from knowledge_sheaves.graph.readers import load

RDF = "xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:x='http://x.org/'"
BODY = (
    "<rdf:RDF {rdf}><rdf:Description rdf:about='http://x.org/{about}'>"
    "<x:r rdf:resource='http://x.org/b'/><x:says>{says}</x:says></rdf:Description></rdf:RDF>"
)
TRIPLE = "Julia\tlikes\tFargo\n"


def laughs(depth: int, fold: int) -> str:
    entities = ["<!ENTITY a0 'ha'>"]
    entities += [
        f"<!ENTITY a{place} '{f'&a{place - 1};' * fold}'>" for place in range(1, depth + 1)
    ]
    return f"<!DOCTYPE x [{''.join(entities)}]>"


def entities_in_text(folder: Path) -> Path:
    return _rdf(folder, laughs(9, 10), says="&a9;")


def entities_in_text_below_the_wall_of_expat(folder: Path) -> Path:
    return _rdf(folder, laughs(6, 10), says="&a6;")


def entities_in_a_name(folder: Path) -> Path:
    return _rdf(folder, laughs(9, 10), about="&a9;")


def one_long_entity_often(folder: Path) -> Path:
    return _rdf(folder, f"<!DOCTYPE x [<!ENTITY a '{'ha' * 20_000}'>]>", says="&a;" * 20_000)


def _rdf(folder: Path, before: str, about: str = "a", says: str = "") -> Path:
    path = folder / "x.rdf"
    path.write_text(before + BODY.format(rdf=RDF, about=about, says=says))
    return path


def zeros(kind: str, megabytes: int) -> Callable[[Path], Path]:
    """A gzip file of one line that does not end, a thousandth as long as what it holds."""

    def make(folder: Path) -> Path:
        path = folder / f"x{kind}.gz"
        packer = zlib.compressobj(9, wbits=31)
        start = packer.compress(TRIPLE.encode()) + packer.flush(zlib.Z_FULL_FLUSH)
        block = packer.compress(b"a" * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
        path.write_bytes(start + block * megabytes + packer.flush())
        return path

    return make


def lines(folder: Path) -> Path:
    """As issue 13 has it: 1.8 MB that unfold to gigabytes, here of lines that are right."""
    path = folder / "x.tsv.gz"
    block = gzip.compress(TRIPLE.encode() * (1 << 17), 9)
    path.write_bytes(block * max(1, 1_800_000 // len(block)))
    return path


def zstd_in_disguise(folder: Path) -> Path:
    """Polars would unfold it whatever its ending is: a frame of one repeated byte, 4 bytes each."""
    path = folder / "x.tsv"
    block = (((128 << 10) << 3) | (1 << 1)).to_bytes(3, "little") + b"\n"
    last = (1 | (1 << 1) | (1 << 3)).to_bytes(3, "little") + b"\n"
    head = b"\x28\xb5\x2f\xfd" + bytes([0x00, 0x58])
    path.write_bytes(head + block * 20_000 + last)
    return path


def zlib_in_disguise(folder: Path) -> Path:
    path = folder / "x.csv"
    path.write_bytes(zlib.compress(TRIPLE.encode() * (20 << 20), 9))
    return path


def betae(names: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "id2ent.pkl").write_bytes(names)
        (folder / "id2rel.pkl").write_bytes(pickle.dumps({0: "r"}))
        (folder / "train.txt").write_text("0\t0\t1\n")
        return folder

    return make


def schema(text: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "train.tsv").write_text(TRIPLE)
        (folder / "schema.yaml").write_text(text)
        return folder

    return make


def aliases(depth: int) -> str:
    rows = ["a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    for place in range(1, depth + 1):
        rows.append(f"a{place}: &a{place} [{', '.join([f'*a{place - 1}'] * 9)}]")
    return "\n".join(rows)


def _long(number: int) -> bytes:
    digits = number.to_bytes(number.bit_length() // 8 + 1, "little")
    return b"\x8a" + bytes([len(digits)]) + digits


DEEP = 2_000_000
BOMBS: dict[str, Callable[[Path], Path]] = {
    "entities in text": entities_in_text,
    "entities in text, fewer": entities_in_text_below_the_wall_of_expat,
    "entities in a name": entities_in_a_name,
    "one long entity, often": one_long_entity_often,
    "gzip, one line of TSV": zeros(".tsv", 3300),
    "gzip, one line of CSV": zeros(".csv", 1000),
    "gzip, N-Triples": zeros(".nt", 1000),
    "gzip, Turtle": zeros(".ttl", 1000),
    "gzip, RDF/XML": zeros(".rdf", 1000),
    "gzip, JSON-LD": zeros(".jsonld", 1000),
    "gzip, right lines": lines,
    "zstd in disguise": zstd_in_disguise,
    "zlib in disguise": zlib_in_disguise,
    "pickle, memo of 2^27": betae(b"\x80\x04Nr" + (1 << 27).to_bytes(4, "little") + b"."),
    "pickle, memo of 2^31": betae(b"\x80\x04Nr" + (1 << 31).to_bytes(4, "little") + b"."),
    "pickle, memo in digits": betae(b"(dp134217728\n."),
    "pickle, deep lists": betae(b"\x80\x04" + b"]" * DEEP + b"a" * (DEEP - 1) + b"."),
    "pickle, deep tuples": betae(b"\x80\x04N" + b"\x85" * DEEP + b"."),
    "pickle, deep tuples in a set": betae(b"\x80\x04\x8f(N" + b"\x85" * DEEP + b"\x90."),
    "pickle, deep reduce": betae(b"\x80\x04cbuiltins\nset\n(N" + b"\x85" * DEEP + b"tR."),
    "pickle, tuples that double": betae(
        b"\x80\x04\x8f(N" + b"".join(b"\x94h" + bytes([n]) + b"\x86" for n in range(99)) + b"\x90."
    ),
    "pickle, one list, many sets": betae(
        b"\x80\x04]\x94("
        + b"K\x01K\x02" * 50_000
        + b"ecbuiltins\nset\n\x94"
        + b"("
        + b"h\x01h\x00\x85R" * 50_000
        + b"l."
    ),
    "pickle, numbers that hash alike": betae(
        b"\x80\x04\x8f("
        + b"".join(_long(n * ((1 << 61) - 1)) for n in range(1 << 60, (1 << 60) + 50_000))
        + b"\x90."
    ),
    "pickle, a long string that is not there": betae(
        b"\x80\x04\x8d" + (1 << 40).to_bytes(8, "little") + b"."
    ),
    "pickle, a frame that is not there": betae(
        b"\x80\x04\x95" + (1 << 40).to_bytes(8, "little") + b"."
    ),
    "pickle, the same many times": betae(
        b"\x80\x04]\x94" + b"".join(b"(h\x00" + b"h\x00" * 9 + b"e" for _ in range(1000)) + b"."
    ),
    "pickle, a long number in digits": betae(b"I" + b"9" * 3_000_000 + b"\n."),
    "YAML aliases, as a section": schema(aliases(9)),
    "YAML aliases, as a type": schema(f"{aliases(9)}\ntypes: [{{name: *a9}}]"),
    "YAML aliases, as types": schema(f"types:\n- {aliases(9).replace(chr(10), chr(10) + '  ')}"),
    "YAML aliases, merged": schema(
        "a0: &a0 {k: 1}\n"
        + "\n".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 9))
    ),
    "YAML, deep lists": schema("types: " + "[" * 100_000 + "]" * 100_000),
    "YAML, deep mappings": schema("types: " + "{a: " * 100_000 + "}" * 100_000),
    "YAML, a long number": schema(f"types: [{{name: a, dim: {'9' * 1_000_000}}}]"),
    "YAML, a sexagesimal number": schema(f"types: [{{name: a, dim: 1{':59' * 100_000}}}]"),
    "JSON-LD, deep": lambda folder: _write(folder / "x.jsonld", "[" * 1_000_000),
    "JSON-LD, deep nodes": lambda folder: _write(
        folder / "x.jsonld", '{"http://x.org/r":' * 5_000 + "1" + "}" * 5_000
    ),
    "JSON-LD, a long number": lambda folder: _write(
        folder / "x.jsonld",
        json.dumps({"@id": "http://x/a", "http://x/r": 1})[:-1] + "0" * 3_000_000 + "}",
    ),
    "Turtle, deep": lambda folder: _write(
        folder / "x.ttl", "<http://x/a> <http://x/r> " + "[ <http://x/r> " * 100_000
    ),
    "Turtle, deep lists": lambda folder: _write(
        folder / "x.ttl", "<http://x/a> <http://x/r> " + "(" * 100_000
    ),
    "RDF/XML, prefixes of one element": lambda folder: _write(
        folder / "x.rdf",
        f"<rdf:RDF {RDF} " + " ".join(f"xmlns:p{n}='http://{n}'" for n in range(20_000)) + "/>",
    ),
    "RDF/XML, deep": lambda folder: _write(
        folder / "x.rdf", f"<rdf:RDF {RDF}>" + "<rdf:Description><x:r>" * 20_000
    ),
}


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def attack(name: str, folder: Path) -> Callable[[], object]:
    source = BOMBS[name](folder)
    return lambda: load(source)
