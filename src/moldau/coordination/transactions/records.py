"""The records of __transaction_state: Kafka's bytes for transactional ids.

A key is an int16 record type, 0, and the transactional id. A value is an int16 version and the
fields of the value in that version. A record without a value is a tombstone. Values are written in
version 1 from transaction version 1 on. Below, they are written in version 0, which every Kafka
since 0.11 reads. Version 0 lacks the fields that an epoch per transaction needs. If one of them is
set, version 1 is written in any case.

As in Kafka, the previous producer id of version 1 is that before the last change of any kind, so
it mostly equals the present one. Kafka 4.3 does not read it back. Its coordinator forgets, at a
restart, the producer whose epochs were used up, and fences its retry. We read it.
"""

from __future__ import annotations

from itertools import chain, repeat
from struct import Struct
from typing import Final

from moldau.base.errors import CorruptRecords, ProtocolError
from moldau.base.ids import NO_PRODUCER_ID, PartitionKey
from moldau.coordination.outcome import StateRecord, UnknownRecord
from moldau.coordination.transactions.transaction import Transaction, TransactionState
from moldau.protocol.compiler import decoder, encode
from moldau.protocol.fields import array, int8, int16, int32, int64, message, string, struct

_PREFIX: Final = Struct(">h")
_TYPE: Final = 0
_KEY_VERSION: Final = 0
_PLAIN, _FLEXIBLE = 0, 1
_VERSION_PREFIX: Final = tuple(_PREFIX.pack(version) for version in (_PLAIN, _FLEXIBLE))
FLEXIBLE_FROM: Final = 1
"""The transaction version from which values are written in version 1 (KIP-890)."""


@message(key=_TYPE, versions="0")
class TransactionLogKey:
    """Which transactional id."""

    transactional_id: str = string()


@struct
class TransactionLogPartitions:
    """The partitions of one topic in a transaction."""

    topic: str = string()
    partition_ids: list[int] = array(int32)


@message(key=_TYPE, versions="0-1", flexible="1+")
class TransactionLogValue:
    """The state of one transactional id."""

    producer_id: int = int64()
    previous_producer_id: int = int64("1+", tag=0, default=NO_PRODUCER_ID)
    next_producer_id: int = int64("1+", tag=1, default=NO_PRODUCER_ID)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", tag=3, default=-1)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[TransactionLogPartitions] | None = array(
        TransactionLogPartitions, nullable="0+"
    )
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2)


def transaction_record(transaction: Transaction, transaction_version: int) -> StateRecord:
    """Return the record of an id's state, in the version for this transaction version."""
    lossless = (
        transaction.client_version == 0
        and transaction.previous_producer_id == NO_PRODUCER_ID
        and transaction.next_producer_id == NO_PRODUCER_ID
    )
    version = _PLAIN if lossless and transaction_version < FLEXIBLE_FROM else _FLEXIBLE
    previous = transaction.previous_producer_id
    if version == _FLEXIBLE and previous == NO_PRODUCER_ID:
        previous = transaction.producer_id
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=previous,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=_by_topic(transaction),
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )
    return StateRecord(
        _key(transaction.transactional_id), _VERSION_PREFIX[version] + encode(value, version)
    )


def tombstone(transactional_id: str) -> StateRecord:
    """Return the record that deletes an id."""
    return StateRecord(_key(transactional_id), None)


def _key(transactional_id: str) -> bytes:
    return _PREFIX.pack(_TYPE) + encode(TransactionLogKey(transactional_id), _KEY_VERSION)


def _by_topic(transaction: Transaction) -> list[TransactionLogPartitions] | None:
    if transaction.state is TransactionState.EMPTY:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in transaction.partitions:
        if topic in topics:
            topics[topic].append(partition)
        else:
            topics[topic] = [partition]
    # Sorting the keys themselves would take five times as long: each comparison is of two tuples.
    return [TransactionLogPartitions(topic, sorted(topics[topic])) for topic in sorted(topics)]


def read_key(key: bytes) -> str:
    """Return the transactional id of a key; UnknownRecord for a type of a newer release."""
    kind = _prefix(key)
    if kind != _TYPE:
        raise UnknownRecord(f"a record of type {kind}")
    return decoder(TransactionLogKey, _KEY_VERSION)(memoryview(key), _PREFIX.size)[
        0
    ].transactional_id


def read_transaction(transactional_id: str, value: bytes) -> Transaction:
    """Read the state of an id.

    Raises UnknownRecord for a version of a newer release, ProtocolError for damaged bytes.
    """
    version = _prefix(value)
    if version not in (_PLAIN, _FLEXIBLE):
        raise UnknownRecord(f"a value of type {_TYPE} in version {version}")
    read, _ = decoder(TransactionLogValue, version)(memoryview(value), _PREFIX.size)
    changed = read.previous_producer_id != read.producer_id
    return Transaction(
        transactional_id=transactional_id,
        producer_id=read.producer_id,
        producer_epoch=read.producer_epoch,
        previous_producer_id=read.previous_producer_id if changed else NO_PRODUCER_ID,
        next_producer_id=read.next_producer_id,
        timeout_ms=read.transaction_timeout_ms,
        state=_state(read.transaction_status),
        partitions=frozenset(
            chain.from_iterable(
                map(PartitionKey, repeat(topic.topic), topic.partition_ids)
                for topic in read.transaction_partitions or ()
            )
        ),
        start_ms=read.transaction_start_timestamp_ms,
        last_update_ms=read.transaction_last_update_timestamp_ms,
        client_version=read.client_transaction_version,
    )


def _state(status: int) -> TransactionState:
    """Read a state. DEAD and PREPARE_EPOCH_FENCE are never written, so they mean damage."""
    if not TransactionState.EMPTY <= status <= TransactionState.COMPLETE_ABORT:
        raise ProtocolError(f"a transaction in state {status}")
    return TransactionState(status)


def _prefix(data: bytes) -> int:
    if len(data) < _PREFIX.size:
        raise CorruptRecords(f"a record of the transaction log has a part of {len(data)} bytes")
    number: int = _PREFIX.unpack_from(data)[0]
    return number
