"""Clients as objects: what `repr` says of them, and that nothing copies them."""

from __future__ import annotations

import copy
import pickle

import pytest

from kits.faulty_log import Fault, FaultyLog
from kits.leaks import run_without_leaks
from moldau import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer
from moldau.errors import InvalidState

KINDS = [Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_client_is_not_copied(kind, clone):
    """A copy would send, poll and close with the parts of the one it was made from."""
    with pytest.raises(InvalidState, match="cannot be copied or pickled"):
        clone(kind("h:1", client_id="c"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_says_who_it_is(kind):
    assert repr(kind("h:1", client_id="c")) == f"<{kind.__name__} c of h:1>"


def test_a_delivery_says_where_it_goes_and_whether_it_is_there():
    async def scenario():
        async with (
            FaultyLog(1, lambda: Fault.NONE) as broker,
            AsyncProducer(broker.address) as producer,
        ):
            delivery = producer.send("t", b"v")
            assert repr(delivery) == "<AsyncDelivery to t, pending>"
            await delivery
            assert repr(delivery) == "<AsyncDelivery to t, done>"

    run_without_leaks(scenario())
