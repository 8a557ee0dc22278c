"""The rules of replication: what is committed, who is in sync, and what an answer changes.

Pure functions of what a leader knows (`leader_state`), an event and a time. Each is Kafka's rule,
and most were forced out by an accident or by the TLA+ specification of Kafka's replication:

1. On every epoch bump a follower finds its truncation point by leader epoch before it takes more
   (`truncation`).
2. Truncation is fenced: leader and follower are in the same epoch.
3. The high watermark moves only by what the ISR has acknowledged to this leader in this epoch.
4. Shrinking is safe. Expanding is not before the follower has all that earlier leaders wrote.
5. While an ISR change is pending, the high watermark counts both ISRs.

They run on every append and on every fetch of a follower, and make no object where nothing changes.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from moldau.base.ids import BrokerId
from moldau.protocol.errors import ErrorCode
from moldau.replication.followers import NO_BROKER_EPOCH, Follower
from moldau.replication.leader_state import IsrProposal, LeaderState
from moldau.replication.ports import LiveBrokers

# What is committed


def has_enough_in_sync(isr_count: int, replica_count: int, min_insync_replicas: int) -> bool:
    """Tell whether so many in-sync replicas are enough; all replicas are always enough."""
    return isr_count >= min_insync_replicas or isr_count >= replica_count


def next_high_watermark(
    state: LeaderState,
    high_watermark: int,
    log_end_offset: int,
    min_insync_replicas: int,
    live: LiveBrokers,
    max_lag_s: float,
) -> int:
    """Return the lowest end over all replicas that count, but never less than it was.

    It stands while the committed ISR is too small: too few in-sync replicas could lose what would
    be called committed, and those that have just left could not be elected (KAFKA-15583).
    """
    lowest = log_end_offset
    for follower in state.in_sync:
        if follower.end_offset < lowest:  # noqa: PLR1730 - a call for each follower of each append
            lowest = follower.end_offset
    if lowest <= high_watermark or not has_enough_in_sync(
        len(state.isr), state.replica_count, min_insync_replicas
    ):
        return high_watermark
    for follower in state.outside:
        if follower.end_offset < lowest and is_chasing(
            state, follower, log_end_offset, live, max_lag_s
        ):
            lowest = follower.end_offset
    return max(lowest, high_watermark)


def is_chasing(
    state: LeaderState,
    follower: Follower,
    log_end_offset: int,
    live: LiveBrokers,
    max_lag_s: float,
) -> bool:
    """Tell whether the high watermark waits for a replica outside of the ISR.

    It does for one that keeps up and may join. Else a leader that is alone in sync commits each
    batch at once, the high watermark is always ahead of the follower, and it never gets in.
    """
    if not follower.has_fetched:
        return False
    is_level = is_caught_up(follower, log_end_offset, state.now_s, max_lag_s)
    return is_level and is_eligible(follower, live)


def is_alone(state: LeaderState, log_end_offset: int, max_lag_s: float) -> bool:
    """Tell whether the high watermark waits for no other replica, and will not before one fetches.

    A replica outside of the ISR that lags does not hold back the high watermark until it fetches
    again: the log's end moves away from it, and time passes. Whether its broker may join is not
    asked: the partition is not notified when that changes.
    """
    return not state.in_sync and not any(
        one.has_fetched and is_caught_up(one, log_end_offset, state.now_s, max_lag_s)
        for one in state.outside
    )


def is_latest_offset_known(state: LeaderState, high_watermark: int) -> bool:
    """Tell whether a leader may say where its partition ends.

    A new leader's high watermark can lie below what an earlier one has told. It cannot once it has
    reached the start of the epoch (KIP-207).
    """
    return high_watermark >= state.epoch_start_offset


# Who is in sync


def is_caught_up(follower: Follower, log_end_offset: int, now_s: float, max_lag_s: float) -> bool:
    """Tell whether a follower has everything, or had it not too long ago."""
    return follower.end_offset == log_end_offset or now_s - follower.caught_up_s <= max_lag_s


def is_broker_current(broker_epoch: int, live: LiveBrokers, broker_id: BrokerId) -> bool:
    """Tell whether a fetch is from the broker that is registered now, and not from an earlier life.

    A broker that has restarted may have lost what it had when it fetched (KIP-903).
    """
    registered = live.broker_epoch(broker_id)
    return registered is not None and broker_epoch in (NO_BROKER_EPOCH, registered)


def is_outlived(broker_epoch: int, live: LiveBrokers, broker_id: BrokerId) -> bool:
    """Tell whether a fetch is surely from an earlier life of a broker; it is refused then."""
    registered = live.broker_epoch(broker_id)
    return registered is not None and NO_BROKER_EPOCH < broker_epoch < registered


def is_eligible(follower: Follower, live: LiveBrokers) -> bool:
    """Tell whether a follower's broker may be in the ISR (KIP-841, KIP-903)."""
    broker_id = follower.broker_id
    return live.is_eligible(broker_id) and is_broker_current(follower.broker_epoch, live, broker_id)


def has_reached_isr(state: LeaderState, follower: Follower, high_watermark: int) -> bool:
    """Tell whether a follower has everything that is committed.

    That is more than what lies below the high watermark. A new leader's may be behind the one of
    the leader before it, but never beyond the start of the epoch (KAFKA-7128).
    """
    return (
        follower.has_fetched
        and follower.end_offset >= high_watermark
        and follower.end_offset >= state.epoch_start_offset
    )


def expanded_isr(
    state: LeaderState, follower: Follower, high_watermark: int, live: LiveBrokers
) -> tuple[BrokerId, ...] | None:
    """Return the ISR to propose after a follower has fetched; None to leave it as it is."""
    if (
        state.pending is None
        and follower.broker_id not in state.isr
        and has_reached_isr(state, follower, high_watermark)
        and is_eligible(follower, live)
    ):
        return (*state.isr, follower.broker_id)
    return None


def shrunk_isr(
    state: LeaderState, log_end_offset: int, now_s: float, max_lag_s: float
) -> tuple[BrokerId, ...] | None:
    """Return the ISR without those that lag; None to leave it as it is."""
    if state.pending is not None:
        return None
    lagging = [
        one.broker_id
        for one in state.in_sync
        if not is_caught_up(one, log_end_offset, now_s, max_lag_s)
    ]
    if not lagging:
        return None
    return tuple(one for one in state.isr if one not in lagging)


# What the controller answers


class AnswerEffect(Enum):
    """What the answer to a proposal changes."""

    IGNORE = "ignore"
    """The metadata or a later proposal has replaced this one already."""
    COMMIT = "commit"
    """What the answer says is the committed ISR now."""
    REVERT = "revert"
    """The proposal was not committed, and will not be: the committed ISR counts again."""
    KEEP = "keep"
    """The controller knows of a change that this leader has not seen. It counts with both ISRs
    until the metadata tells."""
    RESEND = "resend"
    """Nobody knows whether it was committed."""


_EFFECTS: Final = {
    ErrorCode.NONE: AnswerEffect.COMMIT,
    ErrorCode.INELIGIBLE_REPLICA: AnswerEffect.REVERT,
    ErrorCode.OPERATION_NOT_ATTEMPTED: AnswerEffect.REVERT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: AnswerEffect.KEEP,
    ErrorCode.UNKNOWN_TOPIC_ID: AnswerEffect.KEEP,
    ErrorCode.FENCED_LEADER_EPOCH: AnswerEffect.KEEP,
    ErrorCode.INVALID_UPDATE_VERSION: AnswerEffect.KEEP,
    ErrorCode.INVALID_REQUEST: AnswerEffect.KEEP,
    ErrorCode.NEW_LEADER_ELECTED: AnswerEffect.KEEP,
}


def effect_of_answer(
    state: LeaderState,
    proposal: IsrProposal,
    error: ErrorCode,
    leader_epoch: int,
    partition_epoch: int,
) -> AnswerEffect:
    """Say what the controller's answer changes; the epochs are those of an answer without error."""
    if state.pending is not proposal:
        return AnswerEffect.IGNORE
    effect = _EFFECTS.get(error, AnswerEffect.RESEND)
    is_older = leader_epoch != state.leader_epoch or partition_epoch < state.partition_epoch
    return AnswerEffect.KEEP if effect is AnswerEffect.COMMIT and is_older else effect
