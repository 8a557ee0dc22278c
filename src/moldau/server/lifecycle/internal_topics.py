"""The topics that brokers keep for themselves: which they are, and how they are made.

They are made when somebody first looks for a coordinator, as in Kafka, whether or not clients may
create topics by the way. Their configs are Kafka's, so that a folder can change hands. Where there
is only one broker and no other can join, one replica has to do: Kafka's default of three would
leave a broker that was just started without groups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from moldau.cluster.image import MetadataImage
from moldau.cluster.topics import NewTopic
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.server.configuration.values import BrokerValues
from moldau.server.lifecycle.topic_admin import TopicCreation

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"

INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
"""Names no client may write to, whether or not there are such topics."""


class InternalTopics:
    """Makes the internal topics of the coordinators that are served."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        topics: TopicCreation,
        values: BrokerValues,
        *,
        replica_limit: int,
    ) -> None:
        """No topic gets more replicas, or asks for more in sync, than `replica_limit`."""
        self._image = image
        self._topics = topics
        self._wanted = {
            OFFSETS_TOPIC: _offsets_topic(values, replica_limit),
            TRANSACTIONS_TOPIC: _transactions_topic(values, replica_limit),
        }
        self._turn = asyncio.Lock()

    async def create(self, name: str) -> None:
        """Return once the topic is there and this broker serves its part; ApiError, StoreFailed.

        Those who ask at the same time wait for the same creation. A topic without a coordinator
        here is not made: ApiError UNKNOWN_TOPIC_OR_PARTITION.
        """
        wanted = self._wanted.get(name)
        if wanted is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        async with self._turn:
            if self._image().topic(name) is None:
                await self._topics.create(wanted)


def _offsets_topic(values: BrokerValues, replica_limit: int) -> NewTopic:
    return NewTopic(
        OFFSETS_TOPIC,
        values.integer("offsets.topic.num.partitions"),
        min(values.integer("offsets.topic.replication.factor"), replica_limit),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(values.integer("offsets.topic.segment.bytes")),
        },
    )


def _transactions_topic(values: BrokerValues, replica_limit: int) -> NewTopic:
    in_sync = min(values.integer("transaction.state.log.min.isr"), replica_limit)
    return NewTopic(
        TRANSACTIONS_TOPIC,
        values.integer("transaction.state.log.num.partitions"),
        min(values.integer("transaction.state.log.replication.factor"), replica_limit),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(in_sync),
            "segment.bytes": str(values.integer("transaction.state.log.segment.bytes")),
            "unclean.leader.election.enable": "false",
        },
    )
