"""Two other implementations of the record formats, behind one face each, as test oracles."""

from collections.abc import Sequence
from typing import NamedTuple

import aiokafka.record.default_records as aiokafka_batches
import aiokafka.record.legacy_records as aiokafka_messages
import aiokafka.record.memory_records as aiokafka_sets
import kafka.record.default_records as kafka_python_batches
import kafka.record.legacy_records as kafka_python_messages
import kafka.record.memory_records as kafka_python_sets

from moldau.records.compression import Codec
from moldau.records.record import Record


class Oracle(NamedTuple):
    """One of them, with the codecs it can do here."""

    name: str
    batches: object
    messages: object
    sets: object
    codecs: frozenset[Codec]

    def build(self, records: Sequence[Record], codec=Codec.NONE, *, transactional=False):
        """Let the oracle write a version 2 batch of records with offsets from 0."""
        producer = (7, 3, 11) if transactional else (-1, -1, -1)
        builder = self.batches.DefaultRecordBatchBuilder(
            2, int(codec), transactional, *producer, 1 << 30
        )
        for record in records:
            builder.append(
                record.offset, record.timestamp, record.key, record.value, list(record.headers)
            )
        return bytes(builder.build())

    def build_messages(self, records: Sequence[Record], magic: int, codec=Codec.NONE):
        """Let the oracle write a message set of magic 0 or 1."""
        builder = self.messages.LegacyRecordBatchBuilder(magic, int(codec), 1 << 30)
        for record in records:
            builder.append(record.offset, record.timestamp, record.key, record.value)
        return bytes(builder.build())

    def read(self, data: bytes) -> list[Record]:
        """Let the oracle read batches or message sets, checksums included."""
        found = []
        memory = self.sets.MemoryRecords(data)
        while (batch := memory.next_batch()) is not None:
            assert batch.validate_crc()
            found += [
                Record(
                    each.offset,
                    -1 if each.timestamp is None else each.timestamp,
                    each.key,
                    each.value,
                    tuple((name, value) for name, value in each.headers),
                )
                for each in batch
            ]
        return found


AIOKAFKA = Oracle("aiokafka", aiokafka_batches, aiokafka_messages, aiokafka_sets, frozenset(Codec))
KAFKA_PYTHON = Oracle(
    "kafka-python",
    kafka_python_batches,
    kafka_python_messages,
    kafka_python_sets,
    frozenset(Codec) - {Codec.SNAPPY},  # its snappy comes from a package that is not installed
)

BATCH_CASES = [
    (oracle, codec) for oracle in (AIOKAFKA, KAFKA_PYTHON) for codec in sorted(oracle.codecs)
]
MESSAGE_CASES = [
    (oracle, magic, codec)
    for oracle, codec in BATCH_CASES
    for magic in (0, 1)
    if codec is not Codec.ZSTD and not (magic == 0 and codec is Codec.LZ4)
]
"""Neither writes LZ4 in magic 0 here: one refuses, the other wants a package for the checksum."""
