"""Which resource a command means, and which of its configs were set for it alone."""

from __future__ import annotations

import asyncio

import pytest

from moldau.cli.operations.configs import (
    ALL_BROKERS,
    MIN_ISR,
    configs_of_topics,
    min_isr_of,
    own_entries,
    resource_of,
)
from moldau.client.admin import ConfigEntry, ConfigResource, ConfigSource, ResourceType, Results
from moldau.client.errors import UnknownTopicOrPartition


def entry(source, value="1"):
    return ConfigEntry(source.name, value, source, is_read_only=False, is_sensitive=False)


@pytest.mark.parametrize(
    ("kind", "name", "own"),
    [
        ("topic", "t", ConfigSource.TOPIC),
        ("group", "g", ConfigSource.GROUP),
        ("broker", "1", ConfigSource.DYNAMIC_BROKER),
        ("broker", ALL_BROKERS, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("broker-logger", "1", ConfigSource.DYNAMIC_BROKER_LOGGER),
        ("client-metrics", "m", ConfigSource.CLIENT_METRICS),
    ],
)
def test_only_what_was_set_for_a_resource_is_its_own(kind, name, own):
    entries = {source.name: entry(source) for source in ConfigSource}
    assert own_entries(resource_of(kind, name), entries) == [entry(own)]


def test_a_resource_has_its_type_and_name():
    assert resource_of("client-metrics", "m") == (ResourceType.CLIENT_METRICS, "m")


def test_the_least_replicas_in_sync_are_read():
    assert min_isr_of({MIN_ISR: entry(ConfigSource.TOPIC, "2")}) == 2
    assert min_isr_of({}) == 1


def test_configs_are_told_by_the_names_of_topics():
    class FakeAdmin:
        async def describe_configs(self, resources, *, names):
            assert resources == [ConfigResource.topic("a"), ConfigResource.topic("b")]
            assert names == [MIN_ISR]
            error = UnknownTopicOrPartition("b")
            return Results({resources[0]: {}}, {resources[1]: error})

    found = asyncio.run(configs_of_topics(FakeAdmin(), ["a", "b"], [MIN_ISR]))
    assert (list(found.ok), list(found.errors)) == (["a"], ["b"])
