"""Take the pictures of the page: `python docs/hooks/screenshots.py build/umls`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, sync_playwright

IMG = Path(__file__).parents[1] / "img"
View = Callable[[Page, str], None]
QUERY = "SELECT ?x {\n  :virus :causes ?y .\n  ?x :treats ?y\n}"


def main(folder: str) -> None:
    """Serve the model, and look at it in light and dark, wide and narrow."""
    command = [sys.executable, "-m", "knowledge_sheaves", "serve", folder, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    try:
        address = server.stdout.readline().split(" at ")[1].strip()
        with sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            take(browser, address, "page-entity", (1280, 900), "light", entity)
            take(browser, address, "page-ask", (1280, 1130), "dark", ask)
            take(browser, address, "page-draw", (1280, 900), "light", draw)
            take(browser, address, "page-narrow", (400, 900), "dark", entity)
            browser.close()
    finally:
        server.terminate()
        server.wait()


def take(
    browser: Browser, address: str, name: str, size: tuple[int, int], scheme: str, view: View
) -> None:
    """Open a view and write its picture."""
    width, height = size
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    view(page, address)
    page.mouse.move(0, 0)
    page.screenshot(path=IMG / f"{name}.png", animations="disabled")
    page.close()


def entity(page: Page, address: str) -> None:
    """An entity, with the reasons for one of its likely facts."""
    page.goto(f"{address}#/entity/gene_or_genome")
    page.get_by_role("button", name="Why?").first.click()
    page.locator(".paths button").nth(1).click()
    page.wait_for_selector(".via")


def ask(page: Page, address: str) -> None:
    """A question in SPARQL and its answers as a graph."""
    page.goto(f"{address}#/ask?{urlencode({'query': QUERY})}")
    page.get_by_role("button", name="Why?").nth(5).click()
    page.wait_for_selector(".graph canvas")


def draw(page: Page, address: str) -> None:
    """The same question drawn."""
    page.goto(f"{address}#/draw?{urlencode({'query': QUERY})}")
    page.get_by_role("list", name="Edges").get_by_role("listitem").nth(1).wait_for()
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_selector(".answers")


if __name__ == "__main__":
    main(sys.argv[1])
