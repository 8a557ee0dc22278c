"""The bytes of the transaction log are Kafka's: those here were written by Kafka 4.3.1."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.base.errors import ProtocolError
from moldau.base.ids import PartitionKey
from moldau.coordination.outcome import UnknownRecord
from moldau.coordination.transactions.records import (
    read_key,
    read_transaction,
    tombstone,
    transaction_record,
)
from moldau.coordination.transactions.transaction import Transaction, TransactionState

KEY = "00000008636f706965722d31"
BASE = Transaction(
    transactional_id="copier-1",
    producer_id=4000,
    producer_epoch=7,
    timeout_ms=60_000,
    last_update_ms=1_700_000_000_456,
)
EMPTY = BASE
ONGOING = Transaction(
    transactional_id="copier-1",
    producer_id=4000,
    producer_epoch=7,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=frozenset({PartitionKey("orders", 3)}),
    start_ms=1_700_000_000_123,
    last_update_ms=1_700_000_000_456,
    client_version=2,
)


COMPLETE = replace(ONGOING, state=TransactionState.COMPLETE_COMMIT, partitions=frozenset())
USED_UP = replace(
    ONGOING,
    state=TransactionState.PREPARE_COMMIT,
    producer_epoch=32767,
    previous_producer_id=3999,
    next_producer_id=4001,
)

GOLDEN = [
    (EMPTY, 0, "00000000000000000fa000070000ea6000ffffffff0000018bcfe569c8ffffffffffffffff"),
    (
        replace(ONGOING, client_version=0),
        0,
        (
            "00000000000000000fa000070000ea60010000000100066f726465727300000001000000030000018bcfe569c8"
            "0000018bcfe5687b"
        ),
    ),
    (
        replace(COMPLETE, client_version=0),
        0,
        "00000000000000000fa000070000ea6004000000000000018bcfe569c80000018bcfe5687b",
    ),
    (
        EMPTY,
        1,
        (
            "00010000000000000fa000070000ea6000000000018bcfe569c8ffffffffffffffff01"
            "00080000000000000fa0"
        ),
    ),
    (
        ONGOING,
        2,
        (
            "00010000000000000fa000070000ea600102076f72646572730200000003000000018bcfe569c80000018bcfe56"
            "87b0200080000000000000fa002020002"
        ),
    ),
    (
        COMPLETE,
        2,
        (
            "00010000000000000fa000070000ea6004010000018bcfe569c80000018bcfe5687b02"
            "00080000000000000fa002020002"
        ),
    ),
    (
        USED_UP,
        2,
        (
            "00010000000000000fa07fff0000ea600202076f72646572730200000003000000018bcfe569c80000018bcfe56"
            "87b0300080000000000000f9f01080000000000000fa102020002"
        ),
    ),
]


@pytest.mark.parametrize(("transaction", "version", "value"), GOLDEN)
def test_a_record_is_written_and_read_as_kafka_does(transaction, version, value):
    record = transaction_record(transaction, version)
    assert record.key.hex() == KEY
    assert record.value.hex() == value
    assert read_key(record.key) == "copier-1"
    assert read_transaction("copier-1", record.value) == transaction


def test_what_the_old_form_has_no_room_for_makes_the_new_one_be_written():
    assert transaction_record(ONGOING, 0).value == transaction_record(ONGOING, 2).value


def test_a_tombstone_has_no_value():
    assert tombstone("copier-1") == (bytes.fromhex(KEY), None)


def test_records_of_the_future_are_told_from_damaged_ones():
    with pytest.raises(UnknownRecord):
        read_key(bytes.fromhex("0001" + KEY[4:]))
    with pytest.raises(UnknownRecord):
        read_transaction("copier-1", b"\x00\x02" + bytes(40))
    with pytest.raises(ProtocolError):
        read_key(b"\x00")
    with pytest.raises(ProtocolError):
        read_transaction("copier-1", transaction_record(ONGOING, 2).value[:-8])


@pytest.mark.parametrize("status", [-1, 6, 7, 100])
def test_a_state_that_is_never_written_is_damage(status):
    value = bytearray(transaction_record(EMPTY, 0).value)
    value[16] = status & 0xFF
    with pytest.raises(ProtocolError):
        read_transaction("copier-1", bytes(value))


KEYS = st.builds(PartitionKey, st.sampled_from(["a", "b", "__consumer_offsets"]), st.integers(0, 9))


@settings(max_examples=50)
@given(
    state=st.sampled_from(list(TransactionState)[:6]),
    partitions=st.frozensets(KEYS, max_size=5),
    previous=st.integers(-1, 2**63 - 1).filter(lambda one: one != BASE.producer_id),
    following=st.integers(-1, 2**63 - 1),
    epoch=st.integers(0, 32767),
    client_version=st.integers(0, 2),
    version=st.integers(0, 2),
)
def test_nothing_is_lost_on_the_way(
    state, partitions, previous, following, epoch, client_version, version
):
    transaction = replace(
        BASE,
        state=state,
        partitions=frozenset() if state is TransactionState.EMPTY else partitions,
        previous_producer_id=previous,
        next_producer_id=following,
        producer_epoch=epoch,
        client_version=client_version,
    )
    value = transaction_record(transaction, version).value
    assert read_transaction("copier-1", value) == transaction
