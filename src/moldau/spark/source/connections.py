"""The connections of a Python process of Spark's: made when first needed, kept as long as it lives.

Spark keeps its Python workers from task to task, but sends them what they run anew each time, so
that nothing kept in a reader lasts. A module that is imported does. One cluster of brokers is
reached through one set of connections, whichever query asks, on an event loop in a thread of its
own: while a task hands rows to Spark, the next ones arrive there.

A process that was forked off does not use what its parent had open.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from moldau.engine.cluster import Cluster
from moldau.engine.portal import Portal
from moldau.engine.ports import system_ports
from moldau.engine.settings import ConnectionSettings
from moldau.spark.settings import ConnectionOptions, checked

T = TypeVar("T")

_RECEIVE_BUFFER_SIZE: Final = 1024 * 1024
"""Answers of some megabytes come through it; with Kafka's 64 KiB the loop would wake ten times as
often for the same bytes."""


class Connection:
    """A cluster, and the loop that owns it."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._portal = Portal("spark")
        try:
            self.cluster = self._portal.call(_opened(settings))
        except BaseException:
            self._portal.close()
            raise

    @property
    def is_open(self) -> bool:
        """Whether this process can use it."""
        return self._portal.is_open

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the loop and wait for it."""
        return self._portal.call(work)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have something run on the loop; the future is its outcome, and cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._portal.loop)

    def close(self) -> None:
        """End all connections and the loop."""
        try:
            self._portal.call(self.cluster.close())
        finally:
            self._portal.close()


async def _opened(settings: ConnectionSettings) -> Cluster:
    cluster = Cluster(settings, system_ports(settings))
    try:
        await cluster.start()
    except BaseException:
        await cluster.close()
        raise
    return cluster


_open: Final[dict[frozenset[tuple[str, str]], Connection]] = {}
_opening: Final = threading.Lock()


def connection_to(options: ConnectionOptions, patience_ms: int | None = None) -> Connection:
    """Return the connection that these settings make, the same one each time.

    NoBrokerReachable if there is none yet and no broker answers, for so long unless told otherwise.
    """
    key = frozenset(options.settings.items())
    with _opening:
        kept = _open.get(key)
        if kept is None or not kept.is_open:
            kept = _open[key] = Connection(connection_settings(options, patience_ms))
        return kept


def close_all() -> None:
    """End every connection of this process."""
    with _opening:
        while _open:
            _, kept = _open.popitem()
            if kept.is_open:
                kept.close()


def connection_settings(
    options: ConnectionOptions, patience_ms: int | None = None
) -> ConnectionSettings:
    """Return how the brokers are reached: as was told, and as suits reading where it was not."""
    own: dict[str, Any] = {"receive_buffer_bytes": _RECEIVE_BUFFER_SIZE}
    if patience_ms is not None:
        own["bootstrap_timeout_ms"] = patience_ms
    values = {**own, **options.those_of(ConnectionSettings)}
    values["allow_auto_create_topics"] = False  # reading a topic must not make it
    return checked(ConnectionSettings, values)
