"""A consumer's group: joins it, keeps its place, commits for it, in the background.

Puts together `membership`, which decides, and those who act: `rebalancing` takes its steps, `heart`
keeps the member alive, `auto_commit` commits by the clock, each in a task that is owned here and
ends with `close`. What happens to the subscription and to the topics it means is noted here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from moldau.client.assignors.interface import PartitionAssignor, RebalanceProtocol
from moldau.client.consumer_settings import ConsumerSettings
from moldau.client.consuming.auto_commit import AutoCommit
from moldau.client.consuming.background import Waking
from moldau.client.consuming.commits import Commits
from moldau.client.consuming.coordination import (
    CommitCallback,
    GroupMetadata,
    Host,
    Offsets,
    Subscription,
)
from moldau.client.consuming.distribution import Assignors
from moldau.client.consuming.group_coordinator import GroupCoordinator
from moldau.client.consuming.heart import Heart
from moldau.client.consuming.membership import Membership, MembershipSettings
from moldau.client.consuming.rebalancing import Rebalancing
from moldau.client.consuming.steps import MemberIdentity, Partitions
from moldau.client.consuming.subscribed_topics import matching, partition_counts
from moldau.client.errors import ClientError, broker_error
from moldau.client.records import OffsetAndMetadata, TopicPartition
from moldau.engine.background import in_background
from moldau.engine.backoff import Backoff
from moldau.engine.cluster import Cluster
from moldau.engine.metadata import MetadataImage
from moldau.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

HOPELESS = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION})
"""What metadata may say of a topic that no waiting makes better, so the user is told."""


class ConsumerGroup:
    """One consumer's group; what `coordination.Coordination` asks for. Owned by the loop's thread.

    group = ConsumerGroup("billing", settings, assignors, cluster, host)
    await group.start()
    group.subscribe(Subscription(("payments",)))
    await group.close(deadline)
    """

    def __init__(
        self,
        group_id: str,
        settings: ConsumerSettings,
        assignors: Sequence[PartitionAssignor],
        cluster: Cluster,
        host: Host,
        on_committed: Callable[[Offsets], None] | None = None,
    ) -> None:
        """`on_committed` is told of offsets that were committed, by whomever."""
        self._group_id = group_id
        self._settings = settings
        self._cluster = cluster
        self._host = host
        self._now = cluster.ports.clock.monotonic
        self._waking = Waking(cluster.ports.clock)
        chosen = Assignors(assignors, settings.client_rack)
        self._membership = Membership(_rules(settings, chosen), self._pause_s)
        coordinator = GroupCoordinator(cluster, group_id)
        self._commits = Commits(cluster, coordinator, group_id, settings, self, on_committed)
        self._auto_commit = (
            AutoCommit(host, self._commits, group_id, settings.auto_commit_interval_ms)
            if settings.enable_auto_commit
            else None
        )
        self._rebalancing = Rebalancing(
            group_id,
            settings,
            self._membership,
            chosen,
            coordinator,
            cluster,
            host,
            self._auto_commit,
            self._waking,
            self._now,
        )
        self._heart = Heart(
            group_id,
            settings,
            self._membership,
            coordinator,
            self._waking,
            self._rebalancing.changed,
            self._now,
        )
        self._rebalancing.watch = self._watch
        self._subscription = Subscription()
        self._is_matched = True
        """Whether a pattern has been matched against all topics there are."""
        self._complained: set[str] = set()
        self._is_closed = False
        self._stepping: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def _pause_s(self, failure_count: int) -> float:
        settings, random = self._cluster.settings, self._cluster.ports.random
        waits = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        return waits.wait_s(failure_count, random)

    # Beginning and ending

    async def start(self) -> None:
        """Begin in the background; waits for nothing."""
        self._cluster.on_change(self._image_changed)
        self._stepping = self._task(self._take_steps(), "rebalancing")
        self._tasks.append(self._task(self._heart.run(), "heart"))
        if self._auto_commit is not None:
            self._tasks.append(self._task(self._auto_commit.run(), "automatic commits"))

    def _task(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        return in_background(work, f"group {self._group_id}: {what}", self._host.crashed)

    async def close(self, deadline: float, *, leave: bool = True) -> None:
        """Commit what automatic commits cover, leave the group, end every task.

        Past the deadline nothing is waited for, and the group finds out by itself. Cancelled, it
        leaves nothing behind either, but may not have left the group.
        """
        self._is_closed = True
        try:
            await _ended([self._stepping])
            async with asyncio.timeout(max(0.0, deadline - self._now())):
                await self._depart("the consumer closed", deadline, leave=leave)
                await self._commits.flush()
        except TimeoutError:
            logger.warning("group %s: closing took too long", self._group_id)
        finally:
            await _ended(self._tasks)
            await self._commits.close()

    async def unsubscribe(self) -> None:
        """Want nothing, let all partitions go and leave the group.

        Cancelled, the group may not have been told.
        """
        await _ended([self._stepping])
        self._subscription, self._is_matched = Subscription(), True
        try:
            deadline = self._now() + self._settings.default_api_timeout_ms / 1000
            await self._depart("the consumer unsubscribed", deadline, leave=True)
        finally:
            self._membership.left()
            self._watch()
            if self._stepping is None or self._stepping.done():
                self._stepping = self._task(self._take_steps(), "rebalancing")

    async def _depart(self, reason: str, deadline: float, *, leave: bool) -> None:
        membership = self._membership
        identity, owned = membership.identity, membership.owned
        if owned and not membership.is_member:
            await self._rebalancing.lose()
        elif owned:
            await self._rebalancing.revoke(owned, deadline)
        elif self._auto_commit is not None:
            await self._auto_commit.commit_now(deadline)
        membership.left()
        if leave:
            await self._heart.leave(identity, reason, deadline)

    async def _take_steps(self) -> None:
        failure_count = 0
        while not self._is_closed:
            if self._is_matched:
                await self._rebalancing.step()
                continue
            try:
                await self._cluster.refresh()
            except ClientError as error:
                failure_count += 1
                logger.info("group %s: topics are not known: %s", self._group_id, error)
                await asyncio.sleep(self._pause_s(failure_count))
            else:
                self._is_matched = True
                self._match(self._cluster.image)

    # The subscription

    def subscribe(self, subscription: Subscription) -> None:
        """Want these topics from now on; joins, or rejoins if a member already."""
        self._subscription = subscription
        self._rebalancing.listener = subscription.listener
        self._is_matched = subscription.pattern is None
        self._complained.clear()
        self._watch()
        if subscription.pattern is None:
            self._membership.subscribe(subscription.topics, self._now())
        self._waking.wake()

    def _watch(self) -> None:
        """Have metadata of all topics that matter kept fresh."""
        topics = {*self._membership.partitions_led, *self._subscription.topics}
        is_pattern = self._subscription.pattern is not None
        self._cluster.watch_topics(topics, all_topics=is_pattern)

    def _match(self, image: MetadataImage) -> None:
        pattern = self._subscription.pattern
        if pattern is None or not self._is_matched:
            return
        topics = matching(
            pattern,
            image,
            self._membership.topics,
            exclude_internal=self._settings.exclude_internal_topics,
        )
        self._membership.subscribe(topics, self._now())

    def _image_changed(self, image: MetadataImage) -> None:
        self._match(image)
        led = self._membership.partitions_led
        self._membership.partitions_seen(partition_counts(led, image, led))
        self._complain(image)
        self._waking.wake()

    def _complain(self, image: MetadataImage) -> None:
        """Tell the user once of topics that cannot be read."""
        for topic in self._subscription.topics:
            code = image.refusals.get(topic)
            if code in HOPELESS and topic not in self._complained:
                self._complained.add(topic)
                self._host.fail(broker_error(code, f"topic {topic!r}: {code.text}"))

    # The user

    def given_up(self, offsets: Offsets) -> None:
        """Note that partitions assigned by hand are given up; commits by itself up to there."""
        if self._auto_commit is not None:
            self._auto_commit.commit_last(offsets)

    def asked(self) -> None:
        """Note that the user asks for records: `max.poll.interval.ms` stands still from here."""
        if self._membership.asked(self._now()):
            self._waking.wake()

    def answered(self) -> None:
        """Note that the user has an answer, or gave up asking: the interval counts from here."""
        self._membership.answered(self._now())

    def enforce_rebalance(self, reason: str) -> None:
        """Rejoin the group although nothing changed that we know of."""
        self._membership.rejoin(reason)
        self._waking.wake()

    def metadata(self) -> GroupMetadata:
        """Who this member is right now."""
        identity = self._membership.identity
        return GroupMetadata(
            self._group_id,
            identity.generation,
            identity.member_id,
            self._settings.group_instance_id,
        )

    # Offsets

    async def commit(self, offsets: Offsets, deadline: float) -> None:
        """Commit, trying again what may be tried again; CommitFailed if the generation is over.

        Cancelled, whether the offsets were committed is unknown.
        """
        await self._commits.commit(offsets, deadline)

    def commit_soon(self, offsets: Offsets, callback: CommitCallback | None) -> Awaitable[None]:
        """Commit without waiting, behind earlier ones; the outcome goes to whoever awaits it."""
        if callback is None:
            return self._commits.commit_soon(offsets, None)
        told = dict(offsets)

        async def tell(error: Exception | None) -> None:
            await self._rebalancing.call_user(lambda: callback(told, error))

        return self._commits.commit_soon(offsets, tell)

    async def committed(
        self, partitions: frozenset[TopicPartition], deadline: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Ask the group's coordinator for committed offsets; partitions without one are absent."""
        return await self._commits.committed(partitions, deadline)

    # What commits ask (`commits.Member`)

    @property
    def committer(self) -> MemberIdentity | None:
        """Who commits right now."""
        return self._membership.committer

    @property
    def is_bereft(self) -> bool:
        """Whether the user may still hold records of partitions that are others' by now."""
        return self._membership.is_bereft

    async def still_owns(
        self, partitions: Partitions, asked_as: MemberIdentity, deadline: float
    ) -> bool:
        """Wait for a generation under way; tell whether a later one kept these partitions."""
        membership = self._membership
        while membership.is_joining and partitions <= membership.owned and self._now() < deadline:
            await self._waking.wait(deadline)
        is_later = membership.is_member and membership.identity != asked_as
        return is_later and partitions <= membership.owned

    def commit_refused(self, asked_as: MemberIdentity, code: ErrorCode) -> None:
        """Learn from a refusal what the group thinks of the member."""
        self._membership.commit_refused(asked_as, code, self._now())
        self._rebalancing.changed()


def _rules(settings: ConsumerSettings, assignors: Assignors) -> MembershipSettings:
    return MembershipSettings(
        protocol_names=assignors.names,
        is_cooperative=assignors.protocol is RebalanceProtocol.COOPERATIVE,
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        max_poll_interval_ms=settings.max_poll_interval_ms,
        group_instance_id=settings.group_instance_id,
    )


async def _ended(tasks: Sequence[asyncio.Task[None] | None]) -> None:
    """Cancel tasks and wait until they are over, but for the one that asks for it.

    A listener may close the consumer or unsubscribe; it is called by one of these tasks.
    """
    own = asyncio.current_task()
    running = [task for task in tasks if task not in {None, own} and not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
