"""Pickles of plain data: nothing in them can run, and none costs more than its size.

A pickle is a program. The unpickler below knows no class but containers, so that it runs nothing;
but it can still be told to fill gigabytes or to nest so deep that Python itself breaks. So the
program is looked through first, on paper: what lies on its stack, and how large.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections import defaultdict
from pathlib import Path

from knowledge_sheaves.errors import InputError
from knowledge_sheaves.graph.files import read_bytes

MOST_IN_A_TUPLE = 1000
"""Tuples are hashed with all that is in them; a query of the benchmark has at most a dozen."""
LONGEST_NUMBER = 20
"""Characters of a whole number; larger ones are no ids, and can be made to hash alike."""
HIGHEST = 100_000
"""Things on the stack at once; who writes a pickle puts a thousand into a list at a time."""

_CALLED = {
    **{(module, "set"): set for module in ("builtins", "__builtin__")},  # Python 2 says the latter
    ("collections", "defaultdict"): defaultdict,
}
# What a defaultdict makes of a missing key: it is never asked for one.
_NAMED = {(module, kind) for module, _ in _CALLED for kind in ("list", "dict", "int", "str")}


class _Refused(Exception):
    pass


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type | None:
        if (module, name) in _NAMED:
            return None
        if (module, name) not in _CALLED:
            raise _Refused(
                f"the pickle asks for {module}.{name}, which could run code; only sets, dicts, "
                "lists, tuples, strings, integers and defaultdict are read"
            )
        return _CALLED[module, name]


def read_plain_pickle(path: Path) -> object:
    """Read sets, dicts, lists, tuples, strings and integers; anything else is refused by name."""
    content = read_bytes(path)
    try:
        _Scan(content).run()
        return _PlainUnpickler(io.BytesIO(content)).load()
    except _Refused as error:
        raise InputError(f"{path}: {error}.") from None
    except Exception as error:  # a damaged pickle can fail in any way at all
        reason = str(error) or type(error).__name__
        raise InputError(f"{path}: not a readable pickle ({reason}); get it again.") from None


# What an opcode does to the stack, by its letter: push one, take so many and push one, and so on.
_PUSH = b"NKMJGIFX\x8cTUSV\x8a\x8b\x8d\x88\x89BC\x8eL])}\x8f"
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
_FILLS = {ord("a"): 1, ord("s"): 2}
_FILLS_FROM_MARK = b"eu\x90"
_MADE_FROM_MARK = b"ld"
_PUTS = {ord("q"): 1, ord("r"): 4, ord("p"): 0}
_GETS = {ord("h"): 1, ord("j"): 4, ord("g"): 0}
# The bytes after an opcode: a fixed number; a length that so many bytes give; or a line of text.
_FIXED = {ord("K"): 1, ord("M"): 2, ord("J"): 4, ord("G"): 8, 0x80: 1, 0x95: 8}
_COUNTED = {ord("X"): 4, 0x8C: 1, 0x8D: 8, ord("T"): 4, ord("U"): 1, ord("B"): 4, ord("C"): 1}
_COUNTED |= {0x8E: 8, 0x8A: 1, 0x8B: 4}
_LINES = b"IFLSV"
_NUMBERS = {ord("I"), ord("L"), 0x8A, 0x8B}
_NUMBERED = [{ord("K"): 1, ord("M"): 2, ord("J"): 4}.get(code, 0) for code in range(256)]
_key_of = struct.Struct("<I").unpack_from

# Marks on a size, far above it: what comes out of the memo, and classes.
_SHARED, _CLASS = 1 << 40, 1 << 50
_SMALL = 16  # sizes up to it are not kept, and taken to be just it


class _Scan:
    """Goes through a pickle as the unpickler would, with a size in place of every object.

    The size of a tuple is that of all that hashing it visits, shared parts as often as they occur:
    a tuple of two tuples of two tuples ... is small in the file and without end to whoever walks
    through it. Lists, dicts and sets are never hashed, and count 1.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.stack: list[int] = []
        self.marks: list[int] = []
        self.memo: dict[int, int] = {}
        self.puts: int | None = 0
        """How many were remembered without a number of their own; None: they have numbers."""

    def run(self) -> None:
        """Refuse what plain data never does; the unpickler finds what is merely damaged."""
        content, stack, place, end = self.content, self.stack, 0, len(self.content)
        while place < end:
            code = content[place]
            place += 1
            # Files of the benchmark have millions of these few, so no function is called for them.
            if (size := _NUMBERED[code]) > 0:
                stack.append(1)
                place += size
            elif code == 0x72 and stack and stack[-1] <= _SMALL and self.puts is None:
                if place + 4 > end or _key_of(content, place)[0] > place:
                    raise _Refused("the pickle remembers something as a number it cannot be")
                place += 4
            elif code == 0x85 and stack and stack[-1] < MOST_IN_A_TUPLE:
                stack[-1] += 1
            elif code == 0x2E:  # STOP
                return
            else:
                place = self._step(code, place)

    def _step(self, code: int, place: int) -> int:
        stack = self.stack
        if (size := _PUTS.get(code)) is not None:
            return self._put(place, size)
        if (count := _TUPLES.get(code)) is not None:
            self._make_tuple(len(stack) - count)
        elif code in _PUSH:
            stack.append(1)
            if len(stack) > HIGHEST:
                raise _Refused("the pickle nests far more than plain data do")
            return self._after(code, place)
        elif (count := _FILLS.get(code)) is not None:
            del stack[max(len(stack) - count, 0) :]
        elif (size := _GETS.get(code)) is not None:
            return self._get(place, size)
        else:
            return self._rarely(code, place)
        return place

    def _rarely(self, code: int, place: int) -> int:
        stack = self.stack
        if code == 0x28:  # MARK
            self.marks.append(len(stack))
        elif code == ord("t"):
            self._make_tuple(self._mark())
        elif code in _FILLS_FROM_MARK:
            del stack[self._mark() :]
        elif code in _MADE_FROM_MARK:
            del stack[self._mark() :]
            stack.append(1)
        elif code == 0x94:  # MEMOIZE
            self._remember_next()
        elif code in (0x80, 0x95):  # PROTO, FRAME
            return self._after(code, place)
        elif code == ord("c"):
            stack.append(_CLASS)
            return self._line(self._line(place)[1])[1]
        elif code == 0x93:  # STACK_GLOBAL
            del stack[max(len(stack) - 2, 0) :]
            stack.append(_CLASS)
        elif code == ord("R"):
            self._call()
        else:
            raise _Refused(f"the pickle has the opcode {code:#04x}, which plain data never have")
        return place

    def _mark(self) -> int:
        return self.marks.pop() if self.marks else 0

    def _make_tuple(self, start: int) -> None:
        items = self.stack[max(start, 0) :]
        del self.stack[max(start, 0) :]
        size = 1 + sum(items)
        if size % _SHARED > MOST_IN_A_TUPLE or len(items) > MOST_IN_A_TUPLE:
            raise _Refused(f"the pickle nests tuples of more than {MOST_IN_A_TUPLE} parts")
        self.stack.append(size)

    def _call(self) -> None:
        """A set is made of a list that was written for it: of one list, not thousands of sets."""
        taken = self.stack[-2:]
        del self.stack[max(len(self.stack) - 2, 0) :]
        if len(taken) < 2 or taken[0] != _CLASS or taken[1] % _CLASS >= _SHARED:
            raise _Refused("the pickle makes one thing of another that stands elsewhere in it")
        self.stack.append(1)

    def _put(self, place: int, size: int) -> int:
        key, place = self._key(place, size)
        # Who writes a pickle numbers what it remembers; the unpickler makes room up to the number.
        if key > place or self.puts:
            raise _Refused(f"the pickle remembers something as number {key} of fewer")
        self.puts = None
        self._remember(key)
        return place

    def _remember_next(self) -> None:
        if self.puts is None:
            raise _Refused("the pickle mixes two ways to remember things")
        self._remember(self.puts)
        self.puts += 1

    def _remember(self, key: int) -> None:
        if self.stack and self.stack[-1] > _SMALL:
            self.memo[key] = self.stack[-1]
        elif key in self.memo:
            del self.memo[key]

    def _get(self, place: int, size: int) -> int:
        key, place = self._key(place, size)
        value = self.memo.get(key, _SMALL)
        self.stack.append(value if value == _CLASS else value % _SHARED + _SHARED)
        return place

    def _key(self, place: int, size: int) -> tuple[int, int]:
        if size:
            return int.from_bytes(self.content[place : place + size], "little"), place + size
        text, place = self._line(place)
        if len(text) > LONGEST_NUMBER or not text.isdigit():
            raise ValueError("a number is missing")
        return int(text), place

    def _line(self, place: int) -> tuple[bytes, int]:
        end = self.content.find(b"\n", place)
        end = len(self.content) if end < 0 else end
        return self.content[place:end], end + 1

    def _after(self, code: int, place: int) -> int:
        """Return where the next opcode stands; numbers of too many digits are refused."""
        if code in _FIXED:
            return place + _FIXED[code]
        length, start = 0, place
        if code in _LINES:
            text, place = self._line(place)
            length = len(text)
        elif code in _COUNTED:
            start = place + _COUNTED[code]
            length = int.from_bytes(self.content[place:start], "little")
            place = start + length
        if code in _NUMBERS and length > (LONGEST_NUMBER if code in _LINES else 8):
            raise _Refused("the pickle holds a number of too many digits for an id")
        return place
