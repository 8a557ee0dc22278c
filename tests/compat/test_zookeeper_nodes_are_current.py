"""The committed nodes are those that Kafka encodes, so nobody has edited them by hand."""

from __future__ import annotations

import pytest
from tests.golden.zookeeper_nodes import NODES, generate

from kafka_harness.distribution import OLDEST, ZOOKEEPER_ERA


@pytest.mark.long
@pytest.mark.java(ZOOKEEPER_ERA, OLDEST)
def test_generating_again_gives_the_committed_nodes():
    assert NODES.read_text() == generate()
