"""Tells clients of Produce and Fetch who leads a partition that they looked for here (KIP-951).

With the leader's id, epoch and address in the answer, a client goes on there without asking for
metadata first. The address is that of the listener which the client came in on.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.base.ids import BrokerId, TopicId
from moldau.cluster.image import MetadataImage
from moldau.protocol.messages.data import LeaderIdAndEpoch, NodeEndpoint


class LeaderHints:
    """The leaders of partitions, as far as this broker knows now."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def hint(
        self, topic: str | bytes, index: int, listener: str, endpoints: list[NodeEndpoint]
    ) -> LeaderIdAndEpoch:
        """Return who leads a partition of a topic, given by name or id; -1 if nobody is known.

        The leader's address is added to the endpoints of an answer, once for all its partitions.
        """
        leader = self.leader(topic, index)
        broker = self._image().brokers.get(BrokerId(leader.leader_id))
        is_new = all(one.node_id != leader.leader_id for one in endpoints)
        if broker is not None and not broker.fenced and is_new:
            endpoints.extend(
                NodeEndpoint(broker.id, endpoint.host, endpoint.port, broker.rack)
                for endpoint in broker.endpoints
                if endpoint.listener == listener
            )
        return leader

    def leader(self, topic: str | bytes, index: int) -> LeaderIdAndEpoch:
        """Return who leads a partition of a topic, given by name or id; -1 if nobody is known."""
        image = self._image()
        found = image.topic(topic) if isinstance(topic, str) else image.topic_by_id(TopicId(topic))
        if found is None or not 0 <= index < len(found.partitions):
            return LeaderIdAndEpoch()
        partition = found.partitions[index]
        return LeaderIdAndEpoch(partition.leader, partition.leader_epoch)


NO_HINTS = LeaderHints(MetadataImage)
"""Of a broker that knows nobody: clients ask for metadata."""
