"""The bytes of subscriptions and assignments: every version is read, garbage is refused by name."""

from __future__ import annotations

import pytest

from kits.assignor_groups import partitions
from moldau.client.assignors.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from moldau.client.assignors.interface import Assignment, Subscription
from moldau.client.errors import CorruptAnswer
from moldau.protocol.compiler import encode
from moldau.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)

OWNED = tuple(partitions("tp0 tp1 up2"))
WHOLE = Subscription(("t", "u"), b"data", OWNED, 7, "rack", "instance")
MESSAGE = ConsumerProtocolSubscription(
    ["t", "u"],
    b"data",
    [ConsumerProtocolTopicPartition("t", [0, 1]), ConsumerProtocolTopicPartition("u", [2])],
    7,
    "rack",
)


def numbered(version: int, content: bytes) -> bytes:
    return version.to_bytes(2, "big", signed=True) + content


def test_a_subscription_comes_back_as_it_was():
    assert decode_subscription(encode_subscription(WHOLE), "instance") == WHOLE


def test_an_assignment_comes_back_as_it_was():
    assignment = Assignment(OWNED, b"data")
    assert decode_assignment(encode_assignment(assignment)) == assignment
    assert decode_assignment(encode_assignment(Assignment())) == Assignment()


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, Subscription(("t", "u"), b"data")),
        (1, Subscription(("t", "u"), b"data", OWNED)),
        (2, Subscription(("t", "u"), b"data", OWNED, 7)),
        (3, Subscription(("t", "u"), b"data", OWNED, 7, "rack")),
    ],
)
def test_every_version_is_read(version, expected):
    assert decode_subscription(numbered(version, encode(MESSAGE, version))) == expected


def test_a_newer_version_is_read_as_the_latest_known():
    newer = numbered(9, encode(MESSAGE, 3) + b"more than we know")
    assert decode_subscription(newer) == Subscription(("t", "u"), b"data", OWNED, 7, "rack")


@pytest.mark.parametrize(
    "garbage",
    [b"", b"\x00", numbered(-1, encode(MESSAGE, 0)), b"\x00\x03\x7f\xff\xff\xff", b"\xde\xad" * 9],
)
@pytest.mark.parametrize("decode", [decode_subscription, decode_assignment])
def test_garbage_is_refused_by_name_and_with_advice(decode, garbage):
    with pytest.raises(CorruptAnswer) as raised:
        decode(garbage)
    assert "consumer protocol" in raised.value.advice


def test_every_cut_of_a_subscription_is_refused():
    whole = encode_subscription(WHOLE)
    for size in range(len(whole)):
        with pytest.raises(CorruptAnswer):
            decode_subscription(whole[:size])
