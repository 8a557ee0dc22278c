"""Several `moldau serve` processes that form one cluster, with one voter.

Each broker keeps its id, its port and its folder over all its lives: it is stopped, killed, paused
and started again by its id. What all of them have printed is checked at the end, and no process is
left behind.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from kafka_harness.ports import free_port
from kafka_harness.waiting import eventually
from kits.kafka_command_kit import ours
from moldau.base.clock import system_random
from moldau.base.ids import random_uuid, uuid_text
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from moldau.protocol.messages.reassignment import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from process.links import CONTROLLER, Links, broker
from process.raw_client import RawClient
from process.serving import Serving

VOTER = 1
SHORT_SESSION: Mapping[str, str] = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "250",
    "replica.lag.time.max.ms": "2000",
}
"""A broker that is gone is missed after two seconds and not after nine."""

_METADATA_VERSION = 7
_CREATE_VERSION = 5
_REASSIGN_VERSION = 0
_ERROR = " ERROR "


class PartitionState(NamedTuple):
    """One partition, as one broker describes it."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Cluster:
    """Brokers 1 to `size`, of which the first votes; a context manager."""

    first_id = VOTER

    def __init__(
        self,
        directory: Path,
        *,
        size: int = 3,
        settings: Mapping[str, str] = SHORT_SESSION,
        environ: Mapping[str, str] | None = None,
        links: Links | None = None,
    ) -> None:
        self.ids = range(self.first_id, self.first_id + size)
        self.ports = {broker_id: free_port() for broker_id in self.ids}
        """Where brokers listen: a test looks past the network that it may cut."""
        self.advertised = dict(self.ports)
        """Where brokers and clients reach them."""
        self._directory = directory
        self._environ = environ
        self._running: dict[int, Serving] = {}
        self._paused: set[int] = set()
        self._lives: dict[int, list[Serving]] = {broker_id: [] for broker_id in self.ids}
        if links is not None:
            self.advertised = {
                broker_id: links.before(broker(broker_id), port)
                for broker_id, port in self.ports.items()
            }
        self._prepare(settings, links)

    def _prepare(self, settings: Mapping[str, str], links: Links | None) -> None:
        """Write the settings of all brokers, and format their folders."""
        cluster_id = uuid_text(random_uuid(system_random()))
        controller_port = reached_port = free_port()
        if links is not None:
            reached_port = links.before(CONTROLLER, controller_port)
        for broker_id in self.ids:
            port = controller_port if broker_id == VOTER else reached_port
            self._format(broker_id, cluster_id, port, settings)

    def _format(
        self, broker_id: int, cluster_id: str, controller_port: int, settings: Mapping[str, str]
    ) -> None:
        listeners = f"PLAINTEXT://127.0.0.1:{self.ports[broker_id]}"
        roles = "broker"
        if broker_id == VOTER:
            listeners += f",CONTROLLER://127.0.0.1:{controller_port}"
            roles = "broker,controller"
        quorum = {
            "node.id": str(broker_id),
            "process.roles": roles,
            "listeners": listeners,
            "controller.quorum.voters": f"{VOTER}@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }
        file = self._write_settings(broker_id, {**quorum, **settings})
        said = ours("kafka-storage", "format", "-t", cluster_id, "-c", file)
        assert said.status == 0, said

    def _write_settings(self, broker_id: int, settings: Mapping[str, str]) -> Path:
        """Write the file of a broker; return it."""
        folder = self.folder(broker_id)
        folder.mkdir(parents=True)
        properties = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[broker_id]}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.advertised[broker_id]}",
            "log.dirs": str(self.data(broker_id)),
            "default.replication.factor": str(min(3, len(self.ids))),
            "offsets.topic.replication.factor": str(min(3, len(self.ids))),
            "offsets.topic.num.partitions": "6",
            "transaction.state.log.replication.factor": str(min(3, len(self.ids))),
            "transaction.state.log.num.partitions": "6",
            "min.insync.replicas": str(min(2, len(self.ids))),
            "group.initial.rebalance.delay.ms": "0",
            **settings,
        }
        file = folder / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return file

    def add_settings(self, broker_id: int, settings: Mapping[str, str]) -> None:
        """Add to the settings of a broker, or change them, from its next start on."""
        with (self.folder(broker_id) / "server.properties").open("a") as file:
            file.writelines(f"{key}={value}\n" for key, value in settings.items())

    # Where things are

    def folder(self, broker_id: int) -> Path:
        return self._directory / f"broker-{broker_id}"

    def data(self, broker_id: int) -> Path:
        return self.folder(broker_id) / "data"

    def address(self, broker_id: int) -> tuple[str, int]:
        return "127.0.0.1", self.ports[broker_id]

    @property
    def bootstrap(self) -> str:
        """All brokers, as clients call it: `bootstrap.servers`."""
        return ",".join(f"127.0.0.1:{port}" for port in self.advertised.values())

    @property
    def serving(self) -> list[int]:
        """The brokers that run and are not paused."""
        return [broker_id for broker_id in self._running if broker_id not in self._paused]

    @property
    def node_ids(self) -> Sequence[int]:
        """Whatever has a process."""
        return self.ids

    # Lives

    def start(self, *broker_ids: int) -> None:
        """Start brokers together, all by default, and wait until each is ready."""
        self.launch(*broker_ids)
        for broker_id in broker_ids or self.node_ids:
            self._running[broker_id].wait_until_ready()

    def launch(self, *broker_ids: int) -> None:
        """Start brokers together, all by default, and wait for nothing."""
        for broker_id in broker_ids or self.node_ids:
            assert broker_id not in self._running, f"broker {broker_id} is running"
            file = self.folder(broker_id) / "server.properties"
            serving = Serving(
                self.folder(broker_id), "--config", str(file), environ=self._environ
            ).launch()
            self._running[broker_id] = serving
            self._lives[broker_id].append(serving)

    def stop(self, *broker_ids: int) -> None:
        """Ask brokers to stop (SIGTERM), together, and wait until they have."""
        for broker_id in broker_ids:
            self._running[broker_id].signal(signal.SIGTERM)
        for broker_id in broker_ids:
            serving = self._running.pop(broker_id)
            status = serving.wait()
            assert status == 0, f"broker {broker_id}: status {status}\n{serving.errors}"

    def kill(self, *broker_ids: int) -> None:
        """End brokers without a word (-9), together."""
        for broker_id in broker_ids:
            self._running[broker_id].signal(signal.SIGKILL)
        for broker_id in broker_ids:
            self._running.pop(broker_id).kill()
            self._paused.discard(broker_id)

    def pause(self, *broker_ids: int) -> None:
        """Take brokers from the processor (SIGSTOP), as a long pause of their machine would."""
        for broker_id in broker_ids:
            self._running[broker_id].signal(signal.SIGSTOP)
            self._paused.add(broker_id)

    def resume(self, *broker_ids: int) -> None:
        """Let paused brokers go on (SIGCONT)."""
        for broker_id in broker_ids:
            self._running[broker_id].signal(signal.SIGCONT)
            self._paused.discard(broker_id)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill(*self._running)
            raise
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill(*self._running)
        if error is None:
            self.check_outputs()

    # Topics

    def create_topic(
        self,
        name: str,
        assignment: Sequence[Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
        *,
        partitions: int = -1,
        via: int = VOTER + 1,
        in_sync: bool = True,
    ) -> None:
        """Create a topic, and wait until all its replicas are in sync, unless told otherwise.

        An assignment puts its replicas on given brokers, the first of each its leader; without one
        the controller places so many partitions.
        """
        topic = CreatableTopic(
            name,
            partitions,
            -1,
            [CreatableReplicaAssignment(at, list(who)) for at, who in enumerate(assignment or ())],
            [CreatableTopicConfig(key, value) for key, value in (config or {}).items()],
        )
        with RawClient(self.address(via)) as client:

            def is_created() -> bool:
                """As clients do, ask again where the controller is only just elected."""
                (result,) = client.call(CreateTopicsRequest([topic]), _CREATE_VERSION).topics
                error = ErrorCode(result.error_code)
                assert error in {ErrorCode.NONE, ErrorCode.NOT_CONTROLLER}, error.name
                return error is ErrorCode.NONE

            eventually(is_created, f"a controller creates {name}")
        if in_sync:
            self.wait_in_sync(name)

    def reassign(
        self, topic: str, assignment: Sequence[Sequence[int]], *, via: int = VOTER + 1
    ) -> None:
        """Move partitions to other brokers, and wait until they are there and in sync."""
        moves = [ReassignablePartition(at, list(who)) for at, who in enumerate(assignment)]
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(topic, moves)])
        with RawClient(self.address(via)) as client:
            answer = client.call(request, _REASSIGN_VERSION)
        codes = {one.error_code for told in answer.responses for one in told.partitions}
        assert {answer.error_code, *codes} == {0}, answer
        wanted = [set(who) for who in assignment]
        for broker_id in self.serving:
            eventually(
                lambda asked=broker_id: (
                    [set(one.replicas) for one in self.describe(topic, asked).values()] == wanted
                ),
                f"{topic} has moved, as broker {broker_id} knows",
            )
        self.wait_in_sync(topic)

    def describe(self, topic: str, via: int) -> dict[int, PartitionState]:
        """Return the partitions of a topic as one broker knows them."""
        request = MetadataRequest([MetadataRequestTopic(name=topic)], False)
        with RawClient(self.address(via)) as client:
            (answer,) = client.call(request, _METADATA_VERSION).topics
        return {
            one.partition_index: PartitionState(
                one.leader_id, one.leader_epoch, tuple(one.replica_nodes), tuple(one.isr_nodes)
            )
            for one in answer.partitions
        }

    def leader(self, topic: str, partition: int = 0, *, via: int | None = None) -> int:
        """Return who leads, as a broker that serves knows it; -1 for nobody."""
        return self.describe(topic, self.serving[0] if via is None else via)[partition].leader

    def wait_in_sync(self, topic: str) -> None:
        """Wait until every running broker knows of leaders, and of every replica in its ISR."""

        def in_sync(via: int) -> bool:
            found = self.describe(topic, via).values()
            return bool(found) and all(
                one.leader in one.isr and set(one.isr) == set(one.replicas) for one in found
            )

        for broker_id in self.serving:
            eventually(lambda via=broker_id: in_sync(via), f"{topic} is in sync at {broker_id}")

    def wait_for_leaders(
        self, topic: str, among: Iterable[int], *, via: Iterable[int] | None = None
    ) -> None:
        """Wait until brokers, by default all that serve, know that all leaders are among these."""
        wanted = set(among)
        for broker_id in self.serving if via is None else via:
            eventually(
                lambda via=broker_id: all(
                    one.leader in wanted for one in self.describe(topic, via).values()
                ),
                f"{topic} is led by {wanted}, as broker {broker_id} knows",
            )

    def coordinator(self, group: str, via: int) -> int:
        """Return the coordinator of a group, as one broker knows it; -1 while there is none."""
        with RawClient(self.address(via)) as client:
            return int(client.call(FindCoordinatorRequest(group), 0).node_id)

    def log_bytes(self, broker_id: int, topic: str, partition: int) -> bytes:
        """Return all a replica has stored of a partition."""
        files = sorted((self.data(broker_id) / f"{topic}-{partition}").glob("*.log"))
        return b"".join(file.read_bytes() for file in files)

    # Checks at the end

    def check_replicas_equal(self, topic: str) -> None:
        """Compare the stored bytes of all replicas; nobody may write any more."""
        self.wait_in_sync(topic)
        for partition, state in self.describe(topic, self.serving[0]).items():
            eventually(
                lambda at=partition, who=state.replicas: (
                    len({self.log_bytes(broker_id, topic, at) for broker_id in who}) == 1
                ),
                f"the replicas of {topic}-{partition} are equal",
            )

    def output(self, broker_id: int) -> str:
        """All that a broker has said in its lives."""
        return "".join(serving.errors for serving in self._lives[broker_id])

    def check_outputs(self) -> None:
        """Find errors and tracebacks that brokers have logged."""
        for broker_id in self.node_ids:
            lines = self.error_lines(broker_id)
            assert not lines, f"broker {broker_id}:\n{self.output(broker_id)[-8000:]}"

    def error_lines(self, broker_id: int) -> list[str]:
        """Return the lines that should not be in the log of a broker."""
        lines = self.output(broker_id).splitlines()
        return [line for line in lines if _ERROR in line or "Traceback" in line]
