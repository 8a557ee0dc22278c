"""What the documents show works: their Python is run, their links lead somewhere."""

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_harness.moldau_node import MoldauNode

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_example_of_the_readme_sends_its_record(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    with MoldauNode(tmp_path) as broker:
        exec(example.replace("127.0.0.1:9092", broker.address), {})
        consumer = Consumer(
            {
                "bootstrap.servers": broker.address,
                "group.id": "example",
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition("greetings", 0, 0)])
        message = consumer.poll(20)
        consumer.close()
    assert message is not None
    assert message.error() is None
    assert (message.key(), message.value()) == (b"de", b"Ahoj, Moldau!")


def test_the_commands_at_the_top_of_the_readme_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    shown = re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert shown[:2] == ["demo", "test"]
    for target in shown:
        assert f"\n{target}:" in makefile
