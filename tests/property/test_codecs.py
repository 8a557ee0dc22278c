"""Every declared message in every version: what is encoded decodes to the same, and nothing less.

Each example is one instance with all fields of all versions filled; it is then taken through every
version of its message.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kits.message_samples import declared_messages, fitted, random_message, reset
from moldau.base.errors import ProtocolError
from moldau.protocol.compiler import decode, decoder, encode, encoder
from moldau.protocol.wire import parts_size

MESSAGES = declared_messages()
EXAMPLES = 4
CUTS = 8
"""Truncations tried per encoding; longer ones are cut at even distances."""


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32 - 1))
def test_every_version_survives_encoding_and_refuses_truncation(cls, seed):
    instance = random_message(cls, random.Random(seed))
    for version in cls.VERSIONS:
        value = fitted(instance, version)
        encoded = encode(value, version)
        assert decode(cls, version, encoded) == reset(value, version)
        assert decoder(cls, version)(memoryview(b"?" + encoded + b"?"), 1)[1] == len(encoded) + 1
        assert parts_size(encoder(cls, version)(value)) == len(encoded)
        refuses_truncation(cls, version, encoded)


def refuses_truncation(cls, version, encoded):
    view = memoryview(encoded)
    for size in {len(view) * cut // CUTS for cut in range(CUTS)} - {len(view)}:
        with pytest.raises(ProtocolError):
            decoder(cls, version)(view[:size], 0)


def test_there_are_messages_to_try():
    assert sum(1 for cls in MESSAGES for _ in cls.VERSIONS) > 700
