"""The page in a real browser: a walk through every view, with the rules that it keeps."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from knowledge_sheaves.embedding import SheafEmbedding, model_config
from knowledge_sheaves.graph import KnowledgeGraph
from knowledge_sheaves.serve import front
from serve_cases import EX, FACTS, LABELS, TYPES, Server, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MAKE_PAGE = Path(__file__).parents[2] / "page" / "make_page.py"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
HOSTILE = '<img src=x onerror="window.hacked=1">'
LABEL = "<script>window.hacked=1</script> & <b>bold</b>"
PATIENCE = 20_000
"""Milliseconds that a slow machine may take for a step."""


def test_the_page_comes_with_rules(client: httpx.Client) -> None:
    if not (front.FOLDER / "index.html").is_file():
        pytest.skip("the page was not made: make page")
    for address in ("/", "/films/", "/page/app.js", "/page/app.css"):
        found = client.get(address)
        assert found.status_code == 200
        policy = found.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert found.headers["X-Content-Type-Options"] == "nosniff"
    assert '<meta name="model" content="films" />' in client.get("/").text
    assert "<script>" not in client.get("/").text  # no script but that of the file
    kept = client.get("/page/app.js").headers["ETag"]
    assert client.get("/page/app.js", headers={"If-None-Match": kept}).status_code == 304
    assert client.get("/page/../front.py").status_code == 404


def test_a_page_that_was_not_made_says_how_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(front, "FOLDER", tmp_path)
    app = FastAPI()
    front.add_page(app, "", "films")
    found = TestClient(app).get("/")
    assert found.status_code == 404
    assert "make page" in found.text


def test_several_models_are_listed() -> None:
    app = FastAPI()
    front.add_models(app, ["umls", "nell"])
    found = TestClient(app).get("/")
    assert re.findall(r'href="(\w+)/"', found.text) == ["umls", "nell"]
    assert "Content-Security-Policy" in found.headers


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with names that are HTML."""
    made = tmp_path_factory.mktemp("page") / "films"
    more = [
        (HOSTILE, "likes", "Fargo"),
        (f"{EX}odd", "likes", "Star Wars"),
        ("Ann", "knows", HOSTILE),
    ]
    types = TYPES | {HOSTILE: "person", f"{EX}odd": "person"}
    labels = LABELS | {f"{EX}odd": LABEL}
    graph = KnowledgeGraph.from_triples([*FACTS, *more], types=types, labels=labels)
    SheafEmbedding(model_config("complex", dim=8), graph).save(made)
    return made


@contextmanager
def browsing() -> Iterator[Browser]:
    """Start a browser, where there is one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    made = subprocess.run([sys.executable, MAKE_PAGE], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(made.stderr.strip())
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = driver.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, server: Server, **settings: Any) -> Iterator[Page]:
    """A page that is open; whatever it must not do is a failure at the end."""
    context = browser.new_context(**settings)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    wrong: list[str] = []

    def seen(url: str) -> None:
        if not url.startswith((server.address, "data:", "blob:")):
            wrong.append(f"a request to {url}")

    page.on("request", lambda request: seen(request.url))
    page.on("pageerror", lambda error: wrong.append(f"an error: {error}"))
    page.on("console", lambda said: wrong.append(said.text) if is_wrong(said) else None)
    page.on("dialog", lambda dialog: wrong.append(f"a dialog: {dialog.message}"))
    page.goto(server.address)
    yield page
    assert page.evaluate("window.hacked") is None
    assert wrong == []
    context.close()


def is_wrong(said: Any) -> bool:
    """Chromium notes a 400, which the page shows in words; nothing else is expected."""
    return said.type in ("error", "warning") and "status of 400" not in said.text


def test_a_walk_through_every_view(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    with browsing() as browser, serving(folder, "--workers", "1") as server:
        wide = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"}
        with opened(browser, server, **wide) as page:
            explore(page)
            copy(page, server)
            ask(page)
            ask_all_of_sparql(page)
            draw(page)
            judge(page)
            names_are_text(page)
        narrow = {"viewport": {"width": 400, "height": 800}, "color_scheme": "dark"}
        with opened(browser, server, **narrow) as page:
            everything_fits(page, server)


def explore(page: Page) -> None:
    """By the keyboard alone: find an entity, look at it, ask why."""
    from playwright.sync_api import expect

    expect(page).to_have_title("films · Knowledge Sheaves")
    expect(page.get_by_role("heading", level=1)).to_contain_text("missing from films")
    expect(page.locator(".numbers")).to_contain_text("9")
    search = page.get_by_role("combobox", name="Find an entity")
    expect(search).to_be_focused()
    page.keyboard.type("fargoo")  # misspelt
    expect(page.get_by_role("option")).to_have_text(["Fargofilm"])
    page.keyboard.press("Escape")
    expect(search).to_have_value("")
    page.keyboard.type("a")
    expect(page.get_by_role("option", name="Ann")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option").nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ann")
    section = page.locator("section", has=page.get_by_role("heading", name="Ann likes …"))
    expect(section.locator(".known")).to_have_text("Star Wars")
    expect(section.locator(".likely")).to_contain_text("Fargo")
    bar = section.locator(".predicted .bar").first
    expect(bar).to_have_css("border-top-style", "dashed")
    why = section.get_by_role("button", name="Why?")
    why.focus()
    page.keyboard.press("Enter")
    expect(section.locator(".graph canvas").first).to_be_visible()
    groups = section.locator(".paths button")
    expect(groups.filter(has_text="knows →likes →")).to_have_count(1)
    expect(groups.first).to_contain_text("have such a path")
    groups.nth(1).focus()
    page.keyboard.press("Enter")
    expect(groups.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(section.locator(".via").get_by_role("link")).not_to_have_count(0)
    accept = section.get_by_role("button", name="Accept: Ann likes Fargo")
    accept.focus()
    page.keyboard.press("Space")
    expect(accept).to_have_attribute("aria-pressed", "true")
    expect(page.locator("nav .count")).to_have_text("1")
    page.keyboard.press("/")
    expect(search).to_be_focused()
    page.keyboard.press("Escape")


def copy(page: Page, server: Server) -> None:
    """What is copied does the same elsewhere."""
    from playwright.sync_api import expect

    def text(form: str) -> str:
        page.get_by_text(form, exact=True).click()
        page.get_by_role("button", name="Copy", exact=True).click()
        expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("Copied.")
        return str(page.evaluate("navigator.clipboard.readText()"))

    page.get_by_role("button", name="Copy as").click()
    rows = httpx.get(f"{server.address}sparql", params={"query": text("SPARQL")}).json()
    found = rows["results"]["bindings"]
    assert len([row for row in found if "p" not in row]) == 4 + 1  # with the type
    assert [row for row in found if row.get("tail", {}).get("value") == "urn:name:Fargo"]
    program, address = shlex.split(text("curl"))
    assert program == "curl"
    assert httpx.get(address).json()["name"] == "Ann"
    said: list[object] = []
    exec(text("Python"), {"print": said.append})
    assert "Fargo" in {each.name for found in said for each in found}  # type: ignore[attr-defined]
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def ask(page: Page) -> None:
    """In SPARQL, with names completed."""
    from playwright.sync_api import expect

    page.get_by_role("link", name="Ask", exact=True).click()
    write(page, "SELECT ?x { :Ann :knows ?y . ?y :lik")
    expect(page.locator(".CodeMirror-hint").first).to_have_text("likes relation")
    page.keyboard.press("Enter")
    page.keyboard.type(" ?x }")
    page.keyboard.press("Control+Enter")
    rows = page.locator(".answers tbody tr")
    expect(rows.first).to_contain_text("Fargo")
    expect(rows.first).to_contain_text("known")
    expect(rows.locator(".predicted").first).to_contain_text("%")
    rows.first.get_by_role("button", name="Why?").click()
    expect(page.locator(".sentences")).to_contain_text("Ann knows Bob (known)")
    expect(page.locator(".reasons canvas").first).to_be_visible()
    page.get_by_text("Graph", exact=True).click()
    expect(page.get_by_role("img", name="The answers and the reasons for them")).to_be_visible()
    page.get_by_text("Table", exact=True).click()
    page.get_by_label("only what no fact says").check()
    page.get_by_role("button", name="Ask Ctrl").click()
    expect(rows.locator(".known")).to_have_count(0)
    expect(rows.first).to_contain_text("%")
    page.get_by_label("only what no fact says").uncheck()
    page.locator(".CodeMirror").click()
    page.keyboard.press("Tab")  # leaves the editor
    expect(page.get_by_label("Known and likely")).to_be_focused()
    write(page, "ASK { :Ann :knows :Bob }")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".verdict")).to_contain_text("Yes")
    write(page, "SELECT ?x { :Ann :knows :Bobby . :Ann :knows ?x }")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("did you mean 'Bob'")


def ask_all_of_sparql(page: Page) -> None:
    """Counts and graphs, which are of facts."""
    from playwright.sync_api import expect

    write(page, "SELECT (COUNT(*) AS ?n) { ?x :likes ?y }")
    page.keyboard.press("Control+Enter")
    page.get_by_role("alert").get_by_role("button", name="Ask for").click()
    expect(page.locator(".results table")).to_contain_text("5")
    write(page, "CONSTRUCT { ?x :likes ?y } WHERE { ?x :likes ?y }")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".results tbody tr")).to_have_count(5)
    page.get_by_text("Graph", exact=True).click()
    expect(page.get_by_role("img", name="The rows as a graph")).to_be_visible()


def draw(page: Page) -> None:
    """From the text to the drawing and back."""
    from playwright.sync_api import expect

    write(page, "SELECT ?x { :Ann :knows ?y . ?y :likes ?x }")
    page.get_by_role("button", name="Draw it").click()
    edges = page.get_by_role("list", name="Edges").get_by_role("listitem")
    expect(edges).to_have_count(2)
    nodes = page.get_by_role("list", name="Nodes").get_by_role("listitem")
    expect(nodes).to_have_count(3)
    text = page.locator("textarea")
    text.fill("Ann knows ?y . ?y likes ?x . not Ann likes ?x")
    expect(edges).to_have_count(3)
    expect(edges.nth(2).get_by_label("must not hold")).to_be_checked()
    text.fill("Ann knows Bobb . Ann knows ?x")
    expect(page.get_by_role("alert")).to_contain_text("did you mean 'Bob'")
    page.get_by_role("button", name="Start again").click()
    expect(edges).to_have_count(0)
    expect(page.get_by_role("button", name="Ask", exact=True)).to_be_disabled()
    page.get_by_label("Add an entity").fill("Fargo")
    page.get_by_role("option").first.click()
    expect(nodes).to_have_count(2)
    page.get_by_label("From", exact=True).select_option("?x")
    page.get_by_label("To", exact=True).select_option("Fargo")
    options = page.get_by_label("Relation", exact=True).locator("option")
    expect(options).to_have_text(["likes"])  # people know people, and films are made by them
    page.get_by_role("button", name="Add the edge").click()
    expect(text).to_have_value("SELECT ?x {\n  ?x :likes :Fargo .\n}")
    page.get_by_role("button", name="Add an unknown").click()
    page.get_by_label("From", exact=True).select_option("?y")
    page.get_by_label("To", exact=True).select_option("?x")
    page.get_by_label("Relation", exact=True).select_option("knows")
    page.get_by_role("button", name="Add the edge").click()
    edges.nth(0).get_by_label("must not hold").check()
    expect(text).to_have_value(
        "SELECT ?x {\n  ?y :knows ?x .\n  FILTER NOT EXISTS { ?x :likes :Fargo }\n}"
    )
    edges.nth(0).get_by_label("must not hold").uncheck()
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".answers tbody tr").first).to_contain_text("known")
    page.get_by_role("button", name="Edit as SPARQL").click()
    expect(page.locator(".CodeMirror")).to_contain_text("?y :knows ?x")


def judge(page: Page) -> None:
    """Verdicts stay, can be taken back, and are downloaded."""
    from playwright.sync_api import expect

    page.goto(page.url.split("#")[0] + "#/entity/Star%20Wars")
    page.get_by_role("button", name="Reject: Bob likes Star Wars").click()
    page.reload()
    rejected = page.get_by_role("button", name="Reject: Bob likes Star Wars")
    expect(rejected).to_have_attribute("aria-pressed", "true")
    page.get_by_role("link", name="Verdicts").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Copy as").click()
    query = page.get_by_role("dialog").locator("pre").inner_text()
    rows = httpx.get(page.url.split("#")[0] + "sparql", params={"query": query}).json()
    assert [row["verdict"]["value"] for row in rows["results"]["bindings"]] == [
        "accepted",
        "rejected",
    ]
    page.keyboard.press("Escape")
    with page.expect_download() as started:
        page.get_by_role("button", name="Download TSV").click()
    assert started.value.suggested_filename == "films-verdicts.tsv"
    lines = Path(started.value.path()).read_text().splitlines()
    assert lines[0].split("\t") == ["head", "relation", "tail", "verdict", "probability", "time"]
    cells = [line.split("\t") for line in lines[1:]]
    assert [row[:4] for row in cells] == [
        ["Ann", "likes", "Fargo", "accepted"],
        ["Bob", "likes", "Star Wars", "rejected"],
    ]
    assert all(0 < float(row[4]) < 1 and row[5].endswith("Z") for row in cells)
    page.get_by_role("button", name="Accept: Ann likes Fargo").click()
    expect(page.locator("tbody tr")).to_have_count(1)


def names_are_text(page: Page) -> None:
    """HTML in names and labels is shown as it is written."""
    from playwright.sync_api import expect

    search = page.get_by_role("combobox", name="Find an entity")
    search.fill("<script>")
    expect(page.get_by_role("option")).to_have_text([f"{LABEL}person"])
    search.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(LABEL)
    search.fill("onerror")
    expect(page.get_by_role("option")).to_have_text([f"{HOSTILE}person"])
    search.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    page.get_by_role("button", name="Why?").first.click()
    expect(page.locator(".graph canvas").first).to_be_visible()
    page.get_by_role("link", name="Ask about it").click()
    expect(page.locator(".answers tbody tr").first).to_contain_text("known")
    page.get_by_role("button", name="Draw it").click()
    expect(page.get_by_role("list", name="Nodes")).to_contain_text(HOSTILE)


def everything_fits(page: Page, server: Server) -> None:
    """On a telephone at night, by the model's own address."""
    from playwright.sync_api import expect

    asking = "ask?query=" + "SELECT ?x { :Ann :knows ?y . ?y :likes ?x }".replace(" ", "+")
    shows = {
        "": ".numbers",
        "entity/Fargo": ".relation",
        asking: ".answers",
        asking.replace("ask?", "draw?"): ".edges li",
        "verdicts": ".hint",
    }
    for view, part in shows.items():
        page.goto(f"{server.address}films/#/{view}")
        expect(page.locator(part).first).to_be_visible()
        width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(width) == 0, view
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", dark))) < 60


def write(page: Page, query: str) -> None:
    """Write a query in the editor, in place of what is there."""
    page.locator(".CodeMirror").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.type(query)
