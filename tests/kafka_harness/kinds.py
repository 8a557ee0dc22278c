"""Choosing a broker by name: the one place that knows both kinds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .broker import BrokerProcess
from .kafka_node import EarlierKafkaNode, KafkaNode
from .moldau_node import CompiledMoldauNode, MoldauNode

KINDS: dict[str, type[BrokerProcess]] = {
    node.kind: node for node in (MoldauNode, CompiledMoldauNode, KafkaNode, EarlierKafkaNode)
}


def kind_under_test() -> str:
    """Return what the suite runs against: Moldau, or Kafka to check the suite itself."""
    kind = os.environ.get("MOLDAU_TEST_BROKER", "moldau")
    if kind not in KINDS:
        raise ValueError(f"MOLDAU_TEST_BROKER is {kind}, not one of {', '.join(KINDS)}")
    return kind


def release_of(kind: str) -> str | None:
    """Return the version of Kafka a kind of broker runs, if it is Kafka."""
    node = KINDS[kind]
    return node.release if issubclass(node, KafkaNode) else None


def make_broker(
    kind: str, directory: Path, settings: Mapping[str, str] | None = None
) -> BrokerProcess:
    """Return a broker of a kind, not yet started."""
    return KINDS[kind](directory, settings)
