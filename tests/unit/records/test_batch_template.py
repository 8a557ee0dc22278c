"""A batch from a template is the batch that the builder makes."""

from __future__ import annotations

from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.records.batch import HEADER_SIZE, seal
from moldau.records.batch_template import BatchTemplate
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec

TIMES = st.integers(-1, 2**63 - 1)
NUMBERS = Struct(">ib")
PAIRS = st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(-128, 127))


def sealed(timestamp, numbers=(1, 2), key=b"key", **options):
    builder = BatchBuilder(**options)
    builder.append(timestamp, key, b"before" + NUMBERS.pack(*numbers) + b"after")
    builder.append(timestamp, None, b"another")
    return builder.build()


@given(key=st.binary(max_size=300), first=PAIRS, then=PAIRS, timestamp=TIMES)
def test_a_cast_is_what_the_builder_makes(key, first, then, timestamp):
    options = {"key": key, "base_offset": 7, "leader_epoch": 3}
    batch = sealed(1, first, **options)
    marked = b"before" + NUMBERS.pack(*first) + b"after"
    position = batch.index(marked, HEADER_SIZE + len(key)) + len(b"before")
    checked = BatchTemplate(batch, position, NUMBERS.size).render(timestamp, NUMBERS.pack(*then))
    assert seal(7, checked, 3) == sealed(timestamp, then, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"codec": Codec.GZIP},
        {"producer_id": 5, "producer_epoch": 0},
        {"control": True},
    ],
)
def test_only_a_plain_batch_can_be_cast(options):
    batch = sealed(1, **options)
    with pytest.raises(ValueError, match="plain"):
        BatchTemplate(batch, HEADER_SIZE, NUMBERS.size)


def test_records_of_different_times_cannot_be_cast():
    builder = BatchBuilder()
    builder.append(1, None, b"")
    builder.append(2, None, b"")
    with pytest.raises(ValueError, match="one timestamp"):
        BatchTemplate(builder.build(), HEADER_SIZE, NUMBERS.size)


@pytest.mark.parametrize(("position", "size"), [(HEADER_SIZE - 1, 1), (HEADER_SIZE, 1000)])
def test_only_records_are_left_out_of_a_template(position, size):
    with pytest.raises(ValueError, match="not in the records"):
        BatchTemplate(sealed(1), position, size)
