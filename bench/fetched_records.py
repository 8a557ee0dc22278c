"""What a record costs from a fetch answer to the user's hands: CPU without a broker or a socket.

    python -m bench.fetched_records
    PYTHONPATH=.venv/compiled python -m bench.fetched_records

An answer has 64 batches of 147 records, as Java's producer fills 16 KB with records of 100 bytes.
The least of many rounds is what counts: whatever else the machine does only adds to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from moldau.client.consuming.decoding import DecodingRules, Fetched
from moldau.client.consuming.positions import PartitionState
from moldau.client.records import TopicPartition
from moldau.engine.fetched_batches import split
from moldau.records.builder import BatchBuilder

BATCHES, RECORDS_PER_BATCH, TAKEN_AT_ONCE, ROUNDS = 64, 147, 500, 40
COUNT = BATCHES * RECORDS_PER_BATCH
START_MS = 1_700_000_000_000

Append = Callable[[BatchBuilder, int], object]

SHAPES: dict[str, Append] = {
    "one size, no key": lambda batch, number: batch.append(
        START_MS + number // 20, None, b"%0100d" % number
    ),
    "keys, 60 to 139 B": lambda batch, number: batch.append(
        START_MS + number // 20, b"key-%d" % (number % 1000), b"x" * (60 + number * 7919 % 80)
    ),
    "the same, a header": lambda batch, number: batch.append(
        START_MS + number // 20,
        b"key-%d" % (number % 1000),
        b"x" * (60 + number * 7919 % 80),
        [("name", b"value")],
    ),
}


def answer_of(append: Append) -> bytes:
    """Make what one answer brings of one partition."""
    batches = []
    for first in range(0, COUNT, RECORDS_PER_BATCH):
        batch = BatchBuilder(base_offset=first, leader_epoch=0)
        for number in range(first, first + RECORDS_PER_BATCH):
            append(batch, number)
        batches.append(batch.build())
    return b"".join(batches)


def read(content: bytes) -> int:
    """Take all records of an answer, as many at once as a consumer hands out."""
    state = PartitionState(TopicPartition("topic", 0))
    state.seek(0)
    view = memoryview(content)
    fetched = Fetched(state, view, split(view, 0), None, DecodingRules())
    count = 0
    while (taken := fetched.take(TAKEN_AT_ONCE)) is not None:
        count += len(taken.records)
    return count


def main() -> None:
    for shape, append in SHAPES.items():
        content, times = answer_of(append), []
        for _ in range(ROUNDS):
            began = time.thread_time()
            assert read(content) == COUNT
            times.append(time.thread_time() - began)
        print(f"{shape}: {min(times) / COUNT * 1e6:.2f} us a record")


if __name__ == "__main__":
    main()
