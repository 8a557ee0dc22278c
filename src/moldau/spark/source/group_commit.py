"""Offsets of a stream committed to a group, so that tools which show the lag of groups show it too.

The position of a query is in its checkpoint and nowhere else: what is committed here is read by
nobody who reads records. So it may fail without harm, and holds up the query only for a moment.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

from moldau.base.clock import Clock, SystemClock
from moldau.client.errors import ClientError
from moldau.client.records import OffsetAndMetadata, TopicPartition
from moldau.engine.asking import Asking
from moldau.engine.cluster import Cluster
from moldau.engine.group_offsets import commit_offsets
from moldau.engine.results import Results
from moldau.spark.source.connections import Connection
from moldau.spark.source.offsets import Positions

logger = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 10_000
_PATIENCE_S: Final = 1.0
"""How long the query waits: a commit takes milliseconds, and the process may end right after."""
_PAUSE_S: Final = 1.0
"""How long a commit that was refused is not repeated: an idle stream asks ten times a second."""

Committing = Future[Results[TopicPartition, None]]


class GroupCommit:
    """Commits in the name of a group that has no members."""

    def __init__(self, group: str, clock: Clock | None = None) -> None:
        self._group = group
        self._clock = clock or SystemClock()
        self._committed: Mapping[TopicPartition, int] = {}
        self._under_way: Committing | None = None
        self._sent: Mapping[TopicPartition, int] = {}
        """What the last commit is of."""
        self._refused: Mapping[TopicPartition, int] = {}
        self._again_at = 0.0
        """When what was refused may be tried again."""
        self._warning = ""
        """Why the last commit was refused; empty if it was not."""

    def commit(self, connection: Connection, positions: Positions) -> None:
        """Commit what is processed, unless it is committed or the last commit is under way.

        What was refused a moment ago is not tried again, and the same reason is not told again.
        """
        if self._under_way is not None and not self._settled(self._under_way, 0):
            return
        if not positions or positions == self._committed:
            return
        if positions == self._refused and self._clock.monotonic() < self._again_at:
            return
        self._sent = dict(positions)
        self._under_way = connection.begin(_commit(connection.cluster, self._group, self._sent))
        if not self._settled(self._under_way, _PATIENCE_S):
            logger.info("committing to group %s takes its time", self._group)

    def _settled(self, under_way: Committing, patience_s: float) -> bool:
        """Take note of what became of the last commit; tell whether that is known by now."""
        try:
            under_way.result(patience_s).or_raise()
            self._committed, self._warning = self._sent, ""
        except TimeoutError:
            if not under_way.done():
                return False
        except ClientError as error:
            self._note_refusal(str(error))
        self._under_way = None
        return True

    def _note_refusal(self, reason: str) -> None:
        self._refused = self._sent
        self._again_at = self._clock.monotonic() + _PAUSE_S
        if reason != self._warning:
            logger.warning("group %s does not show this query's lag: %s", self._group, reason)
        self._warning = reason


async def _commit(
    cluster: Cluster, group: str, positions: Mapping[TopicPartition, int]
) -> Results[TopicPartition, None]:
    asking = Asking(cluster, _TIMEOUT_MS)
    offsets = {partition: OffsetAndMetadata(offset) for partition, offset in positions.items()}
    return await commit_offsets(asking, group, offsets, asking.deadline(None))
