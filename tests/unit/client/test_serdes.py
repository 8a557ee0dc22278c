"""Values become bytes and come back, as Java's serializers write them."""

from __future__ import annotations

import uuid

import pytest

from moldau.base.errors import ConfigError
from moldau.client.consumer import Consumer
from moldau.client.errors import SerializationFailed
from moldau.client.producer import Producer
from moldau.client.serdes import (
    BUILT_IN,
    close,
    configure,
    deserialize_with,
    serialize_with,
)

WRITTEN = {
    "bytes": (b"\x00x", b"\x00x"),
    "string": ("vlna", b"vlna"),
    "short": (-2, b"\xff\xfe"),
    "integer": (258, b"\x00\x00\x01\x02"),
    "long": (-1, b"\xff" * 8),
    "float": (1.5, b"\x3f\xc0\x00\x00"),
    "double": (-2.0, b"\xc0" + bytes(7)),
    "boolean": (True, b"\x01"),
    "uuid": (uuid.UUID(int=5), b"00000000-0000-0000-0000-000000000005"),
    "json": ({"a": [1, "ž"]}, '{"a":[1,"ž"]}'.encode()),
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_forms_are_java_s_and_read_back(name):
    value, data = WRITTEN[name]
    assert serialize_with(name)("t", value) == data
    assert deserialize_with(name)("t", data) == value


def test_nothing_stays_nothing_for_functions():
    assert serialize_with(str.encode)("t", None) is None
    assert deserialize_with(bytes.decode)("t", None) is None
    assert serialize_with(None) is None
    assert deserialize_with(None) is None


def test_a_java_class_name_finds_the_built_in_form():
    java = "org.apache.kafka.common.serialization.LongSerializer"
    assert serialize_with(java)("t", 1) == bytes(7) + b"\x01"
    assert deserialize_with("ByteArrayDeserializer")("t", b"x") == b"x"
    with pytest.raises(ConfigError, match="json"):
        serialize_with("avro")


def test_an_object_is_configured_asked_with_its_topic_and_closed():
    calls = []

    class Own:
        def configure(self, configs, is_key):
            calls.append((configs, is_key))

        def serialize(self, topic, data):
            return f"{topic}:{data}".encode()

        def close(self):
            calls.append("closed")

    own = Own()
    configure(own, {"client_id": "c"}, is_key=True)
    assert serialize_with(own)("t", None) == b"t:None"
    close(own)
    assert calls == [({"client_id": "c"}, True), "closed"]


@pytest.mark.parametrize(("maker", "given"), [(serialize_with, 5), (deserialize_with, b"\xff")])
def test_a_failure_is_named_with_its_cause(maker, given):
    with pytest.raises(SerializationFailed) as caught:
        maker("string")("t", given)
    assert caught.value.__cause__ is not None
    with pytest.raises(ConfigError):
        maker(7)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("str", b"x", "the str serializer is for str, not for bytes: b'x'"),
        ("string", 5, "the string serializer is for str, not for int: 5"),
        ("bytes", 5, "is for bytes, not for int"),
        ("bytes", [5], "is for bytes, not for list"),
        ("bytes", "x", "is for bytes, not for str"),
        ("short", True, "is for numbers, not for bool"),
        ("long", "5", "the long serializer failed on a str: "),
        ("integer", 1.5, "the integer serializer failed on a float: "),
        ("double", False, "is for numbers, not for bool"),
        ("boolean", "false", "is for bool, not for str"),
        ("boolean", 1, "is for bool, not for int"),
        ("uuid", "5", "is for UUID, not for str"),
        ("json", float("nan"), "the json serializer failed on a float: "),
    ],
)
def test_what_a_built_in_form_is_not_for_is_refused(name, given, said):
    with pytest.raises(SerializationFailed, match=said):
        serialize_with(name)("t", given)


def test_a_class_is_no_serializer():
    class Own:
        def serialize(self, topic, data):
            """Never called."""

        def deserialize(self, topic, data):
            """Never called."""

        def configure(self, configs, is_key):
            """Never called."""

    for make in (
        lambda: Producer(key_serializer=Own),
        lambda: Consumer(value_deserializer=Own),
    ):
        with pytest.raises(ConfigError, match=r"Own is a class; .*Own\(\)"):
            make()


def test_a_failure_names_the_form_as_the_user_did_and_the_reason():
    write, read = serialize_with("json"), deserialize_with("json")
    with pytest.raises(SerializationFailed, match="the json serializer failed on a set: Object"):
        write("t", {1})
    with pytest.raises(SerializationFailed, match="the json deserializer failed on a bytes: Expec"):
        read("t", b"no json")
