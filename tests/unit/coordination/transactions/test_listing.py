"""What is listed is what the filters let through, as Kafka's coordinator reads them."""

from __future__ import annotations

import pytest

from kits.slicing import count_pauses, finished
from kits.transaction_kit import ORDERS_0, Desk
from moldau.coordination.transactions.listing import Listing
from moldau.protocol.errors import ApiError, ErrorCode


@pytest.fixture
def desk():
    """Ids in three states; `old` has been in a transaction for a minute."""
    desk = Desk()
    desk.add(desk.init("old", fresh=1), ORDERS_0, transactional_id="old")
    desk.now_ms += 60_000
    desk.add(desk.init("new", fresh=2), ORDERS_0, transactional_id="new")
    desk.init("idle", fresh=3)
    return desk


def names(desk, *, states=(), producer_ids=(), duration_ms=-1, pattern=None):
    listing = finished(Listing.read(states, producer_ids, duration_ms, pattern))
    shown = desk.ask(desk.shard.all_transactions).answer
    assert shown.error is ErrorCode.NONE
    return [
        one.transactional_id for one in shown.transactions if listing.includes(one, desk.now_ms)
    ]


def test_without_filters_everything_is_listed(desk):
    assert names(desk) == ["old", "new", "idle"]
    assert names(desk, pattern="") == ["old", "new", "idle"]


def test_states_and_producer_ids_are_alternatives_and_both_must_fit(desk):
    assert names(desk, states=["Ongoing"]) == ["old", "new"]
    assert names(desk, states=["Ongoing", "Empty"]) == ["old", "new", "idle"]
    assert names(desk, producer_ids=[2, 3, 99]) == ["new", "idle"]
    assert names(desk, states=["Ongoing"], producer_ids=[2, 3]) == ["new"]


def test_an_unknown_state_is_reported_and_fits_nothing(desk):
    assert names(desk, states=["ongoing"]) == []
    listing = finished(Listing.read(["Ongoing", "lost", "lost"], (), -1, None))
    assert list(listing.unknown_states) == ["lost"]


def test_a_duration_lists_what_began_longer_ago(desk):
    assert names(desk, duration_ms=59_999) == ["old", "idle"]
    assert names(desk, duration_ms=60_000) == ["idle"]
    assert names(desk, duration_ms=0, states=["Ongoing"]) == ["old"]


def test_a_pattern_describes_the_whole_id(desk):
    assert names(desk, pattern="o.*|n.w") == ["old", "new"]
    assert names(desk, pattern="l") == []


def test_a_pattern_that_is_none_is_refused():
    with pytest.raises(ApiError) as refused:
        finished(Listing.read((), (), -1, "("))
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_many_filters_are_read_some_at_a_time():
    states, producer_ids = [f"state {number}" for number in range(2_560)], range(2_560)
    assert count_pauses(Listing.read(states, producer_ids, -1, None)) == 20
