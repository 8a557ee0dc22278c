"""A broker's place in its cluster: joining, staying, being taken for dead, leaving."""

from __future__ import annotations

import asyncio

import pytest

from moldau.base.errors import UserError
from moldau.cluster.brokers import BrokerRegistration
from moldau.cluster.heartbeats import HeartbeatAnswer
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.server.nodes.membership import Membership, MembershipTimes, State

TIMES = MembershipTimes(heartbeat_interval_s=2.0, registration_patience_s=60.0)
REGISTRATION = BrokerRegistration(7, b"\x07" * 16, (), (b"\xd7" * 16,), previous_broker_epoch=3)
FENCED = HeartbeatAnswer(is_caught_up=False, is_fenced=True, should_shut_down=False)
SERVING = HeartbeatAnswer(is_caught_up=True, is_fenced=False, should_shut_down=False)
MOVING = SERVING
GO = HeartbeatAnswer(is_caught_up=True, is_fenced=True, should_shut_down=True)


class Controller:
    """Answers as a test has written; the last answer of a kind is repeated."""

    def __init__(self, clock):
        self.clock = clock
        self.registrations = [100]
        self.answers = [SERVING]
        self.registered = []
        self.beats = []

    async def register_broker(self, registration):
        self.registered.append(registration)
        return self._next(self.registrations)

    async def heartbeat(self, beat):
        self.beats.append((self.clock.monotonic(), beat))
        return self._next(self.answers)

    def _next(self, answers):
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Member:
    """One broker and its controller."""

    def __init__(self, world):
        self.controller = Controller(world.clock)
        self.offset = 42
        self.failed = ()
        self.kept = []
        self.membership = Membership(
            self.controller, lambda: self.offset, world.clock, TIMES, self.keep, lambda: self.failed
        )
        self.running = None

    async def keep(self, broker_epoch):
        self.kept.append((broker_epoch, self.membership.state))

    async def join(self):
        await self.membership.register(REGISTRATION)
        self.running = asyncio.create_task(self.membership.run())
        await self.membership.unfenced()

    async def end(self):
        self.running.cancel()
        await asyncio.wait((self.running,))


def in_world(test):
    """Run a coroutine function of a member on virtual time."""

    def run(world, *arguments):
        world.run(test(Member(world), *arguments))

    return run


# Joining


@in_world
async def test_asks_again_until_the_old_session_has_ended(member):
    duplicate = ApiError(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    member.controller.registrations = [duplicate, StoreFailed("no disk"), duplicate, 101]
    await member.membership.register(REGISTRATION)
    assert member.membership.broker_epoch == 101
    assert member.membership.state is State.FENCED
    assert member.controller.registered == [REGISTRATION] * 4


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.UNSUPPORTED_VERSION,
    ],
)
def test_gives_up_at_once_if_it_will_never_be_taken(world, code):
    async def scenario():
        member = Member(world)
        member.controller.registrations = [ApiError(code)]
        with pytest.raises(UserError, match=f"cannot register broker 7: {code.name}"):
            await member.membership.register(REGISTRATION)
        assert len(member.controller.registered) == 1

    world.run(scenario())


def test_gives_up_after_its_patience(world):
    async def scenario():
        member = Member(world)
        member.controller.registrations = [ApiError(ErrorCode.NOT_CONTROLLER)]
        with pytest.raises(UserError, match="cannot register broker 7"):
            await member.membership.register(REGISTRATION)
        assert 60 <= world.clock.monotonic() - begun_s < 61
        assert member.membership.state is State.STARTING

    begun_s = world.clock.monotonic()
    world.run(scenario())


@in_world
async def test_wants_to_be_fenced_until_its_logs_are_loaded(member):
    member.controller.answers = [FENCED]
    await member.membership.register(REGISTRATION)
    member.running = asyncio.create_task(member.membership.run())
    await asyncio.sleep(5)
    assert all(beat.want_fence for _, beat in member.controller.beats)
    member.controller.answers = [FENCED, SERVING]
    await member.membership.unfenced()
    assert member.membership.state is State.RUNNING
    assert [beat.want_fence for _, beat in member.controller.beats[-2:]] == [False, False]
    await member.end()


# Staying


@in_world
async def test_a_heartbeat_says_how_far_the_metadata_was_read(member):
    await member.join()
    member.offset = 50
    await asyncio.sleep(3)
    _, beat = member.controller.beats[-1]
    assert (beat.broker_id, beat.broker_epoch, beat.metadata_offset) == (7, 100, 50)
    await member.end()


@in_world
async def test_goes_on_asking_a_controller_that_is_away(member):
    await member.join()
    member.controller.answers = [
        ApiError(ErrorCode.NOT_CONTROLLER), StoreFailed("full"), ApiError(ErrorCode.NOT_CONTROLLER),
        SERVING,
    ]  # fmt: skip
    await asyncio.sleep(20)
    assert member.membership.state is State.RUNNING
    assert len(member.controller.registered) == 1
    await member.end()


@in_world
async def test_one_that_is_fenced_meanwhile_asks_to_serve_again(member):
    await member.join()
    member.controller.answers = [FENCED, SERVING]
    count = len(member.controller.beats)
    await asyncio.sleep(2.5)
    assert member.membership.state is State.RUNNING
    (fenced_s, _), (serving_s, _) = member.controller.beats[count : count + 2]
    assert serving_s - fenced_s < 0.1
    await member.end()


@in_world
async def test_one_that_is_not_known_any_more_registers_again_with_its_last_epoch(member):
    await member.join()
    member.controller.answers = [ApiError(ErrorCode.STALE_BROKER_EPOCH), SERVING]
    member.controller.registrations = [ApiError(ErrorCode.NOT_CONTROLLER), 222]
    await asyncio.sleep(3)
    assert member.membership.broker_epoch == 222
    assert member.membership.state is State.RUNNING
    first, *again = member.controller.registered
    assert first.previous_broker_epoch == 3
    assert [one.previous_broker_epoch for one in again] == [100, 100]
    assert {one.incarnation_id for one in again} == {first.incarnation_id}
    # Each is on the disk before the broker may serve.
    assert member.kept == [(100, State.STARTING), (222, State.STARTING)]
    await member.end()


@in_world
async def test_one_whose_id_another_broker_has_taken_ends(member):
    await member.join()
    member.controller.answers = [ApiError(ErrorCode.STALE_BROKER_EPOCH)]
    member.controller.registrations = [ApiError(ErrorCode.DUPLICATE_BROKER_REGISTRATION)]
    with pytest.raises(UserError, match="cannot register broker 7: DUPLICATE"):
        await member.running
    assert member.membership.state is State.STARTING


# Leaving


@in_world
async def test_signs_off_once_the_controller_has_moved_its_leaders(member):
    await member.join()
    count = len(member.controller.beats)
    member.controller.answers = [MOVING, MOVING, GO]
    assert await member.membership.sign_off()
    assert [beat.want_shut_down for _, beat in member.controller.beats[count:]] == [True] * 3
    assert member.membership.state is State.STOPPED
    await member.running  # it has ended
    assert await member.membership.sign_off()


@in_world
async def test_one_that_was_taken_for_dead_may_go(member):
    await member.join()
    member.controller.answers = [ApiError(ErrorCode.STALE_BROKER_EPOCH)]
    assert await member.membership.sign_off()
    assert len(member.controller.registered) == 1


@in_world
async def test_without_a_controller_the_wait_ends(member):
    await member.join()
    member.controller.answers = [ApiError(ErrorCode.NOT_CONTROLLER)]
    began_s = member.controller.clock.monotonic()
    assert not await member.membership.sign_off(30)
    assert member.controller.clock.monotonic() - began_s < 10
    assert member.membership.state is State.STOPPING
    await member.end()


@in_world
async def test_a_controller_that_is_at_work_is_waited_for(member):
    await member.join()
    member.controller.answers = [MOVING] * 200 + [GO]
    began_s = member.controller.clock.monotonic()
    assert await member.membership.sign_off(30)
    assert member.controller.clock.monotonic() - began_s > 5


@in_world
async def test_one_that_has_not_registered_has_nothing_to_sign_off_from(member):
    assert not await member.membership.sign_off()
    assert member.controller.beats == []


# Failed log directories

FAILED = b"f" * 16


@in_world
async def test_a_failed_directory_is_told_at_once_and_in_every_heartbeat(member):
    await member.join()
    await asyncio.sleep(0.5)
    count = len(member.controller.beats)
    failed_s = member.controller.clock.monotonic()
    member.failed = (FAILED,)
    member.membership.directories_changed()
    await asyncio.sleep(10)
    beats = member.controller.beats[count:]
    assert beats[0][0] == failed_s
    assert {beat.offline_directories for _, beat in beats} == {(FAILED,)}
    assert 5 <= len(beats) <= 6
    await member.end()


@in_world
async def test_a_directory_that_fails_during_a_heartbeat_is_told_in_the_next_one_at_once(member):
    await member.join()
    heartbeat = member.controller.heartbeat

    async def fail_meanwhile(beat):
        member.failed = (FAILED,)
        member.membership.directories_changed()
        return await heartbeat(beat)

    member.controller.heartbeat = fail_meanwhile
    count = len(member.controller.beats)
    await asyncio.sleep(3)
    (first_s, first), (second_s, second) = member.controller.beats[count : count + 2]
    assert (first.offline_directories, second.offline_directories) == ((), (FAILED,))
    assert first_s == second_s
    await member.end()


@in_world
async def test_a_broker_whose_failed_directory_nobody_knows_of_ends(member):
    await member.join()
    member.controller.answers = [ApiError(ErrorCode.NOT_CONTROLLER)]
    member.failed = (FAILED,)
    member.membership.directories_changed()
    began_s = member.controller.clock.monotonic()
    with pytest.raises(UserError, match=r"within 30000 ms \(log\.dir\.failure\.timeout\.ms\)"):
        await member.running
    assert 30 <= member.controller.clock.monotonic() - began_s <= 33


@in_world
async def test_a_controller_that_was_told_may_be_away_afterwards(member):
    await member.join()
    member.failed = (FAILED,)
    member.membership.directories_changed()
    await asyncio.sleep(1)
    member.controller.answers = [ApiError(ErrorCode.NOT_CONTROLLER)]
    await asyncio.sleep(100)
    assert not member.running.done()
    await member.end()
