"""Records finished in any order: what is committed, and what may begin."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from moldau.client.processing.scheduling import Lanes, Progress, Work
from moldau.client.records import Record, TimestampType, TopicPartition


def record(offset, key=None, partition=0):
    return Record("t", partition, offset, 0, TimestampType.CREATE_TIME, key, None, (), 7)


@st.composite
def finishing_orders(draw):
    """Offsets with gaps, as compaction leaves them, and an order in which some are finished."""
    offsets = sorted(draw(st.sets(st.integers(0, 200), min_size=1, max_size=40)))
    order = draw(st.permutations(offsets))
    return offsets, order[: draw(st.integers(0, len(order)))]


@given(finishing_orders())
def test_a_commit_lies_behind_finished_records_and_before_the_first_that_is_not(case):
    offsets, order = case
    progress = Progress()
    for offset in offsets:
        progress.begin(record(offset))
    finished, reached = set(), None
    for offset in order:
        progress.finish(offset)
        finished.add(offset)
        open_ones = [one for one in offsets if one not in finished]
        assert progress.first_open == (open_ones[0] if open_ones else None)
        before, reached = reached, progress.reached
        if reached is not None:
            assert before is None or reached >= before
            assert reached.leader_epoch == 7
        below = [one for one in offsets if not open_ones or one < open_ones[0]]
        assert (reached and reached.offset) == (below[-1] + 1 if below else None)


KEYS = st.one_of(st.none(), st.integers(0, 3))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 2), KEYS),
        st.tuples(st.just("take")),
        st.tuples(st.just("leave"), st.integers(0, 10)),
        st.tuples(st.just("drop"), st.sets(st.integers(0, 2))),
    ),
    max_size=60,
)


@given(STEPS)
def test_one_of_a_key_at_a_time_in_order_and_nothing_forgotten_or_twice(steps):
    lanes = Lanes()
    running, waiting = [], defaultdict(list)
    offset = 0
    for step in steps:
        match step:
            case ("put", number, key):
                partition = TopicPartition("t", number)
                lane = None if key is None else (partition, key)
                work = Work(record(offset, key, number), partition, lane, Progress())
                offset += 1
                lanes.put(work)
                waiting[number].append(work)
            case ("take",):
                busy = {work.lane for work in running if work.lane is not None}
                free = [
                    work
                    for each in waiting.values()
                    for work in each
                    if work.lane is None
                    or (
                        work.lane not in busy
                        and work is next(one for one in each if one.lane == work.lane)
                    )
                ]
                work = lanes.take()
                if work is None:
                    assert not free
                else:
                    assert work in free
                    waiting[work.partition.partition].remove(work)
                    running.append(work)
            case ("leave", index) if running:
                lanes.leave(running.pop(index % len(running)))
            case ("drop", numbers):
                lanes.drop({TopicPartition("t", number) for number in numbers})
                for number in numbers:
                    waiting[number].clear()
        assert lanes.waiting_count == sum(map(len, waiting.values()))
        for number in range(3):
            assert lanes.waits({TopicPartition("t", number)}) == bool(waiting[number])
