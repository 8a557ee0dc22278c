"""Brokers that move, cut their logs, recommend others, or lie: the consumer copes, or says why."""

from __future__ import annotations

import asyncio
import struct

import pytest

from kits.consumer_kit import batch
from kits.leaks import run_without_leaks
from kits.scripted_broker import METADATA
from kits.scripted_log import EPOCHS, FETCH, TOPIC, ScriptedLog
from moldau.client.consumer import AsyncConsumer
from moldau.client.errors import (
    CorruptAnswer,
    LogTruncated,
    RecordTooLarge,
    TopicAuthorizationFailed,
)
from moldau.client.records import OffsetAndMetadata
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    DivergingEpoch,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
)

PARTITION = (TOPIC, 0)
WAIT_MS = 10_000


def reading(broker, **settings):
    usual = {
        "auto_offset_reset": "earliest",
        "retry_backoff_ms": 5,
        "retry_backoff_max_ms": 5,
        "reconnect_backoff_ms": 5,
        "fetch_max_wait_ms": 10,
    }
    return AsyncConsumer(broker.address, **{**usual, **settings})


async def polled(consumer, count):
    """Poll until this many records have come."""
    records = []
    while len(records) < count:
        records += await consumer.poll(timeout_ms=WAIT_MS)
    return [record.value for record in records]


def assigned(scenario, *batches, **settings):
    """Run a scenario with a scripted log and a consumer of it."""

    async def main():
        async with ScriptedLog(*batches) as broker, reading(broker, **settings) as consumer:
            consumer.assign([PARTITION])
            await scenario(broker, consumer)

    run_without_leaks(main())


AB = batch(0, [b"a", b"b"], epoch=0)
CD = batch(2, [b"c", b"d"], epoch=0)


def new_term(broker, epoch):
    broker.topics = {TOPIC: [(1, epoch)]}


def test_a_new_leader_is_asked_whether_the_log_is_still_the_same():
    async def scenario(broker, consumer):
        assert await polled(consumer, 2) == [b"a", b"b"]
        new_term(broker, 3)
        broker.epoch_end = (0, 2)
        broker.batches.append(CD)
        assert await polled(consumer, 2) == [b"c", b"d"]
        (asked,) = broker.requests(EPOCHS)
        assert asked.replica_id == -1
        (question,) = asked.topics[0].partitions
        assert (question.current_leader_epoch, question.leader_epoch) == (3, 0)

    assigned(scenario, AB)


def test_a_log_that_was_cut_is_read_again_from_where_it_parts():
    async def scenario(broker, consumer):
        assert len(await polled(consumer, 4)) == 4
        new_term(broker, 3)
        broker.batches = [AB, batch(2, [b"C"], epoch=3)]
        broker.epoch_end = (0, 2)
        assert await polled(consumer, 1) == [b"C"]
        assert await consumer.position(PARTITION) == 3

    assigned(scenario, AB, CD)


def test_without_a_policy_a_cut_log_is_the_users_to_decide():
    async def scenario(broker, consumer):
        consumer.seek(PARTITION, 0)
        assert len(await polled(consumer, 4)) == 4
        new_term(broker, 3)
        broker.batches = [AB, batch(2, [b"C"], epoch=3)]
        broker.epoch_end = (0, 2)
        for _ in range(2):
            with pytest.raises(LogTruncated, match="t-0 was cut at 2, before offset 4"):
                await polled(consumer, 1)
        consumer.seek(PARTITION, 2)
        assert await polled(consumer, 1) == [b"C"]

    assigned(scenario, AB, CD, auto_offset_reset="none")


def test_what_was_fetched_but_not_handed_out_of_a_cut_log_never_is():
    async def scenario(broker, consumer):
        assert [one.value for one in await consumer.poll(timeout_ms=WAIT_MS, max_records=1)] == [
            b"a"
        ]
        broker.batches = [batch(0, [b"a"], epoch=0), batch(1, [b"B"], epoch=3)]
        broker.epoch_end = (0, 1)
        new_term(broker, 3)
        await broker.until_asked(EPOCHS, 1)
        assert await polled(consumer, 1) == [b"B"]

    assigned(scenario, AB, CD)


def test_a_committed_epoch_is_validated_before_anything_is_read():
    async def scenario(broker, consumer):
        broker.epoch_end = (0, 2)
        consumer.seek(PARTITION, OffsetAndMetadata(3, "", 0))
        assert await polled(consumer, 1) == [b"C"]
        assert broker.requests(FETCH)[-1].topics[0].partitions[0].fetch_offset >= 2

    assigned(scenario, AB, batch(2, [b"C"], epoch=1))


def test_a_divergence_told_with_a_fetch_is_followed():
    async def scenario(broker, consumer):
        broker.fetches.append(
            lambda _: broker.fetched(diverging_epoch=DivergingEpoch(0, 1), records=None)
        )
        consumer.seek(PARTITION, 2)
        assert await polled(consumer, 3) == [b"b", b"c", b"d"]

    assigned(scenario, AB, CD)


def test_a_partition_without_a_leader_is_waited_for():
    async def scenario(broker, consumer):
        assert len(await polled(consumer, 2)) == 2
        broker.topics = {TOPIC: [(-1, 1)]}
        broker.fetches.append(
            lambda _: broker.fetched(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, records=None)
        )
        known = len(broker.requests(METADATA))
        await broker.until_asked(METADATA, known + 3)
        broker.topics = {TOPIC: [(1, 2)]}
        broker.batches.append(CD)
        assert await polled(consumer, 2) == [b"c", b"d"]

    assigned(scenario, AB)


def test_a_leader_named_in_an_answer_is_followed_without_asking():
    async def main():
        async with ScriptedLog(AB) as first, ScriptedLog(AB, CD, broker_id=2) as second:
            first.peers = second.peers = [first, second]
            async with reading(first) as consumer:
                consumer.assign([PARTITION])
                assert len(await polled(consumer, 2)) == 2

                def moved(_):
                    answer = first.fetched(
                        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                        current_leader=LeaderIdAndEpoch(2, 1),
                        records=None,
                    )
                    answer.node_endpoints = [NodeEndpoint(2, "127.0.0.1", second.port)]
                    return answer

                second.topics = {TOPIC: [(2, 1)]}
                first.fetches.append(moved)
                assert await polled(consumer, 2) == [b"c", b"d"]

    run_without_leaks(main())


def test_a_replica_the_leader_recommends_is_read_and_left_when_it_goes():
    async def main():
        async with ScriptedLog(AB) as leader, ScriptedLog(AB, CD, broker_id=2) as near:
            leader.peers = near.peers = [leader, near]
            near.topics = leader.topics
            leader.fetches.append(lambda _: leader.fetched(preferred_read_replica=2, records=b""))
            async with reading(leader, client_rack="here") as consumer:
                consumer.assign([PARTITION])
                assert await polled(consumer, 4) == [b"a", b"b", b"c", b"d"]
                assert leader.requests(FETCH)[0].rack_id == "here"
                leader.batches = [AB, CD, batch(4, [b"e"], epoch=0)]
                await near.stop()
                assert await polled(consumer, 1) == [b"e"]

    run_without_leaks(main())


def test_a_replica_nobody_knows_is_not_waited_for():
    async def scenario(broker, consumer):
        broker.fetches += [
            lambda _: broker.fetched(preferred_read_replica=9, records=b"") for _ in range(2)
        ]
        assert await polled(consumer, 2) == [b"a", b"b"]

    assigned(scenario, AB)


def test_a_replica_that_does_not_have_the_offset_yet_is_left_for_the_leader():
    async def main():
        async with ScriptedLog(AB, CD) as leader, ScriptedLog(AB, broker_id=2) as near:
            leader.peers = near.peers = [leader, near]
            near.topics = leader.topics
            leader.fetches.append(lambda _: leader.fetched(preferred_read_replica=2, records=b""))
            near.fetches.append(
                lambda _: near.fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, records=None)
            )
            async with reading(leader) as consumer:
                consumer.assign([PARTITION])
                consumer.seek(PARTITION, 2)
                assert await polled(consumer, 2) == [b"c", b"d"]

    run_without_leaks(main())


PASSING = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


@pytest.mark.parametrize("code", PASSING, ids=lambda code: code.name)
def test_errors_that_pass_are_waited_out(code):
    async def scenario(broker, consumer):
        for _ in range(2):
            broker.fetches.append(lambda _: broker.fetched(error_code=code, records=None))
        assert await polled(consumer, 2) == [b"a", b"b"]

    assigned(scenario, AB)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
    ids=lambda code: code.name,
)
def test_errors_of_the_session_begin_it_again(code):
    async def scenario(broker, consumer):
        broker.fetches += [lambda _: FetchResponse(error_code=code)] * 2
        assert await polled(consumer, 2) == [b"a", b"b"]

    assigned(scenario, AB)


def test_what_the_user_may_not_read_is_said_and_tried_again():
    async def scenario(broker, consumer):
        broker.fetches.append(
            lambda _: broker.fetched(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, records=None)
        )
        with pytest.raises(TopicAuthorizationFailed, match="t-0"):
            await consumer.poll(timeout_ms=WAIT_MS)
        assert await polled(consumer, 2) == [b"a", b"b"]

    assigned(scenario, AB)


def test_a_lost_connection_is_made_again_without_loss_or_repetition():
    async def scenario(broker, consumer):
        assert await polled(consumer, 2) == [b"a", b"b"]

        def vanish(asked):
            whole = asked.encoded(broker.fetched(2))
            asked.writer.write(whole[: len(whole) // 2])
            asked.writer.close()

        broker.batches.append(CD)
        broker.fetches += [vanish, vanish]
        assert await polled(consumer, 2) == [b"c", b"d"]

    assigned(scenario, AB)


def test_a_broker_that_falls_silent_is_asked_again():
    async def scenario(broker, consumer):
        broker.fetches += [lambda _: None] * 2
        assert await polled(consumer, 2) == [b"a", b"b"]

    assigned(scenario, AB, request_timeout_ms=400)


# Lies


def not_asked_for(broker):
    answer = broker.fetched()
    answer.responses[0].partitions[0].partition_index = 7
    return answer


def another_topic(broker):
    answer = broker.fetched()
    answer.responses[0].topic_id = b"\x09" * 16
    answer.responses[0].topic = "u"
    return answer


def nothing_of_what_was_asked_for(_broker):
    return FetchResponse()


@pytest.mark.parametrize("lie", [not_asked_for, another_topic, nothing_of_what_was_asked_for])
def test_an_answer_to_another_question_is_not_used(lie):
    async def scenario(broker, consumer):
        broker.fetches += [lambda _: lie(broker)] * 2
        assert await polled(consumer, 2) == [b"a", b"b"]

    assigned(scenario, AB)


def with_size(content, size):
    return content[:8] + struct.pack(">i", size) + content[12:]


@pytest.mark.parametrize(
    "content",
    [
        b"\xff" * 100,
        with_size(AB, -5),
        with_size(AB, 10),
        AB[:16] + b"\x07" + AB[17:],
        AB[:57] + struct.pack(">i", 2**31 - 1) + AB[61:],
        AB[:57] + struct.pack(">i", -3) + AB[61:],
        AB[:-4] + b"\xff" * 4,
    ],
    ids=["garbage", "negative", "short", "magic", "many", "fewer", "tail"],
)
@pytest.mark.parametrize("check_crcs", [True, False], ids=["checked", "unchecked"])
def test_records_that_are_none_are_named_with_their_place(content, check_crcs):
    async def scenario(broker, consumer):
        broker.fetches.append(lambda _: broker.fetched(records=content))
        with pytest.raises(CorruptAnswer, match="t-0"):
            await polled(consumer, 2)
        consumer.seek(PARTITION, 2)
        broker.batches = [CD]
        assert await polled(consumer, 2) == [b"c", b"d"]

    assigned(scenario, AB, check_crcs=check_crcs)


def test_records_from_before_the_position_alone_are_no_answer():
    async def scenario(broker, consumer):
        consumer.seek(PARTITION, 2)
        broker.fetches.append(lambda _: broker.fetched(records=AB))
        with pytest.raises(CorruptAnswer, match=r"t-0 at offset 2.*before it"):
            await consumer.poll(timeout_ms=WAIT_MS)

    assigned(scenario, AB)


def test_a_first_batch_that_never_comes_whole_is_named():
    async def scenario(broker, consumer):
        broker.fetches.append(lambda _: broker.fetched(records=AB[:40]))
        with pytest.raises(RecordTooLarge, match="offset 0 is larger"):
            await consumer.poll(timeout_ms=WAIT_MS)
        assert await polled(consumer, 2) == [b"a", b"b"]

    assigned(scenario, AB)


def test_a_seek_makes_an_answer_on_its_way_worthless():
    async def scenario(broker, consumer):
        consumer.seek(PARTITION, 0)
        asked = asyncio.Event()
        release = asyncio.Event()

        def slow(request):
            async def later():
                asked.set()
                await release.wait()
                request.answer(broker.fetched(0))

            keep.append(asyncio.create_task(later()))

        keep = []
        broker.fetches.append(slow)
        waiting = asyncio.create_task(consumer.poll(timeout_ms=WAIT_MS))
        await asked.wait()
        consumer.seek(PARTITION, 2)
        release.set()
        assert [record.value for record in await waiting] == [b"c", b"d"]
        await asyncio.wait(keep)

    assigned(scenario, AB, CD)


def test_nothing_begins_to_be_fetched_once_the_consumer_is_closed():
    async def scenario(broker, consumer):
        assert await polled(consumer, 2) == [b"a", b"b"]
        fetcher = consumer._core._fetcher
        await consumer.close()
        fetcher.wake()

    assigned(scenario, AB)
