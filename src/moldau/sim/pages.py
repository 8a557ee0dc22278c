"""What a simulated machine's file system holds: in its page cache, and on the platter below.

A change is seen at once and is durable only after a sync. So each file remembers what happened to
it since its last sync, and the tree remembers which names changed since their folder's; a power
cut takes back what chance decides, within what the operating system promises:

- Of one file, the changes that survive are a beginning of those made; the first one lost may be
  torn at any byte, at a sector or at a page, or leave zeros where its bytes should be (the size
  reached the journal, the bytes did not).
- Of one folder, the names that survive are likewise a beginning; a rename is whole or not there.
- Nothing is promised between two files, two folders, or a file and its name.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

PAGE_SIZE = 4096
TEAR_BOUNDARIES = (1, 512, PAGE_SIZE)
"""Any byte (a lying disk), a sector, a page."""

ZEROS_CHANCE = 0.25
"""How often a lost append leaves its length behind, filled with zeros."""

NAME_KEPT_CHANCES = (0.0, 0.5, 0.9, 1.0)
"""Drawn once per power cut: no name survives, most do, or all."""


def os_error(code: int, path: str) -> OSError:
    """The OSError the kernel's answer becomes; Python picks the subclass."""
    return OSError(code, os.strerror(code), path)


class Content:
    """The bytes of one file."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._unsynced: list[int | bytes] = []
        """Changes since the last sync: how many bytes were appended, or which were cut off."""
        self._cold: set[int] = set()

    def append(self, data: bytes) -> None:
        if data:
            self._heat(len(self.data), len(data))
            self.data += data
            self._unsynced.append(len(data))

    def truncate(self, size: int) -> None:
        if size < len(self.data):
            self._unsynced.append(bytes(self.data[size:]))
            del self.data[size:]

    def read(self, position: int, size: int) -> bytes:
        self._heat(position, size)
        return bytes(self.data[position : position + size])

    def sync(self) -> None:
        self._unsynced.clear()

    @property
    def durable_size(self) -> int:
        """How many of its bytes survive a power cut, whatever chance decides."""
        size = least = len(self.data)
        for change in reversed(self._unsynced):
            size += -change if isinstance(change, int) else len(change)
            least = min(least, size)
        return least

    def flip_bit(self, position: int, bit: int) -> None:
        """Rot: the platter and the cache now agree on something nobody wrote."""
        self.data[position] ^= 1 << bit

    def chill(self) -> None:
        """Drop the file from the page cache."""
        self._cold = set(range(-(-len(self.data) // PAGE_SIZE)))

    def resident(self, position: int, size: int) -> bool:
        return not self._cold or self._cold.isdisjoint(_pages(position, size))

    def _heat(self, position: int, size: int) -> None:
        if self._cold:
            self._cold.difference_update(_pages(position, size))

    def lose_power(self, chance: random.Random) -> None:
        """Fall back to a state the platter may be in."""
        kept_count = chance.randrange(len(self._unsynced) + 1)
        lost: int | bytes = b""
        lost_data = b""
        while len(self._unsynced) > kept_count:
            lost = self._unsynced.pop()
            if isinstance(lost, int):
                lost_data = bytes(self.data[-lost:])
                del self.data[-lost:]
            else:
                self.data += lost
        if isinstance(lost, int):
            self._tear(lost_data, chance)
        self._unsynced.clear()
        self.chill()

    def _tear(self, lost: bytes, chance: random.Random) -> None:
        end = len(self.data) + chance.randrange(len(lost) + 1)
        end -= end % chance.choice(TEAR_BOUNDARIES)
        kept_size = max(0, end - len(self.data))
        self.data += lost[:kept_size]
        if chance.random() < ZEROS_CHANCE:
            self.data += bytes(len(lost) - kept_size)


def _pages(position: int, size: int) -> range:
    return range(position // PAGE_SIZE, -(-(position + size) // PAGE_SIZE))


class Folder:
    """Names, as they are seen and as the platter has them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node: TypeAlias = Content | Folder


class Edit(NamedTuple):
    """One name that now stands for another thing, or for none."""

    folder: Folder
    name: str
    node: Node | None

    def apply(self, entries: dict[str, Node]) -> None:
        if self.node is None:
            entries.pop(self.name, None)
        else:
            entries[self.name] = self.node


Change = tuple[Edit, ...]
"""Edits that happen together: a rename takes one name away and gives another."""


class Tree:
    """All names of one machine."""

    def __init__(self) -> None:
        self.root = Folder(0)
        self._folder_count = 1
        self._unsynced: list[Change] = []
        self.durable_changes = 0
        """How often names have become durable. What `durable` finds is the same in between."""

    def new_folder(self) -> Folder:
        self._folder_count += 1
        return Folder(self._folder_count)

    def find(self, path: str) -> Node | None:
        """What has this path; None if nothing does."""
        node: Node = self.root
        for name in split(path):
            if not isinstance(node, Folder) or name not in node.entries:
                return None
            node = node.entries[name]
        return node

    def durable(self, path: str) -> Node | None:
        """What has this path after a power cut, if chance takes all names that it may."""
        node: Node = self.root
        for name in split(path):
            if not isinstance(node, Folder) or name not in node.durable:
                return None
            node = node.durable[name]
        return node

    def folder(self, path: str) -> Folder:
        """The folder of this path; OSError says why there is none."""
        node = self.find(path)
        if node is None:
            raise os_error(errno.ENOENT, path)
        if not isinstance(node, Folder):
            raise os_error(errno.ENOTDIR, path)
        return node

    def holds(self, folder: Folder) -> bool:
        """Tell whether a folder still has a path."""
        left = [self.root]
        while left:
            one = left.pop()
            if one is folder:
                return True
            left += [node for node in one.entries.values() if isinstance(node, Folder)]
        return False

    def place(self, path: str) -> tuple[Folder, str]:
        """The folder in which a path's last name stands or would stand."""
        names = split(path)
        if not names:
            raise os_error(errno.EBUSY, path)
        return self.folder("/".join(names[:-1])), names[-1]

    def change(self, *edits: Edit) -> None:
        """Make one change, seen at once and not yet durable."""
        for edit in edits:
            edit.apply(edit.folder.entries)
        self._unsynced.append(edits)

    def sync(self, folder: Folder) -> None:
        """Make a folder's changes durable, and those they build upon."""
        synced: list[Change] = []
        rest: list[Change] = []
        concerned = {folder.number}
        for change in reversed(self._unsynced):
            touched = _touched(change)
            if concerned.isdisjoint(touched):
                rest.append(change)
            else:
                concerned.update(touched)
                synced.append(change)
        self._make_durable(reversed(synced))
        self._unsynced = rest[::-1]

    def lose_power(self, chance: random.Random) -> None:
        """Fall back to names and bytes the platter may hold."""
        kept_chance = chance.choice(NAME_KEPT_CHANCES)
        kept: list[Change] = []
        stale: set[int] = set()
        for change in self._unsynced:
            touched = _touched(change)
            if stale.isdisjoint(touched) and chance.random() < kept_chance:
                kept.append(change)
            else:
                stale.update(touched)
        self._make_durable(kept)
        self._unsynced.clear()
        _fall_back(self.root, chance)

    def _make_durable(self, changes: Iterable[Change]) -> None:
        self.durable_changes += 1
        for change in changes:
            for edit in change:
                edit.apply(edit.folder.durable)


def split(path: str) -> list[str]:
    """The names along a path, from the root."""
    return [name for name in path.split("/") if name]


def _touched(change: Change) -> set[int]:
    return {edit.folder.number for edit in change}


def _fall_back(folder: Folder, chance: random.Random) -> None:
    folder.entries = dict(folder.durable)
    for name in sorted(folder.entries):
        node = folder.entries[name]
        if isinstance(node, Folder):
            _fall_back(node, chance)
        else:
            node.lose_power(chance)
