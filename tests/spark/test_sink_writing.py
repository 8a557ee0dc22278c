"""Frames and streams of Spark as records of topics, through `format("moldau")`."""

from __future__ import annotations

import uuid
from collections import Counter
from datetime import UTC, datetime

import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions
from pyspark.sql.types import BinaryType, StringType

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from moldau.client.admin import Admin
from moldau.engine.murmur2 import partition_for_key
from moldau.spark.sink.options import DEFAULT_STAGING_PREFIX
from moldau.spark.sink.stream import RUN_PROPERTY
from spark.topic_rows import FIRST_MS, stored_rows

PARTITIONS = 3
ROWS_PER_BATCH = 20

SCHEMA = (
    "key binary, value binary, topic string, partition int, timestamp timestamp,"
    " headers array<struct<key: string, value: binary>>"
)


@pytest.fixture
def topic(broker):
    return create_topic(broker.address, fresh_topic("sink"), PARTITIONS)


def write(frame, broker, format_="moldau", **options):
    writer = frame.write.format(format_).mode("append")
    writer.option("kafka.bootstrap.servers", broker.address).options(**options).save()


def numbered(spark, count, **columns):
    """Return a frame of numbers as values, with further columns by SQL."""
    more = [functions.expr(text).alias(name) for name, text in columns.items()]
    return spark.range(count).select(functions.expr("CAST(id AS STRING)").alias("value"), *more)


def moment(number):
    return datetime.fromtimestamp((FIRST_MS + number) / 1000, UTC)


# Frames


def test_every_column_of_a_frame_is_written(spark, broker, topic):
    rows = [
        (b"k0", b"v0", topic, 2, moment(5), [("h", b"x"), ("h", None)]),
        (b"", b"", topic, 1, moment(6), []),
        (None, None, topic, 1, moment(4), None),
    ]
    write(spark.createDataFrame(rows, SCHEMA).coalesce(1), broker)
    found = [
        (row.key, row.value, row.partition, row.timestamp_ms, row.headers)
        for row in stored_rows(broker.address, topic, PARTITIONS)
    ]
    assert found == [
        (b"", b"", 1, FIRST_MS + 6, None),
        (None, None, 1, FIRST_MS + 4, None),
        (b"k0", b"v0", 2, FIRST_MS + 5, (("h", b"x"), ("h", None))),
    ]


@pytest.mark.parametrize("codec", [pytest.param("none", marks=pytest.mark.long), "zstd"])
def test_rows_go_where_their_keys_belong(spark, broker, topic, codec):
    frame = numbered(spark, 3000, key="concat('key ', id)").repartition(3)
    write(frame, broker, topic=topic, **{"kafka.compression.type": codec})
    found = stored_rows(broker.address, topic, PARTITIONS)
    assert Counter(row.value for row in found) == Counter(b"%d" % n for n in range(3000))
    assert {row.partition for row in found} == set(range(PARTITIONS))
    assert all(row.partition == partition_for_key(row.key, PARTITIONS) for row in found)
    assert all(row.key == b"key " + row.value for row in found)


def test_both_formats_put_a_key_into_the_same_partition(spark, broker, official):
    frame = numbered(spark, 300, key="concat(repeat('ř', CAST(id % 5 AS INT)), id)")
    places = []
    for format_ in ("moldau", official):
        topic = create_topic(broker.address, fresh_topic("keys"), PARTITIONS)
        write(frame, broker, format_, topic=topic)
        found = stored_rows(broker.address, topic, PARTITIONS)
        places.append(sorted((row.key, row.value, row.partition) for row in found))
    ours, theirs = places
    assert ours == theirs
    assert len(ours) == 300
    assert {partition for *_, partition in ours} == set(range(PARTITIONS))


def test_a_frame_writes_to_several_topics(spark, broker):
    topics = [create_topic(broker.address, fresh_topic("several"), 1) for _ in range(2)]
    frame = numbered(spark, 100, topic=f"IF(id % 2 = 0, '{topics[0]}', '{topics[1]}')")
    write(frame, broker)
    for rest, topic in enumerate(topics):
        values = Counter(row.value for row in stored_rows(broker.address, topic))
        assert values == Counter(b"%d" % number for number in range(rest, 100, 2))


@pytest.mark.parametrize(
    ("column", "options", "said"),
    [
        ("id AS other", {"topic": "t"}, "no column `value` to write"),
        ("id AS value", {"topic": "t"}, "cast it to string or binary"),
        ("CAST(id AS STRING) AS value", {}, "no topic to write to"),
        ("CAST(id AS STRING) AS value", {"topic": "t", "kafka.acks": "2"}, "acks='2'"),
        ("CAST(id AS STRING) AS value", {"topic": "t", "exactlyonce": "true"}, "exactly.once"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line(spark, broker, column, options, said):
    with pytest.raises(PySparkException, match=said):
        write(spark.range(1).selectExpr(column), broker, **options)


def test_a_topic_cannot_be_overwritten(spark, broker, topic):
    writer = numbered(spark, 1).write.format("moldau").mode("overwrite")
    options = {"kafka.bootstrap.servers": broker.address, "topic": topic}
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        writer.options(**options).save()


def test_spark_refuses_a_frame_without_a_mode(spark, broker, topic, committed):
    """Its own connector takes one: the only call of a batch job that does not move as it is."""
    options = {"kafka.bootstrap.servers": broker.address, "topic": topic}
    with pytest.raises(AnalysisException) as refused:
        numbered(spark, 1).write.format("moldau").options(**options).save()
    assert refused.value.getCondition() == "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"
    assert committed() == Counter()


# Frames, all or nothing


ONCE = {"exactly.once": "true"}
STAGED = {**ONCE, "exactly.once.inline.max.bytes": "0"}


@pytest.mark.parametrize("options", [ONCE, STAGED], ids=["inline", "staged"])
def test_a_frame_appears_all_at_once(spark, broker, topic, committed, options):
    write(numbered(spark, 500, key="CAST(id AS STRING)"), broker, topic=topic, **options)
    found = committed()
    assert found == Counter(b"%d" % number for number in range(500))


def test_nothing_is_left_of_what_a_frame_staged(spark, broker, topic):
    before = staging_topics(broker)
    write(numbered(spark, 500), broker, topic=topic, **STAGED)
    assert staging_topics(broker) == before


@pytest.mark.parametrize("options", [ONCE, STAGED], ids=["inline", "staged"])
def test_a_frame_with_a_task_that_fails_does_not_appear(spark, broker, topic, committed, options):
    failing = numbered(spark, 500, key="IF(id = 499, raise_error('on purpose'), 'k')")
    with pytest.raises(PySparkException, match="on purpose"):
        write(failing.repartition(2), broker, topic=topic, **options)
    assert committed() == Counter()


def test_nothing_is_left_of_what_a_task_staged_that_failed(spark, broker, topic, committed):
    """Its job has no task that succeeded, so no message names the topic for staging."""
    before = staging_topics(broker)
    last = 50_000  # far behind what has been staged by then
    failing = numbered(spark, last + 1, partition=f"IF(id = {last}, 7, 0)").coalesce(1)
    with pytest.raises(PySparkException, match="asks for partition 7"):
        write(failing, broker, topic=topic, **STAGED, **{"kafka.batch.size": "1000"})
    assert staging_topics(broker) == before
    assert committed() == Counter()


def test_nothing_is_left_of_a_frame_that_could_not_be_published(spark, broker, topic, committed):
    before = staging_topics(broker)
    refused = {**STAGED, "kafka.transaction.timeout.ms": str(2**31 - 1)}
    with pytest.raises(PySparkException, match="INVALID_TRANSACTION_TIMEOUT"):
        write(numbered(spark, 500), broker, topic=topic, **refused)
    assert staging_topics(broker) == before
    assert committed() == Counter()


def test_a_frame_written_again_under_its_id_is_there_once(spark, broker, topic, committed):
    options = {**STAGED, "exactly.once.id": f"report-{uuid.uuid4()}", "topic": topic}
    for _ in range(2):
        write(numbered(spark, 100), broker, **options)
    assert committed() == Counter(b"%d" % n for n in range(100))


def test_frames_without_an_id_are_written_as_often_as_one_asks(spark, broker, topic, committed):
    for _ in range(2):
        write(numbered(spark, 10), broker, topic=topic, **ONCE)
    assert set(committed().values()) == {2}


def staging_topics(broker):
    """Return the topics for staging that there are: those of streams stay."""
    with Admin(broker.address) as admin:
        names = set(admin.list_topics())
    return {name for name in names if name.startswith(DEFAULT_STAGING_PREFIX)}


# Streams


def stream(spark, partitions=2):
    """Return a stream that gives the same numbers in the same batches however often it is run."""
    source = spark.readStream.format("rate-micro-batch")
    source = source.option("rowsPerBatch", ROWS_PER_BATCH).option("numPartitions", partitions)
    return source.load().selectExpr("CAST(value AS STRING) AS key", "CAST(value AS STRING) value")


def run_stream(frame, broker, topic, checkpoint, **options):
    """Run a stream for a batch; return the number of the last one that Spark has noted as done."""
    writer = frame.writeStream.format("moldau").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(checkpoint)).option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", broker.address)
    writer.options(**options).start().awaitTermination()
    return last_noted(checkpoint)


def last_noted(checkpoint):
    numbers = [int(one.name) for one in checkpoint.glob("commits/*") if one.name.isdecimal()]
    return max(numbers, default=-1)


def batches_up_to(last):
    return Counter(b"%d" % number for number in range((last + 1) * ROWS_PER_BATCH))


def test_a_stream_is_written(spark, broker, topic, committed, tmp_path):
    for _ in range(2):
        last = run_stream(stream(spark), broker, topic, tmp_path)
    assert last >= 1
    assert committed() == batches_up_to(last)


@pytest.mark.parametrize(
    "options",
    [pytest.param(ONCE, marks=pytest.mark.long, id="inline"), pytest.param(STAGED, id="staged")],
)
def test_a_stream_that_died_before_it_noted_its_commit_writes_nothing_twice(
    spark, broker, topic, committed, tmp_path, options
):
    """Spark's note of the last batch is taken away: that is what such a death leaves."""
    for number in range(3):
        last = run_stream(stream(spark, partitions=1 + number), broker, topic, tmp_path, **options)
        for note in tmp_path.glob(f"commits/*{last}*"):
            note.unlink()
    last = run_stream(stream(spark), broker, topic, tmp_path, **options)
    assert last >= 0
    assert committed() == batches_up_to(last)


def test_spark_tells_its_tasks_the_run_of_their_query(spark, tmp_path):
    """By it a publisher of an earlier run is told apart."""

    @functions.udf(StringType(), useArrow=False)
    def told(_):
        return TaskContext.get().getLocalProperty(RUN_PROPERTY)

    for _ in range(2):
        seen: set[str] = set()
        writer = stream(spark).select(told("value").alias("run")).writeStream
        writer = writer.foreachBatch(lambda rows, _, seen=seen: seen.update(*rows.collect()))
        writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        query = writer.start()
        query.awaitTermination()
        assert seen == {str(query.runId)}


def test_a_stream_whose_tasks_fail_writes_each_row_once(spark, broker, topic, committed, tmp_path):
    flags = tmp_path / "failed"
    flags.mkdir()
    checkpoint = tmp_path / "checkpoint"

    @functions.udf(BinaryType(), useArrow=False)
    def failing_once(value):
        """Fail in the middle of a task, the first time its batch is tried.

        Spark, started again, does that batch and then the next, which fails in its turn.
        """
        flag = flags / value
        if int(value) % ROWS_PER_BATCH == ROWS_PER_BATCH - 1 and not flag.exists():
            flag.touch()
            raise RuntimeError("on purpose")
        return value.encode()

    frame = stream(spark).select("key", failing_once("value").alias("value"))
    for batch_id in range(2):
        with pytest.raises(PySparkException, match="on purpose"):
            run_stream(frame, broker, topic, checkpoint, **STAGED)
        assert last_noted(checkpoint) == batch_id - 1
        assert committed() == batches_up_to(batch_id - 1)


@pytest.mark.long
def test_streams_of_one_driver_do_not_end_each_other(spark, broker, tmp_path):
    values = [b"%d" % number for number in range(8)]
    source = create_topic(broker.address, fresh_topic("one-source"))
    send(broker.address, source, values)
    servers = {"kafka.bootstrap.servers": broker.address}
    reading = {**servers, "subscribe": source, "startingOffsets": "earliest"}
    topics = [create_topic(broker.address, fresh_topic("one-of-many")) for _ in range(3)]
    queries = []
    for topic in topics:
        rows = spark.readStream.format("moldau").options(**reading, maxOffsetsPerTrigger="1").load()
        writing = {**servers, **ONCE, "topic": topic, "checkpointLocation": f"{tmp_path}/{topic}"}
        writer = rows.select("value").writeStream.format("moldau").options(**writing)
        queries.append(writer.trigger(availableNow=True).start())
    for query in queries:
        query.awaitTermination()
    for topic in topics:
        assert [row.value for row in stored_rows(broker.address, topic)] == values


def test_a_stream_without_rows_writes_nothing(spark, broker, topic, committed, tmp_path):
    frame = stream(spark).where("value < 0")
    run_stream(frame, broker, topic, tmp_path, **STAGED)
    assert committed() == Counter()


def test_a_checkpoint_that_was_taken_back_is_refused(spark, broker, topic, committed, tmp_path):
    for _ in range(2):
        last = run_stream(stream(spark), broker, topic, tmp_path, **ONCE)
    for number in (last, last - 1):
        for note in (*tmp_path.glob(f"commits/*{number}*"), *tmp_path.glob(f"offsets/*{number}*")):
            note.unlink()
    with pytest.raises(PySparkException, match="the checkpoint was taken back"):
        run_stream(stream(spark), broker, topic, tmp_path, **ONCE)
    assert committed() == batches_up_to(last)
