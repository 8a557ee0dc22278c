"""Every config of a broker, as one table.

Names, types, defaults and bounds are those of Kafka 4.3.1, taken as facts and told in our own
words, with these exceptions. A node id has a default, so that a broker starts without a file.
Small segments stay legal as they were before Kafka 4.0. The memory that requests may take has a
limit, so that clients cannot exhaust it. What cannot change while this broker runs
is read-only, also where Kafka's can.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from moldau.server.configuration.broker_configs.cluster import CLUSTER
from moldau.server.configuration.broker_configs.earlier import EARLIER
from moldau.server.configuration.broker_configs.groups import GROUPS
from moldau.server.configuration.broker_configs.logs import LOGS
from moldau.server.configuration.broker_configs.network import NETWORK
from moldau.server.configuration.broker_configs.operations import OPERATIONS
from moldau.server.configuration.broker_configs.own import OWN
from moldau.server.configuration.broker_configs.sasl import SASL
from moldau.server.configuration.broker_configs.security import SECURITY
from moldau.server.configuration.broker_configs.tiering import TIERING
from moldau.server.configuration.broker_configs.transactions import TRANSACTIONS
from moldau.server.configuration.broker_configs.zookeeper import ZOOKEEPER
from moldau.server.configuration.definition import ConfigDefinition

FAMILIES: Final = (
    NETWORK,
    LOGS,
    CLUSTER,
    GROUPS,
    TRANSACTIONS,
    SECURITY,
    SASL,
    TIERING,
    OPERATIONS,
    OWN,
    ZOOKEEPER,
    EARLIER,
)

BROKER_CONFIGS: Final[Mapping[str, ConfigDefinition]] = MappingProxyType(
    {one.name: one for family in FAMILIES for one in family}
)

OPEN_PREFIXES: Final = ("listener.name.", "config.providers.", "rsm.config.", "rlmm.config.")
"""Beginnings of keys that Kafka does not check, since what follows is up to a plug-in."""
