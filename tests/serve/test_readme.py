"""The question that the README asks a server has answers that no fact gives."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import knowledge_sheaves as ks
from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.query.asking import Asker
from knowledge_sheaves.serve.settings import Settings
from knowledge_sheaves.serve.work import Desk

README = Path(__file__).parents[2] / "README.md"
MAKEFILE = README.parent / "Makefile"


def test_the_question_of_the_readme_shows_predictions() -> None:
    text = README.read_text(encoding="utf-8")
    (served,) = re.findall(r"sheaves serve (\S+)", text)
    assert f"--out {served}" in MAKEFILE.read_text(encoding="utf-8")
    (command,) = re.findall(r"^curl .*?'$(?=\n```)", text, re.MULTILINE | re.DOTALL)
    words = shlex.split(command)
    address, query = words[1], words[words.index("--data-urlencode") + 1]
    graph = ks.read("umls").train
    asker = Asker(SheafEmbedding(model_config("complex", dim=4), graph))
    job = {
        "job": address.rpartition("/")[2],
        "model": "umls",
        "body": query.removeprefix("query=").encode(),
        "accept": words[words.index("--header") + 1].partition(": ")[2],
        **{"output": "", "default_graphs": [], "named_graphs": []},
    }
    head, body = Desk({"umls": asker}, Settings({})).handle(job)
    assert (head["status"], head["media"]) == (200, "text/csv; charset=utf-8")
    rows = list(csv.DictReader(body.decode().splitlines()))
    assert len(rows) == 3
    known = {
        drug
        for head, relation, disease in graph.decode(graph.triples)
        if (head, relation) == ("virus", "causes")
        for drug, treats, other in graph.decode(graph.triples)
        if (treats, other) == ("treats", disease)
    }
    assert known
    for row in rows:
        assert row["x"].removeprefix("urn:name:") not in known
        assert 0 < float(row["p"]) < 1
