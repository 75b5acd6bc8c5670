"""Draw the rooms of the house from what import-linter holds them to: python docs/hooks/rooms.py

The order is that of the contract in pyproject.toml, the words are the first lines of the packages.
"""

from __future__ import annotations

import ast
import textwrap
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE, PICTURE = ROOT / "src" / "knowledge_sheaves", ROOT / "docs" / "img" / "rooms.svg"
LEFT, WIDTH, HEIGHT, GAP = 76, 700, 58, 12
CHARACTER = 6.6  # pixels, of the smaller letters
COMMON = "#f2f2f2"
COLOURS = ("#e8ecf8", "#e4f1ea", "#f8efe0")


def contract() -> tuple[list[list[str]], list[str]]:
    """The rooms of each layer, from the top, and the modules that every room may import."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (found,) = [
        each
        for each in settings["tool"]["importlinter"]["contracts"]
        if each["type"] == "layers" and each["containers"] == ["knowledge_sheaves"]
    ]
    layers = [[room.strip() for room in layer.split("|")] for layer in found["layers"]]
    built = [[room for room in layer if not room.startswith("(")] for layer in layers]
    common = [name for name in found["exhaustive_ignores"] if not name.startswith("__")]
    return [layer for layer in built if layer], common


def first_line(room: str) -> str:
    """What a package or module says of itself in its first line."""
    package = SOURCE / room / "__init__.py"
    file = package if package.exists() else SOURCE / f"{room}.py"
    said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return said.partition("\n")[0]


def box(x: float, y: float, width: float, title: str, words: str, colour: str) -> list[str]:
    lines = textwrap.wrap(words, int((width - 24) / CHARACTER))
    return [
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{HEIGHT}" rx="6" fill="{colour}" '
        'stroke="#5a6275"/>',
        f'<text x="{x + 12:g}" y="{y + 20:g}" font-size="14" font-weight="bold">{title}</text>',
        *(
            f'<text x="{x + 12:g}" y="{y + 37 + 15 * row:g}" font-size="12">{escape(line)}</text>'
            for row, line in enumerate(lines)
        ),
    ]


def picture() -> str:
    """The rooms as SVG, those above import those below."""
    layers, common = contract()
    parts, y = [], GAP
    for place, layer in enumerate(layers):
        width = (WIDTH - GAP * (len(layer) - 1)) / len(layer)
        for column, room in enumerate(layer):
            x = LEFT + column * (width + GAP)
            colour = COLOURS[0 if place < 3 else 1 if place < 6 else 2]
            parts += box(x, y, width, room, first_line(room), colour)
        y += HEIGHT + GAP
    middle, bottom = LEFT / 2, y - GAP
    words = f"{', '.join(common)}: every room may import them."
    parts += box(LEFT, y, WIDTH, "beneath all", words, COMMON)
    y += HEIGHT + GAP
    arrow = [
        f'<path d="M{middle} {GAP} V{bottom - 8:g}" stroke="#5a6275" stroke-width="2"/>',
        f'<path d="M{middle - 6} {bottom - 10:g} h12 l-6 10 z" fill="#5a6275"/>',
        f'<text transform="translate({middle - 10} {bottom / 2:g}) rotate(-90)" font-size="12" '
        'text-anchor="middle">imports</text>',
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + GAP} {y:g}" '
        'font-family="DejaVu Sans, Verdana, sans-serif" fill="#1d2433" role="img">'
    )
    title = "<title>The rooms of the house, and who imports whom</title>"
    paper = f'<rect width="{LEFT + WIDTH + GAP}" height="{y:g}" fill="#ffffff"/>'
    return "\n".join([head, title, paper, *arrow, *parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"Wrote {PICTURE.relative_to(ROOT)}")
