"""kafka-consumer-groups, compared with Kafka's own on the same broker and the same groups."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from kafka_harness.distribution import CURRENT
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kits.kafka_command_kit import Commands
from kits.tool_kit import commit_offsets

pytestmark = pytest.mark.java(CURRENT)

GROUPS = "kafka-consumer-groups"


@dataclasses.dataclass(frozen=True)
class Scene:
    """Groups of every kind on topics of their own; the fields are the names."""

    short: str
    long: str
    live: str
    static: str
    idle: str
    other: str


@pytest.fixture(scope="module")
def scene(commands: Commands) -> Iterator[Scene]:
    # Always the same names: in Kafka's hash maps their order is that of their hashes.
    mark = "groups-told"
    scene = Scene(
        f"{mark}-s", f"{mark}-a-name-of-more-than-24", f"{mark}-live", f"{mark}-static",
        f"{mark}-idle", f"{mark}-other",
    )  # fmt: skip
    address = commands.broker.address
    create_topic(address, scene.short, 3)
    create_topic(address, scene.long, 1)
    for partition in range(3):
        send(address, scene.short, [b"x"] * (5 + partition), partition=partition)
    send(address, scene.long, [b"x"] * 4)
    commit_offsets(commands.broker, scene.idle, scene.short, {0: 3, 1: 4})
    commit_offsets(commands.broker, scene.other, scene.long, {0: 1})
    live = member(address, scene.live, [scene.short], 18)
    static = member(address, scene.static, [scene.short, scene.long], 22, instance="first")
    yield scene
    live.close()
    static.close()


def settings(address: str, group: str) -> dict[str, object]:
    return {
        "bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "client.id": "somebody",
    }  # fmt: skip


def member(
    address: str, group: str, topics: list[str], count: int, *, instance: str | None = None
) -> Consumer:
    """Return a member that has consumed and committed all there is."""
    own = {"group.instance.id": instance} if instance else {}
    consumer = Consumer({**settings(address, group), **own})
    consumer.subscribe(topics)
    while count > 0:
        count -= sum(not message.error() for message in consumer.consume(count, 1))
    consumer.commit(asynchronous=False)
    return consumer


def words(line: str, scene: Scene) -> list[str]:
    return shlex.split(line.format(**dataclasses.asdict(scene)))


@pytest.mark.parametrize(
    "line",
    [
        "--list",
        "--list --state",
        "--list --state Empty,stable",
        "--list --type",
        "--list --type classic --state",
        "--describe --group {live}",
        "--describe --group {live} --verbose",
        "--describe --group {static}",
        "--describe --group {idle}",
        "--describe --group {idle} --group {live} --offsets",
        "--describe --all-groups",
        "--describe --group {live} --members",
        "--describe --group {static} --members",
        "--describe --group {static} --members --verbose",
        "--describe --group {idle} --members",
        "--describe --group {idle} --state",
        "--describe --group {live} --state --verbose",
        "--describe --all-groups --state",
        "--describe --group no-such-group",
        "--describe --group no-such-group --group {idle}",
        "--describe --group no-such-group --members",
        "--describe --group no-such-group --state",
        "--validate-regex a.*",
    ],
)
def test_groups_are_shown_alike(commands, scene, line):
    # Groups stand in the order of a hash map, and those of one bucket as the broker named them.
    order = sorted if "--list" in line else list
    assert commands.same(GROUPS, *words(line, scene), order=order).stdout


@pytest.mark.parametrize(
    "line",
    [
        "--group {idle} --to-earliest --topic {short}",
        "--group {idle} --to-latest --all-topics",
        "--group {idle} --to-current --topic {short}",
        "--group {idle} --to-offset 4 --topic {short}:0,1",
        "--group {idle} --to-offset 400 --topic {short}:0,1",
        "--group {idle} --shift-by -1 --topic {short}:0,1",
        "--group {idle} --to-datetime 2020-01-01T00:00:00.000 --all-topics",
        "--group {idle} --to-datetime 2099-01-01T00:00:00.000+02:00 --all-topics",
        "--group {idle} --by-duration P1DT1H --all-topics",
        "--group {idle} --to-earliest --all-topics --export",
        "--group {other} --to-earliest --all-topics --export",
        "--group {idle} --group {other} --to-latest --all-topics --export",
        "--group {idle} --to-earliest --topic {short}:9",
        "--group {idle} --to-earliest --topic no-such-topic",
        "--group {idle} --to-datetime soon --all-topics",
        "--group {idle} --by-duration soon --all-topics",
        "--group {live} --to-earliest --topic {short}",
    ],
)
def test_where_offsets_would_go_is_shown_alike(commands, scene, line):
    # Partitions of several topics stand in the order of a hash map, or of two that were merged.
    order = sorted if "--all-topics" in line else list
    asked = ("--reset-offsets", "--dry-run", *words(line, scene))
    assert commands.same(GROUPS, *asked, order=order).stdout


@pytest.mark.parametrize(
    "line",
    [
        "--list --describe",
        "--describe",
        "--describe --group {idle} --topic {short}",
        "--describe --group {idle} --members --state",
        "--delete",
        "--delete --group {idle} --topic {short}",
        "--delete-offsets --group {idle}",
        "--reset-offsets --to-earliest --dry-run",
        "--reset-offsets --group {idle} --to-earliest --topic {short}:x --dry-run",
        "--reset-offsets --group {idle} --shift-by 1 --topic {short}:2 --dry-run",
    ],
)
def test_what_cannot_be_is_refused_alike(commands, scene, line):
    theirs, ours = (run(GROUPS, *words(line, scene)) for run in (commands.theirs, commands.ours))
    assert (ours.stdout, ours.status) == (theirs.stdout, theirs.status) == ("", 1)
    # The options that might have been meant come in the order of a hash set.
    reasons = [
        sorted(one.stderr.partition("\n")[0].replace(",", "").split()) for one in (theirs, ours)
    ]
    assert reasons[0] == reasons[1]


def test_offsets_are_moved_exported_and_read_back(commands, scene, tmp_path):
    group = fresh_topic("moved")
    reset = ("--reset-offsets", "--group", group)
    moved = commands.ours(GROUPS, *reset, "--topic", scene.short, "--to-offset", 2, "--execute")
    assert moved.status == 0
    commands.same(GROUPS, "--describe", "--group", group)
    exported = commands.same(GROUPS, *reset, "--all-topics", "--to-latest", "--export", "--dry-run")
    file = tmp_path / "plan.csv"
    file.write_text(exported.stdout.strip() + "\n")
    commands.same(GROUPS, *reset, "--from-file", file, "--dry-run")
    commands.ours(GROUPS, *reset, "--from-file", file, "--execute")
    rows = commands.same(GROUPS, "--describe", "--group", group).lines[2:]
    assert [row.split()[2:6] for row in rows] == [
        ["0", "5", "5", "0"],
        ["1", "6", "6", "0"],
        ["2", "7", "7", "0"],
    ]


def test_nothing_moves_without_execute(commands, scene):
    before = commands.ours(GROUPS, "--describe", "--group", scene.idle).stdout
    said = commands.ours(
        GROUPS, "--reset-offsets", "--group", scene.idle, "--all-topics", "--to-latest"
    )
    assert said.stderr.startswith("WARN: No action will be performed")
    assert commands.ours(GROUPS, "--describe", "--group", scene.idle).stdout == before


def test_offsets_and_groups_are_deleted_in_kafkas_words(commands, scene):
    gone = [fresh_topic("gone") for _ in range(2)]
    for group, run in zip(gone, (commands.theirs, commands.ours), strict=True):
        commit_offsets(commands.broker, group, scene.short, {0: 1, 1: 1})
        said = run(GROUPS, "--delete-offsets", "--group", group, "--topic", f"{scene.short}:0")
        assert said.lines[0] == f"Request succeeded for deleting offsets from group {group}."
        commands.same(GROUPS, "--describe", "--group", group)
        assert run(GROUPS, "--delete", "--group", group).lines == [
            f"Deletion of requested consumer groups ('{group}') was successful."
        ]
    for line in (
        "--delete-offsets --group {idle} --topic {short}:2",
        "--delete-offsets --group {idle} --topic no-such-topic",
        "--delete-offsets --group {live} --topic {short}",
        "--delete-offsets --group no-such-group --topic {short}",
        "--delete --group {live}",
        "--delete --group {live} --group no-such-group",
    ):
        commands.same(GROUPS, *words(line, scene))
