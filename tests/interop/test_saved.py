"""Folders that PyKEEN saved: read as data, and refused in one sentence where that is impossible."""

from __future__ import annotations

import pickle
import pickletools
import shutil
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from pykeen import models
from pykeen.datasets import Nations
from pykeen.nn import Embedding
from pykeen.pipeline import pipeline
from pykeen.triples import CoreTriplesFactory

from knowledge_sheaves.embedding import SheafEmbedding
from knowledge_sheaves.errors import InputError
from knowledge_sheaves.interop import KnowledgeSheafModel, from_pykeen
from knowledge_sheaves.interop.archive import read_archive

NAMES = [
    *("TransE", "TransH", "SE", "TransR", "RotatE", "MuRE", "PairRE", "UM", "TorusE"),
    *("DistMult", "ComplEx", "HolE", "QuatE", "RESCAL"),
]


def quietly(source: Any) -> SheafEmbedding:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return from_pykeen(source)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, models.Model]:
    """What PyKEEN's pipeline leaves behind, and the model that it has trained."""
    folder = tmp_path_factory.mktemp("pykeen")
    result = pipeline(
        dataset="nations",
        dataset_kwargs={"create_inverse_triples": True},
        model="DistMult",
        model_kwargs={"embedding_dim": 6},
        training_kwargs={"num_epochs": 2, "use_tqdm": False},
        evaluation_kwargs={"use_tqdm": False},
        random_seed=0,
        device="cpu",
    )
    result.save_to_directory(folder)
    return folder, result.model


@pytest.fixture(scope="module")
def saved(run: tuple[Path, models.Model]) -> Path:
    return run[0]


def test_a_folder_of_the_pipeline_is_the_model_with_its_names(
    run: tuple[Path, models.Model],
) -> None:
    folder, model = run
    ours = from_pykeen(folder)
    factory = Nations(create_inverse_triples=True).training
    assert list(ours.graph.entities) == sorted(factory.entity_to_id, key=factory.entity_to_id.get)
    assert ours.graph.num_triples == factory.num_triples
    same = from_pykeen(model, factory)
    assert same.config == ours.config
    assert same.graph.schema == ours.graph.schema
    for name, tensor in ours.state_dict().items():
        assert torch.equal(tensor, same.state_dict()[name]), name


@pytest.mark.parametrize("name", NAMES)
def test_saved_models_are_the_models(name: str, tmp_path: Path) -> None:
    factory = Nations().training
    model = getattr(models, name)(triples_factory=factory, embedding_dim=6, random_seed=0)
    path = tmp_path / "trained_model.pkl"
    torch.save(model, path, pickle_protocol=pickle.HIGHEST_PROTOCOL)  # as PyKEEN does
    expected, ours = quietly(model), quietly(tmp_path)
    assert expected.config == ours.config
    for key, tensor in ours.state_dict().items():
        torch.testing.assert_close(tensor, expected.state_dict()[key])


def test_normalizers_are_applied(tmp_path: Path) -> None:
    factory = Nations().training
    for options in ({"normalizer": "normalize", "normalizer_kwargs": {"p": 1}}, {}):
        model = models.DistMult(
            triples_factory=factory, embedding_dim=6, entity_representations_kwargs=options
        )
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(3)
        torch.save(model, tmp_path / "trained_model.pkl", pickle_protocol=5)
        tables = [each.entities.tables[0] for each in (quietly(model), quietly(tmp_path))]
        torch.testing.assert_close(*tables)


class Bomb:
    """Leaves a mark when it is unpickled the ordinary way."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (Path.touch, (self.mark,))


def test_nothing_in_a_pickle_runs(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    model = models.TransE(triples_factory=Nations().training, embedding_dim=4)
    model.bomb = Bomb(mark)
    torch.save(model, tmp_path / "trained_model.pkl", pickle_protocol=5)
    assert quietly(tmp_path).config.name == "transe"
    assert not mark.exists()
    with zipfile.ZipFile(tmp_path / "trained_model.pkl") as archive:
        (data,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        words = {argument for _, argument, _ in pickletools.genops(archive.read(data))}
    assert {"Path.touch", mark.name} <= words  # the bomb is in the file
    call, arguments = model.bomb.__reduce__()
    call(*arguments)
    assert mark.exists()  # and is a real one


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        quietly(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


def save(folder: Path, value: Any) -> Path:
    torch.save(value, folder / "trained_model.pkl", pickle_protocol=5)
    return folder


def test_what_cannot_be_read_is_refused_in_a_sentence(tmp_path: Path, saved: Path) -> None:
    assert "No such file" in refused(tmp_path)
    (tmp_path / "trained_model.pkl").write_bytes(b"nothing")
    assert "not a model saved by PyKEEN, or is damaged" in refused(tmp_path)
    whole = (saved / "trained_model.pkl").read_bytes()
    (tmp_path / "trained_model.pkl").write_bytes(whole[: len(whole) // 2])
    assert "not a model saved by PyKEEN, or is damaged" in refused(tmp_path)
    assert "holds list, which is no sheaf" in refused(save(tmp_path, [1]))
    assert "has no interaction" in refused(save(tmp_path, torch.nn.Linear(2, 2)))
    assert "has no interaction" in refused(save(tmp_path, torch.nn.Linear(2, 2).state_dict()))
    factory = Nations().training
    assert "NTN is no sheaf" in refused(save(tmp_path, models.NTN(triples_factory=factory)))


def test_vectors_that_must_be_computed_need_pykeen(tmp_path: Path) -> None:
    factory = Nations(create_inverse_triples=True).training
    node_piece = models.NodePiece(
        triples_factory=factory, embedding_dim=4, num_tokens=2, interaction="distmult"
    )
    assert quietly(node_piece).config.name == "distmult"
    assert "computes its vectors" in refused(save(tmp_path, node_piece))
    model = models.DistMult(triples_factory=factory, embedding_dim=4)
    model.entity_representations[0].normalizer = torch.tanh
    assert "normalises its vectors with" in refused(save(tmp_path, model))


def test_ids_serve_where_the_triples_were_not_saved(saved: Path, tmp_path: Path) -> None:
    shutil.copy(saved / "trained_model.pkl", tmp_path)
    ours = from_pykeen(tmp_path)
    assert (ours.graph.entities[2], ours.graph.num_triples, ours.num_relations) == ("2", 0, 55)
    assert from_pykeen(tmp_path / "trained_model.pkl").config == ours.config
    factory = CoreTriplesFactory(torch.tensor([[0, 0, 1]]), num_entities=14, num_relations=55)
    assert from_pykeen(tmp_path, factory).graph.triples.tolist() == [[0, 0, 1]]


def test_damaged_triples_are_told_with_their_file(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    (tmp_path / "training_triples" / "entity_to_id.tsv.gz").write_bytes(b"\x1f\x8bnothing")
    assert "entity_to_id.tsv.gz cannot be read" in refused(tmp_path)


def test_our_own_class_in_a_pickle_is_sent_to_our_own_format(tmp_path: Path) -> None:
    model = KnowledgeSheafModel(triples_factory=Nations().training, embedding_dim=4)
    assert "to_sheaf_embedding" in refused(save(tmp_path, model))


def test_embeddings_of_other_number_types(tmp_path: Path) -> None:
    model = models.DistMult(triples_factory=Nations().training, embedding_dim=4).double()
    assert isinstance(model.entity_representations[0], Embedding)
    expected, ours = quietly(model), quietly(save(tmp_path, model))
    torch.testing.assert_close(ours.entities.tables[0], expected.entities.tables[0])


def test_archives_hold_tensors_of_all_kinds(tmp_path: Path) -> None:
    base = torch.arange(12.0)
    tensors = {
        "strided": base.reshape(3, 4).T,
        "part": base[5:7],
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "complex": torch.tensor([1 + 2j]),
        "truth": torch.tensor([True, False]),
        "half": torch.tensor([0.5]).bfloat16(),
        "learned": torch.nn.Parameter(base),
    }
    torch.save(tensors, tmp_path / "tensors.pt", pickle_protocol=5)
    found = read_archive(tmp_path / "tensors.pt")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


def test_big_endian_archives_are_refused(tmp_path: Path, saved: Path) -> None:
    with (
        zipfile.ZipFile(saved / "trained_model.pkl") as old,
        zipfile.ZipFile(tmp_path / "trained_model.pkl", "w") as new,
    ):
        for name in old.namelist():
            new.writestr(name, b"big" if name.endswith("byteorder") else old.read(name))
    assert "big-endian" in refused(tmp_path)
