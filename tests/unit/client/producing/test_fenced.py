"""A producer whose transactional id another one has taken is told so, whatever it does next."""

from __future__ import annotations

import pytest

from moldau import Producer
from moldau.client.errors import ProducerFenced
from moldau.testing import TestBroker

WAIT_S = 20
OLD = {0: 11, 24: 3, 26: 4, 28: 3}
"""What clients spoke before KIP-890."""


@pytest.fixture(scope="module")
def broker():
    with TestBroker(topics=["t"]) as started:
        yield started


def in_block(producer):
    with producer.transaction():
        producer.send("t", b"v")


def sent(producer):
    producer.send("t", b"v").result(WAIT_S)


STEPS = {
    "send": [sent, sent, Producer.commit_transaction],
    "send and commit": [sent, Producer.commit_transaction, Producer.abort_transaction],
    "commit": [Producer.commit_transaction, Producer.begin_transaction],
    "abort": [Producer.abort_transaction, in_block],
}


@pytest.mark.parametrize("ceilings", [{}, OLD], ids=["today", "before KIP-890"])
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS.keys())
def test_every_call_raises_it(broker, steps, ceilings):
    settings = {"transactional_id": "shop", "version_ceilings": ceilings, "linger_ms": 0}
    with Producer(broker.bootstrap_servers, **settings) as producer:
        producer.begin_transaction()
        sent(producer)
        with Producer(broker.bootstrap_servers, **settings):
            for step in steps:
                with pytest.raises(ProducerFenced):
                    step(producer)


def test_a_block_raises_it(broker):
    settings = {"transactional_id": "shop", "linger_ms": 0}

    def block(producer):
        with producer.transaction():
            sent(producer)
            with Producer(broker.bootstrap_servers, **settings):
                producer.send("t", b"v")
                producer.flush(WAIT_S)

    with Producer(broker.bootstrap_servers, **settings) as producer:
        for attempt in (block, in_block):
            with pytest.raises(ProducerFenced):
                attempt(producer)
