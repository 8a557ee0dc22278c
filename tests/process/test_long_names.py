"""The longest names a client can send, to every API: an answer that a client can read, or none.

An answer that repeats a name in an error message must cut it: a string has 32,767 bytes at most.
"""

from __future__ import annotations

import logging

import pytest

from kits.filled_messages import filled, strings_in
from moldau.protocol.wire import TEXT_BYTES_MAX
from moldau.testing import TestBroker
from process.advertised import RULES, connected, first_and_last_versions

LONGEST = "x" * TEXT_BYTES_MAX


@pytest.fixture(scope="module")
def broker():
    with TestBroker(topics=["orders"], settings={"auto.create.topics.enable": False}) as broker:
        yield broker


def test_no_answer_repeats_more_than_a_string_can_hold(broker, caplog):
    refused = []
    for api, version in first_and_last_versions(broker):
        request = filled(api.request, version, LONGEST, 1)
        with connected(broker) as client, caplog.at_level(logging.INFO):
            try:
                response = client.call(request, version)
            except ConnectionResetError:
                refused.append(api.name)
                continue
        for text in strings_in(response):
            assert len(text.encode()) <= TEXT_BYTES_MAX, (api.name, version)
    assert not [record for record in caplog.records if record.exc_info]
    assert set(refused) <= {"Produce", *RULES}  # acks=0: closing is the only answer there is
