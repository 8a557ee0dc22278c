"""What users hold: immutable, equal by value, readable."""

from __future__ import annotations

import pickle

import pytest

from moldau.client.records import Record, TimestampType


def test_a_record_cannot_change_and_survives_pickling():
    record = Record("t", 0, 5, 17, TimestampType.CREATE_TIME, b"k", b"v", [("h", b"1")], 2)
    assert pickle.loads(pickle.dumps(record)) == record
    with pytest.raises(AttributeError):
        record.offset = 6


def test_a_record_is_generic_in_its_key_and_value():
    record: Record[str, int] = Record("t", 0, 5, -1, TimestampType.NO_TIMESTAMP, "k", 1)
    assert Record[str, int] is not None
    assert record.headers == ()
    assert record.leader_epoch is None
