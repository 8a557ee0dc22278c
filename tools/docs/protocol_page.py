"""The page of the protocol: every API, the versions served, and those of Kafka beside them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tools.docs.advertised import Ranges, advertised
from tools.docs.markdown import page, table

from moldau.protocol.fields import Versions
from moldau.protocol.registry import find_api
from moldau.server.handlers.disabled_groups import DISABLED_ROWS
from moldau.server.nodes.forwarding import FORWARDED
from moldau.server.routes import ACCESS_ROWS, QUOTA_ROWS

KAFKAS_RANGES: Final = Path(__file__).parents[2] / "tests" / "golden" / "api_ranges.tsv"
"""What the newest released Kafka serves to clients, told by its own Java client."""

DISABLED: Final = frozenset(key for key, *_ in (*DISABLED_ROWS, *ACCESS_ROWS, *QUOTA_ROWS))


def protocol_page() -> str:
    """Return the page."""
    served, kafkas = advertised(), _kafkas_ranges()
    absent = [f"{name} ({key})" for key, (name, _) in kafkas.items() if key not in served.broker]
    on_zookeeper = {
        key: versions
        for key, versions in served.broker_on_zookeeper.items()
        if key not in served.broker
    }
    clients_only = [
        (str(key), find_api(key).name, _span(versions), kafkas.get(key, ("", "none"))[1], _how(key))
        for key, versions in served.broker.items()
    ]
    return page(
        "Protocol support",
        "Every node advertises these APIs and versions in its answer to ApiVersions. A client uses "
        "the newest version that both sides know. The column *Kafka* has the versions that "
        "kafka-clients 4.4.0 names.",
        "## APIs for clients",
        table(("key", "API", "versions", "Kafka", "answered"), clients_only),
        f"Not served: {', '.join(absent)}.",
        "*By the controller*: any broker takes the request and forwards it.",
        "*As disabled*: answered as by a Kafka in which the feature is turned off. See "
        "[limits](../limits.md).",
        "## APIs between nodes",
        "On the listeners of controllers (`controller.listener.names`). Requests of clients come "
        "here in an Envelope.",
        table(("key", "API", "versions"), _rows(served.controller, set(served.controller))),
        "## APIs between brokers on ZooKeeper",
        "On the listener between brokers, beside all APIs for clients.",
        table(("key", "API", "versions"), _rows(on_zookeeper, set(on_zookeeper))),
    )


def _rows(ranges: Ranges, keys: Iterable[int]) -> list[tuple[str, ...]]:
    return [(str(key), find_api(key).name, _span(ranges[key])) for key in sorted(keys)]


def _how(key: int) -> str:
    if key in DISABLED:
        return "as disabled"
    return "by the controller" if key in FORWARDED else ""


def _span(versions: Versions) -> str:
    first, last = versions.first, versions.last
    return str(first) if first == last else f"{first}-{last}"


def _kafkas_ranges() -> dict[int, tuple[str, str]]:
    """Return the name and the versions of each API that Kafka's brokers serve to clients."""
    ranges = {}
    for line in KAFKAS_RANGES.read_text().splitlines()[1:]:
        key, name, oldest, newest = line.split("\t")
        ranges[int(key)] = name, _span(Versions(int(oldest), int(newest)))
    return ranges
