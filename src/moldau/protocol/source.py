"""The text of a generated function while it grows, and the step that makes it a function.

This owns the only `exec` of the project. It runs nothing but text written by `decoding` and
`encoding` from our own declarations; every name that enters the text from a declaration is checked
to be an identifier, every other value enters as a constant of the function's namespace, not as
text. The text is kept in `linecache`, so a traceback through a codec shows its lines.
"""

from __future__ import annotations

import keyword
import linecache
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from moldau.base.checks import invariant


class Source:
    """One function being written."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0
        self._namespace: dict[str, Any] = {}
        self._structs: dict[str, struct.Struct] = {}

    def line(self, text: str) -> None:
        """Add a line at the present depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Add a line that opens a block; what is added inside is indented."""
        self.line(header)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """Make a name that no other variable of the function has."""
        invariant(stem.isidentifier() and not keyword.iskeyword(stem), f"not a name: {stem!r}")
        self._names += 1
        return f"{stem}_{self._names}"

    def constant(self, stem: str, value: object) -> str:
        """Make a value known to the function and return its name."""
        name = self.fresh(stem)
        self._namespace[name] = value
        return name

    def bind(self, **values: object) -> None:
        """Make values known to the function under names of their own."""
        self._namespace.update(values)

    def packer(self, codes: str) -> str:
        """Name the `pack` of a big-endian struct."""
        return self._bound("pack", codes, lambda layout: layout.pack)

    def unpacker(self, codes: str) -> str:
        """Name the `unpack_from` of a big-endian struct."""
        return self._bound("unpack", codes, lambda layout: layout.unpack_from)

    def iterator(self, codes: str) -> str:
        """Name the `iter_unpack` of a big-endian struct."""
        return self._bound("iterate", codes, lambda layout: layout.iter_unpack)

    def _bound(self, verb: str, codes: str, method: Callable[[struct.Struct], Any]) -> str:
        name = f"{verb}_{codes.replace('?', 'bool')}"
        if name not in self._namespace:
            layout = self._structs.setdefault(codes, struct.Struct(">" + codes))
            self._namespace[name] = method(layout)
        return name

    def function(self, name: str, filename: str) -> Callable[..., Any]:
        """Compile the text and return the function of this name."""
        text = "\n".join(self._lines) + "\n"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self._namespace)  # noqa: S102 - our own text only
        made: Callable[..., Any] = self._namespace[name]
        return made
