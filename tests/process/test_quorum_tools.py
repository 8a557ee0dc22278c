"""The tools for a quorum of several voters: Kafka's and ours, and voters that come, go and return.

Voters change while clients write, on a quorum whose log names its voters. What the tools say is
compared on one whose settings do.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafka_harness.distribution import CURRENT
from kafka_harness.java import Output
from kafka_harness.ports import free_port
from kafka_harness.tool_session import ToolSession
from kafka_harness.waiting import eventually
from kits.cli_kit import Ran, moldau
from kits.kafka_command_kit import class_of, ours
from kits.local_cluster import ended_with_block, free_base_port, run
from moldau.base.clock import system_random
from moldau.base.ids import random_uuid, uuid_text
from process.cluster_history import traffic_on
from process.clusters import SHORT_SESSION, Cluster
from process.links import Links

TOOL = "kafka-metadata-quorum"
TOPIC = "events"
VOTERS, LATECOMER = (1, 2, 3), 4
TIME = re.compile(r"(MaxFollowerLagTimeMs: +)-?\d+|\t\d{13} *|\t\d+ ms ago *")
"""What differs between two calls of the same tool."""


class NamedVoters(Cluster):
    """Brokers 1 to 3 vote as their log says; the fourth is a controller that may vote later."""

    def __init__(self, directory: Path, settings: Mapping[str, str] = SHORT_SESSION) -> None:
        self.cluster_id = uuid_text(random_uuid(system_random()))
        super().__init__(directory, size=LATECOMER, settings=settings)

    def _prepare(self, settings: Mapping[str, str], links: Links | None) -> None:
        assert links is None
        places = {node: f"127.0.0.1:{free_port()}" for node in self.ids}
        first = ",".join(
            f"{node}@{places[node]}:{uuid_text(random_uuid(system_random()))}" for node in VOTERS
        )
        for node in self.ids:
            quorum = {
                "node.id": str(node),
                "process.roles": "broker,controller",
                "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[node]},CONTROLLER://{places[node]}",
                "controller.quorum.bootstrap.servers": ",".join(places[one] for one in VOTERS),
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            }
            self._write_settings(node, {**quorum, **settings})
            if node == LATECOMER:
                self.format(node)
            else:
                self.format(node, "--initial-controllers", first)

    def file(self, node: int) -> Path:
        return self.folder(node) / "server.properties"

    def format(self, node: int, *choice: str) -> None:
        """Format the folder of a controller: by default of one that joins the voters later."""
        words = choice or ("--no-initial-controllers",)
        said = ours("kafka-storage", "format", "-t", self.cluster_id, "-c", self.file(node), *words)
        assert said.status == 0, said

    def lose_disk(self, node: int) -> None:
        """Kill a node, and start it again with an empty disk."""
        self.kill(node)
        shutil.rmtree(self.data(node))
        self.format(node)
        self.start(node)

    def quorum(self, *words: object, via: int = VOTERS[0]) -> Ran:
        """Run a command on the quorum, asking one node."""
        address = f"127.0.0.1:{self.ports[via]}"
        return moldau("quorum", *words, "-b", address, "-o", "json")

    def status(self, via: int) -> dict[str, Any]:
        told = self.quorum("status", via=via)
        assert told.status == 0, told.err
        found: dict[str, Any] = told.data
        return found

    def endpoints(self, via: int) -> dict[int, list[str]]:
        """Return where the voters are, as one node is told."""
        return {one["node"]: one["endpoints"] for one in self.status(via)["voters"]}

    def voters(self, via: int) -> dict[int, str]:
        """Return the voters and their directories, as one node is told."""
        return {one["node"]: one["directory_id"] for one in self.status(via)["voters"]}


def nodes(rows: list[dict[str, Any]]) -> list[int]:
    return [one["node"] for one in rows]


def test_voters_come_and_go_and_return_with_empty_disks_while_clients_write(
    tmp_path: Path,
) -> None:
    with NamedVoters(tmp_path) as cluster:
        cluster.create_topic(TOPIC, [(1, 2, 3), (2, 3, 1), (3, 1, 2)])
        before = cluster.status(LATECOMER)
        assert nodes(before["voters"]) == list(VOTERS)
        assert nodes(before["observers"]) == [LATECOMER]
        with traffic_on(cluster, TOPIC) as traffic:
            traffic.wait_for_more()
            added = cluster.quorum("add", "--config", cluster.file(LATECOMER))
            assert (added.status, added.data[0]["outcome"]) == (0, "added"), added.err
            again = cluster.quorum("add", "--config", cluster.file(LATECOMER), via=LATECOMER)
            assert again.data[0]["outcome"] == "already a voter", again.err
            traffic.wait_for_more()

            lost = before["leader"]
            cluster.lose_disk(lost)
            cluster.wait_in_sync(TOPIC)
            replaced = cluster.quorum("replace", lost, "--yes", via=LATECOMER)
            assert (replaced.status, replaced.data[0]["outcome"]) == (0, "replaced"), replaced.err
            old, new = before["voters"][lost - 1]["directory_id"], replaced.data[0]["directory_id"]
            assert replaced.err.splitlines() == [
                f"moldau: removed voter {lost} with directory {old}",
                f"moldau: added voter {lost} with directory {new}",
            ]
            assert old != new == cluster.voters(lost)[lost]
            again = cluster.quorum("replace", lost, "--yes")
            assert (again.data[0]["outcome"], again.err) == ("already a voter", "")
            traffic.wait_for_more()

            removed = cluster.quorum("remove", LATECOMER, "--yes")
            assert (removed.status, removed.data[0]["outcome"]) == (0, "removed"), removed.err
            eventually(
                lambda: nodes(cluster.status(lost)["observers"]) == [LATECOMER],
                "a node without a vote follows on",
            )
            assert list(cluster.voters(LATECOMER)) == list(VOTERS)
            traffic.wait_for_more()
        traffic.history.check(cluster)
        cluster.check_replicas_equal(TOPIC)


def test_controllers_join_replace_their_disk_and_move_by_themselves(tmp_path: Path) -> None:
    joining = {
        "controller.quorum.auto.join.enable": "true",
        "controller.quorum.fetch.timeout.ms": "600",  # as often it is asked for
    }
    with NamedVoters(tmp_path, {**SHORT_SESSION, **joining}) as cluster:
        leader = cluster.status(1)["leader"]
        eventually(lambda: LATECOMER in cluster.voters(leader), "the fourth controller joins")
        lost = next(node for node in VOTERS if node != leader)
        old = cluster.voters(leader)
        cluster.lose_disk(lost)
        eventually(
            lambda: cluster.voters(leader).get(lost, old[lost]) != old[lost],
            "the voter with an empty disk takes the place of its older self",
        )
        assert {**cluster.voters(leader), lost: ""} == {**old, lost: ""}

        cluster.stop(lost)
        place = f"CONTROLLER://127.0.0.1:{free_port()}"
        listeners = f"PLAINTEXT://127.0.0.1:{cluster.ports[lost]},{place}"
        cluster.add_settings(lost, {"listeners": listeners})
        cluster.start(lost)
        eventually(
            lambda: cluster.endpoints(leader)[lost] == [place], "the voter says where it is now"
        )


def test_a_replacement_that_was_interrupted_is_finished_by_another(tmp_path: Path) -> None:
    with NamedVoters(tmp_path) as cluster:
        told = cluster.status(1)
        (lost, *_) = [one for one in told["voters"] if one["role"] != "leader"]
        cluster.lose_disk(lost["node"])
        node, via = lost["node"], told["leader"]
        assert cluster.quorum("remove", node, "--yes", via=via).status == 0
        asked = cluster.quorum("replace", node, "--yes", "--wait", "1s", via=via)
        assert asked.status == 1
        assert asked.err == (
            f"moldau: node {node} is not a voter any more, so its address is unknown: use"
            " --endpoint HOST:PORT\n"
        )
        place = lost["endpoints"][0].removeprefix("CONTROLLER://")
        done = cluster.quorum("replace", node, "--yes", "--endpoint", place, via=via)
        assert (done.status, done.data[0]["endpoints"]) == (0, lost["endpoints"]), done.err
        assert list(cluster.voters(node)) == list(VOTERS)


@pytest.mark.long
def test_no_voter_is_removed_that_the_majority_needs(tmp_path: Path) -> None:
    with NamedVoters(tmp_path) as cluster:
        leader = cluster.status(1)["leader"]
        down, left = (node for node in VOTERS if node != leader)
        cluster.kill(down)
        refused = eventually(
            lambda: (ran := cluster.quorum("remove", left, "--dry-run", via=leader)).status and ran,
            "the silence is noticed",
        )
        assert (refused.status, refused.out) == (1, "")
        assert refused.err == (
            f"moldau: without node {left} there would be no majority: node"
            f" {down} does not answer. Start it, or remove it first\n"
        )
        assert cluster.quorum("remove", down, "--yes", via=leader).status == 0
        assert sorted(cluster.voters(left)) == sorted([leader, left])

        cluster.kill(left)
        address = f"127.0.0.1:{cluster.ports[leader]}"
        told = []

        def is_told() -> bool:
            told.append(moldau("cluster", "status", "-b", address).err)
            return "nobody leads it" in told[-1]

        try:
            eventually(is_told, "the status says that the majority is lost")
        except AssertionError as error:
            raise AssertionError(f"{error}; it says {told[-1]!r}") from error
        for words in ("status", "health"):
            shown = moldau("cluster", words, "-b", address, "-o", "json")
            # The former leader and the latecomer still answer.
            assert (shown.data["controller"], shown.data["broker_count"]) == (None, 2), shown.data
            assert "nobody leads it" in shown.data["quorum_problem"]
        status = cluster.quorum("status", "-X", "default.api.timeout.ms=1000", via=leader)
        assert (status.status > 0, status.out, status.err.count("\n")) == (True, "", 1), status


@contextmanager
def three_of_settings(place: Path) -> Iterator[Path]:
    """Start a cluster of three that vote as the settings say; yield its folder."""
    with ended_with_block(place) as folder:
        words = ("--brokers", 3, "--base-port", free_base_port(3), "--detach")
        up = run(folder, "up", *words)
        assert up.returncode == 0, up.stderr
        yield folder


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of such a cluster, which no test changes."""
    with three_of_settings(tmp_path_factory.mktemp("static") / "cluster") as folder:
        yield folder


def addresses(folder: Path) -> list[str]:
    """Return where the brokers of a cluster of `moldau cluster up` are."""
    told = moldau("cluster", "status", "--data", folder, "-o", "json").data
    return [f"127.0.0.1:{one['port']}" for one in told["brokers"]]


@pytest.mark.java(CURRENT)
def test_kafkas_tool_and_ours_say_the_same_through_every_node(static: Path) -> None:
    config = static / "broker-2" / "server.properties"
    directory = "AAAAAAAAAAAAAAAAAAAAAQ"
    with ToolSession(CURRENT) as session:
        for address in addresses(static):
            for words in (
                ("describe", "--status"),
                ("describe", "--replication"),
                ("describe", "--replication", "--human-readable"),
            ):
                same(session, 0, "--bootstrap-server", address, *words)
        for status, words in (
            (1, ("describe",)),
            (1, ("describe", "--status", "--replication")),
            (1, ("describe", "--status", "--human-readable")),
            (1, ("add-controller",)),
            (0, ("--command-config", config, "add-controller", "--dry-run")),
            (1, ("--command-config", config, "add-controller")),
            (0, ("remove-controller", "-i", 2, "-d", directory, "--dry-run")),
            (1, ("remove-controller", "-i", 2, "-d", directory)),
            (1, ("remove-controller", "-i", -2, "-d", directory)),
        ):
            same(session, status, "--bootstrap-server", address, *words)


def same(session: ToolSession, status: int, *words: object) -> None:
    """Run both tools, and compare all but the times."""
    kafka, own = session.run(class_of(TOOL), *words, check=False), ours(TOOL, *words)
    assert (kafka.status, own.status) == (status, status), (words, kafka, own)
    assert said(own) == said(kafka), words


def said(output: Output) -> tuple[str, str]:
    return TIME.sub(r"\1\t<time>", output.stdout), output.stderr.partition("\n")[0]


def test_the_status_of_a_cluster_shows_who_votes_and_who_lags(static: Path) -> None:
    told = moldau("cluster", "status", "--data", static, "-o", "json").data
    quorum = told["quorum"]
    assert told["controller"] == quorum["leader"]
    assert [(one["node"], one["lag"]) for one in quorum["voters"]] == [(1, 0), (2, 0), (3, 0)]
    lines = moldau("cluster", "status", "-b", addresses(static)[0]).out.splitlines()
    assert [*quorum.values()][:2] == [int(word) for word in below(lines, "QUORUM LEADER")[:2]]
    assert below(lines, "VOTER  ROLE")[0] == "1"


def below(lines: list[str], title: str) -> list[str]:
    """Return the words of the line below a title."""
    (index,) = [at for at, line in enumerate(lines) if line.lstrip().startswith(title)]
    return lines[index + 1].split()


@pytest.mark.parametrize(
    "words", [("add", 4, "--endpoint", "h:1"), ("remove", 2, "--yes"), ("replace", 2, "--yes")]
)
def test_voters_of_the_settings_are_not_changed_by_a_command(
    static: Path, words: tuple[object, ...]
) -> None:
    refused = moldau("quorum", *words, "-b", addresses(static)[0])
    assert (refused.status, refused.out) == (1, "")
    assert refused.err == (
        "moldau: controller.quorum.voters sets the voters of this cluster (kraft.version 0): change"
        " it on all nodes and restart them. To change voters with this command, first run"
        " `kafka-features --bootstrap-server HOST:PORT upgrade --feature kraft.version=1`\n"
    )


def test_the_log_names_the_voters_of_the_settings_once_kraft_version_is_raised(
    tmp_path: Path,
) -> None:
    with three_of_settings(tmp_path / "cluster") as folder:
        place = addresses(folder)[0]
        raising = ("upgrade", "--feature", "kraft.version=1")
        eventually(
            lambda: ours("kafka-features", "--bootstrap-server", place, *raising).status == 0,
            "all voters have told the leader their directories",
        )
        removed = moldau("quorum", "remove", 2, "--yes", "-b", place, "-o", "json")
        assert (removed.status, removed.data[0]["outcome"]) == (0, "removed"), removed.err
        status = moldau("quorum", "status", "-b", place, "-o", "json").data
        assert nodes(status["voters"]) == [1, 3]
        (meta,) = folder.glob("broker-3/**/meta.properties")
        assert f"directory.id={status['voters'][1]['directory_id']}\n" in meta.read_text()
