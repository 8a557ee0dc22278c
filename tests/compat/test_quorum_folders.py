"""Folders for a quorum whose log names its voters: formatted as Kafka's tool does, and Kafka runs.

The folders of a quorum whose voters are in the settings are those of every broker, and are compared
with the other commands on files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_harness.broker import CLUSTER_ID
from kafka_harness.distribution import CURRENT
from kafka_harness.java import Output
from kafka_harness.kafka_node import NODE_ID, KafkaNode
from kafka_harness.ports import free_port
from kafka_harness.tool_session import ToolSession
from kafka_harness.topics import create_topic, read_all, send
from kits.kafka_command_kit import class_of, ours
from moldau.base.properties import parse_properties

pytestmark = pytest.mark.java(CURRENT)

STORAGE = "kafka-storage"
QUORUM_COMMAND = "org.apache.kafka.tools.MetadataQuorumCommand"
IDS = ("JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A")
VOTERS = f"1@localhost:9093:{IDS[0]},2@127.0.0.1:9094:{IDS[1]}"
CHECKPOINT = f"{0:020d}-{0:010d}.checkpoint"
CONTROL = re.compile(r"(SnapshotHeader|KRaftVersion|KRaftVoters|SnapshotFooter) (\{.*\})")
ADDRESSES = "controller.quorum.bootstrap.servers=localhost:9093,localhost:9094\n"


def properties(folder: Path, node_id: int, roles: str, quorum: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    controller = ",CONTROLLER://localhost:9093" if "controller" in roles else ""
    file = folder / "server.properties"
    file.write_text(
        f"process.roles={roles}\nnode.id={node_id}\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://localhost:9092{controller}\n{quorum}"
        f"log.dirs={folder}/one,{folder}/two\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
    )
    return file


def format_both(
    tools: ToolSession,
    folder: Path,
    *words: str,
    node_id: int = 1,
    roles: str = "broker,controller",
    quorum: str = ADDRESSES,
) -> tuple[Output, Output]:
    """Format a folder with Kafka's tool, another one with ours; return what both said."""
    files = [properties(folder / make, node_id, roles, quorum) for make in ("theirs", "ours")]
    step = ("format", "-t", CLUSTER_ID, *words, "-c")
    return tools.run(class_of(STORAGE), *step, files[0], check=False), ours(
        STORAGE, *step, files[1]
    )


def lines(said: Output, folder: Path) -> list[str]:
    text = said.stdout.replace(str(folder), "<folder>")
    return sorted(one for one in text.splitlines() if not one.startswith("Bootstrap metadata"))


def control_records(dump: Callable[..., Output], directory: Path) -> list[tuple[str, str]]:
    """Return what Kafka's tool reads in the first snapshot, without the time."""
    file = directory / "__cluster_metadata-0" / CHECKPOINT
    said = dump("--files", file, "--cluster-metadata-decoder").stdout
    assert "isvalid: false" not in said
    found = CONTROL.findall(said)
    return [(kind, re.sub(r'Timestamp":\d+', 'Timestamp":0', value)) for kind, value in found]


@pytest.mark.parametrize(
    ("node_id", "roles"), [(1, "broker,controller"), (2, "broker,controller"), (7, "broker")]
)
def test_first_voters_are_written_alike(tools, dump, tmp_path, node_id, roles):
    theirs, own = format_both(
        tools, tmp_path, "--initial-controllers", VOTERS, node_id=node_id, roles=roles
    )
    assert (theirs.status, own.status) == (0, 0), own.stderr
    assert lines(own, tmp_path / "ours") == lines(theirs, tmp_path / "theirs")
    found = control_records(dump, tmp_path / "ours" / "one")
    assert found == control_records(dump, tmp_path / "theirs" / "one")
    assert [kind for kind, _ in found] == [
        "SnapshotHeader", "KRaftVersion", "KRaftVoters", "SnapshotFooter",
    ]  # fmt: skip
    assert all(directory in found[2][1] for directory in IDS)
    identities = [
        parse_properties((tmp_path / make / "one" / "meta.properties").read_text())
        for make in ("theirs", "ours")
    ]
    if roles == "broker":
        assert not {one.pop("directory.id") for one in identities}.intersection(IDS)
    assert identities[0] == identities[1]


def test_a_controller_that_joins_later_is_formatted_alike(tools, tmp_path):
    theirs, own = format_both(tools, tmp_path, "--no-initial-controllers")
    assert (theirs.status, own.status) == (0, 0), own.stderr
    assert lines(own, tmp_path / "ours") == lines(theirs, tmp_path / "theirs")
    assert not [*tmp_path.glob("*/*/__cluster_metadata-0")]


@pytest.mark.parametrize(
    ("words", "roles", "quorum"),
    [
        ((), "broker,controller", ADDRESSES),
        (("--standalone",), "broker", ADDRESSES),
        (("--standalone",), "broker,controller", "controller.quorum.voters=1@localhost:9093\n"),
        (
            ("--initial-controllers", VOTERS),
            "broker,controller",
            "controller.quorum.voters=1@localhost:9093,2@localhost:9094\n",
        ),
    ],
)
def test_contradictions_are_refused_in_the_same_words(tools, tmp_path, words, roles, quorum):
    both = format_both(tools, tmp_path, *words, roles=roles, quorum=quorum)
    theirs, own = ((said.stderr.partition("\n")[0], said.stdout, said.status) for said in both)
    assert own == theirs
    assert own[1:] == ("", 1)


def test_kafka_serves_a_folder_that_we_formatted_for_a_voter_alone(tools, tmp_path):
    node = KafkaNode(tmp_path)
    controller = f"127.0.0.1:{free_port()}"
    membership = {
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "",
        "controller.quorum.bootstrap.servers": controller,
        "listeners": f"PLAINTEXT://{node.address},CONTROLLER://{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    node.join(membership)
    file = node.write_properties({**membership, "log.dirs": str(node.data)})
    said = ours(STORAGE, "format", "-t", CLUSTER_ID, "--standalone", "-c", file)
    assert said.status == 0, said.stderr
    with node:
        topic = create_topic(node.address, "orders")
        send(node.address, topic, [b"one"])
        assert read_all(node.address, topic) == [b"one"]
        status = tools.run(
            QUORUM_COMMAND, "--bootstrap-server", node.address,
            "describe", "--status",
        ).stdout  # fmt: skip
    identity = parse_properties((node.data / "meta.properties").read_text())
    (voters,) = re.findall(r"CurrentVoters: *(.*)", status)
    assert identity["directory.id"] in voters
    assert controller in voters
