"""The coordinators this broker runs: a runtime a kind, with the settings of its topic and shards.

Groups and transactions do not know each other. What they have to do with each other goes through
partitions: a transaction that ends leaves its marker in the offsets topic, and `MarkerWriter` tells
the groups of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

from moldau.base.clock import Clock, Random
from moldau.base.errors import ConfigError
from moldau.base.ids import BrokerId, PartitionKey
from moldau.cluster.features import TRANSACTION_FEATURE
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import NO_LEADER
from moldau.coordination.groups.counters import GroupCounters
from moldau.coordination.groups.records import RecordForm
from moldau.coordination.groups.settings import GroupSettings
from moldau.coordination.groups.shard import GroupShard, ShardSettings
from moldau.coordination.groups.turn import GroupNote
from moldau.coordination.runtime import Runtime
from moldau.coordination.transactions.counters import TransactionCounters
from moldau.coordination.transactions.shard import TransactionShard
from moldau.coordination.transactions.sweeping import TransactionSettings
from moldau.records.compression import Codec
from moldau.replication.partitions import Partitions
from moldau.server.configuration.values import BrokerValues
from moldau.server.lifecycle.internal_partitions import LogParts
from moldau.server.lifecycle.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from moldau.server.transactions.marker_sending import MarkerSender
from moldau.server.transactions.markers import COMMIT_TIMEOUT_S, MarkerWriter
from moldau.server.transactions.remote_markers import BrokerCalls, RemoteMarkers
from moldau.server.transactions.remote_verification import RemoteCoordinators
from moldau.server.transactions.verification import RetrySettings, TransactionVerifier

logger = logging.getLogger(__name__)

T = TypeVar("T")

MINUTE_MS = 60_000

MARKER_TIMEOUT_MS = int(COMMIT_TIMEOUT_S * 1000) + 10_000
"""How long another broker may take to write markers: longer than it waits for its followers, so
that it can say that they are late."""

OpenChannels = Callable[[str, int], BrokerCalls]
"""Makes the ways to other brokers for a purpose, with a time-out in milliseconds."""


class CoordinatorType(IntEnum):
    """What a coordinator looks after, under the codes of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


class Runtimes:
    """Both coordinators, and what carries out the decisions of the second."""

    def __init__(
        self,
        values: BrokerValues,
        image: Callable[[], MetadataImage],
        partitions: Partitions,
        parts: LogParts,
        random: Random,
        broker_id: BrokerId,
        open_channels: OpenChannels,
    ) -> None:
        self._image = image
        self._broker_id = broker_id
        self.group_counters = GroupCounters()
        self.transaction_counters = TransactionCounters()
        self.groups = _groups(values, parts.clock, random, self.group_counters)
        self.markers = MarkerWriter(
            partitions,
            parts.clock,
            parts.flusher,
            self.groups.transaction_ended,
            parts.storage_failed,
        )
        self.sender = MarkerSender(
            broker_id,
            self.markers,
            RemoteMarkers(open_channels("markers", MARKER_TIMEOUT_MS)),
            image,
            lambda: self.transactions,
        )
        self.transactions: Runtime[TransactionShard] = _transactions(
            values, image, parts.clock, self.sender, self.transaction_counters
        )
        self._remote = RemoteCoordinators(
            open_channels("verification", values.integer("request.timeout.ms"))
        )
        self.verifier = TransactionVerifier(
            self.transactions,
            parts.clock,
            RetrySettings(
                values.integer("add.partitions.to.txn.retry.backoff.ms"),
                values.integer("add.partitions.to.txn.retry.backoff.max.ms"),
            ),
            self._remote,
            self._other_coordinator,
        )

    def _other_coordinator(self, transactional_id: str) -> BrokerId | None:
        """Return the other broker that coordinates an id; None if it is this one, or nobody."""
        index = self.transactions.partition_for(transactional_id)
        partition = self._image().partition(PartitionKey(TRANSACTIONS_TOPIC, index))
        if partition is None or partition.leader in (NO_LEADER, self._broker_id):
            return None
        return partition.leader

    async def close(self) -> None:
        """Wait for markers that this broker writes, and end the connections to others."""
        await self.sender.close()
        await self._remote.close()

    @property
    def by_type(self) -> dict[CoordinatorType, Runtime[GroupShard] | Runtime[TransactionShard]]:
        """The runtimes under the codes of FindCoordinator."""
        return {
            CoordinatorType.GROUP: self.groups,
            CoordinatorType.TRANSACTION: self.transactions,
        }


def _parsed(values: BrokerValues, name: str, parse: Callable[[Any], T]) -> T:
    """Read a config that only a coordinator can judge."""
    value = values.value(name)
    try:
        return parse(value)
    except ValueError as error:
        raise ConfigError(f"{name}={value}: {error}") from error


def _groups(
    values: BrokerValues, clock: Clock, random: Random, counters: GroupCounters
) -> Runtime[GroupShard]:
    settings = ShardSettings(
        GroupSettings(
            values.integer("group.initial.rebalance.delay.ms"),
            values.integer("group.min.session.timeout.ms"),
            values.integer("group.max.session.timeout.ms"),
            values.integer("group.max.size"),
        ),
        _parsed(values, "inter.broker.protocol.version", RecordForm.of),
        values.integer("offset.metadata.max.bytes"),
        values.integer("offsets.retention.minutes") * MINUTE_MS,
        values.integer("offsets.retention.check.interval.ms"),
    )
    return Runtime(
        OFFSETS_TOPIC,
        values.integer("offsets.topic.num.partitions"),
        lambda _index, _leader_epoch: GroupShard(settings, random, counters),
        clock,
        perform=_log_note,
        codec=_parsed(values, "offsets.topic.compression.codec", Codec),
        commit_timeout_s=values.integer("offsets.commit.timeout.ms") / 1000,
        load_buffer_bytes=values.integer("offsets.load.buffer.size"),
    )


def _log_note(effect: object) -> None:
    """Write down why a group rebalances: the one effect that groups have."""
    assert isinstance(effect, GroupNote)
    logger.info("group %s: %s", effect.group_id, effect.text)


def _transactions(
    values: BrokerValues,
    image: Callable[[], MetadataImage],
    clock: Clock,
    sender: MarkerSender,
    counters: TransactionCounters,
) -> Runtime[TransactionShard]:
    settings = TransactionSettings(
        max_timeout_ms=values.integer("transaction.max.timeout.ms"),
        abort_interval_ms=values.integer(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        ),
        expiration_ms=values.integer("transactional.id.expiration.ms"),
        expiration_interval_ms=values.integer(
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ),
        transaction_version=lambda: image().features.get(TRANSACTION_FEATURE, 0),
    )
    return Runtime(
        TRANSACTIONS_TOPIC,
        values.integer("transaction.state.log.num.partitions"),
        lambda _index, leader_epoch: TransactionShard(leader_epoch, settings, counters),
        clock,
        perform=sender,
        settled=sender.settled,
        load_buffer_bytes=values.integer("transaction.state.log.load.buffer.size"),
    )
