"""The producer for threads at its edges: callbacks, Ctrl-C, forks, and nobody who closes it."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from kits.faulty_log import Fault, FaultyLog
from kits.scripted_broker import PRODUCE, silence
from moldau.client.errors import (
    BufferFull,
    ClientClosed,
    DeliveryAborted,
    InvalidState,
    UnknownTopicOrPartition,
)
from moldau.client.producer import Producer
from moldau.client.producing import core as core_module
from moldau.client.producing import face as face_module
from moldau.client.producing import threaded as threaded_module
from moldau.client.producing.sender import Sender
from moldau.engine.portal import Portal

WAIT_S = 15
LONG_MS = 60_000
"""A linger that lets a record be sent by nothing but a flush."""


async def made():
    return FaultyLog(1, lambda: Fault.NONE)


@pytest.fixture
def broker():
    """A broker on a loop of its own, as the producer has one."""
    portal = Portal("broker")
    broker = portal.call(made())
    broker.portal = portal
    portal.call(broker.__aenter__())
    yield broker
    portal.call(broker.stop())
    portal.close()


@pytest.fixture
def complaints(monkeypatch):
    """What is reported to the exception handler of the producer's loop."""
    found = []
    opened = threaded_module.Producer._opened

    async def watched(self):
        core = await opened(self)
        core.sender._loop.set_exception_handler(lambda _, context: found.append(context))
        return core

    monkeypatch.setattr(threaded_module.Producer, "_opened", watched)
    return found


def started(broker, **settings):
    producer = Producer(broker.address, **{"linger_ms": 0, **settings})
    producer.send("t", b"first")
    producer.flush(WAIT_S)
    return producer


def second_topic(broker):
    """Let there be a topic `u`, of which only the second partition can be written to."""
    broker.topics["u"] = [(-1, 0), (broker.broker_id, 0)]
    broker.logs.append(type(broker.logs[0])())


# Callbacks


def test_a_callback_can_close_while_another_thread_waits_in_close(broker):
    producer = started(broker, linger_ms=200)
    delivery = producer.send("t", b"last")
    delivery.add_done_callback(lambda _: producer.close())
    producer.close()
    assert delivery.result(WAIT_S).offset == 1
    assert not producer._portal._thread.is_alive()


def test_a_callback_that_closes_leaves_nothing_behind_it_to_be_written(broker):
    closed = []

    class Part:
        def on_send(self, record):
            return record

        def close(self):
            closed.append("closed")

    producer = started(broker, interceptor_classes=[Part()])
    broker.on("Produce", silence)
    late = []

    def close(_):
        producer.close()
        with pytest.raises(ClientClosed):
            producer.send("t", b"refused")
        late.append(stuck.exception())

    stuck = producer.send("t", b"stuck")
    producer._portal.post(close, None)
    with pytest.raises(DeliveryAborted):
        stuck.result(WAIT_S)
    producer._portal._thread.join(WAIT_S)
    producer.close()
    assert not producer._portal._thread.is_alive()
    assert [type(one) for one in late] == [DeliveryAborted]
    assert closed == ["closed"]


def test_closing_at_once_ends_another_thread_s_wait_in_close(broker):
    producer = started(broker)
    broker.on("Produce", silence)
    delivery = producer.send("t", b"stuck")
    waiting = threading.Thread(target=producer.close)
    waiting.start()
    producer.close(0)
    waiting.join(WAIT_S)
    assert not waiting.is_alive()
    with pytest.raises(DeliveryAborted):
        delivery.result(WAIT_S)


def test_a_callback_that_exits_does_not_end_the_producer(broker, complaints):
    with started(broker, linger_ms=LONG_MS) as producer:
        producer.send("t", b"1").add_done_callback(lambda _: sys.exit(3))
        producer.flush(WAIT_S)
        delivery = producer.send("t", b"2")
        producer.flush(WAIT_S)
        assert delivery.result(WAIT_S).offset == 2
    assert [type(one["exception"]) for one in complaints] == [SystemExit]


def test_waiting_in_a_callback_is_refused_instead_of_hanging(broker, complaints):
    with started(broker, linger_ms=LONG_MS) as producer:
        producer.send("t", b"1").add_done_callback(lambda _: producer.send("t", b"2").result())
        producer.flush(WAIT_S)
        producer.flush(WAIT_S)
        delivery = producer.send("t", b"3")
        producer.flush(WAIT_S)
        assert delivery.result(WAIT_S).offset == 3
    (complaint,) = complaints
    assert isinstance(complaint["exception"], InvalidState)
    assert "callback" in str(complaint["exception"])


def test_a_callback_that_finds_no_room_is_told_at_once(broker):
    producer = started(broker, buffer_memory=3000, batch_size=500, linger_ms=60_000)
    broker.on("Produce", silence)
    told = []

    def fill():
        try:
            for _ in range(20):
                producer.send("t", b"x" * 300)
        except BufferFull as full:
            told.append(full)
        done.set()

    done = threading.Event()
    producer._portal.post(fill)
    assert done.wait(WAIT_S)
    producer.close(0)
    assert len(told) == 1


@pytest.mark.parametrize("partitioner", [None, "round_robin"])
def test_a_callback_may_send_to_a_topic_not_met_before_and_a_flush_waits_for_it(
    broker, partitioner
):
    second_topic(broker)
    sent = []

    def react(_):
        sent.extend(producer.send("u", b"%d" % number) for number in range(3))

    with started(broker, partitioner_class=partitioner) as producer:
        producer.send("t", b"cause").add_done_callback(react)
        producer.flush(WAIT_S)
        producer.flush(WAIT_S)
        assert [one.metadata()[:3] for one in sent] == [("u", 1, 0), ("u", 1, 1), ("u", 1, 2)]
    assert broker.logs[1].values == [b"0", b"1", b"2"]


def test_what_a_callback_has_parked_goes_before_what_a_thread_sends_later(broker):
    second_topic(broker)
    parked, released = threading.Event(), asyncio.Event()

    async def late(asked):
        if "u" in [one.name for one in asked.request.topics or ()]:
            parked.set()
            await released.wait()
        broker.say_metadata(asked)

    with started(broker) as producer:
        broker.on("Metadata", late)
        producer._portal.post(producer.send, "u", b"callback's")
        assert parked.wait(WAIT_S)
        thread = threading.Thread(target=producer.send, args=("u", b"thread's"))
        thread.start()
        broker.portal.post(released.set)
        thread.join(WAIT_S)
        producer.flush(WAIT_S)
    assert broker.logs[1].values == [b"callback's", b"thread's"]


def test_a_callback_that_sends_where_there_is_no_topic_learns_it_from_the_delivery(broker):
    told = []
    with started(broker, max_block_ms=1_000, retry_backoff_ms=5) as producer:
        producer._portal.post(lambda: told.append(producer.send("strange", b"v")))
        producer.flush(WAIT_S)
        producer.flush(WAIT_S)
        with pytest.raises(UnknownTopicOrPartition):
            told[0].result(WAIT_S)


def test_what_a_callback_has_parked_is_given_up_with_the_producer(broker):
    told = []
    producer = started(broker)
    broker.on("Metadata", silence)
    posted = threading.Event()

    def send():
        told.append(producer.send("strange", b"v"))
        posted.set()

    producer._portal.post(send)
    assert posted.wait(WAIT_S)
    producer.close(0)
    assert isinstance(told[0].exception(), DeliveryAborted)


# Stopping


def test_ctrl_c_in_a_block_does_not_wait_for_a_broker_that_is_silent(broker, monkeypatch):
    monkeypatch.setattr(face_module, "STOPPED_PATIENCE_S", 0.05)
    with pytest.raises(KeyboardInterrupt), started(broker) as producer:  # noqa: PT012 - the end is it
        broker.on("Produce", silence)
        delivery = producer.send("t", b"stuck")
        raise KeyboardInterrupt
    with pytest.raises(DeliveryAborted):
        delivery.result(0)


def test_ctrl_c_in_a_block_still_sends_to_a_broker_that_answers(broker):
    with suppress(KeyboardInterrupt), started(broker, linger_ms=60_000) as producer:
        delivery = producer.send("t", b"buffered")
        raise KeyboardInterrupt
    assert delivery.result(0).offset == 1


def test_ctrl_c_while_the_loop_is_woken_does_not_keep_later_records_waiting(broker):
    class Interrupted:
        calls = 0

        def call_soon_threadsafe(self, *_):
            self.calls += 1
            raise KeyboardInterrupt

    class Ready:
        def has_sendable(self):
            return True

    producer = Producer(broker.address)
    loop = Interrupted()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            producer._news(Ready(), loop)
    assert loop.calls == 2


@pytest.mark.patches
def test_whether_brokers_are_busy_changes_with_the_lock_held(broker, monkeypatch):
    seen = []

    class Watched(Sender):
        @property
        def saturated(self):
            return self._saturated

        @saturated.setter
        def saturated(self, value):
            self._saturated = value
            seen.append(self._guard.locked())

    monkeypatch.setattr(core_module, "Sender", Watched)
    with started(broker):
        pass
    assert len(seen) > 2
    assert all(seen[1:]), "the first is the constructor's"


# Forks


def in_child(work):
    """Run something in a forked process and return what it says."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, repr(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as told:
        return told.read()


def test_a_forked_process_is_refused_and_its_parent_goes_on(broker):
    producer = started(broker, linger_ms=100)
    before = producer.send("t", b"parent's")

    def use():
        said = []
        for call in (
            lambda: producer.send("t", b"child's"),
            lambda: before.result(WAIT_S),
            producer.flush,
            producer.begin_transaction,
        ):
            try:
                call()
            except InvalidState as error:
                said.append("fork" in str(error))
        producer.close()
        return said

    assert in_child(use) == "[True, True, True, True]"
    assert before.result(WAIT_S).offset == 1
    assert producer.send("t", b"more").result(WAIT_S).offset == 2
    producer.close()
    assert broker.logs[0].values == [b"first", b"parent's", b"more"]


def test_a_fork_waits_for_who_is_in_the_middle_of_a_send(broker):
    producer = started(broker)
    holds, forking = threading.Event(), threading.Event()
    let_go_before = []

    def work():
        with producer._lock:
            holds.set()
            forking.wait(WAIT_S)
            let_go_before.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    holds.wait(WAIT_S)
    hold_still = producer._hold_still

    def asked(patience_s):
        forking.set()
        return hold_still(patience_s)

    producer._hold_still = asked
    assert in_child(lambda: (producer._lock.acquire(timeout=1), let_go_before)) == "(True, [True])"
    thread.join()
    producer.close()


# Nobody closes


def test_a_producer_that_is_forgotten_sends_what_it_has_and_ends_its_thread(broker):
    producer = started(broker, linger_ms=60_000)
    thread = producer._portal._thread
    delivery = producer.send("t", b"buffered")
    del producer
    gc.collect()
    assert delivery.result(WAIT_S).offset == 1
    thread.join(WAIT_S)
    assert not thread.is_alive()


PROGRAM = """
import sys
from moldau.client.producer import Producer
def main():
    producer = Producer(sys.argv[1], linger_ms=60_000)
    for number in range(100):
        producer.send("t", b"%d" % number)
    return producer
"""


@pytest.mark.parametrize("end", ["producer = main()", "main()"], ids=["kept", "forgotten"])
def test_a_program_that_ends_without_closing_sends_what_it_has_and_says_so(broker, end):
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM + end, broker.address],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert ended.returncode == 0
    assert "was not closed" in ended.stderr
    assert broker.logs[0].values == [b"%d" % number for number in range(100)]
    assert len(broker.requests(PRODUCE)) == 1
