"""YAML and JSON as people write settings and schemas: small, plain, and never a surprise.

What a file says must not depend on the fine print of YAML 1.1: 1e-3 is a number, a date is text,
1:30 is text. What is short in the file is short in memory: aliases that multiply are refused.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.files import located, read_bytes

DEEPEST = 50
MOST_BY_ALIASES = 10_000
MOST_DIGITS = 400


class _Loader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._nodes = self._repeated = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        is_alias, before = self.check_event(yaml.AliasEvent), self._nodes
        self._depth += 1
        if self._depth > DEEPEST:
            self._refuse(f"more than {DEEPEST} lists and mappings are nested")
        node = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias:
            size = self._sizes.get(id(node), MOST_BY_ALIASES + 1)  # not whole yet: it holds itself
            self._repeated += size
            self._nodes += size
            if self._repeated > MOST_BY_ALIASES:
                self._refuse("its aliases unfold to far more than the file; write them out")
        else:
            self._nodes += 1
            self._sizes[id(node)] = self._nodes - before
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError, AttributeError, TypeError, KeyError, IndexError):
            kind = str(node.tag).removeprefix("tag:yaml.org,2002:")
            raise yaml.constructor.ConstructorError(
                None, None, f"this cannot be read as {kind!r}", node.start_mark
            ) from None

    def _number(self, node: Any) -> Any:
        text = str(self.construct_scalar(node))
        if ":" in text:
            return text  # a time of day to people, a number of base 60 to YAML 1.1
        if len(text) > MOST_DIGITS:
            self._refuse(f"a number of {len(text):,} characters is too long", node.start_mark)
        is_float = node.tag.endswith("float")
        return self.construct_yaml_float(node) if is_float else self.construct_yaml_int(node)

    def _text(self, node: Any) -> Any:
        return self.construct_yaml_str(node)

    def _refuse(self, problem: str, mark: Any = None) -> None:
        mark = mark or self.get_mark()
        raise yaml.composer.ComposerError(None, None, problem, mark)


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _Loader._number)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader._text)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("+-0123456789")
)


def parse_yaml(text: str) -> Any:
    """Return the data of a YAML text; an error is a sentence that starts with the line.

    >>> parse_yaml("{n3: 1e-3, seed: 7, since: 2020-02-30, at: 1:30}")
    {'n3': 0.001, 'seed': 7, 'since': '2020-02-30', 'at': '1:30'}
    >>> parse_yaml("a: !!int x")
    Traceback (most recent call last):
    knowledge_sheaves.errors.InputError: line 1: not valid YAML: this cannot be read as 'int'.
    """
    try:
        return _checked(yaml.load(text, _Loader))
    except InputError:
        raise
    except (OverflowError, ValueError):  # from an escape in quotes, such as "\\UFFFFFFFF"
        raise InputError("not valid YAML: an escape in it stands for no character.") from None
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        line = f"line {mark.line + 1}: " if mark else ""
        reason = " ".join(str(problem or error).split())
        raise InputError(f"{line}not valid YAML: {reason}.") from None


def parse_json(text: str) -> Any:
    """Return the data of a JSON text; an error is a sentence that starts with the line.

    >>> parse_json('{"a": 1,')
    Traceback (most recent call last):
    knowledge_sheaves.errors.InputError: line 1: not valid JSON: Expecting property name ...
    """
    try:
        return _checked(json.loads(text, parse_int=_whole_number))
    except InputError:
        raise
    except json.JSONDecodeError as error:
        raise InputError(f"line {error.lineno}: not valid JSON: {error.msg}.") from None
    except RecursionError:
        raise InputError("not valid JSON: its lists and objects are nested too deep.") from None


def _checked(data: Any) -> Any:
    """Refuse halves of characters, which no file that is written later can hold."""
    waiting = [data]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str) and not part.isascii() and re.search("[\ud800-\udfff]", part):
            raise InputError(f"{part[:80]!r} holds half of a character; correct the escape.")
        if isinstance(part, dict):
            waiting.extend(part)
            waiting.extend(part.values())
        elif isinstance(part, list | tuple | set):
            waiting.extend(part)
    return data


def _whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise InputError(f"not valid JSON: a number of {len(digits):,} digits is too long.")
    return int(digits)


def read_plain_data(path: Path) -> Any:
    """Return what a YAML or JSON file holds; every error names the file, and the line if known."""
    text = read_small_text(path)
    try:
        return parse_json(text) if path.suffix.lower() == ".json" else parse_yaml(text)
    except InputError as error:
        raise located(path, error) from None


def read_small_text(path: Path) -> str:
    """Return the text of a file that people write by hand."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: cannot be read: it is not UTF-8 text.") from None
