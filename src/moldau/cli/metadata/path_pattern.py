"""Patterns of paths, as a shell has them: `*`, `?` and `[...]` within a name, `**` over folders.

A pattern without a slash is for names at any depth. A walk goes down the tree with the places in
the pattern that it may be at, so that it does not enter folders in which nothing can match.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import translate
from typing import Final

from moldau.base.errors import UserError
from moldau.cli.metadata.folder import FoundNode, Node, below

PARTS_MAX: Final = 64
"""A tree is less than ten folders deep."""

_ANY_FOLDERS: Final = "**"


class PathPattern:
    """A pattern that was given on the command line."""

    def __init__(self, text: str) -> None:
        parts = [part for part in text.split("/") if part]
        if "/" not in text:
            parts = [_ANY_FOLDERS, *parts]
        if len(parts) > PARTS_MAX:
            raise UserError(f"a pattern can have at most {PARTS_MAX} names")
        self._parts = [
            None if part == _ANY_FOLDERS else re.compile(translate(part)) for part in parts
        ]

    def select(self, root: Node) -> Iterator[FoundNode]:
        """Yield every place that matches, folders before what is in them."""
        return self._select(FoundNode("/", root), self._closed({0}))

    def _select(self, found: FoundNode, places: frozenset[int]) -> Iterator[FoundNode]:
        if len(self._parts) in places:
            yield found
        if not isinstance(found.node, Mapping):
            return
        for name in found.node:
            following = self._after(places, name)
            if following:
                child = FoundNode(below(found.path, name), found.node[name])
                yield from self._select(child, following)

    def _after(self, places: frozenset[int], name: str) -> frozenset[int]:
        """Return where in the pattern a walk may be after one more name."""
        reached: set[int] = set()
        for place in places:
            if place == len(self._parts):
                continue
            part = self._parts[place]
            if part is None:
                reached.add(place)
            elif part.match(name):
                reached.add(place + 1)
        return self._closed(reached)

    def _closed(self, places: set[int]) -> frozenset[int]:
        """Add the places that are reached without a name: `**` may stand for no folder."""
        for place, part in enumerate(self._parts):
            if part is None and place in places:
                places.add(place + 1)
        return frozenset(places)
