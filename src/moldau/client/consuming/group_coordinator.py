"""The way to the coordinator of one group: found when needed, forgotten when it has moved."""

from __future__ import annotations

from typing import Any

from moldau.client.errors import ConnectionLost, RequestTimedOut, UnsupportedVersion
from moldau.engine.cluster import Cluster, CoordinatorKind, Lane
from moldau.protocol.errors import ErrorCode
from moldau.protocol.fields import FOREVER

MOVED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Answers that mean: ask again who coordinates the group."""


class GroupCoordinator:
    """The coordinator of one group, whichever broker that is."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._asked: int | None = None

    async def ask(
        self,
        request: Any,
        deadline: float,
        *,
        oldest_version: int = 0,
        newest_version: int = FOREVER,
        lane: Lane = Lane.COORDINATION,
        timeout_ms: int | None = None,
    ) -> Any:
        """Ask once and return the answer, whatever code is in it.

        The deadline is for finding the coordinator. UnsupportedVersion if the broker knows only
        versions before the oldest that can say what the request has to say.
        """
        node = await self._cluster.coordinator(CoordinatorKind.GROUP, self._group_id, deadline)
        self._asked = node
        try:
            connection = await self._cluster.connection(node, lane)
            version = min(newest_version, connection.agreed_version(type(request)))
            if version < oldest_version:
                raise UnsupportedVersion(
                    f"{type(request).__name__} needs version {oldest_version},"
                    f" broker {node} knows it up to {version}"
                )
            return await connection.send(request, version, timeout_ms=timeout_ms)
        except (ConnectionLost, RequestTimedOut):
            self._forget()
            raise

    def heard(self, code: ErrorCode) -> None:
        """Learn from the code in an answer whether the group has another coordinator now."""
        if code in MOVED:
            self._forget()

    def _forget(self) -> None:
        if self._asked is not None:
            self._cluster.forget_coordinator(CoordinatorKind.GROUP, self._group_id, self._asked)
