"""Our own consumer, both faces, behind the face that all clients of the group stories share."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from typing import Any

from compat.group_clients import (
    CLOSE_S,
    POLL_S,
    RETRY_MS,
    GroupConsumer,
    Read,
    Tell,
    Wishes,
    listed,
    name_of,
    place,
    split,
)

NO_OFFSET = -1001


class NoOffsetForPartitionError(Exception):
    """`NoOffset` under the name that the stories know it by."""


class Moldau(GroupConsumer):
    """The blocking face; its heartbeats need nothing of the thread that uses it."""

    def __init__(self, server: str, name: str, wishes: Wishes, tell: Tell) -> None:
        super().__init__(server, name, wishes, tell)
        self._consumer = self._made(
            server,
            client_id=name,
            group_id=wishes.group,
            group_instance_id=wishes.instance or None,
            auto_offset_reset=wishes.reset,
            partition_assignment_strategy=wishes.assignors,
            enable_auto_commit=bool(wishes.auto_commit_ms),
            auto_commit_interval_ms=wishes.auto_commit_ms or 5000,
            session_timeout_ms=wishes.session_ms,
            heartbeat_interval_ms=wishes.heartbeat_ms,
            max_poll_interval_ms=wishes.poll_interval_ms,
            metadata_max_age_ms=wishes.metadata_ms,
            reconnect_backoff_max_ms=RETRY_MS,
        )
        self._call("start")

    def _made(self, server: str, **settings: Any) -> Any:
        from moldau.client.consumer import Consumer  # noqa: PLC0415

        return Consumer(server, **settings)

    def _call(self, method: str, *arguments: Any, **named: Any) -> Any:
        return getattr(self._consumer, method)(*arguments, **named)

    def subscribe(self, topics: list[str], pattern: str) -> None:
        self._call("subscribe", topics, pattern=pattern or None, listener=self)

    def on_partitions_assigned(self, some: Any) -> None:
        self.tell("assigned", listed(some))

    def on_partitions_revoked(self, some: Any) -> Any:
        self.tell("revoked", listed(some))

    def on_partitions_lost(self, some: Any) -> None:
        self.tell("lost", listed(some))

    def poll(self) -> list[Read]:
        try:
            records = self._call("poll", timeout_ms=1000 * POLL_S)
        except Exception as error:
            if name_of(error) == "NoOffset":
                raise NoOffsetForPartitionError from error
            raise
        return [Read(place(one.topic, one.partition), one.offset, one.offset) for one in records]

    def commit(self) -> None:
        self._call("commit")

    def commit_later(self) -> None:
        self._call("commit_async", callback=self._committed_later)

    def _committed_later(self, _: Any, error: Exception | None) -> None:
        self.tell("refused" if error else "committed", name_of(error) if error else "")

    def committed(self, partition: str) -> int:
        at = split(partition)
        found = self._call("committed", [at]).get(at)
        return NO_OFFSET if found is None else int(found.offset)

    def position(self, partition: str) -> int:
        return int(self._call("position", split(partition)))

    def seek(self, partition: str, offset: int) -> None:
        self._call("seek", split(partition), offset)

    def close(self) -> None:
        self._call("close", CLOSE_S)


class MoldauAsyncio(Moldau):
    """The face for asyncio, whose loop runs while a member polls or stalls."""

    def _made(self, server: str, **settings: Any) -> Any:
        from moldau.client.consumer import AsyncConsumer  # noqa: PLC0415

        self._runner = asyncio.Runner()
        return AsyncConsumer(server, **settings)

    def _call(self, method: str, *arguments: Any, **named: Any) -> Any:
        async def inside() -> Any:
            outcome = getattr(self._consumer, method)(*arguments, **named)
            return await outcome if inspect.iscoroutine(outcome) else outcome

        return self._runner.run(inside())

    async def on_partitions_revoked(self, some: Any) -> None:
        self.tell("revoked", listed(some))

    def stall(self, seconds: float) -> None:
        self._runner.run(asyncio.sleep(seconds))

    def close(self) -> None:
        super().close()
        self._runner.close()


OWN: Mapping[str, type[GroupConsumer]] = {"moldau": Moldau, "moldau-asyncio": MoldauAsyncio}
