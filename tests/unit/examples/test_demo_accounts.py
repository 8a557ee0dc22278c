"""The demonstration's accounts: what they call right, and how they say it."""

from __future__ import annotations

import re

from examples.demo.accounts import Account, number_told
from examples.demo.figures import Rates


def test_an_account_in_which_every_record_is_filed_once_is_right():
    account = Account("t", 1010, 1010, {"events": 1000, "late": 7, "dead": 3})
    assert not account.is_wrong
    assert str(account) == "t: 1,010 sent = 1,010 in the topic = 1,000 events + 7 late + 3 dead"


def test_records_that_were_not_read_are_told_and_make_an_account_wrong():
    account = Account("t", 10, 10, {"events": 4})
    assert account.is_wrong
    assert str(account).endswith("= 4 events + 6 unread")


def test_a_record_that_is_lost_or_there_twice_makes_an_account_wrong():
    assert Account("t", 10, 9, {"events": 9}).is_wrong
    assert Account("t", 10, 11, {"events": 11}).is_wrong
    assert Account("t", 10, 10, {"events": 11}).is_wrong
    assert Account("t", 10, 9, None).is_wrong
    assert not Account("t", 10, 10, None).is_wrong


def test_the_last_number_that_was_told_counts():
    lines = ["moldau: 3 events sent", "moldau: 1,234,567 events sent", ""]
    assert number_told(lines, re.compile(r"([\d,]+) events sent")) == 1_234_567
    assert number_told(["killed"], re.compile(r"([\d,]+) events sent")) is None


def test_rates_are_taken_over_the_last_seconds_only():
    rates = Rates()
    assert rates.of(0.0, {"a": 0}) == {"a": 0.0}
    assert rates.of(2.0, {"a": 100}) == {"a": 50.0}
    for second in range(3, 10):
        last = rates.of(float(second), {"a": 100})
    assert last == {"a": 0.0}
