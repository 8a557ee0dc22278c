"""Voters are added, removed and updated, one at a time (KIP-853).

Two sets that differ by one voter have a majority in common. So the set of a record can count from
the moment it is in the log, as long as the one before it is committed. It has to be committed in
the leader's own epoch, too: otherwise two leaders, each with a change that the other has not seen,
could both find a majority.
"""

from __future__ import annotations

from moldau.cluster.raft import leading
from moldau.cluster.raft.effects import Answer
from moldau.cluster.raft.life import Life
from moldau.cluster.raft.requests import (
    AddVoterRequest,
    RemoveVoterRequest,
    Token,
    UpdateVoterRequest,
    VoterChangeAnswer,
    VoterChangeRequest,
    VotersChange,
)
from moldau.cluster.raft.states import Leader, PendingVoterChange
from moldau.cluster.raft.transitions import refuse
from moldau.cluster.raft.voters import Voter, VoterSet
from moldau.protocol.errors import ErrorCode

_KRAFT_VERSION = 1


def voter_change_wanted(life: Life, token: Token, request: VoterChangeRequest) -> None:
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
    offset = life.log.end_offset
    life.voter_history.append(offset, wanted)
    leading.append(life, state, VotersChange(wanted), 1)
    if isinstance(request, UpdateVoterRequest) or (
        isinstance(request, AddVoterRequest) and not request.ack_when_committed
    ):
        # Who asks may be needed for the commit, and fetches no more until it is answered.
        life.emit(Answer(token, VoterChangeAnswer(ErrorCode.NONE, life.epoch, life.leader)))
    else:
        state.change = PendingVoterChange(token, request, offset)


def _changed(life: Life, state: Leader, request: VoterChangeRequest) -> VoterSet | ErrorCode:
    """Return the set that is asked for, or the error that says why there is none."""
    if not life.voter_history.is_dynamic:
        # Under kraft.version 0 the settings name the voters, and an update tells nothing new.
        is_update = isinstance(request, UpdateVoterRequest)
        return life.voters if is_update else ErrorCode.UNSUPPORTED_VERSION
    if not may_change(life, state):
        return ErrorCode.REQUEST_TIMED_OUT
    match request:
        case AddVoterRequest():
            return _added(life, state, request.voter)
        case RemoveVoterRequest():
            return _removed(life, request)
        case _:
            return _updated(life, request.voter)


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
    return lowest <= _KRAFT_VERSION <= highest
