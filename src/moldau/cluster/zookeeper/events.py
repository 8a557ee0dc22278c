"""What the controller learns from nodes that others write, for whoever carries out its duties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from moldau.base.ids import BrokerId
from moldau.cluster.model import Broker
from moldau.cluster.zookeeper.nodes.tool_requests import ToolRequest


@dataclass(frozen=True, slots=True)
class SeenBroker:
    """A broker whose node is there."""

    broker: Broker
    may_lack_records: bool = False


@dataclass(frozen=True, slots=True)
class BrokersSeen:
    """These brokers have nodes now, and no others."""

    live: Mapping[BrokerId, SeenBroker]


@dataclass(frozen=True, slots=True)
class DirectoryFailed:
    """A broker says that one of its log directories has failed."""

    broker_id: BrokerId


TreeEvent: TypeAlias = BrokersSeen | DirectoryFailed | ToolRequest
