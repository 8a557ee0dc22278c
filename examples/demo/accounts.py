"""Whether everything adds up: what was sent, what the broker has, what stands in tables. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the records of a topic."""

    topic: str
    sent: int | None
    """What the sender says; None if it was killed before it could."""
    records: int
    """What the broker says."""
    rows: Mapping[str, int] | None
    """Of the tables in which, together, each record stands once; None if no pipeline has run."""

    @property
    def unread(self) -> int:
        """How many records stand in no table."""
        return 0 if self.rows is None else self.records - sum(self.rows.values())

    @property
    def is_wrong(self) -> bool:
        """Whether records were lost, were not read or stand there twice."""
        return self.sent not in (None, self.records) or self.unread != 0

    def __str__(self) -> str:
        """Write it as an equation."""
        sides = ["? sent" if self.sent is None else f"{self.sent:,} sent"]
        sides.append(f"{self.records:,} in the topic")
        if self.rows is not None:
            parts = [f"{count:,} {name}" for name, count in self.rows.items()]
            sides.append(
                " + ".join([*parts, *([f"{self.unread:,} unread"] if self.unread else [])])
            )
        return f"{self.topic}: {' = '.join(sides)}"


def number_told(lines: Sequence[str], pattern: re.Pattern[str]) -> int | None:
    """Find the number in what a process has said at its end; None if it has said none."""
    for line in reversed(lines):
        if found := pattern.search(line):
            return int(found[1].replace(",", ""))
    return None
