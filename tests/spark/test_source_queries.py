"""Queries through `format("moldau")` in a session: rows, restarts and what users see go wrong."""

from __future__ import annotations

import base64
import io
import json
from datetime import UTC, datetime
from decimal import Decimal

import fastavro
import pytest
from google.protobuf import descriptor_pb2
from pyspark.sql.functions import expr

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from spark.source_kit import committed, delete_topic, options, send_transaction
from spark.topic_rows import (
    FIRST_MS,
    collected,
    numbered_rows,
    send_rows,
    stored_rows,
    without_headers,
)

COUNT = 40


@pytest.fixture
def topic(broker):
    return create_topic(broker.address, fresh_topic("queries"), 2)


@pytest.fixture
def filled(broker, topic):
    send_rows(broker.address, numbered_rows(topic, 2, COUNT))
    return topic


def read(spark, broker, format_="moldau", **more):
    return spark.read.format(format_).options(**options(broker, **more)).load()


def followed(spark, broker, topic, format_="moldau", **more):
    given = {"subscribe": topic, "startingOffsets": "earliest", **more}
    return spark.readStream.format(format_).options(**options(broker, **given)).load()


class Batches:
    """Collects the values of each batch; fails when told to, after the batch was planned."""

    def __init__(self):
        self.values = []
        self.failing = False

    def __call__(self, frame, _batch_id):
        if self.failing:
            raise RuntimeError("told to fail")
        self.values.append(sorted(bytes(row.value) for row in frame.select("value").collect()))

    def run(self, frame, checkpoint):
        """Run a query over what is there now; return the values of its batches."""
        self.values = []
        writer = frame.writeStream.foreachBatch(self).option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return self.values


def streamed(frame, checkpoint):
    """Return all rows that a stream reads of what is there now, by partition and offset."""
    found = []
    writer = frame.writeStream.foreachBatch(
        lambda batch, _: found.extend(collected(batch, headers=True))
    )
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()
    return sorted(found, key=lambda row: (row.partition, row.offset))


def numbers(first, end):
    return [b"%03d" % number for number in range(first, end)]


def test_both_formats_have_the_same_columns_and_rows(spark, broker, official, filled):
    given = {"subscribe": filled, "includeHeaders": "true"}
    ours = read(spark, broker, **given)
    theirs = read(spark, broker, official, **given)

    assert ours.schema == theirs.schema
    rows = collected(ours, headers=True)
    assert rows == collected(theirs, headers=True) == numbered_rows(filled, 2, COUNT)


@pytest.mark.parametrize(
    "given",
    [
        {"startingTimestamp": str(FIRST_MS + 7001), "minPartitions": "5"},
        {
            "startingOffsets": '{"%s": {"0": 3, "1": -2}}',
            "endingOffsets": '{"%s": {"0": 9, "1": -1}}',
        },
        {"endingTimestamp": str(FIRST_MS + 7001), "maxRecordsPerPartition": "3"},
    ],
)  # fmt: skip
def test_both_formats_read_the_same_part_of_a_topic(spark, broker, official, filled, given):
    given = {name: value.replace("%s", filled) for name, value in given.items()}

    rows = collected(read(spark, broker, subscribe=filled, **given))

    assert rows == collected(read(spark, broker, official, subscribe=filled, **given))
    assert 0 < len(rows) < 2 * COUNT


def test_a_topic_without_records_has_no_rows(spark, broker, topic):
    assert read(spark, broker, subscribe=topic).collect() == []


def test_both_formats_read_the_same_by_a_stream(spark, broker, official, filled, tmp_path):
    given = {"includeHeaders": "true", "maxOffsetsPerTrigger": "50"}

    ours, theirs = (
        streamed(followed(spark, broker, filled, format_, **given), tmp_path / format_)
        for format_ in ("moldau", official)
    )

    assert ours == theirs == numbered_rows(filled, 2, COUNT)


def test_both_formats_leave_the_same_out_of_transactions(spark, broker, official, topic):
    for number, commit in enumerate((True, False, True)):
        values = numbers(10 * number, 10 * number + 5)
        send_transaction(broker, topic, values, commit=commit)
    settled = {"subscribe": topic, "kafka__isolation__level": "read_committed"}

    rows = collected(read(spark, broker, **settled))

    assert rows == collected(read(spark, broker, official, **settled))
    assert [row.value for row in rows] == numbers(0, 5) + numbers(20, 25)
    assert read(spark, broker, subscribe=topic).count() == 15


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"subscribe": "t", "startingOffsets": "latest"},
        {"subscribe": "no-such-topic"},
        *(
            pytest.param(given, marks=pytest.mark.long)
            for given in (
                {"subscribe": "t", "subscribePattern": "t"},
                {"subscribe": "t", "endingOffsets": "earliest"},
                {"subscribe": "t", "startingOffsets": '{"t": {"0": -1}}'},
                {"subscribe": "t", "kafka__auto__offset__reset": "latest"},
                {"subscribe": "t", "kafka__enable__auto__commit": "true"},
                {"subscribe": "t", "kafka__key__deserializer": "x"},
                {"subscribe": "t", "kafka__interceptor__classes": "x"},
                {"subscribe": "t", "minPartitions": "0"},
            )
        ),
    ],
)
def test_both_formats_refuse_the_same(spark, broker, official, given):
    for format_ in ("moldau", official):
        with pytest.raises(Exception, match=r"\S"):
            read(spark, broker, format_, **given).count()


def test_an_error_tells_its_user_what_to_do(spark, broker):
    with pytest.raises(Exception, match="not in the cluster: no-such-topic; check the names"):
        read(spark, broker, subscribe="no-such-topic").count()
    with pytest.raises(Exception, match="there is no option subscribes: is subscribe meant"):
        read(spark, broker, subscribes="t").count()


def test_conditions_are_pushed_down_where_the_session_allows_it(spark, broker, filled):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = read(spark, broker, subscribe=filled, filterPushdown="true").where(
            f"partition = 1 AND offset >= 10 AND timestamp >= timestamp_millis({FIRST_MS + 20000})"
        )
        rows = collected(frame)
        tasks = frame.rdd.getNumPartitions()
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")

    wanted = [row for row in numbered_rows(filled, 2, COUNT) if row.partition and row.offset >= 20]
    assert rows == without_headers(wanted)
    assert tasks == 1


def test_values_in_json_become_columns_and_bad_ones_are_kept(spark, broker, topic):
    send(broker.address, topic, [b'{"id": 1, "tags": ["a"]}', b"{bad", b'{"id": 3}'])

    frame = read(
        spark, broker, subscribe=topic,
        valueFormat="json", valueSchema="id BIGINT, tags ARRAY<STRING>",
    )  # fmt: skip
    rows = frame.select("value.id", "value.tags", "_corrupt").orderBy("offset").collect()

    assert [(row.id, row.tags, row._corrupt) for row in rows] == [
        (1, ["a"], None),
        (None, None, bytearray(b"{bad")),
        (3, None, None),
    ]


AVRO_SCHEMA = {
    "type": "record", "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type":
            {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
    ],
}  # fmt: skip


def test_values_in_avro_become_columns(spark, broker, topic):
    moment = datetime(2026, 11, 16, 1, tzinfo=UTC)
    row = {
        "id": 1, "name": None, "tags": ["a"], "counts": {"n": 3}, "at": moment,
        "local": moment.replace(tzinfo=None), "day": moment.date(), "price": Decimal("12.34"),
    }  # fmt: skip
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, AVRO_SCHEMA, row)
    send(broker.address, topic, [b"\0\0\0\0\1" + stream.getvalue(), b"bad"])

    frame = read(
        spark, broker, subscribe=topic, valueFormat="avro", valueHeader="confluent",
        avroSchema=json.dumps(AVRO_SCHEMA),
    )  # fmt: skip
    at_ms = expr("unix_millis(value.at)").alias("at_ms")  # Spark gives times out in the local zone
    good, bad = frame.select("value", "_corrupt", at_ms).orderBy("offset").collect()

    assert good.at_ms == moment.timestamp() * 1000
    assert good.value.asDict() | {"at": moment} == row
    assert (bad.value, bytes(bad._corrupt)) == (None, b"bad")


def test_values_in_protobuf_become_columns_and_bad_ones_dead_letters(spark, broker, topic):
    files = descriptor_pb2.FileDescriptorSet()
    descriptor_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    described = files.SerializeToString()
    dead = create_topic(broker.address, fresh_topic("dead"), 1)
    message = descriptor_pb2.EnumDescriptorProto.EnumReservedRange(start=5)
    send(broker.address, topic, [message.SerializeToString(), b"bad"])

    frame = read(
        spark, broker, subscribe=topic, valueFormat="protobuf", deadLetterTopic=dead,
        protobufDescriptors=base64.b64encode(described).decode(),
        protobufMessage="google.protobuf.EnumDescriptorProto.EnumReservedRange",
    )  # fmt: skip
    assert frame.columns[-1] == "timestampType"
    (row,) = frame.select("value").collect()

    assert row.value.asDict() == {"start": 5, "end": None}
    (letter,) = stored_rows(broker.address, dead)
    assert letter.value == b"bad"


def test_a_stream_reads_everything_once_in_portions(spark, broker, topic, tmp_path):
    send_rows(broker.address, numbered_rows(topic, 2, 0))
    for partition in range(2):
        send(broker.address, topic, numbers(100 * partition, 100 * partition + 30), partition)
    frame = followed(spark, broker, topic, maxOffsetsPerTrigger="25")

    found = Batches().run(frame, tmp_path / "checkpoint")

    assert sorted(value for batch in found for value in batch) == [
        *numbers(0, 30),
        *numbers(100, 130),
    ]
    assert [len(batch) for batch in found] == [25, 25, 10]


def test_a_stream_goes_on_where_it_was(spark, broker, topic, tmp_path):
    frame = followed(spark, broker, topic, commitToGroup=f"{topic}-lag")
    batches = Batches()
    send(broker.address, topic, numbers(0, 5))

    assert batches.run(frame, tmp_path / "checkpoint") == [numbers(0, 5)]
    assert committed(broker, f"{topic}-lag", topic) == 5
    assert batches.run(frame, tmp_path / "checkpoint") == []
    send(broker.address, topic, numbers(5, 9))
    assert batches.run(frame, tmp_path / "checkpoint") == [numbers(5, 9)]


def test_a_stream_that_begins_at_the_end_loses_nothing_when_its_first_batch_fails(
    spark, broker, topic, tmp_path
):
    send(broker.address, topic, numbers(0, 5))
    frame = followed(spark, broker, topic, startingOffsets="latest")
    batches = Batches()
    batches.failing = True
    with pytest.raises(Exception, match="told to fail"):
        batches.run(frame, tmp_path / "checkpoint")
    batches.failing = False
    send(broker.address, topic, numbers(5, 9))

    found = batches.run(frame, tmp_path / "checkpoint")

    assert [value for batch in found for value in batch] == numbers(5, 9)


def test_a_batch_run_again_after_a_crash_has_the_same_rows(spark, broker, topic, tmp_path):
    frame = followed(spark, broker, topic)
    batches = Batches()
    send(broker.address, topic, numbers(0, 5))
    batches.failing = True
    with pytest.raises(Exception, match="told to fail"):
        batches.run(frame, tmp_path / "checkpoint")
    batches.failing = False
    send(broker.address, topic, numbers(5, 9))

    assert batches.run(frame, tmp_path / "checkpoint") == [numbers(0, 5), numbers(5, 9)]


def test_a_query_moves_from_sparks_own_connector_with_its_checkpoint(
    spark, broker, official, topic, tmp_path
):
    batches = Batches()
    send(broker.address, topic, numbers(0, 5))
    theirs = followed(spark, broker, topic, official)
    assert batches.run(theirs, tmp_path / "checkpoint") == [numbers(0, 5)]
    send(broker.address, topic, numbers(5, 9))

    found = batches.run(followed(spark, broker, topic), tmp_path / "checkpoint")

    assert [value for batch in found for value in batch] == numbers(5, 9)


def test_a_topic_made_anew_ends_a_query_with_one_clear_line(spark, broker, topic, tmp_path):
    frame = followed(spark, broker, topic)
    send(broker.address, topic, numbers(0, 3))
    Batches().run(frame, tmp_path / "checkpoint")
    delete_topic(broker, topic)
    create_topic(broker.address, topic, 2)
    send(broker.address, topic, numbers(0, 9))

    with pytest.raises(Exception, match=r"was deleted and created again.*failOnDataLoss=false"):
        Batches().run(frame, tmp_path / "checkpoint")


def test_progress_tells_where_the_stream_is_and_where_the_topic_ends(
    spark, broker, topic, tmp_path
):
    send(broker.address, topic, numbers(0, 6))
    frame = followed(spark, broker, topic, maxOffsetsPerTrigger="4")
    query = (
        (
            frame.writeStream.format("noop").option(
                "checkpointLocation", str(tmp_path / "checkpoint")
            )
        )
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    source = query.recentProgress[0]["sources"][0]

    assert json.loads(source["endOffset"])["topics"][topic]["offsets"]["0"] == 4
    assert json.loads(source["latestOffset"])["topics"][topic]["offsets"]["0"] == 6
