"""The broker of the demonstration: started, given its topics, and asked how much went through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from examples.demo import cast
from examples.demo.ending import Ending
from examples.demo.parts import Part, Parts

from moldau import Admin, NewTopic, OffsetSpec

_LOOK_S: Final = 0.05
_READY: Final = "ready "
"""How the one line begins that a broker prints once it accepts requests."""


def start_broker(parts: Parts, folder: Path, ending: Ending) -> str | None:
    """Start it; return its address, None if all shall end before it has one."""
    part = parts.start("broker", cast.broker(folder))
    while (address := _address(part)) is None and not ending.wait(_LOOK_S):
        parts.check()
    return address


def _address(part: Part) -> str | None:
    said = (line for line in part.said() if line.startswith(_READY))
    return next((line.removeprefix(_READY) for line in said), None)


class Topics:
    """The topics, and how many records each has got."""

    def __init__(self, admin: Admin, topics: Sequence[NewTopic]) -> None:
        admin.create_topics(topics).or_raise()
        self._admin = admin
        self._partitions = [
            (topic.name, index) for topic in topics for index in range(topic.partitions or 1)
        ]

    def records(self) -> dict[str, int]:
        """Return how many records were ever written to each topic."""
        asked = dict.fromkeys(self._partitions, OffsetSpec.LATEST)
        found: dict[str, int] = {}
        for partition, listed in self._admin.list_offsets(asked).or_raise().items():
            found[partition.topic] = found.get(partition.topic, 0) + (listed.offset or 0)
        return found
