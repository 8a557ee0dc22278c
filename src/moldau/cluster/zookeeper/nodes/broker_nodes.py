"""The node of a live broker: /brokers/ids/N, ephemeral.

Kafka reads versions 1 to 5. It writes version 5 from 2.7 on, and version 4 before that. The epoch
of a broker is the id of the ZooKeeper transaction that created its node, so it is not in it.

The order of keys is that of Kafka's hash maps: of version 4 as Kafka 1.1.1 (Scala 2.12) writes it,
of version 5 as Kafka 3.9.1 (Scala 2.13) does. Of more than four listeners only the endpoints are in
Kafka's order, not the map of their protocols.

Beside Kafka's fields there are two of our own, which Kafka's tools ignore. With `may_lack_records`
a broker says that its disk may have lost records that it had acknowledged, by a power cut for
instance. `optional_features` are those whose levels begin at 0: up to 3.9, Kafka's tools cannot
read a node with such a range among its features. Each is written only if there is something to say;
otherwise the bytes are Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from moldau.base.checks import invariant
from moldau.cluster.model import Endpoint, FeatureRange
from moldau.cluster.zookeeper.nodes.node_content import (
    INT16_MAX,
    INT32_MAX,
    NO_TIMESTAMP,
    NodeObject,
    decode_object,
    encode_object,
    printable,
)

PLAINTEXT: Final = 0

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By their numbers in Kafka's protocol."""

_PORT_MAX: Final = 65_535
_ADDRESS_LENGTH_MAX: Final = 1_000
_HOST: Final = re.compile(r"[0-9a-zA-Z\-%._:]*")
_PORT: Final = re.compile(r"0|[1-9][0-9]{0,4}")

_MAY_LACK_RECORDS: Final = "may_lack_records"
_OPTIONAL_FEATURES: Final = "optional_features"

_KEYS: Final = {
    4: (
        "listener_security_protocol_map",
        "endpoints",
        "rack",
        "jmx_port",
        "host",
        "timestamp",
        "port",
        "version",
    ),
    5: (
        "features",
        "listener_security_protocol_map",
        "endpoints",
        "rack",
        "jmx_port",
        "port",
        "host",
        "version",
        "timestamp",
    ),
}


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """How a broker can be reached, and what it supports."""

    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: tuple[FeatureRange, ...] = ()
    jmx_port: int = -1
    timestamp_ms: int = NO_TIMESTAMP
    version: int = 5
    may_lack_records: bool = False
    """Whether its disk may have lost records since it was in sync last."""


def encode_broker(node: BrokerNode) -> bytes:
    """Encode version 4 or 5."""
    invariant(node.version in _KEYS, f"version {node.version} of a broker's node is not written")
    # Clients of 0.8 know one plain listener only.
    plain = next((one for one in node.endpoints if one.security_protocol == PLAINTEXT), None)
    fields: dict[str, Any] = {
        "version": node.version,
        "host": (plain.host or None) if plain else None,
        "port": plain.port if plain else -1,
        "endpoints": [_address(endpoint) for endpoint in node.endpoints],
        "jmx_port": node.jmx_port,
        "timestamp": str(node.timestamp_ms),
        "listener_security_protocol_map": {
            endpoint.listener: _PROTOCOLS[endpoint.security_protocol] for endpoint in node.endpoints
        },
        "features": _ranges(one for one in node.features if one.minimum),
    }
    if node.rack is not None:
        fields["rack"] = node.rack
    if node.may_lack_records:
        fields[_MAY_LACK_RECORDS] = True
    if optional := _ranges(one for one in node.features if not one.minimum):
        fields[_OPTIONAL_FEATURES] = optional
    order = (*_KEYS[node.version], _MAY_LACK_RECORDS, _OPTIONAL_FEATURES)
    return encode_object({key: fields[key] for key in order if key in fields})


def _ranges(features: Iterable[FeatureRange]) -> dict[str, dict[str, int]]:
    return {one.name: {"min_version": one.minimum, "max_version": one.maximum} for one in features}


def _address(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def decode_broker(path: str, data: bytes | None) -> BrokerNode:
    """Decode any version from 1 on."""
    fields = decode_object(path, data)
    version = fields.number("version", least=1)
    return BrokerNode(
        _endpoints(fields, version),
        fields.text("rack") if "rack" in fields else None,
        (
            *_features(fields.object("features", {})),
            *_features(fields.object(_OPTIONAL_FEATURES, {})),
        ),
        fields.number("jmx_port", -1, least=-1, most=INT32_MAX),
        fields.decimal_text("timestamp", NO_TIMESTAMP),
        version,
        fields.flag(_MAY_LACK_RECORDS),
    )


def _endpoints(fields: NodeObject, version: int) -> tuple[Endpoint, ...]:
    if version == 1:
        host = fields.text("host", "")
        port = fields.number("port", most=_PORT_MAX)
        return (Endpoint(_PROTOCOLS[PLAINTEXT], host, port, PLAINTEXT),)
    named = fields.object("listener_security_protocol_map", {name: name for name in _PROTOCOLS})
    protocols = {name.upper(): named.text(name).upper() for name in named}
    endpoints = tuple(
        _endpoint(fields, address, protocols) for address in fields.texts("endpoints")
    )
    if len({endpoint.listener for endpoint in endpoints}) != len(endpoints):
        raise fields.refuse("endpoints has a listener twice")
    return endpoints


def _endpoint(fields: NodeObject, address: str, protocols: dict[str, str]) -> Endpoint:
    shown = printable(address)
    name, separator, place = address.partition("://")
    host, _, port = place.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if (
        not (name and separator and _PORT.fullmatch(port))
        or int(port) > _PORT_MAX
        or len(address) > _ADDRESS_LENGTH_MAX
        or not _HOST.fullmatch(host)
    ):
        raise fields.refuse(f"endpoints has {shown}, which is no address of a listener")
    listener = name.upper()
    if protocols.get(listener) not in _PROTOCOLS:
        raise fields.refuse(f"the security protocol of {shown} is not known")
    return Endpoint(listener, host, int(port), _PROTOCOLS.index(protocols[listener]))


def _features(features: NodeObject) -> list[FeatureRange]:
    ranges = []
    for name in features:
        levels = features.object(name)
        minimum = levels.number("min_version", most=INT16_MAX)
        ranges.append(
            FeatureRange(name, minimum, levels.number("max_version", least=minimum, most=INT16_MAX))
        )
    return ranges
