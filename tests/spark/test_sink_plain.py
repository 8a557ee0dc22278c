"""Writing as rows come, without Spark: what a task does with what it is handed."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic
from moldau.base.errors import UserError
from moldau.spark.errors import WriteInterrupted
from moldau.spark.sink.options import SinkOptions
from moldau.spark.sink.plain import write_plain
from spark.sink_drivers import frame
from spark.source_kit import delete_topic
from spark.topic_rows import stored_rows

PARTITIONS = 2


@pytest.fixture
def topic(broker):
    return create_topic(broker.address, fresh_topic("plain"), PARTITIONS)


def write(broker, topic, arriving, **settings):
    """Write what arrives; settings are the client's, with underscores for dots."""
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}
    options = {"kafka.bootstrap.servers": broker.address, "topic": topic, **named}
    return write_plain(SinkOptions.from_options(options), arriving)


def values(broker, topic):
    return Counter(row.value for row in stored_rows(broker.address, topic, PARTITIONS))


def numbered(count, size=100):
    return [b"%d" % number + b"x" * size for number in range(count)]


def test_more_is_written_than_the_buffer_holds_at_a_time(broker, topic):
    rows = numbered(20_000)
    arriving = [frame(rows[start : start + 1000]) for start in range(0, 20_000, 1000)]
    count = write(broker, topic, arriving, buffer_memory="200000", batch_size="20000")
    assert count == 20_000
    assert values(broker, topic) == Counter(rows)


def test_batches_that_are_too_large_for_the_topic_are_split(broker):
    config = {"max.message.bytes": "5000"}
    topic = create_topic(broker.address, fresh_topic("narrow"), PARTITIONS, config)
    rows = numbered(1000)
    write(broker, topic, [frame(rows)], compression_type="lz4")
    assert values(broker, topic) == Counter(rows)


def test_a_row_that_is_too_large_for_the_topic_is_an_error(broker):
    config = {"max.message.bytes": "5000"}
    topic = create_topic(broker.address, fresh_topic("narrow"), PARTITIONS, config)
    with pytest.raises(UserError, match="rows could not be written"):
        write(broker, topic, [frame(numbered(3, 10_000))])


def test_a_task_after_one_that_failed_writes_as_if_nothing_had_been(broker, topic):
    with pytest.raises(UserError, match="asks for partition 7"):
        write(broker, topic, [pa.record_batch({"value": [b"a"], "partition": [7]})])
    assert write(broker, topic, [frame([b"b"])]) == 1
    assert values(broker, topic) == Counter([b"b"])


def test_rows_that_fail_to_arrive_fail_the_task(broker, topic):
    def arriving():
        yield frame([b"first"])
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        write(broker, topic, arriving())


def test_a_topic_that_does_not_exist_is_an_error_that_names_it(broker):
    with pytest.raises(UserError, match="no such topic!"):
        write(broker, "no such topic!", [frame([b"x"])])


def test_brokers_that_are_not_there_are_an_error_that_names_them():
    options = SinkOptions.from_options(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "topic": "t",
            "kafka.bootstrap.timeout.ms": "0",
        }
    )
    away = r"could not be written to 127\.0\.0\.1:1: no broker"
    with pytest.raises(WriteInterrupted, match=away):
        write_plain(options, [frame([b"x"])])


def test_a_broker_that_comes_back_gets_what_was_written_meanwhile(tmp_path):
    with make_broker(kind_under_test(), tmp_path) as own:
        topic = create_topic(own.address, fresh_topic("away"), PARTITIONS)

        def arriving():
            yield frame(numbered(100))
            own.kill()
            yield frame([b"meanwhile"])
            own.start()
            yield frame([b"afterwards"])

        write(own, topic, arriving())
        found = set(values(own, topic))
        assert found == {*numbered(100), b"meanwhile", b"afterwards"}


def test_a_broker_that_does_not_come_back_is_told_of_in_one_line(tmp_path):
    with make_broker(kind_under_test(), tmp_path) as own:
        topic = create_topic(own.address, fresh_topic("gone"), PARTITIONS)
        short = {"delivery_timeout_ms": "600", "request_timeout_ms": "500"}
        write(own, topic, [frame([b"before"])], **short)
        own.kill()

        late = r"could not be written.*within delivery_timeout_ms"
        with pytest.raises(WriteInterrupted, match=late):
            write(own, topic, [frame([b"after"])], **short)


def test_a_deleted_topic_is_an_error_and_one_made_anew_gets_the_rows(tmp_path):
    settings = {"auto.create.topics.enable": "false"}
    with make_broker(kind_under_test(), tmp_path, settings) as own:
        topic = create_topic(own.address, fresh_topic("deleted"), PARTITIONS)
        short = {"delivery_timeout_ms": "1000", "request_timeout_ms": "500", "max_block_ms": "1000"}
        write(own, topic, [frame([b"before"])], **short)
        delete_topic(own, topic)

        with pytest.raises(UserError, match=f"could not be written.* {topic}-") as failure:
            write(own, topic, [frame([b"lost"])], **short)
        assert "\n" not in str(failure.value)
        with pytest.raises(UserError, match=f"topic '{topic}' is not there"):
            write(own, topic, [frame([b"lost"])], **short)
        create_topic(own.address, topic, PARTITIONS)
        write(own, topic, [frame([b"after"])])
        assert values(own, topic) == Counter([b"after"])


def test_a_row_that_no_request_has_room_for_is_told_of_in_one_line(broker, topic):
    with pytest.raises(UserError, match=r"max_request_size|max\.request\.size") as failure:
        write(broker, topic, [frame([b"x" * 100_000_000])])
    assert "\n" not in str(failure.value)


def test_no_rows_need_no_broker():
    options = SinkOptions.from_options({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"})
    assert write_plain(options, []) == 0
