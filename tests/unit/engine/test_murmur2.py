"""Which partition a key belongs to."""

from __future__ import annotations

import pytest

from moldau.engine.murmur2 import murmur2, partition_for_key

KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"abc": 479470107,
}
"""Hashes that Kafka's documentation of its own tests is pinned to."""


@pytest.mark.parametrize(("key", "hashed"), KNOWN.items())
def test_hashes_are_java_s(key, hashed):
    assert murmur2(key) == hashed & 0xFFFFFFFF


def test_a_partition_is_the_positive_hash_modulo_their_number():
    assert partition_for_key(b"21", 7) == (-973932308 & 0x7FFFFFFF) % 7
