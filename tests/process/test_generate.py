"""`moldau pipeline generate`: what it says it has sent is what arrives, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess

import pytest

from kafka_harness.moldau_node import MoldauNode
from kafka_harness.waiting import eventually
from moldau import Admin, NewTopic, OffsetSpec
from process.serving import MOLDAU, STOP_TIMEOUT_S


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with MoldauNode(tmp_path_factory.mktemp("generate")) as running:
        yield running


def generating(address, *words):
    # Where tests run in the background of a shell, Ctrl-C is ignored unless somebody listens.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [str(MOLDAU), "pipeline", "generate", "-b", address, *words],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MOLDAU_CONFIG": os.devnull},
    )
    signal.signal(signal.SIGINT, before)
    return process


def arrived(admin, topic):
    listed = admin.list_offsets({(topic, 0): OffsetSpec.LATEST}).or_raise()
    return sum(one.offset for one in listed.values())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_nothing_that_was_sent_is_lost(broker, number):
    topic = f"events-{number.name}"
    with Admin(broker.address) as admin:
        admin.create_topics([NewTopic(topic, 1)]).or_raise()
        # A long linger: at any moment much is on its way.
        with generating(
            broker.address, "-t", topic, "--rate", "2000", "-X", "linger.ms=500"
        ) as process:
            eventually(lambda: arrived(admin, topic) > 0, "events")
            process.send_signal(number)
            _, said = process.communicate(timeout=STOP_TIMEOUT_S)
        assert process.returncode == 0
        told = re.fullmatch(r"moldau: ([\d,]+) events sent\n", said)
        assert int(told[1].replace(",", "")) == arrived(admin, topic)


def test_events_that_are_refused_are_said_and_not_counted(broker):
    with Admin(broker.address) as admin:
        admin.create_topics([NewTopic("tiny", 1, configs={"max.message.bytes": "10"})]).or_raise()
    with generating(broker.address, "-t", "tiny", "-n", "5") as process:
        _, said = process.communicate(timeout=STOP_TIMEOUT_S)
    assert process.returncode == 1
    count, reason = said.splitlines()
    assert count == "moldau: 0 events sent"
    assert reason.startswith("moldau: ")
