"""What was written under the keys of a compacted topic, and what is left of it.

Each key has one writer, which waits for every answer, so what a key was is a row of values and
deletions. Whoever reads a partition from its start to its end must know of each key what was
acknowledged before the reading began, or something later; a deletion may be there or not. What is
read must stand in the order in which it was written, and be what was written at its offset (P2,
P4): compaction leaves things out, it does not change them.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.sim.history import Violation

Snapshot = Mapping[bytes, int]
"""By key, how much of its row was acknowledged."""


class KeyedHistory:
    """All claims about one partition of a compacted topic."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._rows: dict[bytes, list[bytes | None]] = {}
        self._acknowledged: dict[bytes, int] = {}
        self._offsets: dict[tuple[int, int], tuple[bytes, bytes | None]] = {}
        """By era and offset, what was read there."""

    def write(self, key: bytes, *, delete: bool) -> bytes | None:
        """Make the next value of a key; None deletes it."""
        row = self._rows.setdefault(key, [])
        value = None if delete else b"%s/%d" % (key, len(row))
        row.append(value)
        return value

    def acknowledged(self, key: bytes) -> None:
        """Learn that everything written under a key so far was taken."""
        self._acknowledged[key] = len(self._rows[key])

    def known(self) -> Snapshot:
        """Note what was acknowledged, before a reading begins."""
        return dict(self._acknowledged)

    def found(self, era: int, offset: int, key: bytes, value: bytes | None) -> None:
        """Take one record that was read."""
        if value not in self._rows.get(key, ()):
            raise Violation(f"P2: {self.name} has {value!r} under {key!r}, which nobody wrote")
        before = self._offsets.setdefault((era, offset), (key, value))
        if before != (key, value):
            raise Violation(f"P2: {self.name} held {before} at {offset}, now {(key, value)}")

    def whole(self, known: Snapshot, records: list[tuple[bytes, bytes | None]]) -> None:
        """Compare with all that was read from the start of the partition to its end, in order."""
        last: dict[bytes, int] = {}
        for key, value in records:
            row, begun = self._rows[key], last.get(key, -1) + 1
            try:
                last[key] = row.index(value, begun)
            except ValueError:
                raise Violation(
                    f"P4: {self.name} has {value!r} of {key!r} behind {row[begun - 1]!r}"
                ) from None
        for key, count in known.items():
            row, place = self._rows[key], last.get(key, -1)
            # A value that is gone may have been deleted later, by a record that is gone as well.
            if place < count - 1 and None not in row[max(count - 1, place + 1) :]:
                raise Violation(
                    f"P1: {self.name} ends with {row[place] if place >= 0 else None!r} of {key!r}, "
                    f"{row[count - 1]!r} was acknowledged"
                )
