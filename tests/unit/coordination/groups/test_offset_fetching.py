"""Values of offsets read by position: what a consumer is told is what decoding them gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.base.errors import ProtocolError
from moldau.base.ids import ZERO_TOPIC_ID
from moldau.coordination.groups import offset_fetching
from moldau.coordination.groups.offset_fetching import read_offset
from moldau.coordination.groups.records import CommittedOffset, decode_offset
from moldau.coordination.outcome import UnknownRecord
from moldau.protocol.compiler import encode

TOPIC_ID = bytes(range(16))


def written(version, *fields):
    return version.to_bytes(2) + encode(CommittedOffset(*fields), version)


def told(value, read):
    try:
        return read(value)
    except (ProtocolError, UnknownRecord) as error:
        return type(error), str(error)


def decoded(value):
    found = decode_offset(value)
    return found.offset, found.leader_epoch, found.metadata, found.topic_id


values = st.builds(
    written,
    st.integers(0, 4),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    st.one_of(st.just(""), st.text(max_size=140)),
    st.integers(0, 2**62),
    st.just(-1),
    st.sampled_from((ZERO_TOPIC_ID, TOPIC_ID)),
)


@settings(max_examples=200)
@given(values)
def test_a_value_of_any_version_says_what_decoding_it_says(value):
    assert read_offset(value) == decoded(value)


@settings(max_examples=200)
@given(values, st.data())
def test_damaged_values_are_told_as_decoding_them_tells(value, data):
    kind = data.draw(st.sampled_from(("cut", "longer", "changed")))
    position = data.draw(st.integers(0, len(value) - 1))
    if kind == "cut":
        value = value[:position]
    elif kind == "longer":
        value = value[:position] + data.draw(st.binary(min_size=1, max_size=3)) + value[position:]
    else:
        value = value[:position] + bytes([data.draw(st.integers(0, 255))]) + value[position + 1 :]
    assert told(value, read_offset) == told(value, decoded)


@pytest.mark.parametrize("topic_id", [ZERO_TOPIC_ID, TOPIC_ID])
@pytest.mark.parametrize("metadata", ["", "what a client notes", "größe", "x" * 126])
def test_what_brokers_write_today_needs_no_decoding(monkeypatch, topic_id, metadata):
    monkeypatch.setattr(offset_fetching, "decode_offset", None)
    value = written(4, 12, 3, metadata, 1_000, -1, topic_id)
    assert read_offset(value) == (12, 3, metadata, topic_id)
