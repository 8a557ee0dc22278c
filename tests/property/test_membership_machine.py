"""Clients of one group, as the client library plays them, against the coordinator's own rules.

Users are busy or ask, come and go, change their minds; connections are cut and mended, the
coordinator restarts, topics grow, time passes. Whatever happens: no partition has two readers that
the group counts among its members, a user hears of everything once and in order, and once the
trouble is over everybody reads its share of everything.
"""

from __future__ import annotations

from itertools import combinations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kits.group_kit import Desk
from kits.membership_kit import MAX_POLL_MS, SESSION_MS, Player
from moldau.client.consuming.membership import Phase
from moldau.client.errors import FencedInstanceId
from moldau.coordination.groups.settings import GroupSettings

PLAYERS_MAX = 5
INSTANCES = (None, None, None, "i1", "i2")
WISHES = (("orders",), ("orders", "clicks"), ("clicks",))
CHOICE = st.integers(0, 1000)
STEP_S = 0.5
CALM_S = 15
"""Longer than a session: nobody who is gone is waited for any more."""
ALL_PATIENCE_S = 3 * (SESSION_MS + MAX_POLL_MS) / 1000


class MembershipMachine(RuleBasedStateMachine):
    """One group, eager or cooperative."""

    @initialize(cooperative=st.booleans(), count=st.integers(1, 3), wish=st.sampled_from(WISHES))
    def begin(self, cooperative, count, wish):
        self.desk = Desk(GroupSettings(initial_rebalance_delay_ms=1000), seed=7)
        self.cooperative = cooperative
        self.counts = {"orders": 4, "clicks": 2}
        self.players: list[Player] = []
        self.faultless: set[Player] = set()
        """Those who asked in time and could be heard all the time."""
        for _ in range(count):
            self.somebody_comes(None, wish)
        self.pass_time(3)

    # The machinery

    @property
    def living(self):
        return [one for one in self.players if not one.is_gone]

    def pump(self):
        for _ in range(100):
            acted = [player.act() for player in self.living]
            if not any(acted):
                return
        raise AssertionError("they never come to rest")

    def pass_time(self, seconds):
        left = seconds
        self.pump()
        while left > 0:
            self.desk.advance(min(STEP_S, left))
            left -= STEP_S
            self.pump()
            self.readers_are_alone()

    def pick(self, choice):
        living = self.living
        return living[choice % len(living)] if living else None

    # What happens

    @rule(instance=st.sampled_from(INSTANCES), wish=st.sampled_from(WISHES))
    @precondition(lambda self: len(self.living) < PLAYERS_MAX)
    def somebody_comes(self, instance, wish):
        twins = {one for one in self.living if instance is not None and one.instance == instance}
        player = Player(
            self.desk, self.counts, wish, cooperative=self.cooperative, instance=instance
        )
        self.players.append(player)
        self.faultless -= twins
        if not twins:
            # Of two with one name, whoever joins last fences the other.
            self.faultless.add(player)
        self.pump()

    @rule(choice=CHOICE)
    def somebody_leaves(self, choice):
        if player := self.pick(choice):
            player.leave()
            self.pump()

    @rule(choice=CHOICE)
    def somebody_crashes(self, choice):
        if player := self.pick(choice):
            player.is_gone = True

    @rule(choice=CHOICE)
    def somebody_works(self, choice):
        if player := self.pick(choice):
            player.work()
            self.pump()

    @rule(choice=CHOICE)
    def somebody_asks(self, choice):
        if player := self.pick(choice):
            player.ask()
            self.pump()

    @rule(choice=CHOICE, wish=st.sampled_from(WISHES))
    def somebody_subscribes_anew(self, choice, wish):
        if player := self.pick(choice):
            player.membership.subscribe(wish, self.desk.seconds)
            self.pump()

    @rule(choice=CHOICE)
    def somebody_is_cut_off(self, choice):
        if player := self.pick(choice):
            player.is_cut = True
            self.faultless.discard(player)
            self.pump()

    @rule()
    def connections_are_mended(self):
        for player in self.living:
            player.is_cut = False
        self.pump()

    @rule()
    def the_coordinator_restarts(self):
        self.faultless.clear()
        for waiter in self.desk.waiters:
            waiter.answers or waiter.answers.append(None)
        for player in self.living:
            was_cut, player.is_cut = player.is_cut, True
            player._take_answer()
            player.is_cut = was_cut
        self.desk.waiters.clear()
        self.desk.restart()
        self.pump()

    @rule(topic=st.sampled_from(["orders", "clicks"]))
    def a_topic_grows(self, topic):
        self.counts[topic] = min(self.counts[topic] + 1, 7)
        self.metadata_is_seen()

    def metadata_is_seen(self):
        for player in self.living:
            player.membership.partitions_seen(self.counts)
        self.pump()

    @rule(seconds=st.sampled_from([0.5, 1, 3, 7, 12, 33]))
    def time_passes(self, seconds):
        if seconds * 1000 >= MAX_POLL_MS:
            self.faultless -= {one for one in self.living if one.is_busy}
        self.pass_time(seconds)
        self.faultless -= {
            one
            for one in self.living
            if one.is_busy and self.desk.seconds - one.membership._answered_at > 20
        }

    # What must hold

    @invariant()
    def readers_are_alone(self):
        counted = [one for one in self.living if one.is_in_roster and one.membership.is_member]
        for one, other in combinations(counted, 2):
            assert not one.held & other.held

    @invariant()
    def who_can_be_heard_loses_nothing(self):
        for player in self.living:
            if player in self.faultless:
                assert all(what != "lost" for what, _ in player.story)
                assert not player.errors

    def teardown(self):
        if not hasattr(self, "players"):
            return
        self.connections_are_mended()
        end = self.desk.seconds + ALL_PATIENCE_S
        calm_s = 0
        while self.desk.seconds < end and calm_s < CALM_S:
            for player in self.living:
                player.ask()
            self.metadata_is_seen()
            self.pass_time(1)
            calm_s = calm_s + 1 if all(map(at_rest, self.living)) else 0
        fenced = [one for one in self.living if one.membership.phase is Phase.REFUSED]
        for player in fenced:
            assert isinstance(player.errors[-1], FencedInstanceId)
            assert [one.instance for one in self.players].count(player.instance) > 1
        settled = [one for one in self.living if one not in fenced]
        assert all(player.is_settled for player in settled)
        assert len({player.membership.identity.generation for player in settled}) <= 1
        wanted = {topic for player in settled for topic in player.membership.topics}
        expected = {(topic, number) for topic in wanted for number in range(self.counts[topic])}
        shared = [partition for player in settled for partition in player.held]
        assert len(shared) == len(set(shared))
        assert set(shared) == expected


def at_rest(player):
    return player.is_settled or player.membership.phase is Phase.REFUSED


MembershipMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestMembership = MembershipMachine.TestCase
