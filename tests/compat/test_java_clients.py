"""The Java clients: today's, the last of the ZooKeeper age, and 1.1, the oldest Moldau serves.

One run of `tests/java/ClientRoundTrip.java` per version does everything; the tests look at what
it printed, so that a virtual machine starts three times and not thirty.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path

import pytest

from kafka_harness.broker import BrokerProcess
from kafka_harness.distribution import CURRENT, OLDEST, ZOOKEEPER_ERA
from kafka_harness.java import run_source
from kafka_harness.samples import PRODUCER_MODES, Sample, fresh_topic, samples
from kafka_harness.stored import assert_stored_as

pytestmark = pytest.mark.java(CURRENT, ZOOKEEPER_ERA, OLDEST)

SOURCE = Path(__file__).parents[1] / "java" / "ClientRoundTrip.java"
DIGEST_ABOVE = 1000


def modes_of(version: str) -> list[str]:
    """Return the producer modes a client has; zstd came with 2.1 (KIP-110)."""
    return [
        f"{codec}+idempotent" if idempotent else codec
        for codec, idempotent in PRODUCER_MODES
        if codec != "zstd" or version != OLDEST
    ]


@pytest.fixture(scope="session")
def runs() -> dict[str, dict[str, list[str]]]:
    """What each client printed; kept here because tests run in any order."""
    return {}


@pytest.fixture(
    params=[CURRENT, pytest.param(ZOOKEEPER_ERA, marks=pytest.mark.long), OLDEST],
)
def printed(request, broker: BrokerProcess, runs, tmp_path) -> dict[str, list[str]]:
    """Everything one client printed, by name."""
    version = request.param
    if version not in runs:
        runs[version] = run_client(version, broker, tmp_path / "samples.txt")
    return runs[version]


def run_client(version: str, broker: BrokerProcess, file: Path) -> dict[str, list[str]]:
    file.write_text("".join(f"{as_text(sample)}\n" for sample in samples()))
    prefix = fresh_topic(f"java-{version}")
    output = run_source(
        version, SOURCE, broker.address, prefix, file, *modes_of(version), timeout_s=120
    )
    results = defaultdict(list, {"version": [version], "prefix": [prefix]})
    for line in output.lines:
        name, _, result = line.partition("\t")
        results[name].append(result)
    return results


def as_text(sample: Sample, *, digest: bool = False) -> str:
    """Write a record the way the Java side reads it, or prints it with long values digested."""
    value = hexed(sample.value)
    if digest and sample.value is not None and len(sample.value) > DIGEST_ABOVE:
        value = f"sha256:{hashlib.sha256(sample.value).hexdigest()}"
    headers = ",".join(f"{name.encode().hex()}={hexed(text)}" for name, text in sample.headers)
    return f"{hexed(sample.key)}|{value}|{headers}"


def hexed(raw: bytes | None) -> str:
    return "-" if raw is None else raw.hex()


def test_every_kind_of_record_comes_back_as_it_was_sent(printed):
    sent = samples()
    offsets = [str(offset) for offset in range(len(sent))]
    expected = [f"{o} {as_text(s, digest=True)}" for o, s in zip(offsets, sent, strict=True)]
    for mode in modes_of(printed["version"][0]):
        assert printed[f"{mode}.offsets"] == [" ".join(offsets)], mode
        assert printed[f"{mode}.record"] == expected, mode


def test_every_mode_reaches_the_disk(printed, broker):
    (prefix,) = printed["prefix"]
    for mode in modes_of(printed["version"][0]):
        codec, _, idempotent = mode.partition("+")
        folder = broker.data / f"{prefix}-{mode.replace('+', '-')}-0"
        assert_stored_as(folder, codec, idempotent=bool(idempotent))


def test_offsets_are_found_by_time(printed):
    assert printed["time"] == ["0 0@1000", "1000 0@1000", "1001 1@2000", "3000 2@3000", "3001 none"]


def test_deleted_records_are_gone_and_the_rest_stays(printed):
    assert printed["trim"] == ["4 10"]
    assert printed["trim.left"] == ["4 5 6 7 8 9"]


def test_a_deleted_topic_is_gone(printed):
    assert printed["deleted"] == ["yes"]
