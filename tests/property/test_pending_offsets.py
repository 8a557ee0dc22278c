"""The store of offsets against the plainest form of its rule: every offset by itself, in order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.coordination.groups.offsets import OffsetStore
from moldau.coordination.groups.records import (
    CURRENT_FORM,
    CommittedOffset,
    OffsetKey,
    offset_record,
)

TOPIC_ID = b"t" * 16
PLACES = [
    (group, topic, partition)
    for group in ("one", "two")
    for topic in ("orders", "payments")
    for partition in range(3)
]
PRODUCERS = (7, 8, 9)
PLACE = st.sampled_from(PLACES)
PRODUCER = st.sampled_from(PRODUCERS)
STEP = st.one_of(
    st.tuples(st.just("pend"), PLACE, PRODUCER),
    st.tuples(st.just("pend"), PLACE, PRODUCER),
    st.tuples(st.just("commit"), PLACE),
    st.tuples(st.just("tombstone"), PLACE),
    st.tuples(st.just("end"), PRODUCER, st.booleans()),
)


def value_of(place, number):
    """An encoded offset; every other one names another topic of the same name."""
    topic_id = TOPIC_ID if number % 2 else b"o" * 16
    offset = CommittedOffset(number, topic_id=topic_id)
    return offset_record(CURRENT_FORM, OffsetKey(*place), offset).value


class Model:
    """Offsets by place, and those that wait there by producer, None once superseded."""

    def __init__(self):
        self.committed = {}
        self.waiting = {}

    def pend(self, place, value, producer):
        waiting = self.waiting.setdefault(place, {})
        waiting.pop(producer, None)
        waiting[producer] = value

    def commit(self, place, value):
        self.committed[place] = value
        if place in self.waiting:
            self.waiting[place] = dict.fromkeys(self.waiting[place])

    def tombstone(self, place):
        self.committed.pop(place, None)
        self.waiting.pop(place, None)

    def end(self, producer, *, committed):
        for place, waiting in list(self.waiting.items()):
            if producer not in waiting:
                continue
            if committed and waiting[producer] is not None:
                self.committed[place] = waiting[producer]
                for earlier in list(waiting)[: list(waiting).index(producer)]:
                    waiting[earlier] = None
            del waiting[producer]
            if not waiting:
                del self.waiting[place]

    def names_topic(self, place, number_of):
        """Whether an offset that counts, or may come to count, was committed to the topic."""
        found = [self.committed.get(place), *self.waiting.get(place, {}).values()]
        return any(value is not None and number_of[value] % 2 for value in found)


def check(store, model, number_of):
    committed = {
        (group, topic, partition): value
        for group in ("one", "two")
        for topic, partitions in store.topics(group).items()
        for partition, value in partitions.items()
    }
    assert committed == model.committed
    pending = store.pending()
    assert pending == model.waiting
    assert all(list(pending[place]) == list(model.waiting[place]) for place in pending)
    there = {*model.committed, *model.waiting}
    for group in ("one", "two"):
        assert store.holds(group) == any(place[0] == group for place in there)
        keys = [(key.group, key.topic, key.partition) for key in store.keys(group)]
        assert sorted(keys) == sorted(place for place in there if place[0] == group)
        unstable = {
            (group, topic, partition)
            for topic, partitions in store.unstable_topics(group).items()
            for partition in partitions
        }
        assert unstable == {place for place in model.waiting if place[0] == group}
    for topic in ("orders", "payments"):
        assert store.has_topic(topic) == any(place[1] == topic for place in there)
        found = [key for key in store.keys_of_topic(topic, TOPIC_ID) if key is not None]
        assert {(key.group, key.topic, key.partition) for key in found} == {
            place for place in there if place[1] == topic and model.names_topic(place, number_of)
        }
    for place in PLACES:
        assert store.is_unstable(*place) == (place in model.waiting)
        assert store.has(*place) == (place in there)


def count_pending(store, producer):
    transaction = store._transactions.get(producer)
    return 0 if transaction is None else transaction.count


@settings(max_examples=300)
@given(st.lists(STEP, max_size=60))
def test_offsets_are_taken_over_as_if_each_were_looked_at(steps):
    store, model, number_of = OffsetStore(), Model(), {}
    for number, (what, *rest) in enumerate(steps):
        if what == "end":
            producer, committed = rest
            store.end_transaction(producer, committed=committed)
            model.end(producer, committed=committed)
        elif what == "tombstone":
            store.replay(OffsetKey(*rest[0]), None, None)
            model.tombstone(rest[0])
        else:
            place = rest[0]
            value = value_of(place, number)
            number_of[value] = number
            producer = rest[1] if what == "pend" else None
            store.replay(OffsetKey(*place), value, producer)
            if producer is None:
                model.commit(place, value)
            else:
                model.pend(place, value, producer)
        check(store, model, number_of)
        for producer in PRODUCERS:
            places = [place for place in model.waiting if producer in model.waiting[place]]
            assert count_pending(store, producer) == len(places)
