"""What a metadata tree is made of, and finding a place in it. Pure.

A folder is a mapping, anything else is a value. Folders of many entries make them when they are
looked at, so that a path of a large cluster costs what lies on it.

Names of groups may hold anything. Characters that a path or a terminal would take for something
else are written as in a URL: what is printed can be typed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

from moldau.base.errors import UserError
from moldau.base.texts import shorten
from moldau.cli.frame.texts import safe

Node: TypeAlias = Mapping[str, Any] | Sequence[Any] | str | int | float | None
"""A folder, or a value: text, a number, yes or no, nothing, or a list."""

T = TypeVar("T")

UNNAMED: Final = "<default>"
"""The entry of an empty name. `<` is written differently in all others."""

_SUGGESTED_FROM: Final = 10_000
"""To compare a misspelt name with this many takes a fraction of a second."""

_RESERVED = re.compile(r"[%/<\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class LazyFolder(Mapping[str, Any], Generic[T]):
    """A folder of things that become entries when they are looked at."""

    __slots__ = ("_make", "_things")

    def __init__(self, things: Mapping[str, T], make: Callable[[T], Node]) -> None:
        self._things = things
        self._make = make

    def __getitem__(self, name: str) -> Node:
        return self._make(self._things[name])

    def __contains__(self, name: object) -> bool:
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)


class FoundNode(NamedTuple):
    """A place in the tree."""

    path: str
    node: Node

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2] or "/"


def entry_name(text: str) -> str:
    """Return how a name is written in paths."""
    return _RESERVED.sub(lambda found: quote(found.group(), safe=""), text) or UNNAMED


def below(path: str, name: str) -> str:
    """Return the path of an entry of a folder."""
    return f"{path}/{name}" if path != "/" else f"/{name}"


def find_node(root: Node, path: str) -> FoundNode:
    """Return what a path names; UserError says what there is instead."""
    found = FoundNode("/", root)
    for name in filter(None, path.split("/")):
        if not isinstance(found.node, Mapping):
            raise UserError(f"{found.path} is a value, not a folder")
        if name not in found.node:
            raise UserError(_advice(found.path, found.node, name))
        found = FoundNode(below(found.path, name), found.node[name])
    return found


def _advice(path: str, folder: Mapping[str, Any], name: str) -> str:
    missing = f"there is no {safe(shorten(below(path, name)))}"
    if near := get_close_matches(shorten(name), islice(folder, _SUGGESTED_FROM), 1):
        return f"{missing}: did you mean {below(path, near[0])}?"
    return f"{missing}: `moldau metadata ls {path}` shows what there is"
