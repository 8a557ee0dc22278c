"""Groups of real consumers: joining, sharing, leaving, dying and coming back.

Every story runs with librdkafka, kafka-python, aiokafka, our own client, today's Java consumer and
that of 1.1, wherever they can do what it is about. Members live in other processes, so that one can
be killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from compat.group_clients import Wishes
from compat.group_scene import (
    NEWEST_JAVA,
    OLDEST_JAVA,
    OURS,
    PYTHONS,
    Scene,
    assert_one_owner,
    crew_of,
    places,
    play,
    scene_at,
    wait_read,
    wait_shared,
)
from compat.group_view import BrokerView, feed
from kafka_harness.broker import BrokerProcess
from kafka_harness.distribution import CURRENT, OLDEST
from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kafka_harness.waiting import eventually

PARTITIONS = 12
NOTHING = "-1001"
"""What a client says who has no offset."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of this module's own: one test restarts it, and time-outs are short."""
    settings = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}
    with make_broker(kind_under_test(), tmp_path_factory.mktemp("groups"), settings) as running:
        yield running


@pytest.fixture(scope="module")
def stage(server: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene_at(server.address, tmp_path_factory.mktemp("hosts")) as scene:
        yield scene


@pytest.fixture
def scene(stage: Scene) -> Iterator[Scene]:
    yield stage
    stage.dismiss()


@pytest.fixture(scope="module")
def view(server: BrokerProcess) -> BrokerView:
    return BrokerView(server.address)


@crew_of()
def test_members_join_leave_die_and_come_back(crew, server, scene, view):
    def live(client: str) -> None:
        topic = create_topic(server.address, fresh_topic("lives"), PARTITIONS)
        every, group = places(topic, PARTITIONS), topic
        wishes = Wishes(group, topic)
        host, doomed = scene.host(client), scene.spare(client)
        with feed(server.address, topic, PARTITIONS):
            members = [host.join("m0", wishes), doomed.join("m1", wishes)]
            wait_shared(members, every)
            members += [host.join(f"m{number}", wishes) for number in range(2, 10)]
            wait_shared(members, every)
            eventually(
                lambda: view.assignment(group) == {each.name: each.owned for each in members},
                "the coordinator has it as the members have it",
            )
            members[2].leave()
            wait_shared(members, every)
            heir = scene.spare(client)
            members[1].next("read", members[1].count("read"))
            doomed.kill()
            wait_shared(members, every)
            members.append(heir.join("m1-again", wishes))
            wait_shared(members, every)
        ends = view.ends(topic, PARTITIONS)
        wait_read(members, ends)
        eventually(lambda: view.committed(group) == ends, "all is committed")
        heir.close()
        wait_shared(members, every)
        assert_one_owner(members)

    play(crew, live)


@crew_of(NEWEST_JAVA)
def test_all_clients_make_one_group(crew, server, scene, view):
    topic = create_topic(server.address, fresh_topic("mixed"), PARTITIONS)
    every = places(topic, PARTITIONS)
    with feed(server.address, topic, PARTITIONS):
        members = [
            scene.host(client).join(client, Wishes(topic, topic))
            for client in (*PYTHONS, NEWEST_JAVA, OLDEST_JAVA)
        ]
        wait_shared(members, every)
        for member in members[:-1]:
            # Whoever leads now goes before the end, so each library's assignor is at work.
            member.leave()
            wait_shared(members, every)
    ends = view.ends(topic, PARTITIONS)
    wait_read(members, ends)
    eventually(lambda: view.committed(topic) == ends, "all is committed")
    assert_one_owner(members)


@crew_of("confluent-kafka", "kafka-python", *OURS, NEWEST_JAVA)
def test_cooperative_members_hand_over_without_stopping_the_rest(crew, server, scene, view):
    def hand_over(client: str) -> None:
        topic = create_topic(server.address, fresh_topic("handed"), PARTITIONS)
        every, wishes = places(topic, PARTITIONS), Wishes(topic, topic, "", "cooperative-sticky")
        with feed(server.address, topic, PARTITIONS):
            first = scene.host(client).join("first", wishes)
            wait_shared([first], every)
            second = scene.host(client).join("second", wishes)
            wait_shared([first, second], every)
            kept, given = set(first.owned), set(second.owned)
            second.leave()
            wait_shared([first], every)
        taken_away = set().union(*(event.partitions for event in first.told("revoked", "lost")))
        assert taken_away == given
        assert not any(event.partitions & kept for event in first.told("assigned")[1:])
        ends = view.ends(topic, PARTITIONS)
        wait_read([first, second], ends)
        assert_one_owner([first, second])

    play(crew, hand_over)


@crew_of()
def test_a_pattern_catches_new_topics_and_new_partitions(crew, server, scene, view):
    def watch(client: str) -> None:
        name = fresh_topic("watched")
        one, two = f"{name}-one", f"{name}-two"
        create_topic(server.address, one, 4)
        wishes = Wishes(name, "", f"{name}-.*", metadata_ms=300)
        members = [scene.host(client).join(each, wishes) for each in ("first", "second")]
        wait_shared(members, places(one, 4))
        create_topic(server.address, two, 4)
        wait_shared(members, places(one, 4) | places(two, 4))
        view.add_partitions(two, 6)
        wait_shared(members, places(one, 4) | places(two, 6))

    play(crew, watch)


@crew_of()
def test_a_changed_subscription_moves_partitions(crew, server, scene):
    def change(client: str) -> None:
        name = fresh_topic("changed")
        one, two = f"{name}-one", f"{name}-two"
        for topic in (one, two):
            create_topic(server.address, topic, 4)
        stays = scene.host(client).join("stays", Wishes(name, one))
        turns = scene.host(client).join("turns", Wishes(name, one))
        wait_shared([stays, turns], places(one, 4))
        turns.tell("subscribe", two)
        wait_shared([stays, turns], places(one, 4) | places(two, 4))
        assert stays.owned == places(one, 4)

    play(crew, change)


@crew_of(*PYTHONS, NEWEST_JAVA)
def test_a_join_that_outlives_its_poll_ends_in_an_assignment(crew, server, scene):
    """A poll of Java 1.1 does not end before its join."""

    def outlive(client: str) -> None:
        name = fresh_topic("outlived")
        one, two = f"{name}-one", f"{name}-two"
        for topic in (one, two):
            create_topic(server.address, topic, 4)
        busy = scene.host(client).join("busy", Wishes(name, one))
        turns = scene.host(client).join("turns", Wishes(name, one))
        wait_shared([busy, turns], places(one, 4))
        busy.tell("stall")
        busy.next("asleep", 0)
        known = turns.count("revoked")
        turns.tell("subscribe", two)
        turns.next("revoked", known)
        turns.ask("ping")
        busy.commit("wake")
        wait_shared([busy, turns], places(one, 4) | places(two, 4))

    play(crew, outlive)


@crew_of(*PYTHONS, NEWEST_JAVA)
def test_a_static_member_comes_back_without_a_rebalance(crew, server, scene, view):
    def bounce(client: str) -> None:
        topic = create_topic(server.address, fresh_topic("static"), PARTITIONS)
        every, group = places(topic, PARTITIONS), topic
        wishes = {name: Wishes(group, topic, instance=name) for name in ("a", "b")}
        doomed = scene.spare(client)
        leader = scene.host(client).join("leader", wishes["a"])
        wait_shared([leader], every)
        member = doomed.join("member", wishes["b"])
        wait_shared([leader, member], every)
        generation, heard = view.generation(group), leader.count("assigned", "revoked", "lost")
        owned = set(member.owned)
        doomed.kill()
        again = scene.host(client).join("again", wishes["b"])
        again.wait(lambda: again.owned == owned, "it owns what it owned")
        assert leader.count("assigned", "revoked", "lost") == heard
        assert view.generation(group) == generation
        owned = set(leader.owned)
        leader.leave()
        leader_again = scene.host(client).join("leader-again", wishes["a"])
        leader_again.wait(lambda: leader_again.owned == owned, "it owns what it owned")
        assert view.generation(group) == generation

    play(crew, bounce)


@crew_of("confluent-kafka", *OURS, NEWEST_JAVA)
def test_a_second_static_member_of_one_name_fences_the_first(crew, server, scene):
    """The other libraries do not tell their users of it."""

    def fence(client: str) -> None:
        topic = create_topic(server.address, fresh_topic("fenced"), PARTITIONS)
        wishes = Wishes(topic, topic, instance="only")
        first = scene.host(client).join("first", wishes)
        wait_shared([first], places(topic, PARTITIONS))
        second = scene.host(client).join("second", wishes)
        first.wait_for_error("FencedInstanceId")
        wait_shared([second], places(topic, PARTITIONS))

    play(crew, fence)


@crew_of()
def test_members_agree_on_the_assignor_they_share_or_are_refused(crew, server, scene, view):
    def agree(client: str) -> None:
        topic = create_topic(server.address, fresh_topic("agreed"), PARTITIONS)
        every = places(topic, PARTITIONS)
        members = [
            scene.host(client).join(name, Wishes(topic, topic, "", assignors))
            for name, assignors in (("both", "roundrobin,range"), ("one", "range"))
        ]
        wait_shared(members, every)
        assert view.described(topic).partition_assignor == "range"
        generation = view.generation(topic)
        stranger = scene.host(client).join("stranger", Wishes(topic, topic, "", "roundrobin"))
        stranger.wait_for_error("InconsistentGroupProtocol")
        wait_shared(members, every)
        assert view.generation(topic) == generation

    play(crew, agree)


@crew_of()
def test_a_session_time_out_out_of_bounds_is_refused(crew, server, scene):
    topic = create_topic(server.address, fresh_topic("bounds"))
    wishes = Wishes(topic, topic, session_ms=999)
    for member in [scene.host(client).join("hasty", wishes) for client in crew]:
        member.wait_for_error("InvalidSessionTimeout")


def test_an_assignor_of_the_users_own_decides(server, scene, view):
    topic = create_topic(server.address, fresh_topic("own"), PARTITIONS)
    wishes = Wishes(topic, topic, "", "first-takes-all")
    first, second = (scene.host("aiokafka").join(name, wishes) for name in ("first", "second"))
    second.wait(lambda: second.count("assigned"), "it has its assignment")
    decided = {"first": places(topic, PARTITIONS), "second": set()}
    eventually(lambda: view.assignment(topic) == decided, "first has all and second nothing")
    assert view.described(topic).partition_assignor == "first-takes-all"
    first.leave()
    wait_shared([second], places(topic, PARTITIONS))


@crew_of()
def test_offsets_are_committed_fetched_and_sought(crew, server, scene, view):
    def read(client: str) -> None:
        topic = create_topic(server.address, fresh_topic("sought"))
        at, group = f"{topic}-0", topic
        send(server.address, topic, [b"%d" % number for number in range(10)])
        by_hand = scene.host(client).join("by hand", Wishes(group, topic, commit="none"))
        by_clock = Wishes(f"{topic}-auto", topic, commit="none", auto_commit_ms=100)
        scene.host(client).join("by clock", by_clock)
        wait_read([by_hand], {at: 10})
        assert by_hand.ask("committed", at) == NOTHING
        assert by_hand.commit() == "committed"
        assert (by_hand.ask("committed", at), by_hand.ask("position", at)) == ("10", "10")
        by_hand.read.clear()
        by_hand.ask("seek", at, 3)
        by_hand.wait(lambda: by_hand.read[at] == set(range(3, 10)), "it read again from 3")
        send(server.address, topic, [b"10", b"11"])
        by_hand.wait(lambda: 11 in by_hand.read[at], "it read on")
        assert view.lag(group, topic, 1) == {at: 2}
        assert by_hand.commit("commit-later") == "committed"
        assert view.lag(group, topic, 1) == {at: 0}
        by_hand.leave()
        heir = scene.host(client).join("heir", Wishes(group, topic))
        send(server.address, topic, [b"12"])
        heir.wait(lambda: heir.read[at], "it reads")
        assert heir.read[at] == {12}
        eventually(lambda: view.committed(by_clock.group) == {at: 13}, "it committed by itself")

    play(crew, read)


@crew_of()
def test_a_group_without_offsets_starts_where_its_policy_says(crew, server, scene):
    def start(client: str) -> None:
        topic = create_topic(server.address, fresh_topic("started"))
        at = f"{topic}-0"
        send(server.address, topic, [b"0", b"1", b"2"])
        earliest, latest, none = (
            scene.host(client).join(policy, Wishes(f"{topic}-{policy}", topic, reset=policy))
            for policy in ("earliest", "latest", "none")
        )
        none.wait_for_error("NoOffsetForPartition")
        earliest.wait(lambda: earliest.read[at] == {0, 1, 2}, "it read from the beginning")
        latest.wait(lambda: latest.owned, "it owns the partition")

        def reads_what_is_new() -> bool:
            send(server.address, topic, [b"new"])
            return bool(latest.read[at])

        latest.wait(reads_what_is_new, "it reads")
        assert min(latest.read[at]) >= 3
        earliest.read.clear()
        earliest.ask("seek", at, 1_000_000)
        earliest.wait(lambda: 0 in earliest.read[at], "it began again")

    play(crew, start)


@crew_of()
def test_a_member_that_does_not_poll_is_replaced_and_its_commit_refused(crew, server, scene, view):
    def sleep(client: str) -> None:
        topic = create_topic(server.address, fresh_topic("slow"), PARTITIONS)
        every, group = places(topic, PARTITIONS), topic
        for partition in range(PARTITIONS):
            send(server.address, topic, [b"work"], partition)
        wishes = Wishes(group, topic, commit="none", session_ms=2000, poll_interval_ms=2000)
        slow, other = (scene.host(client).join(name, wishes) for name in ("slow", "other"))
        wait_shared([slow, other], every)
        slow.wait(lambda: slow.owned and slow.owned <= slow.read.keys(), "it has work")
        slow.tell("stall")
        other.wait(lambda: other.owned == every, "it owns everything")
        assert slow.commit("wake") == "refused"
        assert view.committed(group) == {}
        wait_shared([slow, other], every)

    play(crew, sleep)


@pytest.mark.java(CURRENT, OLDEST)
def test_groups_go_on_after_a_restart_and_after_a_kill(server, scene, view):
    """All clients at once, for a broker has one life at a time."""
    topics = {
        client: create_topic(server.address, fresh_topic("restart"), PARTITIONS)
        for client in (*PYTHONS, NEWEST_JAVA, OLDEST_JAVA)
    }

    def begin(client: str) -> None:
        wishes = Wishes(topics[client], topics[client])
        members = [scene.host(client).join(name, wishes) for name in ("first", "second")]
        wait_shared(members, places(topics[client], PARTITIONS))

    def go_on(client: str) -> None:
        members = scene.host(client).members.values()
        for member in members:
            member.next("committed", member.count("committed"))
        wait_shared(members, places(topics[client], PARTITIONS))

    def finish(client: str) -> None:
        topic = topics[client]
        ends = view.ends(topic, PARTITIONS)
        wait_read(scene.host(client).members.values(), ends)
        eventually(lambda: view.committed(topic) == ends, "all is committed")

    with ExitStack() as feeds:
        for topic in topics.values():
            feeds.enter_context(feed(server.address, topic, PARTITIONS))
        play(topics, begin)
        server.restart()
        play(topics, go_on)
        promised = {topic: view.committed(topic) for topic in topics.values()}
        server.kill()
        server.start()
        for topic, offsets in promised.items():
            kept = view.committed(topic)
            assert all(kept[at] >= offset for at, offset in offsets.items())
        play(topics, go_on)
    play(topics, finish)
