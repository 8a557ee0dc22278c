"""The pages of configs: what each one is, its default, and what comes of it here.

All of it is said where a config is declared (`moldau.server.configuration`); nothing is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final

from tools.docs.markdown import anchored, code, page, table

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
from moldau.server.configuration.client_metrics import CLIENT_METRICS_CONFIGS
from moldau.server.configuration.definition import (
    ConfigDefinition,
    Status,
    Update,
    format_value,
)
from moldau.server.configuration.group_configs import GROUP_CONFIGS
from moldau.server.configuration.topic_configs import BROKER_SYNONYMS, TOPIC_CONFIGS

Definitions = Iterable[ConfigDefinition]

FAMILIES: Final[Mapping[str, tuple[str, tuple[ConfigDefinition, ...]]]] = {
    "network": ("Listeners, connections and requests", NETWORK),
    "logs": ("Topics and logs", LOGS),
    "cluster": ("Cluster, replication and metadata", CLUSTER),
    "groups": ("Groups and offsets", GROUPS),
    "transactions": ("Transactions", TRANSACTIONS),
    "moldau": ("Moldau's own, and rates of replication", OWN),
    "zookeeper": ("Brokers on ZooKeeper", ZOOKEEPER),
    "operations": ("Policies, quotas and metrics", OPERATIONS),
    "security": ("Authorization, delegation tokens and TLS", SECURITY),
    "sasl": ("SASL", SASL),
    "tiering": ("Tiered storage", TIERING),
    "earlier": ("Configs of earlier releases of Kafka", EARLIER),
}
"""The pages of broker configs, those first that have an effect here: name of the file, title."""

UPDATES: Final = {
    Update.READ_ONLY: "no",
    Update.PER_BROKER: "per broker",
    Update.CLUSTER_WIDE: "yes",
}

STATUSES: Final = {
    Status.WITHOUT_EFFECT: ("Accepted without effect", "These may be set, which changes nothing."),
    Status.REFUSED: ("Refused", "Only the default of these is taken; any other value is an error."),
}


def config_pages() -> dict[str, str]:
    """Return every page of configs by its name below `docs/reference/`."""
    pages = {
        f"broker-configs/{name}.md": _family_page(title, family)
        for name, (title, family) in FAMILIES.items()
    }
    pages["broker-configs/README.md"] = _index()
    pages["topic-configs.md"] = _topic_page()
    pages["group-configs.md"] = _group_page()
    return pages


def default_of(definition: ConfigDefinition) -> str:
    """Write a default."""
    text = format_value(definition.default)
    if text is None:
        return "not set"
    return code(text) or "empty"


def _index() -> str:
    rows = []
    for name, (title, family) in FAMILIES.items():
        working = sum(one.status is Status.WORKS for one in family)
        rows.append((f"[{title}]({name}.md)", str(working), str(len(family) - working)))
    return page(
        "Broker configs",
        "Names, types, defaults and bounds are those of Kafka 4.3. A broker takes them from a "
        "properties file, from options and from the environment: see [running a broker]"
        "(../../running.md).",
        "Every config of Kafka is known, so that an existing `server.properties` starts a broker. "
        "At the start one line names those that are set and have no effect. A config that is "
        "refused stops the start, because to ignore it would be dangerous.",
        table(("page", "configs that work", "without effect, or refused"), rows),
        "*Changes at run time* says whether a config can be changed while the broker runs: `no`, "
        "`per broker`, or `yes`, for one broker or for all of them.",
    )


def _family_page(title: str, family: Definitions) -> str:
    family = tuple(family)
    return page(title, *_working(family), *_not_working(family))


def _working(family: Definitions) -> list[str]:
    rows = [
        (anchored(one.name), default_of(one), UPDATES[one.update], one.documentation)
        for one in family
        if one.status is Status.WORKS
    ]
    header = ("config", "default", "changes at run time", "what it does")
    return [table(header, rows)] if rows else []


def _not_working(family: Definitions) -> list[str]:
    blocks = []
    for status, (heading, text) in STATUSES.items():
        wanted = sorted((one for one in family if one.status is status), key=lambda one: one.reason)
        if wanted:
            blocks += [f"## {heading}", text]
        for reason, group in groupby(wanted, key=lambda one: one.reason):
            rows = [(anchored(one.name), default_of(one), one.documentation) for one in group]
            blocks.append(f"Because {_in_sentence(reason)}:")
            blocks.append(table(("config", "default", "what it does in Kafka"), rows))
    return blocks


def _in_sentence(text: str) -> str:
    """Begin a clause in the middle of a sentence; names keep their capitals."""
    first, second = text[0], text[1]
    is_name = text.startswith(("Kafka", "Java")) or second.isupper()
    return text if is_name else first.lower() + text[1:]


def _topic_page() -> str:
    rows = [
        (
            anchored(one.name),
            default_of(one),
            ", ".join(map(code, BROKER_SYNONYMS.get(one.name, ()))),
            one.documentation,
        )
        for one in TOPIC_CONFIGS.values()
        if one.status is Status.WORKS
    ]
    return page(
        "Topic configs",
        "Names, defaults and bounds are those of Kafka 4.3. Every one can be changed at any time. "
        "Where a topic does not set a config, the [broker config](broker-configs/logs.md) in the "
        "third column counts; if there are several, the first that is set.",
        table(("config", "default", "broker config", "what it does"), rows),
        *_not_working(TOPIC_CONFIGS.values()),
    )


def _group_page() -> str:
    def rows(configs: Mapping[str, ConfigDefinition]) -> list[tuple[str, ...]]:
        return [
            (anchored(one.name), default_of(one), one.documentation) for one in configs.values()
        ]

    header = ("config", "default", "what it does in Kafka")
    return page(
        "Configs of groups and of client metrics",
        "These are checked, kept in the metadata and described as by Kafka 4.3, and have no effect "
        "here. The first belong to group protocols that Moldau does not have, the others to "
        "metrics that clients push to their ",
        "## Groups",
        table(header, rows(GROUP_CONFIGS)),
        "## Client metrics",
        table(header, rows(CLIENT_METRICS_CONFIGS)),
    )
