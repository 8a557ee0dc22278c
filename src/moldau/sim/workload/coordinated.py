"""What clients of coordinators have in common: finding theirs, and knowing which errors pass.

A coordinator that is loading or whose disk is away says so, and its clients come again. That this
ends is seen from the whole run ending (P7).
"""

from __future__ import annotations

import asyncio
from enum import IntEnum

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import FindCoordinatorRequest
from moldau.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from moldau.sim.history import Violation
from moldau.sim.workload.client import RETRY_S, Link, Worker

LAST_OFFSET_FETCH_WITH_NAMES = 9

COORDINATOR_PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a coordinator that is on its way says. What was asked may have happened nevertheless: a disk
that fails a write may hold all of it."""

PASSING_WITH_A_BROKEN_DISK = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR}
)


class CoordinatorKind(IntEnum):
    """What a coordinator looks after, as FindCoordinator has it."""

    GROUP = 0
    TRANSACTION = 1


PATIENCE_S = 0.7
"""Far longer than an answer takes, and so short that a run sees many power cuts."""


class Coordinated(Worker):
    """A client of one or more coordinators."""

    async def connect(self) -> Link | None:
        link = await super().connect()
        if link is not None:
            link.patience_s = PATIENCE_S
        return link

    def passes(self, code: int) -> bool:
        """Tell whether an error passes by itself; Violation if it has no business to be there."""
        error = ErrorCode.of(code)
        if error in COORDINATOR_PASSING:
            self.targets.seen["coordinator away"] += 1
            return True
        return error in PASSING_WITH_A_BROKEN_DISK and self.disk_failed

    def check_passes(self, what: str, code: int) -> None:
        """Raise Violation unless an error passes by itself."""
        if not self.passes(code):
            name = ErrorCode.of(code).name
            raise Violation(f"errors: {self.name}: {what} was refused: {name}")

    async def find(self, link: Link, kind: CoordinatorKind, key: str) -> None:
        """Find a coordinator, which makes its topic where there is none yet."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        while True:
            found = (await link.call(request)).coordinators[0]
            if not found.error_code:
                return
            self.check_passes("a coordinator", found.error_code)
            await asyncio.sleep(RETRY_S)

    async def read_offsets(
        self, link: Link, group: str, *, stable: bool = False
    ) -> dict[int, int] | None:
        """Ask for all offsets of a group, by partition; None if the answer is an error."""
        topic = self.targets.kept
        indexes = list(range(topic.partition_count))
        asked = OffsetFetchRequestTopics(topic.name, partition_indexes=indexes)
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group, topics=[asked])], require_stable=stable
        )
        found = (await link.call(request, LAST_OFFSET_FETCH_WITH_NAMES)).groups[0]
        if found.error_code:
            self.check_passes("a question for offsets", found.error_code)
            return None
        partitions = found.topics[0].partitions
        for one in partitions:
            if stable and one.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                return None
            if one.error_code:
                self.check_passes("an offset", one.error_code)
                return None
        return {one.partition_index: one.committed_offset for one in partitions}
