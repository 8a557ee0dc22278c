"""What a strict type checker says of programs that use the client: nothing, until one errs."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """\
import asyncio
import concurrent.futures
from typing import Any, assert_type

from moldau import (
    AsyncConsumer,
    AsyncDelivery,
    Consumer,
    Delivery,
    OffsetAndMetadata,
    Producer,
    Record,
    RecordMetadata,
    TopicPartition,
)

plain = Consumer("h:1", group_id="g")
named = AsyncConsumer("h:1", value_deserializer="json")
sender = Producer("h:1")
read = Consumer("h:1", key_deserializer=bytes.decode, value_deserializer=int)
declared: Consumer[bytes, dict[str, int]] = Consumer("h:1", value_deserializer="json")
properties: dict[str, Any] = {"linger.ms": "5"}
from_file = Producer(**properties)


def look() -> None:
    assert_type(read.poll(), list[Record[str, int]])
    ends = read.end_offsets([("t", 0), TopicPartition("t", 1)])
    read.offsets_for_times(ends)
    read.offsets_for_times({("t", 0): 5})
    read.commit({TopicPartition("t", 0): OffsetAndMetadata(5)})
    read.commit({("t", 0): OffsetAndMetadata(5)})


def collect(deliveries: list[Delivery]) -> set[concurrent.futures.Future[RecordMetadata]]:
    for one in concurrent.futures.as_completed(deliveries):
        assert_type(one.result(), RecordMetadata)
    return {*concurrent.futures.wait(deliveries).done}


async def gather(deliveries: list[AsyncDelivery]) -> set[AsyncDelivery]:
    assert_type(await asyncio.gather(*deliveries), list[RecordMetadata])
    assert_type(await asyncio.wait_for(asyncio.shield(deliveries[0]), 5), RecordMetadata)
    done, _ = await asyncio.wait(deliveries)
    return done


misspelt = Producer("h:1", linger_msec=5)
"""


@pytest.mark.process
def test_strict_checking_finds_the_misspelt_setting_and_nothing_else(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    cache = f"--cache-dir={tmp_path / 'cache'}"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", cache, program],
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    errors = [line for line in done.stdout.splitlines() if " error: " in line]
    assert len(errors) == 1, done.stdout + done.stderr
    assert 'Unexpected keyword argument "linger_msec"' in errors[0]
