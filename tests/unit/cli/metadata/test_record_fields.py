"""One record as type and fields: Kafka's names, nothing secret, and what cannot be read."""

from __future__ import annotations

import pytest

from kits.sole_voter import leader_change
from moldau.cli.frame.profiles import HIDDEN
from moldau.cli.metadata.record_fields import control_fields, framed_fields, metadata_fields
from moldau.cluster.changes import ConfigChanged, TopicCreated
from moldau.cluster.model import ConfigResource, ResourceType
from moldau.cluster.record_codec import encode_change
from moldau.protocol.compiler import encode
from moldau.protocol.messages.metadata_records import UserScramCredentialRecord
from moldau.records.control import ControlType


def test_a_record_has_kafkas_names():
    read = metadata_fields(encode_change(TopicCreated("orders", bytes(16)), 30))
    assert read == ("TOPIC_RECORD", 0, {"name": "orders", "topicId": "A" * 22})


def test_a_control_record_has_the_name_of_its_type():
    read = control_fields(ControlType.LEADER_CHANGE, leader_change(7))
    assert read.type == "LEADER_CHANGE"
    assert read.fields["leaderId"] == 7
    assert read.version == 0
    assert "version" not in read.fields


@pytest.mark.parametrize(
    ("key", "value", "is_shown"),
    [
        ("retention.ms", "1000", True),
        ("listener.name.ssl.ssl.keystore.password", "hush", False),
        ("sasl.jaas.config", "hush", False),
        ("sasl.jaas.config", None, True),
    ],
)
def test_configs_that_are_secret_are_hidden(key, value, is_shown):
    change = ConfigChanged(ConfigResource(ResourceType.BROKER, ""), key, value)
    fields = metadata_fields(encode_change(change, 30)).fields
    assert fields["value"] == (value if is_shown else HIDDEN)


def test_what_proves_a_password_is_hidden():
    record = UserScramCredentialRecord("user", 1, b"salt", b"stored", b"server", 4096)
    read = framed_fields(record.KEY, 0, encode(record, 0))
    assert read.type == "USER_SCRAM_CREDENTIAL_RECORD"
    assert read.fields == {
        "name": "user",
        "mechanism": 1,
        "salt": HIDDEN,
        "storedKey": HIDDEN,
        "serverKey": HIDDEN,
        "iterations": 4096,
    }


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "has a value"),
        (b"", "0 bytes are no metadata record"),
        (b"\x02\x00\x00", "frame version 2"),
        (b"\x01\x63\x00", "no metadata record has type 99"),
        (b"\x01\x02\x63", "has no version 99"),
        (b"\x01\x02\x00\x7f", ""),
    ],
)
def test_what_cannot_be_read_says_why_and_how_large_it_is(value, reason):
    read = metadata_fields(value)
    assert (read.type, read.version) == ("UNREADABLE", None)
    assert reason in read.fields["reason"]
    assert read.fields["bytes"] == len(value or b"")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (None, b"??"),
        (ControlType.COMMIT, b"\x00\x00\x00\x00\x00\x00"),
        (ControlType.KRAFT_VOTERS, None),
        (ControlType.KRAFT_VOTERS, b"\x00"),
        (ControlType.KRAFT_VERSION, b"\x7f\xff\x00"),
    ],
)
def test_a_control_record_that_cannot_be_read_says_so(kind, value):
    assert control_fields(kind, value).type == "UNREADABLE"
