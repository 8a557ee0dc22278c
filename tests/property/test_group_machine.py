"""One group, and clients that join, sync, leave, crash, come back and are slow, in any order.

The clients follow the protocol as real ones do, the log commits late or refuses, the coordinator
restarts. Whatever happens: one leader assigns a generation, everybody in it follows one protocol
and gets its own part of that generation's assignment, whoever is fenced gets nothing, whoever
behaves stays, and in the end everybody is answered, once.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kits.group_kit import Desk, subscription
from moldau.coordination.groups.settings import GroupSettings
from moldau.coordination.groups.states import GroupState
from moldau.coordination.groups.turn import GroupTimer
from moldau.protocol.errors import ErrorCode

OFFERS = (
    (("range", subscription("orders")), ("sticky", b"malformed")),
    (("sticky", subscription("orders")), ("range", subscription("clicks"))),
    (("range", b""),),
)
SESSION_MS, REBALANCE_MS = 10_000, 30_000
MAX_SIZE, LIVING_MAX = 4, 5
ALL_PATIENCE_S = 3 * (SESSION_MS + REBALANCE_MS) / 1000
INSTANCES = ("i1", "i2")
START_AGAIN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED}
CHOICE = st.integers(0, 1000)
LOG = st.sampled_from(["commits", "slow", "commits", "slow", "refuses"])


class Client:
    """A client that follows the protocol, as long as it is let."""

    def __init__(self, desk, instance, version, offer):
        self.desk = desk
        self.instance = instance
        self.version = version
        self.offer = offer
        self.member_id = ""
        self.generation = -1
        self.members = None
        """Whom it has to assign, if it leads."""
        self.joining = None
        self.syncing = None
        self.is_synced = False
        self.is_gone = False
        """Crashed, left or fenced: it does nothing by itself any more."""

    def join(self):
        self.is_synced = False
        self.syncing = None
        self.joining = self.desk.join(
            self.member_id,
            instance=self.instance,
            protocols=OFFERS[self.offer],
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            version=self.version,
        )

    @property
    def is_idle(self):
        return not self.is_gone and self.joining is None and self.syncing is None

    @property
    def is_joined(self):
        return self.is_idle and self.generation >= 0

    def sync(self):
        parts = {one: f"{self.generation}/{one}".encode() for one in self.members or ()}
        self.syncing = self.desk.sync(
            self.member_id, self.generation, parts, instance=self.instance, version=4
        )

    def heartbeat(self):
        return self.desk.heartbeat(self.member_id, self.generation, instance=self.instance)

    def forget(self):
        self.member_id, self.generation, self.members = "", -1, None

    def gets_own_part(self, assignment):
        generation, _, member_id = assignment.decode().partition("/")
        is_own = member_id == self.member_id or (
            self.instance is not None and member_id.startswith(f"{self.instance}-")
        )
        return int(generation) == self.generation and is_own


class GroupMachine(RuleBasedStateMachine):
    """Clients of one group."""

    def __init__(self):
        super().__init__()
        self.desk = Desk(GroupSettings(max_size=MAX_SIZE, initial_rebalance_delay_ms=3000), seed=7)
        self.clients = []
        self.fenced = []
        """(member id, instance id) of those whose place was taken."""
        self.restarts = 0
        self.assigners = {}
        self.protocols = {}
        self.last_generation = 0
        self.inside = set()
        """Clients that behave, and have been members since they began to."""

    # Clients react to answers

    def pump(self):
        for _ in range(20):
            reacted = [self.react(client) for client in self.clients]
            if not any(reacted):
                return

    def react(self, client):
        if client.joining is not None and client.joining.answers:
            answer, client.joining = client.joining.answer, None
            self.joined(client, answer)
            return True
        if client.syncing is not None and client.syncing.answers:
            answer, client.syncing = client.syncing.answer, None
            self.synced(client, answer)
            return True
        return False

    def joined(self, client, answer):
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self.generation_told(client, answer)
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
            if not client.is_gone:
                client.join()
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            client.is_gone = True
        elif code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            assert client.offer != 0, "the offer that everybody shares was refused"
            client.offer = 0
            client.generation = -1
        else:
            assert code in START_AGAIN | {
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.REBALANCE_IN_PROGRESS,
            }, code
            if code is ErrorCode.GROUP_MAX_SIZE_REACHED:
                # While members gather, those who come first stay.
                self.inside.discard(client)
            client.forget()

    def generation_told(self, client, answer):
        era = (self.restarts, answer.generation_id)
        assert self.protocols.setdefault(era, answer.protocol_name) == answer.protocol_name
        assert answer.protocol_name in dict(OFFERS[client.offer])
        client.member_id = answer.member_id
        client.generation = answer.generation_id
        client.members = None
        if answer.leader == answer.member_id and not answer.skip_assignment:
            assert self.assigners.setdefault(era, answer.member_id) == answer.member_id
            client.members = [one.member_id for one in answer.members]
            assert client.member_id in client.members
        # What was decided before somebody took its place may still be on its way to it.
        assert client.is_gone or (client.member_id, client.instance) not in self.fenced

    def synced(self, client, answer):
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            assert client.is_gone or (client.member_id, client.instance) not in self.fenced
            client.is_synced = True
            assert answer.assignment == b"" or client.gets_own_part(answer.assignment)
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            client.is_gone = True
        elif code in START_AGAIN:
            client.forget()
        else:
            assert code in {
                ErrorCode.REBALANCE_IN_PROGRESS,
                ErrorCode.ILLEGAL_GENERATION,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            }, code
            client.generation = -1

    def pick(self, choice, wanted):
        fitting = [client for client in self.clients if wanted(client)]
        return fitting[choice % len(fitting)] if fitting else None

    # What clients do

    @initialize(
        dynamic=st.lists(st.sampled_from([3, 9]), max_size=3),
        static=st.lists(st.sampled_from(INSTANCES), max_size=2, unique=True),
        seconds=st.sampled_from([0, 4, 8]),
    )
    def some_clients_are_there(self, dynamic, static, seconds):
        for version in dynamic:
            self.a_dynamic_client_starts(offer=0, version=version)
        for instance in static:
            self.a_static_client_starts_or_comes_back(instance=instance, version=9, log="commits")
        self.behave(seconds)

    @rule(offer=st.sampled_from([0, 0, 1, 2]), version=st.sampled_from([3, 5, 9]))
    @precondition(lambda self: sum(not one.is_gone for one in self.clients) < LIVING_MAX)
    def a_dynamic_client_starts(self, offer, version):
        client = Client(self.desk, None, version, offer)
        self.clients.append(client)
        client.join()
        self.pump()

    @rule(instance=st.sampled_from(INSTANCES), version=st.sampled_from([5, 9]), log=LOG)
    def a_static_client_starts_or_comes_back(self, instance, version, log):
        self.set_log(log)
        for other in self.clients:
            # The process before is gone, or should be; what it asked for is still on its way.
            other.is_gone |= other.instance == instance
        before = self.desk.group._core.roster.of_instance(instance)
        client = Client(self.desk, instance, version, 0)
        self.clients.append(client)
        client.join()
        if before is not None and self.desk.group._core.roster.of_instance(instance) not in {
            None,
            before,
        }:
            self.fenced.append((before.member_id, instance))
        self.pump()

    @rule(first=CHOICE, count=st.integers(1, MAX_SIZE), log=LOG)
    def some_move_on(self, first, count, log):
        self.set_log(log)
        self.inside.clear()
        living = [one for one in self.clients if not one.is_gone]
        for index in range(min(count, len(living))):
            self.behave_once(living[(first + index) % len(living)])
            self.inside.clear()

    @rule(choice=CHOICE)
    def somebody_joins_again(self, choice):
        client = self.pick(choice, lambda one: one.is_idle)
        if client is not None:
            client.join()
            self.pump()

    @rule(choice=CHOICE, offer=st.integers(0, len(OFFERS) - 1))
    def somebody_subscribes_anew(self, choice, offer):
        client = self.pick(choice, lambda one: one.is_joined and one.instance is None)
        if client is not None:
            client.offer = offer
            client.join()
            self.pump()

    @rule(choice=CHOICE)
    def somebody_repeats_its_request(self, choice):
        client = self.pick(
            choice, lambda one: one.joining is not None and one.member_id and not one.is_gone
        )
        if client is not None:
            client.join()
            self.pump()

    @rule(choice=CHOICE, log=LOG)
    def somebody_syncs(self, choice, log):
        self.set_log(log)
        client = self.pick(choice, lambda one: one.is_joined)
        if client is not None:
            client.sync()
            self.pump()

    @rule(choice=CHOICE, log=LOG)
    def somebody_leaves(self, choice, log):
        self.set_log(log)
        client = self.pick(choice, lambda one: one.is_joined)
        if client is not None:
            self.desk.leave(client.member_id)
            client.is_gone = True
            self.pump()

    @rule(choice=CHOICE)
    def somebody_crashes(self, choice):
        client = self.pick(choice, lambda one: not one.is_gone)
        if client is not None:
            client.is_gone = True

    @rule(choice=CHOICE)
    @precondition(lambda self: self.fenced)
    def somebody_fenced_tries_everything(self, choice):
        member_id, instance = self.fenced[choice % len(self.fenced)]
        generation = self.desk.group.generation
        allowed = {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID}
        group = self.desk.group
        assert self.desk.heartbeat(member_id, generation, instance=instance) in allowed
        assert self.desk.heartbeat(member_id, generation) in allowed
        for transactional in (False, True):
            code = group.check_commit(member_id, instance, generation, transactional=transactional)
            assert code in allowed
        sync = self.desk.sync(member_id, generation, instance=instance, version=4)
        join = self.desk.join(member_id, instance=instance, protocols=OFFERS[0])
        self.desk.commit()
        assert sync.error in allowed
        # A full group says so first.
        assert join.error in allowed | START_AGAIN
        self.pump()

    # What happens around them

    @rule(seconds=st.sampled_from([0, 0.5, 1, 2, 3, 9, 35]), log=LOG)
    def time_passes(self, seconds, log):
        self.set_log(log)
        self.desk.advance(seconds)
        self.pump()

    @rule(
        begin=st.sampled_from(["sync", "return"]),
        event=st.sampled_from(["start", "change", "leave", "return", "silence", "nothing"]),
        choice=CHOICE,
        log=st.sampled_from(["slow", "slow", "refuses"]),
    )
    def something_happens_while_a_record_is_under_way(self, begin, event, choice, log):
        self.behave(4)
        if begin == "sync":
            for client in self.clients:
                if client.is_idle:
                    client.join()
            self.pump()
        self.set_log(log)
        if begin == "return":
            self.a_static_client_starts_or_comes_back(INSTANCES[0], 9, log)
        elif leader := self.pick(0, lambda one: one.is_joined and one.members):
            leader.sync()
        self.happen(event, choice, log)
        self.set_log("commits")

    def happen(self, event, choice, log):
        match event:
            case "start":
                self.a_dynamic_client_starts(offer=0, version=3)
            case "change":
                self.somebody_subscribes_anew(choice=choice, offer=1)
            case "leave":
                self.somebody_leaves(choice=choice, log=log)
            case "return":
                self.a_static_client_starts_or_comes_back(INSTANCES[0], 9, log)
            case "silence":
                self.time_passes(11, log)

    def set_log(self, behaviour):
        """Let the log commit, take but not commit, or refuse, from now on."""
        self.desk.refuses = ErrorCode.NOT_ENOUGH_REPLICAS if behaviour == "refuses" else None
        self.desk.commits_at_once = behaviour != "slow"
        if behaviour != "slow":
            self.desk.commit()
            self.pump()

    @rule()
    def the_coordinator_restarts(self):
        self.restarts += 1
        self.desk.commits_at_once = True
        self.desk.restart()
        self.desk.waiters = [one for one in self.desk.waiters if one.answers]
        self.last_generation = self.desk.group.generation
        self.fenced.clear()
        for client in self.clients:
            # The runtime told them that it no longer coordinates.
            if client.joining is not None or client.syncing is not None:
                client.joining = client.syncing = None
                client.generation = -1

    @rule(seconds=st.integers(1, 15))
    def everybody_behaves_for_a_while(self, seconds):
        self.behave(seconds)

    def behave(self, seconds):
        """Let all clients do what the protocol asks; whoever is in stays in."""
        self.set_log("commits")
        self.inside.clear()
        for _ in range(round(seconds)):
            for client in [one for one in self.clients if not one.is_gone]:
                self.behave_once(client)
            self.desk.advance(1)
            self.pump()

    def behave_once(self, client):
        if not client.is_idle:
            return
        if client.generation < 0:
            assert client not in self.inside or client.member_id, "lost although it behaved"
            client.join()
        elif not client.is_synced:
            client.sync()
        else:
            code = client.heartbeat()
            if code is ErrorCode.NONE:
                self.inside.add(client)
            elif code is ErrorCode.REBALANCE_IN_PROGRESS:
                self.inside.add(client)
                client.join()
            elif code is ErrorCode.FENCED_INSTANCE_ID:
                client.is_gone = True
            else:
                assert client not in self.inside, "lost although it behaved"
                client.forget() if code is ErrorCode.UNKNOWN_MEMBER_ID else client.join()
        self.pump()

    def teardown(self):
        self.behave(ALL_PATIENCE_S)
        assert all(len(waiter.answers) == 1 for waiter in self.desk.waiters)
        living = [client for client in self.clients if not client.is_gone]
        group = self.desk.group
        if not living:
            assert group.is_empty
            return
        assert group.state is GroupState.STABLE
        members = {one.member_id: one.member_assignment for one in group.described().members}
        assert len(members) == min(len(living), MAX_SIZE)
        inside = [client for client in living if client.member_id in members]
        assert {client.generation for client in inside} == {group.generation}
        assert len(inside) == len(members)
        self.desk.restart()
        assert {
            one.member_id: one.member_assignment for one in self.desk.group.described().members
        } == members

    # What always holds

    @invariant()
    def generations_only_grow(self):
        assert self.desk.group.generation >= self.last_generation
        self.last_generation = self.desk.group.generation

    @invariant()
    def the_books_are_in_step(self):
        core = self.desk.group._core
        roster = core.roster
        members = list(roster)
        assert roster.waiting_count == sum(one.waiting_join is not None for one in members)
        assert (roster.leader is None) == (not members)
        assert roster.leader is None or roster.get(roster.leader) is not None
        assert core.unsynced <= {one.member_id for one in members}
        assert len({one.instance_id for one in members if one.instance_id}) == sum(
            one.instance_id is not None for one in members
        )
        names = {name for one in members for name, _ in one.protocols}
        assert set(roster._supporters) == names
        assert not members or roster.choose_protocol() in names
        assert (core.state is GroupState.EMPTY) <= (not members)

    @invariant()
    def nobody_can_hold_up_the_group_for_ever(self):
        core, timers = self.desk.group._core, self.desk.timers
        for member in core.roster:
            timer = GroupTimer("session", core.group_id, member.member_id)
            if member.must_heartbeat:
                assert timers[timer] <= member.deadline
        for member_id in core.roster.pending:
            assert GroupTimer("session", core.group_id, member_id) in timers
        if core.state is GroupState.PREPARING_REBALANCE:
            assert GroupTimer("join", core.group_id) in timers
        if core.unsynced:
            assert GroupTimer("sync", core.group_id) in timers

    @invariant()
    def waiting_requests_fit_the_state(self):
        core = self.desk.group._core
        for member in core.roster:
            if member.waiting_sync is not None:
                assert core.state is GroupState.COMPLETING_REBALANCE
            if member.waiting_join is not None and core.state is not (
                GroupState.PREPARING_REBALANCE
            ):
                # A static member whose return is being written.
                assert core.state is GroupState.STABLE
                assert member.instance_id is not None


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(max_examples=100, stateful_step_count=30)
