"""What is measured: rates from counters, processes that matter, requests of access logs."""

from __future__ import annotations

import json
import math
import random
import re
from itertools import pairwise

import pytest

from moldau.base.errors import UserError
from moldau.collect.metrics.access_logs import (
    COMBINED,
    UNITS_US,
    AccessSamples,
    access_pattern,
)
from moldau.collect.metrics.buckets import BOUNDS_US, TimeBuckets
from moldau.collect.metrics.host import HostSamples, ProcessSamples
from moldau.collect.metrics.rates import Rates
from moldau.collect.metrics.readings import HostReading, ProcessReading
from moldau.collect.metrics.samples import Distribution, Sample, encode
from moldau.spark.pipelines.metrics.deviation import Sense
from moldau.spark.pipelines.metrics.series import COUNT, HISTOGRAM, windows_of
from moldau.spark.pipelines.metrics.series import Sample as PipelineSample
from moldau.spark.pipelines.metrics.statistics import Bucket, histogram_percentile, merged

# Rates


def test_a_rate_is_what_happened_per_second_since_the_last_look():
    rates = Rates()
    assert rates.observe(10.0, {"a": 100, "b": 5}) == {}
    assert rates.observe(14.0, {"a": 180, "b": 5}) == {"a": 20.0, "b": 0.0}


def test_a_counter_that_is_new_or_went_back_has_no_rate_yet():
    rates = Rates()
    rates.observe(0.0, {"a": 100, "gone": 1})
    assert rates.observe(1.0, {"a": 3, "new": 7}) == {}
    assert rates.observe(2.0, {"a": 4, "new": 9}) == {"a": 1.0, "new": 2.0}


def test_no_time_means_no_rate():
    rates = Rates()
    rates.observe(1.0, {"a": 1})
    assert rates.observe(1.0, {"a": 2}) == {}


# The host


def reading(**changed):
    usual = {
        "cpu_s": {"user": 10.0, "system": 5.0, "idle": 80.0, "iowait": 5.0},
        "load": 0.5,
        "memory_size": 1000,
        "memory_available_size": 400,
        "swap_used_size": 7,
        "disks": {"sda": {"read_bytes": 100, "write_bytes": 200, "busy_s": 1.0}},
        "networks": {"eth0": {"bytes_recv": 10, "errors": 0}},
    }
    return HostReading(**{**usual, **changed})


def values(samples):
    return {(one.metric, one.target): (one.value, one.unit) for one in samples}


def test_a_host_is_measured_in_shares_of_its_cores_levels_and_rates_of_its_devices():
    host = HostSamples()
    first = values(host.observe(0.0, reading()))
    assert first == {
        ("load.1m", None): (0.5, "processes"),
        ("memory.total", None): (1000, "bytes"),
        ("memory.used", None): (600, "bytes"),
        ("memory.available", None): (400, "bytes"),
        ("swap.used", None): (7, "bytes"),
    }
    later = reading(
        cpu_s={"user": 13.0, "system": 6.0, "idle": 84.0, "iowait": 7.0},
        disks={"sda": {"read_bytes": 600, "write_bytes": 200, "busy_s": 3.5}},
        networks={"eth0": {"bytes_recv": 1010, "errors": 5}, "new": {"bytes_recv": 1}},
    )
    second = values(host.observe(5.0, later))
    assert second[("cpu.used", None)] == (pytest.approx(0.4), "ratio")
    assert second[("cpu.user", None)] == (pytest.approx(0.3), "ratio")
    assert second[("cpu.iowait", None)] == (pytest.approx(0.2), "ratio")
    assert second[("disk.read", "sda")] == (100.0, "bytes/s")
    assert second[("disk.busy", "sda")] == (0.5, "ratio")
    assert second[("network.received", "eth0")] == (200.0, "bytes/s")
    assert second[("network.errors", "eth0")] == (1.0, "1/s")
    assert ("network.received", "new") not in second


# Processes


def process(pid, name, cpu_s, memory_size=10, started_s=1.0):
    return ProcessReading(pid, started_s, name, cpu_s, memory_size, 2)


def test_those_processes_are_told_that_take_most():
    samples = ProcessSamples(1)
    samples.observe(0.0, [process(1, "a", 0), process(2, "b", 0, 99), process(3, "c", 0)])
    told = samples.observe(
        2.0, [process(1, "a", 1.0), process(2, "b", 0.1, 99), process(3, "c", 0.2)]
    )
    assert {one.service for one in told} == {"a", "b"}
    assert Sample("a", "process.cpu", 0.5, "cores", "1") in told
    assert Sample("b", "process.memory", 99, "bytes", "2") in told
    assert Sample("b", "process.threads", 2, "count", "2") in told


def test_processes_may_be_named_and_one_that_got_an_old_id_is_another():
    samples = ProcessSamples(0, [re.compile("^ng")])
    samples.observe(0.0, [process(1, "nginx", 50.0), process(2, "bash", 1.0)])
    told = samples.observe(1.0, [process(1, "nginx", 60.0, started_s=9.0), process(2, "bash", 2.0)])
    assert {one.metric for one in told} == {"process.memory", "process.threads"}
    assert {one.service for one in told} == {"nginx"}


# Access logs

NGINX = (
    b'10.0.0.1 - anna [15/Nov/2026:12:00:00 +0000] "GET /plums?q=\\x22a\\x22 HTTP/1.1" 200 612'
    b' "http://shop/" "Mozilla/5.0 (X11)" %s'
)
APACHE = (
    b'10.0.0.1 - - [15/Nov/2026:12:00:00 +0000] "GET /a\\"b HTTP/1.1" 503 - "-" "curl" 2500 more'
)
COMMON = b'::1 - - [15/Nov/2026:12:00:00 +0000] "-" 400 0'


def access(unit="s", pattern=COMBINED):
    return AccessSamples("shop", access_pattern(pattern), UNITS_US[unit])


def test_requests_are_counted_by_how_they_ended_and_how_long_they_took():
    log = access()
    for number in range(1, 101):
        log.add(NGINX % (b"%.3f" % (number / 1000)))
    log.add(COMMON)
    log.add(b"nonsense")
    told = values(log.take(10.0))
    assert told[("http.requests", None)] == (101, "count")
    assert told[("http.rate", None)] == (10.1, "1/s")
    assert told[("http.errors", None)] == (0, "count")
    assert told[("http.responses", "2xx")] == (100, "count")
    assert told[("http.responses", "4xx")] == (1, "count")
    for name, value in (("mean", 0.0505), ("p50", 0.05), ("p95", 0.095), ("p99", 0.099)):
        assert told[(f"http.time.{name}", None)] == (pytest.approx(value, rel=0.01), "seconds")
    assert told[("http.time.max", None)] == (pytest.approx(0.1, rel=0.01), "seconds")
    assert told[("http.unreadable", None)] == (1, "count")


def test_times_may_be_given_in_microseconds():
    log = access("us")
    log.add(APACHE)
    told = values(log.take(1.0))
    assert told[("http.errors", None)] == (1, "count")
    assert told[("http.time.max", None)] == (0.0025, "seconds")


def test_an_interval_without_requests_says_so_and_has_no_times():
    log = access()
    assert set(values(log.take(1.0))) == {
        ("http.requests", None), ("http.rate", None), ("http.errors", None),
    }  # fmt: skip
    log.add(APACHE)
    log.add(b"nonsense")
    log.take(1.0)
    for _ in range(2):
        told = values(log.take(1.0))
        assert told == {
            ("http.requests", None): (0, "count"),
            ("http.rate", None): (0, "1/s"),
            ("http.errors", None): (0, "count"),
            ("http.responses", "5xx"): (0, "count"),
            ("http.time", None): (Distribution([(0.001, 0)], 0.0), "seconds"),
            ("http.unreadable", None): (0, "count"),
        }


def test_rates_of_a_window_are_the_same_of_requests_of_their_classes_and_of_their_times():
    """Most intervals of a service that is seldom asked hold nothing."""
    log = access()
    log.add(NGINX % b"0.200")
    log.take(10.0)
    found = {}
    for beat in range(6):
        if beat == 3:
            log.add(NGINX % b"0.200")
        for one in log.take(10.0):
            found.setdefault(one.metric, []).append((beat, one.value))
    rates = {
        metric: windows_of(kind, [_read(*one) for one in found[metric]], None, 60_000, Sense())
        for metric, kind in (
            ("http.requests", COUNT), ("http.responses", COUNT), ("http.time", HISTOGRAM)
        )
    }  # fmt: skip
    for (window,), _ in rates.values():
        assert window.figures.rate == pytest.approx(1 / 60)
    ((window,), _) = rates["http.time"]
    assert window.figures[:4] == (1, None, None, pytest.approx(0.2))
    assert 0.18 <= window.figures.p50 <= 0.2


def _read(beat, value):
    """Return a sample as the pipeline reads it."""
    time_us = beat * 10_000_000
    if isinstance(value, Distribution):
        buckets = [Bucket(*pair) for pair in value.buckets]
        return PipelineSample(time_us, 0.0, 10.0, "seconds", buckets, value.total)
    return PipelineSample(time_us, value, 10.0, "count")


def test_a_pattern_of_the_users_own_finds_status_and_time():
    log = access("ms", r"status=(?P<status>\d+) took=(?P<time>\S+)")
    log.add(b"status=200 took=7")
    log.add(b"status=200 took=long")
    log.add(b"status=200 took=1e999")
    told = values(log.take(1.0))
    assert told[("http.time.max", None)] == (0.007, "seconds")
    assert told[("http.unreadable", None)] == (2, "count")


def test_a_line_without_a_status_is_counted_as_unreadable():
    log = access("ms", r"(?:(?P<status>\d{3})|-) (?P<time>\S+)")
    log.add(b"- 12")
    told = values(log.take(1.0))
    assert told[("http.requests", None)] == (0, "count")
    assert told[("http.unreadable", None)] == (1, "count")


@pytest.mark.parametrize("pattern", ["(", "nothing", r"(?P<status>\d+)"])
def test_a_pattern_without_status_and_time_is_refused(pattern):
    with pytest.raises(UserError):
        access_pattern(pattern)


def test_a_line_made_to_be_slow_is_not():
    pattern = access_pattern(COMBINED)
    assert pattern.search(b'"' * 65_000) is None
    assert pattern.search(b'"' + b"\\" * 65_000) is None
    assert pattern.search(b'\\"' * 32_000) is None
    assert pattern.search(b'"' + b'\\"' * 32_000) is None


# How times are spread


def spread(*times_us):
    buckets = TimeBuckets()
    for time_us in times_us:
        buckets.add(time_us)
    return buckets.distribution()


def test_bounds_are_a_seventh_apart_at_most():
    assert (BOUNDS_US[0], BOUNDS_US[-1]) == (1_000, 1_000_000_000)
    assert all(low < high <= low * 8 / 7 for low, high in pairwise(BOUNDS_US))


def test_a_bucket_holds_what_does_not_exceed_its_bound_and_begins_at_one_that_is_told():
    told = spread(100_000, 100_001, 112_000, 500_000)
    assert told.buckets == [(0.09, 0), (0.1, 1), (0.112, 2), (0.45, 0), (0.5, 1)]
    assert told.total == pytest.approx(0.812001)


def test_times_below_and_beyond_all_bounds_have_their_buckets():
    assert spread(0, 1_000).buckets == [(0.001, 2)]
    assert spread(10**9 + 1).buckets == [(1_000.0, 0), (None, 1)]
    assert histogram_percentile(pipeline_buckets(spread(10**9 + 1)), 0.5) == 1_000.0


def pipeline_buckets(*told):
    """Read samples as the pipeline does, and add them up as it does."""
    values = [encode(Sample("s", "http.time", one, "seconds"), "h", 0, 1.0) for one in told]
    return merged([Bucket(*pair) for pair in json.loads(value)["buckets"]] for value in values)


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_of_several_intervals_are_within_a_seventh_of_those_of_all_requests(seed):
    chance = random.Random(seed)
    quick = [round(chance.lognormvariate(10, 0.5)) for _ in range(900)]
    slow = [round(chance.lognormvariate(15, 1.5)) for _ in range(100)]
    ordered = sorted(max(time_us, 1_000) for time_us in quick + slow)
    buckets = pipeline_buckets(spread(*quick), spread(*slow))
    for share in (0.5, 0.95, 0.99):
        exact_s = ordered[math.ceil(share * len(ordered)) - 1] / 1e6
        assert histogram_percentile(buckets, share) == pytest.approx(exact_s, rel=1 / 7)


def test_a_service_tells_how_its_times_are_spread_interval_by_interval():
    log = access()
    log.add(NGINX % b"0.200")
    log.add(COMMON)
    (told,) = (one for one in log.take(10.0) if one.metric == "http.time")
    assert told == Sample("shop", "http.time", Distribution([(0.18, 0), (0.2, 1)], 0.2), "seconds")
    log.add(NGINX % b"0.001")
    (told,) = (one for one in log.take(10.0) if one.metric == "http.time")
    assert told.value == Distribution([(0.001, 1)], 0.001)


# Samples


def test_a_distribution_has_no_value_and_some_fields_more():
    sample = Sample("shop", "http.time", Distribution([(0.1, 2), (None, 1)], 7.5), "seconds")
    told = json.loads(encode(sample, "web-1", 0, 10.0))
    usual = json.loads(encode(Sample("shop", "http.rate", 1, "1/s"), "web-1", 0, 10.0))
    assert list(told) == [*usual, "kind", "buckets", "sum"]
    assert (told["value"], told["kind"]) == (None, "histogram")
    assert (told["buckets"], told["sum"]) == ([[0.1, 2], [None, 1]], 7.5)


def test_a_sample_is_one_flat_object_with_the_same_fields_always():
    value = encode(Sample("host", "cpu.used", 0.25, "ratio"), "web-1", 1_763_208_000_123, 10.0)
    assert json.loads(value) == {
        "time": "2025-11-15T12:00:00.123Z",
        "host": "web-1",
        "service": "host",
        "metric": "cpu.used",
        "target": None,
        "value": 0.25,
        "unit": "ratio",
        "interval_s": 10.0,
    }
