"""Turn the formulas of a page into MathML while the site is built: no script, no internet."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>([.,;:)]*)', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    content = DISPLAY.sub(lambda formula: _mathml(formula[1], "block"), content)
    return INLINE.sub(_inline, content)


def _inline(formula: re.Match[str]) -> str:
    # The full stop after a formula stays on its line.
    mathml = _mathml(formula[1], "inline")
    return f'<span style="white-space: nowrap">{mathml}{formula[2]}</span>'


def _mathml(latex: str, display: str) -> str:
    return convert(html.unescape(latex).strip(), display=display)
