"""From a frame to its handler: what is refused, what is counted, what is answered when."""

import asyncio
import gc
import struct

import pytest

from kits.log_kit import HandClock
from kits.request_kit import session
from moldau.base.errors import ProtocolError
from moldau.base.limits import ELEMENTS_PER_REQUEST, LARGE_REQUESTS_AT_ONCE
from moldau.observe.requests import RequestMetrics
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.registry import api_of, decode_response, encode_request
from moldau.security.authorizer import ALLOW_ALL
from moldau.server.network.dispatch import Dispatcher, Droppable, Later, Route
from moldau.server.network.slices import NEVER

PRODUCE, LIST_OFFSETS, API_VERSIONS, HEARTBEAT = 0, 2, 18, 12
CORRELATION_ID = 77


class Connection:
    """Who asks."""

    def __init__(self):
        self.session = session("127.0.0.1", 5000)
        self.turn = None
        self.called = 0

    def use_turn(self):
        self.called += 1


CONNECTION = Connection()


class Broker:
    """A dispatcher over three APIs whose handlers do what a test says."""

    def __init__(self, clock=None):
        self.seen = []
        self.answer = ListOffsetsResponse()
        self.metrics = RequestMetrics()
        self.clock = clock or HandClock()
        self.dispatch = Dispatcher(
            [
                Route(PRODUCE, "0-13", self.handle, self.metrics, ()),
                Route(LIST_OFFSETS, "1-8", self.handle, self.metrics, ()),
                Route(API_VERSIONS, "0-3", self.handle, self.metrics, ()),
            ],
            self.clock,
            lambda: ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION),
        ).handle

    def handle(self, request, context):
        self.seen.append((request, context))
        return self.answer

    def send(self, request, version, client_id="tester", connection=CONNECTION):
        api = api_of(type(request))
        parts = encode_request(api, version, CORRELATION_ID, client_id, request)
        return self.dispatch(connection, memoryview(b"".join(parts)[4:]))


def decoded(request, version, parts):
    """Read an answer back, its size and correlation id checked."""
    framed = b"".join(parts)
    size, correlation_id = struct.unpack_from(">ii", framed)
    assert size == len(framed) - 4
    assert correlation_id == CORRELATION_ID
    return decode_response(api_of(type(request)), version, memoryview(framed)[4:])


def header(key, version, client_id_length=-1):
    return memoryview(struct.pack(">hhih", key, version, CORRELATION_ID, client_id_length))


@pytest.fixture
def broker():
    return Broker()


def test_a_handler_gets_the_decoded_request_and_who_asks(broker):
    request = ListOffsetsRequest(replica_id=-1)
    answer = decoded(request, 5, broker.send(request, 5))
    assert answer == broker.answer
    ((seen, context),) = broker.seen
    assert seen == request
    assert context == (CONNECTION.session, 5, "tester", CONNECTION, ALLOW_ALL)


@pytest.mark.parametrize("key", [HEARTBEAT, 999, -1, 32767])
def test_a_key_that_is_not_served_or_not_known_ends_the_talk(broker, key):
    with pytest.raises(ProtocolError, match=str(key)):
        broker.dispatch(CONNECTION, header(key, 0))
    assert not broker.seen


@pytest.mark.parametrize("version", [0, 9, 32767, -1])
def test_a_version_that_is_not_served_ends_the_talk_and_names_the_api(broker, version):
    with pytest.raises(ProtocolError, match="ListOffsets"):
        broker.dispatch(CONNECTION, memoryview(bytes(header(LIST_OFFSETS, version)) + bytes(32)))
    assert not broker.seen


@pytest.mark.parametrize("version", [4, 127, 32767])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(broker, version):
    parts = broker.dispatch(CONNECTION, memoryview(bytes(header(API_VERSIONS, version)) + bytes(8)))
    answer = decoded(ApiVersionsRequest(), 0, parts)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert not broker.seen


@pytest.mark.parametrize("size", range(10))
def test_a_frame_that_ends_in_its_header_is_no_request(broker, size):
    with pytest.raises(ProtocolError):
        broker.dispatch(CONNECTION, header(LIST_OFFSETS, 5)[:size])


def test_a_body_that_is_not_the_message_is_refused_before_any_handler(broker):
    with pytest.raises(ProtocolError):
        broker.dispatch(CONNECTION, memoryview(bytes(header(LIST_OFFSETS, 5)) + b"\xff" * 3))
    assert not broker.seen


def test_an_array_larger_than_its_frame_is_refused_without_memory_for_it(broker):
    body = struct.pack(">ibi", -1, 0, 2**31 - 1)
    with pytest.raises(ProtocolError):
        broker.dispatch(CONNECTION, memoryview(bytes(header(LIST_OFFSETS, 2)) + body))


def test_no_answer_is_sent_where_the_protocol_has_none(broker):
    broker.answer = None
    assert broker.send(ProduceRequest(acks=0), 7) is None


def test_a_request_is_counted_when_it_is_understood_and_timed_when_it_is_answered(broker):
    broker.send(ListOffsetsRequest(replica_id=-1), 5)
    stats = broker.metrics.of("ListOffsets")
    assert stats.requests == sum(stats.buckets) == 1
    assert stats.bytes_in > 0


def test_a_coroutine_is_work_under_way_that_a_leaving_client_does_not_stop(broker):
    async def scenario():
        go_on = asyncio.Event()
        finished = []

        async def work():
            await go_on.wait()
            finished.append(True)
            return ListOffsetsResponse()

        broker.answer = work()
        request = ListOffsetsRequest(replica_id=-1)
        later = broker.send(request, 5)
        assert isinstance(later, Later)
        later.abandon()
        go_on.set()
        await later.future
        assert finished
        assert decoded(request, 5, later.framed()) == ListOffsetsResponse()

    asyncio.run(scenario())


def test_a_future_is_a_parked_request_that_a_leaving_client_takes_along(broker):
    async def scenario():
        broker.answer = asyncio.get_running_loop().create_future()
        later = broker.send(ListOffsetsRequest(replica_id=-1), 5)
        later.abandon()
        assert broker.answer.cancelled()

    asyncio.run(scenario())


def test_an_answer_that_comes_late_and_is_none_sends_nothing(broker):
    async def scenario():
        async def work():
            return None

        broker.answer = work()
        later = broker.send(ProduceRequest(acks=0), 7)
        await later.future
        assert later.framed() == []

    asyncio.run(scenario())


def test_a_handler_that_is_a_generator_is_done_in_slices(broker):
    request = ListOffsetsRequest(replica_id=-1)

    def short():
        yield
        return ListOffsetsResponse(throttle_time_ms=5)

    broker.answer = short()
    assert decoded(request, 5, broker.send(request, 5)).throttle_time_ms == 5


def test_a_handler_with_more_to_do_than_one_slice_answers_later():
    async def run():
        broker = Broker()

        def long():
            for _ in range(100):
                broker.clock.now_ms += 1
                yield
            return ListOffsetsResponse(throttle_time_ms=6)

        request, broker.answer = ListOffsetsRequest(replica_id=-1), long()
        later = broker.send(request, 5)
        assert isinstance(later, Later)
        assert later.work is None
        await later.future
        assert decoded(request, 5, later.framed()).throttle_time_ms == 6

    asyncio.run(run())


def counting(broker, count, result):
    """Handle in so many steps of a millisecond each."""
    for _ in range(count):
        broker.clock.now_ms += 1
        yield
    return result


@pytest.mark.parametrize("count", [1, 100])
def test_a_generator_may_return_a_response_that_is_still_to_come(count):
    async def run():
        broker = Broker()

        async def answer():
            await asyncio.sleep(0)
            return ListOffsetsResponse(throttle_time_ms=8)

        request = ListOffsetsRequest(replica_id=-1)
        broker.answer = counting(broker, count, answer())
        later = broker.send(request, 5)
        if count > 1:
            await later.future
            later = later.framed()
        # From here on it is work that a leaving client does not stop.
        assert later.work is later.future
        await later.future
        assert decoded(request, 5, later.framed()).throttle_time_ms == 8

    asyncio.run(run())


def large_request(count):
    partitions = [ListOffsetsPartition(number) for number in range(count)]
    return ListOffsetsRequest(-1, topics=[ListOffsetsTopic("topic", partitions)])


def large_response(count):
    partitions = [ListOffsetsPartitionResponse(number) for number in range(count)]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("topic", partitions)])


class TickingClock(HandClock):
    """Each look at it takes a tenth of a millisecond."""

    def monotonic(self):
        self.now_ms += 0.1
        return super().monotonic()


async def answer_of(broker, request, version):
    """Send a request and wait for its answer; also tell by how many futures it came."""
    answer, waited = broker.send(request, version), 0
    while isinstance(answer, Later):
        await asyncio.wait([answer.future])
        answer, waited = answer.framed(), waited + 1
    return answer, waited


@pytest.mark.parametrize("version", [5, 6])
def test_a_large_request_is_decoded_and_answered_in_slices(version):
    async def run():
        broker = Broker(TickingClock())
        request, broker.answer = large_request(20_000), large_response(20_000)
        parts, waited = await answer_of(broker, request, version)
        assert waited == 1
        ((seen, context),) = broker.seen
        assert seen == request
        assert context.client_id == "tester"
        assert len(parts) > 10, "a large answer is not joined in one piece"
        assert decoded(request, version, parts) == broker.answer
        stats = broker.metrics.of("ListOffsets")
        assert stats.requests == sum(stats.buckets) == 1

    asyncio.run(run())


def test_full_runs_of_the_garbage_collector_wait_for_work_on_a_large_request(monkeypatch):
    monkeypatch.setattr("moldau.server.network.slices.COLLECTIONS_WAIT_S", 0.01)

    async def run():
        broker, thresholds = Broker(TickingClock()), []

        async def work():
            await asyncio.sleep(0.05)
            thresholds.append(gc.get_threshold()[2])
            return large_response(1)

        broker.answer = work()
        await answer_of(broker, large_request(20_000), 5)
        assert thresholds == [NEVER]

    asyncio.run(run())


def test_small_answers_are_not_put_off_in_a_busy_turn_of_the_loop():
    def handled():
        yield from ()
        return ListOffsetsResponse(throttle_time_ms=9)

    async def run():
        broker, request = Broker(TickingClock()), ListOffsetsRequest(-1)
        for _ in range(100):
            broker.answer = handled()
            assert decoded(request, 5, broker.send(request, 5)).throttle_time_ms == 9

    asyncio.run(run())


def test_a_large_request_that_takes_no_time_is_answered_on_the_spot(broker):
    request = large_request(5000)
    assert decoded(request, 5, broker.send(request, 5)) == broker.answer


def test_a_large_answer_to_a_small_request_is_encoded_in_slices():
    async def run():
        broker = Broker(TickingClock())
        request, broker.answer = ListOffsetsRequest(-1), large_response(20_000)
        parts, waited = await answer_of(broker, request, 5)
        assert waited == 1
        assert decoded(request, 5, parts) == broker.answer

        async def work():
            return large_response(30_000)

        broker.answer = work()
        parts, waited = await answer_of(broker, request, 5)
        assert waited == 2
        assert decoded(request, 5, parts) == large_response(30_000)
        stats = broker.metrics.of("ListOffsets")
        assert stats.requests == sum(stats.buckets) == 2

    asyncio.run(run())


def test_records_of_a_large_request_are_its_own_once_it_was_paused():
    async def run():
        broker = Broker(TickingClock())
        data = [PartitionProduceData(number, b"records %d" % number) for number in range(9000)]
        request = ProduceRequest(topic_data=[TopicProduceData("topic", partition_data=data)])
        broker.answer = None
        api = api_of(ProduceRequest)
        frame = bytearray(b"".join(encode_request(api, 9, 1, "tester", request))[4:])
        later = broker.dispatch(CONNECTION, memoryview(frame))
        frame[:] = bytes(len(frame))  # what the next read does to a receive buffer
        await asyncio.wait([later.future])
        assert later.framed() == []
        ((seen, _),) = broker.seen
        (topic,) = seen.topic_data
        assert [bytes(one.records) for one in topic.partition_data] == [one.records for one in data]

    asyncio.run(run())


@pytest.mark.parametrize("version", [5, 6])
def test_a_request_with_too_many_elements_is_refused_and_says_whose(broker, version):
    with pytest.raises(
        ProtocolError, match=r"ListOffsetsRequest v\d: .*100001 elements.* 100000 .*'tester'"
    ):
        broker.send(large_request(ELEMENTS_PER_REQUEST + 1), version)
    assert not broker.seen


def test_nested_elements_count_together(broker):
    topics = [ListOffsetsTopic("t", [ListOffsetsPartition(0)])] * (ELEMENTS_PER_REQUEST // 2 + 1)
    with pytest.raises(ProtocolError, match="100000"):
        broker.send(ListOffsetsRequest(-1, topics=topics), 5)
    broker.send(ListOffsetsRequest(-1, topics=topics[1:]), 5)
    assert len(broker.seen) == 1


@pytest.mark.parametrize("fast", [False, True])
def test_a_request_that_holds_the_loop_is_noted_with_its_sender(broker, fast, caplog):
    lag = broker.metrics.lag

    def slow(*_):
        broker.clock.now_ms += 1500
        if fast:
            broker.metrics.of("ListOffsets").answered(123, 1.5)
            return [b"answer"]
        return ListOffsetsResponse()

    route = Route(LIST_OFFSETS, "1-8", slow, broker.metrics, ())
    route.fast_path = slow if fast else None
    broker.dispatch = Dispatcher([route], broker.clock, lambda: None, lag).handle
    broker.send(ListOffsetsRequest(-1), 5)
    lag.tick(100.0, 1.4)
    assert lag.longest_s == 1.5
    (line,) = caplog.messages
    assert "1.50 s, for ListOffsets v5 of client 'tester' at 127.0.0.1:5000, 2" in line
    broker.send(ListOffsetsRequest(-1), 5)
    lag.tick(101.0, 1.4)
    assert len(caplog.messages) == 1, "warned again at once"


def test_work_that_may_be_dropped_ends_with_its_client_and_other_work_does_not(broker):
    async def scenario():
        for drop in (True, False):
            go_on = asyncio.Event()
            broker.answer = Droppable(go_on.wait()) if drop else go_on.wait()
            later = broker.send(ListOffsetsRequest(replica_id=-1), 5)
            assert later.work is later.future
            await asyncio.sleep(0)
            later.abandon()
            go_on.set()
            await asyncio.wait([later.future])
            assert later.future.cancelled() == drop

    asyncio.run(scenario())


def test_only_a_few_large_requests_are_worked_on_at_once():
    async def run():
        broker = Broker(TickingClock())
        large, quick = large_request(20_000), ListOffsetsRequest(-1)
        at_work = [broker.send(large_request(5000), 5)]
        at_work += [broker.send(large, 5) for _ in range(LARGE_REQUESTS_AT_ONCE - 1)]
        waiting = [Connection() for _ in range(3)]
        for connection in waiting:
            turn = broker.send(large, 5, connection=connection)
            assert turn is connection.turn
            assert broker.send(large, 5, connection=connection) is turn, "presented too early"
        # Neither a small request nor one that is decoded at once needs a turn.
        assert decoded(quick, 5, broker.send(quick, 5)) == broker.answer
        assert not broker.seen[1:]

        await asyncio.wait([at_work[0].future])
        first, second, third = waiting
        assert [one.called for one in waiting] == [1, 0, 0]
        second.turn.end()  # it has left
        at_work[1].abandon()
        await asyncio.wait([one.future for one in at_work[2:]])
        assert [one.called for one in waiting] == [1, 0, 1]
        for connection in (first, third):
            later = broker.send(large, 5, connection=connection)
            assert connection.turn is None
            await asyncio.wait([later.future])
            assert decoded(large, 5, later.framed()) == broker.answer

    asyncio.run(run())


def test_a_turn_comes_back_however_its_request_ends():
    async def run():
        broker = Broker(TickingClock())
        topics = [ListOffsetsTopic("a long name", [ListOffsetsPartition(0)])] * 5000
        request = ListOffsetsRequest(-1, topics=topics)
        api = api_of(ListOffsetsRequest)
        data = memoryview(b"".join(encode_request(api, 5, 1, "tester", request))[4:])
        wrong = data[:-20]
        for _ in range(LARGE_REQUESTS_AT_ONCE + 1):
            later = broker.dispatch(CONNECTION, wrong)
            with pytest.raises(ProtocolError):
                await later.future
        broker.answer = object()  # no response: a bug
        for _ in range(LARGE_REQUESTS_AT_ONCE + 1):
            later = broker.dispatch(CONNECTION, data)
            later.abandon()
            await asyncio.sleep(0)
        assert isinstance(broker.dispatch(CONNECTION, data), Later)

    asyncio.run(run())


def test_a_turn_comes_back_when_a_wrong_request_is_found_wrong_at_once():
    async def run():
        broker = Broker(TickingClock())
        large, waiting = large_request(20_000), Connection()
        at_work = [broker.send(large, 5) for _ in range(LARGE_REQUESTS_AT_ONCE)]
        broker.send(large, 5, connection=waiting)
        await asyncio.wait([one.future for one in at_work])
        assert waiting.turn.granted
        api = api_of(ListOffsetsRequest)
        wrong = b"".join(encode_request(api, 5, 1, "tester", large))[4:100] + b"\xff" * 20_000
        with pytest.raises(ProtocolError):
            broker.dispatch(waiting, memoryview(wrong))
        assert waiting.turn is None
        again = [broker.send(large, 5) for _ in range(LARGE_REQUESTS_AT_ONCE)]
        assert [type(one) for one in again] == [Later] * LARGE_REQUESTS_AT_ONCE
        await asyncio.wait([one.future for one in again])

    asyncio.run(run())


def test_work_that_a_large_request_leads_to_is_finished_even_if_its_client_leaves():
    async def run():
        broker, finished = Broker(TickingClock()), []

        async def work():
            finished.append(True)
            return ListOffsetsResponse()

        broker.answer = work()
        later = broker.send(large_request(20_000), 5)
        while not broker.seen:  # noqa: ASYNC110 - a turn of the loop at a time
            await asyncio.sleep(0)
        later.abandon()
        await asyncio.wait([later.future])
        assert not later.future.cancelled()
        await later.framed().future
        assert finished

    asyncio.run(run())
