import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch

from moldau.base.errors import CorruptRecords
from moldau.records.batch import parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.control import (
    ControlType,
    EndTransactionMarker,
    control_batch,
    control_type,
    end_transaction_batch,
    end_transaction_marker,
)
from moldau.records.record import read_records


@pytest.mark.parametrize("aborted", [True, False])
def test_a_marker_is_78_bytes_and_comes_back(aborted):
    marker = EndTransactionMarker(aborted, coordinator_epoch=9)
    batch = end_transaction_batch(marker, 1234, 5, 1_000, base_offset=70, leader_epoch=3)
    assert len(batch) == 78
    assert end_transaction_marker(batch) == marker
    header = parse_header(batch)
    assert header.control
    assert header.transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1234, 5, -1)
    assert (header.base_offset, header.next_offset, header.leader_epoch) == (70, 71, 3)


@pytest.mark.parametrize(("aborted", "expected"), [(True, ABORT_MARKER), (False, COMMIT_MARKER)])
def test_aiokafka_reads_our_markers(aborted, expected):
    marker = EndTransactionMarker(aborted, coordinator_epoch=9)
    batch = DefaultRecordBatch(end_transaction_batch(marker, 1234, 5, 1_000))
    assert batch.validate_crc()
    assert batch.is_control_batch
    (record,) = list(batch)
    assert ControlRecord.parse(record.key) == expected


def test_a_marker_has_exactly_these_bytes_inside():
    (record,) = read_records(end_transaction_batch(EndTransactionMarker(False, 258), 1, 0, 0))
    assert record.key == b"\x00\x00\x00\x01"
    assert record.value == b"\x00\x00\x00\x00\x01\x02"


def test_a_leader_change_is_a_control_batch_outside_transactions():
    batch = control_batch(ControlType.LEADER_CHANGE, b"body", 1_000, leader_epoch=4)
    header = parse_header(batch)
    assert header.control
    assert not header.transactional
    assert end_transaction_marker(batch) is None
    assert [(r.key, r.value) for r in read_records(batch)] == [(b"\x00\x00\x00\x02", b"body")]


def test_types_of_the_future_are_passed_over():
    assert control_type(b"\x00\x01\x00\x63") is None


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"])
def test_a_key_that_is_no_control_key_is_corrupt(key):
    with pytest.raises(CorruptRecords):
        control_type(key)


@pytest.mark.parametrize("value", [None, b"", b"\x00\x00\x00\x00\x00"])
def test_a_marker_without_its_epoch_is_corrupt(value):
    builder = BatchBuilder(control=True, transactional=True)
    builder.append(0, b"\x00\x00\x00\x00", value)
    with pytest.raises(CorruptRecords):
        end_transaction_marker(builder.build())


def test_a_control_batch_emptied_by_compaction_holds_no_marker():
    assert end_transaction_marker(BatchBuilder(control=True).build()) is None
