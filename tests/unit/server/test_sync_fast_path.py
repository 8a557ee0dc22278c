"""The fast path through SyncGroup: whatever is sent, its answers and effects are the slow path's.

Every test sends the same frames to two brokers, one that has the fast path and one that does not.
"""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits.fast_path_kit import BothPaths, OneRouteBroker
from kits.group_shard_kit import ServedShard
from kits.log_kit import HandClock
from kits.request_kit import session
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import SyncGroupRequest, SyncGroupRequestAssignment
from moldau.protocol.registry import decode_response, encode_request, find_api
from moldau.security.session import Principal
from moldau.server.handlers import sync_fast_path
from moldau.server.handlers.groups import GroupHandlers
from moldau.server.handlers.sync_fast_path import SYNC_GROUP_KEY, VERSION, SyncFastPath
from moldau.server.network import fast_path as network_fast_path
from moldau.server.network.dispatch import Route

MEMBERS = 5
OTHER = session(principal=Principal("User", "other"))
LOOP = asyncio.new_event_loop()
LOOP.close()
"""For the futures of parked requests; none is ever awaited."""


class OneShard:
    """The runtime, as far as a sync needs it."""

    def __init__(self):
        self.served = ServedShard()

    def call(self, key, handler, failed):
        ticket = self.served.ask(handler)
        return ticket.answer if ticket.answers else asyncio.Future(loop=LOOP)

    def read_at_once(self, key, decide, asked):
        return decide(self.served.shard, asked)


class Broker(OneRouteBroker):
    """One group whose members have joined, behind a dispatcher."""

    def __init__(self, *, fast_path, group="g", client_id="client"):
        super().__init__()
        self.runtime = OneShard()
        self.served = self.runtime.served
        joins = [self.served.join(group=group, client_id=client_id) for _ in range(MEMBERS)]
        self.served.later(10)
        self.leader, *self.followers = (join.answer.member_id for join in joins)
        self.generation = joins[0].answer.generation_id
        handlers = GroupHandlers(self.runtime)
        route = Route(SYNC_GROUP_KEY, "0-5", handlers.sync, self.metrics, ())
        sync_fast = SyncFastPath(handlers, self.metrics.of("SyncGroup"), HandClock())
        self.serve(route, sync_fast, HandClock(), has_fast_path=fast_path)

    def content(self):
        return self.served.timers, self.served.describe()


class Both(BothPaths):
    """The two brokers; they give their members the same ids."""

    broker, api = Broker, "SyncGroup"

    def __init__(self, **more):
        super().__init__(**more)
        assert self.slow.followers == self.fast.followers
        self.leader, self.followers = self.fast.leader, self.fast.followers
        self.generation = self.fast.generation

    def assign(self, size=3, **more):
        """The leader's sync, after which the group is stable."""
        assignments = [
            SyncGroupRequestAssignment(member_id, bytes([number + 1]) * size)
            for number, member_id in enumerate((self.leader, *self.followers))
        ]
        assert decoded(self.send(self.frame(self.leader, assignments, **more))).error_code == 0

    def frame(self, member_id, assignments=(), *, version=VERSION, client_id="client", **changes):
        request = SyncGroupRequest(
            "g", self.generation, member_id, None, "consumer", "range", list(assignments)
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return frame(request, version, client_id)


def frame(request, version=VERSION, client_id="client", correlation_id=7):
    parts = encode_request(find_api(SYNC_GROUP_KEY), version, correlation_id, client_id, request)
    return b"".join(parts)[4:]


def decoded(answer, version=VERSION):
    return decode_response(find_api(SYNC_GROUP_KEY), version, memoryview(answer)[4:])


@pytest.fixture
def both():
    return Both()


def test_followers_of_a_stable_group_take_the_fast_path_but_for_the_last(both):
    both.assign()
    told = [decoded(both.send(both.frame(member_id))) for member_id in both.followers]
    assert [one.assignment for one in told] == [b"\2" * 3, b"\3" * 3, b"\4" * 3, b"\5" * 3]
    assert {(one.protocol_type, one.protocol_name) for one in told} == {("consumer", "range")}
    assert both.fast_count == MEMBERS - 2, "the last one ends the timer of the sync phase"


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 20_000])
def test_assignments_may_have_any_size(both, size):
    both.assign(size)
    assert len(decoded(both.send(both.frame(both.followers[0]))).assignment) == size
    assert both.fast_count == 1


def test_the_client_id_does_not_matter(both):
    both.assign()
    for client_id in ("client", "another", ""):
        both.send(both.frame(both.followers[0], client_id=client_id))
    assert both.fast_count == 3
    both.send(both.frame(both.followers[0], client_id=None))
    assert both.fast_count == 3


def test_a_sync_before_the_assignment_is_parked(both):
    assert both.send(both.frame(both.followers[0])) == "parked"
    assert not both.fast_count


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": ""}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "another"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_instance_id": "static"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"version": 4}, ErrorCode.NONE),
        ({"version": 3}, ErrorCode.NONE),
        ({"member_id": "m" * 200}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "g" * 200}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "p" * 2000}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_whatever_else_is_asked_takes_the_slow_path(both, changes, error):
    both.assign()
    changes = dict(changes)
    version = changes.get("version", VERSION)
    sent = both.frame(changes.pop("member_id", both.followers[0]), **changes)
    for _ in range(2):
        assert decoded(both.send(sent), version).error_code == error
    assert not both.fast_count


def test_a_rebalance_ends_the_fast_path(both):
    both.assign()
    both.send(both.frame(both.followers[0]))
    for one in (both.fast, both.slow):
        one.served.join(group="g")
    answer = decoded(both.send(both.frame(both.followers[1])))
    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert both.fast_count == 1


def test_what_is_known_of_one_principal_is_not_used_for_another(both, monkeypatch):
    asked = []
    decode = sync_fast_path.decode_request

    def decoding(*arguments):
        asked.append(arguments)
        return decode(*arguments)

    both.assign()
    monkeypatch.setattr(sync_fast_path, "decode_request", decoding)
    for asker in (None, OTHER, None, OTHER):
        both.send(both.frame(both.followers[0]), asker)
    assert len(asked) == 2, "each principal's sync is decoded once"
    assert both.fast_count == 4


def test_only_so_many_requests_are_remembered(both, monkeypatch):
    monkeypatch.setattr(network_fast_path, "PREFIXES_KEPT", 2)
    both.assign()
    for number in range(5):
        both.send(both.frame(both.followers[0], group_id=f"another-{number}"))
        both.send(both.frame(both.followers[0]))
    assert both.fast_count == 5


def test_a_protocol_named_like_our_mark_is_told_as_it_is():
    mark = "\x0fthe assignment"
    known = SyncGroupRequest("g", 1, "m", None, mark, mark)
    answer = sync_fast_path._answer_template(known).render(bytes(4), b"\x03ab")
    told = decode_response(find_api(SYNC_GROUP_KEY), VERSION, memoryview(answer)[4:])
    assert (told.protocol_type, told.protocol_name, told.assignment) == (mark, mark, b"ab")


@settings(max_examples=60)
@given(data=st.data())
def test_damaged_frames_are_answered_as_on_the_slow_path(data):
    both = Both()
    both.assign()
    good = both.frame(both.followers[0])
    both.send(good)
    for _ in range(20):
        kind = data.draw(st.sampled_from(("cut", "longer", "changed")))
        position = data.draw(st.integers(4, len(good) - 1))
        if kind == "cut":
            sent = good[:position]
        elif kind == "longer":
            sent = good[:position] + data.draw(st.binary(min_size=1, max_size=3)) + good[position:]
        else:
            sent = bytearray(good)
            sent[position] = data.draw(st.integers(0, 255))
        both.send(bytes(sent))
