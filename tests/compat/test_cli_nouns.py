"""`moldau NOUN VERB` from end to end, on Moldau or, with MOLDAU_TEST_BROKER, on Apache Kafka."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer

from kafka_harness.broker import BrokerProcess
from kafka_harness.topics import create_topic, end_offset, send, topic_config
from kafka_harness.waiting import eventually
from kits.cli_kit import Ran, moldau
from kits.tool_kit import commit_offsets

Run = Callable[..., Ran]

_numbers = itertools.count()


@pytest.fixture
def run(broker: BrokerProcess) -> Run:
    return lambda *arguments: moldau(
        *arguments, environ={"MOLDAU_BOOTSTRAP_SERVERS": broker.address}
    )


@pytest.fixture
def name() -> str:
    return f"cli-{next(_numbers)}"


@pytest.fixture
def orders(broker: BrokerProcess, name: str) -> str:
    """A topic of two partitions with ten and five records."""
    create_topic(broker.address, name, 2, {"retention.ms": "-1"})
    send(broker.address, name, [b"%d" % number for number in range(10)])
    send(broker.address, name, [b"%d" % number for number in range(5)], partition=1)
    return name


@pytest.fixture
def group(broker: BrokerProcess, orders: str) -> str:
    """A group without members that has read some of it."""
    commit_offsets(broker, f"of-{orders}", orders, {0: 4, 1: 5})
    return f"of-{orders}"


def done(ran: Ran) -> Ran:
    assert (ran.status, ran.err) == (0, "")
    return ran


def refused(ran: Ran, *words: str) -> None:
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.count("\n") == 1
    for word in words:
        assert word in ran.err


def becomes(broker: BrokerProcess, topic: str, config: str, value: str) -> None:
    """A broker learns of a change some time after the controller has taken it."""
    eventually(lambda: topic_config(broker.address, topic, config) == value, f"{config} is {value}")


# Topics


def test_a_topic_lives_from_create_to_delete(run: Run, broker: BrokerProcess, name: str) -> None:
    could = done(run("topic", "create", name, "-p", 3, "-c", "retention.ms=60000", "--dry-run"))
    assert "would be created" in could.out
    refused(run("topic", "describe", name), "there is no topic")
    done(run("topic", "create", name, "-p", 3, "-c", "retention.ms=60000"))
    refused(run("topic", "create", name), "exists")
    assert done(run("topic", "create", name, "--if-not-exists", "-o", "json")).data == []
    (described,) = done(run("topic", "describe", name, "-o", "json")).data
    assert (described["name"], described["partition_count"]) == (name, 3)
    assert described["configs"]["retention.ms"] == "60000"
    assert [one["latest"] for one in described["partitions"]] == [0, 0, 0]

    changes = ("-p", 4, "-c", "cleanup.policy=compact", "-d", "retention.ms")
    refused(run("topic", "alter", name, *changes), "--yes")
    assert "would be changed" in done(run("topic", "alter", name, *changes, "--dry-run")).out
    assert topic_config(broker.address, name, "cleanup.policy") == "delete"
    done(run("topic", "alter", name, *changes, "--yes"))
    becomes(broker, name, "cleanup.policy", "compact")
    becomes(broker, name, "retention.ms", "604800000")
    listed = done(run("topic", "list", name, "-o", "json")).data
    assert [one["partitions"] for one in listed] == [4]

    refused(run("topic", "delete", name), "--yes")
    assert "would be deleted" in done(run("topic", "delete", name, "--dry-run")).out
    half = run("topic", "delete", name, "no-such", "--yes")
    assert (half.status, "deleted" in half.out, "no-such" in half.err) == (1, True, True)
    done(run("topic", "delete", name, "--yes", "--if-exists"))
    refused(run("topic", "delete", name, "--yes"), name)


def test_patterns_name_whole_topics_and_no_internal_ones(run: Run, name: str) -> None:
    for ending in ("a", "b", "ab"):
        done(run("topic", "create", f"{name}-{ending}"))
    pattern = f"{name}-."
    assert done(run("topic", "list", "-r", pattern, "-o", "name")).out.split() == [
        f"{name}-a",
        f"{name}-b",
    ]
    done(run("topic", "delete", "-r", pattern, "--yes"))
    left = done(run("topic", "list", "-o", "name")).out.split()
    assert [one for one in left if one.startswith(name)] == [f"{name}-ab"]
    refused(run("topic", "delete", "-r", ".*consumer_offsets", "--yes"), "no topic matches")
    refused(run("topic", "delete", "-r", "(", "--yes"), "is not a pattern")


def test_a_name_that_is_not_listed_is_told_of(run: Run, orders: str) -> None:
    ran = run("topic", "list", orders, "no-such", "-o", "name")
    assert (ran.status, ran.out) == (1, f"{orders}\n")
    assert ran.err == "moldau: there is no topic no-such\n"
    assert done(run("topic", "list", "-r", "no-such.*", "-o", "name")).out == ""


def test_offsets_are_shown_and_the_oldest_records_are_trimmed(run: Run, orders: str) -> None:
    assert done(run("topic", "offsets", orders)).rows == [
        [orders, "0", "0", "10", "10"],
        [orders, "1", "0", "5", "5"],
    ]
    past = done(run("topic", "offsets", f"{orders}:0", "--at", "1h", "-o", "json")).data
    assert [one["at"] for one in past] == [0]
    refused(run("topic", "trim", f"{orders}:0", "--before", 7), "7 offsets", "--yes")
    planned = done(run("topic", "trim", f"{orders}:0", "--before", 7, "--dry-run"))
    assert planned.rows == [[orders, "0", "0", "7", "7", "would", "be", "trimmed"]]
    done(run("topic", "trim", f"{orders}:0", "--before", 7, "--yes"))
    done(run("topic", "trim", f"{orders}:1", "--before", "latest", "--yes"))
    found = done(run("topic", "offsets", orders, "-o", "json")).data
    assert [(one["earliest"], one["latest"]) for one in found] == [(7, 10), (5, 5)]
    refused(run("topic", "offsets", f"{orders}:2"), "has no partition 2")
    matched = done(run("topic", "offsets", "-r", f"{orders}|no-such"))
    assert [row[0] for row in matched.rows] == [orders, orders]


# Groups


def test_a_group_is_described_with_its_lag(run: Run, orders: str, group: str) -> None:
    (told,) = done(run("group", "describe", group, "-o", "json")).data
    assert (told["state"], told["lag"], told["member_count"]) == ("Empty", 6, 0)
    assert [(one["committed"], one["latest"], one["lag"]) for one in told["offsets"]] == [
        (4, 10, 6),
        (5, 5, 0),
    ]
    assert group in done(run("group", "list", "-o", "name")).out.split()
    both = run("group", "describe", group, "no-such", "-o", "csv")
    assert (both.status, both.out.count("\n"), "no-such" in both.err) == (1, 3, True)


@pytest.fixture
def member(broker: BrokerProcess, orders: str) -> Iterator[str]:
    """A group with one member at work."""
    settings = {
        "bootstrap.servers": broker.address,
        "group.id": f"alive-{orders}",
        "client.id": "reader",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.subscribe([orders])
    eventually(lambda: consumer.poll(0.1) or consumer.assignment(), "partitions are assigned")
    yield f"alive-{orders}"
    consumer.close()


def test_members_are_shown_and_their_group_is_left_alone(
    run: Run, orders: str, member: str
) -> None:
    (one,) = done(run("group", "members", member, "-o", "json")).data
    assert (one["client_id"], one["topics"]) == ("reader", [orders])
    assert one["assignment"] == [f"{orders}-0", f"{orders}-1"]
    (told,) = done(run("group", "describe", member, "-o", "json")).data
    assert (told["state"], {part["client_id"] for part in told["offsets"]}) == (
        "Stable",
        {"reader"},
    )
    refused(run("group", "seek", member, "--to", "earliest", "--yes"), "stop its consumers first")
    refused(run("group", "delete", member, "--yes"), "Stop its consumers first")
    refused(run("group", "offset-delete", member, orders, "--yes"), "has no committed offsets")


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("earliest", [0, 0]),
        ("latest", [10, 5]),
        ("current", [4, 5]),
        ("7", [7, 5]),
        ("+2", [6, 5]),
        ("-3", [1, 2]),
        ("1h", [0, 0]),
        ("@2100-01-01", [10, 5]),
    ],
)
def test_a_group_is_set_elsewhere_but_only_when_told_so(
    run: Run, orders: str, group: str, place: str, expected: list[int]
) -> None:
    planned = run("group", "seek", group, "--to", place, "-o", "json")
    assert (planned.status, "nothing was changed" in planned.err) == (0, True)
    assert [one["offset"] for one in planned.data] == expected
    assert offsets_of(run, group) == [4, 5]
    assert [one["current"] for one in planned.data] == [4, 5]
    done(run("group", "seek", group, "--to", place, "--yes"))
    assert offsets_of(run, group) == expected


def offsets_of(run: Run, group: str) -> list[int]:
    (told,) = done(run("group", "describe", group, "-o", "json")).data
    return [one["committed"] for one in told["offsets"]]


def test_what_a_seek_prints_as_csv_takes_it_back(
    run: Run, orders: str, group: str, tmp_path
) -> None:
    planned = run("group", "seek", group, "--to", "current", "-o", "csv")
    kept = tmp_path / "kept.csv"
    kept.write_text(planned.out)
    assert next(csv.reader(io.StringIO(planned.out)))[:2] == ["topic", "partition"]
    done(run("group", "seek", group, "--to", "earliest", "--yes"))
    done(run("group", "seek", group, "--to-file", kept, "--yes"))
    assert offsets_of(run, group) == [4, 5]
    kept.write_text(f"{orders},0,2\n")
    done(run("group", "seek", group, "--to-file", kept, "--yes"))
    assert offsets_of(run, group) == [2, 5]
    kept.write_text(f"{orders},0\n")
    refused(run("group", "seek", group, "--to-file", kept), "is not topic,partition,offset")


def test_a_new_group_begins_where_it_is_set(run: Run, orders: str) -> None:
    new = f"new-{orders}"
    refused(run("group", "seek", new, "--to", "latest"), "--topic")
    refused(run("group", "seek", new, "--to", "+1", "-t", orders), "no committed offset")
    done(run("group", "seek", new, "--to", "latest", "-t", f"{orders}:0", "--yes"))
    assert offsets_of(run, new) == [10]


def test_offsets_and_groups_are_deleted(run: Run, orders: str, group: str) -> None:
    refused(run("group", "offset-delete", group, f"{orders}:0"), "--yes")
    done(run("group", "offset-delete", group, f"{orders}:0", "--yes"))
    assert offsets_of(run, group) == [5]
    refused(run("group", "delete", group), "--yes")
    assert "would be deleted" in done(run("group", "delete", group, "--dry-run")).out
    done(run("group", "delete", group, "--yes"))
    refused(run("group", "describe", group), group)


# Configs


def test_configs_are_set_changed_and_taken_back(
    run: Run, broker: BrokerProcess, orders: str
) -> None:
    of_topic = ("topic", orders)
    refused(run("config", "set", *of_topic, "retention.ms=5000"), "--yes")
    done(run("config", "set", *of_topic, "retention.ms=5000", "--dry-run"))
    assert topic_config(broker.address, orders, "retention.ms") == "-1"
    done(run("config", "set", *of_topic, "retention.ms=5000", "cleanup.policy+=compact", "--yes"))
    becomes(broker, orders, "cleanup.policy", "delete,compact")
    shown = done(run("config", "get", *of_topic, "-o", "json")).data
    assert {one["config"]: one["value"] for one in shown}["retention.ms"] == "5000"
    assert done(run("config", "get", *of_topic, "retention.ms")).rows == [
        ["retention.ms", "5000", "topic"]
    ]
    done(run("config", "delete", *of_topic, "retention.ms", "cleanup.policy", "--yes"))
    becomes(broker, orders, "cleanup.policy", "delete")
    everything = done(run("config", "get", *of_topic, "--all", "-o", "name")).out.split()
    assert len(everything) > 20
    refused(run("config", "set", *of_topic, "retention.ms=soon", "--yes"), "retention.ms")
    refused(run("config", "set", "topic", "no-such", "retention.ms=5000", "--yes"))
    refused(run("config", "get", *of_topic, "no.such.config"), "no.such.config")


def test_what_holds_for_all_brokers_is_named_default(run: Run) -> None:
    done(run("config", "set", "broker", "default", "log.cleaner.threads=2", "--yes"))
    asked = ("config", "get", "broker", "default", "log.cleaner.threads", "-o", "json")
    shown = eventually(lambda: [ran for ran in (run(*asked),) if not ran.status], "it is set")
    assert [one["value"] for one in shown[0].data] == ["2"]
    done(run("config", "delete", "broker", "default", "log.cleaner.threads", "--yes"))


# The cluster


def test_the_cluster_and_its_brokers_are_shown(
    run: Run, broker: BrokerProcess, orders: str
) -> None:
    told = done(run("cluster", "status", "-o", "json")).data
    (one,) = told["brokers"]
    assert (one["port"], one["controller"]) == (broker.port, True)
    assert told["partition_count"] == one["replicas"] == one["leaders"]
    (listed,) = done(run("broker", "list", "-o", "json")).data
    assert listed["broker"] == one["id"] == told["controller"]
    assert (told["under_replicated_count"], told["under_replicated"]) == (0, [])
    described = done(run("broker", "describe", one["id"], "-o", "json")).data
    assert described["log_dirs"][0]["replicas"] >= 2
    refused(run("broker", "describe", 4711), "there is no broker 4711")
    shown = done(run("broker", "config", one["id"], "listeners", "-o", "json")).data
    assert str(broker.port) in shown[0]["value"]


def test_health_tells_that_all_is_well(run: Run, orders: str) -> None:
    told = done(run("cluster", "health", "-o", "json")).data
    assert (told["healthy"], told["troubles"], told["leaderless"]) == (True, [], 0)


def test_versions_and_features_are_shown(run: Run) -> None:
    rows = done(run("cluster", "api-versions", "-o", "json")).data
    assert {"Produce", "Fetch", "Metadata"} <= {row["api"] for row in rows}
    features = done(run("cluster", "features", "-o", "json")).data
    assert "metadata.version" in {row["feature"] for row in features}


def test_sizes_on_disk_are_shown(run: Run, broker: BrokerProcess, orders: str) -> None:
    rows = done(run("log", "dirs", "-t", f"{orders}:0", "-o", "json")).data
    assert [(row["topic"], row["partition"]) for row in rows] == [(orders, 0)]
    assert rows[0]["size"] > 0
    (whole,) = done(run("log", "dirs", "-o", "json")).data
    assert whole["size"] >= rows[0]["size"]
    assert end_offset(broker.address, orders) == 10


# Transactions


def test_transactions_and_their_producers_are_shown(
    run: Run, broker: BrokerProcess, orders: str
) -> None:
    settings = {"bootstrap.servers": broker.address, "transactional.id": f"tx-{orders}"}
    producer = Producer(settings)
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(orders, b"open", partition=0)
    producer.flush(20)
    try:
        listed = done(run("txn", "list", "--state", "Ongoing", "-o", "json")).data
        assert f"tx-{orders}" in {one["transactional_id"] for one in listed}
        (told,) = done(run("txn", "describe", f"tx-{orders}", "-o", "json")).data
        assert (told["state"], told["partitions"]) == ("Ongoing", [f"{orders}-0"])
        (seen,) = open_transactions(run, orders)
        assert (seen["producer_id"], seen["start_offset"]) == (told["producer_id"], 10)
        assert done(run("txn", "find-hanging", orders, "-o", "json")).data == []
        abort = ("txn", "abort", f"{orders}:0", "--start-offset")
        refused(run(*abort, 9, "--yes"), "no open transaction starts")
        refused(run(*abort, 10), "--yes")
        assert "would be aborted" in done(run(*abort, 10, "--dry-run")).out
        assert len(open_transactions(run, orders)) == 1
    finally:
        producer.abort_transaction(20)
    refused(run("txn", "describe", "no-such"), "no-such")


def open_transactions(run: Run, topic: str) -> list[dict[str, object]]:
    rows = done(run("txn", "producers", f"{topic}:0", "-o", "json")).data
    return [row for row in rows if row["start_offset"] is not None]


# In every form


@pytest.mark.parametrize("form", ["table", "wide", "yaml", "csv", "name"])
def test_every_form_names_the_topic(run: Run, orders: str, form: str) -> None:
    assert orders in done(run("topic", "list", "-o", form)).out
    assert orders in done(run("topic", "describe", orders, "-o", form)).out


def test_a_shell_completes_names_from_the_broker(
    run: Run, broker: BrokerProcess, orders: str
) -> None:
    environ = {
        "MOLDAU_BOOTSTRAP_SERVERS": broker.address,
        "_MOLDAU_COMPLETE": "bash_complete",
        "COMP_WORDS": f"moldau topic describe {orders[:-1]}",
        "COMP_CWORD": "3",
    }
    offered = eventually(
        lambda: [one for one in moldau(environ=environ).out.splitlines() if one], "names are told"
    )
    assert f"plain,{orders}" in offered
