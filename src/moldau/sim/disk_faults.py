"""What goes wrong on a simulated disk, on request.

Faults belong to the machine: they outlive its processes, and end with `heal`. A path is meant
with everything that begins with it, so "/data/orders-0" is one partition's folder and "/data" all.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import Enum, auto

from moldau.sim.pages import os_error


class Operation(Enum):
    """What storage can ask of a disk and be refused."""

    OPEN = auto()
    READ = auto()
    APPEND = auto()
    TRUNCATE = auto()
    SYNC = auto()
    CREATE = auto()
    RENAME = auto()
    REMOVE = auto()
    SYNC_FOLDER = auto()


CHANGES = frozenset(
    {Operation.APPEND, Operation.TRUNCATE, Operation.CREATE, Operation.RENAME, Operation.REMOVE}
)
"""What a read-only file system refuses."""


@dataclass(slots=True)
class _Rule:
    operations: frozenset[Operation]
    prefix: str
    code: int
    skip: int
    times: int | None


class DiskFaults:
    """The faults of one machine's disk."""

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._broken_syncs: set[str] = set()
        self._space_left: int | None = None

    def fail(
        self,
        operation: Operation,
        prefix: str,
        *,
        code: int = errno.EIO,
        skip: int = 0,
        times: int | None = None,
    ) -> None:
        """Refuse an operation below a path: after `skip` good ones, `times` times or for ever.

        A sync that failed once goes on failing for that file whatever `times` says: the kernel may
        have dropped the dirty pages, and nobody may be told later that they are safe.
        """
        self._rules.append(_Rule(frozenset({operation}), prefix, code, skip, times))

    def make_read_only(self, prefix: str) -> None:
        """Refuse every change below a path, as a file system remounted after an error does."""
        self._rules.append(_Rule(CHANGES, prefix, errno.EROFS, 0, None))

    def fill_up(self, after_size: int) -> None:
        """Let the disk be full once this many more bytes were appended."""
        self._space_left = after_size

    def heal(self) -> None:
        """Let everything work again."""
        self._rules.clear()
        self._broken_syncs.clear()
        self._space_left = None

    def check(self, operation: Operation, path: str) -> None:
        """Raise what this operation meets now."""
        if operation is Operation.SYNC and path in self._broken_syncs:
            raise os_error(errno.EIO, path)
        for rule in self._rules:
            if operation in rule.operations and path.startswith(rule.prefix):
                self._meet(rule, operation, path)

    def _meet(self, rule: _Rule, operation: Operation, path: str) -> None:
        if rule.skip > 0:
            rule.skip -= 1
            return
        if rule.times == 0:
            return
        if rule.times is not None:
            rule.times -= 1
        if operation is Operation.SYNC:
            self._broken_syncs.add(path)
        raise os_error(rule.code, path)

    def grant(self, size: int) -> int:
        """How many of these bytes still find room."""
        if self._space_left is None:
            return size
        granted = min(size, self._space_left)
        self._space_left -= granted
        return granted
