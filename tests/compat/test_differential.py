"""Moldau answers as Apache Kafka does, field by field, but for a list of known differences.

The scenarios of `differential` are put to both brokers in every version both serve. Texts for
people may differ, but for those that people look for; `-rP` or `-s` shows where. Everything else
must be equal or stand in ACCEPTED with a reason. An entry that no longer applies fails the test
too, so the list stays true.

Not compared at all: automatic creation of topics, internal ones too, where Kafka answers with an
error to retry on and Moldau waits for the topic; the APIs and features advertised; share groups;
requests Kafka leaves unanswered (null records, a resource named twice in AlterConfigs, partitions
to verify for no transaction) or whose error makes its controller resign (an operation on configs
that does not exist); what takes a coordinator longer than a test may (sessions and transactions
that time out, expiry).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from differential.accepted import ACCEPTED, ACCEPTED_OF_OLD
from differential.compare import accepted_of, unexpected
from differential.pair import Pair, started_pair
from differential.scenarios import SCENARIOS
from kafka_harness.distribution import CURRENT, ZOOKEEPER_ERA

DROPPED_IN = [name for name in SCENARIOS if not name.startswith("configs-")]
"""DescribeConfigs 0 is the only old one among the configs, and Kafka 3.9 has others than 4.3."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with started_pair("kafka", tmp_path_factory.mktemp("pair")) as running:
        yield running


@pytest.fixture(scope="module")
def earlier_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("earlier-pair")
    with started_pair("kafka-3.9", directory, older_only=True) as running:
        yield running


@pytest.mark.java(CURRENT)
@pytest.mark.parametrize("name", SCENARIOS)
def test_moldau_answers_as_kafka_does(pair, name):
    found = pair.differences(SCENARIOS[name])
    print(*(one for one in found if one.prose), sep="\n")
    accepted = accepted_of(name, ACCEPTED)
    assert not [str(one) for one in unexpected(name, found, accepted)]
    gone = [one for one in accepted if not any(one.covers(each) for each in found)]
    assert not gone, "no longer different: take it off the list"


@pytest.mark.java(ZOOKEEPER_ERA)
@pytest.mark.parametrize("name", DROPPED_IN)
def test_moldau_answers_as_kafka_did_in_versions_kafka_4_has_dropped(earlier_pair, name):
    found = earlier_pair.differences(SCENARIOS[name])
    accepted = accepted_of(name, ACCEPTED_OF_OLD)
    assert not [str(one) for one in unexpected(name, found, accepted)]
