"""Settings of Kafka's earlier clients, and what took their place.

Most are those of the Scala producer and consumer, which Kafka 2.0 removed; some have the names of
0.7. The source is Kafka's upgrade notes and the classes of settings in its releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.base.removed_settings import Removed

_SCALA: Final = "2.0"
"""The release that removed the Scala clients."""

_KEPT_BY_BROKERS: Final = "group.id: brokers keep the offsets of every group"

REMOVED: Final[Mapping[str, Removed]] = {
    # For all clients
    "broker.list": Removed("0.8", "bootstrap.servers"),
    "metadata.broker.list": Removed(_SCALA, "bootstrap.servers"),
    "socket.timeout.ms": Removed(_SCALA, "request.timeout.ms"),
    "topic.metadata.refresh.interval.ms": Removed(_SCALA, "metadata.max.age.ms"),
    "zk.connect": Removed("0.8", "bootstrap.servers"),
    "zookeeper.connect": Removed(_SCALA, "bootstrap.servers, which names brokers"),
    "zookeeper.connection.timeout.ms": Removed(_SCALA, "socket.connection.setup.timeout.ms"),
    "zookeeper.session.timeout.ms": Removed(_SCALA, "session.timeout.ms"),
    "zookeeper.sync.time.ms": Removed(_SCALA, "metadata.max.age.ms"),
    # Producers
    "batch.num.messages": Removed(_SCALA, "batch.size, in bytes"),
    "block.on.buffer.full": Removed("0.11", "max.block.ms"),
    "compressed.topics": Removed(_SCALA, "compression.type of the topics"),
    "compression.codec": Removed(_SCALA, "compression.type"),
    "key.serializer.class": Removed(_SCALA, "key.serializer"),
    "message.send.max.retries": Removed(_SCALA, "retries, or delivery.timeout.ms"),
    "metadata.fetch.timeout.ms": Removed("0.11", "max.block.ms"),
    "producer.type": Removed(_SCALA, "linger.ms and batch.size; all producers send in batches"),
    "queue.buffering.max.messages": Removed(_SCALA, "buffer.memory, in bytes"),
    "queue.buffering.max.ms": Removed(_SCALA, "linger.ms"),
    "queue.enqueue.timeout.ms": Removed(_SCALA, "max.block.ms"),
    "queue.size": Removed("0.8", "buffer.memory, in bytes"),
    "queue.time": Removed("0.8", "linger.ms"),
    "request.required.acks": Removed(_SCALA, "acks"),
    "serializer.class": Removed(_SCALA, "value.serializer"),
    "timeout.ms": Removed("0.11", "request.timeout.ms, or delivery.timeout.ms"),
    # Consumers
    "auto.commit.enable": Removed(_SCALA, "enable.auto.commit"),
    "autocommit.enable": Removed("0.8", "enable.auto.commit"),
    "autocommit.interval.ms": Removed("0.8", "auto.commit.interval.ms"),
    "autooffset.reset": Removed("0.8", "auto.offset.reset"),
    "backoff.increment.ms": Removed("0.8", "retry.backoff.ms"),
    "consumer.id": Removed(_SCALA, "group.instance.id, or client.id"),
    "consumer.timeout.ms": Removed(_SCALA, "the timeout of poll()"),
    "dual.commit.enabled": Removed(_SCALA, _KEPT_BY_BROKERS),
    "fetch.message.max.bytes": Removed(_SCALA, "max.partition.fetch.bytes"),
    "fetch.size": Removed("0.8", "max.partition.fetch.bytes"),
    "fetch.wait.max.ms": Removed(_SCALA, "fetch.max.wait.ms"),
    "fetcher.backoff.ms": Removed("0.8", "retry.backoff.ms"),
    "groupid": Removed("0.8", "group.id"),
    "num.consumer.fetchers": Removed(_SCALA),
    "offsets.channel.backoff.ms": Removed(_SCALA, "retry.backoff.ms"),
    "offsets.channel.socket.timeout.ms": Removed(_SCALA, "request.timeout.ms"),
    "offsets.commit.max.retries": Removed(_SCALA, "default.api.timeout.ms"),
    "offsets.storage": Removed(_SCALA, _KEPT_BY_BROKERS),
    "queued.max.message.chunks": Removed(_SCALA, "max.poll.records"),
    "rebalance.backoff.ms": Removed(_SCALA, "retry.backoff.ms"),
    "rebalance.max.retries": Removed(_SCALA, "max.poll.interval.ms"),
    "refresh.leader.backoff.ms": Removed(_SCALA, "retry.backoff.ms"),
    "socket.buffersize": Removed("0.8", "receive.buffer.bytes"),
    "socket.receive.buffer.bytes": Removed(_SCALA, "receive.buffer.bytes"),
}
"""By dotted name."""

REMOVED_RESETS: Final[Mapping[str, Removed]] = {
    "smallest": Removed(_SCALA, "earliest"),
    "largest": Removed(_SCALA, "latest"),
}
"""Values that `auto.offset.reset` had."""
