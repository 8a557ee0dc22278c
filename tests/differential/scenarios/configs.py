"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from __future__ import annotations

from typing import Any

from differential.peer import Peer
from differential.wrong_configs import WRONG_CONFIGS, case_label
from moldau.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)

UNKNOWN, TOPIC, BROKER, LOGGER, METRICS, GROUP = 0, 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
BROKER_ID = "1"


def described_topic(peer: Peer) -> None:
    topic = peer.topic("t", retention_ms="5000", cleanup_policy="compact")
    for version in peer.versions(DescribeConfigsRequest):
        _describe(peer, "all", version, TOPIC, topic)
        _describe(peer, "without synonyms", version, TOPIC, topic, synonyms=False)
        names = ["retention.ms", "no.such.config", "segment.bytes", "retention.ms"]
        _describe(peer, "some", version, TOPIC, topic, names)
        _describe(peer, "none", version, TOPIC, topic, [])
        _describe(peer, "unknown topic", version, TOPIC, "nowhere")
        _describe(peer, "invalid topic", version, TOPIC, "a/b")
        _describe(peer, "empty topic", version, TOPIC, "")


def described_broker(peer: Peer) -> None:
    for version in peer.versions(DescribeConfigsRequest):
        _describe(peer, "own", version, BROKER, BROKER_ID)
        names = ["log.retention.ms", "no.such.config", "node.id", "num.io.threads"]
        _describe(peer, "some", version, BROKER, BROKER_ID, names)
        _describe(peer, "default", version, BROKER, "")
        _describe(peer, "another", version, BROKER, "9")
        _describe(peer, "not a number", version, BROKER, "x")
        _describe(peer, "unknown type", version, UNKNOWN, "x")
        _describe(peer, "type 77", version, 77, "x")


def altered_broker(peer: Peer) -> None:
    """Values at every level: the broker's own, every broker's, the file's, the default."""
    for resource, value in ((BROKER_ID, "70000000"), ("", "80000000")):
        change = ("log.retention.ms", SET, value)
        _ask_incremental(peer, f"set {resource!r}", BROKER, resource, change)
        peer.settle()
        for version in peer.versions(DescribeConfigsRequest):
            for asked in (BROKER_ID, ""):
                what = f"after {resource!r} of {asked!r}"
                _describe(peer, what, version, BROKER, asked, ["log.retention.ms"])
    topic = peer.topic("t")
    for version in peer.versions(DescribeConfigsRequest):
        _describe(peer, "a topic's", version, TOPIC, topic, ["retention.ms", "segment.bytes"])
    for what, resource, change in _broker_refusals():
        _ask_incremental(peer, what, BROKER, resource, change)
    for resource in (BROKER_ID, ""):
        change = ("log.retention.ms", DELETE, None)
        _ask_incremental(peer, f"delete {resource!r}", BROKER, resource, change)
    took = "no.such.config", "retention.ms", "num.io.threads"
    _take_back(peer, *took, "sasl.kerberos.min.time.before.relogin")
    peer.settle()


def _take_back(peer: Peer, *names: str) -> None:
    """Unset what only one of the two took, so that the other scenarios find equal brokers."""
    for name in names:
        change = IncrementalAlterableConfig(name, DELETE, None)
        resource = IncrementalAlterConfigsResource(BROKER, BROKER_ID, [change])
        peer.call(IncrementalAlterConfigsRequest([resource]))


def _broker_refusals() -> list[tuple[str, str, Any]]:
    return [
        ("read-only", BROKER_ID, ("node.id", SET, "5")),
        ("read-only log.dirs", BROKER_ID, ("log.dirs", SET, "/x")),
        ("unknown", BROKER_ID, ("no.such.config", SET, "5")),
        ("not a number", BROKER_ID, ("log.retention.ms", SET, "x")),
        ("out of range", BROKER_ID, ("num.io.threads", SET, "0")),
        ("far more threads", BROKER_ID, ("num.io.threads", SET, "1000")),
        ("append to a number", BROKER_ID, ("log.retention.ms", APPEND, "1")),
        ("another broker", "9", ("log.retention.ms", SET, "5")),
        ("not a broker", "x", ("log.retention.ms", SET, "5")),
        ("of one broker for all", "", ("listeners", SET, "PLAINTEXT://:1")),
        ("delete what is not set", BROKER_ID, ("log.flush.interval.ms", DELETE, None)),
        ("delete what is read-only", BROKER_ID, ("node.id", DELETE, None)),
        ("null", BROKER_ID, ("log.retention.ms", SET, None)),
        ("not in the list", BROKER_ID, ("log.cleanup.policy", SET, "archive")),
        ("append to the list", BROKER_ID, ("log.cleanup.policy", APPEND, "archive")),
        ("not a codec", BROKER_ID, ("compression.type", SET, "rar")),
        ("not a type of times", "", ("log.message.timestamp.type", SET, "Now")),
        ("a wrong fraction", "", ("log.cleaner.min.cleanable.ratio", SET, "2")),
        ("not true or false", "", ("unclean.leader.election.enable", SET, "maybe")),
        ("minimum of 0", "", ("min.insync.replicas", SET, "0")),
        ("a topic's name", BROKER_ID, ("retention.ms", SET, "5")),
        ("read-only for all", "", ("process.roles", SET, "broker")),
        ("empty number", BROKER_ID, ("log.retention.ms", SET, "")),
        ("of security", BROKER_ID, ("sasl.kerberos.min.time.before.relogin", SET, "58000")),
        ("of a listener", BROKER_ID, ("ssl.keystore.location", SET, "/x")),
        ("of a listener for all", "", ("ssl.keystore.location", SET, "/x")),
        ("minimum of one broker", BROKER_ID, ("min.insync.replicas", SET, "1")),
        ("minimum removed", "", ("min.insync.replicas", DELETE, None)),
    ]


def altered_incrementally(peer: Peer) -> None:
    """An operation that does not exist is left out: it makes Kafka's controller resign."""
    topic = peer.topic("t")
    changes: dict[str, list[Any]] = {
        "set": [("retention.ms", SET, "5000")],
        "set two": [("retention.ms", SET, "6000"), ("segment.ms", SET, "7000")],
        "append": [("cleanup.policy", APPEND, "compact")],
        "append what is there": [("cleanup.policy", APPEND, "compact")],
        "append two": [("leader.replication.throttled.replicas", APPEND, "0:1,1:1")],
        "append with blanks": [("leader.replication.throttled.replicas", APPEND, " 2:1 , 3:1")],
        "subtract": [("cleanup.policy", SUBTRACT, "delete")],
        "subtract what is not there": [("leader.replication.throttled.replicas", SUBTRACT, "9:9")],
        "subtract one": [("leader.replication.throttled.replicas", SUBTRACT, "0:1")],
        "delete": [("segment.ms", DELETE, None)],
        "delete with a value": [("retention.ms", DELETE, "5")],
        "delete what is not set": [("flush.ms", DELETE, None)],
        "delete the unknown": [("no.such.config", DELETE, None)],
        "the last policy taken": [("cleanup.policy", SUBTRACT, "compact")],
        "unknown": [("no.such.config", SET, "1")],
        "wrong value": [("retention.ms", SET, "soon")],
        "out of range": [("retention.ms", SET, "-2")],
        "one right, one wrong": [("segment.ms", SET, "5"), ("retention.ms", SET, "x")],
        "null": [("retention.ms", SET, None)],
        "append null": [("cleanup.policy", APPEND, None)],
        "append to a number": [("retention.ms", APPEND, "1")],
        "subtract from a number": [("retention.ms", SUBTRACT, "1")],
        "append to the unknown": [("no.such.config", APPEND, "1")],
        "append a wrong value": [("cleanup.policy", APPEND, "x")],
        "twice": [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
        "set and deleted": [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
        "no change": [],
        "policy by blanks": [("cleanup.policy", SET, "compact, delete")],
        "empty policy": [("cleanup.policy", SET, "")],
    }
    for what, change in changes.items():
        _ask_incremental(peer, f"validate {what}", TOPIC, topic, *change, validate_only=True)
        _ask_incremental(peer, what, TOPIC, topic, *change)
    peer.settle()
    _describe(peer, "in the end", peer.newest(DescribeConfigsRequest), TOPIC, topic)
    change = ("retention.ms", SET, "1")
    for kind, name in _strange_resources():
        _ask_incremental(peer, f"type {kind} {name!r}", kind, name, change)
    for version in peer.versions(IncrementalAlterConfigsRequest):
        config = [IncrementalAlterableConfig(*change)]
        resource = IncrementalAlterConfigsResource(TOPIC, topic, config)
        request = IncrementalAlterConfigsRequest([resource, resource])
        peer.ask("one resource twice", request, version)
        peer.ask("nothing", IncrementalAlterConfigsRequest(), version)


def altered(peer: Peer) -> None:
    """A resource named twice is left out: Kafka never answers that."""
    topic = peer.topic("t")
    changes: dict[str, list[tuple[str, str | None]]] = {
        "set": [("retention.ms", "5000"), ("segment.ms", "6000")],
        "replaced": [("flush.ms", "7000")],
        "unknown": [("no.such.config", "1")],
        "wrong value": [("retention.ms", "soon")],
        "null": [("retention.ms", None)],
        "twice": [("retention.ms", "1"), ("retention.ms", "2")],
        "nothing": [],
        "at last": [("cleanup.policy", "compact")],
    }
    for version in peer.versions(AlterConfigsRequest):
        for what, change in changes.items():
            for validate_only in (True, False):
                label = f"validate {what}" if validate_only else what
                _ask_alter(peer, label, version, TOPIC, topic, change, validate_only)
            peer.settle()
            newest = peer.newest(DescribeConfigsRequest)
            _describe(peer, f"after {what} {version}", newest, TOPIC, topic)
        for kind, name in _strange_resources():
            _ask_alter(peer, f"type {kind} {name!r}", version, kind, name, [("retention.ms", "1")])


def refused_of_topic(peer: Peer) -> None:
    """What CreateTopics refuses too; and what is wrong only beside what is there."""
    topic = peer.topic("t", max_compaction_lag_ms="5")
    for wrong in WRONG_CONFIGS:
        changes = [(name, SET, value) for name, value in wrong]
        _ask_incremental(peer, f"set {case_label(wrong)}", TOPIC, topic, *changes)
        for version in peer.versions(AlterConfigsRequest):
            _ask_alter(peer, f"replace {case_label(wrong)}", version, TOPIC, topic, list(wrong))
    together = ("min.compaction.lag.ms", SET, "10")
    _ask_incremental(peer, "wrong beside what is there", TOPIC, topic, together)
    for name in ("compression.type", "min.insync.replicas", "preallocate", "retention.bytes"):
        for operation in (APPEND, SUBTRACT):
            change = (name, operation, "1")
            _ask_incremental(peer, f"operation {operation} on {name}", TOPIC, topic, change)
    for name in ("cleanup.policy", "leader.replication.throttled.replicas"):
        for operation in (APPEND, SUBTRACT):
            change = (name, operation, "x,y")
            _ask_incremental(peer, f"operation {operation} on {name}", TOPIC, topic, change)


def refused_of_broker(peer: Peer) -> None:
    """The older request replaces all there is, so it is asked only to validate."""
    for what, resource, (name, operation, value) in _broker_refusals():
        if operation == SET:
            for version in peer.versions(AlterConfigsRequest):
                change = [(name, value)]
                _ask_alter(peer, what, version, BROKER, resource, change, validate_only=True)


def listed(peer: Peer) -> None:
    for version in peer.versions(ListConfigResourcesRequest):
        for types in ([], [BROKER], [METRICS], [GROUP], [TOPIC], [TOPIC, BROKER], [77], [UNKNOWN]):
            answer = peer.call(ListConfigResourcesRequest(types), version)
            answer.config_resources = sorted(
                (one for one in answer.config_resources if one.resource_type != TOPIC),
                key=lambda one: (one.resource_type, one.resource_name),
            )
            peer.note_answer(f"{types} v{version}", answer)


def groups_and_metrics(peer: Peer) -> None:
    """Configs that are stored and described, of a group and of a subscription to metrics."""
    for kind, changes in ((GROUP, _GROUP_CHANGES), (METRICS, _METRICS_CHANGES)):
        name = peer.name("named")
        for version in peer.versions(DescribeConfigsRequest):
            _describe(peer, f"{kind} at first", version, kind, name)
            _describe(peer, f"{kind} without a name", version, kind, "")
        for change in changes:
            _ask_incremental(peer, f"{kind} {change}", kind, name, change)
        _ask_incremental(peer, f"{kind} of no name", kind, "", changes[0])
        peer.settle()
        for version in peer.versions(DescribeConfigsRequest):
            _describe(peer, f"{kind} at last", version, kind, name)
        for version in peer.versions(AlterConfigsRequest):
            _ask_alter(peer, f"{kind} replaced", version, kind, name, [])
        peer.settle()


_GROUP_CHANGES: list[tuple[str, int, str | None]] = [
    ("consumer.session.timeout.ms", SET, "50000"),
    ("consumer.session.timeout.ms", SET, "1"),
    ("consumer.session.timeout.ms", SET, "99999999"),
    ("consumer.session.timeout.ms", SET, "x"),
    ("consumer.session.timeout.ms", APPEND, "5"),
    ("consumer.heartbeat.interval.ms", SET, "60000"),
    ("share.auto.offset.reset", SET, "by_duration:PT1H"),
    ("share.auto.offset.reset", SET, "nope"),
    ("share.isolation.level", SET, "read_committed"),
    ("streams.num.standby.replicas", SET, "1"),
    ("streams.num.standby.replicas", SET, "9"),
    ("share.delivery.count.limit", SET, "4"),
    ("share.delivery.count.limit", DELETE, None),
    ("no.such.config", SET, "1"),
]
_METRICS_CHANGES: list[tuple[str, int, str | None]] = [
    ("interval.ms", SET, "1000"),
    ("interval.ms", SET, "1"),
    ("interval.ms", SET, "99999999999"),
    ("metrics", SET, "org.apache.kafka.producer.,x"),
    ("metrics", APPEND, "y"),
    ("match", SET, "client_id=a.*,client_software_name=b"),
    ("match", SET, "nope=a"),
    ("match", SET, "client_id=["),
    ("match", SET, "client_id"),
    ("no.such.config", SET, "1"),
]


def loggers(peer: Peer) -> None:
    """Levels of the root logger, which both have."""
    for version in peer.versions(DescribeConfigsRequest):
        for name in ("", "9", "x"):
            _describe(peer, f"of {name!r}", version, LOGGER, name)
    for level in ("WARN", "ERROR", "INFO"):
        _ask_incremental(peer, f"to {level}", LOGGER, BROKER_ID, ("root", SET, level))
        for version in peer.versions(DescribeConfigsRequest):
            _describe(peer, f"at {level}", version, LOGGER, BROKER_ID, ["root"])
    wrong: list[tuple[str, int, str | None]] = [
        ("root", SET, "warn"), ("root", SET, "OFF"), ("root", SET, ""), ("root", SET, None),
        ("root", DELETE, None), ("root", APPEND, "INFO"), ("nobody", SET, "INFO"),
        ("nobody", DELETE, None),
    ]  # fmt: skip
    for change in wrong:
        _ask_incremental(peer, f"{change}", LOGGER, BROKER_ID, change)
    for name in ("9", "x", ""):
        _ask_incremental(peer, f"change of {name!r}", LOGGER, name, ("root", SET, "INFO"))
    for version in peer.versions(AlterConfigsRequest):
        _ask_alter(peer, "replaced", version, LOGGER, BROKER_ID, [("root", "INFO")])


def _strange_resources() -> list[tuple[int, str]]:
    return [
        (TOPIC, "nowhere"), (TOPIC, "a/b"), (TOPIC, ""), (BROKER, "x"), (BROKER, "9"),
        (UNKNOWN, "x"), (77, "x"), (-1, "x"),
    ]  # fmt: skip


def _describe(
    peer: Peer,
    what: str,
    version: int,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    synonyms: bool = True,
) -> None:
    resource = DescribeConfigsResource(kind, name, keys)
    answer = peer.call(DescribeConfigsRequest([resource], synonyms), version)
    found: dict[str, Any] = {}
    for result in answer.results:
        for config in result.configs:
            found.setdefault(config.name, []).append(config)
        result.configs = []
    peer.note_answer(f"{what} v{version}", answer)
    peer.note_answer(f"{what}: configs v{version}", found)


def _ask_incremental(
    peer: Peer,
    label: str,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
) -> None:
    configs = [IncrementalAlterableConfig(*change) for change in changes]
    resource = IncrementalAlterConfigsResource(kind, name, configs)
    peer.ask_all(label, IncrementalAlterConfigsRequest([resource], validate_only))


def _ask_alter(
    peer: Peer,
    label: str,
    version: int,
    kind: int,
    name: str,
    changes: list[tuple[str, str | None]],
    validate_only: bool = False,
) -> None:
    configs = [AlterableConfig(*change) for change in changes]
    resource = AlterConfigsResource(kind, name, configs)
    peer.ask(label, AlterConfigsRequest([resource], validate_only), version)


SCENARIOS = (
    described_topic,
    described_broker,
    altered_broker,
    altered_incrementally,
    altered,
    refused_of_topic,
    refused_of_broker,
    listed,
    groups_and_metrics,
    loggers,
)
