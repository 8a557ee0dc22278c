"""Topics that are asked for and not there: how long already, and whether they may still come.

A broker answers alike for a topic that does not exist, for one that it is about to create because
it was asked for, and for one that was created elsewhere a moment ago. The second is possible only
where brokers create topics by themselves, which one of them is asked; the third is over soon.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol

from moldau.base.clock import Clock
from moldau.engine.errors import ClientError
from moldau.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

TOPIC_LAG_S: Final = 5.0
"""How long a broker may take to hear of a topic that was created elsewhere."""

ANSWER_S: Final = 1.0
"""How long a broker has to tell: metadata waits meanwhile."""

AUTO_CREATION: Final = "auto.create.topics.enable"
_BROKER: Final = 4
"""The type of a resource of configs."""


class Asked(Protocol):
    """Who can be asked: a cluster."""

    async def call(self, node: int, request: Any) -> Any: ...


class MissingTopics:
    """Remembers since when topics are missing."""

    def __init__(self, clock: Clock, *, may_create: bool) -> None:
        self._clock = clock
        self._may_create = may_create
        self._since: dict[str, float] = {}
        self._may_come: set[str] = set()

    def is_certain(self, name: str) -> bool:
        """Tell whether a topic is not there, and not about to be."""
        since = self._since.get(name)
        if since is None or name in self._may_come:
            return False
        return self._clock.monotonic() >= since + TOPIC_LAG_S

    async def note(self, refusals: Mapping[str, ErrorCode], cluster: Asked, broker_id: int) -> None:
        """Take what the brokers refuse now; find out whether they would create it."""
        missing = {
            name for name, code in refusals.items() if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        for name in self._since.keys() - missing:
            del self._since[name]
            self._may_come.discard(name)
        new = missing - self._since.keys()
        if not new:
            return
        self._since.update(dict.fromkeys(new, self._clock.monotonic()))
        if self._may_create and await _creates_topics(cluster, broker_id):
            self._may_come |= new
            return
        for name in sorted(new):
            logger.warning("there is no topic %r, and no broker creates it by itself", name)


async def _creates_topics(cluster: Asked, broker_id: int) -> bool:
    """Ask a broker whether it creates topics; one that does not tell may do it."""
    from moldau.protocol.messages.configs import (  # noqa: PLC0415 - few topics are missing
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )

    wanted = DescribeConfigsResource(_BROKER, str(broker_id), [AUTO_CREATION])
    try:
        async with asyncio.timeout(ANSWER_S):
            answer = await cluster.call(broker_id, DescribeConfigsRequest([wanted]))
    except (ClientError, TimeoutError):
        return True
    told = [one for result in answer.results for one in result.configs if one.name == AUTO_CREATION]
    return not told or told[0].value != "false"
