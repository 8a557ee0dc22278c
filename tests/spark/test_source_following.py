"""How a stream goes on, batch by batch and run by run, asked as Spark's driver asks."""

from __future__ import annotations

import json
import threading

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from moldau.base.clock import SystemClock
from moldau.base.errors import UserError
from moldau.client.records import TopicPartition
from moldau.spark.errors import DataLost
from moldau.spark.lag import PartitionLag, lag_now, lag_of
from moldau.spark.source import stream
from moldau.spark.source.connections import close_all
from moldau.spark.source.lookup import Lookup
from moldau.spark.source.offsets import StreamOffset
from spark.source_kit import (
    add_partitions,
    committed,
    delete_records,
    delete_topic,
    following,
    options,
    send_transaction,
    values_between,
)
from spark.topic_rows import TopicRow, send_rows

ALL = ReadAllAvailable()


@pytest.fixture(scope="module", autouse=True)
def _no_connection_is_left():
    yield
    close_all()


@pytest.fixture
def topic(broker):
    return create_topic(broker.address, fresh_topic("following"), 1)


def numbers(first, end):
    return [b"%03d" % number for number in range(first, end)]


def kept(offset):
    """Return an offset as it comes back from Spark's checkpoint."""
    return json.loads(json.dumps(offset))


def positions(offset):
    return {one.partition: at for one, at in StreamOffset.from_json(offset).positions.items()}


def test_a_stream_begins_at_the_end_unless_told_otherwise(broker, topic):
    send(broker.address, topic, numbers(0, 5))

    assert positions(following(broker, topic).initialOffset()) == {0: 5}
    earliest = following(broker, topic, startingOffsets="earliest")
    assert positions(earliest.initialOffset()) == {0: 0}


def test_the_beginning_is_looked_up_once_a_run(broker, topic):
    reader = following(broker, topic)
    began = reader.initialOffset()
    send(broker.address, topic, numbers(0, 5))

    assert reader.initialOffset() == began


def test_the_first_batch_run_again_after_a_crash_reads_what_it_was_to_read(broker, topic):
    send(broker.address, topic, numbers(0, 5))
    first_run = following(broker, topic)
    start = first_run.initialOffset()
    send(broker.address, topic, numbers(5, 10))
    end = kept(first_run.latestOffset(start, ALL))
    send(broker.address, topic, numbers(10, 15))

    second_run = following(broker, topic)
    looked_up = second_run.initialOffset()
    assert positions(looked_up) == {0: 15}  # the trap: it has moved on
    assert values_between(second_run, looked_up, end) == numbers(5, 10)

    following_end = kept(second_run.latestOffset(end, ALL))
    assert values_between(second_run, end, following_end) == numbers(10, 15)


def test_an_empty_first_batch_run_again_loses_nothing(broker, topic):
    first_run = following(broker, topic)
    end = kept(first_run.latestOffset(first_run.initialOffset(), ALL))
    send(broker.address, topic, numbers(0, 5))

    second_run = following(broker, topic)
    assert values_between(second_run, second_run.initialOffset(), end) == []
    assert values_between(second_run, end, second_run.latestOffset(end, ALL)) == numbers(0, 5)


def test_nothing_new_is_the_same_text(broker, topic):
    reader = following(broker, topic)
    end = kept(reader.latestOffset(reader.initialOffset(), ALL))

    assert json.dumps(reader.latestOffset(end, ALL)) == json.dumps(end)
    assert json.dumps(following(broker, topic).latestOffset(end, ALL)) == json.dumps(end)


def test_an_idle_stream_waits_for_a_record_and_goes_on_when_it_comes(broker, topic):
    reader = following(broker, topic, idleWaitMs="30000")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    writing = threading.Timer(0.2, send, (broker.address, topic, [b"a"]))
    writing.start()

    found = reader.latestOffset(end, ALL)  # a broken wait would last for the test's time-out

    writing.join()
    assert positions(found) == {0: 1}


def test_an_idle_stream_does_not_wait_for_ever(broker, topic):
    reader = following(broker, topic, idleWaitMs="50")
    end = reader.latestOffset(reader.initialOffset(), ALL)

    assert reader.latestOffset(end, ALL) == end


def test_an_idle_stream_asks_one_question_a_trigger(broker, topic, monkeypatch):
    monkeypatch.setattr(stream, "_LOOK_AGAIN_S", 3600)
    reader = following(broker, topic, idleWaitMs="1")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.latestOffset(end, ALL)
    monkeypatch.setattr(Lookup, "topics", None)  # no further question but for news

    assert reader.latestOffset(end, ALL) == end
    monkeypatch.undo()
    send(broker.address, topic, [b"a"])
    assert positions(reader.latestOffset(end, ALL)) == {0: 1}


def test_an_idle_stream_notices_new_partitions(broker, topic, monkeypatch):
    monkeypatch.setattr(stream, "_LOOK_AGAIN_S", 0)
    reader = following(broker, topic, idleWaitMs="1")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.latestOffset(end, ALL)
    add_partitions(broker, topic, 2)

    assert positions(reader.latestOffset(end, ALL)) == {0: 0, 1: 0}


def test_the_limit_asked_with_counts_and_not_the_option(broker, topic):
    send(broker.address, topic, numbers(0, 20))
    reader = following(broker, topic, startingOffsets="earliest", maxOffsetsPerTrigger="5")
    start = reader.initialOffset()

    assert reader.getDefaultReadLimit().max_rows == 5
    assert positions(reader.latestOffset(start, reader.getDefaultReadLimit())) == {0: 5}
    assert positions(reader.latestOffset(start, ReadMaxRows(7))) == {0: 7}
    assert positions(reader.latestOffset(start, ALL)) == {0: 20}


def test_a_batch_is_put_off_until_there_is_enough_or_time_has_passed(broker, topic):
    patient = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "10"}
    reader = following(broker, topic, **patient)
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMinRows)
    end = reader.latestOffset(reader.initialOffset(), limit)
    send(broker.address, topic, numbers(0, 9))

    assert reader.latestOffset(end, limit) == end
    send(broker.address, topic, numbers(9, 10))
    assert positions(reader.latestOffset(end, limit)) == {0: 10}

    hasty = following(broker, topic, **patient, maxTriggerDelay="0")
    begun = hasty.latestOffset(hasty.initialOffset(), limit)
    send(broker.address, topic, numbers(10, 11))
    assert positions(hasty.latestOffset(begun, limit)) == {0: 11}


def test_a_least_number_counts_beside_a_largest(broker, topic):
    reader = following(
        broker, topic,
        startingOffsets="earliest", minOffsetsPerTrigger="4", maxOffsetsPerTrigger="6",
    )  # fmt: skip
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    send(broker.address, topic, numbers(0, 3))

    assert reader.latestOffset(end, limit) == end
    send(broker.address, topic, numbers(3, 20))
    assert positions(reader.latestOffset(end, limit)) == {0: 6}


def test_what_comes_after_an_available_now_run_has_begun_is_for_the_next(broker, topic):
    send(broker.address, topic, numbers(0, 5))
    reader = following(broker, topic, startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    send(broker.address, topic, numbers(5, 10))
    add_partitions(broker, topic, 2)

    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(3))
    last = reader.latestOffset(end, ReadMaxRows(3))

    assert positions(last)[0] == 5
    assert reader.latestOffset(last, ALL) == last


def test_a_partition_that_came_before_an_available_now_run_looked_where_to_begin_is_not_gone(
    broker, topic
):
    send(broker.address, topic, numbers(0, 5))
    reader = following(broker, topic, startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    add_partitions(broker, topic, 2)
    send(broker.address, topic, numbers(5, 10), partition=1)

    end = reader.latestOffset(reader.initialOffset(), ALL)

    assert positions(end) == {0: 5, 1: 0}
    assert values_between(reader, reader.initialOffset(), kept(end)) == numbers(0, 5)
    run = following(broker, topic, startingOffsets="earliest")
    run.prepareForTriggerAvailableNow()
    assert values_between(run, end, run.latestOffset(kept(end), ALL)) == numbers(5, 10)


def test_a_new_partition_is_read_from_its_beginning(broker, topic):
    reader = following(broker, topic)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    add_partitions(broker, topic, 2)
    send(broker.address, topic, numbers(0, 3), partition=1)

    later = reader.latestOffset(end, ALL)

    assert positions(later) == {0: 0, 1: 3}
    assert values_between(reader, end, later) == numbers(0, 3)


def test_topics_that_come_to_match_a_pattern_are_read_from_their_beginning(broker):
    prefix = fresh_topic("pattern")
    create_topic(broker.address, f"{prefix}-1")
    reader = following(broker, None, subscribePattern=f"^{prefix}-.$")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    create_topic(broker.address, f"{prefix}-2")
    send(broker.address, f"{prefix}-2", numbers(0, 3))

    later = reader.latestOffset(end, ALL)

    assert values_between(reader, end, later) == numbers(0, 3)


def test_a_deleted_topic_ends_the_query_or_is_passed_over(broker, topic, caplog):
    other = create_topic(broker.address, fresh_topic("following-other"))
    both = f"{topic},{other}"
    reader = following(broker, both)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    send(broker.address, topic, numbers(0, 2))
    delete_topic(broker, other)

    with pytest.raises(DataLost, match=f"{other} was deleted"):
        reader.latestOffset(end, ALL)
    tolerant = following(broker, both, failOnDataLoss="false")
    later = tolerant.latestOffset(end, ALL)
    assert values_between(tolerant, end, later) == numbers(0, 2)

    send(broker.address, topic, numbers(2, 4))
    last = tolerant.latestOffset(later, ALL)
    assert values_between(tolerant, later, last) == numbers(2, 4)
    assert caplog.text.count(f"{other} was deleted") == 1
    restarted = following(broker, both, failOnDataLoss="false")
    assert restarted.latestOffset(last, ALL) == last
    assert f"{other} is not in the cluster; going on with what is there" in caplog.text
    with pytest.raises(UserError, match=f"not in the cluster: {other}"):
        following(broker, both).latestOffset(last, ALL)
    with pytest.raises(UserError, match=f"not in the cluster: {other}"):
        restarted.initialOffset()


def test_a_stream_waits_for_its_only_topic_to_come_back(broker, topic):
    reader = following(broker, topic, failOnDataLoss="false")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    delete_topic(broker, topic)

    gone = reader.latestOffset(end, ALL)
    assert reader.latestOffset(gone, ALL) == gone
    create_topic(broker.address, topic)
    send(broker.address, topic, numbers(0, 3))
    later = following(broker, topic, failOnDataLoss="false").latestOffset(gone, ALL)
    assert values_between(reader, gone, later) == numbers(0, 3)


def test_a_topic_made_anew_ends_the_query_or_is_read_from_its_beginning(broker, topic):
    send(broker.address, topic, numbers(0, 3))
    reader = following(broker, topic)
    end = kept(reader.latestOffset(reader.initialOffset(), ALL))
    delete_topic(broker, topic)
    create_topic(broker.address, topic)
    send(broker.address, topic, numbers(0, 9))  # beyond where the query was: nothing else shows it

    later = reader.latestOffset(end, ALL)
    with pytest.raises(DataLost, match=f"topic '{topic}' was deleted and created again"):
        reader.partitions(end, later)

    tolerant = following(broker, topic, failOnDataLoss="false")
    later = tolerant.latestOffset(end, ALL)
    assert values_between(tolerant, end, later) == numbers(0, 9)
    assert tolerant.latestOffset(later, ALL) == later


def test_offsets_that_are_gone_end_the_query_or_are_passed_over(broker, topic):
    reader = following(broker, topic)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    send(broker.address, topic, numbers(0, 6))
    delete_records(broker, topic, 0, 4)
    later = reader.latestOffset(end, ALL)

    with pytest.raises(DataLost, match="no records before offset 4 any more"):
        values_between(reader, end, later)
    tolerant = following(broker, topic, failOnDataLoss="false")
    assert values_between(tolerant, end, later) == numbers(4, 6)


def test_a_stream_of_committed_records_goes_as_far_as_is_settled(broker, topic):
    reader = following(broker, topic, kafka__isolation__level="read_committed")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    send_transaction(broker, topic, numbers(0, 2), commit=False)
    send_transaction(broker, topic, numbers(2, 4), commit=True)

    later = reader.latestOffset(end, ALL)

    assert values_between(reader, end, later) == numbers(2, 4)


def test_processed_offsets_are_shown_to_lag_tools(broker, topic):
    group = f"{topic}-lag"
    reader = following(broker, topic, startingOffsets="earliest", commitToGroup=group)
    send(broker.address, topic, numbers(0, 5))
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert committed(broker, group, topic) < 0  # nothing is processed yet

    reader.latestOffset(end, ALL)

    assert committed(broker, group, topic) == 5


def test_the_ends_are_told_for_sparks_progress(broker, topic):
    reader = following(broker, topic, startingOffsets="earliest")
    send(broker.address, topic, numbers(0, 5))

    assert reader.reportLatestOffset() is None
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(2))

    assert positions(reader.reportLatestOffset()) == {0: 5}


def progress(reader, end):
    """Return what Spark tells of a batch, as far as it is ours."""
    latest = json.dumps(reader.reportLatestOffset())
    theirs = {"endOffset": '{"some": "source"}', "latestOffset": None}
    return {"sources": [{"endOffset": json.dumps(end), "latestOffset": latest}, theirs]}


def test_lag_is_told_in_records_and_in_time(broker):
    topic = create_topic(broker.address, fresh_topic("lag"), 2)
    now_ms = SystemClock().wall_ms()
    rows = [
        TopicRow(None, b"x", topic, partition, offset, now_ms - (100 - offset) * 1000)
        for partition, count in enumerate((5, 2))
        for offset in range(count)
    ]
    send_rows(broker.address, rows)
    given = options(broker, subscribe=topic, startingOffsets="earliest", includeHeaders="true")
    reader = following(broker, topic, startingOffsets="earliest")
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(5))
    assert positions(end) == {0: 4, 1: 1}

    told = progress(reader, end)

    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert lag_of(told).partitions == {first: PartitionLag(1), second: PartitionLag(1)}
    assert (lag_of(told).rows, lag_of(told).waiting_ms) == (2, None)
    send(broker.address, topic, [b"later"])
    lag = lag_now(told, given)
    assert lag.rows == 3
    assert 0 <= lag.waiting_ms - 99_000 <= SystemClock().wall_ms() - now_ms
    assert 0 <= lag.partitions[first].waiting_ms - 96_000 <= SystemClock().wall_ms() - now_ms
    delete_records(broker, topic, 0, 6)
    assert lag_now(told, given).partitions[first] == PartitionLag(2, 0)


def test_lag_before_the_first_batch_is_not_known():
    with pytest.raises(UserError, match="has told of no batch yet"):
        lag_of(None)


def test_a_stream_goes_on_when_its_broker_comes_back(tmp_path):
    with make_broker(kind_under_test(), tmp_path) as own:
        name = create_topic(own.address, fresh_topic("away"), 1)
        reader = following(own, name, idleWaitMs="100")
        end = reader.latestOffset(reader.initialOffset(), ALL)
        send(own.address, name, numbers(0, 3))
        own.kill()
        coming_back = threading.Timer(1, own.start)
        coming_back.start()

        later = reader.latestOffset(end, ALL)

        coming_back.join()
        assert values_between(reader, end, later) == numbers(0, 3)
        close_all()


def test_a_stream_over_a_topic_that_never_was_says_so(broker):
    with pytest.raises(UserError, match="not in the cluster: never-was"):
        following(broker, "never-was").initialOffset()
