"""The options of the source: what Spark's own Kafka connector takes and refuses."""

from __future__ import annotations

import logging
import pickle

import pytest

from moldau.base.errors import ConfigError
from moldau.client.records import TopicPartition
from moldau.engine.settings import IsolationLevel
from moldau.spark import settings
from moldau.spark.settings import tell_once, warn_once
from moldau.spark.source.extent import EARLIEST, LATEST, Bound, NoMatch, Subscription
from moldau.spark.source.options import SourceOptions, letter_options
from moldau.spark.source.value_options import ValueOptions

NEEDED = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "t"}


def batch(**more):
    return SourceOptions.for_batch({**NEEDED, **more})


def stream(**more):
    return SourceOptions.for_stream({**NEEDED, **more})


def subscription(**given):
    servers = {"kafka.bootstrap.servers": "broker:9092"}
    return SourceOptions.for_batch({**servers, **given}).subscription


def test_what_is_not_given_is_as_with_sparks_own_connector():
    assert batch().starting == Bound(EARLIEST, option="startingOffsets")
    assert batch().ending == Bound(LATEST, option="endingOffsets")
    assert stream().starting == Bound(LATEST, option="startingOffsets")
    options = stream()
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.no_match is NoMatch.ERROR
    assert options.max_trigger_delay_ms == 15 * 60_000
    assert options.poll_timeout_ms == 120_000
    assert options.isolation is IsolationLevel.READ_UNCOMMITTED
    assert options.values == ValueOptions()


def test_options_travel_to_executors():
    options = stream(startingOffsets='{"t": {"0": 1}}')

    assert pickle.loads(pickle.dumps(options)) == options


def test_topics_are_named_one_by_one_by_a_pattern_or_by_partition():
    assert subscription(subscribe=" a, b,") == Subscription(topics=("a", "b"))
    assert subscription(subscribePattern="top.*") == Subscription(pattern="top.*")
    assert subscription(assign='{"b": [1, 0], "a": [2]}').partitions == (
        ("a", 2), ("b", 0), ("b", 1)
    )  # fmt: skip


def test_a_pattern_may_be_found_anywhere_in_a_name():
    wanted = Subscription(pattern="ic-[0-9]$")

    assert wanted.matches("topic-1")
    assert not wanted.matches("topic-1a")


def test_only_assigned_partitions_are_wanted():
    wanted = Subscription(partitions=(TopicPartition("t", 1),))

    assert wanted.wants(TopicPartition("t", 1))
    assert not wanted.wants(TopicPartition("t", 0))
    assert wanted.names == {"t"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "exactly one of subscribe, subscribePattern and assign says what is read, not none"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "not subscribe, assign"),
        ({"subscribe": " , "}, "names no topic"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"subscribePattern": "(?<x>a)"}, "no regular expression in Python's syntax: unknown"),
        ({"subscribePattern": "t[0-9&&[^2]]"}, "Python's syntax: Possible set intersection"),
        ({"subscribePattern": " "}, "empty"),
        ({"assign": "a"}, "no JSON"),
        ({"assign": "{}"}, "names no partition"),
        ({"assign": '{"a": 0}'}, "no list of numbers"),
        ({"assign": '{"a": [true]}'}, "no list of numbers"),
    ],
)
def test_a_subscription_that_says_nothing_clear_is_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        subscription(**given)


def test_offsets_are_words_or_numbers_for_each_partition():
    assert batch(endingOffsets="Latest").ending.everywhere == LATEST
    given = stream(startingOffsets='{"t": {"0": 23, "1": -1, "2": -2}}').starting
    assert given.each == {("t", 0): 23, ("t", 1): LATEST, ("t", 2): EARLIEST}
    assert not given.by_time


def test_a_time_for_all_is_stronger_than_times_and_those_than_offsets():
    offsets = {"startingOffsets": "earliest"}
    times = {**offsets, "startingOffsetsByTimestamp": '{"t": {"0": 7}}'}

    assert batch(**times).starting == Bound(
        each={TopicPartition("t", 0): 7}, by_time=True, option="startingOffsetsByTimestamp"
    )
    assert batch(**times, startingTimestamp="9").starting == Bound(
        9, by_time=True, option="startingTimestamp"
    )
    assert batch(endingTimestamp="8").ending.by_time


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets: a batch cannot begin at the latest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "latest offset of t-0"),
        ({"endingOffsets": "earliest"}, "a batch cannot end at the earliest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "earliest offset of t-0"),
        ({"startingOffsets": "soon"}, "is not earliest, latest or JSON"),
        ({"startingOffsets": "{"}, "no JSON"),
        ({"startingOffsets": '{"t": 5}'}, "no JSON object"),
        ({"startingOffsets": '{"t": {"x": 5}}'}, "no partition"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "none of offsets"),
        ({"startingOffsets": '{"t": {"0": 1.5}}'}, "none of offsets"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "none of milliseconds"),
        ({"startingTimestamp": "-1"}, "below 0"),
        ({"minPartitions": "0"}, "below 1"),
        ({"maxRecordsPerPartition": "0"}, "below 1"),
        ({"failOnDataLoss": "perhaps"}, "true or false"),
        (
            {"kafka.isolation.level": "serializable"},
            "kafka.isolation.level='serializable' is not one",
        ),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "not one of error, latest"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "is above"),
        ({"maxTriggerDelay": "soon"}, "no time such as"),
        ({"commitToGroup": " "}, "empty"),
        ({"valueFormat": "json"}, "go together"),
        ({"valueSchema": "a INT"}, "go together"),
        ({"valueFormat": "xml"}, "not one of binary, string, json"),
        ({"subscripe": "t"}, "is subscribe meant"),
        ({"kafka.max.poll.records": "abc"}, "kafka.max.poll.records='abc' is not a whole number"),
        ({"kafka.fetch.max.bytes": "-1"}, "kafka.fetch.max.bytes=-1 is below 0"),
        ({"kafka.fetch.min.bytes": "zz"}, "kafka.fetch.min.bytes='zz' is not a whole number"),
        ({"kafka.session.timeout.ms": "0"}, "kafka.session.timeout.ms=0 is below 1"),
        ({"kafka.default.api.timeout.ms": "abc"}, "kafka.default.api.timeout.ms='abc' is not"),
        ({"kafka.max.partition.fetch.bytes": "0"}, "kafka.max.partition.fetch.bytes='0' is below"),
        ({"kafka.check.crcs": "maybe"}, "kafka.check.crcs='maybe' is not true or false"),
        ({"valueFormat": "string", "deadLetterTopic": "d", "kafka.acks": "7"}, "kafka.acks='7'"),
    ],
)
def test_what_cannot_be_is_refused_with_the_name_of_the_option(given, message):
    with pytest.raises(ConfigError, match=message):
        batch(**given)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name):
    with pytest.raises(ConfigError, match=f"{name} is for batch queries"):
        stream(**{name: "latest"})


def test_times_are_written_as_spark_writes_them():
    assert stream(maxTriggerDelay="90s").max_trigger_delay_ms == 90_000
    assert stream(maxTriggerDelay="250").max_trigger_delay_ms == 250
    assert stream(maxTriggerDelay="2 min").max_trigger_delay_ms == 120_000


def test_questions_are_repeated_as_long_as_a_task_waits_unless_told_otherwise():
    assert batch(**{"kafkaConsumer.pollTimeoutMs": "7000"}).look_up_timeout_ms == 7_000
    assert batch(**{"kafka.default.api.timeout.ms": "0"}).look_up_timeout_ms == 0


def test_settings_of_the_client_that_concern_reading_are_read():
    given = {
        "kafka.isolation.level": "READ_COMMITTED",
        "kafka.max.partition.fetch.bytes": "1000",
        "kafka.check.crcs": "false",
    }
    options = batch(**given)

    assert options.isolation is IsolationLevel.READ_COMMITTED
    assert options.fetch_size == 1000
    assert not options.check_crcs


def test_a_group_that_is_named_in_vain_is_told_once(caplog):
    warn_once.cache_clear()

    for _ in range(3):
        stream(**{"kafka.group.id": "mine"})
    batch()

    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "kafka.group.id=mine has no effect" in record.getMessage()
    assert "commitToGroup" in record.getMessage()


def test_settings_that_change_nothing_about_reading_are_told_once(caplog):
    tell_once.cache_clear()
    caplog.set_level(logging.INFO, settings.__name__)
    given = {
        "kafka.max.poll.records": "7", "kafka.linger.ms": "7", "kafka.request.timeout.ms": "7",
        "kafka.group.protocol": "consumer",
    }  # fmt: skip

    for _ in range(3):
        batch(**given)
    letters = batch(**given, valueFormat="string", deadLetterTopic="bad")

    assert letter_options(letters.connection, "bad").producer()["linger_ms"] == "7"
    assert [record.getMessage() for record in caplog.records] == [
        f"the option kafka.{name} is ignored: it changes nothing about how Spark reads topics"
        for name in ("max.poll.records", "linger.ms", "group.protocol")
    ]


@pytest.mark.parametrize("name", ["groupIdPrefix", "partition.metadata.cache.ttl.ms"])
def test_options_without_effect_are_taken_without_a_word(caplog, name):
    assert batch(**{name: "7"}) == batch()
    assert not caplog.records
