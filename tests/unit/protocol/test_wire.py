"""Long arrays of scalars are one call of `struct`, however many there are."""

from __future__ import annotations

import struct

import pytest

from kits.call_counting import count_calls
from moldau.protocol.wire import SMALL_COUNT, pack_scalars, unpack_scalars

SAMPLES = {
    "?": [True, False],
    "b": [-128, 127],
    "h": [-(2**15), 2**15 - 1],
    "i": [-(2**31), 2**31 - 1],
    "q": [-(2**63), 2**63 - 1],
    "d": [-0.5, 1e300],
    "16s": [b"a" * 16, b"z" * 16],
}


@pytest.mark.parametrize("code", SAMPLES)
@pytest.mark.parametrize("count", [SMALL_COUNT, 1000])
def test_what_is_packed_one_by_one_is_unpacked_at_once(code, count):
    values = (SAMPLES[code] * count)[:count]
    data = b"".join(struct.pack(">" + code, value) for value in values)
    assert unpack_scalars(code, b"xyz" + data + b"!", 3, count) == values
    assert unpack_scalars(code, memoryview(data), 0, count) == values
    if code != "16s":
        assert pack_scalars(code, values) == data


def test_no_call_is_made_for_each_scalar():
    def count(scalar_count):
        values, data = [0] * scalar_count, bytes(4 * scalar_count)
        packing = count_calls(lambda: pack_scalars("i", values))
        return packing, count_calls(lambda: unpack_scalars("i", data, 0, scalar_count))

    assert count(20) == count(20_000)


def test_a_scalar_that_does_not_fit_is_refused():
    with pytest.raises(struct.error):
        pack_scalars("i", [0] * 20 + [2**31])
