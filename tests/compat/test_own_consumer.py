"""The consumer against a real broker: Moldau, or Kafka where the suite runs on that.

What the group adds is shown elsewhere; here partitions are assigned by hand.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from itertools import chain, islice

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kafka_harness.waiting import eventually
from leaks import run_without_leaks
from moldau.client.consumer import AsyncConsumer, Consumer
from moldau.client.errors import (
    ClientClosed,
    ConcurrentUse,
    InvalidState,
    NoOffset,
    OffsetOutOfRange,
    RequestTimedOut,
    SerializationFailed,
    UnknownTopicOrPartition,
)
from moldau.client.records import TopicPartition

WAIT_MS = 15_000

OLD_VERSIONS = {
    "1.1": {1: 6, 2: 2, 3: 5, 10: 1, 18: 1, 23: 0},
    "magic 1": {1: 2, 2: 1, 3: 4, 18: 0},
    "magic 0": {1: 1, 2: 1, 3: 1, 18: 0},
}
"""The newest Fetch, ListOffsets, Metadata, ... of a broker as old as that."""


@pytest.fixture(scope="module")
def quick_broker(tmp_path_factory):
    """A broker whose groups form at once and whose cleaner never rests."""
    settings = {"group.initial.rebalance.delay.ms": "0", "log.cleaner.backoff.ms": "100"}
    with make_broker(kind_under_test(), tmp_path_factory.mktemp("quick"), settings) as running:
        yield running


def topic_with(broker, *counts):
    """Create a topic whose partitions hold this many records, named by partition and offset."""
    topic = create_topic(broker.address, fresh_topic("own-consumer"), len(counts))
    for partition, count in enumerate(counts):
        if count:
            send(broker.address, topic, numbered(partition, count), partition)
    return topic


def numbered(partition, count, start=0):
    return [b"%d-%d" % (partition, offset) for offset in range(start, start + count)]


def reading(broker, **settings):
    return AsyncConsumer(broker.address, **{"auto_offset_reset": "earliest", **settings})


async def some(consumer, count):
    """Iterate over this many records, and leave the loop."""
    async with aclosing(aiter(consumer)) as walk:
        return [await anext(walk) for _ in range(count)]


def values(records):
    return [record.value for record in records]


# Reading


def test_every_record_of_every_partition_is_handed_out_once(broker):
    topic = topic_with(broker, 700, 0, 1300)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            assert len(consumer.assignment()) == 3
            records = await some(consumer, 2000)
            assert await consumer.poll(50) == []
            for partition in range(3):
                assert consumer.lag((topic, partition)) == 0
        for partition, count in ((0, 700), (2, 1300)):
            of_it = [record for record in records if record.partition == partition]
            assert values(of_it) == numbered(partition, count)
            assert [record.offset for record in of_it] == list(range(count))

    run_without_leaks(scenario())


def test_a_thread_reads_as_asyncio_does(broker):
    topic = topic_with(broker, 900, 600)
    with Consumer(broker.address, topics=[topic], auto_offset_reset="earliest") as consumer:
        records = list(islice(consumer, 1000))
        records += islice(consumer, 500)
        for partition, count in enumerate((900, 600)):
            of_it = [record for record in records if record.partition == partition]
            assert values(of_it) == numbered(partition, count)
            assert consumer.position((topic, partition)) == count
    assert not any(one.name == "moldau-consumer" for one in threading.enumerate())


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read(broker, codec):
    topic = create_topic(broker.address, fresh_topic("own-codec"))
    sent = [b"%d" % index * 50 for index in range(500)]
    send(broker.address, topic, sent, codec=codec)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            assert values(await some(consumer, 500)) == sent

    run_without_leaks(scenario())


@pytest.mark.parametrize("age", list(OLD_VERSIONS))
def test_old_versions_do(broker, age):
    if kind_under_test() == "kafka":
        pytest.skip("Kafka 4 does not speak to clients of 1.1 (KIP-896)")
    topic = topic_with(broker, 300, 300)

    async def scenario():
        ceilings = OLD_VERSIONS[age]
        async with reading(broker, topics=[topic], version_ceilings=ceilings) as consumer:
            assert len(await some(consumer, 600)) == 600
            assert await consumer.end_offsets([(topic, 0)]) == {TopicPartition(topic, 0): 300}
            consumer.seek((topic, 0), 290)
            assert values(await some(consumer, 10)) == numbered(0, 10, 290)

    run_without_leaks(scenario())


def test_a_record_larger_than_every_fetch_setting_still_comes(broker):
    topic = create_topic(broker.address, fresh_topic("own-large"))
    large = b"x" * 300_000
    send(broker.address, topic, [b"first", large, b"last"])

    async def scenario():
        limits = {"max_partition_fetch_bytes": 1000, "fetch_max_bytes": 1000}
        async with reading(broker, topics=[topic], **limits) as consumer:
            assert set(values(await some(consumer, 3))) == {b"first", large, b"last"}

    run_without_leaks(scenario())


def test_little_is_fetched_ahead_while_the_user_is_busy(broker):
    topic = create_topic(broker.address, fresh_topic("own-ahead"))
    send(broker.address, topic, [b"%05d" % index + bytes(1000) for index in range(4000)])

    async def scenario():
        ahead = {"max_partition_fetch_bytes": 100_000, "prefetch_max_bytes": 300_000}
        async with reading(broker, topics=[topic], **ahead) as consumer:
            assert len(await some(consumer, 1)) == 1
            for _ in range(20):
                await asyncio.sleep(0.01)
            (state,) = consumer._core.positions
            assert state.buffered_size <= 300_000
            rest = await some(consumer, 3999)
            assert [int(record.value[:5]) for record in rest] == list(range(1, 4000))

    run_without_leaks(scenario())


# Polling and batches


def test_a_poll_hands_out_what_is_there_up_to_a_number(broker):
    topic = topic_with(broker, 120)

    async def scenario():
        async with reading(broker, topics=[topic], max_poll_records=50) as consumer:
            polled = [await consumer.poll(WAIT_MS) for _ in range(2)]
            polled.append(await consumer.poll(WAIT_MS, max_records=7))
            assert await consumer.position((topic, 0)) == 107
            polled.append(await consumer.poll(WAIT_MS))
            assert [len(records) for records in polled] == [50, 50, 7, 13]
            assert values(chain(*polled)) == numbered(0, 120)
            assert await consumer.poll() == []
            with pytest.raises(ValueError, match="0 records"):
                await consumer.poll(max_records=0)

    run_without_leaks(scenario())


def test_a_batch_is_of_one_partition(broker):
    topic = topic_with(broker, 60, 60, 60)

    async def scenario():
        async with reading(broker, topics=[topic], max_poll_records=40) as consumer:
            count = 0
            async with aclosing(consumer.batches()) as batches:
                async for batch in batches:
                    assert len({record.partition for record in batch}) == 1
                    assert len(batch) <= 40
                    count += len(batch)
                    if count == 180:
                        break

    run_without_leaks(scenario())


def test_records_that_arrive_later_end_the_wait(broker):
    topic = topic_with(broker, 5)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            assert len(await some(consumer, 5)) == 5
            waiting = asyncio.create_task(consumer.poll(WAIT_MS))
            await asyncio.to_thread(send, broker.address, topic, numbered(0, 1, 5))
            assert values(await waiting) == numbered(0, 1, 5)

    run_without_leaks(scenario())


def test_record_batches_hold_what_records_do(broker):
    topic = topic_with(broker, 700, 300)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            seen = [(one.partition, one.value) for one in await some(consumer, 250)]
            async with aclosing(consumer.arrow_batches()) as batches:
                while len(seen) < 1000:
                    batch = await anext(batches)
                    rows = zip(batch["partition"].to_pylist(), batch["value"].to_pylist(),
                               strict=True)  # fmt: skip
                    seen += rows
            for partition, count in enumerate((700, 300)):
                of_it = [value for number, value in seen if number == partition]
                assert of_it == numbered(partition, count)
                assert await consumer.position((topic, partition)) == count

    run_without_leaks(scenario())


def test_a_thread_may_take_record_batches(broker):
    topic = topic_with(broker, 500)
    with Consumer(broker.address, topics=[topic], auto_offset_reset="earliest") as consumer:
        values_seen = []
        for batch in consumer.arrow_batches():
            values_seen += batch["value"].to_pylist()
            if len(values_seen) == 500:
                break
    assert values_seen == numbered(0, 500)


# Positions


def test_seeking_goes_where_it_is_told(broker):
    topic = topic_with(broker, 100)
    partition = TopicPartition(topic, 0)

    async def scenario():
        async with reading(broker) as consumer:
            consumer.assign([partition])
            assert await consumer.position(partition) == 0
            async with aclosing(aiter(consumer)) as walk:
                assert (await anext(walk)).offset == 0
                consumer.seek(partition, 90)
                assert (await anext(walk)).offset == 90
                assert await consumer.position(partition) == 91
            consumer.seek_to_beginning(partition)
            assert (await consumer.poll(WAIT_MS, max_records=1))[0].offset == 0
            consumer.seek_to_end()
            assert await consumer.position(partition) == 100
            assert await consumer.poll(100) == []
            assert (consumer.lag(partition), consumer.high_watermark(partition)) == (0, 100)
            with pytest.raises(ValueError, match="no record has offset -1"):
                consumer.seek(partition, -1)
            with pytest.raises(InvalidState, match="not assigned"):
                consumer.seek((topic, 5), 0)

    run_without_leaks(scenario())


@pytest.mark.parametrize("ahead", [1, 1 << 25])
def test_a_paused_partition_waits_in_the_middle_of_a_loop(broker, ahead):
    topic = topic_with(broker, 50, 50)
    paused, other = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def scenario():
        async with reading(broker, prefetch_max_bytes=ahead) as consumer:
            consumer.assign([paused])
            async with aclosing(aiter(consumer)) as walk:
                assert [(await anext(walk)).offset for _ in range(10)] == list(range(10))
                consumer.pause(paused)
                consumer.assign([paused, other])
                rest = [await anext(walk) for _ in range(50)]
                assert {record.partition for record in rest} == {1}
                assert consumer.paused() == {paused}
                assert await consumer.position(paused) == 10
                consumer.resume(paused)
                assert [(await anext(walk)).offset for _ in range(40)] == list(range(10, 50))

    run_without_leaks(scenario())


def test_latest_begins_with_what_comes_next(broker):
    topic = topic_with(broker, 10)

    async def scenario():
        async with AsyncConsumer(broker.address, topics=[topic]) as consumer:
            assert await consumer.position((topic, 0)) == 10
            await asyncio.to_thread(send, broker.address, topic, [b"new"])
            assert values(await consumer.poll(WAIT_MS)) == [b"new"]

    run_without_leaks(scenario())


def test_without_a_policy_the_user_decides(broker):
    topic = topic_with(broker, 10)

    async def scenario():
        async with reading(broker, topics=[topic], auto_offset_reset="none") as consumer:
            for _ in range(2):
                with pytest.raises(NoOffset, match=f"{topic}-0 has no committed offset"):
                    await consumer.poll(WAIT_MS)
            consumer.seek((topic, 0), 4)
            assert len(await consumer.poll(WAIT_MS)) == 6
            consumer.seek((topic, 0), 400)
            with pytest.raises(OffsetOutOfRange, match="offset 400"):
                await consumer.poll(WAIT_MS)

    run_without_leaks(scenario())


def test_a_position_beyond_the_log_is_reset_by_the_policy(broker):
    topic = topic_with(broker, 10)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            consumer.seek((topic, 0), 10_000)
            assert values(await some(consumer, 10)) == numbered(0, 10)

    run_without_leaks(scenario())


def timed_topic(broker):
    """Create a topic with a record a second, the last of them now."""
    topic = create_topic(broker.address, fresh_topic("own-times"))
    producer = Producer({"bootstrap.servers": broker.address})
    now_ms = 1_700_000_000_000
    for index in range(10):
        producer.produce(topic, b"%d" % index, partition=0, timestamp=now_ms + index * 1000)
    assert producer.flush(15) == 0
    return topic, now_ms


def test_offsets_are_looked_up_by_time(broker):
    topic, start_ms = timed_topic(broker)
    partition = TopicPartition(topic, 0)

    async def scenario():
        async with reading(broker) as consumer:
            found = await consumer.offsets_for_times({partition: start_ms + 3500})
            assert found[partition][:2] == (4, start_ms + 4000)
            late = await consumer.offsets_for_times({partition: start_ms + 10**9})
            assert late == {partition: None}
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 10}
            assert await consumer.partitions_for(topic) == {partition}
            with pytest.raises(ValueError, match="milliseconds"):
                await consumer.offsets_for_times({partition: -1})

    run_without_leaks(scenario())


def test_a_reset_by_duration_goes_back_in_time(broker):
    topic, _ = timed_topic(broker)

    async def scenario():
        for policy, position in (("by_duration:P20000D", 0), ("by_duration:PT1H", 10)):
            async with reading(broker, topics=[topic], auto_offset_reset=policy) as consumer:
                assert await consumer.position((topic, 0)) == position

    run_without_leaks(scenario())


def test_deleted_records_move_the_beginning(broker):
    topic = topic_with(broker, 20)
    admin = AdminClient({"bootstrap.servers": broker.address})
    for done in admin.delete_records([ConfluentPartition(topic, 0, 15)]).values():
        done.result(15)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            assert await consumer.beginning_offsets([(topic, 0)]) == {TopicPartition(topic, 0): 15}
            consumer.seek((topic, 0), 3)  # gone: out of range, so earliest
            assert values(await some(consumer, 5)) == numbered(0, 5, 15)

    run_without_leaks(scenario())


def test_a_compacted_log_is_read_over_its_gaps(quick_broker):
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01",
              "segment.bytes": "1048576"}  # fmt: skip
    topic = create_topic(quick_broker.address, fresh_topic("own-compacted"), 1, config)
    producer = Producer({"bootstrap.servers": quick_broker.address, "enable.idempotence": True})
    for index in range(3000):
        producer.produce(topic, b"%d" % index + bytes(1000), b"key-%d" % (index % 10), partition=0)
    assert producer.flush(15) == 0

    async def read():
        async with reading(quick_broker, topics=[topic]) as consumer:
            records = []
            while await consumer.position((topic, 0)) < 3000:
                records += await consumer.poll(WAIT_MS)
            return records

    records = eventually(
        lambda: (found := asyncio.run(read())) and len(found) < 2500 and found,
        "it is compacted",
        30,
    )
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    newest = {record.key: record.offset for record in records}
    assert newest == {b"key-%d" % (number % 10): number for number in range(2990, 3000)}


# Transactions


def test_only_committed_records_are_read_if_that_is_asked_for(broker):
    topic = create_topic(broker.address, fresh_topic("own-committed"))
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic})
    producer.init_transactions(15)
    for outcome in ("abort", "commit", "abort", "commit"):
        producer.begin_transaction()
        for index in range(50):
            producer.produce(topic, b"%s-%d" % (outcome.encode(), index), partition=0)
        producer.flush(15)
        getattr(producer, f"{outcome}_transaction")(15)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(15)
    expected = [b"commit-%d" % index for index in range(50)] * 2

    async def scenario():
        async with reading(broker, topics=[topic], isolation_level="read_committed") as consumer:
            assert values(await some(consumer, 100)) == expected
            assert await consumer.poll(300) == []
            (end,) = (await consumer.end_offsets([(topic, 0)])).values()
            assert await consumer.position((topic, 0)) == end == 204
            assert (consumer.lag((topic, 0)), consumer.high_watermark((topic, 0))) == (0, 205)
        async with reading(broker, topics=[topic]) as consumer:
            assert len(await some(consumer, 201)) == 201

    try:
        run_without_leaks(scenario())
    finally:
        producer.abort_transaction(15)


# Users


def test_cancelling_a_wait_anywhere_loses_nothing_and_repeats_nothing(broker):
    topic = topic_with(broker, 3000)

    async def scenario():
        seen = []

        async def work(consumer):
            async for record in consumer:
                seen.append(record.offset)
                if len(seen) % 7 == 0:
                    await asyncio.sleep(0)

        async def work_by_polls(consumer):
            while True:
                seen.extend(record.offset for record in await consumer.poll(WAIT_MS))

        async with reading(broker, topics=[topic], max_poll_records=100) as consumer:
            turns = 0
            while len(seen) < 3000:
                turns += 1
                job = work if turns % 2 else work_by_polls
                task = asyncio.create_task(job(consumer))
                for _ in range(turns % 23):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                await asyncio.get_running_loop().shutdown_asyncgens()
                if not seen or seen[-1] < 2999:
                    await asyncio.sleep(0.001)
            assert await consumer.position((topic, 0)) == 3000
        assert seen == list(range(3000))

    run_without_leaks(scenario())


def test_two_tasks_at_once_are_told(broker):
    topic = topic_with(broker, 0)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            waiting = asyncio.create_task(consumer.poll(WAIT_MS))
            await asyncio.sleep(0.01)
            with pytest.raises(ConcurrentUse):
                await consumer.poll(10)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert await consumer.poll(10) == []

    run_without_leaks(scenario())


def test_two_threads_at_once_are_told(broker):
    topic = topic_with(broker, 0)
    with Consumer(broker.address, topics=[topic]) as consumer:
        waiting = threading.Thread(target=consumer.poll, args=(500,))
        waiting.start()
        complaints = []
        while waiting.is_alive() and not complaints:
            try:
                consumer.poll(0)
            except ConcurrentUse as error:
                complaints.append(error)
        waiting.join()
        assert complaints


def test_closing_ends_the_loop_of_another_task(broker):
    topic = topic_with(broker, 3)

    async def scenario():
        consumer = reading(broker, topics=[topic])
        await consumer.start()
        all_seen = asyncio.Event()

        async def work():
            async for record in consumer:
                if record.offset == 2:
                    all_seen.set()

        task = asyncio.create_task(work())
        await all_seen.wait()
        await consumer.close()
        await task
        await consumer.close()
        with pytest.raises(ClientClosed):
            await consumer.poll(0)

    run_without_leaks(scenario())


def test_closing_ends_the_loop_of_another_thread(broker):
    topic = topic_with(broker, 3)
    consumer = Consumer(broker.address, topics=[topic], auto_offset_reset="earliest")
    consumer.start()
    seen = []
    all_seen = threading.Event()

    def work():
        for record in consumer:
            seen.append(record)
            if len(seen) == 3:
                all_seen.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert all_seen.wait(15)
    consumer.close()
    thread.join(15)
    assert not thread.is_alive()
    with pytest.raises(ClientClosed):
        consumer.poll(0)


def test_a_record_that_cannot_be_read_is_named_and_can_be_passed(broker):
    topic = create_topic(broker.address, fresh_topic("own-deserialize"))
    send(broker.address, topic, [b"1", b"2", b"three", b"4"])

    async def scenario():
        async with reading(broker, topics=[topic], value_deserializer=int) as consumer:
            assert values(await consumer.poll(WAIT_MS)) == [1, 2]
            with pytest.raises(SerializationFailed, match=f"{topic}-0 offset 2") as caught:
                await consumer.poll(WAIT_MS)
            assert isinstance(caught.value.__cause__, ValueError)
            assert await consumer.position((topic, 0)) == 2
            consumer.seek((topic, 0), 3)
            assert values(await consumer.poll(WAIT_MS)) == [4]

    run_without_leaks(scenario())


def test_interceptors_see_and_change_records_and_a_failing_one_is_passed_over(broker):
    topic = topic_with(broker, 5)

    class Failing:
        def on_consume(self, records):
            raise RuntimeError("no")

    class Dropping:
        def on_consume(self, records):
            return [record for record in records if record.offset % 2]

    async def scenario():
        both = [Failing(), Dropping()]
        async with reading(broker, topics=[topic], interceptor_classes=both) as consumer:
            assert [record.offset for record in await consumer.poll(WAIT_MS)] == [1, 3]
            assert await consumer.position((topic, 0)) == 5

    run_without_leaks(scenario())


def test_a_topic_that_is_not_there_is_named(broker):
    async def scenario():
        settings = {"default_api_timeout_ms": 500, "allow_auto_create_topics": False}
        async with reading(broker, **settings) as consumer:
            missing = (fresh_topic("own-missing"), 0)
            consumer.assign([missing])
            with pytest.raises(UnknownTopicOrPartition, match="own-missing"):
                await consumer.poll(WAIT_MS)
            with pytest.raises((UnknownTopicOrPartition, RequestTimedOut)):
                await consumer.end_offsets([missing])

    run_without_leaks(scenario())


def test_a_consumer_without_a_group_says_so(broker):
    topic = topic_with(broker, 1)

    async def scenario():
        async with reading(broker, topics=[topic]) as consumer:
            with pytest.raises(InvalidState, match="no group"):
                await consumer.commit()
            with pytest.raises(InvalidState, match="no group"):
                consumer.subscribe([topic])
        with pytest.raises(InvalidState, match="not been started"):
            await reading(broker).poll(0)

    run_without_leaks(scenario())


# Brokers that come and go


def test_a_topic_created_again_is_read_from_its_new_beginning(broker):
    topic = topic_with(broker, 50)
    admin = AdminClient({"bootstrap.servers": broker.address})

    async def scenario():
        async with reading(broker, topics=[topic], allow_auto_create_topics=False) as consumer:
            assert len(await some(consumer, 50)) == 50
            admin.delete_topics([topic])[topic].result(15)
            assert await consumer.poll(300) == []  # it is seen that the topic is gone
            await asyncio.to_thread(create_again, broker.address, topic)
            assert set(values(await some(consumer, 3))) == {b"a", b"b", b"c"}

    asyncio.run(asyncio.wait_for(scenario(), 45))


def create_again(address, topic):
    create_topic(address, topic)
    send(address, topic, [b"a", b"b", b"c"])


def test_a_restart_of_the_broker_loses_nothing_and_repeats_nothing(tmp_path):
    with make_broker("moldau", tmp_path) as own:
        topic = create_topic(own.address, "restarted")
        send(own.address, topic, numbered(0, 2000))

        async def scenario():
            async with reading(own, topics=[topic]) as consumer:
                records = await some(consumer, 700)
                await asyncio.to_thread(own.kill)
                await asyncio.to_thread(own.start)
                await asyncio.to_thread(send, own.address, topic, numbered(0, 500, 2000))
                records += await some(consumer, 1800)
                assert values(records) == numbered(0, 2500)

        run_without_leaks(scenario(), timeout_s=45)


# The blocking face and its group


def test_a_listener_runs_in_the_users_thread_and_may_call_the_consumer(quick_broker):
    topic = topic_with(quick_broker, 30)
    partition = TopicPartition(topic, 0)
    heard = []

    class Listener:
        def on_partitions_assigned(self, partitions):
            heard.append(("assigned", threading.current_thread(), set(partitions)))
            if partitions:
                consumer.seek(partition, 25)

        def on_partitions_revoked(self, partitions):
            heard.append(("revoked", threading.current_thread(), set(partitions)))
            consumer.commit()

    consumer = Consumer(quick_broker.address, group_id=topic, enable_auto_commit=False)
    with consumer:
        consumer.subscribe([topic], listener=Listener())
        records = consumer.poll(WAIT_MS)
        assert [record.offset for record in records] == [25, 26, 27, 28, 29]
    with Consumer(quick_broker.address, group_id=topic) as another:
        assert another.committed([partition])[partition].offset == 30
    me = threading.current_thread()
    assert heard == [("assigned", me, {partition}), ("revoked", me, {partition})]


def test_a_loop_commits_what_it_is_done_with_and_goes_on_there(quick_broker):
    topic = topic_with(quick_broker, 40)
    settings = {"group_id": topic, "topics": [topic], "auto_offset_reset": "earliest"}

    def crash_at(offset):
        with Consumer(quick_broker.address, **settings) as consumer:
            for record in consumer:
                if record.offset == offset:
                    raise RuntimeError("the work failed")

    with pytest.raises(RuntimeError):
        crash_at(17)
    with Consumer(quick_broker.address, **settings) as consumer:
        assert next(iter(consumer)).offset == 17  # not done with, so it comes again
        assert [record.offset for record in islice(consumer, 22)] == list(range(18, 40))
    with Consumer(quick_broker.address, **settings) as consumer:
        assert consumer.committed([(topic, 0)])[TopicPartition(topic, 0)].offset == 40
