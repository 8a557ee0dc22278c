"""A key belongs to the partition that Kafka says."""

import random

import pytest

from moldau.coordination.hashing import (
    KEY_LENGTH_REMEMBERED,
    _remembered_partition_of,
    java_string_hash,
    partition_of,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("\U0001f600", 1772899),
        ("\u00e4\u00f6", 7314),
    ],
)
def test_the_hash_is_that_of_a_java_string(text, value):
    assert java_string_hash(text) == value


def by_definition(text):
    units = text.encode("utf-16-be")
    value = 0
    for position in range(0, len(units), 2):
        value = value * 31 + int.from_bytes(units[position : position + 2])
    return (value + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize("length", [*range(1, 40), 255, 256, 257, 32_767])
def test_texts_of_any_length_are_hashed_by_the_definition(length):
    source = random.Random(length)
    text = "".join(source.choice("az09-\u00e4\uffff\U0001f600") for _ in range(length))
    assert java_string_hash(text) == by_definition(text)
    assert java_string_hash("\uffff" * length) == by_definition("\uffff" * length)


def test_long_keys_are_not_remembered():
    _remembered_partition_of.cache_clear()
    for length in (1, KEY_LENGTH_REMEMBERED, KEY_LENGTH_REMEMBERED + 1, 32_767):
        assert partition_of("k" * length, 50) == abs(by_definition("k" * length)) % 50
    assert _remembered_partition_of.cache_info().currsize == 2


def test_a_group_lives_in_the_partition_where_kafka_puts_it():
    assert partition_of("KafkaConsumerDemo", 50) == 35


def test_the_smallest_hash_of_all_belongs_to_the_first_partition():
    assert partition_of("polygenelubricants", 50) == 0


def test_a_negative_hash_counts_as_its_positive():
    assert java_string_hash("group-1") < 0 or java_string_hash("consumer-x9") < 0
    for key in ("group-1", "consumer-x9"):
        assert partition_of(key, 7) == abs(java_string_hash(key)) % 7
