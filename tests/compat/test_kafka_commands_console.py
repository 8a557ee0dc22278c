"""The console producer and consumer, compared with Kafka's own on the same broker."""

from __future__ import annotations

import pytest

from kafka_harness.distribution import CURRENT
from kafka_harness.java import run_class
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kits.kafka_command_kit import Commands, class_of

pytestmark = pytest.mark.java(CURRENT)

CONSUMER = "kafka-console-consumer"
PRODUCER = "kafka-console-producer"
TYPED = (
    "one:1,two:2\tkey\tvalue\n"
    "NULL\tNULL\tno key, no headers\n"
    "h:\tgone\tNULL\n"
    "a:NULL\t\t\n"
    "x:ä€\tß\tžluťoučký\ttab\r\n"
    "last:1\tk\twithout an end"
)
READER = ("parse.key=true", "parse.headers=true", "null.marker=NULL")


def properties(option: str, values: tuple[str, ...]) -> list[str]:
    return [part for value in values for part in (option, value)]


@pytest.fixture
def topic(commands: Commands) -> str:
    return create_topic(commands.broker.address, fresh_topic("console"))


@pytest.fixture(scope="module")
def written(commands: Commands) -> str:
    """A topic with records of all kinds, written by our command."""
    topic = create_topic(commands.broker.address, fresh_topic("written"))
    said = commands.ours(
        PRODUCER, "--topic", topic, *properties("--reader-property", READER), stdin=TYPED.encode()
    )
    assert (said.stdout, said.stderr, said.status) == ("", "", 0)
    return topic


@pytest.mark.parametrize(
    "formatter",
    [
        (),
        ("print.key=true",),
        ("print.key=true", "print.value=false"),
        ("print.timestamp=true", "print.partition=true", "print.offset=true"),
        ("print.headers=true", "print.key=true", "headers.separator=;", "null.literal=NIL"),
        ("print.headers=true", "print.value=false"),
        ("print.epoch=true", "print.delivery=true"),
        ("print.key=true", "key.separator=|", "line.separator=~"),
        ("print.value=false",),
    ],
)
def test_records_are_printed_alike(commands, written, formatter):
    said = commands.same(
        CONSUMER, "--topic", written, "--partition", 0, "--offset", "earliest",
        "--max-messages", 6, *properties("--formatter-property", formatter),
    )  # fmt: skip
    assert said.status == 0
    assert said.stderr == "Processed a total of 6 messages\n"


def test_what_both_producers_read_becomes_the_same_records(commands, written, topic):
    run_class(
        CURRENT, class_of(PRODUCER), "--bootstrap-server", commands.broker.address,
        "--topic", topic, *properties("--reader-property", READER), stdin=TYPED,
    )  # fmt: skip
    everything = ("print.headers=true", "print.key=true", "print.offset=true")
    printed = [
        commands.ours(
            CONSUMER, "--topic", one, "--partition", 0, "--offset", 0, "--max-messages", 6,
            *properties("--formatter-property", everything),
        ).stdout
        for one in (written, topic)
    ]  # fmt: skip
    assert printed[0] == printed[1]


def test_bytes_that_are_no_text_go_through_unharmed(commands, topic):
    data = bytes(byte for byte in range(256) if byte not in b"\r\n")
    commands.ours(PRODUCER, "--topic", topic, "--compression-codec", stdin=data + b"\n")
    printed = commands.ours(
        CONSUMER, "--topic", topic, "--partition", 0, "--offset", 0, "--max-messages", 1
    )
    assert printed.stdout.encode(errors="surrogateescape") == data + b"\n"


@pytest.mark.parametrize(
    ("deserializer", "data"),
    [
        ("org.apache.kafka.common.serialization.LongDeserializer", b"\0\0\0\0\0\0\1\0"),
        ("org.apache.kafka.common.serialization.IntegerDeserializer", b"\xff\xff\xff\xff"),
        ("org.apache.kafka.common.serialization.StringDeserializer", "ž".encode()),
        ("org.apache.kafka.common.serialization.DoubleDeserializer", b"\x3f\xf8" + bytes(6)),
    ],
)
def test_values_are_deserialized_alike(commands, topic, deserializer, data):
    send(commands.broker.address, topic, [data])
    commands.same(
        CONSUMER, "--topic", topic, "--partition", 0, "--offset", 0, "--max-messages", 1,
        "--value-deserializer", deserializer,
    )  # fmt: skip


def test_a_group_goes_on_where_it_ended(commands, topic):
    send(commands.broker.address, topic, [b"%d" % number for number in range(10)])
    group = fresh_topic("console-group")
    printed = [
        commands.ours(
            CONSUMER, "--topic", topic, "--group", group, "--from-beginning", "--max-messages", 4
        ).lines
        for _ in range(2)
    ]
    assert printed == [["0", "1", "2", "3"], ["4", "5", "6", "7"]]


def test_topics_are_found_by_a_pattern_until_nothing_comes(commands):
    mark = fresh_topic("many")
    for number in range(2):
        topic = create_topic(commands.broker.address, f"{mark}-{number}")
        send(commands.broker.address, topic, [b"%d" % number])
    said = commands.ours(
        CONSUMER, "--include", f"{mark}-.*", "--from-beginning", "--timeout-ms", 4000
    )
    assert (sorted(said.lines), said.status) == (["0", "1"], 0)


def test_old_spellings_still_mean_the_same(commands, topic):
    commands.ours(
        PRODUCER, "--topic", topic, "--property", "parse.key=true", "--property",
        "key.separator=:", "--producer-property", "linger.ms=0", stdin=b"a:one\n",
    )  # fmt: skip
    said = commands.ours(
        CONSUMER, "--whitelist", topic, "--new-consumer", "--property", "print.key=true",
        "--consumer-property", "auto.offset.reset=earliest", "--max-messages", 1,
    )  # fmt: skip
    assert said.stdout == "a\tone\n"


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (CONSUMER, ()),
        (CONSUMER, ("--topic", "t", "--include", "t")),
        (CONSUMER, ("--include", "t", "--partition", "0")),
        (CONSUMER, ("--topic", "t", "--offset", "0")),
        (CONSUMER, ("--topic", "t", "--partition", "0", "--offset", "soon")),
        (CONSUMER, ("--topic", "t", "--partition", "0", "--group", "g")),
        (CONSUMER, ("--topic", "t", "--frob")),
        (PRODUCER, ()),
        (PRODUCER, ("--topic", "t", "--frob")),
    ],
)
def test_what_cannot_be_is_refused_alike(commands, command, arguments):
    assert commands.same_refusal(command, *arguments)


@pytest.mark.parametrize("typed", ["no separator\n", "a:1\tno key\n", "nothing\tkey\tvalue\n"])
def test_a_line_that_cannot_be_read_ends_the_producer(commands, topic, typed):
    said = commands.ours(
        PRODUCER, "--topic", topic, *properties("--reader-property", READER), stdin=typed.encode()
    )
    assert said.status == 1
    assert "on line number 1" in said.stderr


def test_a_record_that_cannot_be_delivered_is_told_of(commands, topic):
    said = commands.ours(
        PRODUCER, "--topic", topic, "--max-block-ms", 500, "--command-property",
        "max.request.size=1000", stdin=b"x" * 2000 + b"\n",
    )  # fmt: skip
    assert said.status == 1
    assert said.stderr
