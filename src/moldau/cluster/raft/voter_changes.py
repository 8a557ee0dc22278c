"""Voters are added, removed and updated, one at a time (KIP-853).

Two sets that differ by one voter have a majority in common. So the set of a record can count from
the moment it is in the log, as long as the one before it is committed. It has to be committed in
the leader's own epoch, too: otherwise two leaders, each with a change that the other has not seen,
could both find a majority.

The voters of the settings are known by their ids alone (kraft.version 0). Before the log names them
each tells its leader its directory and what it supports. They stay the same voters, and only get
their keys.
"""

from __future__ import annotations

from moldau.base.ids import Offset
from moldau.cluster.raft import leading
from moldau.cluster.raft.effects import Answer
from moldau.cluster.raft.life import Life
from moldau.cluster.raft.requests import (
    AddVoterRequest,
    RaiseKraftVersionRequest,
    RemoveVoterRequest,
    Token,
    UpdateVoterRequest,
    VoterChangeAnswer,
    VoterChangeRequest,
    VotersChange,
)
from moldau.cluster.raft.states import Leader, PendingVoterChange
from moldau.cluster.raft.transitions import refuse
from moldau.cluster.raft.voters import (
    KRAFT_VERSION,
    VOTERS_BYTES_MAX,
    NodeId,
    Voter,
    VoterSet,
)
from moldau.protocol.errors import ErrorCode


def voter_change_wanted(
    life: Life, token: Token, request: VoterChangeRequest | RaiseKraftVersionRequest
) -> None:
    """Append another voter set, or say why not."""
    state = life.state
    epoch = request.epoch if isinstance(request, UpdateVoterRequest) else life.epoch
    error = leading.problem(life, epoch)
    if error is not ErrorCode.NONE or not isinstance(state, Leader):
        refuse(life, token, request, error)
        return
    wanted = _changed(life, state, request)
    if isinstance(wanted, ErrorCode):
        refuse(life, token, request, wanted)
        return
    if wanted == life.voters:
        life.emit(Answer(token, VoterChangeAnswer(ErrorCode.NONE, life.epoch, life.leader)))
        return
    if wanted.bytes_max > VOTERS_BYTES_MAX:  # nobody could read the record, this leader included
        refuse(life, token, request, ErrorCode.INVALID_REQUEST)
        return
    change = VotersChange(wanted, states_version=not life.voter_history.is_dynamic)
    offset = Offset(life.log.end_offset + change.record_count - 1)
    _rename(life, state, wanted)
    life.voter_history.append(offset, wanted)
    leading.append(life, state, change, change.record_count)
    if isinstance(request, UpdateVoterRequest) or (
        isinstance(request, AddVoterRequest) and not request.ack_when_committed
    ):
        # Who asks may be needed for the commit, and fetches no more until it is answered.
        life.emit(Answer(token, VoterChangeAnswer(ErrorCode.NONE, life.epoch, life.leader)))
    else:
        state.change = PendingVoterChange(token, request, offset)


def _rename(life: Life, state: Leader, wanted: VoterSet) -> None:
    """Know voters by the keys that they get; those of the settings have had none."""
    for voter in wanted.voters:
        old = life.voters.find(voter.key)
        if old is not None and old.key in state.replicas:
            state.replicas[voter.key] = state.replicas.pop(old.key)


def _changed(
    life: Life, state: Leader, request: VoterChangeRequest | RaiseKraftVersionRequest
) -> VoterSet | ErrorCode:
    """Return the set that is asked for, or the error that says why there is none."""
    if not life.voter_history.is_dynamic:
        return _of_settings(life, state, request)
    if isinstance(request, RaiseKraftVersionRequest):
        return life.voters
    if not may_change(life, state):
        return ErrorCode.REQUEST_TIMED_OUT
    match request:
        case AddVoterRequest():
            return _added(life, state, request.voter)
        case RemoveVoterRequest():
            return _removed(life, request)
        case _:
            return _updated(life, request.voter)


def _of_settings(
    life: Life, state: Leader, request: VoterChangeRequest | RaiseKraftVersionRequest
) -> VoterSet | ErrorCode:
    """Do what can be done with voters of the settings: hear of them, and name them in the log."""
    if isinstance(request, UpdateVoterRequest):
        if life.voters.find(request.voter.key) is None:
            return ErrorCode.VOTER_NOT_FOUND
        state.told[request.voter.key.node] = request.voter
        return life.voters
    if not isinstance(request, RaiseKraftVersionRequest):
        return ErrorCode.UNSUPPORTED_VERSION
    if not may_change(life, state):
        return ErrorCode.REQUEST_TIMED_OUT
    if unready_voters(life, state):
        return ErrorCode.INVALID_UPDATE_VERSION
    told = {**state.told, life.me.node: life.own}
    return VoterSet(tuple(told[key.node] for key in life.voters.keys))


def unready_voters(life: Life, state: Leader) -> tuple[NodeId, ...]:
    """Name the voters of which this leader does not know that they can be named in the log."""
    others = (key.node for key in life.voters.others(life.me))
    return tuple(
        node for node in others if node not in state.told or not _is_supporting(state.told[node])
    )


def may_change(life: Life, state: Leader) -> bool:
    """Tell whether the set in force is committed, and with it something of this epoch."""
    committed = life.high_watermark
    return committed > state.epoch_start and committed > life.voter_history.newest.offset


def _added(life: Life, state: Leader, voter: Voter) -> VoterSet | ErrorCode:
    if life.voters.has_node(voter.key.node):
        return ErrorCode.DUPLICATE_VOTER
    if not _is_supporting(voter):
        return ErrorCode.INVALID_REQUEST
    # A voter that lags would count from now on, and nothing could be committed until it is level.
    progress = state.replicas.get(voter.key)
    if progress is None or life.now_s - progress.caught_up_s > life.timeouts.caught_up_s:
        return ErrorCode.REQUEST_TIMED_OUT
    return life.voters.with_voter(voter)


def _removed(life: Life, request: RemoveVoterRequest) -> VoterSet | ErrorCode:
    if request.voter not in life.voters.keys:
        return ErrorCode.VOTER_NOT_FOUND
    remaining = life.voters.without(request.voter)
    return remaining if len(remaining) else ErrorCode.INVALID_REQUEST


def _updated(life: Life, voter: Voter) -> VoterSet | ErrorCode:
    if voter.key not in life.voters.keys:
        return ErrorCode.VOTER_NOT_FOUND
    return life.voters.with_voter(voter) if _is_supporting(voter) else ErrorCode.INVALID_REQUEST


def _is_supporting(voter: Voter) -> bool:
    lowest, highest = voter.kraft_versions
    return lowest <= KRAFT_VERSION <= highest
