"""Offsets of groups: committed, read, deleted; and the groups they belong to, as tools see them."""

from __future__ import annotations

from typing import Any

from differential.group_room import changed, room
from differential.peer import NO_TOPIC_ID, STRANGE_TOPIC_ID, Peer
from differential.scenarios.coordinators import GROUP, TRANSACTION, make_topic
from differential.transaction_kit import FIRST_RAISING_EPOCHS, NO_PRODUCER, Transactional
from moldau.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    ListGroupsRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from moldau.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

NOT_IN_ZOOKEEPER = 1
"""Of both requests: version 0 meant offsets in ZooKeeper, and a Kafka without it refuses that."""
BY_ID = 10
SEVERAL_GROUPS = 8
FIRST_STABLE = 7
FIRST_WITH_MEMBERS = 3
"""Of TxnOffsetCommit; from the next but one on it adds the group to the transaction by itself."""
FIRST_ADDING_GROUPS = 5
SUBSCRIBED_TO_T = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"


def ask(peer: Peer, label: str, request: Any, version: int) -> Any:
    """Ask, and write the answer down in an order that does not depend on the broker."""
    answer = peer.call(request, version)
    for group in (answer, *getattr(answer, "groups", ())):
        for topic in getattr(group, "topics", ()):
            topic.partitions.sort(key=lambda one: one.partition_index)
        if hasattr(group, "topics"):
            group.topics.sort(key=lambda one: (one.name, getattr(one, "topic_id", NO_TOPIC_ID)))
    peer.note_answer(f"{label} v{version}", answer)
    return answer


def commit(
    peer: Peer, group: str, *topics: tuple[str, list[int]], offset: int = 7, **more: Any
) -> Any:
    """Make a commit of nobody in particular, unless `more` says otherwise."""
    metadata = more.pop("metadata", "note")
    request = OffsetCommitRequest(
        group,
        topics=[
            OffsetCommitRequestTopic(
                name,
                more.get("topic_id") or peer._topics.get(name, STRANGE_TOPIC_ID),
                [OffsetCommitRequestPartition(index, offset, 3, -1, metadata) for index in indexes],
            )
            for name, indexes in topics
        ],
    )
    for name, value in more.items():
        setattr(request, name, value)
    return request


def commit_now(peer: Peer, group: str, *topics: tuple[str, list[int]], offset: int = 7) -> None:
    """Commit, and make sure of it: what follows is compared on top of it."""
    answer = peer.call(commit(peer, group, *topics, offset=offset))
    codes = {one.error_code for topic in answer.topics for one in topic.partitions}
    assert codes == {0}, f"{group}: {codes}"


def committed(peer: Peer) -> None:
    make_topic(peer, GROUP)
    topic = peer.topic("t", 2)
    group = peer.name("group")
    for version in peer.versions(OffsetCommitRequest, NOT_IN_ZOOKEEPER):
        for label, request in {
            "one": commit(peer, group, (topic, [0])),
            "two and none": commit(peer, group, (topic, [0, 1, 2, -1])),
            "no topic": commit(peer, group, ("nothing", [0])),
            "some topic": commit(peer, group, ("nothing", [0]), (topic, [1])),
            "nothing": commit(peer, group),
            "no metadata": commit(peer, group, (topic, [0]), metadata=None),
            "long": commit(peer, group, (topic, [0]), metadata="x" * 4096),
            "too long": commit(peer, group, (topic, [0]), metadata="x" * 4097),
            "two units": commit(peer, group, (topic, [0]), metadata="\N{GRINNING FACE}" * 2049),
            "negative": commit(peer, group, (topic, [0]), offset=-5),
            "nameless": commit(peer, "", (topic, [0])),
            "no group": commit(
                peer, "nobody", (topic, [0]), generation_id_or_member_epoch=5, member_id="m"
            ),
            "no member": commit(peer, group, (topic, [0]), member_id="m"),
            "generation": commit(
                peer, group, (topic, [0]), generation_id_or_member_epoch=5, member_id="m"
            ),
        }.items():
            ask(peer, label, request, version)
            read_all(peer, f"after {label}, {version}", group)


def read_all(peer: Peer, label: str, group: str) -> None:
    wanted = [OffsetFetchRequestGroup(group, topics=None)]
    version = peer.newest(OffsetFetchRequest)
    ask(peer, f"{label}: all", OffsetFetchRequest(groups=wanted), version)


def read(peer: Peer) -> None:
    make_topic(peer, GROUP)
    topic = peer.topic("t", 3)
    group, other = peer.name("group"), peer.name("other")
    for each, indexes in ((group, [0, 2]), (other, [1])):
        commit_now(peer, each, (topic, indexes))
    for version in peer.versions(OffsetFetchRequest, NOT_IN_ZOOKEEPER, SEVERAL_GROUPS - 1):
        for name in (group, "nobody", ""):
            for label, topics in {
                "some": [OffsetFetchRequestTopic(topic, [0, 1, 9, -1])],
                "no topic": [OffsetFetchRequestTopic("nothing", [0])],
                "none": [],
                "all": None,
            }.items():
                if topics is not None or version >= 2:
                    request = OffsetFetchRequest(name, topics)
                    ask(peer, f"{label} of {name}", request, version)
    for version in peer.versions(OffsetFetchRequest, SEVERAL_GROUPS):
        known = OffsetFetchRequestTopics(topic, peer.topic_id(topic), [0, 1, 9, -1])
        unknown = OffsetFetchRequestTopics("nothing", STRANGE_TOPIC_ID, [0])
        for label, topics in {
            "some": [known],
            "both": [known, unknown],
            "none": [],
            "all": None,
        }.items():
            groups = [OffsetFetchRequestGroup(one, topics=topics) for one in (group, "nobody")]
            ask(peer, label, OffsetFetchRequest(groups=groups), version)
        if version < BY_ID:
            groups = [OffsetFetchRequestGroup(one, "m", 4, [known]) for one in (group, other)]
            ask(
                peer,
                "with a member",
                OffsetFetchRequest(groups=groups, require_stable=True),
                version,
            )
        ask(peer, "no groups", OffsetFetchRequest(), version)


def deleted(peer: Peer) -> None:
    make_topic(peer, GROUP)
    topic = peer.topic("t", 2)
    group = peer.name("group")
    commit_now(peer, group, (topic, [0, 1]))
    for label, name, asked in (
        ("no group", "nobody", (topic, [0])),
        ("nameless", "", (topic, [0])),
        ("no topic", group, ("nothing", [0])),
        ("one", group, (topic, [0])),
        ("again and more", group, (topic, [0, 1, 9])),
    ):
        wanted = [OffsetDeleteRequestPartition(index) for index in asked[1]]
        request = OffsetDeleteRequest(name, [OffsetDeleteRequestTopic(asked[0], wanted)])
        ask(peer, label, request, 0)
        read_all(peer, f"after {label}", group)


def by_members(peer: Peer) -> None:
    """What a member of a group may commit and delete, and what others may."""
    make_topic(peer, GROUP)
    topic = peer.topic("t")
    group = peer.name("group")
    protocol = JoinGroupRequestProtocol("range", SUBSCRIBED_TO_T)
    join = JoinGroupRequest(group, 30_000, 30_000, "", None, "consumer", [protocol])
    joined = peer.call(join, 3)
    member, generation = joined.member_id, joined.generation_id
    for label, more in {
        "early": {"member_id": member, "generation_id_or_member_epoch": generation},
        "synced": {"member_id": member, "generation_id_or_member_epoch": generation},
        "stale": {"member_id": member, "generation_id_or_member_epoch": generation - 1},
        "stranger": {"member_id": "m", "generation_id_or_member_epoch": generation},
        "instance": {
            "member_id": member,
            "generation_id_or_member_epoch": generation,
            "group_instance_id": "i",
        },
        "outsider": {},
    }.items():
        if label == "synced":
            assignments = [SyncGroupRequestAssignment(member, b"a")]
            peer.call(SyncGroupRequest(group, generation, member, assignments=assignments), 3)
        for version in peer.versions(OffsetCommitRequest, NOT_IN_ZOOKEEPER):
            if version >= 7 or "group_instance_id" not in more:
                ask(peer, label, commit(peer, group, (topic, [0]), **more), version)
    for name in (topic, "t"):
        wanted = [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(0)])]
        ask(peer, f"delete of {name}", OffsetDeleteRequest(group, wanted), 0)
    read_all(peer, "at last", group)
    for version in peer.versions(DeleteGroupsRequest):
        peer.ask("delete a group at work", DeleteGroupsRequest([group]), version)


def described(peer: Peer) -> None:
    """Groups that have offsets only."""
    make_topic(peer, GROUP)
    topic = peer.topic("t")
    group = peer.name("group")
    commit_now(peer, group, (topic, [0]))
    for name in (group, "nobody"):
        for operations in (False, True):
            request = DescribeGroupsRequest([name], operations)
            peer.ask_all(f"{name} with {operations}", request, 3 if operations else 0)


def listed(peer: Peer) -> None:
    make_topic(peer, GROUP)
    topic = peer.topic("t")
    for name in ("one", "two"):
        commit_now(peer, peer.name(name), (topic, [0]))
    for states in ((), ("Empty",), (" EMPTY ",), ("stable",), ("nonsense",)):
        for types in ((), ("Classic",), ("consumer", "classic"), ("share",), ("nonsense",)):
            for version in peer.versions(ListGroupsRequest, 5 if types else 4 if states else 0):
                answer = peer.call(ListGroupsRequest(list(states), list(types)), version)
                ours = [one for one in answer.groups if one.group_id.startswith(peer.name(""))]
                answer.groups = sorted(ours, key=lambda one: one.group_id)
                peer.note_answer(f"list {states} {types} v{version}", answer)


def removed(peer: Peer) -> None:
    make_topic(peer, GROUP)
    topic = peer.topic("t")
    group = peer.name("group")
    for version in peer.versions(DeleteGroupsRequest):
        commit_now(peer, group, (topic, [0]))
        for label, names in {
            "one": [group],
            "again": [group],
            "nobody": ["nobody", "nobody"],
            "none": [],
        }.items():
            peer.ask(label, DeleteGroupsRequest(names), version)
            read_all(peer, f"after {label}, {version}", group)


def in_no_transaction(peer: Peer) -> None:
    """Commits of a producer that nobody knows: nothing of them is kept."""
    for kind in (GROUP, TRANSACTION):
        make_topic(peer, kind)
    topic = peer.topic("t")
    group = peer.name("group")
    for version in peer.versions(TxnOffsetCommitRequest):
        for label, name, asked in (
            ("one", group, (topic, [0])),
            ("some", group, (topic, [0, 9])),
            ("no topic", group, ("nothing", [0])),
            ("nameless", "", (topic, [0])),
        ):
            partitions = [TxnOffsetCommitRequestPartition(index, 5) for index in asked[1]]
            topic_id = peer._topics.get(asked[0], STRANGE_TOPIC_ID)
            wanted = [TxnOffsetCommitRequestTopic(asked[0], topic_id, partitions)]
            request = TxnOffsetCommitRequest("nobody", name, 77, 0, topics=wanted)
            ask(peer, label, request, version)
    read_all(peer, "at last", group)


def in_transactions(peer: Peer) -> None:
    """Commits that count when their transaction does; until then readers may be told to wait."""
    for version in peer.versions(TxnOffsetCommitRequest):
        for kind in (GROUP, TRANSACTION):
            make_topic(peer, kind)
        topic = peer.topic(f"t{version}", 2)
        group = peer.name(f"group-{version}")
        producer = Transactional(peer, f"id-{version}")
        producer.init(f"for {version}")
        commit_now(peer, group, (topic, [1]), offset=1)
        for committed in (False, True):
            about = f"{'commit' if committed else 'abort'} {version}"
            ask(peer, f"not added, {about}", _within(peer, producer, group, topic), version)
            if version < FIRST_ADDING_GROUPS:
                peer.ask(f"add for {about}", producer.add_offsets_request(group), 4)
            _ask_within(peer, about, producer, group, topic, version)
            _read_stable(peer, f"open, {about}", group, topic)
            commit_now(peer, group, (topic, [0]), offset=2)
            _read_stable(peer, f"overtaken, {about}", group, topic)
            end = FIRST_RAISING_EPOCHS if version >= FIRST_ADDING_GROUPS else 4
            producer.end(about, end, committed=committed)
            _read_stable(peer, f"ended, {about}", group, topic)
        for what, changes in {
            "by id": {"transactional_id": "nobody"},
            "stale epoch": {"producer_epoch": producer.epoch - 1},
        }.items():
            request = _within(peer, producer, group, topic)
            ask(peer, f"late, {what}", changed(request, changes), version)


def _within(peer: Peer, producer: Transactional, group: str, topic: str, **more: Any) -> Any:
    """Commit offsets of two partitions in a producer's transaction."""
    indexes = more.pop("indexes", (0, 1))
    metadata = more.pop("metadata", "note")
    partitions = [TxnOffsetCommitRequestPartition(index, 5, 3, metadata) for index in indexes]
    wanted = [
        TxnOffsetCommitRequestTopic(topic, peer._topics.get(topic, STRANGE_TOPIC_ID), partitions)
    ]
    request = TxnOffsetCommitRequest(
        producer.name, group, producer.producer_id, producer.epoch, topics=wanted
    )
    return changed(request, more)


def _ask_within(
    peer: Peer, about: str, producer: Transactional, group: str, topic: str, version: int
) -> None:
    for what, more in {
        "unknown topic": {"topic": "nothing"},
        "unknown partition": {"indexes": (0, 7)},
        "long metadata": {"metadata": "x" * 4097},
        "no metadata": {"metadata": None},
        "other producer": {"producer_id": NO_PRODUCER},
        "early epoch": {"producer_epoch": producer.epoch + 1},
        "other id": {"transactional_id": "nobody"},
        "nameless group": {"group_id": ""},
        "right": {},
        "with a generation": {"generation_id_or_member_epoch": 3},
        "unknown member": {"member_id": "nobody", "generation_id_or_member_epoch": 3},
        "unknown instance": {"group_instance_id": "nobody"},
    }.items():
        if version >= FIRST_WITH_MEMBERS or not more.keys() & {
            "member_id", "generation_id_or_member_epoch", "group_instance_id",
        }:  # fmt: skip
            where = {"topic": topic, **more}
            ask(peer, f"{what}, {about}", _within(peer, producer, group, **where), version)


def _read_stable(peer: Peer, label: str, group: str, topic: str) -> None:
    """Read in the versions that can ask for stable offsets, with and without asking."""
    for version in peer.versions(OffsetFetchRequest, FIRST_STABLE):
        for stable in (False, True):
            asked = OffsetFetchRequestTopics(topic, peer.topic_id(topic), [0, 1])
            request = OffsetFetchRequest(
                group,
                [OffsetFetchRequestTopic(topic, [0, 1])],
                groups=[OffsetFetchRequestGroup(group, topics=[asked])],
                require_stable=stable,
            )
            ask(peer, f"{label}, stable {stable}", request, version)


def members_in_transactions(peer: Peer) -> None:
    """Commits of a member for its group: only of the generation it is in (KIP-447)."""
    for version in peer.versions(TxnOffsetCommitRequest, FIRST_WITH_MEMBERS):
        for kind in (GROUP, TRANSACTION):
            make_topic(peer, kind)
        topic = peer.topic(f"t{version}", 2)
        producer = Transactional(peer, f"id-{version}")
        producer.init(f"for {version}")
        with room(peer, f"group-{version}") as group:
            member = group.member(9, f"member {version}", instance="first")
            member.join("new")
            for state in ("to be synced", "stable"):
                if state == "stable":
                    member.sync(f"for {version}", {member.member_id: b"all"})
                peer.call(producer.add_offsets_request(group.name))
                own = {
                    "member_id": member.member_id,
                    "generation_id_or_member_epoch": member.generation,
                    "group_instance_id": "first",
                }
                for what, more in {
                    "right": own,
                    "stale": own | {"generation_id_or_member_epoch": member.generation - 1},
                    "early": own | {"generation_id_or_member_epoch": member.generation + 1},
                    "unknown": own | {"member_id": "nobody", "group_instance_id": None},
                    "fenced": own | {"member_id": "nobody"},
                    "other instance": own | {"group_instance_id": "nobody"},
                    "outsider": {},
                }.items():
                    request = _within(peer, producer, group.name, topic, **more)
                    ask(peer, f"{state}, {what}", request, version)
            producer.end(f"for {version}", FIRST_RAISING_EPOCHS, committed=True)
            _read_stable(peer, f"ended {version}", group.name, topic)
            producer.peer.call(producer.add_offsets_request(group.name))
            peer.call(_within(peer, producer, group.name, topic))
            remove = DeleteGroupsRequest([group.name])
            peer.ask(f"delete in use {version}", remove, 2)
            member.leave(f"for {version}")
            peer.ask(f"delete with an open transaction {version}", remove, 2)
            producer.end(f"deleted {version}", FIRST_RAISING_EPOCHS, committed=True)
            _read_stable(peer, f"deleted {version}", group.name, topic)
            group.describe(f"deleted {version}")


SCENARIOS = (
    committed, read, deleted, by_members, described, listed, removed, in_no_transaction,
    in_transactions, members_in_transactions,
)  # fmt: skip
