"""How many connections there may be, and which of them have been quiet for too long."""

import asyncio
import struct
from types import SimpleNamespace

import pytest

from moldau.base.errors import ProtocolError
from moldau.base.limits import UNSENT_BYTES_PER_CONNECTION
from moldau.base.network import Address
from moldau.security.session import ANONYMOUS, SecurityProtocol
from moldau.server.network.connection import PARTS_PER_WRITE
from moldau.server.network.connections import ConnectionLimits, Connections
from moldau.server.network.listeners import Endpoint

FAR = 2**31 - 1
ENDPOINT = Endpoint("INTERNAL", "", 9092, "here.example", 9092)
FRAME = struct.pack(">i", 2) + b"hi"


class Stream:
    """The stream of a client at some address; remembers how it ended."""

    def __init__(self, host="10.0.0.1", port=50000):
        self.peer = Address(host, port)
        self.local = Address("10.0.0.9", 9092)
        self.unsent = 0
        self.paused = False
        self.sent = []
        self.ended = None
        self.receiver = None

    def send(self, parts):
        self.sent += parts

    def expect(self, size):
        pass

    def pause(self):
        self.paused = True

    def resume(self):
        self.paused = False

    def close(self):
        """End once nothing is queued, as a real stream does."""
        if not self.unsent:
            self.abort()

    def abort(self):
        if self.ended is None:
            self.ended = True
            if self.receiver is not None:
                self.receiver.closed(None)


def connections(
    count_max=FAR, per_host_max=FAR, dispatch=lambda _connection, _frame: None, **hosts
):
    return Connections(
        dispatch,
        frame_limit=1000,
        limits=lambda: ConnectionLimits(
            count_max,
            per_host_max,
            {name.replace("_", "."): limit for name, limit in hosts.items()},
        ),
    )


def arrive(all_connections, stream):
    """Let a client in, as a listener does; tells whether it may stay."""
    stream.receiver = all_connections.acceptor(ENDPOINT)(stream)
    return stream.ended is None


def in_a_loop(scenario):
    async def main():
        scenario(asyncio.get_running_loop())

    asyncio.run(main())


def test_the_connection_beyond_max_connections_is_closed_and_the_others_stay(caplog):
    def scenario(_loop):
        every = connections(count_max=2)
        first, second, third = Stream(), Stream("10.0.0.2"), Stream("10.0.0.3")
        assert [arrive(every, one) for one in (first, second, third)] == [True, True, False]
        assert len(every) == 2
        assert first.ended is second.ended is None
        (line,) = caplog.messages
        assert "max.connections" in line
        assert "10.0.0.3" in line

    in_a_loop(scenario)


def test_an_accepted_connection_has_the_session_of_an_unknown_client():
    def scenario(_loop):
        stream = Stream("10.0.0.2", 4711)
        assert arrive(connections(), stream)
        session = stream.receiver.session
        assert (session.listener, session.security_protocol) == ("INTERNAL", SecurityProtocol(0))
        assert (session.peer, str(session.principal)) == (("10.0.0.2", 4711), "User:ANONYMOUS")
        assert session.principal is ANONYMOUS
        assert (session.client_software_name, session.client_software_version) == ("", "")

    in_a_loop(scenario)


def test_a_connection_that_ended_makes_room():
    def scenario(_loop):
        every = connections(count_max=1)
        first = Stream()
        assert arrive(every, first)
        first.abort()
        assert len(every) == 0
        assert arrive(every, Stream())

    in_a_loop(scenario)


def test_one_address_cannot_take_the_room_of_others():
    def scenario(_loop):
        every = connections(per_host_max=2)
        mine = [Stream("10.0.0.1", port) for port in range(3)]
        assert [arrive(every, one) for one in mine] == [True, True, False]
        assert arrive(every, Stream("10.0.0.2"))
        mine[0].abort()
        assert arrive(every, Stream("10.0.0.1"))

    in_a_loop(scenario)


def test_an_address_may_have_a_limit_of_its_own():
    def scenario(_loop):
        every = Connections(
            lambda _connection, _frame: None,
            frame_limit=1000,
            limits=lambda: ConnectionLimits(FAR, 0, {"10.0.0.1": 1}),
        )
        assert not arrive(every, Stream("10.0.0.2"))
        assert arrive(every, Stream("10.0.0.1"))
        assert not arrive(every, Stream("10.0.0.1"))

    in_a_loop(scenario)


def test_what_arrives_during_the_start_waits_and_is_answered_afterwards():
    def scenario(_loop):
        every = connections(dispatch=lambda _connection, frame: [bytes(frame)])
        early = Stream()
        assert arrive(every, early)
        assert early.paused
        every.begin()
        assert not early.paused
        late = Stream()
        arrive(every, late)
        assert not late.paused
        early.receiver.received(memoryview(FRAME))
        assert early.sent == [b"hi"]

    in_a_loop(scenario)


def test_only_those_are_closed_that_were_silent_for_the_whole_time():
    def scenario(loop):
        every = connections()
        silent, busy = Stream("10.0.0.1"), Stream("10.0.0.2")
        for stream in (silent, busy):
            arrive(every, stream)
        every.begin()
        for stream in (silent, busy):
            stream.receiver.last_active -= 100
        busy.receiver.received(memoryview(FRAME))
        assert every.close_idle(loop.time() - 50) == 1
        assert silent.ended
        assert busy.ended is None
        assert len(every) == 1

    in_a_loop(scenario)


def test_a_client_that_never_takes_its_answer_is_gone_at_the_second_look():
    def scenario(loop):
        every = connections()
        stuck = Stream()
        arrive(every, stuck)
        stuck.receiver.last_active -= 100
        stuck.unsent = 1000
        every.close_idle(loop.time() - 50)
        assert stuck.ended is None, "what is queued is still sent"
        every.close_idle(loop.time() - 50)
        assert stuck.ended
        assert len(every) == 0

    in_a_loop(scenario)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_all_can_be_closed_at_once(count):
    def scenario(_loop):
        every = connections()
        streams = [Stream(port=port) for port in range(count)]
        for stream in streams:
            arrive(every, stream)
        every.close_all()
        assert all(stream.ended for stream in streams)
        assert len(every) == 0

    in_a_loop(scenario)


def test_a_refusal_that_comes_late_closes_with_one_line_and_no_traceback(caplog):
    async def main():
        future = asyncio.get_running_loop().create_future()

        def framed():
            raise ProtocolError("it was refused")

        later = SimpleNamespace(
            listen=future.add_done_callback,
            framed=framed,
            abandon=lambda: None,
            is_applied=False,
        )
        every = connections(dispatch=lambda _connection, _frame: later)
        every.begin()
        client = Stream()
        arrive(every, client)
        with caplog.at_level("INFO"):
            client.receiver.received(memoryview(FRAME))
            future.set_result(None)
            await asyncio.sleep(0)
        assert client.ended
        (record,) = caplog.records
        assert "it was refused" in record.getMessage()
        assert record.exc_info is None

    asyncio.run(main())


def test_requests_wait_when_the_answers_to_those_before_them_are_not_read():
    def scenario(_loop):
        answered = []

        def dispatch(_connection, _frame):
            answered.append(1)
            return [b"large"]

        every = connections(dispatch=dispatch)
        every.begin()
        client = Stream()
        client.send = lambda parts: setattr(
            client, "unsent", client.unsent + len(parts) * UNSENT_BYTES_PER_CONNECTION
        )
        arrive(every, client)
        data = FRAME * (10 * PARTS_PER_WRITE)
        used = client.receiver.received(memoryview(data))
        assert len(answered) == PARTS_PER_WRITE
        assert used == len(FRAME) * PARTS_PER_WRITE
        assert client.paused
        client.unsent = 0
        client.receiver.drained()
        assert not client.paused

    in_a_loop(scenario)


def test_limits_that_change_hold_for_the_next_connection():
    def scenario(_loop):
        limits = ConnectionLimits(1, FAR, {})
        every = Connections(
            lambda _connection, _frame: None, frame_limit=1000, limits=lambda: limits
        )
        assert arrive(every, Stream("10.0.0.1"))
        assert not arrive(every, Stream("10.0.0.2"))
        limits = ConnectionLimits(2, FAR, {})
        assert arrive(every, Stream("10.0.0.2"))

    in_a_loop(scenario)


def test_a_stop_waits_for_what_is_being_carried_out_and_takes_nothing_new():
    async def scenario():
        done = []

        class Work:
            is_applied = False

            def __init__(self):
                self.work = asyncio.ensure_future(self.carry_out())
                self.listen = self.work.add_done_callback

            async def carry_out(self):
                await asyncio.sleep(0.01)
                done.append("carried out")

            def framed(self):
                return [b"answer"]

        every = connections(dispatch=lambda _connection, _frame: Work())
        every.begin()
        stream = Stream()
        assert arrive(every, stream)
        stream.receiver.received(memoryview(FRAME))
        await every.finish(patience_s=10.0)
        assert done == ["carried out"]
        assert stream.paused

    asyncio.run(scenario())
