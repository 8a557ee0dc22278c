"""Takes the steps of rebalances that `membership` decides on, one after the other.

Whatever the user must not be surprised by (revoking, assigning, its listener's calls) happens in a
turn of the host; whatever needs the coordinator happens without the user. After every wait the
membership is asked again, because heartbeats may have changed it meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from moldau.client.assignors.interface import Assignment
from moldau.client.consumer_settings import ConsumerSettings
from moldau.client.consuming import listeners
from moldau.client.consuming.auto_commit import AutoCommit
from moldau.client.consuming.background import Waking
from moldau.client.consuming.coordination import Host
from moldau.client.consuming.distribution import Assignors
from moldau.client.consuming.group_coordinator import GroupCoordinator
from moldau.client.consuming.group_requests import (
    OLDEST_JOIN,
    OLDEST_STATIC_JOIN,
    join_request,
    sync_request,
)
from moldau.client.consuming.membership import Membership
from moldau.client.consuming.steps import (
    NONE_OWNED,
    Adopt,
    Distribute,
    Join,
    Lose,
    Partitions,
    Refuse,
    Revoke,
    Synchronise,
    Wait,
)
from moldau.client.consuming.subscribed_topics import partition_counts, replica_racks
from moldau.client.errors import ClientError
from moldau.engine.cluster import Cluster, Lane
from moldau.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

JOIN_GRACE_MS = 5_000
"""The coordinator answers a join when the slowest member has come, or its time is up; the answer
still has to arrive."""


class Rebalancing:
    """One member's part in the rebalances of its group. One task takes its steps."""

    def __init__(
        self,
        group_id: str,
        settings: ConsumerSettings,
        membership: Membership,
        assignors: Assignors,
        coordinator: GroupCoordinator,
        cluster: Cluster,
        host: Host,
        auto_commit: AutoCommit | None,
        waking: Waking,
        now: Callable[[], float],
    ) -> None:
        self._group_id = group_id
        self._settings = settings
        self._membership = membership
        self._assignors = assignors
        self._coordinator = coordinator
        self._cluster = cluster
        self._host = host
        self._auto_commit = auto_commit
        self._waking = waking
        self._now = now
        self.listener: Any = None
        self.watch: Callable[[], None] = _nothing
        """Called when the group's topics have changed, to have metadata of them all."""
        self._waiting: asyncio.Timeout | None = None
        """Ends the wait for a turn."""
        self._received = Assignment()
        self._protocol_name = ""

    async def step(self) -> None:
        """Take the next step, or wait until there is one. Cancelled, it can be taken again."""
        step = self._membership.next(self._now())
        if isinstance(step, Wait):
            await self._waking.wait(step.until)
        elif isinstance(step, Adopt) and self._needs_no_turn(step):
            await self._adopt(step)
        elif isinstance(step, (Revoke, Adopt)):
            await self._take_turn()
        elif isinstance(step, Lose):
            await self.lose()
        elif isinstance(step, Join):
            await self._join(step)
        elif isinstance(step, Distribute):
            await self._distribute(step)
        elif isinstance(step, Synchronise):
            await self._synchronise(step)
        else:
            self._refuse(step)

    def changed(self) -> None:
        """Look again, because the membership has changed.

        Who was shut out has nothing to do in a turn any more, so it is not waited for.
        """
        self._waking.wake()
        if self._waiting is not None and isinstance(self._membership.next(self._now()), Lose):
            self._waiting.reschedule(asyncio.get_running_loop().time())

    # Partitions come and go

    def _needs_no_turn(self, step: Adopt) -> bool:
        """Tell whether the user need not let go of anything, nor hear of it before it reads on.

        The next rebalance waits for this one, and the group for that; a busy user must not hold
        both up for nothing.
        """
        return step.is_quiet or (not step.revoked and self.listener is None)

    async def _take_turn(self) -> None:
        """Wait for a turn and take the step in it."""
        waiting = self._waiting = asyncio.timeout(None)
        try:
            async with waiting, self._host.turn():
                waiting.reschedule(None)
                self._waiting = None
                await self._step_in_turn()
        except TimeoutError:
            if not waiting.expired():
                raise
        finally:
            self._waiting = None

    async def _step_in_turn(self) -> None:
        """Take a step that needed a turn, if it still is the one to take."""
        step = self._membership.next(self._now())
        if isinstance(step, Revoke):
            await self.revoke(step.partitions, self._now() + self._commit_patience_s)
        elif isinstance(step, Adopt):
            await self._adopt(step)

    @property
    def _commit_patience_s(self) -> float:
        """How long a rebalance waits for a last commit: the group waits for this member."""
        return min(self._settings.default_api_timeout_ms, self._settings.session_timeout_ms) / 1000

    async def revoke(self, partitions: Partitions, deadline: float) -> None:
        """Give partitions up: commit what the user is done with, tell the listener, let go."""
        await self._before_revoking(partitions, deadline)
        self._assign(self._membership.owned - partitions)
        self._membership.revoked(partitions)

    async def _before_revoking(self, partitions: Partitions, deadline: float) -> None:
        logger.info("group %s: giving up %s", self._group_id, _listed(partitions))
        if self._auto_commit is not None:
            await self._auto_commit.commit_now(deadline, partitions)
        await self._tell(listeners.revoked(self.listener, partitions))
        if self._auto_commit is not None:
            self._auto_commit.forget(partitions)

    async def lose(self) -> None:
        """Drop what is somebody else's already, then tell."""
        partitions = self._membership.owned
        logger.warning("group %s: lost %s", self._group_id, _listed(partitions))
        self._membership.forfeited()
        self._assign(NONE_OWNED)
        if self._auto_commit is not None:
            self._auto_commit.forget(partitions)
        await self._tell(listeners.lost(self.listener, partitions))

    async def _adopt(self, step: Adopt) -> None:
        if step.revoked:
            await self._before_revoking(step.revoked, self._now() + self._commit_patience_s)
            if self._membership.next(self._now()) != step:
                return  # lost meanwhile, or the listener unsubscribed
        try:
            self._assignors.adopted(self._protocol_name, self._received, step.identity.generation)
        except Exception as error:  # noqa: BLE001 - an assignor of the user's own has its say
            self._host.fail(error)
        self._assign(step.assigned)
        self._membership.adopted(step)
        logger.info(
            "group %s: generation %d assigned %s",
            self._group_id,
            step.identity.generation,
            _listed(step.assigned),
        )
        if not step.is_quiet:
            await self._tell(listeners.assigned(self.listener, step.added))

    def _assign(self, partitions: Partitions) -> None:
        self._host.positions.assign(sorted(partitions))
        self._host.assignment_changed()

    async def _tell(self, call: listeners.Call | None) -> None:
        if call is not None:
            await self.call_user(call)

    async def call_user(self, call: listeners.Call) -> None:
        """Call the user's code; what it raises is raised to the user, and stops nothing here."""
        try:
            await self._host.call_user(call)
        except Exception as error:  # noqa: BLE001 - a user's code may raise anything
            self._host.fail(error)

    def _refuse(self, step: Refuse) -> None:
        logger.error("group %s: %s", self._group_id, step.error)
        self._membership.refusal_told()
        # One that is told again and again must not carry along where it was raised before.
        self._host.fail(step.error.with_traceback(None))

    # Requests

    async def _join(self, step: Join) -> None:
        settings = self._settings
        logger.info("joining group %s: %s", self._group_id, step.reason)
        self._membership.join_begun()
        try:
            subscriptions = self._assignors.subscriptions_to_send(step)
            oldest = OLDEST_JOIN if settings.group_instance_id is None else OLDEST_STATIC_JOIN
            answer = await self._ask(
                join_request(self._group_id, settings, step, subscriptions), oldest
            )
        except Exception as error:  # noqa: BLE001 - an assignor of the user's own has its say
            self._interrupted("join", error)
            return
        self._heard("join", answer.error_code)
        self._protocol_name = answer.protocol_name or ""
        self._membership.joined(answer, self._now())
        self._waking.wake()

    async def _distribute(self, step: Distribute) -> None:
        """Assign as the leader, over the partitions there are right now."""
        try:
            subscriptions = self._assignors.subscriptions_received(step)
            topics = {topic for one in subscriptions.values() for topic in one.topics}
            image = await self._cluster.refresh(sorted(topics))
            assignments: dict[str, bytes] = {}
            if not step.is_settled:
                racks = replica_racks(topics, image)
                assignments = self._assignors.assignments_to_send(step, racks, subscriptions)
            self._membership.distributed(assignments, partition_counts(topics, image, {}))
        except Exception as error:  # noqa: BLE001 - an assignor of the user's own has its say
            self._interrupted("assignment", error)
        self.watch()

    async def _synchronise(self, step: Synchronise) -> None:
        try:
            answer = await self._ask(
                sync_request(self._group_id, self._settings.group_instance_id, step), 0
            )
            self._heard("sync", answer.error_code)
            self._received = self._assignors.assignment_received(answer.assignment)
        except ClientError as error:
            self._interrupted("sync", error)
        else:
            assigned = frozenset(self._received.partitions)
            self._membership.synced(step.identity, answer, assigned, self._now())
        self._waking.wake()

    async def _ask(self, request: Any, oldest_version: int) -> Any:
        """Ask for what may take as long as the slowest member takes to come to a rebalance."""
        settings = self._settings
        return await self._coordinator.ask(
            request,
            self._now() + settings.default_api_timeout_ms / 1000,
            oldest_version=oldest_version,
            lane=Lane.JOINING,
            timeout_ms=settings.max_poll_interval_ms + JOIN_GRACE_MS,
        )

    def _heard(self, what: str, error_code: int) -> None:
        code = ErrorCode.of(error_code)
        self._coordinator.heard(code)
        if code not in {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED}:
            logger.info("group %s answered a %s with %s", self._group_id, what, code.name)

    def _interrupted(self, what: str, error: Exception) -> None:
        if isinstance(error, ClientError) and error.retriable:
            logger.info("group %s: a %s failed: %s", self._group_id, what, error)
            self._membership.interrupted(self._now())
        else:
            self._membership.refused(error)


def _listed(partitions: Partitions) -> str:
    return ", ".join(str(each) for each in sorted(partitions)) or "nothing"


def _nothing() -> None:
    """Do nothing."""
