"""A group shard on a log in memory: outcomes carried out in the runtime's order, without a loop."""

from __future__ import annotations

import random

from kits.slicing import finished
from moldau.coordination.groups.counters import GroupCounters
from moldau.coordination.groups.listing import GroupFilter
from moldau.coordination.groups.shard import GroupShard, ShardSettings
from moldau.coordination.outcome import Caller, Now, ProducerIdentity, Timer
from moldau.coordination.refusals import coordinator_error
from moldau.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupMember,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from moldau.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TOPIC_ID = bytes(range(16))
DAY_MS = 24 * 3_600_000


class Marker:
    """A transaction marker in the log."""

    def __init__(self, producer, committed):
        self.producer = producer
        self.committed = committed


class Ticket:
    """A place for one answer."""

    def __init__(self):
        self.answers = []

    @property
    def answer(self):
        (only,) = self.answers
        return only


class ServedShard:
    """One shard, its log, its timers and its clock."""

    def __init__(self, settings=None, log=()):
        self.settings = settings or ShardSettings()
        self.log = list(log)
        self.batches = []
        self.timers = {}
        self.effects = []
        self.refusal = None
        self.now = Now(1_000_000_000_000, 1_000.0)
        self.counters = GroupCounters()
        self.shard = GroupShard(self.settings, random.Random(1), self.counters)
        for entry in self.log:
            if isinstance(entry, Marker):
                self.shard.transaction_ended(entry.producer, committed=entry.committed)
            else:
                self.shard.replay(*entry)
        self.carry_out(self.shard.loaded(self.now))
        self.later(0)

    def restarted(self):
        """The same log, read by the next coordinator."""
        served = ServedShard(self.settings, self.log)
        served.now = self.now
        return served

    def carry_out(self, outcome):
        while outcome is not None:
            if outcome.records and self.refusal is not None:
                code = self.refusal
                if outcome.refused is None:
                    for ticket, _ in outcome.replies:
                        ticket.answers.append(coordinator_error(code))
                    return
                outcome = outcome.refused(code, self.now)
                continue
            if outcome.records:
                self.batches.append(list(outcome.records))
            for record in outcome.records:
                self.log.append((record, outcome.producer))
                self.shard.replay(record, outcome.producer)
            for timer in outcome.timers:
                if isinstance(timer, Timer):
                    self.timers[timer.key] = self.now.monotonic + timer.after_s
                else:
                    self.timers.pop(timer.key, None)
            for ticket, response in outcome.replies:
                ticket.answers.append(response)
            self.effects.extend(outcome.effects)
            outcome = None if outcome.then is None else outcome.then(self.now)

    def later(self, seconds):
        """Let time pass, and fire what is due, in order."""
        end = self.now.monotonic + seconds
        while self.timers and min(self.timers.values()) <= end:
            key = min(self.timers, key=self.timers.__getitem__)
            self._clock_to(max(self.timers.pop(key), self.now.monotonic))
            self.carry_out(self.shard.timer_fired(key, self.now))
        self._clock_to(end)

    def sleep(self, seconds):
        """Let time pass while timers are late."""
        self._clock_to(self.now.monotonic + seconds)

    def _clock_to(self, monotonic):
        passed_ms = round((monotonic - self.now.monotonic) * 1000)
        self.now = Now(self.now.wall_ms + passed_ms, monotonic)

    def end_transaction(self, producer_id, *, committed):
        producer = ProducerIdentity(producer_id, 0)
        self.log.append(Marker(producer, committed))
        self.shard.transaction_ended(producer, committed=committed)

    # Requests

    def ask(self, decide):
        """Put a request to the shard; return its ticket."""
        ticket = Ticket()
        self.carry_out(decide(self.shard, ticket, self.now))
        return ticket

    def commit(self, request, version=9):
        return self.ask(lambda shard, t, now: shard.commit(request, version, t, now)).answer

    def commit_in_transaction(self, request, version=3):
        return self.ask(
            lambda shard, t, now: shard.commit_in_transaction(request, version, t, now)
        ).answer

    def fetch(self, group="g", topics=None, *, require_stable=False):
        request = OffsetFetchRequestGroup(group, topics=topics)
        found = self.ask(
            lambda shard, t, now: shard.fetch(request, t, require_stable=require_stable)
        ).answer
        return OffsetFetchResponseGroup(
            found.group_id,
            [
                OffsetFetchResponseTopics(
                    topic.name, topic.topic_id, [topic.tell(one) for one in topic.partitions]
                )
                for topic in found.topics
            ],
        )

    def offset(self, topic="orders", partition=0, group="g", *, require_stable=False):
        """The offset of one partition and its error, as a client sees them."""
        wanted = [OffsetFetchRequestTopics(topic, partition_indexes=[partition])]
        (answered,) = self.fetch(group, wanted, require_stable=require_stable).topics
        (found,) = answered.partitions
        return (found.committed_offset, found.error_code)

    def join(self, **changes):
        version = changes.pop("version", 3)
        client_id = changes.pop("client_id", "client")
        request = join_request(**changes)
        caller = Caller(version, client_id, "/10.0.0.1")
        return self.ask(lambda shard, t, now: shard.join(request, caller, t, now))

    def sync(self, member_id, generation, assignments=(), group="g"):
        request = SyncGroupRequest(
            group,
            generation,
            member_id,
            assignments=[SyncGroupRequestAssignment(*one) for one in assignments],
        )
        caller = Caller(3, "client", "/10.0.0.1")
        return self.ask(lambda shard, t, now: shard.sync(request, caller, t, now))

    def heartbeat(self, member_id, generation, group="g"):
        request = HeartbeatRequest(group, generation, member_id)
        return self.ask(lambda shard, t, now: shard.heartbeat(request, t, now)).answer.error_code

    def leave(self, member_id, group="g"):
        request = LeaveGroupRequest(group, members=[LeaveGroupMember(member_id)])
        caller = Caller(3, "client", "/10.0.0.1")
        return self.ask(lambda shard, t, now: shard.leave(request, caller, t, now)).answer

    def states(self, *states, types=()):
        """The groups there are, with their states."""
        wanted = finished(GroupFilter.read(states, types))
        shown = self.ask(lambda shard, t, now: shard.all_groups(t)).answer
        listed = [group.listed() for group in shown.groups if wanted.includes(group.state)]
        return {group.group_id: group.group_state for group in listed}

    def describe(self, group="g", version=5):
        asked = self.ask(lambda shard, t, now: shard.describe_group(group, version, t))
        described, protocol, members = asked.answer
        described.members = [member.described(protocol) for member in members]
        return described

    def delete(self, group="g"):
        ticket = self.ask(lambda shard, t, now: shard.delete_group(group, t, now))
        self.later(0)
        return ticket.answer.error_code

    def topic_deleted(self, topic="orders", topic_id=TOPIC_ID):
        """Tell of a topic that is gone, and let the shard forget it."""
        self.carry_out(self.shard.topics_deleted({topic: topic_id}, self.now))
        self.later(0)

    def make_stable(self, topics=("orders",), group="g"):
        """Bring one member in; return its id."""
        joined = self.join(group=group, topics=topics)
        self.later(3)
        member_id = joined.answer.member_id
        generation = joined.answer.generation_id
        synced = self.sync(member_id, generation, [(member_id, b"all")], group)
        assert synced.answer.error_code == 0
        return member_id, generation


def subscription(topics):
    """What a consumer hands in when it joins, in version 0."""
    names = b"".join(len(name).to_bytes(2) + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4) + names + (0xFFFFFFFF).to_bytes(4)


def join_request(*, group="g", member_id="", topics=("orders",), protocol_type="consumer", **more):
    protocol = JoinGroupRequestProtocol("range", subscription(topics))
    request = JoinGroupRequest(group, 10_000, 60_000, member_id, None, protocol_type, [protocol])
    for name, value in more.items():
        setattr(request, name, value)
    return request


def commit_request(offset=5, *, group="g", topic="orders", partition=0, metadata="", **changes):
    """Commit one offset of nobody in particular, unless the changes say otherwise."""
    timestamp = changes.pop("commit_timestamp", -1)
    topic_id = changes.pop("topic_id", TOPIC_ID)
    one = OffsetCommitRequestPartition(partition, offset, 1, timestamp, metadata)
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, topic_id, [one])])
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def transactional_request(
    offset=5, *, producer_id=7, group="g", topic="orders", partition=0, **changes
):
    """Commit one offset in the transaction of a producer."""
    metadata = changes.pop("metadata", "")
    one = TxnOffsetCommitRequestPartition(partition, offset, 1, metadata)
    request = TxnOffsetCommitRequest(
        "transaction",
        group,
        producer_id,
        0,
        topics=[TxnOffsetCommitRequestTopic(topic, TOPIC_ID, [one])],
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def errors(response):
    """The error codes of an answer about topics, in order."""
    return [one.error_code for topic in response.topics for one in topic.partitions]
