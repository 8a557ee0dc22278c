"""Placement follows the formula, keeps leaders even, spreads over racks, and is the same twice."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.cluster.placement import Site, place
from moldau.protocol.errors import ApiError, ErrorCode


def sites(*ids, racks=None, hosts=None):
    return [
        Site(broker_id, (racks or {}).get(broker_id), (hosts or {}).get(broker_id))
        for broker_id in ids
    ]


def test_three_partitions_of_two_replicas_on_three_brokers():
    assert place(sites(0, 1, 2), 3, 2, {}) == [(0, 1), (1, 2), (2, 0)]


def test_three_partitions_of_three_replicas_on_four_brokers():
    assert place(sites(0, 1, 2, 3), 3, 3, {}) == [(0, 1, 2), (1, 2, 3), (2, 3, 0)]


def test_brokers_are_sorted_before_anything_else():
    assert place(sites(9, 4, 7), 3, 2, {}) == [(4, 7), (7, 9), (9, 4)]


def test_a_factor_above_the_active_brokers_is_refused():
    with pytest.raises(ApiError) as refused:
        place(sites(0, 1), 1, 3, {})
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_no_active_broker_at_all_is_refused():
    with pytest.raises(ApiError) as refused:
        place([], 1, 1, {})
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_row_is_rotated_to_the_broker_that_leads_least():
    assert place(sites(0, 1, 2), 1, 2, {0: 5, 1: 5, 2: 1}) == [(2, 0)]
    assert place(sites(0, 1, 2), 2, 1, {0: 5, 1: 1, 2: 1}) == [(1,), (2,)]


def test_a_growing_topic_goes_on_where_the_formula_stopped():
    whole = place(sites(0, 1, 2), 6, 2, {})
    assert place(sites(0, 1, 2), 2, 2, {0: 2, 1: 1, 2: 1}, first_partition=4) == whole[4:6]


def test_leaders_stay_even_over_many_small_topics():
    leaders = Counter()
    for partitions in (1, 2, 1, 4, 5, 1, 2, 2, 3, 7, 1):
        for replicas in place(sites(*range(5)), partitions, 2, leaders):
            leaders[replicas[0]] += 1
    assert max(leaders.values()) - min(leaders.values()) <= 1


def test_replicas_lie_in_different_racks_while_there_are_enough():
    racks = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
    for replicas in place(sites(*range(6), racks=racks), 12, 3, {}):
        assert {racks[broker_id] for broker_id in replicas} == {"a", "b", "c"}


def test_more_replicas_than_racks_are_spread_evenly_over_them():
    racks = {0: "a", 1: "a", 2: "a", 3: "b", 4: "b"}
    for replicas in place(sites(*range(5), racks=racks), 10, 4, {}):
        assert Counter(racks[broker_id] for broker_id in replicas) == {"a": 2, "b": 2}


def test_leaders_are_even_over_brokers_also_with_racks():
    racks = {0: "a", 1: "a", 2: "a", 3: "b"}
    leaders = Counter(row[0] for row in place(sites(*range(4), racks=racks), 8, 2, {}))
    assert set(leaders.values()) == {2}


def test_replicas_lie_on_different_hosts_while_there_are_enough():
    hosts = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
    for replicas in place(sites(*range(6), hosts=hosts), 12, 3, {}):
        assert {hosts[broker_id] for broker_id in replicas} == {"a", "b", "c"}


def test_brokers_on_one_host_are_placed_on_as_if_hosts_were_unknown():
    hosts = dict.fromkeys(range(3), "127.0.0.1")
    assert place(sites(0, 1, 2, hosts=hosts), 3, 2, {}) == [(0, 1), (1, 2), (2, 0)]


def test_in_a_rack_replicas_lie_on_different_hosts():
    racks = {0: "x", 1: "x", 2: "x", 3: "x", 4: "y", 5: "y", 6: "y", 7: "y"}
    hosts = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c", 6: "d", 7: "d"}
    for replicas in place(sites(*range(8), racks=racks, hosts=hosts), 16, 4, {}):
        assert Counter(racks[broker_id] for broker_id in replicas) == {"x": 2, "y": 2}
        assert {hosts[broker_id] for broker_id in replicas} == {"a", "b", "c", "d"}


@settings(max_examples=150)
@given(
    st.sets(st.integers(0, 30), min_size=1, max_size=9),
    st.integers(1, 20),
    st.data(),
)
def test_every_placement_is_legal(ids, partitions, data):
    rack = st.sampled_from([None, "a", "b", "c"])
    chosen = [Site(broker_id, data.draw(rack), data.draw(rack)) for broker_id in sorted(ids)]
    factor = data.draw(st.integers(1, len(chosen)))
    leads = {site.broker_id: data.draw(st.integers(0, 4)) for site in chosen}
    rows = place(chosen, partitions, factor, leads)
    assert rows == place(list(reversed(chosen)), partitions, factor, leads)
    assert len(rows) == partitions
    for replicas in rows:
        assert len(set(replicas)) == factor
        assert set(replicas) <= ids
    leaders = Counter(row[0] for row in rows)
    assert max(leaders.values()) <= -(-partitions // len(chosen))
