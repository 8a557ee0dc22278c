"""Every config of a broker, as one table."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from moldau.server.broker_configs.cluster import CLUSTER
from moldau.server.broker_configs.groups import GROUPS
from moldau.server.broker_configs.logs import LOGS
from moldau.server.broker_configs.network import NETWORK
from moldau.server.broker_configs.security import SECURITY
from moldau.server.broker_configs.states import STATES
from moldau.server.broker_configs.tiering import TIERING

BROKER_CONFIGS: Final = MappingProxyType(
    {
        one.name: one
        for family in (NETWORK, LOGS, CLUSTER, GROUPS, STATES, SECURITY, TIERING)
        for one in family
    }
)

OPEN_PREFIXES: Final = ("listener.name.", "config.providers.", "rsm.config.", "rlmm.config.")
"""Beginnings of keys that Kafka does not check, since what follows is up to a plug-in."""
