"""Spark's own Kafka connector against the broker: a job that has it need not change at all.

It brings Kafka's Java client along, an admin client on the driver, and habits of its own: it asks
for the ends of every partition at each poll, and its producers are idempotent.
"""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic
from spark.topic_rows import (
    FIRST_MS,
    TopicRow,
    collected,
    numbered_rows,
    send_rows,
    stored_rows,
    without_headers,
)

PARTITIONS = 2
COUNT = 60

pytestmark = pytest.mark.usefixtures("official")


@pytest.fixture
def topic(broker):
    return create_topic(broker.address, fresh_topic("official"), PARTITIONS)


def options(broker, **more):
    return {"kafka.bootstrap.servers": broker.address, **more}


def read(spark, broker, topic, **more):
    reader = spark.read.format("kafka").options(**options(broker, subscribe=topic, **more))
    return reader.load()


def read_stream(spark, broker, topic, **more):
    reader = spark.readStream.format("kafka")
    starting = {"startingOffsets": "earliest", **more}
    return reader.options(**options(broker, subscribe=topic, **starting)).load()


def run_to_the_end(writer, checkpoint):
    """Let a stream take all there is now, and return the rows each batch had."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress]


def test_a_batch_reads_what_was_sent(spark, broker, topic):
    rows = numbered_rows(topic, PARTITIONS, COUNT)
    send_rows(broker.address, rows)

    found = collected(read(spark, broker, topic, includeHeaders="true"), headers=True)

    assert found == rows


def test_a_batch_reads_between_the_offsets_and_times_it_names(spark, broker, topic):
    rows = without_headers(numbered_rows(topic, PARTITIONS, COUNT))
    send_rows(broker.address, rows)
    ends = {topic: {str(partition): 40 for partition in range(PARTITIONS)}}

    found = collected(
        read(
            spark, broker, topic,
            startingTimestamp=str(FIRST_MS + 20_000), endingOffsets=json.dumps(ends),
        )
    )  # fmt: skip

    # The record at 20 s exactly is the first in partition 0, and in partition 1 too: it is later.
    assert found == [row for row in rows if 20 <= row.offset < 40]


def test_a_batch_that_reads_committed_sees_nothing_of_an_aborted_transaction(spark, broker, topic):
    rows = without_headers(numbered_rows(topic, PARTITIONS, 10))
    send_rows(broker.address, rows, **{"transactional.id": fresh_topic("committed")})
    abort_some(broker, topic)

    committed = collected(read(spark, broker, topic, **{"kafka.isolation.level": "read_committed"}))

    assert committed == rows
    assert len(collected(read(spark, broker, topic))) > len(rows)


def test_a_stream_reads_what_was_sent_and_goes_on_where_it_stopped(spark, broker, topic, tmp_path):
    rows = without_headers(numbered_rows(topic, PARTITIONS, COUNT))
    earlier, later = (
        [row for row in rows if (row.offset < COUNT // 2) is early] for early in (True, False)
    )
    table = str(tmp_path / "table")

    for part in (earlier, later):
        send_rows(broker.address, part)
        stream = read_stream(spark, broker, topic, maxOffsetsPerTrigger="25")
        counts = run_to_the_end(
            stream.writeStream.format("parquet").option("path", table), tmp_path / "checkpoint"
        )
        assert sum(counts) == len(part)
        assert max(counts) <= 25

    assert collected(spark.read.parquet(table)) == rows


def test_a_batch_writes_rows_with_keys_headers_and_partitions(spark, broker, topic):
    rows = [
        (bytearray(b"k%d" % number), bytearray(b"v%d" % number), number % 2,
         [("n", bytearray(b"%d" % number))])
        for number in range(COUNT)
    ]  # fmt: skip
    schema = (
        "key binary, value binary, partition int, headers array<struct<key:string,value:binary>>"
    )
    frame = spark.createDataFrame(rows, schema)

    frame.write.format("kafka").options(**options(broker, topic=topic)).save()

    found = stored_rows(broker.address, topic, PARTITIONS)
    assert sorted((row.key, row.value, row.partition, row.headers) for row in found) == sorted(
        (bytes(key), bytes(value), partition, tuple((name, bytes(held)) for name, held in headers))
        for key, value, partition, headers in rows
    )


def test_a_stream_copies_a_topic_into_another(spark, broker, topic, tmp_path):
    rows = numbered_rows(topic, PARTITIONS, COUNT)
    copy = create_topic(broker.address, fresh_topic("official-copy"), PARTITIONS)
    send_rows(broker.address, rows)

    stream = read_stream(spark, broker, topic, includeHeaders="true")
    writer = stream.select("key", "value", "headers", "partition").writeStream.format("kafka")
    run_to_the_end(writer.options(**options(broker, topic=copy)), tmp_path / "checkpoint")

    assert plain(stored_rows(broker.address, copy, PARTITIONS)) == plain(rows)


def abort_some(broker, topic):
    """Leave ten records of a transaction that came to nothing."""
    producer = Producer(
        {"bootstrap.servers": broker.address, "transactional.id": fresh_topic("aborted")}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(10):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    producer.flush(60)
    producer.abort_transaction(60)


def plain(rows: list[TopicRow]) -> list[tuple[object, ...]]:
    """Return what a copy keeps of rows, in their order: time and name are the copy's own."""
    return [(row.partition, row.offset, row.key, row.value, row.headers) for row in rows]
