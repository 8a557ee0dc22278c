"""What a query reads of topics, planned and read as Spark does it, without a session."""

from __future__ import annotations

import json
import traceback
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, InputPartition

from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.samples import CODECS, fresh_topic
from kafka_harness.topics import create_topic, send
from moldau.base.errors import ConfigError, UserError
from moldau.client.errors import ClientError
from moldau.client.records import TopicPartition
from moldau.spark.errors import DataLost, ReadInterrupted
from moldau.spark.pipelines.running.failures import PipelineFailed
from moldau.spark.source import fetching
from moldau.spark.source.batch import batch_reader
from moldau.spark.source.columns import spark_schema
from moldau.spark.source.connections import close_all
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.tasks import RangePartition, read_range
from spark.source_kit import (
    batch_rows,
    delete_records,
    delete_topic,
    offsets_of,
    options,
    rows_of,
    send_transaction,
)
from spark.topic_rows import FIRST_MS, TopicRow, numbered_rows, send_rows, stored_rows

COUNT = 30


@pytest.fixture(scope="module", autouse=True)
def _no_connection_is_left():
    yield
    close_all()


@pytest.fixture
def topic(broker):
    return create_topic(broker.address, fresh_topic("reading"), 2)


@pytest.fixture
def filled(broker, topic):
    send_rows(broker.address, numbered_rows(topic, 2, COUNT))
    return topic


def everything(count=COUNT):
    return [(partition, offset) for partition in range(2) for offset in range(count)]


def each(topic, first, second):
    return json.dumps({topic: {"0": first, "1": second}})


@pytest.mark.parametrize("codec", CODECS)
def test_every_column_of_every_record_is_read(broker, topic, codec):
    rows = numbered_rows(topic, 2, COUNT)
    send_rows(broker.address, rows, **{"compression.type": codec})

    found = batch_rows(broker, subscribe=topic, includeHeaders="true")

    assert found == [
        {
            "key": row.key,
            "value": row.value,
            "topic": topic,
            "partition": row.partition,
            "offset": row.offset,
            "timestamp": datetime.fromtimestamp(row.timestamp_ms / 1000, UTC),
            "timestampType": 0,
            "headers": row.headers and [{"key": key, "value": value} for key, value in row.headers],
        }
        for row in rows
    ]


def test_topics_are_chosen_by_name_by_pattern_and_by_partition(broker, filled):
    other = create_topic(broker.address, fresh_topic("reading-other"), 1)
    send(broker.address, other, [b"other"])

    assert offsets_of(batch_rows(broker, subscribe=filled)) == everything()
    both = batch_rows(broker, subscribe=f"{filled},{other}")
    assert {row["topic"] for row in both} == {filled, other}
    found = batch_rows(broker, subscribePattern=f"^{filled[:-1]}.$")
    assert offsets_of(found) == everything()
    found = batch_rows(broker, assign=json.dumps({filled: [1]}))
    assert offsets_of(found) == [(1, offset) for offset in range(COUNT)]


def test_offsets_say_where_reading_begins_and_ends(broker, filled):
    found = batch_rows(
        broker, subscribe=filled,
        startingOffsets=each(filled, 7, -2), endingOffsets=each(filled, -1, 3),
    )  # fmt: skip

    assert offsets_of(found) == [
        *((0, offset) for offset in range(7, COUNT)), *((1, offset) for offset in range(3))
    ]  # fmt: skip


def test_times_say_where_reading_begins_and_ends(broker, filled):
    found = batch_rows(
        broker, subscribe=filled,
        startingTimestamp=str(FIRST_MS + 5000),
        endingOffsetsByTimestamp=each(filled, FIRST_MS + 8000, FIRST_MS + 10**9),
    )  # fmt: skip

    assert offsets_of(found) == [
        *((0, offset) for offset in range(5, 8)), *((1, offset) for offset in range(5, COUNT))
    ]  # fmt: skip


def test_a_time_later_than_every_record_is_an_error_or_the_end(broker, filled):
    late = {"subscribe": filled, "startingTimestamp": str(FIRST_MS + 10**9)}

    with pytest.raises(UserError, match=r"has no record at or after .*Strategy=latest"):
        batch_rows(broker, **late)
    assert batch_rows(broker, **late, startingOffsetsByTimestampStrategy="latest") == []


@pytest.mark.parametrize("given", ['{"%s": {"0": 1}}', '{"%s": {"0": 1, "1": 1, "2": 1}}'])
def test_offsets_have_to_name_exactly_what_is_read(broker, filled, given):
    with pytest.raises(UserError, match="startingOffsets has to name exactly the partitions"):
        batch_rows(broker, subscribe=filled, startingOffsets=given % filled)


def test_what_is_not_there_is_named(broker, filled):
    with pytest.raises(UserError, match="not in the cluster: no-such-topic"):
        batch_rows(broker, subscribe=f"{filled},no-such-topic")
    with pytest.raises(UserError, match=f"not in the cluster: {filled}-7"):
        batch_rows(broker, assign=json.dumps({filled: [0, 7]}))
    assert batch_rows(broker, subscribePattern="^no-such-.*") == []


def test_a_broker_that_is_not_there_is_named():
    given = {
        "kafka.bootstrap.servers": "127.0.0.1:1", "kafka.bootstrap.timeout.ms": "0",
        "subscribe": "t",
    }  # fmt: skip

    with pytest.raises(Exception, match=r"no broker could be reached: .*127\.0\.0\.1:1"):
        batch_reader(given).partitions()


def test_ranges_are_split_for_more_tasks_and_read_once(broker, filled):
    reader = batch_reader(options(broker, subscribe=filled, minPartitions="7"))
    split = reader.partitions()

    assert len(split) == 7
    assert offsets_of(rows_of(reader, split)) == everything()

    reader = batch_reader(options(broker, subscribe=filled, maxRecordsPerPartition="4"))
    split = reader.partitions()
    assert max(part.end - part.start for part in split) == 4
    assert offsets_of(rows_of(reader, split)) == everything()


def test_small_answers_are_put_together_in_order(broker, topic, monkeypatch):
    monkeypatch.setattr(fetching, "_SPARE", 0)
    send(broker.address, topic, [b"%d" % number * 100 for number in range(2000)])

    found = batch_rows(
        broker,
        subscribe=topic,
        kafka__max__partition__fetch__bytes="20000",
        maxRecordsPerPartition="701",
    )

    assert offsets_of(found) == [(0, offset) for offset in range(2000)]


def test_aborted_records_and_markers_are_not_rows(broker, topic):
    send_transaction(broker, topic, [b"a", b"b"], commit=True)
    send_transaction(broker, topic, [b"c", b"d"], commit=False)
    send_transaction(broker, topic, [b"e"], commit=True)

    seen = [row["value"] for row in batch_rows(broker, subscribe=topic)]
    settled = batch_rows(broker, subscribe=topic, kafka__isolation__level="read_committed")

    assert seen == [b"a", b"b", b"c", b"d", b"e"]
    assert [row["value"] for row in settled] == [b"a", b"b", b"e"]


def test_records_deleted_since_planning_are_lost_or_passed_over(broker, filled):
    reader = batch_reader(options(broker, subscribe=filled))
    tolerant = batch_reader(options(broker, subscribe=filled, failOnDataLoss="false"))
    planned = reader.partitions()
    delete_records(broker, filled, 0, 10)
    delete_records(broker, filled, 1, COUNT)

    with pytest.raises(DataLost, match=f"{filled}-0 has no records before offset 10 any more"):
        list(rows_of(reader, planned))
    assert offsets_of(rows_of(tolerant, planned)) == [(0, offset) for offset in range(10, COUNT)]


def test_a_topic_made_anew_since_planning_is_not_read_for_the_old_one(broker, filled):
    reader = batch_reader(options(broker, subscribe=filled))
    tolerant = batch_reader(options(broker, subscribe=filled, failOnDataLoss="false"))
    planned = reader.partitions()
    delete_topic(broker, filled)
    create_topic(broker.address, filled, 2)
    send_rows(broker.address, numbered_rows(filled, 2, COUNT))

    with pytest.raises(DataLost, match="was deleted and created again"):
        list(rows_of(reader, planned))
    assert list(rows_of(tolerant, planned)) == []


def test_a_task_that_is_given_up_leaves_nothing_behind(broker, filled):
    given = SourceOptions.for_batch(options(broker, subscribe=filled))
    (first, _) = batch_reader(options(broker, subscribe=filled)).partitions()

    reading = read_range(given, first)
    next(reading)
    reading.close()

    assert offsets_of(batch_rows(broker, subscribe=filled)) == everything()


def test_a_broker_that_starts_again_meanwhile_is_waited_for(tmp_path):
    with make_broker(kind_under_test(), tmp_path) as own:
        name = create_topic(own.address, fresh_topic("restart"), 1)
        send(own.address, name, [b"%d" % number * 300 for number in range(2000)])
        small = {"kafka__max__partition__fetch__bytes": "50000"}
        reader = batch_reader(options(own, subscribe=name, **small))

        reading = rows_of(reader, reader.partitions())
        first = next(reading)
        own.restart()

        assert offsets_of([first, *reading]) == [(0, offset) for offset in range(2000)]
        close_all()


def test_a_record_of_a_hundred_megabytes_is_read(broker):
    config = {"max.message.bytes": str(100 * 1024 * 1024)}
    name = create_topic(broker.address, fresh_topic("huge"), 1, config)
    values = [b"before", b"x" * 100_000_000, b"after"]
    rows = [TopicRow(None, value, name, 0, 0, FIRST_MS) for value in values]
    send_rows(broker.address, rows, **{"message.max.bytes": 110_000_000})

    found = batch_rows(broker, subscribe=name)

    assert [len(row["value"]) for row in found] == [6, 100_000_000, 5]


def test_a_broker_that_does_not_come_back_is_told_of_in_one_line(tmp_path):
    with make_broker(kind_under_test(), tmp_path) as own:
        name = create_topic(own.address, fresh_topic("gone"), 1)
        send(own.address, name, [b"a"])
        impatient = {
            "kafkaConsumer__pollTimeoutMs": "2000", "kafka__bootstrap__timeout__ms": "2000",
        }  # fmt: skip
        reader = batch_reader(options(own, subscribe=name, **impatient))
        (planned,) = reader.partitions()
        own.kill()

        with pytest.raises(
            ReadInterrupted, match=f"nothing came of {name}-0 from offset 0"
        ) as task:
            list(rows_of(reader, [planned]))
        (line,) = traceback.format_exception_only(task.value)
        assert not PipelineFailed("landing", line).is_final
        with pytest.raises(ClientError, match="no broker could be reached") as driver:
            reader.partitions()
        assert "\n" not in f"{task.value}{driver.value}"
        close_all()


def test_nothing_comes_of_offsets_that_are_not_there_yet(broker, filled):
    given = options(broker, subscribe=filled, kafkaConsumer__pollTimeoutMs="300")
    (first, _) = batch_reader(given).partitions()
    beyond = RangePartition(TopicPartition(filled, 0), first.topic_id, COUNT, COUNT + 5)

    with pytest.raises(UserError, match=f"nothing came of {filled}-0 from offset {COUNT} on"):
        list(read_range(SourceOptions.for_batch(given), beyond))


def test_offsets_that_are_not_there_end_a_query_or_are_passed_over(broker, filled):
    quick = {"subscribe": filled, "fetchOffset__retryIntervalMs": "1"}
    first = {"startingOffsets": each(filled, COUNT - 2, COUNT + 5)}
    last = {"startingOffsets": each(filled, COUNT - 2, 0), "endingOffsets": each(filled, 999, 2)}

    for given, option in ((first, "startingOffsets"), (last, "endingOffsets")):
        with pytest.raises(
            DataLost, match=rf"{option}: {filled}-\d ends at offset {COUNT}, before"
        ):
            batch_rows(broker, **quick, **given)

    passed_over = {**quick, "failOnDataLoss": "false"}
    rest = [(0, COUNT - 2), (0, COUNT - 1)]
    assert offsets_of(batch_rows(broker, **passed_over, **first)) == rest
    assert offsets_of(batch_rows(broker, **passed_over, **last)) == [*rest, (1, 0), (1, 1)]


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ({"startingOffsets": (10, 0)}, {"endingOffsets": (5, 5)}),
        ({"startingTimestamp": FIRST_MS + 9000}, {"endingTimestamp": FIRST_MS + 3000}),
    ],
)
def test_a_query_that_would_end_before_it_begins_is_refused(broker, filled, first, last):
    given = {
        name: each(filled, *value) if isinstance(value, tuple) else str(value)
        for name, value in {**first, **last}.items()
    }

    with pytest.raises(UserError, match=f"{filled}-0 would be read from offset .* check starting"):
        batch_rows(broker, subscribe=filled, **given)


def test_an_end_before_what_is_left_of_a_topic_is_lost(broker, filled):
    delete_records(broker, filled, 0, 10)
    given = {"subscribe": filled, "endingOffsets": each(filled, 5, 2)}

    with pytest.raises(DataLost, match=f"{filled}-0 begins at offset 10, behind 5"):
        batch_rows(broker, **given)
    left = batch_rows(broker, **given, failOnDataLoss="false")
    assert offsets_of(left) == [(1, 0), (1, 1)]


def test_conditions_save_reading(broker, filled):
    reader = batch_reader(options(broker, subscribe=filled, filterPushdown="true"))
    conditions = [EqualTo(("partition",), 1), In(("offset",), (4, 9))]

    assert list(reader.pushFilters(conditions)) == conditions
    (planned,) = reader.partitions()

    assert (planned.partition, planned.start, planned.end) == (1, 4, 10)


def test_a_condition_on_time_saves_reading_what_is_too_early(broker, filled):
    reader = batch_reader(options(broker, subscribe=filled, filterPushdown="true"))
    since = datetime.fromtimestamp(FIRST_MS / 1000 + 20, UTC)

    reader.pushFilters([GreaterThanOrEqual(("timestamp",), since)])

    assert [(part.start, part.end) for part in reader.partitions()] == [(20, COUNT), (20, COUNT)]


def test_a_plan_without_tasks_has_no_rows(broker, topic):
    reader = batch_reader(options(broker, subscribe=topic))

    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_options_that_cannot_be_are_refused_before_anybody_is_asked():
    with pytest.raises(ConfigError, match="exactly one of subscribe"):
        batch_reader({"kafka.bootstrap.servers": "127.0.0.1:1"})


def test_a_connection_lost_between_tasks_is_made_anew(broker, filled):
    assert offsets_of(batch_rows(broker, subscribe=filled)) == everything()
    close_all()

    assert offsets_of(batch_rows(broker, subscribe=filled)) == everything()


# Values that cannot be read


def test_bad_values_go_to_their_own_topic_and_are_no_rows(broker, topic):
    dead = create_topic(broker.address, fresh_topic("dead"), 1)
    good = [b'{"id": %d}' % number for number in range(4)]
    bad = TopicRow(
        b"key", b"{bad", topic, 0, 2, FIRST_MS,
        headers=(("own", b"1"), ("none", None), ("moldau-origin-topic", b"elsewhere")),
    )  # fmt: skip
    rows = [TopicRow(None, value, topic, 0, 0, FIRST_MS) for value in good]
    send_rows(broker.address, [*rows[:2], bad, *rows[2:], bad._replace(key=None, headers=None)])
    given = {
        "subscribe": topic, "deadLetterTopic": dead,
        "valueFormat": "json", "valueSchema": "id BIGINT",
    }  # fmt: skip

    found = batch_rows(broker, **given)

    assert [row["value"]["id"] for row in found] == [0, 1, 2, 3]
    assert found[0].keys() == set(spark_schema(given).names)
    first, second = stored_rows(broker.address, dead)
    assert (first.key, first.value, first.timestamp_ms) == (b"key", b"{bad", FIRST_MS)
    *own, origin, partition, offset, time, reason = first.headers
    assert own == [("own", b"1"), ("none", None)]
    assert (origin, partition) == (
        ("moldau-origin-topic", topic.encode()), ("moldau-origin-partition", b"0")
    )  # fmt: skip
    assert (offset, time) == (
        ("moldau-origin-offset", b"2"), ("moldau-origin-timestamp-ms", b"%d" % FIRST_MS)
    )  # fmt: skip
    assert reason[0] == "moldau-error-text"
    assert b"JSON" in reason[1]
    assert (second.key, dict(second.headers)["moldau-origin-offset"]) == (None, b"5")


def test_letters_are_written_again_by_a_task_that_is_run_again(broker, topic):
    dead = create_topic(broker.address, fresh_topic("dead"), 1)
    send(broker.address, topic, [b"\xff", b"text"])
    given = {"subscribe": topic, "deadLetterTopic": dead, "valueFormat": "string"}

    for _ in range(2):
        rows = batch_rows(broker, **given, includeHeaders="true")
        assert [(row["value"], row["headers"]) for row in rows] == [("text", None)]

    assert [row.value for row in stored_rows(broker.address, dead)] == [b"\xff", b"\xff"]


def test_letters_that_cannot_be_written_fail_their_task(broker, topic):
    send(broker.address, topic, [b"\xff"])
    given = {"subscribe": topic, "deadLetterTopic": "no such topic!", "valueFormat": "string"}

    with pytest.raises(UserError, match=r"rows could not be written.*no such topic!"):
        batch_rows(broker, **given)


def test_a_topic_that_is_read_cannot_be_its_own_for_dead_letters(broker):
    for subscribed in ({"subscribe": "a,b"}, {"subscribePattern": "b"}):
        with pytest.raises(ConfigError, match="deadLetterTopic=b is read by this query too"):
            batch_rows(broker, **subscribed, deadLetterTopic="b", valueFormat="string")
