"""Requests that name real things and carry numbers no client should send.

A request of random numbers is refused at its first field. So most fields get a value that a real
client would send, and a few integers one from the edges of their type. What is real is told by
`Known`: the topics, groups and producers of the broker under test.

The source of chance is an argument: a seed is enough to see a request again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kits.message_samples import RANGES
from moldau.protocol.fields import Field, Kind
from moldau.records.batch import HEADER_SIZE, pack_batch, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.legacy import message_set
from moldau.records.record import Record

NOW_MS: Final = 1_700_000_000_000

EXTREME_TEXTS: Final = (
    "-1", "0", "1", str(2**31 - 1), str(2**31), str(2**63 - 1), str(2**63), str(-(2**63)), "1e308",
    "9" * 400, "", "-0", "0x7fffffff", "nan",
)  # fmt: skip
"""Numbers as configs carry them."""

CONFIG_NAMES: Final = (
    "retention.ms", "retention.bytes", "segment.ms", "segment.bytes", "segment.jitter.ms",
    "max.compaction.lag.ms", "min.compaction.lag.ms", "delete.retention.ms", "file.delete.delay.ms",
    "flush.ms", "flush.messages", "index.interval.bytes", "max.message.bytes",
    "message.timestamp.before.max.ms", "message.timestamp.after.max.ms", "min.insync.replicas",
    "min.cleanable.dirty.ratio", "segment.index.bytes", "local.retention.ms",
    "log.retention.ms", "log.roll.ms", "log.flush.interval.ms", "log.segment.bytes",
    "log.cleaner.io.max.bytes.per.second", "max.connections.per.ip",
)  # fmt: skip


@dataclass
class Known:
    """What there is on the broker under test, and what may be destroyed."""

    topics: list[str]
    topic_ids: list[bytes]
    groups: list[str]
    doomed_topics: list[str]
    doomed_topic_ids: list[bytes]
    members: list[str] = field(default_factory=list)
    transactional_ids: list[str] = field(default_factory=list)
    cluster_ids: list[str] = field(default_factory=lambda: ["x"])
    numbers: dict[str, list[int]] = field(default_factory=dict)
    """Numbers by the name of their field: generations, producer ids, epochs."""
    new_topic_count: int = 0


USUAL: Final[dict[str, list[int]]] = {
    "acks": [1, -1],
    "timeout_ms": [1_000],
    "max_wait_ms": [0, 1],
    "min_bytes": [0, 1],
    "max_bytes": [1 << 20],
    "partition_max_bytes": [1 << 20],
    "replica_id": [-1],
    "session_timeout_ms": [1_800_000],
    "rebalance_timeout_ms": [1_000],
    "transaction_timeout_ms": [60_000],
    "resource_type": [2, 4],
    "num_partitions": [1],
    "replication_factor": [1, -1],
    "retention_time_ms": [-1],
    "commit_timestamp": [-1],
    "current_leader_epoch": [-1, 0],
    "committed_leader_epoch": [-1, 0],
    "count": [2],
    "broker_ids": [1],
    "min_supported_version": [7],
    "max_supported_version": [30],
}

GATES: Final = frozenset(
    {
        "acks", "index", "partition", "partitions", "partition_index", "partition_indexes",
        "resource_type", "producer_id", "producer_epoch", "generation_id", "session_id",
        "generation_id_or_member_epoch", "session_epoch", "session_timeout_ms", "replica_id",
        "v3_and_below_producer_id", "v3_and_below_producer_epoch", "current_leader_epoch",
        "replication_factor", "broker_ids", "key_type", "endpoint_type", "broker_id",
        "broker_epoch", "replica_epoch", "min_supported_version", "max_supported_version",
    }
)  # fmt: skip
"""Numbers that are looked at first: one that is wrong keeps all others from being looked at."""
GATE_SHARE: Final = 0.15
"""How often such a number may be extreme where others are."""

HEADER_NUMBERS: Final = (
    ("base_offset", Kind.INT64),
    ("leader_epoch", Kind.INT32),
    ("last_offset_delta", Kind.INT32),
    ("base_timestamp", Kind.INT64),
    ("base_timestamp", Kind.INT64),
    ("max_timestamp", Kind.INT64),
    ("max_timestamp", Kind.INT64),
    ("count", Kind.INT32),
    ("attributes", Kind.INT16),
)
"""Of a batch, beside those of its producer."""

NULLS: Final = ("group_instance_id", "assignments")
"""Fields that are null more often than not, where they may be."""

LIMITED: Final = ("num_partitions", "count")
"""Numbers that cost work when they are granted: only those that Kafka refuses."""
REFUSED_COUNTS: Final = (-(2**31), 2**31 - 1, -(2**31) + 1, 2**31 - 2, -2, -1, 0, 20_001, 2**15)


def edges_of(name: str, kind: Kind) -> Sequence[int]:
    """Return the extreme numbers of a type, the four outermost first."""
    if name in LIMITED:
        return REFUSED_COUNTS
    low, high = RANGES[kind]
    powers = [2**bit for bit in (7, 8, 15, 16, 31, 32, 40, 62)]
    edges = [low, high, low + 1, high - 1, 0, 1, -1, -2, *powers, *(-one for one in powers)]
    return [one for one in edges if low <= one <= high]


def number_fields(cls: Any, version: int) -> Iterator[Field]:
    """Yield every integer of a request that this version has, those in its parts included."""
    for one in cls.FIELDS:
        if version not in one.versions:
            continue
        inner = one.element or one
        if inner.kind in RANGES:
            yield inner.named(one.name)
        elif inner.struct is not None:
            yield from number_fields(inner.struct, version)


class Extremes:
    """Makes requests, about things that are known."""

    def __init__(self, chance: random.Random, known: Known) -> None:
        self._chance = chance
        self._known = known
        self._share = 0.0
        self._forced: tuple[str, int] | None = None

    def message(self, cls: Any, version: int) -> Any:
        """Fill a request; how many of its numbers are extreme differs from one to the next."""
        self._share, self._forced = self._chance.choice((0.1, 0.4, 0.4, 1.0)), None
        return self._struct(cls, version, cls.__name__)

    def message_with(self, cls: Any, version: int, name: str, number: int) -> Any:
        """Fill a request as a client would, but for one number: that of this name."""
        self._share, self._forced = 0.0, (name, number)
        return self._struct(cls, version, cls.__name__)

    def _struct(self, cls: Any, version: int, api: str) -> Any:
        return cls(
            **{
                one.name: self._value(one, version, api, cls.__name__)
                for one in cls.FIELDS
                if version in one.versions
            }
        )

    def _value(self, one: Field, version: int, api: str, owner: str) -> Any:
        chance = self._chance
        is_seldom_null = one.name not in NULLS
        if version in one.nullable and chance.random() < (
            self._share / 5 if is_seldom_null else 0.8
        ):
            return None
        match one.kind:
            case Kind.BOOL:
                return chance.random() < 0.5
            case Kind.FLOAT64:
                return chance.choice([0.0, -1.0, 1e308, float("inf"), float("nan")])
            case Kind.UUID:
                return self._topic_id(api)
            case Kind.STRING:
                return self._text(one.name, api, owner)
            case Kind.BYTES:
                return chance.choice([b"", b"\0\0\0\0\0\0", b"\xff" * 12])
            case Kind.RECORDS:
                return self.records()
            case Kind.STRUCT:
                return self._struct(one.struct, version, api)
            case Kind.ARRAY:
                assert one.element is not None
                element = one.element.named(one.name)
                count = chance.choice((0, 1, 1, 1, 2, 3)) if self._share else 1
                return [self._value(element, version, api, owner) for _ in range(count)]
            case _:
                return self.number(one.name, one.kind)

    def number(self, name: str, kind: Kind) -> int:
        """Return an extreme number, or one that a client would send under this name."""
        chance = self._chance
        low, high = RANGES[kind]
        if self._forced is not None and self._forced[0] == name:
            return max(low, min(self._forced[1], high))
        share = self._share * (GATE_SHARE if name in GATES else 1.0)
        if chance.random() >= share:
            usual = self._known.numbers.get(name) or USUAL.get(name) or [0, 0, 0, 1]
            return max(low, min(chance.choice(usual), high))
        return chance.choice(edges_of(name, kind))

    def _text(self, name: str, api: str, owner: str) -> str:
        known, chance = self._known, self._chance
        if "Config" in owner or "config" in name:
            return self._config_text(name, owner)
        if name in ("group_id", "groups", "groups_names", "key", "coordinator_keys"):
            return self._mostly(known.groups, "nobody")
        if "transactional_id" in name:
            return self._mostly(known.transactional_ids, "nobody")
        if name == "cluster_id":
            return self._mostly(known.cluster_ids, "x")
        if "instance" in name:
            return "instance-1"
        if name == "member_id":
            return self._mostly(known.members, "")
        if name in ("protocol_type", "protocol_name"):
            return self._mostly(["consumer" if name == "protocol_type" else "range"], "x")
        if name in ("name", "topic", "topic_name", "topic_names"):
            return self._topic(api, owner)
        return chance.choice(["", "range", "consumer", "x"])

    def _mostly(self, usual: list[str], other: str) -> str:
        is_other = self._chance.random() < self._share / 5
        return other if is_other else self._chance.choice(usual)

    def _topic_id(self, api: str) -> bytes:
        known, chance = self._known, self._chance
        if chance.random() < self._share / 5:
            return chance.choice([bytes(16), b"\xff" * 16])
        destroys = api.startswith("DeleteTopics")
        return chance.choice(known.doomed_topic_ids if destroys else known.topic_ids)

    def _topic(self, api: str, owner: str) -> str:
        known, chance = self._known, self._chance
        if owner.startswith("JoinGroup"):
            return chance.choice(["range", "roundrobin"])
        if api.startswith("DeleteTopics"):
            return chance.choice(known.doomed_topics)
        if owner == "RegistrationFeature":
            return self._mostly(["metadata.version"], "x")
        if owner == "CreatableTopic":
            known.new_topic_count += 1
            return f"new-{known.new_topic_count}"
        return self._mostly(known.topics, "missing")

    def _config_text(self, name: str, owner: str) -> str:
        known, chance = self._known, self._chance
        if name == "resource_name":
            return chance.choice([*known.topics, "1", ""])
        if name == "value":
            return chance.choice(EXTREME_TEXTS)
        return chance.choice(CONFIG_NAMES) if name in ("name", "configuration_keys") else owner

    # Records

    def records(self) -> bytes | None:
        """Return a batch whose header is full of numbers, with a good checksum; or old messages."""
        chance = self._chance
        timestamp = self.number("timestamp", Kind.INT64)
        kind = chance.random()
        if kind < 0.05:
            return None
        if kind < 0.2:
            magic = chance.choice((0, 1))
            return message_set([Record(0, -1 if magic == 0 else timestamp, b"k", b"v")], magic)
        builder = BatchBuilder(
            producer_id=self.number("producer_id", Kind.INT64),
            producer_epoch=self.number("producer_epoch", Kind.INT16),
            base_sequence=self.number("sequence", Kind.INT32),
            transactional=chance.random() < 0.3,
        )
        builder.append(NOW_MS, b"k", b"v")
        batch = builder.build()
        header = parse_header(batch)
        if chance.random() < self._share:
            name, number_kind = chance.choice(HEADER_NUMBERS)
            header = header._replace(**{name: self.number("", number_kind)})
        return pack_batch(header, batch[HEADER_SIZE:])
