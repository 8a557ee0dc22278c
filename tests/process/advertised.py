"""What a broker in this process can be asked: its address, and every API it advertises."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.protocol.messages.metadata import ApiVersionsRequest
from moldau.protocol.registry import Api, find_api
from moldau.testing import TestBroker
from process.raw_client import RawClient

RULES = {"DescribeAcls", "CreateAcls", "DeleteAcls"}
"""APIs that, as in Kafka, close the connection of a client that sends a rule of unknown type."""


def connected(broker: TestBroker) -> RawClient:
    """Return a new connection to a broker."""
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return RawClient((host, int(port)))


def first_and_last_versions(broker: TestBroker) -> Iterator[tuple[Api, int]]:
    """Yield every API that a broker advertises in its first and in its last version."""
    with connected(broker) as client:
        keys = client.call(ApiVersionsRequest(), 0).api_keys
    for one in keys:
        for version in sorted({one.min_version, one.max_version}):
            yield find_api(one.api_key), version
