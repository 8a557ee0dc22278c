"""Apache Kafka's own tools on three brokers on ZooKeeper.

Those of 1.1 and 2.8 write into the tree themselves, and the controller follows. Those of 3.9 and 4
ask a broker. Both see what the others have done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_harness.distribution import CURRENT, LAST_ZOOKEEPER_TOOLS, OLDEST, ZOOKEEPER_ERA
from kafka_harness.java import run_class
from kafka_harness.tool_session import ToolSession
from kafka_harness.topics import read_all, send
from kafka_harness.waiting import eventually
from moldau.protocol.errors import ErrorCode
from process.raw_client import RawClient, batch_of
from process.zookeeper_clusters import ZooKeeperCluster

Tool = Callable[..., str]

TOPICS, CONFIGS = "kafka.admin.TopicCommand", "kafka.admin.ConfigCommand"
REASSIGN = "kafka.admin.ReassignPartitionsCommand"
PREFERRED = "kafka.admin.PreferredReplicaLeaderElectionCommand"
OLD_CONSUMER = "kafka.tools.ConsoleConsumer"

NEW_NAMES = {
    TOPICS: "org.apache.kafka.tools.TopicCommand",
    CONFIGS: CONFIGS,
    REASSIGN: "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    PREFERRED: "org.apache.kafka.tools.LeaderElectionCommand",
}
BY_TREE = (OLDEST, LAST_ZOOKEEPER_TOOLS)
BY_BROKER = (ZOOKEEPER_ERA, CURRENT)


@pytest.fixture(scope="module")
def sessions() -> Iterator[dict[str, ToolSession]]:
    """Return a session of tools for each version; its machine starts when it is used."""
    made = {version: ToolSession(version) for version in (*BY_TREE, *BY_BROKER)}
    yield made
    for session in made.values():
        session.__exit__(None, None, None)


@pytest.fixture
def run(sessions, on_zookeeper) -> Callable[..., str]:
    """Return what runs a tool of a version, by its old name, on the cluster."""
    cluster: ZooKeeperCluster = on_zookeeper

    def run_tool(version: str, name: str, *words: object) -> str:
        if version in BY_TREE:
            where = ("--zookeeper", cluster.connect)
        else:
            name, where = NEW_NAMES[name], ("--bootstrap-server", cluster.bootstrap)
        said = sessions[version].run(name, *where, *words)
        assert not said.status, said
        return said.stdout

    return run_tool


def described(text: str) -> list[dict[str, str]]:
    """Return the lines of `--describe` as fields; versions differ in their spaces."""
    lines = [line.strip().split("\t") for line in text.splitlines() if "Topic" in line]
    return [
        {key: value.strip() for key, _, value in (field.partition(":") for field in line)}
        for line in lines
    ]


@pytest.mark.java(OLDEST)
def test_the_oldest_tool_makes_describes_and_deletes_a_topic(on_zookeeper, run):
    make_describe_and_delete(on_zookeeper, run, OLDEST)


@pytest.mark.long
@pytest.mark.java(*BY_TREE, *BY_BROKER)
@pytest.mark.parametrize("version", [LAST_ZOOKEEPER_TOOLS, *BY_BROKER])
def test_tools_make_describe_and_delete_a_topic(on_zookeeper, run, version):
    make_describe_and_delete(on_zookeeper, run, version)


def make_describe_and_delete(cluster: ZooKeeperCluster, run: Tool, version: str) -> None:
    topic = f"made-by-{version}"
    wanted = ("--partitions", 3, "--replication-factor", 2, "--config", "retention.ms=60000")
    assert f"Created topic {quoted(version, topic)}." in run(
        version, TOPICS, "--create", "--topic", topic, *wanted
    )
    eventually(lambda: len(cluster.describe(topic, 0)) == 3, "the topic is there")
    cluster.wait_in_sync(topic)
    send(cluster.bootstrap, topic, [b"one", b"two"])
    first, *rest = described(run(version, TOPICS, "--describe", "--topic", topic))
    assert (first["PartitionCount"], first["ReplicationFactor"]) == ("3", "2")
    assert "retention.ms=60000" in first["Configs"]
    for partition, state in cluster.describe(topic, 0).items():
        line = rest[partition]
        assert line["Partition"] == str(partition)
        assert line["Leader"] == str(state.leader)
        assert line["Replicas"] == ",".join(map(str, state.replicas))
        assert set(line["Isr"].split(",")) == set(map(str, state.isr))
    assert topic in run(version, TOPICS, "--list").split()
    run(version, TOPICS, "--delete", "--topic", topic)
    eventually(lambda: topic not in run(version, TOPICS, "--list"), "the topic is gone")
    eventually(lambda: not cluster.describe(topic, 1), "the brokers have heard of it")
    assert cluster.node(f"/brokers/topics/{topic}") is None
    assert cluster.node(f"/config/topics/{topic}") is None
    assert cluster.tree.get_children("/admin/delete_topics") == []
    eventually(
        lambda: not any([*cluster.data(one).glob(f"{topic}-?")] for one in cluster.ids),
        "its folders are gone",
    )


def quoted(version: str, topic: str) -> str:
    """Return a topic as tools name it: up to 2.1 in quotes."""
    return f'"{topic}"' if version == OLDEST else topic


@pytest.mark.long
@pytest.mark.java(*BY_TREE, *BY_BROKER)
@pytest.mark.parametrize("version", [*BY_TREE, *BY_BROKER])
def test_tools_add_partitions(on_zookeeper, run, version):
    cluster: ZooKeeperCluster = on_zookeeper
    topic = f"grown-by-{version}"
    cluster.create_topic(topic, [(0, 1)])
    send(cluster.bootstrap, topic, [b"kept"])
    run(version, TOPICS, "--alter", "--topic", topic, "--partitions", 3)
    for broker_id in cluster.ids:
        eventually(lambda asked=broker_id: len(cluster.describe(topic, asked)) == 3, "it has grown")
    cluster.wait_in_sync(topic)
    assert cluster.describe(topic, 0)[0].replicas == (0, 1)
    assert len(described(run(CURRENT, TOPICS, "--describe", "--topic", topic))) == 4
    assert len(described(run(OLDEST, TOPICS, "--describe", "--topic", topic))) == 4
    send(cluster.bootstrap, topic, [b"%d" % number for number in range(30)])


@pytest.mark.long
@pytest.mark.java(*BY_TREE, *BY_BROKER)
@pytest.mark.parametrize("version", [*BY_TREE, *BY_BROKER])
def test_tools_set_and_remove_configs(on_zookeeper, run, version):
    cluster: ZooKeeperCluster = on_zookeeper
    topic = f"set-by-{version}"
    cluster.create_topic(topic, [(0, 1)])
    which = ("--entity-type", "topics", "--entity-name", topic)
    setting = "max.message.bytes=70000"

    def shown(by: str) -> bool:
        return setting in run(by, CONFIGS, "--describe", *which)

    run(version, CONFIGS, "--alter", *which, "--add-config", f"{setting},flush.ms=5000")
    for by in (OLDEST, LAST_ZOOKEEPER_TOOLS, ZOOKEEPER_ERA, CURRENT):
        eventually(lambda asked=by: shown(asked), f"{by} shows the config")
    leader = cluster.leader(topic)
    with RawClient(cluster.address(leader)) as client:

        def produced() -> int:
            return client.produce(topic, batch_of([bytes(80_000)])).error_code

        eventually(lambda: produced() == ErrorCode.MESSAGE_TOO_LARGE, "the leader keeps to it")
        run(version, CONFIGS, "--alter", *which, "--delete-config", "max.message.bytes")
        eventually(lambda: produced() == 0, "the leader keeps to the default again")
    for by in (OLDEST, CURRENT):
        eventually(lambda asked=by: not shown(asked), f"{by} shows the config no more")
        assert "flush.ms=5000" in run(by, CONFIGS, "--describe", *which)


@pytest.mark.long
@pytest.mark.java(*BY_TREE)
@pytest.mark.parametrize("version", BY_TREE)
def test_old_tools_alter_the_configs_of_topics(on_zookeeper, run, version):
    cluster: ZooKeeperCluster = on_zookeeper
    topic = f"altered-by-{version}"
    run(version, TOPICS, "--create", "--topic", topic, "--replica-assignment", "0:1,2:0")
    eventually(lambda: len(cluster.describe(topic, 0)) == 2, "the topic is there")
    assert [one.replicas for one in cluster.describe(topic, 0).values()] == [(0, 1), (2, 0)]
    run(version, TOPICS, "--alter", "--topic", topic, "--config", "segment.bytes=1000")
    shown = (CURRENT, TOPICS, "--describe", "--topic", topic)
    eventually(lambda: "segment.bytes=1000" in run(*shown), "the config is there")
    run(version, TOPICS, "--alter", "--topic", topic, "--delete-config", "segment.bytes")
    eventually(lambda: "segment.bytes=1000" not in run(*shown), "the config is gone")


@pytest.mark.long
@pytest.mark.java(LAST_ZOOKEEPER_TOOLS, *BY_BROKER)
@pytest.mark.parametrize("version", BY_BROKER)
def test_tools_set_configs_of_brokers(on_zookeeper, run, version):
    """Older ones do so by a broker, too: with --zookeeper only if it is down."""
    cluster: ZooKeeperCluster = on_zookeeper
    which = ("--entity-type", "brokers", "--entity-name", 1)
    key, value = "log.cleaner.backoff.ms", "14000"
    run(version, CONFIGS, "--alter", *which, "--add-config", f"{key}={value}")
    for by in (LAST_ZOOKEEPER_TOOLS, CURRENT):
        eventually(
            lambda asked=by: f"{key}={value}" in run(asked, CONFIGS, "--describe", *which),
            f"{by} shows it",
        )
    assert cluster.content("/config/brokers/1")["config"] == {key: value}
    run(version, CONFIGS, "--alter", *which, "--delete-config", key)
    eventually(lambda: value not in run(CURRENT, CONFIGS, "--describe", *which), "it is gone")


@pytest.mark.long
@pytest.mark.java(*BY_TREE, *BY_BROKER)
@pytest.mark.parametrize("version", [*BY_TREE, *BY_BROKER])
def test_tools_move_partitions_and_elect_the_preferred_leader(on_zookeeper, run, version, tmp_path):
    cluster: ZooKeeperCluster = on_zookeeper
    topic = f"moved-by-{version}"
    cluster.create_topic(topic, [(0, 1), (1, 2)])
    send(cluster.bootstrap, topic, [b"%d" % number for number in range(100)])
    plan = write_plan(tmp_path, topic, {0: (2, 1), 1: (0, 2)})
    started = run(version, REASSIGN, "--execute", "--reassignment-json-file", plan)
    assert "Successfully started" in started
    complete = "completed successfully" if version == OLDEST else "is complete"
    eventually(
        lambda: (
            run(version, REASSIGN, "--verify", "--reassignment-json-file", plan).count(complete)
            == 2
        ),
        "both have moved",
    )
    cluster.wait_in_sync(topic)
    moved = cluster.describe(topic, 1)
    assert (moved[0].replicas, moved[1].replicas) == ((2, 1), (0, 2))
    assert cluster.node("/admin/reassign_partitions") is None
    for broker_id, partition in ((0, 0), (1, 1)):
        place = cluster.data(broker_id) / f"{topic}-{partition}"
        eventually(lambda folder=place: not folder.exists(), f"{place} is gone")
    assert sorted(read_all(cluster.bootstrap, topic)) == sorted(b"%d" % one for one in range(100))

    cluster.stop(2)
    assert cluster.leader(topic, 0) == 1
    cluster.start(2)
    cluster.wait_in_sync(topic)
    assert cluster.leader(topic, 0) == 1
    chosen = tmp_path / "election.json"
    chosen.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0}]}))
    kind = () if version in BY_TREE else ("--election-type", "preferred")
    run(version, PREFERRED, "--path-to-json-file", chosen, *kind)
    eventually(lambda: cluster.leader(topic, 0) == 2, "the preferred replica leads")
    cluster.wait_for_node("/admin/preferred_replica_election", None)


def write_plan(folder: Path, topic: str, replicas: dict[int, tuple[int, ...]]) -> Path:
    """Write what `--reassignment-json-file` reads."""
    moves = [
        {"topic": topic, "partition": partition, "replicas": brokers}
        for partition, brokers in replicas.items()
    ]
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    return plan


@pytest.mark.long
@pytest.mark.java(*BY_TREE)
@pytest.mark.parametrize("version", BY_TREE)
def test_what_old_tools_ask_for_waits_for_brokers_that_are_down(
    on_zookeeper, run, version, tmp_path
):
    cluster: ZooKeeperCluster = on_zookeeper
    topic, gone = f"waiting-{version}", f"gone-{version}"
    cluster.create_topic(topic, [(0, 1)])
    cluster.create_topic(gone, [(2, 0)])
    plan = write_plan(tmp_path, topic, {0: (1, 2)})
    cluster.pause(2)  # the tool refuses a broker that is not registered
    run(version, REASSIGN, "--execute", "--reassignment-json-file", plan)
    eventually(lambda: 2 in cluster.describe(topic, 0)[0].replicas, "the move is under way")
    cluster.kill(2)
    cluster.wait_for_brokers({0, 1})
    run(version, TOPICS, "--delete", "--topic", gone)
    eventually(lambda: not cluster.describe(gone, 0), "the topic is gone")
    verify = ("--verify", "--reassignment-json-file", plan)
    assert "in progress" in run(version, REASSIGN, *verify)
    epoch = cluster.controller_epoch
    controller = cluster.controller()
    cluster.kill(controller)
    cluster.start(2, controller)
    cluster.wait_for_controller(after=epoch)
    eventually(
        lambda: cluster.describe(topic, 0)[0].replicas == (1, 2), "it has moved", timeout_s=30
    )
    cluster.wait_for_node("/admin/reassign_partitions", None)
    cluster.wait_in_sync(topic)
    assert "in progress" not in run(version, REASSIGN, *verify)
    folder = cluster.data(2) / f"{gone}-0"
    eventually(lambda: not folder.exists(), "the deleted topic is gone from the broker's disk")


@pytest.mark.long
@pytest.mark.java(OLDEST)
def test_the_oldest_consumer_reads_by_zookeeper(on_zookeeper, tmp_path):
    cluster: ZooKeeperCluster = on_zookeeper
    cluster.create_topic("consumed", [(0, 1), (1, 2), (2, 0)])
    values = [b"value %d" % number for number in range(30)]
    send(cluster.bootstrap, "consumed", values)
    settings = tmp_path / "consumer.properties"
    settings.write_text("group.id=by-zookeeper\nauto.commit.interval.ms=100\n")
    said = run_class(
        OLDEST, OLD_CONSUMER, "--zookeeper", cluster.connect, "--topic", "consumed",
        "--from-beginning", "--max-messages", 30, "--consumer.config", settings,
    )  # fmt: skip
    assert sorted(said.lines) == sorted(value.decode() for value in values)
    offsets = [
        int(cluster.node(f"/consumers/by-zookeeper/offsets/consumed/{partition}") or -1)
        for partition in range(3)
    ]
    assert sum(offsets) == 30
