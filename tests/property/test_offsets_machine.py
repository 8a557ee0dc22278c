"""Offsets of a shard against what its log says by definition, through crashes and compaction."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kits.group_shard_kit import (
    Marker,
    ServedShard,
    commit_request,
    errors,
    transactional_request,
)
from moldau.coordination.groups.records import OffsetKey, decode_key, decode_offset
from moldau.coordination.groups.shard import ShardSettings
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

PLACES = [("one", "orders", 0), ("one", "payments", 1), ("two", "orders", 0)]
PLACE = st.sampled_from(PLACES)
PRODUCERS = st.integers(1, 2)
OFFSETS = st.integers(0, 100)
RETENTION_S = 3_600
CHECK_S = 600


def place_of(entry):
    """Which offset an entry of the log is about; None for markers and groups."""
    if isinstance(entry, Marker):
        return None
    key = decode_key(entry[0].key)
    return (key.group, key.topic, key.partition) if isinstance(key, OffsetKey) else None


def outcome_of(log, position):
    """How the transaction of the record at this position ended; None while it is open."""
    producer = log[position][1]
    for entry in log[position:]:
        if isinstance(entry, Marker) and entry.producer.producer_id == producer.producer_id:
            return entry.committed
    return None


def by_definition(log, place):
    """Read an offset and its stability off the log.

    Of all commits behind the last tombstone that are not undecided or aborted, the last one counts.
    """
    counts, unstable = None, False
    for position, entry in enumerate(log):
        if place_of(entry) != place:
            continue
        record, producer = entry
        if record.value is None:
            counts, unstable = None, False
            continue
        committed = producer is None or outcome_of(log, position)
        if committed:
            counts = decode_offset(record.value).offset
        unstable = unstable or committed is None
    return counts, unstable


def compacted(log):
    """What a cleaner makes of a log: the last record of a key, below the first open transaction."""
    open_from = min(
        (
            position
            for position, entry in enumerate(log)
            if place_of(entry) and entry[1] is not None and outcome_of(log, position) is None
        ),
        default=len(log),
    )
    kept = {}
    for position, entry in enumerate(log[:open_from]):
        if isinstance(entry, Marker):
            kept[position] = position
        elif entry[1] is None or outcome_of(log, position):
            kept[entry[0].key] = position
    return [log[position] for position in sorted(kept.values())] + log[open_from:]


class OffsetsMachine(RuleBasedStateMachine):
    """Clients that commit and delete, transactions that end, a broker that stops at any moment."""

    def __init__(self):
        super().__init__()
        self.served = ServedShard(
            ShardSettings(
                retention_ms=RETENTION_S * 1000, retention_check_interval_ms=CHECK_S * 1000
            )
        )
        self.acknowledged = {}
        """Place -> (offset, when), for plain commits that nothing has changed since."""

    @rule(place=PLACE, offset=OFFSETS)
    def commits(self, place, offset):
        group, topic, partition = place
        request = commit_request(offset, group=group, topic=topic, partition=partition)
        assert errors(self.served.commit(request)) == [0]
        self.acknowledged[place] = (offset, self.served.now.wall_ms)

    @rule(place=PLACE, producers=st.lists(PRODUCERS, min_size=1, max_size=3), offset=OFFSETS)
    def commit_in_transactions(self, place, producers, offset):
        group, topic, partition = place
        for step, producer in enumerate(producers):
            request = transactional_request(
                offset + step, producer_id=producer, group=group, topic=topic, partition=partition
            )
            assert errors(self.served.commit_in_transaction(request)) == [0]

    @rule(ends=st.lists(st.tuples(PRODUCERS, st.booleans()), min_size=1, max_size=2))
    def transactions_end(self, ends):
        log = self.served.log
        for producer, committed in ends:
            for position, entry in enumerate(log):
                place = place_of(entry)
                if (
                    place is not None
                    and entry[1] is not None
                    and (entry[1].producer_id, outcome_of(log, position)) == (producer, None)
                    and committed
                ):
                    self.acknowledged.pop(place, None)
            self.served.end_transaction(producer, committed=committed)

    @rule(place=PLACE, what=st.sampled_from(["offset", "group", "topic"]))
    def deletes(self, place, what):
        group, topic, partition = place
        if what == "offset":
            wanted = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(partition)])]
            request = OffsetDeleteRequest(group, wanted)
            self.served.ask(lambda shard, t, now: shard.delete_offsets(request, t))
            gone = [place]
        elif what == "group":
            known = group in self.served.states()
            expected = ErrorCode.NONE if known else ErrorCode.GROUP_ID_NOT_FOUND
            assert self.served.delete(group) == expected
            gone = [one for one in PLACES if one[0] == group]
            assert group not in self.served.states()
        else:
            self.served.topic_deleted(topic)
            gone = [one for one in PLACES if one[1] == topic]
        for one in gone:
            assert by_definition(self.served.log, one) == (None, False)
            self.acknowledged.pop(one, None)

    @rule(place=PLACE)
    def commits_while_the_log_refuses(self, place):
        group, topic, partition = place
        self.served.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        request = commit_request(77, group=group, topic=topic, partition=partition)
        assert errors(self.served.commit(request)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        self.served.refusal = None

    @rule(seconds=st.sampled_from([1, RETENTION_S - CHECK_S, 2 * RETENTION_S]))
    def time_passes(self, seconds):
        self.served.later(seconds)
        young_ms = self.served.now.wall_ms - RETENTION_S * 1000
        for place, (_, committed_ms) in list(self.acknowledged.items()):
            if committed_ms <= young_ms:
                del self.acknowledged[place]

    @rule(compacting=st.booleans())
    def crashes(self, compacting):
        if compacting:
            self.served.log = compacted(self.served.log)
        self.served = self.served.restarted()

    @invariant()
    def clients_see_what_the_log_says(self):
        for group, topic, partition in PLACES:
            offset, unstable = by_definition(self.served.log, (group, topic, partition))
            seen = -1 if offset is None else offset
            assert self.served.offset(topic, partition, group) == (seen, 0)
            stable = self.served.offset(topic, partition, group, require_stable=True)
            assert stable == ((-1, ErrorCode.UNSTABLE_OFFSET_COMMIT) if unstable else (seen, 0))

    @invariant()
    def what_was_acknowledged_is_there(self):
        for (group, topic, partition), (offset, _) in self.acknowledged.items():
            assert self.served.offset(topic, partition, group) == (offset, 0)

    @invariant()
    def a_topic_that_is_deleted_finds_its_groups(self):
        store = self.served.shard._offsets
        expected = {}
        for group, topic, partition in PLACES:
            if store.has(group, topic, partition):
                expected.setdefault(topic, set()).add(group)
        assert {topic: set(groups) for topic, groups in store._groups_of.items()} == expected

    @invariant()
    def groups_are_there_as_long_as_their_offsets(self):
        states = self.served.states()
        for place in PLACES:
            offset, unstable = by_definition(self.served.log, place)
            if offset is not None or unstable:
                assert states[place[0]] == "Empty"


TestOffsets = OffsetsMachine.TestCase
TestOffsets.settings = settings(max_examples=100, stateful_step_count=40)
