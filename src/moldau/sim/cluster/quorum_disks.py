"""What the disks of a simulated quorum hold: journals batch by batch, and promises.

It is read past the nodes: from the pages of a machine, running or not, with what a power cut would
leave of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.cluster.journal import METADATA_FOLDER
from moldau.cluster.quorum import QUORUM_STATE
from moldau.records.batch import HEADER_SIZE, BatchHeader, parse_header
from moldau.sim.cluster.metadata_keeping import METADATA_DIRECTORY
from moldau.sim.cluster.nodes import Node
from moldau.sim.pages import Content, Folder, Tree

_PATH: Final = f"{METADATA_DIRECTORY}/{METADATA_FOLDER}"
_PROMISE_PATH: Final = f"{_PATH}/{QUORUM_STATE}"
_SEGMENT: Final = re.compile(r"(\d{20})\.log")
_SNAPSHOT: Final = re.compile(r"(\d{20})-\d{10}\.checkpoint")


class Promise(NamedTuple):
    """What a `quorum-state` says."""

    epoch: int = 0
    leader: int = -1
    voted: int = -1


NO_PROMISE: Final = Promise()


class KeptBatch(NamedTuple):
    """One batch of a journal."""

    header: BatchHeader
    position: int
    is_durable: bool


class _Segment:
    """The batches of one file, read again as far as it has changed."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._found: list[tuple[int, BatchHeader]] = []
        """Positions and headers."""

    def read(self) -> list[tuple[int, BatchHeader]]:
        found, data = self._found, self._content.data
        while found and not self._is_there(*found[-1]):
            found.pop()
        position = found[-1][0] + found[-1][1].size if found else 0
        while (header := _header(data, position)) is not None:
            found.append((position, header))
            position += header.size
        return found

    def _is_there(self, position: int, header: BatchHeader) -> bool:
        return _header(self._content.data, position) == header


def _header(data: bytearray, position: int) -> BatchHeader | None:
    """Read the header of a whole batch; None if there is none."""
    if len(data) - position < HEADER_SIZE:
        return None
    try:
        header = parse_header(data, position)
    except CorruptRecords:
        return None
    return header if header.size <= len(data) - position else None


class QuorumDisk:
    """The folder of the metadata on one machine."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._segments: dict[Content, _Segment] = {}
        self._promised: tuple[Content | None, Promise] = (None, NO_PROMISE)
        """The newest file that was read."""
        self._looked_at: tuple[Tree | None, int] = (None, 0)
        """The names among which that file was found, as they were when they last changed."""

    @property
    def _tree(self) -> Tree:
        return self._node.process.disk.machine.tree

    # Journals

    def batches(self, offset: int, end_offset: int) -> Iterator[KeptBatch]:
        """Yield the batches that hold records from an offset on, before another one."""
        folder = self._tree.find(_PATH)
        if not isinstance(folder, Folder):
            return
        durable = self._tree.durable(_PATH)
        bases = _bases(folder)
        following = [*bases[1:], end_offset]
        for base, next_base in zip(bases, following, strict=False):
            if next_base <= offset or base >= end_offset:
                continue
            name = f"{base:020d}.log"
            content = folder.entries[name]
            assert isinstance(content, Content)
            safe = isinstance(durable, Folder) and durable.durable.get(name) is content
            yield from self._in_segment(content, offset, end_offset, may_be_durable=safe)

    def _in_segment(
        self, content: Content, offset: int, end_offset: int, *, may_be_durable: bool
    ) -> Iterator[KeptBatch]:
        found = self._segments.setdefault(content, _Segment(content)).read()
        size = content.durable_size if may_be_durable else 0
        first = len(found)
        while first and found[first - 1][1].next_offset > offset:  # near the end, mostly
            first -= 1
        for position, header in found[first:]:
            if header.base_offset >= end_offset:
                return
            yield KeptBatch(header, position, position + header.size <= size)

    def durable_snapshot_end(self) -> int:
        """Return where the newest snapshot ends that a power cut leaves; -1 without one."""
        folder = self._tree.durable(_PATH)
        names = folder.durable if isinstance(folder, Folder) else ()
        found = (_SNAPSHOT.fullmatch(name) for name in names)
        return max((int(one[1]) for one in found if one is not None), default=-1)

    # Promises

    def durable_promise(self) -> Promise:
        """Return what the node has promised, as a power cut leaves it."""
        tree = self._tree
        looked_at, changes = self._looked_at
        if looked_at is not tree or changes != tree.durable_changes:
            self._read_promise(tree)
        return self._promised[1]

    def _read_promise(self, tree: Tree) -> None:
        content = tree.durable(_PROMISE_PATH)
        if not isinstance(content, Content):
            self._promised = None, NO_PROMISE
        elif self._promised[0] is not content:
            state = json.loads(bytes(content.data[: content.durable_size]))
            promise = Promise(state["leaderEpoch"], state["leaderId"], state["votedId"])
            self._promised = content, promise
        self._looked_at = tree, tree.durable_changes


def _bases(folder: Folder) -> list[int]:
    found = (_SEGMENT.fullmatch(name) for name in folder.entries)
    return sorted(int(one[1]) for one in found if one is not None)
