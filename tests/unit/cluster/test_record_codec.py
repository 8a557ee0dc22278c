"""Records are Kafka's, byte for byte, and changes survive being written and read."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits.metadata_samples import every_change
from moldau.base.errors import CorruptRecords
from moldau.cluster.changes import BrokerRegistered, OpaqueRecorded, PartitionCreated
from moldau.cluster.record_codec import (
    TransactionMark,
    decode_record,
    encode_change,
    encode_mark,
)
from moldau.records.batch import iter_batches, parse_header
from moldau.records.record import read_records

KAFKA = Path(__file__).parent / "kafka_4_3_1"
LOGS = sorted(KAFKA.rglob("*.log")) + sorted(KAFKA.rglob("*.checkpoint"))


def values_of(path):
    data = path.read_bytes()
    for span in iter_batches(data):
        if not parse_header(data, span.position).control:
            yield from (record.value for record in read_records(data, span.position))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: str(path.relative_to(KAFKA)))
def test_what_kafka_wrote_is_written_again_byte_for_byte(path):
    for value in values_of(path):
        change = decode_record(value)
        if change is not None and not isinstance(change, TransactionMark):
            assert encode_change(change, 30) == value


@pytest.mark.parametrize("change", every_change(), ids=lambda change: type(change).__name__)
def test_every_change_survives(change):
    assert decode_record(encode_change(change, 30)) == change


@pytest.mark.parametrize("mark", TransactionMark)
def test_marks_survive(mark):
    assert decode_record(encode_mark(mark)) is mark


@pytest.mark.parametrize(
    ("level", "register", "partition"),
    [(7, 1, 0), (8, 2, 0), (16, 2, 0), (17, 3, 1), (22, 3, 1), (23, 3, 2), (29, 3, 2), (30, 4, 2)],
)
def test_versions_follow_the_metadata_version_in_force(level, register, partition):
    by_kind = {type(change): change for change in every_change()}
    assert encode_change(by_kind[BrokerRegistered], level)[2] == register
    assert encode_change(by_kind[PartitionCreated], level)[2] == partition


def test_no_ops_state_nothing():
    assert decode_record(bytes([1, 20, 0, 0])) is None


def test_records_of_the_future_are_kept_as_they_are():
    value = bytes([1, 120, 3]) + b"whatever"
    assert decode_record(value) == OpaqueRecorded(120, 3, b"whatever")
    assert encode_change(decode_record(value), 30) == value


def test_a_known_record_in_an_unknown_version_is_refused_not_passed_over():
    with pytest.raises(CorruptRecords, match="PartitionRecord has version 9"):
        decode_record(bytes([1, 3, 9]) + bytes(40))


@pytest.mark.parametrize(
    "value", [b"", b"\x01", b"\x01\x02", b"\x02\x02\x00", b"\x01\x02\x00\x05a"]
)
def test_damaged_values_are_refused(value):
    with pytest.raises(CorruptRecords):
        decode_record(value)


@settings(max_examples=200)
@given(st.sampled_from(every_change()), st.data())
def test_any_mutation_is_a_record_or_a_clear_refusal(change, data):
    value = bytearray(encode_change(change, 30))
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(value)))
    with contextlib.suppress(CorruptRecords):
        decode_record(bytes(value[:cut]))
