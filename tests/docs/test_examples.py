"""What the documents show works: their Python is run, their links and names lead somewhere."""

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_harness.moldau_node import MoldauNode
from kafka_harness.topics import create_topic, send
from moldau.cli.dump_log import dump_log
from moldau.observe.cleaner import CleanerFigures, cleaner_families
from moldau.observe.committed_offsets import (
    CommittedFigures,
    GroupOffset,
    committed_families,
)
from moldau.observe.coordinator_metrics import (
    GroupFigures,
    ShardFigures,
    TransactionFigures,
    group_families,
    internal_topic_families,
    transaction_families,
)
from moldau.observe.disks import DiskFigures, Room, disk_families
from moldau.observe.replication import (
    ControllerFigures,
    ReplicationFigures,
    controller_families,
    replication_families,
)
from moldau.server.configuration.broker_configs import BROKER_CONFIGS
from moldau.server.configuration.definition import Status, format_value

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])
SHOWN_ADDRESS = "127.0.0.1:9092"


def example_of(page):
    """The only Python of a page."""
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert SHOWN_ADDRESS in example
    return example


@pytest.fixture
def broker(tmp_path):
    with MoldauNode(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


def committed(broker, group, topic):
    """The offset a group has in the first partition of a topic."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    answer = admin.list_consumer_group_offsets([asked])[group].result(20)
    return answer.topic_partitions[0].offset


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_are_there(page):
    for name in re.findall(r"`((?:tests|src|docs|bench)/[\w/.]+\.\w+)`", page.read_text()):
        assert (ROOT / name).exists(), f"{page.name} names {name}"


def test_the_exactly_once_example_writes_once_and_commits_with_it(broker):
    for topic in ("orders", "invoices"):
        create_topic(broker.address, topic)
    send(broker.address, "orders", [b"first", b"second"])
    example = example_of("docs/groups-and-transactions.md")
    for _ in range(2):
        exec(example.replace(SHOWN_ADDRESS, broker.address), {})
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "reader"})
    consumer.assign([TopicPartition("invoices", 0, 0)])
    invoices = [consumer.poll(20).value() for _ in range(2)]
    consumer.close()
    assert invoices == [b"invoice for first", b"invoice for second"]
    assert committed(broker, "invoicing", "orders") == 2


def test_the_commands_at_the_top_of_the_readme_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    shown = re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert shown[:2] == ["demo", "test"]
    for target in shown:
        assert f"\n{target}:" in makefile


def test_the_options_of_the_dump_tool_that_are_shown_exist():
    options = {name for parameter in dump_log.params for name in parameter.opts}
    shown = re.findall(r"(--[a-z-]+)", (ROOT / "docs/dump-log.md").read_text())
    assert {"--offsets-decoder", "--transaction-log-decoder"} < set(shown) <= options


def test_the_settings_that_are_listed_work_and_have_the_defaults_shown():
    text = "".join((ROOT / "docs" / page).read_text() for page in ("running.md", "clusters.md"))
    tables = re.findall(r"^\| key \| meaning \| default \|\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = re.findall(r"^\| `([a-z.]+)` \| .* \| ([^|]*) \|$", "".join(tables), re.MULTILINE)
    assert len(tables) == 3
    assert len(rows) > 25
    for name, default in rows:
        config = BROKER_CONFIGS[name]
        assert config.status is Status.WORKS
        assert default in (format_value(config.default), "empty: none"), name


def test_the_metrics_that_are_listed_are_told():
    shards = ShardFigures("t", 0, 0, 0, 0, 0.0, 0.0, 0, 0)
    states = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead")
    families = [
        *group_families(GroupFigures(shards, dict.fromkeys(states, 0), 0, 0, 0)),
        *committed_families(CommittedFigures([GroupOffset("g", "t", 0, 0)], 0)),
        *transaction_families(TransactionFigures(shards, {"Ongoing": 0}, 0, 0, 0)),
        *internal_topic_families(shards),
        *cleaner_families(CleanerFigures(0.0, 0.0, 0.0, 0, 0, {"/data": 0})),
        *disk_families(DiskFigures(0, 0, 0, 0, {"/data": Room(0, 0)})),
        *replication_families(ReplicationFigures(*[0] * 11, {"Produce": 0})),
        *controller_families(ControllerFigures(*[0] * 6)),
    ]
    told = {sample.name for family in families for sample in family.samples}
    text = (ROOT / "docs/running.md").read_text()
    table = text.split("| coordinators and cleaner |")[1].split("\n## ")[0]
    whole = re.findall(r"`((?:kafka|moldau)_\w+)`", table)
    assert len(whole) > 15
    assert not set(whole) - told
    for ending in re.findall(r"`\.\.\.(\w+)`", table):
        assert any(name.endswith(ending) for name in told), ending
