"""Options as both halves of the Spark connector read them."""

from __future__ import annotations

import logging

import pytest

from moldau.base.errors import ConfigError
from moldau.client.admin import Admin
from moldau.client.consumer import Consumer
from moldau.client.producer import Producer
from moldau.spark import settings
from moldau.spark.settings import ConnectionOptions, Options

SERVERS = {"kafka.bootstrap.servers": "broker:9092"}


def connection(**more):
    return ConnectionOptions.from_options(
        {**SERVERS, **{f"kafka.{name.replace('_', '.')}": value for name, value in more.items()}}
    )


def test_the_case_of_a_name_does_not_matter():
    options = Options({"INCLUDEheaders": "TRUE", "minpartitions": " 3 "})

    assert options.flag("includeHeaders", default=False)
    assert options.number("minPartitions") == 3
    assert "Includeheaders" in options


def test_what_is_not_given_is_the_default():
    options = Options({})

    assert options.flag("includeHeaders", default=True)
    assert options.number("minPartitions") is None
    assert options.choice("valueFormat", ("json", "binary"), default="binary") == "binary"
    assert options.text("subscribe") is None


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda options: options.flag("a", default=True), "a='-3x' is not true or false"),
        (lambda options: options.number("a"), "a='-3x' is not a whole number"),
        (lambda options: options.number("b"), "b='-3' is below 0"),
        (lambda options: options.choice("a", ("x", "y"), default="x"), "not one of x, y"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_its_name(read, message):
    with pytest.raises(ConfigError, match=message):
        read(Options({"a": "-3x", "b": "-3"}))


def test_a_misspelt_option_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match="no option startingoffset: is startingOffsets meant"):
        Options({"startingOffset": "latest"}).check_names(["subscribe", "startingOffsets"])


def test_an_option_of_somebody_else_is_passed_over_with_one_line(caplog):
    settings.tell_once.cache_clear()
    caplog.set_level(logging.INFO, settings.__name__)

    for _ in range(3):
        Options({"path": "/somewhere"}).check_names(["subscribe"])

    assert [record.getMessage() for record in caplog.records] == [
        "the option path is ignored: no option of this format has that name"
    ]


def test_settings_of_the_client_go_to_whoever_has_them():
    given = connection(
        linger_ms="5", fetch_max_bytes="1000", request_timeout_ms="2000", default_api_timeout_ms="7"
    )

    assert given.servers == "broker:9092"
    assert given.consumer() == {
        "bootstrap_servers": "broker:9092",
        "fetch_max_bytes": "1000",
        "request_timeout_ms": "2000",
        "default_api_timeout_ms": "7",
    }
    assert given.producer() == {
        "bootstrap_servers": "broker:9092", "linger_ms": "5", "request_timeout_ms": "2000"
    }  # fmt: skip
    assert given.admin() == {
        "bootstrap_servers": "broker:9092",
        "request_timeout_ms": "2000",
        "default_api_timeout_ms": "7",
    }


def test_every_client_takes_what_is_meant_for_it():
    given = connection(
        linger_ms="5", isolation_level="read_committed", allow_auto_create_topics="false",
        client_id="spark", default_api_timeout_ms="5000", compression_type="zstd",
    )  # fmt: skip

    Consumer(**given.consumer())
    Producer(**given.producer())
    Admin(**given.admin())


def test_the_brokers_have_to_be_named():
    with pytest.raises(ConfigError, match=r"option kafka\.bootstrap\.servers is missing"):
        ConnectionOptions.from_options({"subscribe": "t"})
    with pytest.raises(ConfigError, match="is not host:port"):
        ConnectionOptions.from_options({"kafka.bootstrap.servers": "a:b:c/d"})


@pytest.mark.parametrize(
    "name",
    [
        "auto.offset.reset", "enable.auto.commit", "interceptor.classes", "key.deserializer",
        "value.deserializer", "key.serializer", "value.serializer", "partitioner.class",
    ],
)  # fmt: skip
def test_what_would_change_the_meaning_is_refused(name):
    with pytest.raises(ConfigError, match=f"kafka.{name} is not taken: "):
        ConnectionOptions.from_options({**SERVERS, f"kafka.{name}": "x"})


def test_what_kafka_has_removed_is_refused_with_what_took_its_place():
    with pytest.raises(ConfigError, match=r"kafka\.zookeeper\.connect was removed .*bootstrap"):
        ConnectionOptions.from_options({**SERVERS, "kafka.zookeeper.connect": "x"})


@pytest.mark.parametrize("name", ["ssl.truststore.location", "sasl.mechanism"])
def test_security_that_is_not_there_is_not_left_out_silently(name):
    with pytest.raises(ConfigError, match=f"kafka.{name} is not supported yet"):
        ConnectionOptions.from_options({**SERVERS, f"kafka.{name}": "x"})


@pytest.mark.parametrize(
    "name", ["enable.metrics.push", "metric.reporters", "group.remote.assignor", "my.own.thing"]
)
def test_what_only_the_java_client_knows_is_passed_over(name):
    given = ConnectionOptions.from_options({**SERVERS, f"kafka.{name}": "x"})

    assert given.settings == {"bootstrap.servers": "broker:9092"}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("request_timeout_ms", "abc", r"kafka\.request\.timeout\.ms='abc' is not a whole number"),
        ("retry_backoff_ms", "-1", r"kafka\.retry\.backoff\.ms=-1 is below 0"),
        (
            "allow_auto_create_topics",
            "yes",
            r"kafka\.allow\.auto\.create\.topics='yes' is not true",
        ),
        ("security_protocol", "SSL", r"kafka\.security\.protocol='SSL' is not supported yet"),
        ("bootstrap_servers", "a:b", r"kafka\.bootstrap\.servers: 'a:b' is not host:port"),
    ],
)
def test_a_connection_that_cannot_be_is_refused_by_the_name_of_the_option(name, value, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        connection(**{name: value})


def test_a_misspelt_setting_is_refused_with_the_nearest_name():
    with pytest.raises(
        ConfigError, match=r"kafka\.max\.poll\.record: is kafka\.max\.poll\.records"
    ):
        connection(max_poll_record="5")
