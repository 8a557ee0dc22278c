"""The fast path through OffsetCommit: whatever is sent, answers and effects are the slow path's.

Every test sends the same frames to two brokers, one that has the fast path and one that does not.
"""

from __future__ import annotations

import asyncio
import functools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits.coordinator_kit import MemoryLog
from kits.fast_path_kit import BothPaths, OneRouteBroker
from kits.group_shard_kit import join_request, transactional_request
from kits.log_kit import HandClock
from kits.metadata_samples import with_brokers
from kits.request_kit import session
from moldau.cluster.changes import TopicRemoved
from moldau.cluster.topics import NewTopic, TopicDefaults, create_topic
from moldau.coordination.groups.counters import GroupCounters
from moldau.coordination.groups.records import CURRENT_FORM, FORM_BEFORE_2_1, decode_offset
from moldau.coordination.groups.settings import GroupSettings
from moldau.coordination.groups.shard import GroupShard, ShardSettings
from moldau.coordination.outcome import Caller, ProducerIdentity
from moldau.coordination.runtime import Runtime
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import SyncGroupRequest, SyncGroupRequestAssignment
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.protocol.registry import decode_response, encode_request, find_api
from moldau.records.compression import Codec
from moldau.security.session import Principal
from moldau.server.handlers import commit_fast_path
from moldau.server.handlers.commit_fast_path import CommitFastPath
from moldau.server.handlers.group_offsets import GroupOffsetHandlers
from moldau.server.network import fast_path as network_fast_path
from moldau.server.network.dispatch import Route

ORDERS, PAYMENTS = "orders", "payments"
NEWEST = 10
CALLER = Caller(3, "client", "/10.1.2.3")
OTHER = session(principal=Principal("User", "other"))


class Broker(OneRouteBroker):
    """The groups of one partition behind a dispatcher."""

    def __init__(self, *, fast_path, form=CURRENT_FORM, codec=Codec.NONE):
        super().__init__()
        self.clock, self.counters = HandClock(), GroupCounters()
        self.log = MemoryLog()
        self.settings = ShardSettings(GroupSettings(initial_rebalance_delay_ms=0), form)
        self.shards = []
        self.runtime = Runtime(
            "__consumer_offsets", 1, self._make, self.clock, perform=lambda _: None, codec=codec
        )
        self.runtime.lead(self.log)
        self.image, self.listeners = with_brokers([1]), []
        self.draw = random.Random(1)
        for name in (ORDERS, PAYMENTS):
            self.create(name)
        handlers = GroupOffsetHandlers(self.runtime, lambda: self.image, None, None)
        stats = self.metrics.of("OffsetCommit")
        route = Route(8, "0-10", handlers.commit, self.metrics, ())
        commit_fast = CommitFastPath(handlers, self.runtime, stats, self.clock)
        self.listeners.append(commit_fast.metadata_changed)
        self.serve(route, commit_fast, self.clock, has_fast_path=fast_path)

    def _make(self, index, leader_epoch):
        self.shards.append(GroupShard(self.settings, random.Random(1), self.counters))
        return self.shards[-1]

    def create(self, name):
        self.change(create_topic(self.image, NewTopic(name, 2), TopicDefaults(), self.draw))

    def remove(self, name):
        self.change([TopicRemoved(self.image.topics[name].id)])

    def change(self, changes):
        self.image = self.image.apply(changes, self.image.version + 1)
        for listener in self.listeners:
            listener(changes, self.image)

    def ask(self, handler):
        return self.runtime.call("g", handler, lambda code: code)

    async def member(self, **changes):
        """Form a group of one, as far as its first generation; return the id of its member."""
        request = join_request(**changes)
        joined = self.ask(lambda shard, ticket, now: shard.join(request, CALLER, ticket, now))
        return (await joined).member_id

    def sync(self, member_id):
        assignments = [SyncGroupRequestAssignment(member_id, b"all")]
        request = SyncGroupRequest("g", 1, member_id, assignments=assignments)
        answer = self.ask(lambda shard, ticket, now: shard.sync(request, CALLER, ticket, now))
        return answer.error_code

    def content(self):
        shard = self.shards[-1]
        groups = {
            name: (group.state, [member.deadline for member in group._core.roster])
            for name, group in shard._groups.items()
        }
        kept = {name: shard._offsets.topics(name) for name in groups}
        waiting = shard._offsets.pending()
        return self.log.batches, groups, kept, waiting, self.counters.offset_commits


class Both(BothPaths):
    """The broker with the fast path and the one without."""

    broker, api = Broker, "OffsetCommit"

    async def member(self, **changes):
        first, second = [await one.member(**changes) for one in (self.fast, self.slow)]
        assert first == second
        return first


def frame(
    offset=5, *, version=9, client_id="client", correlation_id=7, group="g", generation=-1,
    member_id="", instance_id=None, name=ORDERS, topic_id=bytes(16), index=0, epoch=3, metadata="",
    more_partitions=(), more_topics=(),
):  # fmt: skip
    partitions = [
        OffsetCommitRequestPartition(*one, committed_metadata=metadata)
        for one in (*more_partitions, (index, offset, epoch))
    ]
    topics = [OffsetCommitRequestTopic(name, topic_id, partitions)]
    request = OffsetCommitRequest(group, generation, member_id, instance_id, topics=topics)
    request.topics[:0] = [
        OffsetCommitRequestTopic(one, topic_id, partitions) for one in more_topics
    ]
    parts = encode_request(find_api(8), version, correlation_id, client_id, request)
    return b"".join(parts)[4:]


def error_of(answer, version=9):
    response = decode_response(find_api(8), version, memoryview(answer)[4:])
    return ErrorCode(response.topics[0].partitions[0].error_code)


def on_a_loop(test):
    """Run a test as a coroutine: hosts of shards live on an event loop."""

    @functools.wraps(test)
    def run(*arguments, **more):
        asyncio.run(test(*arguments, **more))

    return run


@pytest.mark.parametrize("version", range(NEWEST + 1))
@on_a_loop
async def test_the_frequent_commit_is_answered_and_kept_as_on_the_slow_path(version):
    both = Both()
    topic_id = both.fast.image.topics[ORDERS].id
    for number in range(4):
        for index in range(2):
            sent = frame(
                number * 2**40, version=version, topic_id=topic_id, index=index,
                epoch=number - 1, correlation_id=number, metadata=None if number else "",
            )  # fmt: skip
            assert error_of(both.send(sent), version) is ErrorCode.NONE
            both.each(lambda one: one.clock.__init__(one.clock.now_ms + 1000))
    # The first commit makes the group; it takes the slow path.
    assert both.fast_count == (7 if version >= commit_fast_path.FIRST_VERSION else 0)


@on_a_loop
async def test_a_member_commits_while_its_generation_lasts_and_that_keeps_its_session():
    both = Both()
    member_id = await both.member()
    sent = frame(generation=1, member_id=member_id)
    assert error_of(both.send(sent)) is ErrorCode.REBALANCE_IN_PROGRESS
    assert both.each(lambda one: one.sync(member_id)) == ErrorCode.NONE
    for _ in range(3):
        both.each(lambda one: one.clock.__init__(one.clock.now_ms + 1000))
        assert error_of(both.send(sent)) is ErrorCode.NONE
    assert both.fast_count == 3
    for wrong in ({"generation": 2}, {"generation": -1}, {"member_id": "nobody"}):
        told = both.send(frame(**{"generation": 1, "member_id": member_id} | wrong))
        assert error_of(told) is not ErrorCode.NONE
    assert both.fast_count == 3


@on_a_loop
async def test_a_static_member_that_was_replaced_is_fenced():
    both = Both()
    member_id = await both.member(group_instance_id="one")
    both.each(lambda one: one.sync(member_id))
    sent = frame(generation=1, member_id=member_id, instance_id="one")
    assert error_of(both.send(sent)) is ErrorCode.NONE
    other = frame(generation=1, member_id="older", instance_id="one")
    assert error_of(both.send(other)) is ErrorCode.FENCED_INSTANCE_ID
    assert both.fast_count == 1


@on_a_loop
async def test_a_plain_commit_supersedes_what_waits_for_a_transaction():
    both = Both()
    both.send(frame())
    request = transactional_request()
    both.each(
        lambda one: one.ask(
            lambda shard, ticket, now: shard.commit_in_transaction(request, 3, ticket, now)
        ).topics[0].partitions[0].error_code
    )  # fmt: skip
    both.send(frame(9))
    assert both.fast_count == 1
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    both.each(lambda one: one.runtime.transaction_ended(0, producer, committed=True))
    both.send(frame(10, index=1))
    value = both.fast.shards[0]._offsets.value("g", ORDERS, 0)
    assert decode_offset(value).offset == 9


@pytest.mark.parametrize(
    "sent",
    [
        frame(metadata="mine"),
        frame(metadata="\0" * 7),
        frame(name="other"),
        frame(index=5),
        frame(index=-1),
        frame(group=""),
        frame(group="g" * 200),
        frame(group="other", generation=3),
        frame(client_id=None),
        frame(more_partitions=[(1, 6, -1)]),
        frame(more_partitions=[(0, 6, -1)]),
        frame(more_topics=[PAYMENTS]),
        frame(more_topics=["other"]),
        frame(version=10),
        frame(version=10, topic_id=bytes(range(16))),
        frame()[:-1],
        frame() + b"\0",
        frame()[:-1] + b"\1\x05\x10" + frame()[-16:],
        frame()[:-3] + b"\1\0\0\0\0",
        b"\0\x08\1" + frame()[3:],
        b"\0\x08\0\x09",
    ],
)
@on_a_loop
async def test_requests_of_another_shape_are_answered_the_same(sent):
    both = Both()
    both.send(sent)
    both.send(frame(6, correlation_id=8))
    both.send(sent)
    both.send(sent)


@on_a_loop
async def test_a_tag_that_looks_like_a_partition_is_only_a_tag():
    both = Both()
    for offset in (5, 6, 7):
        looks_like_one = frame(offset)[-21:]
        tag = b"\1\x05" + bytes([len(looks_like_one)]) + looks_like_one
        assert error_of(both.send(frame(5)[:-1] + tag)) is ErrorCode.NONE
    assert both.fast_count == 0


@on_a_loop
async def test_names_of_any_length_are_only_names():
    both = Both()
    for size in (0, 1, 126, 127, 128, 300):
        for sent in (frame(group="g" * size), frame(client_id="c" * size), frame(client_id="")):
            for _ in range(3):
                assert error_of(both.send(sent)) is ErrorCode.NONE
    assert both.fast_count > 20


@on_a_loop
async def test_nothing_is_kept_of_names_that_fill_the_memory():
    both = Both()
    for _ in range(3):
        assert error_of(both.send(frame(client_id="c" * 2000))) is ErrorCode.NONE
    assert both.fast.fast_path._tables == {}


@on_a_loop
async def test_a_topic_that_is_gone_or_made_again_is_looked_up_again():
    both = Both()
    by_id = frame(version=10, topic_id=both.fast.image.topics[ORDERS].id)
    for _ in range(2):
        both.send(frame())
        both.send(by_id)
    assert both.fast_count == 3
    both.each(lambda one: one.remove(ORDERS))
    assert error_of(both.send(frame())) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    both.each(lambda one: one.create(ORDERS))
    assert error_of(both.send(frame())) is ErrorCode.NONE
    assert error_of(both.send(by_id), 10) is ErrorCode.UNKNOWN_TOPIC_ID
    assert both.fast_count == 4


@pytest.mark.parametrize("options", [{"form": FORM_BEFORE_2_1}, {"codec": Codec.GZIP}])
@on_a_loop
async def test_records_of_another_form_take_the_slow_path(options):
    both = Both(**options)
    for _ in range(3):
        assert error_of(both.send(frame())) is ErrorCode.NONE
    assert both.fast_count == 0


@on_a_loop
async def test_a_commit_that_must_be_waited_for_takes_the_slow_path():
    both = Both()
    both.send(frame())
    both.each(lambda one: setattr(one.log, "commits", False))
    assert both.send(frame()) == "parked"
    both.each(lambda one: setattr(one.log, "commits", True))
    # Behind one that waits nobody is quicker; this one's append commits both.
    assert error_of(both.send(frame())) is ErrorCode.NONE
    assert both.fast_count == 0
    assert error_of(both.send(frame())) is ErrorCode.NONE
    assert both.fast_count == 1


@on_a_loop
async def test_a_log_that_refuses_is_told_the_same_and_counted_once():
    both = Both()
    both.send(frame())
    both.each(lambda one: setattr(one.log, "refusal", ErrorCode.NOT_ENOUGH_REPLICAS))
    assert error_of(both.send(frame())) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    both.each(lambda one: setattr(one.log, "refusal", None))
    assert error_of(both.send(frame())) is ErrorCode.NONE
    assert both.fast_count == 1


@on_a_loop
async def test_a_coordinator_that_moved_away_says_so_and_serves_when_it_is_back():
    both = Both()
    both.send(frame())
    both.each(lambda one: one.runtime.resign(0))
    assert error_of(both.send(frame())) is ErrorCode.NOT_COORDINATOR
    both.each(lambda one: one.runtime.lead(one.log))
    assert error_of(both.send(frame())) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    for one in (both.fast, both.slow):
        await asyncio.gather(*one.runtime._loads.values())
    assert error_of(both.send(frame())) is ErrorCode.NONE
    assert both.fast_count == 1


@on_a_loop
async def test_a_bug_while_deciding_leaves_the_commit_to_the_slow_path(monkeypatch, caplog):
    both = Both()
    both.send(frame())
    monkeypatch.setattr(commit_fast_path, "_DECIDE", lambda *asked: 1 / 0)
    assert error_of(both.fast.send(frame())) is ErrorCode.NONE
    assert "Traceback" in caplog.text
    assert len(both.fast.shards) == 1


@on_a_loop
async def test_prefixes_are_forgotten_before_they_fill_the_memory(monkeypatch):
    monkeypatch.setattr(network_fast_path, "PREFIXES_KEPT", 3)
    both = Both()
    both.send(frame())
    for number in range(10):
        both.send(frame(client_id=f"client-{number}"))
    assert both.fast_count == 10
    assert sum(map(len, both.fast.fast_path._tables.values())) <= 3


@on_a_loop
async def test_what_is_known_of_one_principal_is_not_used_for_another(monkeypatch):
    both, asked = Both(), []
    decode = commit_fast_path.decode_request

    def decoding(*arguments):
        asked.append(arguments)
        return decode(*arguments)

    both.send(frame(name=PAYMENTS))  # makes the group
    monkeypatch.setattr(commit_fast_path, "decode_request", decoding)
    for asker in (None, OTHER, None, OTHER):
        both.send(frame(), asker)
    assert len(asked) == 2, "each principal's commit is decoded once"
    assert both.fast_count == 4


@on_a_loop
async def test_the_same_prefix_in_another_version_is_learned_by_itself(monkeypatch):
    both, asked = Both(), []
    decode = commit_fast_path.decode_request

    def decoding(*arguments):
        asked.append(arguments)
        return decode(*arguments)

    both.send(frame(name=PAYMENTS))  # makes the group
    monkeypatch.setattr(commit_fast_path, "decode_request", decoding)
    assert frame(version=8)[8:] == frame(version=9)[8:]
    for version in (8, 9, 8, 9):
        both.send(frame(version=version))
    assert len(asked) == 2
    assert both.fast_count == 4


@on_a_loop
async def test_nothing_is_kept_for_versions_that_do_not_exist():
    both = Both()
    for version in range(11, 99):
        sent = frame()[:2] + version.to_bytes(2) + frame()[4:]
        assert both.fast.fast_path.answer(memoryview(sent), session()) is None
    assert both.fast.fast_path._tables == {}


@on_a_loop
async def test_a_prefix_is_learned_once_where_the_fast_path_is_never_taken(monkeypatch):
    both = Both(codec=Codec.GZIP)
    both.send(frame())
    learned = []
    monkeypatch.setattr(commit_fast_path, "decode_request", lambda *asked: learned.append(asked))
    for _ in range(3):
        both.send(frame())
    assert both.fast_count == 0
    assert learned == []


@on_a_loop
async def test_commits_of_several_partitions_are_decoded_once(monkeypatch):
    both = Both()
    both.send(frame())
    decoded = []
    monkeypatch.setattr(commit_fast_path, "decode_request", lambda *asked: decoded.append(asked))
    for sent in (frame(more_partitions=[(1, 6, -1)]), frame(more_topics=[PAYMENTS])):
        assert both.fast.fast_path.answer(memoryview(sent), session()) is None
    assert decoded == []


@settings(max_examples=150)
@given(data=st.data())
def test_a_damaged_commit_is_told_the_same(data):
    @on_a_loop
    async def work():
        version = data.draw(st.integers(8, 10))
        both = Both()
        topic_id = both.fast.image.topics[ORDERS].id
        whole = frame(version=version, topic_id=topic_id, client_id="c")
        both.send(whole)
        both.send(whole)
        sent = bytearray(whole)
        for _ in range(data.draw(st.integers(1, 3))):
            sent[data.draw(st.integers(2, len(sent) - 1))] = data.draw(st.integers(0, 255))
        cut = data.draw(st.integers(10, len(sent)))
        for damaged in (sent[:cut], sent, sent):
            both.send(bytes(damaged))
        both.send(whole)

    work()
