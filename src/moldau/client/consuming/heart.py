"""Keeps a member alive at its coordinator, whatever its user does, and says goodbye for it.

Also the place where a user who does not ask for records any more is noticed: the member leaves, so
that the rest of the group can read in its place, and comes back when the user does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from moldau.client.consumer_settings import ConsumerSettings
from moldau.client.consuming.background import Waking
from moldau.client.consuming.group_coordinator import GroupCoordinator
from moldau.client.consuming.group_requests import heartbeat_request, leave_error, leave_request
from moldau.client.consuming.membership import Membership
from moldau.client.consuming.steps import Beat, Expire, MemberIdentity
from moldau.client.errors import ClientError
from moldau.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


class Heart:
    """The heartbeats of one member. One task runs it, owned by the group."""

    def __init__(
        self,
        group_id: str,
        settings: ConsumerSettings,
        membership: Membership,
        coordinator: GroupCoordinator,
        waking: Waking,
        changed: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        """`changed` is called when a heartbeat has changed the membership."""
        self._group_id = group_id
        self._settings = settings
        self._membership = membership
        self._coordinator = coordinator
        self._waking = waking
        self._changed = changed
        self._now = now
        self._failure_count = 0

    async def run(self) -> None:
        """Beat, until cancelled."""
        while True:
            pulse = self._membership.pulse(self._now())
            if isinstance(pulse, Beat):
                await self._beat(pulse.identity)
            elif isinstance(pulse, Expire):
                await self._expire(pulse.identity)
            else:
                await self._waking.wait(pulse.until)

    async def _beat(self, identity: MemberIdentity) -> None:
        self._membership.beat_begun(self._now())
        # An answer that does not come must leave time for another try within the session.
        patience_ms = self._settings.session_timeout_ms // 2
        request = heartbeat_request(self._group_id, self._settings.group_instance_id, identity)
        try:
            answer = await self._coordinator.ask(
                request, self._now() + patience_ms / 1000, timeout_ms=patience_ms
            )
        except ClientError as error:
            self._failed(str(error))
            return
        code = ErrorCode.of(answer.error_code)
        self._coordinator.heard(code)
        if code.retriable:
            self._failed(code.name)
            return
        self._failure_count = 0
        self._membership.beat_answered(identity, code, self._now())
        if code is not ErrorCode.NONE:
            logger.info("group %s answered a heartbeat with %s", self._group_id, code.name)
            self._changed()

    def _failed(self, why: str) -> None:
        self._failure_count += 1
        self._membership.beat_failed(self._failure_count, self._now())
        logger.info("a heartbeat to group %s failed: %s", self._group_id, why)

    async def _expire(self, identity: MemberIdentity) -> None:
        limit_ms = self._settings.max_poll_interval_ms
        logger.warning(
            "group %s: left it, because no records were asked for within max_poll_interval_ms=%d;"
            " others read these partitions now. Raise max_poll_interval_ms, lower max_poll_records,"
            " or work in other tasks while partitions are paused.",
            self._group_id,
            limit_ms,
        )
        self._membership.expired()
        self._changed()
        deadline = self._now() + self._settings.session_timeout_ms / 1000
        await self.leave(identity, "max.poll.interval.ms passed", deadline)

    async def leave(self, identity: MemberIdentity, reason: str, deadline: float) -> None:
        """Say goodbye for a dynamic member; a static one is expected back (KIP-345).

        A goodbye that does not arrive costs the group a session timeout, no more.
        """
        if not identity.member_id or self._settings.group_instance_id is not None:
            return
        request = leave_request(self._group_id, None, identity, reason)
        timeout_ms = max(1, round((deadline - self._now()) * 1000))
        try:
            answer = await self._coordinator.ask(request, deadline, timeout_ms=timeout_ms)
        except ClientError as error:
            logger.info("group %s was not told that a member left: %s", self._group_id, error)
            return
        code = leave_error(answer)
        self._coordinator.heard(code)
        if code is not ErrorCode.NONE:
            logger.info("group %s answered a goodbye with %s", self._group_id, code.name)
