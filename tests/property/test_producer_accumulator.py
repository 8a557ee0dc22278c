"""The accumulator against a model: nothing is lost, order holds, bounds hold."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kits.producer_kit import accumulator, put
from moldau.records.record import read_records

STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from([None, 0, 1, 2]), st.integers(0, 400)),
    st.tuples(st.just("wait"), st.floats(0.0, 6.0)),
    st.tuples(st.just("send"), st.integers(1, 3)),
    st.tuples(st.just("flush")),
)


@settings(max_examples=150)
@given(steps=st.lists(STEPS, max_size=60), seed=st.integers(0, 1000))
def test_every_record_leaves_once_in_its_partition_s_order_and_within_bounds(steps, seed):
    gathered = accumulator(3, seed)
    topic = gathered.topics["t"]
    put_in = {partition: [] for partition in range(3)}
    left = {partition: [] for partition in range(3)}
    now, number = 0.0, 0

    def send(count):
        for queue in list(gathered.ready)[:count]:
            while queue.waiting:
                batch = queue.take()
                assert batch.size <= topic.limit or batch.count == 1
                left[queue.partition] += [one.value for one in read_records(batch.sealed())]
                queue.answered()
                queue.acknowledged(batch)
                gathered.release(batch)
                batch.batch_result.settle(None, 0)
            del gathered.ready[queue]

    for step, *values in steps:
        if step == "put":
            value = b"%d-" % number + b"x" * values[1]
            placed = put(gathered, value, values[0], now)
            if placed is not None:
                put_in[placed.batch.batch_result.partition].append(value)
                number += 1
            assert 0 <= gathered.used <= 2000
        elif step == "wait":
            now += values[0]
            gathered.close_lingering(now)
            assert all(q.open is None or now - q.open.opened_at < 5.0 for q in topic.queues)
        elif step == "send":
            send(*values)
        else:
            gathered.close_all(now)
            send(3)
            assert gathered.used == 0
    gathered.close_all(now)
    send(3)
    assert left == put_in
    assert gathered.used == 0
    assert gathered.expiry() is None
