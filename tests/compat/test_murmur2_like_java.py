"""Our hash of keys against Kafka's own class, on thousands of keys."""

from __future__ import annotations

import base64
import random
from pathlib import Path

import pytest

from kafka_harness.distribution import CURRENT
from kafka_harness.java import run_source
from moldau.engine.murmur2 import murmur2

SOURCE = Path(__file__).parents[1] / "java" / "Murmur2Oracle.java"


def keys() -> list[bytes]:
    draw = random.Random(20)
    short = [bytes([first]) for first in range(256)]
    texts = [f"user-{number}".encode() for number in range(2000)]
    return [b"", *short, *texts, *(draw.randbytes(draw.randrange(200)) for _ in range(4000))]


@pytest.mark.java
def test_murmur2_is_java_s_for_thousands_of_keys():
    asked = keys()
    lines = "\n".join(base64.b64encode(key).decode() for key in asked)
    answers = run_source(CURRENT, SOURCE, stdin=lines + "\n").lines
    ours = [hashed - (1 << 32) if hashed >> 31 else hashed for hashed in map(murmur2, asked)]
    assert ours == [int(line) for line in answers]
