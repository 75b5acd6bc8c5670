"""The tutorials run: small in `make test`, in full by `make tutorials`."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
from pathlib import Path

import pytest

from knowledge_sheaves.cli.app import app, run

PAGES = Path(__file__).parents[1] / "docs" / "tutorials"
BLOCK = re.compile(r"^```(sh|python|tsv)(?: title=\"(.*)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a test has no time for: the page's own settings are for people.
SMALL_TRAINING = ("--dim", "16", "--epochs", "4", "--threads", "1")
SMALL = {'"num_epochs": 100': '"num_epochs": 2', "epochs=50": "epochs=2"}

COMPOUNDS = ["Salbutamol", "Theophylline", "Prednisone", "Montelukast", "Ibuprofen", "Lisinopril"]
DISEASES = ["asthma", "hypertension", "migraine", "bronchitis"]
GENES = ["ADRB2", "IL13", "ACE", "PTGS2", "CYSLTR1"]
SIDE_EFFECTS = ["Asthma", "Tachycardia", "Cough"]


def write_miniature(folder: Path) -> None:
    """Tables of the form of Hetionet's, with the names of the page, and hardly any facts."""
    kinds = {
        "Compound": COMPOUNDS,
        "Disease": DISEASES,
        "Gene": GENES,
        "Side Effect": SIDE_EFFECTS,
    }
    ids = {
        (kind, name): f"{kind}::{place}"
        for kind, names in kinds.items()
        for place, name in enumerate(names)
    }
    rows = [f"{id}\t{name}\t{kind}" for (kind, name), id in ids.items()]
    folder.mkdir()
    (folder / "nodes.tsv").write_text("\n".join(["id\tname\tkind", *rows]) + "\n")
    ends = {
        "CtD": ("Compound", "Disease"),
        "CbG": ("Compound", "Gene"),
        "CcSE": ("Compound", "Side Effect"),
        "DaG": ("Disease", "Gene"),
    }
    edges = [
        f"{ids[head, h]}\t{relation}\t{ids[tail, t]}"
        for relation, (head, tail) in ends.items()
        for i, h in enumerate(kinds[head])
        for j, t in enumerate(kinds[tail])
        if (i + 2 * j) % 3
    ]
    (folder / "edges_subset.tsv").write_text("\n".join(["source\tmetaedge\ttarget", *edges]) + "\n")


def follow(page: str, folder: Path, small: bool) -> None:
    """Do what a page says, in a folder."""
    namespace: dict[str, object] = {}
    for language, title, code in BLOCK.findall((PAGES / f"{page}.md").read_text(encoding="utf-8")):
        if language == "tsv":
            (folder / title).write_text(code, encoding="utf-8")
        elif language == "python":
            for slow, quick in SMALL.items() if small else ():
                code = code.replace(slow, quick)
            exec(compile(code, page, "exec"), namespace)
        else:
            for line in code.splitlines():
                command(line, small)


def command(line: str, small: bool) -> None:
    """Run a line of a shell: a command of ours, and where its output goes."""
    words, _, file = line.partition(" > ")
    arguments = shlex.split(words)[1:]
    if small and arguments[0] == "train":
        arguments += SMALL_TRAINING
    with contextlib.ExitStack() as stack:
        if file:
            opened = stack.enter_context(Path(file).open("w", encoding="utf-8"))
            stack.enter_context(contextlib.redirect_stdout(opened))
        with pytest.raises(SystemExit) as stopped:
            run(app, arguments)
    assert not stopped.value.code, line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(PAGES / "team.ttl", tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", ["medicine", "team", "pykeen"])
def test_a_tutorial_runs_on_small_data(
    page: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_miniature(folder / "hetionet")
    follow(page, folder, small=True)
    printed = capsys.readouterr().out
    if page == "medicine":
        assert "because" in (folder / "shortlist.csv").read_text().splitlines()[0]
        assert "treats asthma (predicted with probability" in printed
    elif page == "team":
        assert "| machine learning |" in printed or "| statistics |" in printed
        assert "worked on Harbour Twin (predicted with probability" in printed


@pytest.mark.slow
@pytest.mark.parametrize("page", ["medicine", "team", "pykeen"])
def test_a_tutorial_runs_in_full(page: str, folder: Path, shared_data: Path) -> None:
    (folder / "hetionet").symlink_to(shared_data / "hetionet")
    follow(page, folder, small=False)


def test_every_tutorial_is_run() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == {"medicine", "team", "pykeen"}
