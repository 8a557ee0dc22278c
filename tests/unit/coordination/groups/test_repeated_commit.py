"""What a repeated commit writes is what a commit writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kits.group_shard_kit import TOPIC_ID, commit_request
from moldau.coordination.groups.offset_requests import OffsetCommits
from moldau.coordination.groups.records import CURRENT_FORM
from moldau.coordination.groups.repeated_commit import RepeatedCommit
from moldau.coordination.outcome import Now
from moldau.records.batch import CHECKED_POSITION
from moldau.records.builder import BatchBuilder

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=150)


@given(
    group=NAMES,
    topic=NAMES,
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(-(2**63), 2**63 - 1),
    leader_epoch=st.integers(-(2**31), 2**31 - 1),
    wall_ms=st.integers(0, 2**62),
)
def test_its_batch_is_that_of_a_commit(group, topic, partition, offset, leader_epoch, wall_ms):
    request = commit_request(offset, group=group, topic=topic, partition=partition)
    request.topics[0].topic_id = TOPIC_ID
    request.topics[0].partitions[0].committed_leader_epoch = leader_epoch
    ((key, value),), _ = OffsetCommits(CURRENT_FORM, 4096).plain(request, Now(wall_ms, 0.0))
    builder = BatchBuilder()
    builder.append(wall_ms, key, value)
    repeated = RepeatedCommit(request, topic, TOPIC_ID, partition)
    for again in (offset, 5, offset):
        sealed = repeated.sealed(again, leader_epoch, wall_ms)
    assert sealed == (builder.build()[CHECKED_POSITION:], value)
