"""Named types for what crosses the floors, so that a bare int or str says what it counts."""

from __future__ import annotations

import base64
import binascii
from typing import NewType

from moldau.base.clock import Random
from moldau.base.tuples import NamedTuple

BrokerId = NewType("BrokerId", int)
LeaderEpoch = NewType("LeaderEpoch", int)
Offset = NewType("Offset", int)
ProducerEpoch = NewType("ProducerEpoch", int)
ProducerId = NewType("ProducerId", int)

TopicId = NewType("TopicId", bytes)
"""Sixteen bytes, as they travel; `uuid_text` makes them readable."""

ZERO_TOPIC_ID = TopicId(bytes(16))

NO_OFFSET = Offset(-1)
NO_LEADER_EPOCH = LeaderEpoch(-1)
NO_PRODUCER_ID = ProducerId(-1)


class PartitionKey(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_text(value: bytes) -> str:
    """Write sixteen bytes as Kafka writes ids: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """Read an id written by `uuid_text`; ValueError says what was wrong."""
    try:
        value = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not a base64 id: {text!r}") from error
    if len(value) != 16:
        raise ValueError(f"an id has 16 bytes, {text!r} has {len(value)}")
    return value


def random_uuid(random: Random) -> bytes:
    """Draw a version 4 UUID that Kafka would draw too: its text never starts with a dash.

    A leading dash makes the text look like an option on a command line.
    """
    while True:
        value = bytearray(random.randbytes(16))
        value[6] = value[6] & 0x0F | 0x40
        value[8] = value[8] & 0x3F | 0x80
        drawn = bytes(value)
        if not uuid_text(drawn).startswith("-"):
            return drawn
