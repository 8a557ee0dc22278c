"""A batch from a mould is the batch that the builder makes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.records.batch import HEADER_SIZE, crc_ok
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.records.mould import BatchMould

TIMES = st.integers(-1, 2**63 - 1)
STRETCHES = st.binary(min_size=5, max_size=5)


def sealed(timestamp, stretch, key=b"key", **options):
    builder = BatchBuilder(**options)
    builder.append(timestamp, key, b"before" + stretch + b"after")
    builder.append(timestamp, None, b"another")
    return builder.seal()


@given(key=st.binary(max_size=300), first=STRETCHES, then=STRETCHES, timestamp=TIMES)
def test_a_cast_is_what_the_builder_makes(key, first, then, timestamp):
    options = {"key": key, "base_offset": 7, "leader_epoch": 3}
    batch = sealed(1, first, **options)[1]
    position = batch.index(b"before" + first + b"after", HEADER_SIZE + len(key)) + len(b"before")
    header, cast = BatchMould(batch, position, len(first)).cast(timestamp, then)
    assert (header, cast) == sealed(timestamp, then, **options)
    assert crc_ok(cast, 0, len(cast))


@pytest.mark.parametrize(
    "options",
    [
        {"codec": Codec.GZIP},
        {"producer_id": 5, "producer_epoch": 0},
        {"control": True},
    ],
)
def test_only_a_plain_batch_can_be_cast(options):
    batch = sealed(1, b"12345", **options)[1]
    with pytest.raises(ValueError, match="plain"):
        BatchMould(batch, HEADER_SIZE, 1)


def test_records_of_different_times_cannot_be_cast():
    builder = BatchBuilder()
    builder.append(1, None, b"")
    builder.append(2, None, b"")
    with pytest.raises(ValueError, match="one timestamp"):
        BatchMould(builder.build(), HEADER_SIZE, 1)


@pytest.mark.parametrize(
    ("position", "size"), [(HEADER_SIZE - 1, 3), (HEADER_SIZE, 1000), (HEADER_SIZE, -1)]
)
def test_only_records_are_left_out_of_a_mould(position, size):
    with pytest.raises(ValueError, match="not in the records"):
        BatchMould(sealed(1, b"12345")[1], position, size)
