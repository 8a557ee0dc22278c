"""The fast path through Produce: whatever is sent, its answers and effects are the slow path's.

Every test sends the same frames to two brokers, one that has the fast path and one that does not.
"""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits import log_kit
from kits.connection_kit import FakeStream
from kits.connection_kit import frame as sized
from kits.fast_path_kit import BothPaths, OneRouteBroker
from kits.leaks import run_without_leaks
from kits.log_kit import HandClock
from kits.partition_kit import ALONE, ME, OTHER, give_role, make_partition
from kits.request_kit import session
from moldau.base.ids import PartitionKey, TopicId
from moldau.base.memory_budget import MemoryAccount, MemoryBudget
from moldau.observe.traffic import Traffic
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.protocol.registry import decode_response, encode_request, find_api
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.replication.partition import Role
from moldau.replication.partitions import Partitions
from moldau.security.session import Principal
from moldau.server.handlers import produce, produce_fast_path
from moldau.server.handlers.produce import ProduceHandler
from moldau.server.handlers.produce_fast_path import ProduceFastPath
from moldau.server.network import fast_path as network_fast_path
from moldau.server.network.connection import Connection
from moldau.server.network.dispatch import Route
from moldau.sim.disk_faults import Operation
from moldau.storage.topic_config import LogConfig

BOTH = Role(ME, 0, 0, (ME, OTHER), (ME, OTHER))
SHRUNK = Role(ME, 0, 1, (ME, OTHER), (ME,))
ELSEWHERE = Role(OTHER, 1, 1, (ME, OTHER), (OTHER,))
TOPIC_ID, OTHER_ID = TopicId(b"t" * 16), TopicId(b"o" * 16)
STRANGER = session(principal=Principal("User", "other"))


class Elsewhere:
    """Knows where a client has to go."""

    def hint(self, topic, index, listener, endpoints):
        endpoints.append(NodeEndpoint(OTHER, "elsewhere", 9092))
        return LeaderIdAndEpoch(OTHER, 1)


class Broker(OneRouteBroker):
    """Two partitions of one topic behind a dispatcher."""

    def __init__(self, *, fast_path, role=ALONE, **config):
        super().__init__()
        self.role = role
        self.disk = log_kit.Broker(**config)
        self.partitions = Partitions()
        for index in range(2):
            self.add(index, TOPIC_ID)
        clock, stats = HandClock(), self.metrics.of("Produce")
        handler = ProduceHandler(
            self.partitions, clock, None, None, Traffic(), stats, self.failed, None,
            leader_hints=Elsewhere(),
        )  # fmt: skip
        route = Route(0, "0-13", handler, self.metrics, ())
        produce_fast = ProduceFastPath(handler, stats, clock)
        self.serve(route, produce_fast, clock, has_fast_path=fast_path)

    def add(self, index, topic_id):
        key = PartitionKey("topic", index)
        log = self.disk.manager.open_or_create(key, topic_id, self.disk.config)
        self.partitions.add(make_partition(key, topic_id, log, self.role))

    def fetch(self, index, offset):
        """Play the follower: it has everything below an offset."""
        partition = self.partitions.get("topic", index)
        partition.update_follower(OTHER, offset, partition.role.leader_epoch, 0.0)

    def failed(self, error):
        self.disk.manager.directory_failed(error)

    def content(self):
        return [
            (partition.log.log_end_offset, partition.high_watermark, len(partition.log.producers))
            for partition in self.partitions
        ]


class Both(BothPaths):
    """The broker with the fast path and the one without."""

    broker, api = Broker, "Produce"


def batch(sequence=0, *, producer_id=7, **options):
    builder = BatchBuilder(
        producer_id=producer_id, producer_epoch=0, base_sequence=sequence, **options
    )
    builder.append(1000, b"key", b"value")
    return builder.build()


def frame(
    records, *, version=9, client_id="client", acks=-1, index=0, name="topic",
    topic_id=TOPIC_ID, transactional_id=None, correlation_id=5, timeout_ms=1_000_000,
):  # fmt: skip
    data = PartitionProduceData(index, records)
    topic = TopicProduceData(name, topic_id, [data])
    request = ProduceRequest(transactional_id, acks, timeout_ms, [topic])
    parts = encode_request(find_api(0), version, correlation_id, client_id, request)
    return b"".join(parts)[4:]


@pytest.mark.parametrize("version", range(3, 14))
def test_the_frequent_request_is_answered_as_on_the_slow_path(version):
    both = Both()
    for sequence in range(3):
        for index in range(2):
            sent = frame(batch(sequence), version=version, index=index, correlation_id=sequence)
            assert both.send(sent)
    assert both.fast_count == (6 if version >= produce_fast_path.FIRST_VERSION else 0)


@pytest.mark.parametrize(
    "sent",
    [
        frame(batch(), acks=0),
        frame(batch(), acks=2),
        frame(batch(), transactional_id="tx"),
        frame(batch(), transactional_id="\u00e9" * 300),  # where a length is looked for: no varint
        frame(batch(transactional=True)),
        frame(batch(control=True)),
        frame(batch(), name="other"),
        frame(batch(), name="n" * 200),
        frame(batch(), index=5),
        frame(batch(), version=13, topic_id=OTHER_ID),
        frame(batch(), client_id=None),
        frame(None),
        frame(b""),
        frame(batch() + batch(1)),
        frame(batch()[:-1]),
        frame(batch()[:-1] + b"x"),
        frame(batch(), version=13)[:-1],
        frame(batch()) + b"\0",
        frame(batch())[:-3] + b"\1\0\0\0\0",
    ],
)
def test_requests_of_another_shape_are_answered_the_same(sent):
    both = Both()
    both.send(sent)
    both.send(frame(batch(5), correlation_id=6))
    both.send(sent)


def test_duplicates_and_gaps_are_told_the_same():
    both = Both()
    for sequence in (0, 0, 1, 7, 2, 0):
        both.send(frame(batch(sequence)))
    assert both.fast_count == 5


def test_a_client_id_that_looks_like_a_request_is_only_a_name():
    both = Both()
    for client_id in ("", "\0" * 30, "\2" * 40, "x" * 300):
        both.send(frame(batch(0, producer_id=len(client_id)), client_id=client_id))
    assert both.fast_count == 4


def test_a_topic_made_again_under_its_name_is_not_meant_by_its_old_id():
    both = Both()
    sent = frame(batch(producer_id=-1), version=13)
    both.send(sent)
    both.each(lambda broker: broker.disk.manager.delete(PartitionKey("topic", 0)))
    both.each(lambda broker: broker.add(0, OTHER_ID))
    both.send(sent)
    assert both.fast_count == 1


def test_a_topic_that_syncs_before_it_answers_takes_the_slow_path():
    broker = Broker(fast_path=True, config=LogConfig(flush_messages=1))
    assert broker.fast_path.answer(memoryview(frame(batch())), session()) is None
    assert broker.content() == [(0, 0, 0), (0, 0, 0)]


def test_records_that_must_be_looked_at_take_the_slow_path():
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    broker = Broker(fast_path=True, config=config)
    assert broker.fast_path.answer(memoryview(frame(batch(codec=Codec.GZIP))), session()) is None
    assert broker.content() == [(0, 0, 0), (0, 0, 0)]


def test_a_disk_that_fails_is_told_once_and_ends_the_service():
    both = Both()
    both.send(frame(batch(0)))
    both.each(lambda one: one.disk.sim().faults.fail(Operation.APPEND, "/data", times=1))
    for sequence in (1, 2):
        both.send(frame(batch(sequence)))
    assert both.fast_count == 1


def test_a_prefix_with_a_long_name_is_not_kept():
    """Four thousand of them would hold a hundred megabytes."""
    both = Both()
    size = produce_fast_path.PREFIX_SIZE_MAX
    both.send(frame(batch(), client_id="c" * size))
    assert both.fast_count == 0
    assert both.fast.fast_path._tables == {}
    both.send(frame(batch(1), client_id="c" * (size - 100)))
    assert both.fast_count == 1


def test_prefixes_are_forgotten_before_they_fill_the_memory(monkeypatch):
    monkeypatch.setattr(network_fast_path, "PREFIXES_KEPT", 3)
    both = Both()
    for number in range(10):
        both.send(frame(batch(producer_id=-1), client_id=f"client-{number}"))
    assert both.fast_count == 10
    assert sum(map(len, both.fast.fast_path._tables.values())) <= 3


@settings(max_examples=150)
@given(data=st.data())
def test_a_damaged_request_is_told_the_same(data):
    sent = bytearray(
        frame(batch(producer_id=-1), version=data.draw(st.integers(9, 13)), client_id="c")
    )
    both = Both()
    both.send(bytes(sent))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(2, len(sent) - 1))
        sent[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(10, len(sent)))
    both.send(bytes(sent[:cut]))
    both.send(bytes(sent))


def test_what_is_known_of_one_principal_is_not_used_for_another(monkeypatch):
    both, asked = Both(), []
    decode = produce_fast_path.decode_request

    def decoding(*arguments):
        asked.append(arguments)
        return decode(*arguments)

    monkeypatch.setattr(produce_fast_path, "decode_request", decoding)
    for asker in (None, STRANGER, None, STRANGER):
        both.send(frame(batch(producer_id=-1)), asker)
    assert len(asked) == 2, "each principal's request is decoded once"
    assert both.fast_count == 4


def test_a_request_without_acks_is_decoded_once(monkeypatch):
    broker = Broker(fast_path=True)
    decoded = []
    monkeypatch.setattr(produce_fast_path, "decode_request", lambda *asked: decoded.append(asked))
    assert broker.fast_path.answer(memoryview(frame(batch(), acks=0)), session()) is None
    assert decoded == []


@pytest.mark.parametrize(
    "config",
    [
        LogConfig(cleanup_policy=frozenset({"compact"})),
        LogConfig(compression_type="gzip"),
        LogConfig(flush_messages=1),
    ],
)
def test_what_takes_the_slow_path_is_not_examined_on_the_fast_one(monkeypatch, config):
    broker = Broker(fast_path=True, config=config)
    examined = []
    monkeypatch.setattr(produce, "examine", lambda *asked: examined.append(asked))
    assert broker.fast_path.answer(memoryview(frame(batch())), session()) is None
    assert examined == []


# With followers: the batch is appended at once, and its answer waits


VERSION = 10
"""The first that tells where else to go."""


def codes(both):
    """Return what parked requests were told, of which both paths tell the same; None if nothing."""
    found = []
    for answer in both.each(lambda broker: broker.told()):
        if answer is None:
            found.append(None)
            continue
        response = decode_response(find_api(0), VERSION, memoryview(answer)[4:])
        (result,) = response.responses[0].partition_responses
        hint = (result.current_leader.leader_id, len(response.node_endpoints))
        found.append((ErrorCode(result.error_code), result.base_offset, hint))
    return found


def parked(both, *sequences, **options):
    """Send batches that wait for the follower, and listen as their connections would."""
    before = both.fast_count
    for sequence in sequences:
        sent = frame(batch(sequence), version=VERSION, correlation_id=-sequence, **options)
        assert both.send(sent) == "parked"
    assert both.fast_count == before + len(sequences)
    both.each(lambda broker: broker.listen())
    return both


def with_a_follower(act, **options):
    async def scenario():
        await act(Both(role=BOTH, **options))

    run_without_leaks(scenario())


HERE, THERE = (-1, 0), (OTHER, 1)


def test_with_a_follower_a_batch_is_answered_when_the_high_watermark_has_passed_it():
    async def act(both):
        parked(both, 0, 1)
        assert codes(both) == [None, None]
        both.each(lambda broker: broker.fetch(0, 1))
        assert codes(both) == [(ErrorCode.NONE, 0, HERE), None]
        both.each(lambda broker: broker.fetch(0, 2))
        assert codes(both)[1] == (ErrorCode.NONE, 1, HERE)

    with_a_follower(act)


def test_with_a_follower_one_replica_is_enough_for_acks_1():
    async def act(both):
        assert isinstance(both.send(frame(batch(), acks=1)), bytes)
        assert both.fast_count == 1

    with_a_follower(act)


def test_a_batch_that_is_committed_before_anybody_listens_is_told_a_turn_later():
    async def act(both):
        assert both.send(frame(batch(), version=VERSION)) == "parked"
        both.each(lambda broker: broker.fetch(0, 1))
        both.each(lambda broker: broker.listen())
        assert codes(both) == [None]
        await asyncio.sleep(0)
        assert codes(both) == [(ErrorCode.NONE, 0, HERE)]

    with_a_follower(act)


def test_a_retried_batch_waits_for_its_first_place_on_both_paths():
    async def act(both):
        parked(both, 0, 1, 0)
        both.each(lambda broker: broker.fetch(0, 1))
        assert codes(both) == [(ErrorCode.NONE, 0, HERE), None, (ErrorCode.NONE, 0, HERE)]
        both.each(lambda broker: broker.fetch(0, 2))

    with_a_follower(act)


def test_time_runs_out_for_a_batch_that_followers_do_not_fetch():
    async def act(both):
        parked(both, 0, timeout_ms=0)
        timed = [broker.partitions.get("topic", 0) for broker in both.brokers]
        while any(one.delayed_count for one in timed):  # noqa: ASYNC110 - it waits for timers
            await asyncio.sleep(0)
        assert codes(both) == [(ErrorCode.REQUEST_TIMED_OUT, 0, HERE)]
        both.each(lambda broker: broker.fetch(0, 1))

    with_a_follower(act)


@pytest.mark.parametrize(
    ("role", "min_isr", "code", "hint"),
    [
        (ELSEWHERE, 1, ErrorCode.NOT_LEADER_OR_FOLLOWER, THERE),
        (SHRUNK, 2, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, HERE),
        (SHRUNK, 1, ErrorCode.NONE, HERE),
    ],
)
def test_another_role_decides_at_once_what_waits(role, min_isr, code, hint):
    async def act(both):
        parked(both, 0, 1)
        both.each(lambda broker: give_role(broker.partitions.get("topic", 0), role))
        assert codes(both) == [(code, 0, hint), (code, 1, hint)]

    with_a_follower(act, config=LogConfig(min_insync_replicas=min_isr))


def test_a_topic_that_is_deleted_is_told_to_what_waits():
    async def act(both):
        parked(both, 0)
        both.each(lambda broker: bool(broker.partitions.remove(PartitionKey("topic", 0))))
        assert codes(both) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0, HERE)]

    with_a_follower(act)


def test_too_few_in_sync_replicas_refuse_acks_all_on_both_paths():
    async def act(both):
        both.each(lambda broker: give_role(broker.partitions.get("topic", 0), SHRUNK))
        assert isinstance(both.send(frame(batch())), bytes)
        assert both.fast_count == 0
        assert both.fast.content()[0] == (0, 0, 0)

    with_a_follower(act, config=LogConfig(min_insync_replicas=2))


@pytest.mark.parametrize("listens_before", [True, False])
def test_a_client_that_leaves_takes_its_place_in_the_queue_with_it(listens_before):
    async def act(both):
        assert both.send(frame(batch())) == "parked"
        waiting = [broker.parked[0] for broker in both.brokers]
        if listens_before:
            both.each(lambda broker: broker.listen())
        for one in waiting:
            assert one.work is None
            one.abandon()
            one.abandon()
        assert both.each(lambda broker: broker.partitions.get("topic", 0).delayed_count) == 0
        both.each(lambda broker: broker.listen())
        assert both.each(lambda broker: broker.told()) == [None]
        await asyncio.sleep(0)
        assert both.each(lambda broker: broker.told()) == ["cancelled"]
        both.each(lambda broker: broker.fetch(0, 1))

    with_a_follower(act)


def test_one_that_leaves_gives_back_the_memory_of_answers_behind_a_batch():
    """The connection goes on to what waits behind it, though nobody hears of it."""

    async def act(both):
        budget, stream = MemoryBudget(256 << 20), FakeStream()
        stream.memory = MemoryAccount(budget, stream)

        def dispatch(connection, content):
            is_produce = len(content) > 1
            return both.fast.dispatch(connection, content) if is_produce else [bytes(9000)]

        connection = Connection(
            stream, session(), dispatch, frame_limit=1 << 20, on_close=lambda _: None
        )
        requests = [frame(batch()), b"?", frame(batch(1)), b"?"]
        connection.received(memoryview(b"".join(map(sized, requests))))
        assert both.fast_count == 2
        assert budget.held == 18_000
        connection.closed(None)
        for _ in range(3):
            await asyncio.sleep(0)
        assert budget.held == 0

    with_a_follower(act)
