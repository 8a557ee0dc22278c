"""The two brokers of a comparison: started together, asked in the versions both serve."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from kafka_harness.broker import BrokerProcess
from kafka_harness.kinds import make_broker
from kafka_harness.wire import ask_api_versions

from .compare import Difference, differences
from .peer import Peer, Versions

SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "min.insync.replicas": "2",
    "log.initial.task.delay.ms": "3600000",
    "log.retention.check.interval.ms": "3600000",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""What the harness sets for one node of Kafka, so that configs can be compared; and no topics by
the way, because the brokers create them differently (see the accepted differences); and no
retention meanwhile, because the records of the scenarios are of long ago."""

NODE_ID = "1"
"""The harness's Kafka is broker 1."""

CURRENT_FIRST_VERSIONS = {
    0: 3, 1: 4, 2: 1, 8: 2, 9: 1, 19: 2, 20: 1, 23: 2, 27: 1, 32: 1, 35: 1,
}  # fmt: skip
"""API key -> the oldest version Kafka 4 still serves, where that is not 0 (KIP-896).

For Produce it says 0, because librdkafka takes anything else for a broker without gzip.
"""


class Pair:
    """Apache Kafka and Moldau, side by side."""

    def __init__(self, kafka: BrokerProcess, moldau: BrokerProcess, *, older_only: bool) -> None:
        versions = _in_common(kafka, moldau)
        newest = {key: each[-1] for key, each in versions.items()}
        cut = _dropped if older_only else _current
        versions = {key: cut(key, each) for key, each in versions.items()}
        self._kafka = Peer(kafka, versions, newest)
        self._moldau = Peer(moldau, versions, newest)
        self._asked = 0

    def differences(self, scenario: Callable[[Peer], None]) -> list[Difference]:
        """Run a scenario against both brokers and tell the answers apart."""
        self._asked += 1
        records = []
        for peer in (self._kafka, self._moldau):
            with peer.recording(f"s{self._asked}") as record:
                scenario(peer)
            records.append(record)
        return differences(*records)


@contextlib.contextmanager
def started_pair(kind: str, directory: Path, *, older_only: bool = False) -> Iterator[Pair]:
    """Start both brokers; `older_only` compares only versions that Kafka 4 no longer serves."""
    kafka = make_broker(kind, directory / "kafka", SETTINGS)
    moldau = make_broker("moldau", directory / "moldau", SETTINGS | {"node.id": NODE_ID})
    moldau.settings["advertised.listeners"] = f"PLAINTEXT://{moldau.address}"
    with kafka, moldau:
        yield Pair(kafka, moldau, older_only=older_only)


def _in_common(kafka: BrokerProcess, moldau: BrokerProcess) -> Versions:
    theirs, ours = (ask_api_versions(each.host, each.port) for each in (kafka, moldau))
    return {
        key: range(max(theirs[key][0], ours[key][0]), min(theirs[key][1], ours[key][1]) + 1)
        for key in theirs.keys() & ours.keys()
    }


def _current(key: int, versions: range) -> range:
    return range(max(versions.start, CURRENT_FIRST_VERSIONS.get(key, 0)), versions.stop)


def _dropped(key: int, versions: range) -> range:
    return range(versions.start, min(versions.stop, CURRENT_FIRST_VERSIONS.get(key, 0)))
