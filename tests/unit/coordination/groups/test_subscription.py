"""What the coordinator reads of a consumer's subscription, and what it makes of nonsense."""

import pytest

from kits.group_kit import subscription
from moldau.coordination.groups.subscription import all_subscribed_topics, subscribed_topics


@pytest.mark.parametrize("version", [0, 1, 3, 999])
def test_the_topics_of_every_version_are_read(version):
    assert subscribed_topics(subscription("orders", "é", version=version, rest=b"more")) == {
        "orders",
        "é",
    }


def test_a_subscription_may_name_no_topic():
    assert subscribed_topics(subscription()) == frozenset()


@pytest.mark.parametrize(
    "malformed",
    [
        b"",
        b"\x00",
        b"\x00\x00\x00\x00\x00",
        b"\xff\xff" + subscription("orders")[2:],
        b"\x00\x00\xff\xff\xff\xff",
        b"\x00\x00\x7f\xff\xff\xff" + bytes(100),
        subscription("orders", rest=b"")[:-1],
        b"\x00\x00\x00\x00\x00\x01\xff\xff",
        b"\x00\x00\x00\x00\x00\x01\x00\x01\xff",
        b"\x00\x00\x00\x00\x00\x02\x00\x01a",
    ],
    ids=[
        "nothing",
        "half a version",
        "half a count",
        "negative version",
        "no array",
        "forged count",
        "cut off",
        "no name",
        "not UTF-8",
        "one name too few",
    ],
)
def test_malformed_subscriptions_have_unknown_topics(malformed):
    assert subscribed_topics(malformed) is None
    assert all_subscribed_topics([subscription("orders"), malformed]) is None


def test_the_topics_of_all_members_are_joined():
    assert all_subscribed_topics([subscription("a", "b"), subscription("b", "c")]) == {
        "a",
        "b",
        "c",
    }
    assert all_subscribed_topics([]) == frozenset()
