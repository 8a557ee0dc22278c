"""Apache Kafka as one KRaft node, combined roles, or as a broker of a cluster.

The settings are Kafka's defaults except where one node needs otherwise: the internal topics have
one replica, and a first group does not wait for more members.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .broker import CLUSTER_ID, BrokerProcess
from .distribution import CURRENT, ZOOKEEPER_ERA, jars, require
from .java import run_class
from .ports import free_port

NODE_ID = 1

AS_SHIPPED = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-Djava.awt.headless=true",
)  # fmt: skip
"""The heap and collector of Kafka's own scripts, for measurements."""


class KafkaNode(BrokerProcess):
    """A single-node Kafka; its folder can be handed to another broker while it is stopped."""

    kind = "kafka"
    release = CURRENT
    machine: tuple[str, ...] = AS_SHIPPED

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, settings)
        self._controller_port = free_port()
        self._properties = directory / "server.properties"

    def version(self) -> str:
        return f"Apache Kafka {self.release}"

    def prepare(self) -> None:
        super().prepare()
        self.write_properties(self._configs())
        if not self._on_zookeeper and not (self.data / "meta.properties").exists():
            run_class(
                self.release, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID,
                "-c", self._properties,
            )  # fmt: skip

    def command(self) -> list[str]:
        return [
            require("java"), *self.machine, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp", str(jars(self.release) / "*"), "kafka.Kafka", str(self._properties),
        ]  # fmt: skip

    @property
    def clean_statuses(self) -> tuple[int, ...]:
        # A JVM that ends by SIGTERM says 128 + 15 even after its shutdown hooks ran to the end.
        return (0, 143)

    @property
    def _on_zookeeper(self) -> bool:
        return "zookeeper.connect" in self.settings

    def _configs(self) -> dict[str, str]:
        return {
            **({} if self._on_zookeeper else self._own_quorum()),
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }

    def _own_quorum(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": str(NODE_ID),
            "controller.quorum.voters": f"{NODE_ID}@{self.host}:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": (
                f"PLAINTEXT://{self.address},CONTROLLER://{self.host}:{self._controller_port}"
            ),
            "advertised.listeners": f"PLAINTEXT://{self.address}",
        }


class EarlierKafkaNode(KafkaNode):
    """Kafka 3.9, the last to take the oldest requests: it checks the tests that send them."""

    kind = "kafka-3.9"
    release = ZOOKEEPER_ERA
