"""What a folder costs must not grow with what is in it: mapped tables, names in columns."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import torch

import knowledge_sheaves as ks
from knowledge_sheaves.embedding import ModelInfo, SheafEmbedding, entity_file, model_config
from knowledge_sheaves.embedding.about import describe, describe_folder
from knowledge_sheaves.embedding.check import check_model
from knowledge_sheaves.embedding.storage import save
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph import KnowledgeGraph, Vocabulary
from knowledge_sheaves.graph.dataset import Dataset
from knowledge_sheaves.graph.readers import raw
from knowledge_sheaves.ranking.loss import sample_mrr

STRANGE = ["tab\tin it", "line\nend", "back\\slash", 'quote"', "", "Ünïcode", " blank "]


def strange_model() -> SheafEmbedding:
    names = [*STRANGE, *(f"e{i}" for i in range(20))]
    facts = [(name, "r", names[(i * 7 + 3) % len(names)]) for i, name in enumerate(names)]
    kinds = {name: f"kind {i % 3}" for i, name in enumerate(names)}
    graph = KnowledgeGraph.from_triples(facts, types=kinds, labels={"e3": "three\t", "e5": "5"})
    model = SheafEmbedding(model_config("transe", dim=4), graph)
    model.info = ModelInfo.of(Dataset(graph))
    return model


def test_names_in_columns_are_the_names_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = strange_model()
    model.save(tmp_path / "model")
    one = SheafEmbedding.load(tmp_path / "model").graph
    monkeypatch.setattr(entity_file, "LARGE", 0)
    other = SheafEmbedding.load(tmp_path / "model").graph
    assert isinstance(other.entities.to_series(), pl.Series)
    assert list(one.entities) == list(other.entities) == list(model.graph.entities)
    assert one.labels == other.labels == model.graph.labels
    assert one.entity_types.tolist() == other.entity_types.tolist()
    for name in STRANGE:
        assert one.entities.id(name) == other.entities.id(name)
    (tmp_path / "copy").mkdir()
    SheafEmbedding.load(tmp_path / "model").save(tmp_path / "copy" / "model")
    file = "model/entities.tsv"
    assert (tmp_path / "copy" / file).read_bytes() == (tmp_path / file).read_bytes()


def test_what_is_wrong_with_a_large_file_of_names_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entity_file, "LARGE", 0)
    schema = strange_model().graph.schema
    file = tmp_path / "entities.tsv"
    nothing = strange_model().graph.triples[:0]
    for text, why in (
        ("name\ttype\tlabel\na\tkind 0\t\t\n", "line 2 has 4 fields"),
        ("name\tkind\tlabel\na\tkind 0\t\n", "the first line must be"),
        ("name\ttype\tlabel\na\tkind 0\t\na\tkind 0\t\n", "'a' is given twice"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=why):
            entity_file.read_entities(file, schema, nothing)


def test_weights_are_mapped_and_the_file_stays_as_it_is(tmp_path: Path) -> None:
    strange_model().save(tmp_path / "model")
    weights = tmp_path / "model" / "weights.safetensors"
    before = hashlib.sha256(weights.read_bytes()).hexdigest()
    model = SheafEmbedding.load(tmp_path / "model")
    if Path("/proc/self/maps").exists():
        mapped = Path("/proc/self/maps").read_text()
        assert str(weights) in mapped
    with torch.no_grad():
        model.entities.tables[0].add_(1)
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == before
    model.save(tmp_path / "model")
    again = SheafEmbedding.load(tmp_path / "model")
    assert torch.equal(again.entities.tables[0], model.entities.tables[0])
    again.energy().backward()  # a loaded model can be trained


def test_info_needs_neither_torch_nor_the_model(tmp_path: Path) -> None:
    folder, data = tmp_path / "model", ks.read("nations")
    for judge in (None, strange_model()):
        model = SheafEmbedding(model_config("mure", dim=8), data.train)
        model.info = ModelInfo.of(
            data, metrics={"validation_mrr": 0.5}, calibration={"tau": 2.0}, measured=judge
        )
        model.save(folder)
        assert describe_folder(folder) == describe(SheafEmbedding.load(folder))
    program = (
        "import sys; from pathlib import Path\n"
        "from knowledge_sheaves.embedding.about import describe_folder\n"
        "describe_folder(Path(sys.argv[1])); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(folder)], check=True)


# Names.


def test_a_series_of_names_is_a_vocabulary() -> None:
    names = [f"e{i}" for i in range(1000)]
    one, other = Vocabulary(names), Vocabulary(pl.Series(names))
    assert one == other
    assert other == Vocabulary(pl.Series(names))
    assert other != Vocabulary(pl.Series(names[::-1]))
    assert other.ids(names[::-1]).tolist() == one.ids(names[::-1]).tolist()
    assert other.get("nobody") is other.get("\ud800") is None
    assert other.get("e0") == 0
    assert "e7" in other
    assert other[7] == "e7"
    with pytest.raises(InputError, match="Row 2: Unknown entity 'e1000'; did you mean"):
        other.ids(["e1", "e1000"])
    with pytest.raises(InputError, match="'a' is given twice"):
        Vocabulary(pl.Series(["a", "b", "a"]))


def test_names_with_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pl.Series, "hash", lambda self: self.str.len_bytes().cast(pl.UInt64))
    names = Vocabulary(pl.Series(["aa", "b", "cc", "dd"]))
    assert names.ids(["dd", "aa", "b", "cc"]).tolist() == [3, 0, 1, 2]
    assert names.get("xx") is None


def test_a_graph_of_many_names_is_read_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "facts.tsv"
    file.write_text("".join(f"a{i % 13}\tr{i % 3}\tb{i * 7 % 31}\n" for i in range(300)))
    (tmp_path / "split").mkdir()
    (tmp_path / "split" / "train.txt").write_text(file.read_text())
    (tmp_path / "split" / "test.txt").write_text("a1\tr1\tnobody\na1\tr1\tb3\n")
    for place in (file, tmp_path / "split"):
        monkeypatch.setattr(raw, "MANY", 1 << 18)
        one = ks.read(place)
        monkeypatch.setattr(raw, "MANY", 0)
        other = ks.read(place)
        assert one.hash == other.hash
        assert list(one.train.entities) == list(other.train.entities)
        assert (one.train.triples == other.train.triples).all()


@pytest.mark.parametrize(("tables", "share"), [("fp16", 0.5), ("int8", 0.3)])
def test_tables_in_fewer_bits_are_read_back(tables: str, share: float, tmp_path: Path) -> None:
    data = ks.read("nations")
    model = SheafEmbedding(model_config("complex", dim=256), data.train)
    torch.nn.init.normal_(model.entities.tables[0])
    model.refresh()
    model.info = ModelInfo.of(data)
    save(model, tmp_path / "plain")
    save(model, tmp_path / tables, tables=tables)
    again = SheafEmbedding.load(tmp_path / tables)
    table, found = model.entities.tables[0], again.entities.tables[0]
    assert found.dtype == torch.float32
    assert 0 < float((table - found).abs().max()) <= float(table.abs().max()) / 127
    files = (tmp_path / "plain" / "weights.safetensors", tmp_path / tables / "weights.safetensors")
    maps = sum(p.numel() * 4 for n, p in model.named_parameters() if not n.startswith("entities"))
    before, after = (file.stat().st_size - maps for file in files)
    assert after < share * before + 2000
    assert not any(found.problem for found in check_model(tmp_path / tables))
    mrr, facts = sample_mrr(again)
    assert mrr == pytest.approx(sample_mrr(model)[0], abs=0.05)
    assert facts == "199 facts of valid"
    again.save(tmp_path / "wide")
    assert torch.equal(SheafEmbedding.load(tmp_path / "wide").entities.tables[0], found)


def test_what_fits_no_half_is_refused(tmp_path: Path) -> None:
    model = strange_model()
    with torch.no_grad():
        model.entities.tables[0].mul_(1e9)
    with pytest.raises(InputError, match="too large for fp16"):
        save(model, tmp_path / "model", tables="fp16")
    assert not (tmp_path / "model").exists()
