"""FindCoordinator 0-6: who looks after a group or a transactional id.

Versions 0-3 ask for one key, 4 and later for many (KIP-699). The coordinator is the leader of the
key's partition of an internal topic; the first to ask for one makes the topic. Unlike Kafka, which
makes it in the background and answers with an error that the client retries on, the answer waits
for it, as that of Metadata does.

A key that is asked for twice is answered once; Kafka answers it twice.

Share groups (key type 2, KIP-932) are not served: INVALID_REQUEST, Kafka's word for a type of
coordinator that a broker does not have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from moldau.base.ids import BrokerId
from moldau.cluster.image import MetadataImage
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.metadata import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.server.lifecycle.runtimes import CoordinatorType
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.repeats import once
from moldau.server.network.slices import Sliced
from moldau.server.network.stepping import take_turns

logger = logging.getLogger(__name__)

MANY_KEYS_FROM: Final = 4


class Spread(Protocol):
    """A runtime, as far as finding its shards goes."""

    topic: str

    def partition_for(self, key: str) -> int:
        """Return the partition of the topic that a key belongs to."""
        ...

    def holds(self, index: int) -> bool:
        """Tell whether there is a shard of this partition here."""
        ...


class Creator(Protocol):
    """What makes internal topics."""

    async def create(self, name: str) -> None:
        """Return once the topic is there; ApiError, StoreFailed."""
        ...


class _Node(NamedTuple):
    """A broker and where it is reached, or why there is none."""

    node_id: int
    host: str
    port: int
    error: ErrorCode = ErrorCode.NONE


def _nobody(error: ErrorCode) -> _Node:
    return _Node(-1, "", -1, error)


class CoordinatorHandlers:
    """Answers FindCoordinator."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        broker_id: BrokerId,
        topics: Creator,
        runtimes: Mapping[CoordinatorType, Spread],
    ) -> None:
        self._image = image
        self._broker_id = broker_id
        self._topics = topics
        self._runtimes = runtimes
        self._told: dict[str, str] = {}
        """Why each topic could not be created, as the log was told last: clients ask in a loop."""

    def find_coordinator(
        self, request: FindCoordinatorRequest, context: RequestContext
    ) -> Sliced[FindCoordinatorResponse | Coroutine[Any, Any, FindCoordinatorResponse]]:
        """Tell who coordinates, for one key or for many."""
        many = context.version >= MANY_KEYS_FROM
        keys = (yield from once(request.coordinator_keys)) if many else [request.key]
        runtime = self._runtime(request.key_type)
        if runtime is not None and keys and self._image().topic(runtime.topic) is None:
            return self._create_and_tell(runtime, keys, context, many=many)
        return (yield from self._tell(runtime, keys, context, many=many))

    def _runtime(self, key_type: int) -> Spread | None:
        try:
            return self._runtimes.get(CoordinatorType(key_type))
        except ValueError:
            return None

    async def _create_and_tell(
        self, runtime: Spread, keys: Sequence[str], context: RequestContext, *, many: bool
    ) -> FindCoordinatorResponse:
        try:
            await self._topics.create(runtime.topic)
            self._told.pop(runtime.topic, None)
        except (ApiError, StoreFailed) as error:
            self._say_why(runtime.topic, str(error))
        return await take_turns(self._tell(runtime, keys, context, many=many))

    def _say_why(self, topic: str, reason: str) -> None:
        """Say why a topic cannot be created, once for each reason."""
        if self._told.get(topic) != reason:
            self._told[topic] = reason
            logger.warning("%s cannot be created: %s", topic, reason)

    def _tell(
        self, runtime: Spread | None, keys: Sequence[str], context: RequestContext, *, many: bool
    ) -> Sliced[FindCoordinatorResponse]:
        response = FindCoordinatorResponse()
        for key in keys:
            node = _nobody(ErrorCode.INVALID_REQUEST)
            if runtime is not None:
                node = self._find(runtime, key, context)
            if not many:
                return _of_one(node)
            text = node.error.text if node.error else ""
            response.coordinators.append(Coordinator(key, *node, text))
            yield
        return response

    def _find(self, runtime: Spread, key: str, context: RequestContext) -> _Node:
        """Find the leader of a key's partition, at the listener the question came in on."""
        image = self._image()
        topic = image.topic(runtime.topic)
        index = runtime.partition_for(key)
        if topic is not None and index < len(topic.partitions):
            leader = topic.partitions[index].leader
            broker = image.brokers.get(leader)
            here = leader == self._broker_id
            if broker is not None and not broker.fenced and (not here or runtime.holds(index)):
                listener = context.session.listener
                for endpoint in broker.endpoints:
                    if endpoint.listener == listener:
                        return _Node(broker.id, endpoint.host, endpoint.port)
        return _nobody(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _of_one(node: _Node) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=node.error,
        error_message=node.error.text,
        node_id=node.node_id,
        host=node.host,
        port=node.port,
    )
