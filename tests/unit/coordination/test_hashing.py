"""A key belongs to the partition that Kafka says."""

import pytest

from moldau.coordination.hashing import java_string_hash, partition_of


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


def test_a_group_lives_in_the_partition_where_kafka_puts_it():
    assert partition_of("KafkaConsumerDemo", 50) == 35


def test_the_smallest_hash_of_all_belongs_to_the_first_partition():
    assert partition_of("polygenelubricants", 50) == 0


def test_a_negative_hash_counts_as_its_positive():
    assert java_string_hash("group-1") < 0 or java_string_hash("consumer-x9") < 0
    for key in ("group-1", "consumer-x9"):
        assert partition_of(key, 7) == abs(java_string_hash(key)) % 7
