"""A column of keys goes where the client sends each of them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.engine.murmur2 import murmur2
from moldau.spark.sink.hashing import LONG_KEY_SIZE, hashed_keys


def hashed(keys):
    sizes = np.array([len(key) for key in keys], np.int64)
    ends = np.cumsum(sizes)
    data = np.frombuffer(b"".join(keys), np.uint8)
    return hashed_keys(data, ends - sizes, sizes).tolist()


def expected(keys):
    return [murmur2(key) & 0x7FFFFFFF for key in keys]


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=40), max_size=30))
def test_keys_of_any_length_hash_as_one_by_one(keys):
    assert hashed(keys) == expected(keys)


@given(st.integers(0, 20), st.integers(1, 30), st.randoms(use_true_random=False))
def test_keys_of_one_length_hash_as_one_by_one(size, count, random):
    keys = [random.randbytes(size) for _ in range(count)]
    assert hashed(keys) == expected(keys)


def test_long_keys_beside_short_ones_hash_as_one_by_one():
    keys = [b"short", b"x" * LONG_KEY_SIZE, b"y" * (LONG_KEY_SIZE + 1), b"", b"z" * 100_000]
    assert hashed(keys) == expected(keys)


def test_only_long_keys_hash_as_one_by_one():
    keys = [b"x" * 1000, b"y" * 1001]
    assert hashed(keys) == expected(keys)


def test_keys_anywhere_in_the_data_are_found():
    data = np.frombuffer(b"--ab---cdefg-", np.uint8)
    found = hashed_keys(data, np.array([2, 7, 12]), np.array([2, 5, 0]))
    assert found.tolist() == expected([b"ab", b"cdefg", b""])
