"""The settings of brokers in tests: Kafka's, with some changes that make tests fast.

`broker_settings` is for a single broker, `cluster_settings` for all brokers of a cluster, and
`node_settings` for the settings of one broker in a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from moldau.base.errors import ConfigError

Settings = Mapping[str, str | int | bool]
"""Kafka's broker settings by name."""

Topics = Mapping[str, int] | Iterable[str]
"""Topics with their partition counts, or names only for one partition each."""

QUICK: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""A group does not wait for more members to join, and the internal topics are small."""

VOTER: Final = 1
"""The broker of a cluster that is its controller as well."""

BROKERS_MAX: Final = 9
REPLICAS_MAX: Final = 3


def broker_settings(given: Settings | None) -> dict[str, str]:
    """Return settings as a broker reads them, with those that make it quick."""
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (given or {}).items()
    }
    return {**QUICK, **texts}


def cluster_settings(brokers: int, pace: Settings, given: Settings | None) -> dict[str, str]:
    """Return the settings of all brokers of a cluster; `pace` is how often they talk.

    ConfigError if a test cannot have so many brokers.
    """
    if not 1 <= brokers <= BROKERS_MAX:
        raise ConfigError(f"brokers={brokers}: a test has 1 to {BROKERS_MAX}")
    replicas = min(REPLICAS_MAX, brokers)
    return broker_settings(
        {
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            **pace,
            **(given or {}),
        }
    )


def node_settings(broker_id: int, address: str, controller: str, folder: str) -> dict[str, str]:
    """Return the settings of one broker of a cluster; `controller` is the voter's address."""
    own = {
        "node.id": str(broker_id),
        "log.dirs": folder,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    if broker_id == VOTER:
        own["process.roles"] = "broker,controller"
        own["listeners"] = f"PLAINTEXT://{address},CONTROLLER://{controller}"
    else:
        own["process.roles"] = "broker"
        own["listeners"] = f"PLAINTEXT://{address}"
        own["controller.quorum.voters"] = f"{VOTER}@{controller}"
    return own


def topic_partitions(topics: Topics) -> dict[str, int]:
    """Read topics given by name alone as having one partition."""
    if isinstance(topics, str):
        raise ConfigError(f"topics is a list of names, or numbers of partitions by name: {topics}")
    return dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)


def check_known(broker_id: int, broker_ids: tuple[int, ...]) -> None:
    """Refuse the id of a broker that the cluster does not have; ConfigError."""
    if broker_id not in broker_ids:
        raise ConfigError(
            f"there is no broker {broker_id!r}: the brokers of this cluster are 1 to"
            f" {len(broker_ids)}"
        )
