"""What can be said about writing, and what cannot."""

import pickle

import pytest

from moldau.base.errors import ConfigError
from moldau.client.batch_producer import BatchProducer
from moldau.spark.sink.options import BATCH_SIZE, MAX_BLOCK_MS, SinkOptions
from moldau.spark.sink.rows import RowFormat


def read(**given):
    named = {name.replace("__", "."): value for name, value in given.items()}
    return SinkOptions.from_options({"kafka.bootstrap.servers": "here:9092", **named})


def test_without_a_word_rows_are_written_at_least_once():
    options = read()
    assert (options.exactly_once, options.topic, options.once_id) == (False, None, None)


def test_the_case_of_names_does_not_matter():
    options = SinkOptions.from_options(
        {"KAFKA.bootstrap.SERVERS": "a:1", "Topic": "t", "Exactly.Once": "TRUE"}
    )
    assert (options.topic, options.exactly_once) == ("t", True)


def test_settings_of_the_client_are_passed_on():
    options = read(kafka__linger__ms="7", kafka__compression__type="zstd")
    assert options.producer() == {
        "bootstrap_servers": "here:9092",
        "linger_ms": "7",
        "compression_type": "zstd",
        "batch_size": BATCH_SIZE,
        "max_block_ms": MAX_BLOCK_MS,
    }


def test_a_batch_size_of_the_users_own_is_kept():
    producer = BatchProducer(**read(kafka__batch__size="1000").producer())
    assert RowFormat.of(producer.settings, None).batch_size == 1000


def test_a_batch_is_no_larger_than_a_request_may_be():
    producer = BatchProducer(**read(kafka__max__request__size="2000").producer())
    assert RowFormat.of(producer.settings, None).batch_size == 2000


def test_the_drivers_producer_has_the_transaction():
    options = read(exactly__once="true", kafka__transaction__timeout__ms="1234")
    settings = options.publisher("id")
    assert settings["transactional_id"] == "id"
    assert settings["transaction_timeout_ms"] == "1234"


def test_options_travel():
    options = read(topic="t", exactly__once="true")
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topics": "t"}, "is topic meant"),
        ({"topic": ""}, "topic is empty"),
        ({"exactly__once": "yes"}, "not true or false"),
        ({"exactly__once__id": "x"}, "without exactly.once=true"),
        ({"exactly__once": "true", "exactly__once__id": ""}, "is empty"),
        ({"exactly__once": "true", "exactly__once__number": "1"}, "without exactly.once.id"),
        ({"exactly__once": "true", "kafka__acks": "1"}, "exactly.once=true excludes kafka.acks"),
        (
            {"exactly__once": "true", "kafka__enable__idempotence": "false"},
            "exactly.once=true excludes kafka.enable.idempotence=False",
        ),
        (
            {"exactly__once": "true", "kafka__default__api__timeout__ms": "x"},
            "kafka.default.api.timeout.ms='x' is not a whole number",
        ),
        (
            {"exactly__once": "true", "kafka__transaction__timeout__ms": "0"},
            "kafka.transaction.timeout.ms=0 is below 1",
        ),
        ({"kafka__linger__ms": "abc"}, "kafka.linger.ms='abc' is not a number"),
        ({"kafka__acks": "7"}, "kafka.acks='7' is not one of all, 1, 0"),
        ({"kafka__compression__type": "foo"}, "kafka.compression.type='foo' is not one of none"),
        (
            {"kafka__request__timeout__ms": "200000"},
            "kafka.delivery.timeout.ms=120000 is below kafka.linger.ms",
        ),
        ({"kafka__transactional__id": "x"}, "set exactly.once=true"),
        ({"exactly__once__staging__prefix": "x" * 213}, "longer than 212"),
        ({"kafka__value__serializer": "x"}, "use DataFrame operations"),
        ({"kafka__compresion__type": "lz4"}, "kafka.compression.type meant"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(given, said):
    with pytest.raises(ConfigError, match=said) as raised:
        read(**given)
    assert "\n" not in str(raised.value)


def test_brokers_have_to_be_named():
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        SinkOptions.from_options({"topic": "t"})
