"""The first queries that a newcomer sees, in docs/start.md and in the README, run as they stand.

Beside the other tests with a session: a session is costly to start.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafka_harness.topics import create_topic, send

ROOT = Path(__file__).parents[2]
SHOWN_ADDRESS = "127.0.0.1:9092"


@pytest.fixture(scope="module")
def _topics(broker):
    create_topic(broker.address, "orders", 3)
    send(broker.address, "orders", [b"order %d" % number for number in range(1, 1001)])
    create_topic(broker.address, "greetings", 1)
    send(broker.address, "greetings", [b"Ahoj, Moldau!"])


@pytest.mark.usefixtures("_topics", "spark")
def test_the_query_of_the_start_page_counts_the_orders(broker, capsys):
    section = (ROOT / "docs/start.md").read_text().split("\n## A query on Spark\n")[1]
    (program,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    exec(program.replace(SHOWN_ADDRESS, broker.address), {})
    assert capsys.readouterr().out == shown


@pytest.mark.usefixtures("_topics", "spark")
def test_the_query_of_the_readme_shows_the_topic(broker, capsys):
    program = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[-1]
    exec(program.replace(SHOWN_ADDRESS, broker.address), {})
    assert "greetings" in capsys.readouterr().out
