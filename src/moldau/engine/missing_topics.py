"""Topics that are asked for and not there: how long already, and whether they may still come.

A broker answers alike for a topic that does not exist, for one that it is about to create because
it was asked for, and for one that was created elsewhere a moment ago. The second is possible only
where brokers create topics by themselves, which one of them is asked. The third is over soon:
a broker learns of a new topic a moment after the controller acknowledges it. So the first refusal
says nothing yet. A topic that is still missing `WARNING_AFTER_S` later is warned of, once, and one
that is missing for `TOPIC_LAG_S` is certain not to come.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Protocol

from moldau.base.clock import Clock
from moldau.engine.errors import ClientError
from moldau.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

TOPIC_LAG_S: Final = 5.0
"""How long a broker may take to hear of a topic that was created elsewhere."""

WARNING_AFTER_S: Final = 2.0
"""How long a topic is missing before that is warned of: on a busy machine a broker may learn of a
topic this late. Who mistyped a name still hears of it before the error."""

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
        self._warned: set[str] = set()

    def is_certain(self, name: str) -> bool:
        """Tell whether a topic is not there, and not about to be."""
        since = self._since.get(name)
        if since is None or name in self._may_come:
            return False
        return self._clock.monotonic() >= since + TOPIC_LAG_S

    async def note(
        self,
        refusals: Mapping[str, ErrorCode],
        watched: Collection[str],
        cluster: Asked,
        broker_id: int,
    ) -> bool:
        """Take what the brokers refuse now; find out whether they would create it.

        Returns whether a watched topic is missing that may be on its way: ask again soon.
        """
        missing = {
            name for name, code in refusals.items() if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        for name in self._since.keys() - missing:
            del self._since[name]
            self._may_come.discard(name)
            self._warned.discard(name)
        new = missing - self._since.keys()
        if new:
            self._since.update(dict.fromkeys(new, self._clock.monotonic()))
            if self._may_create and await _creates_topics(cluster, broker_id):
                self._may_come |= new
        # Refusals of topics that nobody watches are not renewed: they may be old.
        undecided = missing.intersection(watched) - self._may_come - self._warned
        return self._warn(undecided) < len(undecided)

    def _warn(self, undecided: Iterable[str]) -> int:
        """Warn of topics that are missing for too long to be on their way; return how many."""
        latest = self._clock.monotonic() - WARNING_AFTER_S
        late = sorted(name for name in undecided if self._since[name] <= latest)
        self._warned.update(late)
        for name in late:
            logger.warning("there is no topic %r, and no broker creates it by itself", name)
        return len(late)


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
