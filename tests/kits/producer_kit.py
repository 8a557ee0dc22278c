"""What tests of the producer's pure parts share: accumulators and queues with plain settings."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

from moldau.client.producing.accumulator import Accumulator, Bounds
from moldau.client.producing.batch_results import BatchResult
from moldau.client.producing.batches import ProducerBatch
from moldau.client.producing.queues import PartitionQueue
from moldau.client.producing.sequences import SequenceIdentity
from moldau.records.compression import Codec

GUARD = nullcontext()
PRODUCER = SequenceIdentity(9, 0)
LEADER = 1


def bounds(**settings: Any) -> Bounds:
    """Return small bounds, so that few records fill them."""
    plain = {
        "batch_size": 200,
        "linger_s": 5.0,
        "buffer_memory": 2000,
        "max_request_size": 1000,
        "delivery_timeout_s": 100.0,
    }
    return Bounds(**{**plain, **settings})


def accumulator(partitions: int = 1, seed: int = 0, **settings: Any) -> Accumulator:
    """Return an accumulator that knows the topic `t`."""
    made = Accumulator(bounds(**settings), random.Random(seed), GUARD)
    made.update_topic("t", bytes(16), [LEADER] * partitions)
    return made


def put(
    into: Accumulator, value: bytes, partition: int | None = None, now: float = 0.0
) -> tuple[ProducerBatch, int] | None:
    """Put a record, as `send` does when it finds no room in an open batch."""
    topic = into.topics["t"]
    queue = None if partition is None else topic.queues[partition]
    size = into.checked_size(None, value, ())
    return into.add(topic, queue, 0, None, value, (), size, now)


def queue(*, idempotent: bool = True, in_flight_max: int = 5) -> PartitionQueue:
    """Return a led partition; an idempotent one whose leader knows the producer."""
    made = PartitionQueue("t", 0, GUARD, in_flight_max, idempotent=idempotent)
    made.leader = LEADER
    if made.sequences is not None:
        made.settle_numbers(PRODUCER)
        made.sequences.introduced = True
    return made


def batch(*values: bytes) -> ProducerBatch:
    """Return a batch with these values."""
    made = ProducerBatch(
        BatchResult("t", 0, GUARD),
        Codec.NONE,
        None,
        transactional=False,
        opened_at=0.0,
        deadline=100.0,
        reserved=100,
    )
    for value in values or (b"v",):
        made.append(0, None, value)
    return made


def waiting(into: PartitionQueue, count: int) -> list[ProducerBatch]:
    """Let this many batches wait in a queue."""
    made = [batch(b"%d" % number) for number in range(count)]
    into.waiting.extend(made)
    return made
