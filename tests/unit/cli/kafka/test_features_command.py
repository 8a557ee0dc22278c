"""`kafka-features` asks for levels as Kafka's command does, and says what became of them."""

from __future__ import annotations

import asyncio

import pytest

from kits.admin_kit import AdminBroker
from kits.kafka_command_kit import ours
from moldau.cli.kafka.feature_releases import (
    RELEASES,
    level_name,
    levels_of_release,
    metadata_level_of,
)
from moldau.cluster.features import FIRST_METADATA_LEVEL, LAST_METADATA_LEVEL
from moldau.cluster.formatting import FIRST_FEATURES, METADATA_LEVEL
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.brokers import UpdatableFeatureResult, UpdateFeaturesResponse

UPDATE_FEATURES = 57
UPGRADE, SAFE, UNSAFE = 1, 2, 3
REFUSED = UpdateFeaturesResponse(0, ErrorCode.INVALID_UPDATE_VERSION, "No.")


class Asked:
    """Runs the command on a broker that gives one answer to every update."""

    def __init__(self, answer=None, newest=None):
        self.answer = answer or UpdateFeaturesResponse(error_message=None)
        self.newest = newest
        self.requests = []

    def run(self, *arguments):
        return asyncio.run(self._run(arguments))

    async def _run(self, arguments):
        async with AdminBroker() as broker:
            broker.serve(UPDATE_FEATURES, lambda one: one.answer(self.answer), self.newest)
            where = ("--bootstrap-server", broker.address)
            output = await asyncio.to_thread(ours, "kafka-features", *where, *arguments)
            self.requests = broker.requests(UPDATE_FEATURES)
        return output

    def updates(self):
        (request,) = self.requests
        return [
            (one.feature, one.max_version_level, one.upgrade_type)
            for one in request.feature_updates
        ]


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        (("upgrade",), UPGRADE, "upgraded"),
        (("downgrade",), SAFE, "downgraded"),
        (("downgrade", "--unsafe"), UNSAFE, "downgraded"),
    ],
)
def test_levels_are_asked_for_in_their_direction(arguments, kind, said):
    asked = Asked()
    output = asked.run(*arguments, "--feature", "b=2", "--feature", " a = 1 ")
    assert (output.stdout, output.status) == (f"a was {said} to 1.\nb was {said} to 2.\n", 0)
    assert asked.updates() == [("b", 2, kind), ("a", 1, kind)]
    assert not asked.requests[0].validate_only


@pytest.mark.parametrize(("flags", "kind"), [((), SAFE), (("--unsafe",), UNSAFE)])
def test_a_feature_is_disabled_by_level_0(flags, kind):
    asked = Asked()
    output = asked.run("disable", "--feature", "a", *flags)
    assert (output.stdout, output.status) == ("a was disabled.\n", 0)
    assert asked.updates() == [("a", 0, kind)]


def test_a_dry_run_changes_nothing():
    asked = Asked()
    assert (
        asked.run("upgrade", "--feature", "a=1", "--dry-run").stdout == "a can be upgraded to 1.\n"
    )
    assert asked.requests[0].validate_only
    refused = Asked(REFUSED).run("disable", "--feature", "a", "--dry-run")
    assert (refused.stdout, refused.status) == ("Can not disable a. No.\n", 1)


def test_what_is_refused_is_said_of_each_feature():
    output = Asked(REFUSED).run("upgrade", "--feature", "b=2", "--feature", "a=1")
    assert output.stdout == "Could not upgrade a to 1. No.\nCould not upgrade b to 2. No.\n"
    assert (output.stderr, output.status) == ("2 out of 2 operation(s) failed.\n", 1)


def test_a_broker_that_answers_for_each_feature_may_refuse_one():
    results = [
        UpdatableFeatureResult("a", ErrorCode.NONE, "NONE"),
        UpdatableFeatureResult("b", ErrorCode.INVALID_UPDATE_VERSION, "No."),
    ]
    asked = Asked(UpdateFeaturesResponse(error_message=None, results=results), newest=1)
    output = asked.run("downgrade", "--feature", "a=1", "--feature", "b=1")
    assert output.stdout == "a was downgraded to 1.\nCould not downgrade b to 1. No.\n"
    assert (output.stderr, output.status) == ("1 out of 2 operation(s) failed.\n", 1)


def test_an_old_broker_is_told_of_a_downgrade_by_a_flag_and_asked_for_nothing_else():
    asked = Asked(newest=0)
    assert asked.run("downgrade", "--feature", "a=1").status == 0
    assert [one.allow_downgrade for one in asked.requests[0].feature_updates] == [True]
    assert asked.run("downgrade", "--feature", "a=1", "--unsafe").status == 1
    assert asked.requests == []


def test_a_release_means_the_levels_of_all_features():
    asked = Asked()
    asked.run("upgrade", "--release-version", "4.0-IV3")
    assert dict(one[:2] for one in asked.updates()) == {
        "metadata.version": 25,
        "kraft.version": 1,
        "transaction.version": 2,
        "group.version": 1,
    }
    asked.run("downgrade", "--release-version", "3.9")
    assert dict(one[:2] for one in asked.updates()) == {
        "metadata.version": 21,
        "kraft.version": 1,
        "transaction.version": 0,
        "group.version": 0,
        "eligible.leader.replicas.version": 0,
        "share.version": 0,
        "streams.version": 0,
    }


def test_the_metadata_may_be_named_by_a_release_as_before():
    asked = Asked()
    output = asked.run("upgrade", "--metadata", "4.3.1", "--feature", "a=1")
    assert output.stdout.splitlines() == [
        " `metadata` flag is deprecated and may be removed in a future release.",
        "a was upgraded to 1.",
        "metadata.version was upgraded to 30.",
    ]
    assert asked.updates() == [("metadata.version", 30, UPGRADE), ("a", 1, UPGRADE)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("upgrade",), "You must specify at least one feature to upgrade"),
        (("disable",), "You must specify at least one feature to disable"),
        (
            ("upgrade", "--feature", "a"),
            "Can't parse feature=level string a: equals sign not found.",
        ),
        (
            ("upgrade", "--feature", "a=32768"),
            "Can't parse feature=level string a=32768: unable to parse 32768 as a short.",
        ),
        (
            ("upgrade", "--feature", "a=x"),
            "Can't parse feature=level string a=x: unable to parse x as a short.",
        ),
        (
            ("disable", "--feature", "a", "--feature", "a"),
            "Feature a was specified more than once.",
        ),
        (
            ("upgrade", "--metadata", "4.3", "--feature", "metadata.version=7"),
            "Feature metadata.version was specified more than once.",
        ),
        (
            ("upgrade", "--release-version", "4.3", "--feature", "a=1"),
            "Can not specify `release-version` with other feature flags.",
        ),
        (
            ("upgrade", "--release-version", "9.9"),
            "Unknown metadata.version '9.9'. Supported metadata.version are: 3.3-IV3, 3.4-IV0,",
        ),
        (("upgrade", "--feature", "a=1", "--unsafe"), "unrecognized arguments: '--unsafe'"),
        (("describe", "--feature", "a=1"), "unrecognized arguments: '--feature'"),
        (("enable",), "invalid choice: 'enable'"),
        ((), "too few arguments"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_a_broker_is_asked(arguments, said):
    asked = Asked()
    output = asked.run(*arguments)
    assert output.status == 1
    assert output.stderr.splitlines()[0].startswith(said)
    assert asked.requests == []


def test_levels_have_the_names_of_kafkas_releases():
    assert len(RELEASES) == LAST_METADATA_LEVEL - FIRST_METADATA_LEVEL + 1
    for level in range(FIRST_METADATA_LEVEL, LAST_METADATA_LEVEL + 1):
        assert metadata_level_of(level_name("metadata.version", level)) == level
    assert [metadata_level_of(one) for one in ("3.7", "3.7.2", "3.7-IV0")] == [19, 19, 15]


def test_the_newest_release_has_the_levels_of_a_new_cluster():
    first = {one.name: one.level for one in FIRST_FEATURES}
    assert levels_of_release(METADATA_LEVEL) == {**first, "kraft.version": 1}
