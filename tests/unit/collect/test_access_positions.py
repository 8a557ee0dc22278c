"""Requests are counted from where those end whose samples were delivered: on a machine in memory.

Beats are ended and samples acknowledged by hand.
"""

from __future__ import annotations

import pytest

from kits.collect_kit import MemorySources, OnItsWay
from moldau.client.errors import NoBrokerReachable
from moldau.collect.complaints import Complaints
from moldau.collect.framing import Piece
from moldau.collect.metrics.access_logs import COMBINED, AccessSamples, access_pattern
from moldau.collect.metrics.collector import AccessLog
from moldau.collect.state import decode, encode

PATH = "/log/access.log"


class Counting:
    """Counts the requests of services, through as many lives as a test has."""

    def __init__(self, **patterns):
        self.sources = MemorySources()
        self.patterns = patterns or {"shop": PATH}
        self.said = []
        self.now = 1_000.0
        self.saved = None

    def start(self):
        saved = None if self.saved is None else decode(self.saved)
        self.logs = [
            AccessLog(
                [pattern],
                AccessSamples(service, access_pattern(COMBINED), 1_000_000),
                self.sources,
                Complaints(self.said.append),
                saved,
            )
            for service, pattern in self.patterns.items()
        ]
        self.read()

    def save(self):
        self.saved = encode([entry for log in self.logs for entry in log.entries()])

    def crash(self):
        for log in self.logs:
            log.gathering.close()
        self.start()

    def request(self, count, path=PATH):
        for _ in range(count):
            self.sources.write(path, b'"GET / HTTP/1.1" 200 1 "-" "-" 0.1\n')

    def read(self):
        self.now += 10.0
        for log in self.logs:
            while log.read(self.now, round(self.now * 1000)):
                pass

    def beat(self):
        """End a beat; return how many requests each service had in it, and the samples."""
        self.read()
        counts, sent = [], []
        for log in self.logs:
            samples = log.samples.take(1.0)
            counts.append(samples[0].value)
            sent += [OnItsWay(one.metric, Piece(b"", 0, 0)) for one in samples]
        for log in self.logs:
            log.end_beat(sent)
        return (*counts, sent)


def acknowledge(sent):
    for one in sent:
        one.settle()


@pytest.fixture
def counting():
    one = Counting()
    one.request(3)
    one.start()
    one.save()
    return one


def test_the_very_first_start_counts_from_the_end_and_later_ones_from_there(counting):
    counting.request(2)
    counting.crash()
    assert counting.beat()[0] == 2


def test_positions_pass_a_beat_only_when_all_its_samples_were_acknowledged(counting):
    counting.request(2)
    before = counting.saved
    count, sent = counting.beat()
    assert count == 2
    acknowledge(sent[1:])
    counting.save()
    assert counting.saved == before
    acknowledge(sent[:1])
    counting.save()
    assert counting.saved != before
    counting.crash()
    assert counting.beat()[0] == 0


def test_what_was_counted_and_not_sent_is_counted_again_by_the_next_run(counting):
    counting.request(2)
    acknowledge(counting.beat()[1])
    counting.request(4)
    counting.read()
    counting.save()
    counting.crash()
    assert counting.beat()[0] == 4


def test_a_beat_that_is_acknowledged_before_an_older_one_waits_for_it(counting):
    counting.request(1)
    counting.beat()
    counting.request(2)
    _, second = counting.beat()
    acknowledge(second)
    counting.save()
    counting.crash()
    assert counting.beat()[0] == 3


def test_requests_of_samples_that_failed_are_counted_again_by_the_same_run(counting):
    counting.request(2)
    _, sent = counting.beat()
    for one in sent:
        one.settle(NoBrokerReachable("away"))
    counting.save()
    assert counting.beat()[0] == 2
    assert ["not delivered, sending it again" in line for line in counting.said] == [True]


def test_a_log_that_was_rotated_away_is_kept_until_its_requests_were_acknowledged(counting):
    counting.request(2)
    counting.beat()
    counting.sources.rename(PATH, f"{PATH}.1")
    counting.request(1)
    for _ in range(10):
        counting.read()
    counting.save()
    counting.crash()
    assert counting.beat()[0] == 3


def test_services_that_share_a_log_have_each_their_own_position():
    counting = Counting(shop=PATH, all="/log/*.log")
    counting.request(1)
    counting.start()
    counting.save()
    counting.request(2)
    counting.request(5, "/log/other.log")
    counting.crash()
    shop, everything, sent = counting.beat()
    assert (shop, everything) == (2, 7)
    acknowledge(sent)
    counting.save()
    counting.crash()
    assert counting.beat()[:2] == (0, 0)


def test_a_service_that_is_new_is_counted_from_the_beginnings_of_its_logs(counting):
    counting.patterns["new"] = PATH
    counting.crash()
    assert counting.beat()[:2] == (0, 3)


def test_hours_without_brokers_take_one_span_a_beat(counting):
    for _ in range(3):
        for _ in range(20):
            counting.request(1)
            counting.read()
        counting.beat()
    (tail,) = counting.logs[0].gathering._roster.tails.values()
    assert [len(span.sent) for span in tail.progress._spans] == [1, 1, 1]
