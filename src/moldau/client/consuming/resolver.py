"""Finding positions in the background: committed offsets, resets, validation after a new leader.

A task per stage looks for partitions that wait in it and asks for all of them together, so that a
coordinator that is loading holds up nobody who does not need it. What passes is asked again; what
only the user can decide (no offset and no policy, a truncated log, no permission) becomes the
partition's error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from moldau.client.consumer_settings import ConsumerSettings, ResetKind, ResetPolicy
from moldau.client.consuming.background import Waking
from moldau.client.consuming.holding import Holding
from moldau.client.consuming.positions import LATEST, NO_OFFSET, PartitionState, Positions, Stage
from moldau.client.errors import (
    ClientError,
    LogTruncated,
    NoOffset,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from moldau.client.records import OffsetAndMetadata, TopicPartition
from moldau.engine.background import Crashed, in_background
from moldau.engine.backoff import Backoff
from moldau.engine.cluster import Cluster
from moldau.engine.metadata import NO_EPOCH
from moldau.engine.offset_lookup import (
    EARLIEST_TIME,
    LATEST_TIME,
    look_up_epochs,
    look_up_times,
    no_leader,
)

logger = logging.getLogger(__name__)

Committed = Callable[
    [frozenset[TopicPartition], float], Awaitable[dict[TopicPartition, OffsetAndMetadata]]
]

_ENDS: Final = {ResetKind.EARLIEST: EARLIEST_TIME, ResetKind.LATEST: LATEST_TIME}


class Resolver:
    """Brings partitions to where they can be fetched. Owned by the event loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        holding: Holding,
        settings: ConsumerSettings,
        committed: Committed | None,
        *,
        changed: Callable[[], None],
        crashed: Crashed,
    ) -> None:
        connection = cluster.settings
        self._cluster = cluster
        self._positions = positions
        self._holding = holding
        self._settings = settings
        self._clock = cluster.ports.clock
        self._backoff = Backoff(connection.retry_backoff_ms, connection.retry_backoff_max_ms)
        self._committed = committed
        self._changed = changed
        """Called when a partition has become ready, or the user must be told."""
        self._waking = Waking(self._clock)
        acts = {
            Stage.UNKNOWN: self._find_committed,
            Stage.RESETTING: self._reset,
            Stage.VALIDATING: self._validate,
            Stage.READY: self._look_for_leaders,
        }
        self._tasks = [
            in_background(self._run(stage, act), f"moldau-positions-{stage.value}", crashed)
            for stage, act in acts.items()
        ]

    def wake(self) -> None:
        """Look again at what is to be found out."""
        self._waking.wake()

    async def close(self) -> None:
        """End the tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(
        self, stage: Stage, act: Callable[[list[PartitionState]], Awaitable[None]]
    ) -> None:
        """Look for partitions in one stage and have something done about them."""
        while True:
            now = self._clock.monotonic()
            waiting = [state for state in self._positions if self._waits(state, stage)]
            due = [state for state in waiting if state.retry_at <= now]
            if not due:
                await self._waking.wait(min((one.retry_at for one in waiting), default=None))
                continue
            revisions = [(state, state.revision) for state in due]
            try:
                await act(due)
            except ClientError as error:
                self.failed([one for one, seen in revisions if one.revision == seen], error)
            self._changed()

    def _waits(self, state: PartitionState, stage: Stage) -> bool:
        """Tell whether a partition needs what is done in a stage: a ready one, only a leader."""
        if state.stage is not stage or state.error is not None:
            return False
        return stage is not Stage.READY or self._cluster.image.leader(*state.partition) is None

    async def _look_for_leaders(self, states: list[PartitionState]) -> None:
        """Have metadata refreshed until partitions are led again; a topic may stay away."""
        for state in states:
            self.failed([state], no_leader(self._cluster.image, state.partition))

    async def _find_committed(self, states: list[PartitionState]) -> None:
        if self._committed is None:
            for state in states:
                state.reset()
            return
        asked = [(state, state.revision) for state in states]
        deadline = self._clock.monotonic() + self._settings.default_api_timeout_ms / 1000
        found = await self._committed(frozenset(state.partition for state in states), deadline)
        for state, revision in asked:
            if state.revision != revision:
                continue
            offset = found.get(state.partition)
            if offset is None:
                state.reset()
            else:
                epoch = offset.leader_epoch
                state.seek(offset.offset, NO_EPOCH if epoch is None else epoch)

    async def _reset(self, states: list[PartitionState]) -> None:
        asked = {}
        for state in states:
            policy = state.policy or self._settings.auto_offset_reset
            if policy.kind is ResetKind.NONE:
                state.error = NoOffset(f"{state.partition} has no committed offset")
            else:
                asked[state.partition] = (state, state.revision, self._time_of(policy))
        times = {partition: time for partition, (_, _, time) in asked.items()}
        brought = await look_up_times(self._cluster, times, self._settings.isolation_level)
        for partition, (state, revision, _) in asked.items():
            if state.revision != revision:
                continue
            if (error := brought.failed.get(partition)) is not None:
                self.failed([state], error)
            elif (found := brought.found[partition]).offset == NO_OFFSET:
                state.reset(LATEST)  # nothing is that young: go on with what comes next
            else:
                state.missing_since = None
                state.found(found.offset, found.leader_epoch, self._leader_epoch(state))

    def _leader_epoch(self, state: PartitionState) -> int:
        led = self._cluster.image.leader(*state.partition)
        return led.leader_epoch if led is not None else NO_EPOCH

    def _time_of(self, policy: ResetPolicy) -> int:
        if policy.kind is ResetKind.BY_DURATION:
            return max(0, self._clock.wall_ms() - policy.duration_ms)
        return _ENDS[policy.kind]

    async def _validate(self, states: list[PartitionState]) -> None:
        asked = {}
        for state in states:
            led = self._cluster.image.leader(*state.partition)
            if led is not None and NO_EPOCH in (led.leader_epoch, state.fetch_epoch):
                state.validated(led.leader_epoch)  # a broker that does not know of epochs
            else:
                asked[state.partition] = (state, state.revision, self._leader_epoch(state))
        questions = {partition: state.fetch_epoch for partition, (state, _, _) in asked.items()}
        brought = await look_up_epochs(self._cluster, questions)
        for partition, (state, revision, leader_epoch) in asked.items():
            if state.revision != revision:
                continue
            error = brought.failed.get(partition)
            if isinstance(error, UnsupportedVersion):
                state.validated(leader_epoch)
            elif error is not None:
                self.failed([state], error)
            else:
                end = brought.found[partition]
                state.validated(leader_epoch)
                if min(end) < 0 or end.end_offset < state.fetch_offset:
                    self.truncated(state, end.epoch, end.end_offset)

    def truncated(self, state: PartitionState, end_epoch: int, end_offset: int) -> None:
        """Go on after the log was cut at an offset; -1 if nobody knows where (KIP-320).

        What the user has already seen of the part that is gone cannot be taken back: with a policy
        the user goes on where the log parts from what was read, without one the user decides.
        """
        known = end_offset >= 0 and end_epoch >= 0
        self._holding.cut(state)
        consumed, consumed_epoch = self._holding.consumed(state)
        if known and end_offset >= consumed:
            state.refetch(consumed, consumed_epoch)
        elif self._settings.auto_offset_reset.kind is ResetKind.NONE:
            where = f"at {end_offset}" if known else "somewhere"
            state.stage = Stage.VALIDATING
            state.error = LogTruncated(
                f"{state.partition} was cut {where}, before offset {consumed} that was consumed"
            )
        else:
            logger.warning("%s was cut at %d, %d was read", state.partition, end_offset, consumed)
            self._holding.release(state)
            if known:
                state.found(end_offset, end_epoch, self._leader_epoch(state))
            else:
                state.reset()

    def failed(self, states: list[PartitionState], error: ClientError) -> None:
        """Ask again later what may pass, and tell the user of the rest."""
        now = self._clock.monotonic()
        self._cluster.request_refresh()
        for state in states:
            state.retry_at = now + self._backoff.wait_s(1, self._cluster.ports.random)
            lasting = not error.retriable
            if isinstance(error, UnknownTopicOrPartition):
                if state.missing_since is None:
                    state.missing_since = now
                    logger.warning("%s is not known to the cluster", state.partition)
                missing_ms = (now - state.missing_since) * 1000
                lasting = missing_ms >= self._settings.default_api_timeout_ms
                lasting = lasting or self._cluster.is_missing(state.partition.topic)
            if lasting:
                state.missing_since = None
                state.error = error
