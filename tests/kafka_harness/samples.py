"""The records every client sends in the compatibility suite, and what they must come back as.

Each has a reason: null and empty are different things for keys, values and header values; header
names may repeat and keep their order; text outside ASCII is bytes like any other; a large value
makes a request that no read of a socket delivers whole.
"""

from __future__ import annotations

import random
import uuid
from typing import NamedTuple

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

PRODUCER_MODES = (*((codec, False) for codec in CODECS), ("none", True), ("zstd", True))
"""(codec, idempotent): idempotence lives in the batch header, which no codec touches, so its two
extremes stand for all."""

LARGE_SIZE = 900_000
"""Under `message.max.bytes` (1048588) and `max.request.size` (1 MiB) with all that is around it."""

Headers = tuple[tuple[str, bytes | None], ...]


class Sample(NamedTuple):
    """One record as a client sees it."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()


NOTHING = Sample(None, None)
NULL_HEADER = Sample(b"null header", b"v", (("null", None),))
"""These two are legal on the wire, though some clients refuse to send them."""

ORDINARY = (
    Sample(b"key", b"value"),
    Sample(None, b"no key"),
    Sample(b"tombstone", None),
    NOTHING,
    NULL_HEADER,
    Sample(b"", b""),
    Sample(b"headers", b"v", (("a", b"1"), ("a", b"2"), ("empty", b""))),
    Sample("clé".encode(), "værdi".encode(), (("überschrift", "größe".encode()),)),
    Sample(b"repetitive", b"moldau " * 2000),
)


def large() -> Sample:
    """Return a record that no codec can make small."""
    return Sample(b"large", random.Random(7).randbytes(LARGE_SIZE))


def samples(*refused: Sample) -> list[Sample]:
    """Return every record a client must bring through, but for those it refuses to send."""
    return [sample for sample in (*ORDINARY, large()) if sample not in refused]


def fresh_topic(about: str) -> str:
    """Return a topic name no other test uses."""
    return f"{about}-{uuid.uuid4().hex[:8]}"
