"""The committed golden bytes are those Kafka makes today, so nobody has edited them by hand."""

from __future__ import annotations

import gzip

import pytest
from tests.golden.generate import GOLDEN, generate

from kafka_harness.distribution import CURRENT, ZOOKEEPER_ERA


@pytest.mark.long
@pytest.mark.java(CURRENT, ZOOKEEPER_ERA)
def test_generating_again_gives_the_committed_bytes():
    assert gzip.decompress(GOLDEN.read_bytes()).decode().splitlines() == generate()
