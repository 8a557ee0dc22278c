"""The tables of configs agree with Kafka 4.3.1 but for what they say they change."""

from dataclasses import fields
from pathlib import Path

import pytest

from moldau.base.errors import ConfigError
from moldau.server.configuration.broker_configs import BROKER_CONFIGS, FAMILIES
from moldau.server.configuration.broker_configs.earlier import EARLIER, REPLACED
from moldau.server.configuration.broker_configs.own import OWN
from moldau.server.configuration.broker_configs.zookeeper import ZOOKEEPER
from moldau.server.configuration.definition import Status, Update, format_value
from moldau.server.configuration.dynamic import check_dynamic
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.configuration.topic_configs import BROKER_SYNONYMS, TOPIC_CONFIGS
from moldau.storage.topic_config import LogConfig

FACTS = Path(__file__).parent / "kafka_4_3_1"
OTHER_DEFAULTS = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "",
    "queued.max.request.bytes": "268435456",
    "replica.socket.receive.buffer.bytes": "-1",
    "socket.send.buffer.bytes": "-1",
}
"""Kafka has no defaults for the first three, and would not start without them. It has no limit on
the fourth, so that clients can exhaust its memory. The fifth would have a follower woken up for
every 64 KB, the last one would take six times the system calls for a fetch."""
FIXED_HERE = {
    "config.providers",
    "listener.security.protocol.map",
    "listeners",
}
"""What Kafka can change while it runs, and Moldau cannot."""


def facts(name):
    lines = (FACTS / name).read_text().splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def default_text(definition):
    text = format_value(definition.default)
    return "<null>" if text is None else text


@pytest.mark.parametrize(("name", "kind", "default"), facts("topic_configs.tsv"))
def test_a_topic_config_has_kafkas_type_and_default(name, kind, default):
    definition = TOPIC_CONFIGS[name]
    assert definition.type.name == kind
    assert default_text(definition) == default


def test_the_topic_configs_are_kafkas_and_no_others():
    assert set(TOPIC_CONFIGS) == {name for name, *_ in facts("topic_configs.tsv")}


@pytest.mark.parametrize(
    ("name", "kind", "default", "update", "shown"), facts("broker_configs.tsv")
)
def test_a_broker_config_has_kafkas_type_default_and_mode(name, kind, default, update, shown):
    definition = BROKER_CONFIGS[name]
    assert definition.type.name == kind
    assert default_text(definition) == OTHER_DEFAULTS.get(name, default)
    assert definition.update.value == ("read-only" if name in FIXED_HERE else update)
    assert definition.internal == (shown == "internal")


def test_the_broker_configs_are_kafkas_earlier_ones_and_our_own():
    theirs = {name for name, *_ in facts("broker_configs.tsv")}
    ours = {one.name for one in (*EARLIER, *OWN, *ZOOKEEPER)}
    assert set(BROKER_CONFIGS) == theirs | ours
    assert not theirs & ours
    assert sum(map(len, FAMILIES)) == len(BROKER_CONFIGS)


def test_what_takes_the_place_of_a_removed_config_exists():
    named = {word for removed in REPLACED.values() for word in removed.instead.split(" and ")}
    assert {word for word in named if " " not in word} <= set(BROKER_CONFIGS) - set(REPLACED)


@pytest.mark.parametrize("table", [BROKER_CONFIGS, TOPIC_CONFIGS], ids=["broker", "topic"])
def test_every_config_is_documented_accepts_its_default_and_has_a_reason_not_to_work(table):
    for definition in table.values():
        assert definition.documentation.endswith("."), definition.name
        assert "\n" not in definition.documentation
        text = format_value(definition.default)
        assert text is None or definition.parse(text) == definition.default
        assert bool(definition.reason) == (definition.status is not Status.WORKS), definition.name


def test_small_segments_stay_legal():
    assert TOPIC_CONFIGS["segment.bytes"].parse("14") == 14
    assert BROKER_CONFIGS["log.segment.bytes"].parse("107370") == 107370


def test_what_stands_in_for_a_topic_config_may_change_at_run_time_under_its_first_name():
    for name, synonyms in BROKER_SYNONYMS.items():
        assert name in TOPIC_CONFIGS
        assert BROKER_CONFIGS[synonyms[0]].update is Update.CLUSTER_WIDE, synonyms[0]


def test_every_setting_the_broker_uses_is_a_config_that_works():
    for field in fields(BrokerSettings):
        if "key" in field.metadata:
            assert BROKER_CONFIGS[field.metadata["key"]].status is Status.WORKS, field.name


def test_storage_is_told_of_every_topic_config_it_has_a_field_for():
    known = {field.name.replace("_", ".") for field in fields(LogConfig)}
    assert known - set(TOPIC_CONFIGS) == {"throttled.replicas"}
    untold = {name for name in set(TOPIC_CONFIGS) - known if "throttled" not in name}
    assert untold == {
        "local.retention.bytes",
        "local.retention.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }


def outcome(name, *, every):
    """Say what becomes of a config that is set at run time, in the words of the table."""
    text = format_value(BROKER_CONFIGS[name].default)
    try:
        check_dynamic({name: "x" if text is None else text}, every=every)
    except ConfigError as error:
        said = {"dynamically: ": "fixed", "default cluster level": "single", "prefix": "listener"}
        return next((word for part, word in said.items() if part in str(error)), "ok")
    return "ok"


@pytest.mark.parametrize(("name", "one", "every"), facts("broker_config_changes.tsv"))
def test_a_broker_config_changes_at_run_time_as_kafkas_does(name, one, every):
    expected = ("fixed", "fixed") if name in FIXED_HERE else (one, every)
    assert (outcome(name, every=False), outcome(name, every=True)) == expected
