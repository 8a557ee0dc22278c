"""Coordinators are made from the broker's settings, and a setting that cannot be is told."""

from __future__ import annotations

import random

import pytest

from kits import log_kit
from moldau.base.errors import ConfigError
from moldau.replication.partitions import Partitions
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.lifecycle.internal_partitions import LogParts
from moldau.server.lifecycle.runtimes import CoordinatorType, Runtimes


def make(**settings):
    overrides = {key.replace("_", "."): value for key, value in settings.items()}
    values = BrokerSettings.load(None, {"log.dirs": "/data", **overrides}).values
    parts = LogParts(log_kit.HandClock(), None, None, None, None)
    return Runtimes(values, lambda: None, Partitions(), parts, random.Random(1), 1, lambda *_: None)


def test_each_kind_has_its_topic_and_as_many_partitions_as_set():
    runtimes = make(offsets_topic_num_partitions="3", transaction_state_log_num_partitions="4")
    assert {kind: (one.topic, one.partition_count) for kind, one in runtimes.by_type.items()} == {
        CoordinatorType.GROUP: ("__consumer_offsets", 3),
        CoordinatorType.TRANSACTION: ("__transaction_state", 4),
    }


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"offsets_topic_compression_codec": "9"}, "offsets.topic.compression.codec=9"),
        ({"inter_broker_protocol_version": "new"}, "inter.broker.protocol.version=new"),
    ],
)
def test_a_setting_that_cannot_be_is_told(settings, told):
    with pytest.raises(ConfigError, match=told):
        make(**settings)
